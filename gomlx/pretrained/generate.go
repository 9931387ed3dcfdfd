package pretrained

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	exact "github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Written is the result of Generate.
type Written struct {
	Tokens []int32
	// StateBytes is the memory of the text. It does not depend on the length of the text if all layers have
	// features, clusters or windows. Exact layers keep the keys and values of the longest text asked for.
	StateBytes int
}

// Generate continues a prompt by at most n tokens, which choose picks from the logits. It stops early at a token
// that ends a text. Every token is read once: layers with features or clusters and layers with a window keep states
// of constant size, exact layers a cache.
func (m *Model) Generate(b compute.Backend, prompt []int32, n int,
	choose func(logits []float32) int32) (Written, error) {
	if !m.Causal() {
		return Written{}, fmt.Errorf("%w: a %s does not generate text", ErrModel, m.Type)
	}
	if m.Attention.Exact > 0 {
		return Written{}, fmt.Errorf("%w: exact keys of clusters are chosen from all keys, of which no state is kept: convert without them",
			ErrModel)
	}
	if err := m.checkIDs(prompt); err != nil {
		return Written{}, fmt.Errorf("prompt: %w", err)
	}
	length := len(prompt) + max(0, n-1) // the last token is never read
	if length > m.Positions {
		return Written{}, fmt.Errorf("%w: a prompt of %d tokens and %d more: the model has positions for %d", ErrModel,
			len(prompt), n, m.Positions)
	}
	store := model.NewStore()
	defer store.Finalize()
	if err := m.Fill(store); err != nil {
		return Written{}, err
	}
	in := func(scope *model.Scope, g *Graph, t *text) net {
		return net{Model: m, scope: scope.Store().Scope("/" + scopeName), g: g, text: t}
	}
	r, err := layer.Decoder{
		Empty: func(scope *model.Scope, g *Graph) []*Node {
			return in(scope, g, &text{length: length}).empty()
		},
		Extend: func(scope *model.Scope, tokens, from *Node, states []*Node) (*Node, []*Node) {
			t := &text{from: from, length: length, before: states}
			n := in(scope, tokens.Graph(), t)
			last := SliceAxis(n.forward(tokens).Hidden, 1, AxisElem(-1))
			return Squeeze(n.logits(last), 1), t.after
		},
	}.Open(b, store)
	if err != nil {
		return Written{}, err
	}
	defer r.Close()
	w := Written{StateBytes: r.Bytes()}
	w.Tokens, err = r.Write(prompt, n, choose, m.End)
	return w, err
}

// text is the part of a text that a call reads, and the states around it.
type text struct {
	from          *Node   // position of the first token
	length        int     // the longest text
	before, after []*Node // states that layers have not taken yet, and states that layers have left
}

// cached returns the number of keys that an exact layer keeps.
func (n net) cached(l int) int {
	if n.Local(l) {
		return n.Window
	}
	return n.text.length
}

// empty returns the states of all layers before the first token.
func (n net) empty() (all []*Node) {
	like := Scalar(n.g, dtypes.Float32, 0)
	for l := range n.Layers {
		if n.exact(l) {
			all = append(all, Zeros(n.g, shapes.Make(like.DType(), 1, n.KVHeads, n.cached(l), 2*n.HeadDim)))
			continue
		}
		if a := n.Attention; a.Centroids != nil {
			all = append(all, n.clusters(a, l).Empty(like, 1, n.KVHeads, n.HeadDim, n.HeadDim).Nodes()...)
			continue
		}
		a, _ := n.features(l)
		all = append(all, a.Empty(like, 1, n.KVHeads, n.HeadDim).Nodes()...)
	}
	return all
}

// recall is exact attention over the cached keys and values, kept as pairs in order, and the new ones.
func (n net) recall(l int, q, k, v *Node) *Node {
	t, count, rows := n.text, n.cached(l), q.Shape().Dimensions[2]
	all := Concatenate([]*Node{t.before[0], Concatenate([]*Node{k, v}, -1)}, 2)
	t.before, t.after = t.before[1:], append(t.after, SliceAxis(all, 2, AxisRangeToEnd(rows)))
	see := Reshape(rfx.Recent(t.from, rows, count, 0), 1, 1, rows, count+rows)
	k, v = SliceAxis(all, 3, AxisRangeFromStart(n.HeadDim)), SliceAxis(all, 3, AxisRangeToEnd(n.HeadDim))
	out, _ := exact.Core(q, k, v, exact.LayoutBHSD, exact.CoreOptions{Scale: n.Scale, AttentionMask: see})
	return out
}

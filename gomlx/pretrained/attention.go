package pretrained

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	exact "github.com/gomlx/gomlx/ml/layers/attention"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/kernel"
)

// Attention says how the heads of a model attend. Its JSON form is attention.json in the folder.
type Attention struct {
	// Heads has the spec of every key/value head of every layer. A layer without specs is exact.
	Heads [][]randfeat.Spec `json:"heads,omitempty"`
	// Window and Sinks give near and first keys their exact weights (rfx.Attention).
	Window int `json:"window,omitempty"`
	Sinks  int `json:"sinks,omitempty"`
	// Centroids selects attention over clusters of keys instead of features (rfx.Centroids); nil means features.
	// Centres has the centres of every key/value head of every layer. A layer without centres is exact. If the spec
	// has no clusters, only near keys and sinks count, and there are no centres.
	Centroids *rfx.Clusters    `json:"centroids,omitempty"`
	Centres   [][]*rfx.Centres `json:"centres,omitempty"`
	// Exact is rfx.Centroids.Exact for decoders: the number of clustered keys that a query reads exactly.
	Exact int `json:"exact,omitempty"`
}

const attentionFile = "attention.json"

func (m *Model) readAttention() error {
	path := filepath.Join(m.dir, attentionFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var a Attention
	if err := d.Decode(&a); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := m.SetAttention(a); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// kernelOf returns the kernel of the scores, exp(Scale·q·k).
func (c Config) kernelOf() kernel.Kernel {
	return kernel.Kernel{Kind: kernel.Softmax, Scale: 1 / math.Sqrt(c.Scale)}
}

// SetAttention checks that the attention fits the model and uses it from now on. The matrices M of the family dark
// become weights.
func (m *Model) SetAttention(a Attention) error {
	if len(a.Heads) != 0 && len(a.Heads) != m.Layers {
		return fmt.Errorf("%w: specs for %d layers, the model has %d", ErrModel, len(a.Heads), m.Layers)
	}
	if a.Window < 0 || a.Sinks < 0 {
		return fmt.Errorf("%w: window %d, sinks %d", ErrModel, a.Window, a.Sinks)
	}
	for name := range m.weights { // matrices of the previous attention
		var l int
		if _, err := fmt.Sscanf(name, darkFormat, &l); err == nil {
			delete(m.weights, name)
		}
	}
	if err := m.checkCentroids(a); err != nil {
		return err
	}
	for l, specs := range a.Heads {
		if len(specs) == 0 {
			continue
		}
		if len(specs) != m.KVHeads {
			return fmt.Errorf("%w: layer %d: %d specs for %d key/value heads", ErrModel, l, len(specs), m.KVHeads)
		}
		if m.Local(l) {
			return fmt.Errorf("%w: layer %d has a window of its own and stays as it is", ErrModel, l)
		}
		base, dark, err := split(specs)
		if err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
		if _, err := rfx.NewMap(base...); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
		if dim := specs[0].Dim; dim != m.HeadDim {
			return fmt.Errorf("%w: layer %d: specs of %d columns for heads of %d", ErrModel, l, dim, m.HeadDim)
		}
		if dark != nil {
			m.weights[darkName(l)] = weight{[]int{m.KVHeads, len(dark) / m.KVHeads / m.HeadDim, m.HeadDim}, dark}
		}
	}
	m.Attention = a
	return nil
}

// checkCentroids checks that the clusters fit the model.
func (m *Model) checkCentroids(a Attention) error {
	switch {
	case a.Centroids == nil && a.Centres == nil && a.Exact == 0:
		return nil
	case a.Centroids == nil || a.Centroids.Clusters > 0 && len(a.Centres) != m.Layers || a.Heads != nil ||
		a.Centroids.Clusters == 0 && a.Centres != nil || a.Window != 0 || a.Sinks != 0:
		return fmt.Errorf("%w: centres of %d layers, want a spec and those of %d, and no features beside them", ErrModel,
			len(a.Centres), m.Layers)
	}
	for l := range m.Layers {
		if m.exactIn(a, l) {
			continue
		}
		if m.Local(l) {
			return fmt.Errorf("%w: layer %d has a window of its own and stays as it is", ErrModel, l)
		}
		if err := m.clusters(a, l).Check(m.KVHeads, m.HeadDim); err != nil {
			return fmt.Errorf("%w: layer %d: %w", ErrModel, l, err)
		}
		for h, c := range m.clusters(a, l).Centres {
			if math.Abs(c.Scale()-m.Scale) > 1e-9*m.Scale {
				return fmt.Errorf("%w: layer %d, head %d: centres for scores scaled by %g, the model has %g", ErrModel, l,
					h, c.Scale(), m.Scale)
			}
		}
	}
	return nil
}

// clusters returns the centroid attention of a layer.
func (m *Model) clusters(a Attention, l int) rfx.Centroids {
	c := rfx.Centroids{Spec: *a.Centroids, Scale: m.Scale, Causal: m.Causal(), Exact: a.Exact}
	if c.Spec.Clusters > 0 {
		c.Centres = a.Centres[l]
	}
	return c
}

const darkFormat = "dark.%d"

func darkName(layer int) string { return fmt.Sprintf(darkFormat, layer) }

// Trainable reports whether some layer has matrices M to train.
func (m *Model) Trainable() bool {
	for l := range m.Layers {
		if _, ok := m.weights[darkName(l)]; ok {
			return true
		}
	}
	return false
}

// split removes the matrices M from specs of the family dark, so that they can be trained. It returns the specs of
// the base family, to be applied at Mx, and the matrices.
func split(specs []randfeat.Spec) (base []randfeat.Spec, m []float32, err error) {
	for h, s := range specs {
		f, ok := s.Family.(family.DARK)
		if !ok {
			if m != nil {
				return nil, nil, fmt.Errorf("%w: head %d is not of family dark, head 0 is", ErrModel, h)
			}
			base = append(base, s)
			continue
		}
		if h > 0 && m == nil || f.M.IsEmpty() || f.M.Cols != s.Dim || !s.Kernel.M.IsEmpty() {
			return nil, nil, fmt.Errorf("%w: head %d: family dark without a matrix of its own", ErrModel, h)
		}
		for i := range f.M.Rows {
			for _, v := range f.M.Row(i) {
				m = append(m, float32(v))
			}
		}
		if s.Dim, s.Family = f.M.Rows, f.Base; s.Family == nil {
			s.Family = family.Positive{}
		}
		base = append(base, s)
	}
	return base, m, nil
}

// Head is the attention of one layer: the rows that it read, queries [batch, heads, length, dim], keys and values of
// its key/value heads, and the output.
type Head struct{ In, Q, K, V, Out *Node }

// exact reports whether a layer attends exactly.
func (m *Model) exact(l int) bool { return m.exactIn(m.Attention, l) }

func (m *Model) exactIn(a Attention, l int) bool {
	if a.Centroids != nil && a.Centroids.Clusters == 0 {
		return m.Local(l)
	}
	return (len(a.Heads) == 0 || len(a.Heads[l]) == 0) && (len(a.Centres) == 0 || len(a.Centres[l]) == 0)
}

// features returns the attention of a layer with features, and the numbers of its matrices M, or nil without them.
// It panics on specs that SetAttention would refuse.
func (m *Model) features(l int) (a rfx.Attention, dark []float32) {
	specs, dark, err := split(m.Attention.Heads[l])
	var maps *rfx.Map
	if err == nil {
		maps, err = rfx.NewMap(specs...)
	}
	if err != nil {
		panic(fmt.Errorf("layer %d: %w", l, err))
	}
	return rfx.Attention{Map: maps, Causal: m.Causal(), Window: m.Attention.Window, Sinks: m.Attention.Sinks}, dark
}

// attend applies the attention of a layer: exact, by clusters or by features. In generation it continues from the
// state of the layer.
func (n net) attend(l int, q, k, v *Node) Head {
	m, h := n.Model, Head{Q: q, K: k, V: v}
	if m.exact(l) {
		if n.text != nil {
			h.Out = n.recall(l, q, k, v)
			return h
		}
		window := 0
		if m.Local(l) {
			window = m.Window
		}
		see := layer.Pairs(q, m.Causal(), window, n.see)
		h.Out, _ = exact.Core(q, k, v, exact.LayoutBHSD, exact.CoreOptions{Scale: m.Scale, AttentionMask: see,
			UseCausalMask: m.Causal() && see == nil})
		return h
	}
	if m.Attention.Centroids != nil {
		c := m.clusters(m.Attention, l)
		if n.text == nil {
			h.Out = c.Forward(q, k, v, n.see)
			return h
		}
		h.Out = goOn(n.text, c, q, k, v)
		return h
	}
	a, dark := m.features(l)
	if dark != nil {
		w := n.weight(darkName(l))
		q, k = layer.Multiply(q, w), layer.Multiply(k, w)
	}
	if n.text == nil {
		h.Out = a.Forward(q, k, v, n.see)
		return h
	}
	h.Out = goOn(n.text, a, q, k, v)
	return h
}

// goOn reads tokens after the state of a layer: it takes the state from t.before and appends the new one to t.after.
func goOn[S interface{ Nodes() []*Node }](t *text, a interface {
	State(nodes []*Node) (S, []*Node)
	Extend(s S, from, q, k, v *Node) (*Node, S)
}, q, k, v *Node) *Node {
	s, rest := a.State(t.before)
	out, s := a.Extend(s, t.from, q, k, v)
	t.before, t.after = rest, append(t.after, s.Nodes()...)
	return out
}

// Package layer is multi-head self-attention for models made of GoMLX layers. Its variables have the paths of GoMLX's
// own attention.SelfAttention, so a model trained with one runs with the other.
//
// Apply the layer in the model function. A parameter of the scope selects the attention:
//
//	store.RootScope().SetParam(layer.ParamAttention, "oprf:simplex:256")
//	x = layer.SelfAttention{Heads: 8, HeadDim: 64, Causal: true}.Apply(scope, x, rfx.Visible{})
//
// With [ParamVariable], [SelfAttention.Refresh] draws new projections and refits their parameters without recompiling.
// To generate text, describe the model as a [Decoder]. States have constant size; exact attention has none and cannot
// be used in a Decoder.
package layer

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/internal/rng"
)

// Parameters of a scope. The layer reads them in its own scope, so they may differ between layers.
const (
	// ParamAttention selects the attention:
	//
	//   - "exact", the default;
	//   - FAMILY[:COUPLING[:PROJECTIONS]], as on the command line, with parameters as {"name":"oprf","a":-0.1}; the
	//     defaults are orthogonal and 256. The projections of the family lfk are trained;
	//   - "centroid[:CLUSTERS]", attention over clusters of keys (rfx.Centroids), by default 64;
	//   - "mean", where every visible key has the same weight;
	//   - "random", with weights uniform in [0, 1) that ignore queries and keys;
	//   - "self", where every position sees only its own key. It costs nothing: the lower bound of a model's time.
	ParamAttention = "attention"
	ParamSeed      = "attention_seed"   // int, seed of the projections; every layer and head derives its own; 1
	ParamWindow    = "attention_window" // int, rfx.Attention.Window
	ParamSinks     = "attention_sinks"  // int, rfx.Attention.Sinks
	ParamBlock     = "attention_block"  // int, rfx.Clusters.Block of centroid
	// ParamDark > 0 multiplies queries and keys by a learned matrix with so many rows per key/value head, initially
	// the identity. The kernel becomes exp(qᵀMᵀMk/√d) (DARK 4.1). Its variable is "dark" in the scope of the layer.
	ParamDark = "attention_dark"
	// ParamVariable makes the projections and parameters of features variables, in the scope "features" of the
	// layer. Refresh changes them without recompiling. Parameters that are not given start fitted to standard normal
	// rows.
	ParamVariable = "attention_variable"
	// ParamDouble computes the attention in float64 (rfx.Attention.Double), bool. It cannot be combined with
	// projections that are variables: ParamVariable and lfk.
	ParamDouble = "attention_double"
	// ParamLearned turns the projections of ParamVariable into one trained variable, "lfk", for families whose
	// queries and keys share them: positive and oprf.
	ParamLearned = "attention_learned"
)

// SelfAttention is the layer. Only Heads and HeadDim must be set.
type SelfAttention struct {
	Heads, HeadDim int
	KVHeads        int // each shared by a group of neighbouring heads; 0: Heads
	Causal         bool
	Position       pos.QKEncoder // e.g. pos.NewRoPE(10000); nil: none
	NoBias         bool
	// Maps are the features, one per key/value head or one for all. Nil draws them as the parameters of the scope
	// say.
	Maps *rfx.Map
}

// Apply applies the layer to x [batch, length, width] and returns the same shape.
func (l SelfAttention) Apply(scope *model.Scope, x *Node, see rfx.Visible) *Node {
	l = l.normal()
	if l.Heads < 1 || l.HeadDim < 1 || l.KVHeads < 1 || l.Heads%l.KVHeads != 0 || x.Rank() != 3 {
		panic(fmt.Errorf("layer: %d heads of %d, %d for keys, on rows %s", l.Heads, l.HeadDim, l.KVHeads, x.Shape()))
	}
	width := x.Shape().Dimensions[2]
	scope = scope.In("MultiHeadAttention")
	q, k, v := l.heads(scope, x, ScalarZero(x.Graph(), dtypes.Int32))
	out := l.Attend(scope, q, k, v, see)
	return l.output(scope, out, width)
}

// normal fills in the number of key/value heads.
func (l SelfAttention) normal() SelfAttention {
	if l.KVHeads == 0 {
		l.KVHeads = l.Heads
	}
	return l
}

// heads returns queries, keys and values [batch, heads, length, dim] of rows at positions from and later.
func (l SelfAttention) heads(scope *model.Scope, x, from *Node) (q, k, v *Node) {
	k = Dense(scope.In("key"), x, !l.NoBias, l.KVHeads, l.HeadDim) // [batch, length, heads, dim]
	q = Dense(scope.In("query"), x, !l.NoBias, l.Heads, l.HeadDim)
	v = Dense(scope.In("value"), x, !l.NoBias, l.KVHeads, l.HeadDim)
	if l.Position != nil {
		q, k = l.Position.EncodeQK(q, k, pos.SequentialPositions(x.Graph(), from, x.Shape().Dimensions[1]), 1)
	}
	heads := func(x *Node) *Node { return TransposeAllAxes(x, 0, 2, 1, 3) }
	return heads(q), heads(k), heads(v)
}

// embed multiplies queries and keys by DARK's matrix, if there is one.
func (l SelfAttention) embed(scope *model.Scope, q, k *Node) (*Node, *Node) {
	rows := model.GetParamOr(scope, ParamDark, 0)
	if rows == 0 {
		return q, k
	}
	m := l.dark(scope, rows, q)
	return Multiply(q, m), Multiply(k, m)
}

// output joins the heads and projects them.
func (l SelfAttention) output(scope *model.Scope, out *Node, width int) *Node {
	d := out.Shape().Dimensions
	out = Reshape(TransposeAllAxes(out, 0, 2, 1, 3), d[0], d[2], l.Heads*l.HeadDim)
	return Dense(scope.In("output"), out, !l.NoBias, width)
}

// Attend is the attention of Apply alone, on queries, keys and values [batch, heads, length, dim], for models that
// have their own projections. Its variables are in scope itself.
func (l SelfAttention) Attend(scope *model.Scope, q, k, v *Node, see rfx.Visible) *Node {
	l = l.normal()
	q, k = l.embed(scope, q, k)
	kind := model.GetParamOr(scope, ParamAttention, "exact")
	scale := 1 / math.Sqrt(float64(l.HeadDim))
	if kind == "random" {
		return l.random(scope, q, v, see)
	}
	if kind == "self" {
		return l.self(q, k, v)
	}
	if kind == "mean" {
		q, k = ZerosLike(q), ZerosLike(k)
	}
	if kind == "mean" || kind == "exact" {
		out, _ := attention.Core(q, k, v, attention.LayoutBHSD, attention.CoreOptions{Scale: scale,
			AttentionMask: Pairs(q, l.Causal, 0, see), UseCausalMask: l.Causal && see == rfx.Visible{}})
		return out
	}
	var forward func(q, k, v *Node, see rfx.Visible) *Node
	n, centred, err := clusters(kind)
	switch {
	case err != nil:
	case centred:
		var c rfx.Centroids
		c, err = l.centroids(scope, q, n)
		forward = c.Forward
	default:
		var a rfx.Attention
		a, err = l.linear(scope, q)
		forward = a.Forward
	}
	if err == nil && model.GetParamOr(scope, ParamDouble, false) &&
		(model.GetParamOr(scope, ParamVariable, false) || learned(scope)) {
		err = fmt.Errorf("%s: %s needs projections that are constants", scope.Scope(), ParamDouble)
	}
	if err != nil {
		panic(err)
	}
	if model.GetParamOr(scope, ParamVariable, false) && scope.IsTraining(q.Graph()) {
		l.keep(scope, q, k, see)
	}
	return forward(q, k, v, see)
}

// self returns the values. Queries and keys do not influence them, but they and their gradients are computed, so
// that the cost of everything but the attention stays the same.
func (l SelfAttention) self(q, k, v *Node) *Node {
	group := func(x *Node) *Node {
		d := x.Shape().Dimensions
		x = BroadcastToDims(ExpandAxes(x, 2), d[0], d[1], l.Heads/l.KVHeads, d[2], d[3])
		return Reshape(x, d[0], l.Heads, d[2], d[3])
	}
	return Add(group(v), MulScalar(Add(q, group(k)), 0))
}

// random is attention with weights drawn once per head and pair of positions: the baseline of DARK §6.
func (l SelfAttention) random(scope *model.Scope, q, v *Node, see rfx.Visible) *Node {
	g, n, group := q.Graph(), q.Shape().Dimensions[2], l.Heads/l.KVHeads
	w := make([]float64, l.Heads*n*n)
	src := rng.Stream(seed(scope))
	for i := range w {
		w[i] = rng.Open(src)
	}
	weights := ConvertDType(ConstTensor(g, narrow(w, v.DType(), 1, l.Heads, n, n)), v.DType())
	if l.Causal || see != (rfx.Visible{}) {
		on := Pairs(q, l.Causal, 0, see)
		if on == nil {
			on = Reshape(LowerTriangular(g, n), 1, 1, n, n)
		}
		d := []int{on.Shape().Dimensions[0], l.Heads, n, n}
		none := Zeros(g, shapes.Make(v.DType(), d...))
		weights = Where(BroadcastToDims(on, d...), BroadcastToDims(weights, d...), none)
	}
	sum := ReduceAndKeep(weights, ReduceSum, -1)
	weights = Div(weights, Where(IsZero(sum), OnesLike(sum), sum))
	d := v.Shape().Dimensions
	weights = BroadcastToDims(weights, d[0], l.Heads, n, n)
	weights = Reshape(weights, d[0], l.KVHeads, group*n, n)
	out := Einsum("bhqk,bhkd->bhqd", weights, v)
	return Reshape(out, d[0], l.Heads, n, d[3])
}

// drawn reports whether a kind of attention has features.
func drawn(kind string) bool {
	_, centred, _ := clusters(kind)
	return kind != "exact" && kind != "mean" && kind != "random" && kind != "self" && !centred
}

// parse parses FAMILY[:COUPLING[:PROJECTIONS]].
func parse(text string, dim int) (randfeat.Spec, error) {
	s := randfeat.Spec{Dim: dim, M: 256, Coupling: coupling.Orthogonal{}}
	var head string
	if i := strings.LastIndexByte(text, '}'); strings.HasPrefix(text, "{") && i > 0 { // a family with parameters
		head, text = text[:i+1], text[i+1:]
	}
	parts := strings.Split(text, ":")
	parts[0] = head + parts[0]
	text = head + text
	var err error
	if parts[0] == "lfk" {
		parts[0] = "positive" // the layer trains its projections
	}
	if s.Family, err = family.Parse(parts[0]); err != nil {
		return s, fmt.Errorf("%s %q: exact, mean, random, centroid, or a family: %w", ParamAttention, text, err)
	}
	if len(parts) > 1 {
		if s.Coupling, err = coupling.Parse(parts[1]); err != nil {
			return s, fmt.Errorf("%s %q: %w", ParamAttention, text, err)
		}
	}
	if len(parts) > 2 {
		if s.M, err = strconv.Atoi(parts[2]); err != nil || len(parts) > 3 {
			return s, fmt.Errorf("%s %q: after family and coupling comes a number of projections", ParamAttention, text)
		}
	}
	return s, nil
}

// seed returns the seed of the layer, from the parameter and the path of the scope, so that every layer has
// projections of its own.
func seed(scope *model.Scope) uint64 {
	h := fnv.New64a()
	h.Write([]byte(scope.Scope()))
	return h.Sum64() ^ uint64(model.GetParamOr(scope, ParamSeed, 1))*0x9e3779b97f4a7c15
}

// dark returns the matrices M [kvHeads, rows, dim], initially the identity.
func (l SelfAttention) dark(scope *model.Scope, rows int, like *Node) *Node {
	eye := make([]float64, l.KVHeads*rows*l.HeadDim)
	for h := range l.KVHeads {
		for r := range min(rows, l.HeadDim) {
			eye[(h*rows+r)*l.HeadDim+r] = 1
		}
	}
	m := scope.VariableWithValue("dark", narrow(eye, like.DType(), l.KVHeads, rows, l.HeadDim))
	return m.NodeValue(like.Graph())
}

// narrow makes a tensor of float64, or of float32 for all other precisions.
func narrow(x []float64, dtype dtypes.DType, dims ...int) *tensors.Tensor {
	if dtype == dtypes.Float64 {
		return tensors.FromFlatDataAndDimensions(x, dims...)
	}
	y := make([]float32, len(x)) // for half precision too: variables are at least float32
	for i, v := range x {
		y[i] = float32(v)
	}
	return tensors.FromFlatDataAndDimensions(y, dims...)
}

// Multiply returns M·x for every head. Heads of x that share a key/value head share M.
func Multiply(x, m *Node) *Node {
	d := x.Shape().Dimensions
	kv := m.Shape().Dimensions[0]
	grouped := Reshape(x, d[0], kv, d[1]/kv*d[2], d[3])
	out := Einsum("bhld,hrd->bhlr", grouped, ConvertDType(m, x.DType()))
	return Reshape(out, d[0], d[1], d[2], m.Shape().Dimensions[1])
}

// Pairs returns which pairs of queries [batch, heads, length, dim] and as many keys count in exact attention [batch,
// 1, queries, keys]: causal ones, with a window only those less than window positions back, and what see allows. Nil
// means all pairs, or all causal pairs.
func Pairs(q *Node, causal bool, window int, see rfx.Visible) *Node {
	if (see == rfx.Visible{}) && window == 0 {
		return nil
	}
	g, n, b := q.Graph(), q.Shape().Dimensions[2], q.Shape().Dimensions[0]
	var all *Node
	and := func(m *Node) {
		m = BroadcastToDims(m, b, 1, n, n)
		if all != nil {
			m = LogicalAnd(all, m)
		}
		all = m
	}
	if causal {
		and(Reshape(LowerTriangular(g, n), 1, 1, n, n))
	}
	if window > 0 {
		at := shapes.Make(dtypes.Int32, n, n)
		back := Sub(Iota(g, at, 0), Iota(g, at, 1))
		and(Reshape(LessThan(back, Scalar(g, dtypes.Int32, window)), 1, 1, n, n))
	}
	if see.Mask != nil {
		and(Reshape(see.Mask, b, 1, 1, n))
	}
	if s := see.Segments; s != nil {
		row, col := Reshape(s, b, 1, n, 1), Reshape(s, b, 1, 1, n)
		and(Equal(BroadcastToDims(row, b, 1, n, n), BroadcastToDims(col, b, 1, n, n)))
	}
	return all
}

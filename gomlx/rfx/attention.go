package rfx

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
)

// Attention is linear attention with the weights φ1(q_i)·φ2(k_j) of a map, like linear.Attention. Only Map must be
// set.
type Attention struct {
	Map    *Map
	Causal bool // a query sees the keys up to its own position
	// Window > 0 gives the nearest keys their exact weights κ(q, k). All other keys are weighted by features, under
	// one normaliser. Near are the last Window keys if Causal, otherwise those less than Window positions away on
	// either side.
	Window int
	// Sinks > 0 also gives the keys at the first Sinks positions their exact weights, for every query that sees
	// them.
	Sinks int
	// Chunk is the number of positions whose scores causal attention computes directly: a power of two, at least 16.
	// 0 means 64, or 128 if there are more than 1024 positions.
	Chunk int
	// Double computes in float64, whatever the type of the inputs; outputs and states keep that type. It avoids the
	// rounding of float32 products that a backend shortens to TF32 (backend.TF32). It takes twice the memory, and more
	// time on GPUs with few float64 units.
	Double bool
	// Operations computes as a graph of operations even if the backend has kernels.
	Operations bool
}

// Visible says which keys count. The zero value means all keys.
type Visible struct {
	Mask *Node // [batch, keys], false for padding, which may hold anything; nil: none
	// Segments are the integer ids of packed sequences [batch, length]. Equal ids must be neighbours. A query sees
	// only keys of its own segment.
	Segments *Node
}

// Forward returns the attention of queries q [batch, heads, length, dim] over keys k [batch, kvHeads, keys, dim] and
// values v [batch, kvHeads, keys, valueDim]: [batch, heads, length, valueDim]. heads is a multiple of kvHeads;
// neighbouring heads share a key/value head. With Causal, a Window or Segments there must be as many queries as keys.
//
// A query that sees no key gets zeros. If order matters, so does a query whose features are all 100 nats away from
// those of the keys it sees. This affects some rows of norm 40 after the scaling of the kernel, and more rows of larger
// norms; their estimates are meaningless anyway.
func (a Attention) Forward(q, k, v *Node, see Visible) *Node {
	if dtype := q.DType(); a.Double && dtype != dtypes.Float64 {
		return ConvertDType(a.Forward(double(q), double(k), double(v), see), dtype)
	}
	s, err := a.check(q, k, v, see)
	if err != nil {
		panic(err)
	}
	if !a.Operations {
		if out := a.kernels(q, k, v, see, s); out != nil {
			return out
		}
	}
	// Half precision has too few digits for exponents. Exponents and sums are float32; products of features and
	// values have half precision.
	dtype := q.DType()
	if dtype.IsHalfPrecision() {
		q, k = ConvertDType(q, dtypes.Float32), ConvertDType(k, dtypes.Float32)
	}
	if see.Mask != nil { // nothing of a masked row, NaN least of all, may reach a result or a gradient
		k, v = where(rows(see.Mask), k, 0), where(rows(see.Mask), v, 0)
	}
	in := input{q: Reshape(q, s.batch, s.kvHeads, s.group, s.queries, s.dim), k: k, v: aligned(withOnes(v)), see: see,
		sizes: s}
	out := quotient(a.sums(in), s.value)
	return ConvertDType(Reshape(out, s.batch, s.heads, s.queries, s.value), dtype)
}

// double converts a node to float64 and keeps nil.
func double(x *Node) *Node {
	if x == nil {
		return nil
	}
	return ConvertDType(x, dtypes.Float64)
}

type sizes struct{ batch, heads, kvHeads, group, queries, keys, dim, value int }

// input is the input of one call: queries [batch, kvHeads, group, length, dim], and values with a column of ones.
type input struct {
	q, k, v *Node
	see     Visible
	sizes
}

// measure returns the sizes of queries, keys and values, or an error if they do not fit together.
func measure(q, k, v *Node, see Visible) (sizes, error) {
	var s sizes
	for _, x := range []*Node{q, k, v} {
		if x.Rank() != 4 {
			return s, fmt.Errorf("rfx: shape %s is not [batch, heads, length, dim]", x.Shape())
		}
	}
	qd, kd, vd := q.Shape().Dimensions, k.Shape().Dimensions, v.Shape().Dimensions
	s = sizes{qd[0], qd[1], kd[1], 0, qd[2], kd[2], qd[3], vd[3]}
	is := func(x *Node, length int) bool {
		return x == nil || x.Rank() == 2 && x.Shape().Dimensions[0] == s.batch && x.Shape().Dimensions[1] == length
	}
	switch {
	case kd[0] != s.batch || vd[0] != s.batch || vd[1] != s.kvHeads || vd[2] != s.keys || kd[3] != s.dim:
		return s, fmt.Errorf("rfx: queries %s, keys %s and values %s do not fit", q.Shape(), k.Shape(), v.Shape())
	case s.heads%s.kvHeads != 0:
		return s, fmt.Errorf("rfx: %d query heads are not a multiple of %d key/value heads", s.heads, s.kvHeads)
	case !is(see.Mask, s.keys):
		return s, fmt.Errorf("rfx: mask %s for [%d, %d] keys", see.Mask.Shape(), s.batch, s.keys)
	case !is(see.Segments, s.queries):
		return s, fmt.Errorf("rfx: segments %s for [%d, %d] positions", see.Segments.Shape(), s.batch, s.queries)
	}
	s.group = s.heads / s.kvHeads
	return s, nil
}

func (a Attention) check(q, k, v *Node, see Visible) (sizes, error) {
	s, err := measure(q, k, v, see)
	switch {
	case err != nil:
		return s, err
	case a.Map == nil:
		return s, fmt.Errorf("rfx: attention without a map")
	case s.dim != a.Map.dim:
		return s, fmt.Errorf("rfx: queries of %d columns for a map of %d", s.dim, a.Map.dim)
	case a.Map.Heads() != 1 && a.Map.Heads() != s.kvHeads:
		return s, fmt.Errorf("rfx: %d maps for %d key/value heads", a.Map.Heads(), s.kvHeads)
	case a.Chunk != 0 && (a.Chunk < least || a.Chunk&(a.Chunk-1) != 0):
		return s, fmt.Errorf("rfx: chunks of %d positions: take a power of two from %d on", a.Chunk, least)
	case a.Window < 0 || a.Sinks < 0:
		return s, fmt.Errorf("rfx: window %d, sinks %d", a.Window, a.Sinks)
	case a.ordered(see) && s.queries != s.keys:
		return s, fmt.Errorf("rfx: %d queries and %d keys, where positions count", s.queries, s.keys)
	case a.Sinks > 0 && see.Segments != nil:
		return s, fmt.Errorf("rfx: sinks of packed sequences are not supported")
	}
	if a.Window > 0 || a.Sinks > 0 {
		err = a.Map.exactWeights()
	}
	return s, err
}

// ordered reports whether the positions of queries and keys matter.
func (a Attention) ordered(see Visible) bool {
	return a.Causal || a.Window > 0 || see.Segments != nil
}

// sums adds the sums over keys weighted by features, over near keys and over sinks. Every key counts once. Attention
// that is ordered but not causal sweeps in both directions.
func (a Attention) sums(in input) partial {
	k := a.Map.keyRows(in)
	if a.Sinks > 0 {
		k = k.from(min(a.Sinks, in.keys))
	}
	q, row := a.Map.queryRows(in)
	var total partial
	if !a.ordered(in.see) {
		total = k.state().as(in.v.DType()).read(q.flat()).unflat(in.group)
	} else {
		total = a.sweep(q, k, in, a.Window)
		if !a.Causal {
			right := a.sweep(q.reverse(), k.reverse(), in.reverse(), max(1, a.Window))
			total = total.plus(right.reverse())
		}
	}
	if a.Window > 0 || a.Sinks > 0 {
		total = total.times(row)
	}
	if a.Window > 0 {
		total = total.plus(a.near(in))
	}
	if a.Sinks > 0 {
		total = total.plus(a.sinks(in))
	}
	return total
}

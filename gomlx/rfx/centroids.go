package rfx

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// Centroids is attention over clusters of keys, with sinks and a window of exact keys under one normaliser. Gradients
// hold clusters, key weights and shares constant.
//
// Without Causal, landmarks weigh the keys of every call (Clusters.Landmarks). Without clusters, keys outside the
// window and the sinks are ignored.
type Centroids struct {
	Spec Clusters
	// Causal lets a query see only the keys up to its own position. Clusters are then the means of the keys so far.
	Causal bool
	// Exact > 0 gives every query of causal attention so many clustered keys with their exact weights: those with
	// its largest scores, plus those that earlier queries of its block and other heads of its group have chosen. The
	// choice computes the scores of all pairs, without gradients; the attention itself reads Exact keys per query.
	// There is no state of constant size, so Extend refuses it.
	Exact int
	// Centres assign the keys to clusters, one per key/value head. FitCentres makes them.
	Centres []*Centres
	Scale   float64 // of the logits; 0: 1/√d
	Numbers Numbers // supplies the nodes of the centres, see Map.With; nil: constants
	// Own says that queries and keys are of the same sequence. Then queries that are padding do not influence the
	// weights of keys.
	Own bool
	// Double computes in float64, whatever the inputs are; see Attention.Double.
	Double bool
}

// Check reports whether the centres fit kvHeads key/value heads of dimension dim in one graph.
func (c Centroids) Check(kvHeads, dim int) error {
	if err := c.Spec.Validate(); err != nil {
		return err
	}
	if c.Spec.Spread && !c.Causal {
		return fmt.Errorf("rfx: spread is for causal centroids: %w", ErrClusters)
	}
	if c.Exact < 0 || c.Exact > 0 && (!c.Causal || c.Spec.Clusters == 0) {
		return fmt.Errorf("rfx: %d exact keys: they are chosen from clusters, where order counts", c.Exact)
	}
	if c.Spec.Clusters > 0 && len(c.Centres) != kvHeads {
		return fmt.Errorf("rfx: centres of %d heads for %d", len(c.Centres), kvHeads)
	}
	for h, x := range c.Centres {
		if x == nil || x.Dim() != dim || x.Clusters() > c.Spec.Clusters {
			return fmt.Errorf("rfx: the centres of head %d are not those of %d clusters of %d columns", h,
				c.Spec.Clusters, dim)
		}
		if n := len(x.w.Deviation); c.Spec.Spread && c.Spec.Residual > n && n < dim {
			return fmt.Errorf("rfx: %d residual directions, the centres of head %d have %d", c.Spec.Residual, h, n)
		}
	}
	return nil
}

// Forward returns the attention, with the shapes of Attention.Forward. Packed sequences are not supported.
func (c Centroids) Forward(q, k, v *Node, see Visible) *Node {
	if dtype := q.DType(); c.Double && dtype != dtypes.Float64 {
		return ConvertDType(c.Forward(double(q), double(k), double(v), see), dtype)
	}
	s, err := measure(q, k, v, see)
	if err == nil {
		err = c.Check(s.kvHeads, s.dim)
	}
	block := c.block()
	switch {
	case err != nil:
	case see.Segments != nil:
		err = fmt.Errorf("rfx: centroids of packed sequences: %w", errors.ErrUnsupported)
	case (block > 0 || c.Own || c.Causal) && s.queries != s.keys:
		err = fmt.Errorf("rfx: %d queries and %d keys, where positions count", s.queries, s.keys)
	}
	if err != nil {
		panic(err)
	}
	t := c.call(q, k, v, see, s)
	t.block, t.sinks = block, min(c.Spec.Sinks, s.keys)
	switch {
	case c.Causal:
		t.block = min(block, s.keys) // with one block there are only neighbours
	case s.keys-t.sinks <= c.Spec.Clusters: // every key would be a cluster of its own: all are exact
		t.sinks, t.block = s.keys, 0
	}
	return ConvertDType(Reshape(quotient(t.sums(), s.value), s.batch, s.heads, s.queries, s.value), q.DType())
}

// block returns the number of queries that share their neighbours; 0 means none.
func (c Centroids) block() int {
	switch {
	case c.Spec.Block > 0:
		return c.Spec.Block
	case c.Causal:
		return 64
	case c.Spec.Window > 0:
		return 16
	}
	return 0
}

// call scales the queries and converts half precision to float32. Masked rows become zeros, so that nothing of them,
// NaN least of all, reaches a result.
func (c Centroids) call(q, k, v *Node, see Visible, s sizes) clustered {
	if q.DType().IsHalfPrecision() {
		q, k, v = ConvertDType(q, dtypes.Float32), ConvertDType(k, dtypes.Float32), ConvertDType(v, dtypes.Float32)
	}
	if see.Mask != nil {
		k, v = where(rows(see.Mask), k, 0), where(rows(see.Mask), v, 0)
	}
	scale := c.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(s.dim))
	}
	x := Reshape(MulScalar(q, scale), s.batch, s.kvHeads, s.group, s.queries, s.dim)
	return clustered{Centroids: c, in: input{q: x, k: k, v: withOnes(v), see: see, sizes: s}, all: c.numbers()}
}

// clustered is one call of Centroids.
type clustered struct {
	Centroids
	in    input // with scaled queries
	sinks int
	block int // queries that share their neighbours; 0: no neighbours
	all   map[string]number
}

// sums returns, with e_c = exp(x·c) and S the exact keys of a query,
//
//	Σ_{j ∈ S} exp(x·y_j) (v_j, 1) + Σ_c e_c Σ_{j ∈ c, j ∉ S} (v_j, 1),
//
// as [batch, kvHeads, group, queries, ·]. The parts are the sinks, the neighbours of the block, and the clusters
// without what the first two have counted.
func (t clustered) sums() partial {
	in := t.in
	size := t.block
	if size == 0 {
		size = in.queries
	}
	n := (in.queries + size - 1) / size
	x := fill(in.q, 3, 0, n*size-in.queries, 0)
	x = Transpose(Reshape(x, in.batch, in.kvHeads, in.group, n, size, in.dim), 2, 3)
	x = Reshape(x, in.batch, in.kvHeads, n, in.group*size, in.dim)
	flat := Reshape(x, in.batch, in.kvHeads, n*in.group*size, in.dim)
	byBlock := func(y *Node) *Node { return Reshape(y, in.batch, in.kvHeads, n, in.group*size, -1) }

	var parts []partial
	if t.sinks > 0 {
		first := func(y *Node, axis int) *Node { return SliceAxis(y, axis, AxisRangeFromStart(t.sinks)) }
		see := Const(in.q.Graph(), [][][][]bool{{{{true}}}})
		if in.see.Mask != nil {
			see = Reshape(first(in.see.Mask, 1), in.batch, 1, 1, t.sinks)
		}
		if t.Causal {
			at := shapes.Make(dtypes.Int32, 1, 1, n, in.group, size, t.sinks)
			p := Add(MulScalar(Iota(x.Graph(), at, 2), size), Iota(x.Graph(), at, 4))
			seen := Reshape(LessOrEqual(Iota(x.Graph(), at, 5), p), 1, 1, n*in.group*size, t.sinks)
			see = and(see, seen, see.Shape().Dimensions[0], 1, n*in.group*size, t.sinks)
		}
		p := weighted(product(flat, first(in.k, 2), -1, -1), first(in.v, 2), see)
		parts = append(parts, p.each(byBlock))
	}
	on := t.clusteredKeys()
	var beside func(y *Node) *Node // [batch, heads, keys, ·] → [batch, heads, n, neighbours, ·]
	if t.block > 0 {
		after := t.Spec.Window
		if t.Causal {
			after = 0
		}
		beside = func(y *Node) *Node { return neighbours(y, n, size, t.Spec.Window, after) }
		see := beside(ConvertDType(on, in.k.DType())) // neither sinks nor padding, and inside of the sequence
		see = Transpose(GreaterThan(see, ZerosLike(see)), 3, 4)
		if t.Causal {
			see = and(see, t.past(size), see.Shape().Dimensions[0], 1, n, in.group*size, t.Spec.Window+size)
		}
		parts = append(parts, weighted(product(x, beside(in.k), -1, -1), beside(in.v), see))
	}
	switch {
	case t.Spec.Clusters == 0 || t.sinks == in.keys:
	case t.Causal:
		if n > 1 {
			member := t.member(in.k, on)
			sums := t.before(n, size, member)
			parts = append(parts, t.far(x, sums))
			if t.Exact > 0 {
				parts = append(parts, t.chosen(x, sums, member, on, n, size)...)
			}
		}
	default:
		member := t.member(in.k, on)
		centre := product(t.shares(member, on), in.k, -2, -2)
		left := ExpandAxes(product(member, in.v, -2, -2), 2) // what the queries of a block find in the clusters
		if beside != nil {
			left = Sub(left, product(beside(member), beside(in.v), -2, -2))
		}
		count := SliceAxis(left, -1, AxisElem(in.value)) // whole numbers
		some := Transpose(GreaterThan(count, Scalar(count.Graph(), count.DType(), 0.5)), 3, 4)
		d := left.Shape().Dimensions
		left = BroadcastToDims(left, d[0], d[1], n, d[3], d[4])
		parts = append(parts, weighted(byBlock(product(flat, centre, -1, -1)), left, some))
	}
	total := parts[0]
	for _, p := range parts[1:] {
		total = total.plus(p)
	}
	return total.each(func(y *Node) *Node {
		d := y.Shape().Dimensions
		y = Transpose(Reshape(y, d[0], d[1], n, in.group, size, d[4]), 2, 3)
		return SliceAxis(Reshape(y, d[0], d[1], in.group, n*size, d[4]), 3, AxisRangeFromStart(in.queries))
	})
}

// neighbours returns, for each of n blocks of queries, the keys of the block and some before and after it. Missing
// ones are zeros.
func neighbours(y *Node, n, size, before, after int) *Node {
	d := y.Shape().Dimensions
	pieces := (before + size + after + size - 1) / size
	y = fill(y, 2, before, (n+pieces)*size-before-d[2], 0)
	var all []*Node
	for i := range pieces {
		all = append(all, Reshape(SliceAxis(y, 2, AxisRange(i*size, (i+n)*size)), d[0], d[1], n, size, d[3]))
	}
	return SliceAxis(Concatenate(all, 3), 3, AxisRangeFromStart(before+size+after))
}

// clusteredKeys marks the keys in clusters [batch or 1, 1, keys, 1]: neither sinks nor padding.
func (t clustered) clusteredKeys() *Node {
	g := t.in.q.Graph()
	on := GreaterOrEqual(positions(g, t.in.keys), Const(g, int32(t.sinks)))
	if t.in.see.Mask != nil {
		on = and(on, rows(t.in.see.Mask), t.in.batch, 1, t.in.keys, 1)
	}
	return on
}

// member assigns every key to the nearest centre in the metric of the fit, as 0 and 1 [batch, kvHeads, keys,
// clusters].
func (t clustered) member(y, on *Node) *Node {
	y = StopGradient(y)
	number := t.numbersIn(y)
	score := Add(Einsum("bhld,hcd->bhlc", Sub(y, number("mean")), number("centres")), number("offsets"))
	nearest := ArgMax(score, -1, dtypes.Int32)
	d := score.Shape().Dimensions
	is := Equal(BroadcastToDims(ExpandAxes(nearest, -1), d...), Iota(y.Graph(), shapes.Make(dtypes.Int32, d...), 3))
	return ConvertDType(and(is, on, d...), y.DType())
}

// numbersIn returns a function that makes nodes of the constants of the centres, by name.
func (t clustered) numbersIn(like *Node) func(name string) *Node {
	return func(name string) *Node {
		value := numberTensor(t.all[name].data, like.DType(), t.all[name].dims)
		if t.Numbers == nil {
			return ConstTensor(like.Graph(), value)
		}
		return ConvertDType(t.Numbers(name, value), like.DType())
	}
}

type number struct {
	data []float64
	dims []int
}

// numbers returns the constants of the centres of all heads, by name: means [1, heads, 1, dim], rows [heads,
// clusters, dim] and offsets [1, heads, 1, clusters] of the scores that assign keys, and with Spread the residual
// directions.
func (c Centroids) numbers() map[string]number {
	var mean, rows, bias []float64
	dim := 0
	for _, x := range c.Centres {
		mean, dim = append(mean, x.w.Mean...), x.Dim()
		a, b, unit := x.assign, x.bias, x.unit
		for i := range c.Spec.Clusters {
			if i >= a.Rows { // fewer clusters than asked for
				rows, bias = append(rows, make([]float64, x.Dim())...), append(bias, off)
				continue
			}
			for _, v := range a.Row(i) {
				rows = append(rows, v*unit)
			}
			bias = append(bias, b[i])
		}
	}
	heads, n := len(c.Centres), c.Spec.Clusters
	all := map[string]number{"mean": {mean, []int{1, heads, 1, dim}}, "centres": {rows, []int{heads, n, dim}},
		"offsets": {bias, []int{1, heads, 1, n}}}
	if c.Spec.Spread {
		c.residuals(all, heads, dim)
	}
	return all
}

// Values returns all numbers that Numbers is asked for, by name, in float32.
func (c Centroids) Values() map[string]*tensors.Tensor {
	all := map[string]*tensors.Tensor{}
	for name, x := range c.numbers() {
		all[name] = numberTensor(x.data, dtypes.Float32, x.dims)
	}
	return all
}

// shares returns the weights of keys in their centroids [batch, kvHeads, keys, clusters]. They follow the attention
// that landmarks, queries at equal distances, give to the keys: w_j = mean_t softmax_j(r_t·y_j) + 0.1/L.
func (t clustered) shares(member, on *Node) *Node {
	in, g := t.in, t.in.q.Graph()
	marks := t.Spec.Landmarks
	if marks == 0 {
		marks = 32
	}
	marks = min(marks, in.queries)
	at := make([][]int32, marks)
	for i := range at {
		at[i] = []int32{int32((2*i + 1) * in.queries / (2 * marks))}
	}
	x := Gather(TransposeAllAxes(StopGradient(in.q), 3, 0, 1, 2, 4), Const(g, at)) // by landmark, batch, kvHeads, group
	x = Reshape(TransposeAllAxes(x, 1, 2, 3, 0, 4), in.batch, in.kvHeads, in.group*marks, in.dim)
	e := where(Transpose(on, 2, 3), product(x, StopGradient(in.k), -1, -1), off)
	w := Softmax(e, -1)
	if t.Own && in.see.Mask != nil {
		there := Gather(Transpose(in.see.Mask, 0, 1), Const(g, at)) // [marks, batch]
		there = Reshape(Transpose(ConvertDType(there, w.DType()), 0, 1), in.batch, 1, 1, marks, 1)
		there = Reshape(BroadcastToDims(there, in.batch, 1, in.group, marks, 1), in.batch, 1, in.group*marks, 1)
		some := MaxScalar(ReduceAndKeep(there, ReduceSum, -2), 1)
		w = ReduceAndKeep(Mul(w, Div(there, some)), ReduceSum, -2)
	} else {
		w = ReduceAndKeep(w, ReduceMean, -2) // [batch, kvHeads, 1, keys]
	}
	count := ReduceAndKeep(ConvertDType(on, w.DType()), ReduceSum, -2)
	w = Add(w, Div(Scalar(g, w.DType(), 0.1), MaxScalar(count, 1)))
	weight := Mul(member, Transpose(w, 2, 3))
	sum := ReduceAndKeep(weight, ReduceSum, -2)
	return Div(weight, where(LogicalNot(IsZero(sum)), sum, 1))
}

package rfx

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// least is the smallest chunk.
const least = 16

// noSegment is the id of what fills up a sequence.
const noSegment = math.MinInt32

// sweep is the sums of every query over the keys that stand at least back positions before it, in its own segment.
// Queries are [batch, kvHeads, group, length, ·], keys [batch, kvHeads, length, ·].
//
// By chunks: the sums of all chunks at once, their prefixes, and inside a chunk a triangle of scores. There is no loop
// over tokens. The features of a row are divided by its largest, once for all products, and keys are weighted by
// theirs, relative to keys that a query sees: later keys change nothing, and scores get lost only where, of all keys
// that a query sees, the common features are 100 nats below the largest of both.
func (a Attention) sweep(q Features, k keyRows, in input, back int) partial {
	chunk := a.chunk(in.keys)
	n := (in.keys + chunk - 1) / chunk
	c := chunks{length: in.keys, n: n, size: chunk, group: in.group}
	if see := in.see.Segments; see != nil {
		c.segments = Reshape(fill(see, 1, 0, n*chunk-in.keys, noSegment), in.batch, n, chunk)
		c.keySegments = Reshape(fill(see, 1, back, n*chunk-in.keys-back, noSegment), in.batch, n, chunk)
	}
	queries, ofQuery := q.unit(in.v.DType())
	keys, ofKey := k.unit(in.v.DType())
	c.q = c.cutQueries(queries)
	c.k, c.v, c.log = c.cut(keys, back, 0), c.cut(k.v, back, 0), Squeeze(c.cut(ofKey, back, off), -1)

	see := c.see()
	row := c.largest(see)
	var read *Node // what keys of earlier chunks add
	if n > 1 {
		before := c.tails().before()
		ref := BroadcastToShape(ExpandAxes(before.ref, -2, -1), row.Shape())
		var same *Node
		if c.segments != nil {
			d := c.segments.Shape().Dimensions
			same = Equal(Reshape(c.segments, d[0], 1, d[1], d[2], 1), Reshape(before.last, d[0], 1, d[1], 1, 1))
			ref = where(same, ref, 2*off)
		}
		row = Max(row, ref)
		worth := Exp(Sub(ref, row))
		if same != nil {
			worth = where(same, worth, 0)
		}
		read = Mul(product(c.queries(), ConvertDType(before.sum, in.v.DType()), -1, -2), c.ofGroup(worth))
	}
	s := c.inside(see, row)
	if read != nil {
		s = Add(s, read)
	}
	p := partial{s, c.ofGroup(row)}.unflat(in.group).each(func(x *Node) *Node {
		x = Transpose(x, 2, 3)
		d := x.Shape().Dimensions
		return SliceAxis(Reshape(x, d[0], d[1], d[2], n*chunk, d[5]), 3, AxisRangeFromStart(in.queries))
	})
	return partial{p.sum, Add(p.log, ofQuery)}
}

// lift is the logarithm of the largest feature of a row: above 0 to lose fewer of the small ones, and low enough for
// gradients, which are divided by sums of products of two, not to underflow.
const lift = 16

// unit is features divided such that the largest exponential of their row is exp(lift), in some precision, and the
// logarithm of what they are divided by.
func (f Features) unit(dtype dtypes.DType) (phi, log *Node) {
	log = StopGradient(AddScalar(ReduceAndKeep(f.Log, ReduceMax, -1), -lift))
	return ConvertDType(f.times(Exp(Sub(f.Log, log))), dtype), log
}

// chunk is the number of positions whose scores are computed among themselves. Large ones are few states, and
// products that fill a GPU.
func (a Attention) chunk(keys int) int {
	chunk := a.Chunk
	switch {
	case chunk == 0 && keys > 1024:
		chunk = 128
	case chunk == 0:
		chunk = 64
	}
	for chunk > least && chunk/2 >= keys {
		chunk /= 2
	}
	return chunk
}

// chunks are features of queries [batch, kvHeads, n, group, size, ·] and of keys [batch, kvHeads, n, size, ·] of one
// sweep, and the values of keys.
type chunks struct {
	q, k, v               *Node
	log                   *Node // what features of keys are divided by [batch, kvHeads, n, size]
	segments, keySegments *Node // [batch, n, size], nil without
	length, n, size       int
	group                 int
}

// fill extends an axis at both ends; a negative end cuts.
func fill(x *Node, axis, front, end int, with float64) *Node {
	if end < 0 {
		keep := max(0, x.Shape().Dimensions[axis]+end)
		front, end = front-max(0, -(x.Shape().Dimensions[axis]+end)), 0
		if keep == 0 {
			d := append([]int{}, x.Shape().Dimensions...)
			d[axis] = front
			return FillScalar(x.Graph(), shapes.Make(x.DType(), d...), with)
		}
		x = SliceAxis(x, axis, AxisRangeFromStart(keep))
	}
	if front == 0 && end == 0 {
		return x
	}
	pads := make([]compute.PadAxis, x.Rank())
	pads[axis] = compute.PadAxis{Start: front, End: end}
	return Pad(x, Scalar(x.Graph(), x.DType(), with), pads...)
}

// cut is keys [batch, heads, length, c] in chunks, back positions later.
func (c *chunks) cut(x *Node, back int, with float64) *Node {
	d := x.Shape().Dimensions
	return Reshape(fill(x, 2, back, c.n*c.size-c.length-back, with), d[0], d[1], c.n, c.size, d[3])
}

// cutQueries is [batch, kvHeads, group, length, ·] in chunks.
func (c *chunks) cutQueries(x *Node) *Node {
	d := x.Shape().Dimensions
	return Transpose(Reshape(fill(x, 3, 0, c.n*c.size-c.length, 0), d[0], d[1], d[2], c.n, c.size, d[4]), 2, 3)
}

// see says which keys of its own chunk a query sees [batch or 1, 1, n or 1, size, size].
func (c *chunks) see() *Node {
	see := Reshape(LowerTriangular(c.k.Graph(), c.size), 1, 1, 1, c.size, c.size)
	if c.segments == nil {
		return see
	}
	d := c.segments.Shape().Dimensions
	square := []int{d[0], 1, c.n, c.size, c.size}
	own := BroadcastToDims(Reshape(c.segments, d[0], 1, c.n, c.size, 1), square...)
	theirs := BroadcastToDims(Reshape(c.keySegments, d[0], 1, c.n, 1, c.size), square...)
	return and(see, Equal(own, theirs), square...)
}

// square is the logarithms of keys for every query of a chunk [batch, kvHeads, n, size, size].
func (c *chunks) square() *Node {
	d := c.log.Shape().Dimensions
	return BroadcastToDims(ExpandAxes(c.log, 3), d[0], d[1], c.n, c.size, c.size)
}

// largest are the largest logarithms of the keys of its chunk that a query sees [batch, kvHeads, n, size, 1].
func (c *chunks) largest(see *Node) *Node {
	return ReduceAndKeep(where(see, c.square(), 2*off), ReduceMax, -1)
}

// queries are the queries of a chunk, those of all heads of a group below each other.
func (c *chunks) queries() *Node {
	d := c.q.Shape().Dimensions
	return Reshape(c.q, d[0], d[1], d[2], d[3]*d[4], d[5])
}

// ofGroup repeats [batch, kvHeads, n, size, 1] for all heads of a group.
func (c *chunks) ofGroup(x *Node) *Node {
	d := x.Shape().Dimensions
	x = BroadcastToDims(ExpandAxes(x, 3), d[0], d[1], c.n, c.group, c.size, 1)
	return Reshape(x, d[0], d[1], c.n, c.group*c.size, 1)
}

// inside is the sums over keys of the own chunk up to the own position, each row divided by the exponential of row.
func (c *chunks) inside(see, row *Node) *Node {
	worth := where(see, Exp(Sub(c.square(), row)), 0) // without gradients: what others are divided by has none
	s := product(c.queries(), c.k, -1, -1)
	if c.group > 1 {
		d := c.q.Shape().Dimensions
		worth = BroadcastToDims(ExpandAxes(worth, 3), d[0], d[1], c.n, c.group, c.size, c.size)
		worth = Reshape(worth, d[0], d[1], c.n, c.group*c.size, c.size)
	}
	return product(Mul(s, worth), c.v, -1, -2)
}

// run is the sums of the keys of the last segment of some neighbouring chunks, divided by the exponential of ref, the
// largest logarithm among them. last is that segment, nil without.
type run struct {
	sum  *Node // [batch, kvHeads, ..., n, features, valueDim+1]
	ref  *Node // [batch, kvHeads, ..., n]
	last *Node // [batch, 1, ..., n]
}

// tails are the runs of single chunks.
func (c *chunks) tails() run {
	log, v := c.log, c.v
	var last *Node
	if c.keySegments != nil {
		d := c.keySegments.Shape().Dimensions
		last = SliceAxis(c.keySegments, 2, AxisElem(-1)) // [batch, n, 1]
		own := Equal(c.keySegments, BroadcastToShape(last, c.keySegments.Shape()))
		own = Reshape(own, d[0], 1, d[1], d[2])
		log, v = where(own, log, off), where(ExpandAxes(own, -1), v, 0)
		last = Reshape(last, d[0], 1, d[1])
	}
	ref := ReduceAndKeep(log, ReduceMax, -1)
	v = Mul(v, ConvertDType(ExpandAxes(Exp(Sub(log, ref)), -1), v.DType()))
	return run{ConvertDType(product(c.k, v, -2, -2), v.DType()), Squeeze(ref, -1), last}
}

// fan is the number of chunks whose prefixes are one product.
const fan = 128

// before is, for every chunk, the run of all chunks before it: by a product with the strictly lower triangular matrix
// of what earlier chunks are worth; many chunks in groups, and groups in the same way.
func (r run) before() run {
	n := r.ref.Shape().Dimensions[2]
	if n <= fan {
		return r.add(n, func(i, j int) bool { return j < i }, moved(r.last))
	}
	groups := (n + fan - 1) / fan
	r = r.each(func(x *Node, filler float64) *Node {
		x = fill(x, 2, 0, groups*fan-n, filler)
		d := x.Shape().Dimensions
		return Reshape(x, append([]int{d[0], d[1], groups, fan}, d[3:]...)...)
	})
	var end *Node
	if r.last != nil {
		end = SliceAxis(r.last, 3, AxisElem(-1))
	}
	totals := r.add(1, func(_, _ int) bool { return true }, end)
	outer := totals.each(func(x *Node, _ float64) *Node { return Squeeze(x, 3) }).before()
	outer = outer.each(func(x *Node, _ float64) *Node {
		d := append([]int{}, x.Shape().Dimensions[:3]...)
		return BroadcastToDims(ExpandAxes(x, 3), append(append(d, fan), x.Shape().Dimensions[3:]...)...)
	})
	last := moved(r.last)
	if last != nil { // before the first of a group stands the last of the group before
		last = Concatenate([]*Node{SliceAxis(outer.last, 3, AxisElem(0)), SliceAxis(last, 3, AxisRangeToEnd(1))}, 3)
	}
	inner := r.add(fan, func(i, j int) bool { return j < i }, last)
	if last != nil { // what stands before the group counts where it ends in the same segment
		same := Equal(last, outer.last)
		outer.ref, outer.sum = where(same, outer.ref, off), where(ExpandAxes(same, -2, -1), outer.sum, 0)
	}
	ref := Max(inner.ref, outer.ref)
	at := func(x run) *Node { return Mul(x.sum, ExpandAxes(Exp(Sub(x.ref, ref)), -2, -1)) }
	return run{Add(at(inner), at(outer)), ref, last}.each(func(x *Node, _ float64) *Node {
		d := x.Shape().Dimensions
		return SliceAxis(Reshape(x, append([]int{d[0], d[1], d[2] * d[3]}, d[4:]...)...), 2, AxisRangeFromStart(n))
	})
}

// moved is the last segments of chunks one chunk later, nil without.
func moved(last *Node) *Node {
	if last == nil {
		return nil
	}
	axis := last.Rank() - 1
	return fill(last, axis, 1, -1, noSegment)
}

// add is some runs, each the sum of those j that see(i, j) and that end in segment last_i.
func (r run) add(n int, sees func(i, j int) bool, last *Node) run {
	g, d := r.ref.Graph(), r.ref.Shape().Dimensions
	size := d[len(d)-1]
	on := make([]bool, 0, n*size)
	for i := range n {
		for j := range size {
			on = append(on, sees(i, j))
		}
	}
	lead := d[:len(d)-1]
	ones := make([]int, len(lead))
	for i := range ones {
		ones[i] = 1
	}
	see := ConstTensor(g, tensors.FromFlatDataAndDimensions(on, append(ones, n, size)...))
	if last != nil {
		to := append(append([]int{}, last.Shape().Dimensions[:len(lead)]...), n, size)
		same := Equal(BroadcastToDims(ExpandAxes(last, -1), to...), BroadcastToDims(ExpandAxes(r.last, -2), to...))
		see = and(see, same, to...)
	}
	square := append(append([]int{}, lead...), n, size)
	ref := BroadcastToDims(ExpandAxes(r.ref, -2), square...)
	top := ReduceAndKeep(where(see, ref, off), ReduceMax, -1)
	worth := where(see, Exp(Sub(ref, top)), 0) // without gradients: references have none
	dims := r.sum.Shape().Dimensions
	f, c := dims[len(dims)-2], dims[len(dims)-1]
	sum := product(worth, Reshape(r.sum, append(append([]int{}, d...), f*c)...), -1, -2)
	return run{Reshape(sum, append(append([]int{}, lead...), n, f, c)...), Squeeze(top, -1), last}
}

func (r run) each(change func(x *Node, filler float64) *Node) run {
	r.sum, r.ref = change(r.sum, 0), change(r.ref, off)
	if r.last != nil {
		r.last = change(r.last, noSegment)
	}
	return r
}

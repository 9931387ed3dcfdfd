package rfx

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// least is the smallest chunk, in positions.
const least = 16

// noSegment is the segment id of padding.
const noSegment = math.MinInt32

// sweep sums, for every query, the keys of its own segment that stand at least back positions before it. Queries are
// [batch, kvHeads, group, length, ·], keys [batch, kvHeads, length, ·].
//
// It works by chunks of positions, without a loop over tokens: sums of all chunks at once (tails), their prefixes
// (before), and a triangle of scores inside each chunk (inside).
//
// The features of each row are divided by the largest of the row, once for all products. Keys are weighted by what
// they were divided by, relative to the keys that the query sees, so later keys change nothing. A score gets lost
// only if, over all keys that a query sees, the features they have in common are 100 nats below the largest ones.
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
	var read *Node // contribution of the keys of earlier chunks
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

// lift is the logarithm of the largest feature of a row after unit. Above 0, fewer small features underflow. It must
// stay low enough that gradients, which are divided by sums of products of two features, do not underflow.
const lift = 16

// unit divides features so that the largest exponential of each row is exp(lift). It returns them in a given
// precision, and the logarithm of the divisor.
func (f Features) unit(dtype dtypes.DType) (phi, log *Node) {
	log = StopGradient(AddScalar(ReduceAndKeep(f.Log, ReduceMax, -1), -lift))
	return ConvertDType(f.times(Exp(Sub(f.Log, log))), dtype), log
}

// chunk returns the number of positions per chunk. Large chunks mean few states and products that fill a GPU; short
// sequences get smaller ones.
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

// chunks holds one sweep, cut into chunks: features of queries [batch, kvHeads, n, group, size, ·], features of keys
// [batch, kvHeads, n, size, ·], and their values.
type chunks struct {
	q, k, v               *Node
	log                   *Node // logarithm of the divisors of keys [batch, kvHeads, n, size]
	segments, keySegments *Node // [batch, n, size]; nil without segments
	length, n, size       int
	group                 int
}

// fill extends an axis at both ends with a value. A negative end cuts.
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

// cut cuts keys [batch, heads, length, c] into chunks, shifted back positions later.
func (c *chunks) cut(x *Node, back int, with float64) *Node {
	d := x.Shape().Dimensions
	return Reshape(fill(x, 2, back, c.n*c.size-c.length-back, with), d[0], d[1], c.n, c.size, d[3])
}

// cutQueries cuts [batch, kvHeads, group, length, ·] into chunks.
func (c *chunks) cutQueries(x *Node) *Node {
	d := x.Shape().Dimensions
	return Transpose(Reshape(fill(x, 3, 0, c.n*c.size-c.length, 0), d[0], d[1], d[2], c.n, c.size, d[4]), 2, 3)
}

// see returns which keys of its own chunk a query sees [batch or 1, 1, n or 1, size, size].
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

// square returns the logarithms of the keys, for every query of a chunk [batch, kvHeads, n, size, size].
func (c *chunks) square() *Node {
	d := c.log.Shape().Dimensions
	return BroadcastToDims(ExpandAxes(c.log, 3), d[0], d[1], c.n, c.size, c.size)
}

// largest returns the largest logarithm among the keys of its chunk that a query sees [batch, kvHeads, n, size, 1].
func (c *chunks) largest(see *Node) *Node {
	return ReduceAndKeep(where(see, c.square(), 2*off), ReduceMax, -1)
}

// queries stacks the queries of all heads of a group, chunk by chunk.
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

// inside sums the keys of the own chunk up to the own position. Each row is divided by exp(row).
func (c *chunks) inside(see, row *Node) *Node {
	worth := where(see, Exp(Sub(c.square(), row)), 0) // no gradients: the divisors have none
	s := product(c.queries(), c.k, -1, -1)
	if c.group > 1 {
		d := c.q.Shape().Dimensions
		worth = BroadcastToDims(ExpandAxes(worth, 3), d[0], d[1], c.n, c.group, c.size, c.size)
		worth = Reshape(worth, d[0], d[1], c.n, c.group*c.size, c.size)
	}
	return product(Mul(s, worth), c.v, -1, -2)
}

// run is the sum over the keys of the last segment of some neighbouring chunks, divided by exp(ref). ref is the
// largest logarithm among these keys. last is the id of that segment, nil without segments.
type run struct {
	sum  *Node // [batch, kvHeads, ..., n, features, valueDim+1]
	ref  *Node // [batch, kvHeads, ..., n]
	last *Node // [batch, 1, ..., n]
}

// tails returns the runs of single chunks.
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

// fan is the number of chunks whose prefixes are computed by one product.
const fan = 128

// before returns, for every chunk, the run of all chunks before it: a product with a strictly lower triangular
// matrix of the relative weights of earlier chunks. More than fan chunks are divided into groups. The prefix over
// groups is computed recursively (outer) and added to the prefix inside each group (inner).
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
	if last != nil { // the last segment before the first chunk of a group is that of the group before
		last = Concatenate([]*Node{SliceAxis(outer.last, 3, AxisElem(0)), SliceAxis(last, 3, AxisRangeToEnd(1))}, 3)
	}
	inner := r.add(fan, func(i, j int) bool { return j < i }, last)
	if last != nil { // groups before count only if they end in the same segment
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

// moved shifts the last segments of chunks by one chunk; nil stays nil.
func moved(last *Node) *Node {
	if last == nil {
		return nil
	}
	axis := last.Rank() - 1
	return fill(last, axis, 1, -1, noSegment)
}

// add returns n runs. Run i sums the runs j with sees(i, j) that end in segment last_i.
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
	worth := where(see, Exp(Sub(ref, top)), 0) // no gradients: references have none
	dims := r.sum.Shape().Dimensions
	f, c := dims[len(dims)-2], dims[len(dims)-1]
	sum := product(worth, Reshape(r.sum, append(append([]int{}, d...), f*c)...), -1, -2)
	return run{Reshape(sum, append(append([]int{}, lead...), n, f, c)...), Squeeze(top, -1), last}
}

// each applies a change of shape to all parts. filler is the value for padding.
func (r run) each(change func(x *Node, filler float64) *Node) run {
	r.sum, r.ref = change(r.sum, 0), change(r.ref, off)
	if r.last != nil {
		r.last = change(r.last, noSegment)
	}
	return r
}

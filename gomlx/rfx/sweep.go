package rfx

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
)

// triangle is the number of positions that share the references of their keys. A row there is divided by its largest
// visible score, so later keys change nothing but rounding unless exponents of neighbours are 80 nats apart.
const triangle = 16

// noSegment is the id of what fills up a sequence.
const noSegment = math.MinInt32

// sweep is the sums of every query over the keys that stand at least back positions before it, in its own segment, and
// the state of all keys, which means nothing with segments or back. Queries are [batch, kvHeads, group, length, ·],
// keys [batch, kvHeads, length, ·].
//
// By chunks: the sums of all chunks at once, a parallel prefix over them, and inside a chunk blocks of keys that are
// read by the block of queries behind them, halved down to triangles of scores. There is no loop over tokens, and
// every reference is attained by keys that all its queries see.
func (a Attention) sweep(q Features, k keyRows, in input, back int) (partial, State) {
	chunk := a.Chunk
	if chunk == 0 {
		chunk = 4 * triangle
	}
	for chunk > triangle && chunk/2 >= in.keys {
		chunk /= 2
	}
	n := (in.keys + chunk - 1) / chunk
	c := chunks{length: in.keys, n: n, size: chunk, group: in.group}
	var keySegments *Node
	if see := in.see.Segments; see != nil {
		c.segments = Reshape(fill(see, 1, 0, n*chunk-in.keys, noSegment), in.batch, n, chunk)
		keySegments = Reshape(fill(see, 1, back, n*chunk-in.keys-back, noSegment), in.batch, n, chunk)
	}
	c.keySegments = keySegments
	c.k = keyRows{Features{Log: c.cut(k.Log, back, off)}, c.cut(k.v, back, 0)}
	if k.Value != nil {
		c.k.Value = c.cut(k.Value, back, 0)
	}
	c.q = q.each(c.cutQueries)

	before, all := prefix(c.tails())
	sums := before.read(c.q.flat()).unflat(in.group)
	if c.segments != nil {
		d := c.segments.Shape().Dimensions
		same := Equal(Reshape(c.segments, d[0], 1, d[1], 1, d[2], 1), Reshape(before.last, d[0], 1, d[1], 1, 1, 1))
		sums = sums.only(same)
	}
	sums = sums.plus(c.inside())
	return sums.each(func(x *Node) *Node {
		x = Transpose(x, 2, 3)
		d := x.Shape().Dimensions
		return SliceAxis(Reshape(x, d[0], d[1], d[2], n*chunk, d[5]), 3, AxisRangeFromStart(in.queries))
	}), all.State
}

// chunks are queries [batch, kvHeads, n, group, size, ·] and keys [batch, kvHeads, n, size, ·] of one sweep.
type chunks struct {
	q                     Features
	k                     keyRows
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

// run is the state of the last segment of some neighbouring chunks. last is that segment [batch, 1, n], nil without.
type run struct {
	State
	last *Node
}

// tails are the runs of single chunks.
func (c *chunks) tails() run {
	if c.keySegments == nil {
		return run{State: c.k.state()}
	}
	d := c.keySegments.Shape().Dimensions
	last := SliceAxis(c.keySegments, 2, AxisElem(-1)) // [batch, n, 1]
	own := Equal(c.keySegments, BroadcastToShape(last, c.keySegments.Shape()))
	return run{c.k.only(Reshape(own, d[0], 1, d[1], d[2], 1)).state(), Reshape(last, d[0], 1, d[1])}
}

// then is the run of the chunks of r and those of o behind them: equal ids are neighbours, so what r carries counts
// exactly where both end in the same segment.
func (r run) then(o run) run {
	if r.last != nil {
		same := ExpandAxes(Equal(r.last, o.last), -1) // [batch, 1, n, 1]
		r.Ref = where(same, r.Ref, off)
		r.Sum = where(ExpandAxes(same, -1), r.Sum, 0)
	}
	return run{r.merge(o.State), o.last}
}

func (r run) each(change func(x *Node, filler float64) *Node) run {
	r.Sum, r.Ref = change(r.Sum, 0), change(r.Ref, off)
	if r.last != nil {
		r.last = change(r.last, noSegment)
	}
	return r
}

// prefix is, for every chunk (axis 2), the run of all chunks before it, and the run of all: a scan by pairs, twice the
// work of one sum, in as many steps as the number of chunks has bits (Blelloch 1990).
func prefix(r run) (before, all run) {
	n := r.Ref.Shape().Dimensions[2]
	if n == 1 {
		before = r.each(func(x *Node, filler float64) *Node { return FillScalar(x.Graph(), x.Shape(), filler) })
		all = run{State: State{Sum: Squeeze(r.Sum, 2), Ref: Squeeze(r.Ref, 2)}}
		return before, all
	}
	even := r.each(func(x *Node, filler float64) *Node { return fill(x, 2, 0, n%2, filler) })
	half := func(i int) run {
		return even.each(func(x *Node, _ float64) *Node { return Squeeze(SliceAxis(pairs(x), 3, AxisElem(i)), 3) })
	}
	first, second := half(0), half(1)
	outer, all := prefix(first.then(second))
	inner := outer.then(first)
	weave := func(a, b *Node) *Node {
		d := append([]int{}, a.Shape().Dimensions...)
		d[2] *= 2
		return SliceAxis(Reshape(Stack([]*Node{a, b}, 3), d...), 2, AxisRangeFromStart(n))
	}
	before = run{State: State{Sum: weave(outer.Sum, inner.Sum), Ref: weave(outer.Ref, inner.Ref)}}
	if r.last != nil {
		before.last = weave(outer.last, inner.last)
	}
	return before, all
}

// pairs cuts axis 2 into neighbours.
func pairs(x *Node) *Node {
	d := x.Shape().Dimensions
	return Reshape(x, append([]int{d[0], d[1], d[2] / 2, 2}, d[3:]...)...)
}

// inside is the sums over keys of the own chunk.
func (c *chunks) inside() partial {
	total := c.blocks(triangle).triangles().unblock(c, triangle)
	for size := triangle; size < c.size; size *= 2 {
		total = total.plus(c.blocks(size).behind().unblock(c, size))
	}
	return total
}

// blocks are positions cut more finely: queries [batch, kvHeads, blocks, group·size, ·], keys [batch, kvHeads, blocks,
// size, ·]; segments are [batch, 1, blocks, group·size, 1] and [batch, 1, blocks, 1, size].
type blocks struct {
	q                     Features
	k                     keyRows
	segments, keySegments *Node
	group                 int
}

func (c *chunks) blocks(size int) blocks {
	per := c.size / size
	b := blocks{group: c.group}
	b.q = c.q.each(func(x *Node) *Node {
		d := x.Shape().Dimensions
		x = Transpose(Reshape(x, d[0], d[1], d[2], d[3], per, size, d[5]), 3, 4)
		return Reshape(x, d[0], d[1], d[2]*per, d[3]*size, d[5])
	})
	b.k = c.k.each(func(x *Node) *Node {
		d := x.Shape().Dimensions
		return Reshape(x, d[0], d[1], d[2]*per, size, d[4])
	})
	if c.segments != nil {
		d := c.segments.Shape().Dimensions
		own := Reshape(c.segments, d[0], d[1]*per, 1, size)
		own = BroadcastToDims(own, d[0], d[1]*per, c.group, size)
		b.segments = Reshape(own, d[0], 1, d[1]*per, c.group*size, 1)
		b.keySegments = Reshape(c.keySegments, d[0], 1, d[1]*per, 1, size)
	}
	return b
}

// unblock brings sums back into the shape of chunks.
func (p partial) unblock(c *chunks, size int) partial {
	per := c.size / size
	return p.each(func(x *Node) *Node {
		d := x.Shape().Dimensions
		x = Transpose(Reshape(x, d[0], d[1], c.n, per, c.group, size, d[4]), 3, 4)
		return Reshape(x, d[0], d[1], c.n, c.group, c.size, d[4])
	})
}

// behind is the sums of the queries of every second block over the keys of the block before theirs.
func (b blocks) behind() partial {
	every := func(i int) func(x *Node) *Node {
		return func(x *Node) *Node { return Squeeze(SliceAxis(pairs(x), 3, AxisElem(i)), 3) }
	}
	half := blocks{q: b.q.each(every(1)), k: b.k.each(every(0)), group: b.group}
	if b.segments != nil {
		half.segments, half.keySegments = every(1)(b.segments), every(0)(b.keySegments)
	}
	odd := half.scores(nil)
	weave := func(x *Node, none float64) *Node { // the even blocks get nothing
		d := x.Shape().Dimensions
		return Reshape(Stack([]*Node{FillScalar(x.Graph(), x.Shape(), none), x}, 3), d[0], d[1], 2*d[2], d[3], d[4])
	}
	return partial{weave(odd.sum, 0), weave(odd.log, 2*off)}
}

// triangles is the sums over the own block up to the own position.
func (b blocks) triangles() partial {
	see := LowerTriangular(b.k.v.Graph(), triangle)
	return b.scores(Reshape(BroadcastPrefix(see, b.group), 1, 1, 1, b.group*triangle, triangle))
}

// scores is the sums over the own block of keys, all of it or where see is true and segments are equal. Where not all
// is seen a row is divided by its largest visible score: references may come from keys that it does not see.
func (b blocks) scores(see *Node) partial {
	ref := StopGradient(ReduceAndKeep(b.k.Log, ReduceMax, -2))
	e := Add(b.q.Log, ref)
	row := StopGradient(ReduceAndKeep(e, ReduceMax, -1))
	s := product(b.q.times(Exp(Sub(e, row))), b.k.times(Exp(Sub(b.k.Log, ref))), -1, -1)
	whole := func(on *Node) *Node {
		d := s.Shape().Dimensions
		return BroadcastToShape(on, shapes.Make(on.DType(), d...))
	}
	if b.segments != nil {
		d := s.Shape().Dimensions
		one := func(x *Node) *Node {
			return BroadcastToShape(x, shapes.Make(x.DType(), d[0], 1, d[2], d[3], d[4]))
		}
		same := whole(Equal(one(b.segments), one(b.keySegments)))
		if see != nil {
			same = LogicalAnd(same, whole(see))
		}
		see = same
	}
	if see != nil {
		s = where(see, s, 0)
		top := StopGradient(ReduceAndKeep(Abs(s), ReduceMax, -1))
		some := LogicalNot(IsZero(top))
		top = where(some, top, 1)
		row = where(some, Add(row, Log(top)), 2*off)
		s = Div(s, top)
	}
	return partial{product(s, b.k.v, -1, -2), row}
}

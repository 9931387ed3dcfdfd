package rfx

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// least is the smallest chunk.
const least = 16

// noSegment is the id of what fills up a sequence.
const noSegment = math.MinInt32

// sweep is the sums of every query over the keys that stand at least back positions before it, in its own segment, and
// the state of all keys, which means nothing with segments or back. Queries are [batch, kvHeads, group, length, ·],
// keys [batch, kvHeads, length, ·].
//
// By chunks: the sums of all chunks at once, their prefixes, and inside a chunk a triangle of scores. There is no loop
// over tokens, and what a query is divided by comes from keys that it sees.
func (a Attention) sweep(q Features, k keyRows, in input, back int) (partial, State) {
	chunk := a.chunk(in.keys)
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

	sums := c.inside()
	tails := c.tails()
	all := tails
	if n > 1 {
		var before run
		before, all = prefix(tails)
		read := before.as(in.v.DType()).read(c.q.flat()).unflat(in.group)
		if c.segments != nil {
			d := c.segments.Shape().Dimensions
			same := Equal(Reshape(c.segments, d[0], 1, d[1], 1, d[2], 1), Reshape(before.last, d[0], 1, d[1], 1, 1, 1))
			read = read.only(same)
		}
		sums = sums.plus(read)
	} else {
		all.Sum, all.Ref = Squeeze(tails.Sum, 2), Squeeze(tails.Ref, 2)
	}
	return sums.each(func(x *Node) *Node {
		x = Transpose(x, 2, 3)
		d := x.Shape().Dimensions
		return SliceAxis(Reshape(x, d[0], d[1], d[2], n*chunk, d[5]), 3, AxisRangeFromStart(in.queries))
	}), all.State
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

// fan is the number of chunks whose prefixes are one product.
const fan = 32

// prefix is, for every chunk (axis 2), the run of all chunks before it, and the run of all: inside groups of chunks by
// a product with the strictly lower triangular matrix of what the references of earlier chunks are worth, and groups in
// the same way.
func prefix(r run) (before, all run) {
	d := r.Ref.Shape().Dimensions
	n := d[2]
	size := min(n, fan)
	groups := (n + size - 1) / size
	r = r.each(func(x *Node, filler float64) *Node {
		x = fill(x, 2, 0, groups*size-n, filler)
		d := x.Shape().Dimensions
		return Reshape(x, append([]int{d[0], d[1], groups, size}, d[3:]...)...)
	})
	before, totals := r.group()
	if groups == 1 {
		all = totals.each(func(x *Node, _ float64) *Node { return Squeeze(x, 2) })
	} else {
		var outer run
		outer, all = prefix(totals)
		outer = outer.each(func(x *Node, _ float64) *Node {
			d := append([]int{}, x.Shape().Dimensions[:3]...)
			return BroadcastToDims(ExpandAxes(x, 3), append(append(d, size), x.Shape().Dimensions[3:]...)...)
		})
		if before.last != nil { // before the first of a group stands the last of the group before
			first, rest := AxisRangeFromStart(1), AxisRangeToEnd(1)
			before.last = Concatenate([]*Node{SliceAxis(outer.last, 3, first), SliceAxis(before.last, 3, rest)}, 3)
		}
		before = outer.then(before)
	}
	return before.each(func(x *Node, _ float64) *Node {
		d := x.Shape().Dimensions
		return SliceAxis(Reshape(x, append([]int{d[0], d[1], d[2] * d[3]}, d[4:]...)...), 2, AxisRangeFromStart(n))
	}), all
}

// group is, for runs [batch, kvHeads, groups, size, ·], the runs of those before each in its group, and of all of a
// group [batch, kvHeads, groups, ·].
func (r run) group() (before, totals run) {
	g := r.Ref.Graph()
	d := r.Ref.Shape().Dimensions
	size := d[3]
	sees := make([]bool, 0, (size+1)*size) // row i: the chunks before i
	for i := range size + 1 {
		for j := range size {
			sees = append(sees, j < i)
		}
	}
	see := ConstTensor(g, tensors.FromFlatDataAndDimensions(sees, 1, 1, 1, size+1, size))
	var last *Node // of the chunk before
	if r.last != nil {
		last = fill(r.last, 3, 1, 0, noSegment)
		to := shapes.Make(last.DType(), d[0], 1, d[2], size+1, size)
		see = and(see, Equal(BroadcastToShape(ExpandAxes(last, -1), to), BroadcastToShape(ExpandAxes(r.last, 3), to)),
			to.Dimensions...)
	}
	see = ExpandAxes(see, 3)
	ref := BroadcastToDims(ExpandAxes(Transpose(r.Ref, 3, 4), 4), d[0], d[1], d[2], d[4], size+1, size)
	top := ReduceAndKeep(where(see, ref, off), ReduceMax, -1)
	worth := where(see, Exp(Sub(ref, top)), 0) // without gradients: references have none
	sum := EinsumAxes(worth, r.Sum, [][2]int{{5, 3}}, [][2]int{{0, 0}, {1, 1}, {2, 2}, {3, 4}})
	both := run{State{Sum: Transpose(sum, 3, 4), Ref: Transpose(Squeeze(top, -1), 3, 4)}, last}
	before = both.each(func(x *Node, _ float64) *Node { return SliceAxis(x, 3, AxisRangeFromStart(size)) })
	totals = both.each(func(x *Node, _ float64) *Node { return Squeeze(SliceAxis(x, 3, AxisElem(size)), 3) })
	return before, totals
}

// inside is the sums over keys of the own chunk up to the own position. A key is divided by its largest feature, a row
// by the largest of the keys that it sees, so that later keys change nothing: scores get lost only where, of all keys
// that a query sees, the common features are 80 nats below the largest of both.
func (c *chunks) inside() partial {
	q, g := c.q.flat(), c.k.v.Graph()
	top := func(f Features) *Node { return StopGradient(ReduceAndKeep(f.Log, ReduceMax, -1)) }
	ofQuery, ofKey := top(q), top(c.k.Features)
	low := ConvertDType(q.times(Exp(Sub(q.Log, ofQuery))), c.k.v.DType())
	s := product(low, c.k.times(Exp(Sub(c.k.Log, ofKey))), -1, -1)
	d := s.Shape().Dimensions
	square := []int{d[0], d[1], c.n, c.size, c.size}
	see := Reshape(LowerTriangular(g, c.size), 1, 1, 1, c.size, c.size)
	if c.segments != nil {
		own := BroadcastToDims(Reshape(c.segments, d[0], 1, c.n, c.size, 1), d[0], 1, c.n, c.size, c.size)
		theirs := BroadcastToDims(Reshape(c.keySegments, d[0], 1, c.n, 1, c.size), d[0], 1, c.n, c.size, c.size)
		see = and(see, Equal(own, theirs), d[0], 1, c.n, c.size, c.size)
	}
	keys := BroadcastToDims(Transpose(ofKey, 3, 4), square...)
	row := ReduceAndKeep(where(see, keys, 2*off), ReduceMax, -1)
	worth := where(see, Exp(Sub(keys, row)), 0) // without gradients: what others are divided by has none
	s = Reshape(s, d[0], d[1], c.n, c.group, c.size, c.size)
	s = Reshape(Mul(s, ExpandAxes(worth, 3)), d...)
	row = BroadcastToDims(ExpandAxes(row, 3), d[0], d[1], c.n, c.group, c.size, 1)
	p := partial{product(s, c.k.v, -1, -2), ofQuery}.unflat(c.group)
	return partial{p.sum, Add(p.log, row)}
}

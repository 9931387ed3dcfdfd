package rfx

import (
	"errors"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// Causal centroids go by blocks of queries: for the block that begins at b the sinks and the
// keys from b−Window to the own position are exact, the keys before them are in clusters, whose sums
//
//	Σ (v, 1), Σ y, Σ q, Σ q²
//
// over the chunks of keys that have left the window are prefixes: a product with a strictly lower triangular matrix, no
// loop over tokens. A cluster weighs n e^{x·c + ½ min(σ², 6)} with c the mean of its keys so far and, with Spread,
// σ² = Σ_r a_r² Var(q_r) for residual numbers q of keys and coordinates a of the query.

// maxSpread caps σ² in the weight of a centroid. Beyond it, the normal approximation of the scores inside a cluster
// overestimates the weight of its keys.
const maxSpread = 6

// directions returns the number of residual directions.
func (c Centroids) directions(dim int) int {
	switch {
	case !c.Spec.Spread:
		return 0
	case c.Spec.Residual > 0:
		return min(dim, c.Spec.Residual)
	}
	return min(dim, 16)
}

// Residual numbers are integers of so many steps per standard deviation: sums of them are exact in any order.
const residualSteps, residualLimit = 16, 127

// residuals adds the constants of the residual directions. With the projections px, py and deviations of the fit: a
// = x·px and q = round(y·py − middle of the cluster), in units of a fraction of the deviation.
func (c Centroids) residuals(all map[string]number, heads, dim int) {
	r, n := c.directions(dim), c.Spec.Clusters
	x, y, m := make([]float64, heads*r*dim), make([]float64, heads*r*dim), make([]float64, heads*n*r)
	for h, centres := range c.Centres {
		px, py, deviation := centres.Projections()
		for i := range min(r, px.Cols) {
			step := deviation[i] / residualSteps
			if !(step > 0) {
				continue
			}
			row := (h*r + i) * dim
			for j := range dim {
				x[row+j], y[row+j] = px.At(j, i)*step, py.At(j, i)/step
			}
			for k := range centres.Clusters() {
				for j, v := range centres.w.Centres.Row(k) {
					m[(h*n+k)*r+i] += y[row+j] * v
				}
			}
		}
	}
	all["px"], all["py"] = number{x, []int{heads, r, dim}}, number{y, []int{heads, r, dim}}
	all["middles"] = number{m, []int{1, heads, n, r}}
}

// past returns which neighbours of a block stand at or before each query [1, 1, 1, group·size, Window+size].
func (t clustered) past(size int) *Node {
	var see []bool
	for range t.in.group {
		for i := range size {
			for j := range t.Spec.Window + size {
				see = append(see, j <= t.Spec.Window+i)
			}
		}
	}
	return ConstTensor(t.in.q.Graph(), tensors.FromFlatDataAndDimensions(see, 1, 1, 1, t.in.group*size,
		t.Spec.Window+size))
}

// rowsOf returns what the clusters sum over keys [..., dim]: values with ones, the key, and with Spread the residual
// numbers and their squares. member assigns the keys to clusters.
func (t clustered) rowsOf(y, v, member *Node) *Node {
	all := []*Node{v, y}
	if t.Spec.Spread {
		number := t.numbersIn(y)
		batch := y.Shape().Dimensions[0]
		middles := number("middles")
		middles = BroadcastToDims(middles, append([]int{batch}, middles.Shape().Dimensions[1:]...)...)
		q := Sub(Einsum("bhld,hrd->bhlr", y, number("py")), product(member, middles, -1, -2))
		// Rounded, and held constant.
		q = StopGradient(Mul(Sign(q), MinScalar(Floor(AddScalar(Abs(q), 0.5)), residualLimit)))
		all = append(all, q, Square(q))
	}
	return Concatenate(all, -1)
}

// before returns, for each of n blocks of queries, the sums of the clusters over the keys that have left its window
// [batch, kvHeads, n, clusters, ·].
func (t clustered) before(n, size int, member *Node) *Node {
	in := t.in
	cut := func(y *Node) *Node { // a key enters the clusters Window positions late
		d := y.Shape().Dimensions
		return Reshape(fill(y, 2, t.Spec.Window, n*size-d[2]-t.Spec.Window, 0), d[0], d[1], n, size, d[3])
	}
	return earlier(product(cut(member), cut(t.rowsOf(in.k, in.v, member)), -2, -2))
}

// earlier returns, for every block (axis 2 of 5), the sum over the blocks before it: a triangular product inside
// groups of blocks, and recursively over the groups.
func earlier(x *Node) *Node {
	d := x.Shape().Dimensions
	n, size := d[2], min(d[2], fan)
	groups := (n + size - 1) / size
	x = Reshape(fill(x, 2, 0, groups*size-n, 0), d[0], d[1], groups, size, d[3]*d[4])
	var lower []float64
	for i := range size {
		for j := range size {
			lower = append(lower, 0)
			if j < i {
				lower[i*size+j] = 1
			}
		}
	}
	matrix := ConstTensor(x.Graph(), numberTensor(lower, x.DType(), []int{size, size}))
	y := Einsum("ij,bhgjw->bhgiw", matrix, x)
	if groups > 1 {
		outer := earlier(Reshape(ReduceSum(x, 3), d[0], d[1], groups, d[3], d[4]))
		y = Add(y, Reshape(outer, d[0], d[1], groups, 1, d[3]*d[4]))
	}
	return SliceAxis(Reshape(y, d[0], d[1], groups*size, d[3], d[4]), 2, AxisRangeFromStart(n))
}

// far sums the clusters for scaled queries [batch, kvHeads, n, rows, dim]. sums is [batch, kvHeads, n, clusters, ·].
// Empty clusters do not count.
func (t clustered) far(x, sums *Node) partial {
	count := t.count(sums)
	there := GreaterThan(count, Scalar(count.Graph(), count.DType(), 0.5))
	left := SliceAxis(sums, -1, AxisRangeFromStart(t.in.value+1))
	return weighted(t.score(x, t.means(sums)), left, Transpose(there, 3, 4))
}

// count returns the number of keys of each cluster, a whole number.
func (t clustered) count(sums *Node) *Node {
	return SliceAxis(sums, -1, AxisRange(t.in.value, t.in.value+1))
}

// means returns the mean key of each cluster and, with Spread, the variances of its residual numbers behind it.
// Empty clusters have zeros.
func (t clustered) means(sums *Node) *Node {
	in, r := t.in, t.directions(t.in.dim)
	count := StopGradient(MaxScalar(t.count(sums), 1))
	part := func(from, n int) *Node { return Div(SliceAxis(sums, -1, AxisRange(from, from+n)), count) }
	mean := part(in.value+1, in.dim)
	if r == 0 {
		return mean
	}
	at := in.value + 1 + in.dim
	return Concatenate([]*Node{mean, MaxScalar(Sub(part(at+r, r), Square(part(at, r))), 0)}, -1)
}

// score returns the logarithm of the weight of one key of each cluster [..., rows, clusters].
func (t clustered) score(x, means *Node) *Node {
	r := t.directions(t.in.dim)
	s := product(x, SliceAxis(means, -1, AxisRangeFromStart(t.in.dim)), -1, -1)
	if r == 0 {
		return s
	}
	d := x.Shape().Dimensions
	flat := Reshape(x, d[0], d[1], d[2]*d[3], d[4])
	a := Reshape(Einsum("bhld,hrd->bhlr", flat, t.numbersIn(x)("px")), d[0], d[1], d[2], d[3], r)
	spread := product(Square(a), SliceAxis(means, -1, AxisRangeToEnd(t.in.dim)), -1, -1)
	return Add(s, MulScalar(MinScalar(spread, maxSpread), 0.5))
}

// chosen returns two sums: over the keys of clusters that are read exactly, and minus their weight as members of
// clusters. In every block each query, in order of position and then of head within the group, names its Exact best
// keys. A query sees the keys that it and earlier queries have named, each once. So nothing depends on later
// queries.
//
// Steps: score all pairs of queries and clustered keys without gradients; take the Exact best per row; drop keys
// that were named before (fresh); gather the remaining keys and weigh them.
func (t clustered) chosen(x, sums, member, on *Node, n, size int) []partial {
	in, g := t.in, x.Graph()
	rows := in.group * size
	// Scores of all pairs whose key is in the clusters of the block.
	at := shapes.Make(dtypes.Int32, 1, 1, n, 1, in.keys)
	left := LessThan(AddScalar(Iota(g, at, 4), t.Spec.Window), MulScalar(Iota(g, at, 2), size))
	masks := on.Shape().Dimensions[0] // one mask for all, or one per batch entry
	left = and(left, Reshape(on, masks, 1, 1, 1, in.keys), masks, 1, n, 1, in.keys)
	flat := Reshape(StopGradient(x), in.batch, in.kvHeads, n*rows, in.dim)
	pairs := product(flat, StopGradient(in.k), -1, -1)
	score := where(left, Reshape(pairs, in.batch, in.kvHeads, n, rows, in.keys), off)
	place := Iota(g, shapes.Make(dtypes.Int32, score.Shape().Dimensions...), 4)
	var best, real []*Node
	for range min(t.Exact, in.keys) {
		i := ExpandAxes(ArgMax(score, -1, dtypes.Int32), -1) // [batch, kvHeads, n, rows, 1]
		top := ReduceAndKeep(score, ReduceMax, -1)
		best, real = append(best, i), append(real, GreaterThan(top, Scalar(g, top.DType(), off/2)))
		score = where(NotEqual(place, BroadcastToDims(i, place.Shape().Dimensions...)), score, off)
	}
	count := rows * len(best)
	list := func(all []*Node) *Node { // [batch, kvHeads, n, count], by position, head and rank
		y := Reshape(Concatenate(all, -1), in.batch, in.kvHeads, n, in.group, size, len(all))
		return Reshape(Transpose(y, 3, 4), in.batch, in.kvHeads, n, count)
	}
	key, named := list(best), list(real)
	// A key that was named before does not count again.
	square := []int{in.batch, in.kvHeads, n, count, count}
	same := Equal(BroadcastToDims(ExpandAxes(key, 4), square...), BroadcastToDims(ExpandAxes(key, 3), square...))
	same = LogicalAnd(same, and(strictlyLower(g, count), ExpandAxes(named, 3), square...))
	fresh := LogicalAnd(named, LogicalNot(ReduceLogicalOr(same, -1)))
	// Row r stands at position r mod size and sees the keys named by positions up to its own.
	var see []bool
	for r := range rows {
		for c := range count {
			see = append(see, c/(count/size) <= r%size)
		}
	}
	seen := ConstTensor(g, tensors.FromFlatDataAndDimensions(see, 1, 1, 1, rows, count))
	seen = and(seen, ExpandAxes(fresh, 3), in.batch, in.kvHeads, n, rows, count)

	head := shapes.Make(dtypes.Int32, in.batch, in.kvHeads, n, count)
	first := MulScalar(Add(MulScalar(Iota(g, head, 0), in.kvHeads), Iota(g, head, 1)), in.keys)
	pick := func(y *Node) *Node { // rows of the named keys
		width := y.Shape().Dimensions[3]
		y = Gather(Reshape(y, in.batch*in.kvHeads*in.keys, width), ExpandAxes(Add(key, first), -1))
		return Reshape(y, in.batch, in.kvHeads, n, count, width)
	}
	v := pick(in.v)
	exact := weighted(product(x, pick(in.k), -1, -1), v, seen)
	less := weighted(t.score(x, product(pick(member), t.means(sums), -1, -2)), v, seen)
	return []partial{exact, {Neg(less.sum), less.log}}
}

// strictlyLower is true where the row is greater than the column.
func strictlyLower(g *Graph, n int) *Node {
	at := shapes.Make(dtypes.Int32, 1, 1, 1, n, n)
	return LessThan(Iota(g, at, 4), Iota(g, at, 3))
}

// CentroidState is the memory of causal centroids. Its size does not depend on the number of keys. Sum has the sums
// of the clusters [batch, kvHeads, clusters, ·]. Near has the last Window+Block−1 keys in order, each with its value
// behind it [batch, kvHeads, ·, dim+valueDim]. First has the keys at the first Sinks positions. Parts that do not
// exist are nil.
type CentroidState struct{ Sum, Near, First *Node }

// each applies a function to all parts. It must accept nil.
func (s CentroidState) each(f func(*Node) *Node) CentroidState {
	return CentroidState{f(s.Sum), f(s.Near), f(s.First)}
}

// Nodes returns the parts that exist, in the order that Centroids.State expects.
func (s CentroidState) Nodes() (all []*Node) {
	for _, x := range []*Node{s.Sum, s.Near, s.First} {
		if x != nil {
			all = append(all, x)
		}
	}
	return all
}

// State takes the parts of a state from the front of nodes and returns the rest.
func (c Centroids) State(nodes []*Node) (s CentroidState, rest []*Node) {
	next := func(there bool) (x *Node) {
		if there {
			x, nodes = nodes[0], nodes[1:]
		}
		return x
	}
	s = CentroidState{next(c.Spec.Clusters > 0), next(c.kept() > 0), next(c.Spec.Sinks > 0)}
	return s, nodes
}

// kept returns how many keys before a position it, or a later position of its block, may still see exactly.
func (c Centroids) kept() int { return c.Spec.Window + c.block() - 1 }

// Empty returns the state without keys, in the precision of like.
func (c Centroids) Empty(like *Node, batch, kvHeads, dim, valueDim int) (s CentroidState) {
	c.Causal = true
	rows := func(n, width int) *Node {
		if n == 0 {
			return nil
		}
		return Zeros(like.Graph(), shapes.Make(like.DType(), batch, kvHeads, n, width))
	}
	return CentroidState{rows(c.Spec.Clusters, valueDim+1+dim+2*c.directions(dim)), rows(c.kept(), dim+valueDim),
		rows(c.Spec.Sinks, dim+valueDim)}
}

// StateNumbers returns the number of numbers in the state of one key/value head.
func (c Centroids) StateNumbers(dim, valueDim int) int {
	c.Causal = true
	return c.Spec.Clusters*(valueDim+1+dim+2*c.directions(dim)) + (c.kept()+c.Spec.Sinks)*(dim+valueDim)
}

// Extend continues causal attention from a state, as Attention.Extend does. The outputs equal those of Forward on
// all tokens. from is the position of the first new token, an int32 scalar. The memory for n tokens grows with n²:
// read a long prompt in parts.
//
// A query adds up three sums: sinks (First), keys near its block (Near and the new ones), and the clusters as they
// were at the begin of its block. Blocks that begin among the new tokens need sums of their own.
func (c Centroids) Extend(s CentroidState, from, q, k, v *Node) (*Node, CentroidState) {
	if dtype := q.DType(); c.Double && dtype != dtypes.Float64 {
		out, next := c.Extend(s.each(double), from, double(q), double(k), double(v))
		return ConvertDType(out, dtype), next.each(back(dtype))
	}
	c.Causal = true
	d, err := measure(q, k, v, Visible{})
	if err == nil {
		err = c.Check(d.kvHeads, d.dim)
	}
	if err == nil && c.Exact > 0 {
		err = fmt.Errorf("rfx: exact keys of clusters are chosen from all keys, which no state keeps: %w",
			errors.ErrUnsupported)
	}
	if err == nil && d.queries != d.keys {
		err = fmt.Errorf("rfx: %d queries and %d keys, where positions count", d.queries, d.keys)
	}
	if err != nil {
		panic(err)
	}
	t := c.call(q, k, v, Visible{}, d)
	g, block, window, m := q.Graph(), c.block(), c.Spec.Window, d.queries
	x := Reshape(t.in.q, d.batch, d.kvHeads, d.group*m, d.dim)
	// Positions of n tokens, the first one given: as a column of [n, width] or as a row of [height, n].
	column := func(first *Node, n, width int) *Node {
		return Add(Iota(g, shapes.Make(dtypes.Int32, n, width), 0), first)
	}
	row := func(first *Node, height, n int) *Node {
		return Add(Iota(g, shapes.Make(dtypes.Int32, height, n), 1), first)
	}
	begin := func(p *Node) *Node { return Sub(p, Mod(p, Scalar(g, dtypes.Int32, block))) } // of the block of p
	sinks := Scalar(g, dtypes.Int32, c.Spec.Sinks)

	var total *partial
	add := func(p partial) {
		if total != nil {
			p = total.plus(p)
		}
		total = &p
	}
	weigh := func(pairs, see *Node) { // see [m, rows]
		n := pairs.Shape().Dimensions[2]
		see = Reshape(BroadcastPrefix(see, d.group), 1, 1, d.group*m, n)
		y, values := SliceAxis(pairs, 3, AxisRangeFromStart(d.dim)), SliceAxis(pairs, 3, AxisRangeToEnd(d.dim))
		add(weighted(product(x, y, -1, -1), withOnes(values), see))
	}
	next := s
	both := Concatenate([]*Node{t.in.k, SliceAxis(t.in.v, 3, AxisRangeFromStart(d.value))}, -1)
	if s.First != nil {
		next.First = put(s.First, both, from)
		weigh(next.First, LessOrEqual(row(Scalar(g, dtypes.Int32, 0), m, c.Spec.Sinks), column(from, m, c.Spec.Sinks)))
	}
	if s.Near != nil {
		both = Concatenate([]*Node{s.Near, both}, 2)
		next.Near = SliceAxis(both, 2, AxisRangeToEnd(m))
	}
	first := SubScalar(from, c.kept()) // position of the first row of both
	n := both.Shape().Dimensions[2]
	at, p := row(first, m, n), column(from, m, n)
	near := LogicalAnd(LessOrEqual(at, p), GreaterOrEqual(at, Max(SubScalar(begin(p), window), sinks)))
	weigh(both, near)
	if s.Sum == nil {
		return t.finish(*total), next
	}

	// Sums for the blocks of the queries, and last for the block of the next token. The keys that leave a window are
	// the first rows of both.
	leave, blocks := block-1+m, (m+block-2)/block+1
	pairs := SliceAxis(both, 2, AxisRangeFromStart(leave))
	on := GreaterOrEqual(row(first, 1, leave), sinks)
	y, values := SliceAxis(pairs, 3, AxisRangeFromStart(d.dim)), withOnes(SliceAxis(pairs, 3, AxisRangeToEnd(d.dim)))
	member := t.member(y, Reshape(on, 1, 1, leave, 1))
	ends := Add(MulScalar(Iota(g, shapes.Make(dtypes.Int32, blocks, leave), 0), block), begin(from))
	ends = Concatenate([]*Node{ends, BroadcastToDims(begin(AddScalar(from, m)), 1, leave)}, 0)
	at = SubScalar(row(first, blocks+1, leave), -window) // where a key leaves the window
	enter := LogicalAnd(GreaterOrEqual(at, BroadcastToDims(begin(from), blocks+1, leave)), LessThan(at, ends))
	fresh := Mul(ExpandAxes(member, 2), Reshape(ConvertDType(enter, x.DType()), 1, 1, blocks+1, leave, 1))
	sums := Einsum("bhtlc,bhlw->bhtcw", fresh, t.rowsOf(y, values, member))
	sums = Add(sums, ExpandAxes(s.Sum, 2))
	next.Sum = Squeeze(SliceAxis(sums, 2, AxisElem(-1)), 2)
	own := DivScalar(Sub(begin(column(from, m, 1)), begin(from)), block) // the block of each query
	own = Reshape(BroadcastPrefix(own, d.group), 1, 1, 1, d.group*m, 1)
	for i := range blocks {
		p := t.far(ExpandAxes(x, 2), SliceAxis(sums, 2, AxisElem(i))).only(Equal(own, Scalar(g, dtypes.Int32, i)))
		add(p.each(func(y *Node) *Node { return Squeeze(y, 2) }))
	}
	return t.finish(*total), next
}

// finish divides the sums of rows [batch, kvHeads, group·queries, ·] and restores the shape of the output.
func (t clustered) finish(p partial) *Node {
	d := t.in.sizes
	return Reshape(quotient(p, d.value), d.batch, d.heads, d.queries, d.value)
}

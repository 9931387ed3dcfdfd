package centroid

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
)

// CompactHead is a finished context of one key/value head in few slots. A query x weighs slot c by e^{x·k_c + b_c}, for
// k the keys and b the bias, and adds the values by these weights.
type CompactHead struct {
	Keys, Values dense.Matrix[float32]
	Bias         []float32
}

const (
	// compactEdge first and last keys stay slots of their own.
	compactEdge = 4
	// compactFloor is the weight that all keys together have in the clustering besides the attention they receive.
	compactFloor = 0.05
	// compactValues is the share of values in the distance of two keys.
	compactValues = 0.5
	// compactRidge is λ of the values, in units of the mean diagonal of XᵀX.
	compactRidge = 0.1
	// compactRows queries or keys are multiplied at a time.
	compactRows = 64
	// The weight of a slot lies between these.
	minSlotWeight, maxSlotWeight = 1e-3, 1e4
)

// Compact replaces the keys and values of a head by budget slots which serve later queries nearly as well; a budget of
// all keys or more keeps them as they are. The rows of queries are examples of later queries of all heads that share
// the keys: some hundreds, half of them recent. Where positions are part of keys (RoPE), rotate the examples to
// positions after the context: without it the loss of perplexity more than doubles. Scale is [Attention.Scale].
//
// The first and last four keys and those with the largest rms attention are seeds. One step of k-means, weighted by the
// mean attention a_j, groups the others around them, in the metric of E(q·(k_i − k_j))² and of the distance of values.
// A slot has the mean key of its group, and
//
//	weight  w_c = Σ_{j∈c} a_j / mean_i e^{q_i·k_c − lm_i},   lm_i = log Σ_j e^{q_i·k_j},
//	values  V = V₀ + (XᵀX + λI)⁻¹Xᵀ(AV − X V₀),
//
// for A and X the attention of the examples to the keys and to the slots and V₀ the mean values (ridge regression
// towards the mean).
//
// Keys that are equal receive equal attention, so they share a slot; a head with few distinct keys has fewer slots than
// its budget. The working memory is some keys·(dimensions + 128) + examples·budget numbers. The result is the same at
// any number of processors. Callers share heads among goroutines.
func Compact(keys, values, queries dense.Matrix[float32], scale float64, budget int) (CompactHead, error) {
	list, err := CompactEach(keys, values, queries, scale, budget)
	if err != nil {
		return CompactHead{}, err
	}
	return list[0], nil
}

// CompactEach is Compact for several budgets. It computes the attention of the examples once.
func CompactEach(keys, values, queries dense.Matrix[float32], scale float64,
	budgets ...int) ([]CompactHead, error) {
	if err := checkCompact(keys, values, queries, budgets); err != nil {
		return nil, err
	}
	scale, err := logitScale(scale, keys.Cols)
	if err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return nil, err
	}
	out := make([]CompactHead, len(budgets))
	var c *compaction
	for i, budget := range budgets {
		if budget >= keys.Rows {
			out[i] = CompactHead{Keys: keys.Clone(), Values: values.Clone(), Bias: make([]float32, keys.Rows)}
			continue
		}
		if c == nil {
			c = &compaction{tab: tab, k: keys, v: values, q: queries.Clone()}
			for i := range c.q.Rows {
				tab.Scale(c.q.Row(i), float32(scale))
			}
			c.attend()
			c.findTwins()
			if err := c.coordinates(); err != nil {
				return nil, err
			}
		}
		c.t, c.out = budget, CompactHead{}
		c.seed()
		c.cluster()
		c.weigh()
		if err := c.regress(); err != nil {
			return nil, err
		}
		out[i] = c.out
	}
	return out, nil
}

func checkCompact(keys, values, queries dense.Matrix[float32], budgets []int) error {
	for _, x := range [...]struct {
		name string
		m    dense.Matrix[float32]
	}{{"keys", keys}, {"values", values}, {"queries", queries}} {
		if err := x.m.Check(); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		if x.m.IsEmpty() {
			return fmt.Errorf("%s are %d × %d: %w", x.name, x.m.Rows, x.m.Cols, dense.ErrShape)
		}
		if err := x.m.CheckFinite(); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	if keys.Rows != values.Rows || keys.Cols != queries.Cols {
		return fmt.Errorf("keys %d × %d, values %d × %d, queries %d × %d: %w", keys.Rows, keys.Cols, values.Rows,
			values.Cols, queries.Rows, queries.Cols, dense.ErrShape)
	}
	for _, budget := range budgets {
		if budget < 1 {
			return fmt.Errorf("a budget of %d slots, want at least 1: %w", budget, ErrSpec)
		}
	}
	return nil
}

// compaction is a Compact under way.
type compaction struct {
	tab     *kern.Table[float32]
	k, v, q dense.Matrix[float32] // q is scaled
	t       int

	lm     []float32             // of every query
	target dense.Matrix[float32] // AV
	mean   []float32             // a_j
	rms    []float32             // Σ_i A_ij²
	twin   []int32               // the first key that equals each key
	first  []int32               // by twin: the first of these keys that may share a slot

	seeds     []int32 // by position
	from, to  int     // slots that take more keys than their seed
	z         dense.Matrix[float32]
	slot      []int32 // of every key
	x         dense.Matrix[float32]
	out       CompactHead
	prototype dense.Matrix[float32] // V₀
}

// attend computes the attention of the queries to the keys, some rows at a time.
func (c *compaction) attend() {
	n := c.q.Rows
	c.lm, c.target = make([]float32, n), dense.New[float32](n, c.v.Cols)
	c.mean, c.rms = make([]float32, c.k.Rows), make([]float32, c.k.Rows)
	var panel kern.Panel[float32]
	c.tab.Pack(&panel, c.k)
	a, square := dense.New[float32](compactRows, c.k.Rows), dense.New[float32](compactRows, c.k.Rows)
	sum := make([]float32, compactRows)
	for lo := 0; lo < n; lo += compactRows {
		hi := min(lo+compactRows, n)
		rows, top := a.RowRange(0, hi-lo), c.lm[lo:hi]
		c.tab.MulT(rows, c.q.RowRange(lo, hi), &panel, nil)
		c.tab.RowMax(top, rows)
		c.tab.ExpRows(sum[:hi-lo], rows, top)
		for i := range rows.Rows {
			c.tab.Scale(rows.Row(i), 1/sum[i])
			c.tab.FlushMax(rows.Row(i))
			top[i] += float32(math.Log(float64(sum[i])))
			copy(square.Row(i), rows.Row(i))
			c.tab.Mul(square.Row(i), rows.Row(i))
		}
		c.tab.Product(c.target.RowRange(lo, hi), rows, c.v, false)
		c.tab.ColSum(c.mean, rows)
		c.tab.ColSum(c.rms, square.RowRange(0, hi-lo))
	}
	c.tab.Scale(c.mean, 1/float32(n))
}

// findTwins finds equal keys.
func (c *compaction) findTwins() {
	order := make([]int32, c.k.Rows)
	c.twin = make([]int32, c.k.Rows)
	for j := range order {
		order[j], c.twin[j] = int32(j), int32(j)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(slices.Compare(c.k.Row(int(a)), c.k.Row(int(b))), cmp.Compare(a, b))
	})
	for i, j := range order[1:] {
		if before := order[i]; slices.Equal(c.k.Row(int(before)), c.k.Row(int(j))) {
			c.twin[j] = c.twin[before]
		}
	}
}

// seed chooses the keys that groups begin with: of equal ones the first, which counts for all of them. If there are
// fewer distinct keys than slots, t becomes smaller.
func (c *compaction) seed() {
	n := c.k.Rows
	sinks := min(compactEdge, (c.t-1)/2)
	last := min(compactEdge, c.t-1-sinks)
	count, order := make([]float32, n), make([]int32, 0, n)
	c.first = slices.Repeat([]int32{-1}, n)
	for j := sinks; j < n-last; j++ {
		w := c.twin[j]
		if c.first[w] < 0 {
			c.first[w] = int32(j)
			order = append(order, int32(j))
		}
		count[c.first[w]]++
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(count[b]*count[b]*c.rms[b], count[a]*count[a]*c.rms[a]), cmp.Compare(a, b))
	})
	order = order[:min(len(order), c.t-sinks-last)]
	c.t = sinks + len(order) + last
	c.from, c.to = sinks, c.t-last
	slices.Sort(order)
	c.seeds = make([]int32, 0, c.t)
	for j := range sinks {
		c.seeds = append(c.seeds, int32(j))
	}
	c.seeds = append(c.seeds, order...)
	for j := n - last; j < n; j++ {
		c.seeds = append(c.seeds, int32(j))
	}
}

// coordinates sets z to the keys and values, so that |z_i − z_j|² is the distance of the clustering. Any U with UᵀU =
// QᵀQ/n serves as the root of the metric.
func (c *compaction) coordinates() error {
	d := c.k.Cols
	u := dense.New[float32](d, d)
	c.tab.TMul(u, c.q, c.q)
	var trace float32
	for i := range d {
		trace += u.At(i, i)
	}
	if trace == 0 {
		trace = float32(d)
	}
	c.tab.Scale(u.Data, float32(d)/trace) // the factor of the whole metric has no influence
	for i := range d {
		u.Set(i, i, u.At(i, i)+1e-4)
	}
	if err := linalg.Cholesky(u); err != nil {
		return fmt.Errorf("metric of the queries: %w", err)
	}
	for i := range d {
		clear(u.Row(i)[:i])
	}
	var panel kern.Panel[float32]
	c.tab.Pack(&panel, u)
	c.z = dense.New[float32](c.k.Rows, d+c.v.Cols)
	c.tab.MulT(c.z.ColRange(0, d), c.k, &panel, nil)
	var factor float32
	if s := spread(c.v); s > 0 {
		factor = float32(compactValues * spread(c.z.ColRange(0, d)) / s)
	}
	for j := range c.k.Rows {
		row := c.z.Row(j)[d:]
		copy(row, c.v.Row(j))
		c.tab.Scale(row, factor)
	}
	// Equal keys have the mean of their values.
	count := make([]float32, c.k.Rows)
	for j, w := range c.twin {
		if count[w]++; int(w) < j {
			c.tab.MulAdd(c.z.Row(int(w))[d:], c.z.Row(j)[d:], 1)
		}
	}
	for j, w := range c.twin {
		if row := c.z.Row(j); int(w) == j {
			c.tab.Scale(row[d:], 1/count[j])
		} else {
			copy(row, c.z.Row(int(w)))
		}
	}
	return nil
}

// spread is the standard deviation of the elements of m around the means of their columns.
func spread(m dense.Matrix[float32]) float64 {
	mean := make([]float64, m.Cols)
	for i := range m.Rows {
		for j, x := range m.Row(i) {
			mean[j] += float64(x) / float64(m.Rows)
		}
	}
	var sum float64
	for i := range m.Rows {
		for j, x := range m.Row(i) {
			sum += (float64(x) - mean[j]) * (float64(x) - mean[j])
		}
	}
	return math.Sqrt(sum / float64(m.Rows*m.Cols))
}

// cluster assigns the keys to slots and sets the means of keys and values.
func (c *compaction) cluster() {
	c.slot = make([]int32, c.k.Rows)
	centres := dense.New[float32](c.t, c.z.Cols)
	for s, j := range c.seeds {
		copy(centres.Row(s), c.z.Row(int(j)))
	}
	c.assign(centres)
	for s, j := range c.seeds {
		c.slot[j] = int32(s)
	}
	c.unite()
	c.means(centres, c.z)
	c.assign(centres)
	c.unite()
	c.out.Keys, c.prototype = dense.New[float32](c.t, c.k.Cols), dense.New[float32](c.t, c.v.Cols)
	c.means(c.out.Keys, c.k)
	c.means(c.prototype, c.v)
}

// assign sets the slots of the keys to the nearest centres. Slots of single keys take no others.
func (c *compaction) assign(centres dense.Matrix[float32]) {
	n, last := c.k.Rows, c.t-c.to
	for j := range c.from {
		c.slot[j] = int32(j)
	}
	for j := range last {
		c.slot[n-last+j] = int32(c.to + j)
	}
	centres = centres.RowRange(c.from, c.to)
	bias := make([]float32, centres.Rows)
	for s := range bias {
		bias[s] = float32(-c.tab.Norm2(centres.Row(s)) / 2)
	}
	var panel kern.Panel[float32]
	c.tab.Pack(&panel, centres)
	score := dense.New[float32](compactRows, centres.Rows)
	for lo := c.from; lo < n-last; lo += compactRows {
		hi := min(lo+compactRows, n-last)
		c.tab.MulT(score.RowRange(0, hi-lo), c.z.RowRange(lo, hi), &panel, bias)
		for j := lo; j < hi; j++ {
			row := score.Row(j - lo)
			c.slot[j] = int32(c.from + max(0, slices.Index(row, c.tab.Max(row))))
		}
	}
}

// unite puts equal keys into the slot of the first of them, except for slots of single keys.
func (c *compaction) unite() {
	n, last := c.k.Rows, c.t-c.to
	for j := c.from; j < n-last; j++ { // the first comes before the others
		c.slot[j] = c.slot[c.first[c.twin[j]]]
	}
}

// means sets the rows of dst to the weighted means of x by slot; a slot without keys gets the row of its seed.
func (c *compaction) means(dst, x dense.Matrix[float32]) {
	sum := make([]float32, c.t)
	clear(dst.Data)
	floor := float32(compactFloor) / float32(c.k.Rows)
	for j, s := range c.slot {
		w := c.mean[j] + floor
		sum[s] += w
		c.tab.MulAdd(dst.Row(int(s)), x.Row(j), w)
	}
	for s, w := range sum {
		if w == 0 {
			copy(dst.Row(s), x.Row(int(c.seeds[s])))
			continue
		}
		c.tab.Scale(dst.Row(s), 1/w)
	}
}

// weigh sets the bias of the slots so that each has the mass of its keys in the mean, and X.
func (c *compaction) weigh() {
	n := c.q.Rows
	var panel kern.Panel[float32]
	c.tab.Pack(&panel, c.out.Keys)
	c.x = dense.New[float32](n, c.t)
	c.tab.MulTExp(c.x, c.q, &panel, nil, c.lm)
	own, w := make([]float32, c.t), make([]float32, c.t)
	c.tab.ColSum(own, c.x)
	for j, s := range c.slot {
		w[s] += c.mean[j]
	}
	c.out.Bias = make([]float32, c.t)
	for s := range w {
		x := float64(w[s]) * float64(n) / max(float64(own[s]), 1e-30)
		x = max(minSlotWeight, min(maxSlotWeight, x))
		c.out.Bias[s] = float32(math.Log(x))
	}
	// Weights of a query may all be too small for T before they are normalised: begin again from the logits.
	c.tab.MulT(c.x, c.q, &panel, c.out.Bias)
	top, sum := make([]float32, n), make([]float32, n)
	c.tab.RowMax(top, c.x)
	c.tab.ExpRows(sum, c.x, top)
	for i := range n {
		row := c.x.Row(i)
		c.tab.Scale(row, 1/sum[i])
		c.tab.FlushMax(row)
	}
}

// regress sets the values. With more slots than queries the system of the queries is the smaller one, and
// (XᵀX + λI)⁻¹Xᵀ = Xᵀ(XXᵀ + λI)⁻¹.
func (c *compaction) regress() error {
	n, t := c.q.Rows, c.t
	c.out.Values = c.prototype
	var lambda float64
	for i := range n {
		lambda += c.tab.Norm2(c.x.Row(i))
	}
	lambda = compactRidge*lambda/float64(t) + 1e-7
	rest := c.target.Clone() // AV − X V₀
	minus := c.prototype.Clone()
	c.tab.Scale(minus.Data, -1)
	c.tab.Product(rest, c.x, minus, true)
	var gram, b dense.Matrix[float32]
	if t <= n {
		gram, b = dense.New[float32](t, t), dense.New[float32](t, c.v.Cols)
		c.tab.TMul(gram, c.x, c.x)
		c.tab.TMul(b, c.x, rest)
	} else {
		gram, b = dense.New[float32](n, n), rest
		var panel kern.Panel[float32]
		c.tab.Pack(&panel, c.x)
		c.tab.MulT(gram, c.x, &panel, nil)
	}
	for i := range gram.Rows {
		gram.Set(i, i, gram.At(i, i)+float32(lambda))
	}
	if err := linalg.Cholesky(gram); err != nil {
		return fmt.Errorf("values of the slots: %w", err)
	}
	if err := linalg.SolveT(gram, b); err != nil {
		return err
	}
	if err := linalg.Solve(gram, b); err != nil {
		return err
	}
	if t <= n {
		c.tab.MulAdd(c.out.Values.Data, b.Data, 1)
	} else {
		c.tab.TMul(c.out.Values, c.x, b)
	}
	return nil
}

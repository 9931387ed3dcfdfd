package centroid

import (
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// fitter fits the clusters of the keys of one packed sequence of a head, with memory that later fits reuse. Call reset,
// then add, then train; then assigner returns the result. The steps of train are: weigh the keys by landmark queries,
// measure the metric, draw a sample of keys, map it to coordinates z in which the metric is Euclidean, and run k-means
// there.
type fitter struct {
	tab   *kern.Table[float32]
	spec  *settings
	scale float64
	q, k  attention.Seq[float32]
	b     int
	span  attention.Span
	head  int // key/value head
	group int // query heads per key head

	workers int // goroutines that may share the head; 0 means one

	keys    []int32   // positions of the keys that count
	weights []float32 // one per key; they sum to 1.1
	marks   int       // landmark rows that see a key

	// The metric E xxᵀ = (queryUnit)²·factor·factorᵀ, with factor lower triangular. A key has the coordinates z = (y −
	// mean)·unit·factor. The units keep numbers near 1.
	metric    dense.Matrix[float64] // scratch memory of factorise
	queryUnit float64
	factor    dense.Matrix[float32]
	mean      []float32
	unit      float64

	sample []int32   // indexes into keys
	mass   []float32 // their weights
	z      dense.Matrix[float32]
	km     kmeans

	x, gather, e dense.Matrix[float32]
	panel        kern.Panel[float32]
	sum, wide    []float64
}

const (
	chunkQueries = 256 // at most so many queries determine the metric of a chunk
	meanRows     = 512 // rows that are summed in float32
)

// reset begins the fit of a packed sequence of batch b.
func (f *fitter) reset(spec *settings, scale float64, q, k attention.Seq[float32], b, head int, span attention.Span) {
	f.spec, f.scale, f.q, f.k, f.b, f.head, f.span = spec, scale, q, k, b, head, span
	f.group = q.Heads / max(1, k.Heads)
	f.keys, f.weights = f.keys[:0], f.weights[:0]
	f.km.tab, f.km.workers = f.tab, f.workers
}

// add adds the keys that count, except sinks: these are exact for all queries, and often outliers that would get
// clusters of their own. seen is the result of [attention.Visibility.SeenKeys].
func (f *fitter) add(seen []bool) {
	s := f.span
	for j := s.K0 + min(f.spec.sinks, s.K1-s.K0); j < s.K1; j++ {
		if seen == nil || seen[f.b*f.k.Len+j] {
			f.keys = append(f.keys, int32(j))
		}
	}
}

// train clusters the keys of a chunk, weighted by the attention of its queries. Afterwards f.km.centres holds the
// centres in coordinates z.
func (f *fitter) train() {
	f.weigh()
	f.measure()
	f.sample, f.mass = f.sample[:0], append(f.mass[:0], f.weights...)
	for j := range f.keys {
		f.sample = append(f.sample, int32(j))
	}
	f.coordinates()
	f.km.run(f.z, f.mass, f.spec.clusters, f.spec.passes, f.spec.seed)
}

// weigh sets the weights of all keys to the mean attention of the landmarks, plus a floor of a tenth of the uniform
// weight.
func (f *fitter) weigh() {
	n, queries := len(f.keys), f.span.Q1-f.span.Q0
	f.weights = buf.Zeroed(f.weights, n)
	marks := min(f.spec.landmarks, queries)
	if rows := marks * f.group; rows > 0 {
		f.x, f.e = buf.Shaped(f.x, rows, f.q.Dim), buf.Shaped(f.e, rows, n)
		for g := range f.group {
			q := f.q.Head(f.b, f.head*f.group+g)
			for t := range marks {
				copy(f.x.Row(g*marks+t), q.Row(f.span.Q0+landmark(t, marks, queries)))
			}
		}
		f.tab.Scale(f.x.Data, float32(f.scale))
		f.tab.Pack(&f.panel, gathered(&f.gather, f.k.Head(f.b, f.head), f.keys))
		f.tab.MulT(f.e, f.x, &f.panel, nil)
		f.marks = 0
		for r := range rows {
			row := f.e.Row(r)
			sum := float64(f.tab.ExpSum(row, f.tab.Max(row)))
			if !(sum > 0) || !dense.IsFinite(sum) { // no keys, or logits beyond the range of float32
				continue
			}
			f.marks++
			f.tab.MulAdd(f.weights, row, float32(1/sum))
		}
	}
	for j := range f.weights {
		f.weights[j] = f.weights[j]/float32(max(f.marks, 1)) + float32(0.1/float64(n))
	}
}

// landmark returns the query of landmark t of n: the middle of the t-th of n equal parts of the queries.
func landmark(t, n, queries int) int { return (2*t + 1) * queries / (2 * n) }

// floorTo returns the largest multiple of unit that is at most n, which may be negative.
func floorTo(n, unit int) int {
	r := n % unit
	if r < 0 {
		r += unit
	}
	return n - r
}

// measure computes the metric of a chunk from equally spaced queries.
func (f *fitter) measure() {
	queries := f.span.Q1 - f.span.Q0
	total := queries * f.group
	n := min(total, chunkQueries)
	f.x = buf.Shaped(f.x, n, f.q.Dim)
	for row := range n {
		i := int(uint64(2*row+1) * uint64(total) / uint64(2*n))
		copy(f.x.Row(row), f.q.Head(f.b, f.head*f.group+i/queries).Row(f.span.Q0+i%queries))
	}
	f.setMetric(f.x, f.scale)
}

// setMetric sets the metric to E xxᵀ of the rows of x times scale. It rescales x. If all queries are zero, the metric
// is the identity: the geometry of the keys alone.
func (f *fitter) setMetric(x dense.Matrix[float32], scale float64) {
	n, d := x.Rows, x.Cols
	top := f.longest(x)
	f.queryUnit = top * math.Abs(scale)
	f.factor = buf.Shaped(f.factor, d, d)
	clear(f.factor.Data)
	if top == 0 || !dense.IsFinite(f.queryUnit) || f.queryUnit == 0 {
		f.queryUnit = 1
		for i := range d {
			f.factor.Set(i, i, 1)
		}
		return
	}
	f.tab.Scale(x.Data[:n*d], float32(1/top))
	f.tab.TMul(f.factor, x, x)
	f.factorise(f.factor, f.factor, float64(n))
}

// factorise sets l to the Cholesky factor of m/n, a matrix of second moments; l may be m. Directions in which the
// moments are zero up to rounding get zeros.
func (f *fitter) factorise(l, m dense.Matrix[float32], n float64) {
	d := m.Rows
	f.metric = buf.Shaped(f.metric, d, d)
	metric := f.metric
	for i := range d {
		for j, v := range m.Row(i) {
			metric.Set(i, j, float64(v)/n)
		}
	}
	var trace float64
	for i := range d {
		trace += metric.At(i, i)
	}
	least := trace * 1e-7
	clear(l.Data)
	for i := range d {
		row, to := metric.Row(i), l.Row(i)
		for j := range i {
			if root := metric.At(j, j); root > 0 {
				row[j] = (row[j] - dot4(row[:j], metric.Row(j))) / root
			} else {
				row[j] = 0
			}
			to[j] = float32(row[j])
		}
		if s := row[i] - dot4(row[:i], row); s > least {
			row[i] = math.Sqrt(s)
		} else {
			row[i] = 0
		}
		to[i] = float32(row[i])
	}
}

// dot4 is the inner product with the first elements of y, in four sums that do not wait for each other.
func dot4(x, y []float64) float64 {
	var a, b, c, d float64
	y = y[:len(x)]
	for len(x) >= 4 && len(y) >= 4 {
		a += x[0] * y[0]
		b += x[1] * y[1]
		c += x[2] * y[2]
		d += x[3] * y[3]
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		a += v * y[i]
	}
	return a + b + (c + d)
}

// drawEvenly chooses keys at equal distances, all of the same mass. Their number is odd, as that of metricRows is
// prime.
func (f *fitter) drawEvenly() {
	n := len(f.keys)
	m := min(n, f.spec.sample|1)
	f.sample, f.mass = f.sample[:0], f.mass[:0]
	for i := range m {
		f.sample, f.mass = append(f.sample, int32((2*i+1)*n/(2*m))), append(f.mass, float32(1/float64(m)))
	}
}

// coordinates sets z to the coordinates of the sample.
func (f *fitter) coordinates() {
	d, n, k := f.k.Dim, len(f.sample), f.k.Head(f.b, f.head)
	f.gather = buf.Shaped(f.gather, n, d)
	for i, j := range f.sample {
		copy(f.gather.Row(i), k.Row(int(f.keys[j])))
	}
	f.mean = buf.Sized(f.mean, d)
	f.wide = buf.Zeroed(f.wide, d)
	for lo := 0; lo < n; lo += meanRows {
		hi := min(lo+meanRows, n)
		clear(f.mean)
		f.tab.ColSum(f.mean, f.gather.RowRange(lo, hi))
		for l, m := range f.mean {
			f.wide[l] += float64(m) / float64(n)
		}
	}
	f.mean = convert(f.mean[:0], f.wide)
	for i := range n {
		f.tab.MulAdd(f.gather.Row(i), f.mean, -1)
	}
	f.unit = 1
	if top := f.longest(f.gather); top > 0 && 1/top > 0 && dense.IsFinite(1/top) {
		f.unit = 1 / top
	}
	f.z = buf.Shaped(f.z, n, d)
	f.tab.Scale(f.gather.Data, float32(f.unit))
	f.tab.Product(f.z, f.gather, f.factor, false)
}

// longest returns the length of the longest row of m. If squares overflow or underflow, it returns the largest
// magnitude of a number instead.
func (f *fitter) longest(m dense.Matrix[float32]) float64 {
	f.sum = buf.Sized(f.sum, m.Rows)
	f.tab.Norms(f.sum, m)
	var top float64
	for _, v := range f.sum {
		top = max(top, v)
	}
	if dense.IsFinite(top) && top > 1e-200 {
		return math.Sqrt(top)
	}
	top = 0
	for i := range m.Rows {
		for _, v := range m.Row(i) {
			top = max(top, math.Abs(float64(v)))
		}
	}
	return top
}

// assigner sets a to the assignment of keys to the clusters of the fit.
func (f *fitter) assigner(a *assigner) {
	c := f.km.centres
	a.tab, a.unit = f.tab, float32(f.unit)
	a.mean = append(a.mean[:0], f.mean...)
	a.rows = buf.Shaped(a.rows, c.Rows, c.Cols)
	a.bias = buf.Sized(a.bias, c.Rows)
	f.tab.Pack(&f.panel, f.factor)
	f.tab.MulT(a.rows, c, &f.panel, nil)
	for i := range c.Rows {
		f.tab.Scale(a.rows.Row(i), 2)
		a.bias[i] = -float32(f.tab.Norm2(c.Row(i)))
	}
	f.tab.Pack(&a.panel, a.rows)
}

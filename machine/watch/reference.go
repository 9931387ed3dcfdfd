package watch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// ErrFew marks tables with too few rows for a reference or a test.
var ErrFew = errors.New("too few rows")

// LeastRows is the smallest number of rows of a reference or a test.
const LeastRows = 20

// Options of a reference; the zero value is usual.
type Options struct {
	Projections int // random projections per bandwidth; 0 means 64
	Seed        uint64
}

// Reference is what a monitor remembers of the rows of a fit: sums of statistics, and the law of their differences in
// samples of the same rows. It holds no row. It is immutable; any number of goroutines may use it.
type Reference struct {
	layout
	o      Options
	median float64
	out    outputs

	rows    float64
	sums    []float64           // of all statistics over the rows of the reference
	joint   [bandwidths]moments // null law of the squared distance of mean features, times 1/(1/n + 1/m)
	limit   float32             // mean kernel below which a row is far
	centre  []float32           // mean features of the widest kernel
	maximum gumbel              // law of the largest studentised square of a pair
	tests   float64             // effective number of independent tests: see calibrate
}

// Sizes of the samples from which the law of the statistics is estimated.
const (
	lawRows   = 2048
	splits    = 200
	splitRows = 500
)

// New makes a reference of rows encoded by [Schema]; x should be a random sample of the rows of the fit, and is not
// kept. Fewer than [LeastRows] rows are ErrFew.
func New(s *data.Schema, x dense.Matrix[float64], o Options) (*Reference, error) {
	return newReference(s, x, o, outputs{})
}

func newReference(s *data.Schema, x dense.Matrix[float64], o Options, out outputs) (*Reference, error) {
	o.Projections = cmp.Or(o.Projections, 64)
	if x.Rows < LeastRows {
		return nil, fmt.Errorf("a reference of %d rows, at least %d are needed: %w", x.Rows, LeastRows, ErrFew)
	}
	if x.Cols != s.Width() {
		return nil, fmt.Errorf("rows of %d columns for a schema of %d: %w", x.Cols, s.Width(), dense.ErrShape)
	}
	r := &Reference{o: o, out: out, rows: float64(x.Rows)}
	r.schema = s
	random := rand.New(rng.Stream(o.Seed, 0x77617463))
	order := random.Perm(x.Rows) // the first rows are a random sample
	r.median = medianDistance(x, order)
	r.learnFields(x)
	r.choosePairs(x, order, random)
	if err := r.draw(r.median, o.Projections, o.Seed); err != nil {
		return nil, err
	}
	r.place(out.size())
	r.centre = make([]float32, r.features) // no row is far yet
	return r, r.learnLaw(x, order, random)
}

// medianDistance is the median distance between two rows, with values clipped as features clip them; 1 if all rows are
// equal.
func medianDistance(x dense.Matrix[float64], order []int) float64 {
	var d []float64
	for k := range min(1024, len(order)-1) {
		a, b, s := x.Row(order[k]), x.Row(order[k+1]), 0.0
		for j := range a {
			t := min(max(a[j], -away), away) - min(max(b[j], -away), away)
			s += t * t
		}
		d = append(d, s)
	}
	slices.Sort(d)
	if m := d[len(d)/2]; m > 0 {
		return math.Sqrt(m)
	}
	return math.Sqrt(cmp.Or(sum(d)/float64(len(d)), 1))
}

// learnFields chooses the bins of numbers.
func (r *Reference) learnFields(x dense.Matrix[float64]) {
	fields := r.schema.Fields
	bins := min(max(binBytes/(12*len(fields)), leastBins), mostBins)
	first := 0
	for i := range fields[:min(len(fields), mostFields)] {
		f := field{first: first, indicator: first + fields[i].Width() - 1}
		switch fields[i].Kind {
		case data.Categorical:
			f.levels = fields[i].Width() - 1
			f.kept = keptLevels(x, &fields[i], first)
		case data.Words:
		default:
			f.edges = edges(x, f.first, f.indicator, bins)
		}
		r.fields = append(r.fields, f)
		first += fields[i].Width()
	}
}

// keptLevels is the number of levels that are counted one by one. If the schema knows only the most frequent levels,
// those near the end of its list are there by chance: their share in other rows is smaller.
func keptLevels(x dense.Matrix[float64], f *data.Field, first int) int {
	n := len(f.Levels)
	if !f.Other || n == 0 {
		return n
	}
	count := make([]float64, n)
	for i := range x.Rows {
		for l := range count {
			count[l] += x.At(i, first+l)
		}
	}
	least := count[n-1]
	for l, c := range count {
		if c < 2*least+leastExpected {
			return l
		}
	}
	return n
}

// leaveOut moves the rows of levels that occur once to the others: of a row of the fit the other rows do not know the
// level either. Their share is what to expect of new rows (Good 1953).
func (r *Reference) leaveOut(sums []float64) {
	for k, f := range r.fields {
		if f.levels == 0 || r.schema.Fields[k].Other {
			continue
		}
		for c := f.at; c < f.at+f.kept; c++ {
			if sums[c] == 1 {
				sums[c], sums[f.at+f.kept] = 0, sums[f.at+f.kept]+1
			}
		}
	}
}

// edges returns the upper ends of at most most bins of about equally many values, after one below all values. It is
// empty if there are no values.
func edges(x dense.Matrix[float64], col, missing, most int) []float64 {
	var v []float64
	for i := range x.Rows {
		if row := x.Row(i); row[missing] == 0 {
			v = append(v, row[col])
		}
	}
	if len(v) == 0 {
		return nil
	}
	slices.Sort(v)
	out := []float64{math.Nextafter(v[0], math.Inf(-1))}
	distinct := slices.Compact(slices.Clone(v))
	if len(distinct) <= most {
		return append(out, distinct...)
	}
	for k := 1; k <= most; k++ {
		if e := v[len(v)*k/most-1]; e > out[len(out)-1] {
			out = append(out, e)
		}
	}
	return out
}

// Columns that enter pairs.
const (
	mostColumns = 256  // encoded columns
	rareLevel   = 0.05 // levels of a smaller share do not

	pairSample   = 1024 // rows by which pairs are chosen
	mostKurtosis = 25
)

// choosePairs chooses pairs of encoded columns of different fields: all if there are few, else the most correlated ones
// and as many random ones.
func (r *Reference) choosePairs(x dense.Matrix[float64], order []int, random *rand.Rand) {
	var owner []int
	for k, f := range r.fields {
		n := f.levels
		if len(f.edges) > 0 && r.schema.Fields[k].Kind != data.Time {
			n = 1
		}
		for j := f.first; j < f.first+n; j++ {
			var s, s2 float64
			for i := range x.Rows {
				v := min(max(x.At(i, j), -away), away)
				s, s2 = s+v, s2+v*v
			}
			n := float64(x.Rows)
			c := encoded{j, s / n, math.Sqrt(max(0, s2/n-s/n*s/n))}
			if c.scale < 1e-6 || f.levels > 0 && min(c.mean, 1-c.mean) < rareLevel || len(r.columns) == mostColumns {
				continue
			}
			r.columns, owner = append(r.columns, c), append(owner, k)
		}
	}
	// A product that is almost constant, with rare exceptions, has no normal mean.
	sample := order[:min(len(order), pairSample)]
	u := dense.New[float64](len(r.columns), len(sample))
	for k, c := range r.columns {
		for t, i := range sample {
			u.Set(k, t, min(max((x.At(i, c.col)-c.mean)/c.scale, -clipped), clipped))
		}
	}
	strength := map[pair]float64{}
	var all []pair
	for a := range r.columns {
		for b := range a {
			if mean, heavy := product(u.Row(a), u.Row(b)); owner[a] != owner[b] && heavy <= mostKurtosis {
				all = append(all, pair{a, b})
				strength[pair{a, b}] = math.Abs(mean)
			}
		}
	}
	if len(all) > mostPairs {
		slices.SortStableFunc(all, func(p, q pair) int { return cmp.Compare(strength[q], strength[p]) })
		rest := all[mostPairs/2:]
		random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		all = all[:mostPairs]
	}
	r.pairs = all
}

// product returns the mean of the products of two columns and their kurtosis.
func product(a, b []float64) (mean, kurtosis float64) {
	n, m2, m4 := float64(len(a)), 0.0, 0.0
	for i := range a {
		mean += a[i] * b[i] / n
	}
	for i := range a {
		d := a[i]*b[i] - mean
		m2, m4 = m2+d*d/n, m4+d*d*d*d/n
	}
	return mean, m4 / max(m2*m2, 1e-12)
}

// blockRows is the number of rows whose statistics are computed at a time.
const blockRows = 256

// learnLaw sums the statistics of all rows and estimates the law of their differences on a sample of the rows.
func (r *Reference) learnLaw(x dense.Matrix[float64], order []int, random *rand.Rand) error {
	var s statistics
	law := dense.New[float64](min(x.Rows, lawRows), x.Cols)
	for i := range law.Rows {
		copy(law.Row(i), x.Row(order[i]))
	}
	if err := s.of(&r.layout, law, r.centre, 0); err != nil {
		return err
	}
	// A row is far if fewer than one row in a hundred has a smaller mean kernel.
	mean := make([]float64, r.atCounts)
	for i := range law.Rows {
		for j, v := range s.vector.Row(i) {
			mean[j] += float64(v) / float64(law.Rows)
		}
	}
	for f := range r.centre {
		r.centre[f] = float32(mean[r.atColumns-r.features+f])
	}
	scores := make([]float32, law.Rows)
	for i := range scores {
		scores[i] = kernelMean(s.vector.Row(i)[r.atColumns-r.features:r.atColumns], r.centre)
	}
	sorted := slices.Clone(scores)
	slices.Sort(sorted)
	r.limit = sorted[len(sorted)/100]
	for i, v := range scores {
		if v < r.limit {
			s.vector.Set(i, r.atFar, 1)
		}
	}
	for b := range r.joint {
		r.joint[b] = nullMoments(s.vector, mean, b*r.features, r.features)
	}
	total := make([]float64, r.size)
	for i := range law.Rows {
		s.addTo(total, &r.layout, i)
	}
	r.sums = total
	if err := r.calibrate(&s, total, random); err != nil {
		return err
	}
	r.sums = make([]float64, r.size)
	for lo := 0; lo < x.Rows; lo += blockRows {
		if err := s.of(&r.layout, x.RowRange(lo, min(lo+blockRows, x.Rows)), r.centre, r.limit); err != nil {
			return err
		}
		for i := range s.vector.Rows {
			s.addTo(r.sums, &r.layout, i)
		}
	}
	r.leaveOut(r.sums)
	return nil
}

// addTo adds the statistics of row i to sums.
func (s *statistics) addTo(sums []float64, l *layout, i int) {
	for j, v := range s.vector.Row(i) {
		sums[j] += float64(v)
	}
	for _, at := range s.cells[i*len(l.fields) : (i+1)*len(l.fields)] {
		sums[at]++
	}
}

// nullMoments are the cumulants of |N(0, C)|² for the covariance C of the features from at: tr C, 2 tr C², 8 tr C³.
func nullMoments(v dense.Matrix[float32], mean []float64, at, n int) moments {
	a := blas64.General{Rows: v.Rows, Cols: n, Stride: n, Data: make([]float64, v.Rows*n)}
	for i := range v.Rows {
		for f := range n {
			a.Data[i*n+f] = float64(v.At(i, at+f)) - mean[at+f]
		}
	}
	c := blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)}
	c2 := blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1/float64(v.Rows-1), a, a, 0, c)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, c, c, 0, c2)
	var m moments
	for i := range n {
		m.Mean += c.Data[i*n+i]
		for j := range n {
			m.Variance += 2 * c.Data[i*n+j] * c.Data[j*n+i]
			m.Third += 8 * c.Data[i*n+j] * c2.Data[j*n+i]
		}
	}
	return m
}

// calibrate estimates how many independent tests the smallest p-value of the groups of tests is worth. The tests depend
// on each other, and those of columns and pairs are corrected for the number of columns as if they did not. Random
// halves of the reference are compared instead: of κ independent tests, the smallest p-value is below u in a share
// 1−(1−u)^κ of all samples.
func (r *Reference) calibrate(s *statistics, total []float64, random *rand.Rand) error {
	n := s.vector.Rows
	m := min(splitRows, n/3)
	smallest, most := make([]float64, splits), make([]float64, splits)
	outcomes := make([]comparison, splits)
	window, rest := make([]float64, r.size), make([]float64, r.size)
	for k := range outcomes {
		clear(window)
		for _, i := range random.Perm(n)[:m] {
			s.addTo(window, &r.layout, i)
		}
		for j := range rest {
			rest[j] = total[j] - window[j]
		}
		r.leaveOut(rest)
		outcomes[k] = r.compare(float64(n-m), rest, float64(m), window)
		most[k] = outcomes[k].most
	}
	r.maximum = gumbelOf(most)
	for k := range outcomes {
		outcomes[k].pairs = r.maximum.tail(most[k])
		smallest[k] = outcomes[k].smallest()
	}
	slices.Sort(smallest)
	for _, q := range []int{splits / 10, splits / 4} {
		u := min(max(smallest[q], 1e-4), 0.99)
		r.tests = max(r.tests, math.Log1p(-float64(q)/splits)/math.Log1p(-u))
	}
	return nil
}

// Rows is the number of rows that the reference was made of: all rows of a table, or a sample.
func (r *Reference) Rows() int64 { return int64(r.rows) }

// Width is the number of columns of encoded rows.
func (r *Reference) Width() int { return r.schema.Width() }

// Outputs is the number of predictions per row that monitors take; 0 means none.
func (r *Reference) Outputs() int { return r.out.Count }

// MonitorBytes is the memory of the sums of a monitor.
func (r *Reference) MonitorBytes() int { return 8 * r.size }

package attention

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// worker is the scratch memory of one goroutine, and the counts of what it has done.
type worker[T dense.Float] struct {
	m   randfeat.FeatureMap[T]
	tab *kern.Table[T]
	ws  randfeat.Workspace[T]

	phiK, phiQ dense.Matrix[T] // a chunk of features
	value      dense.Matrix[T] // factors of signed features
	col        []T             // −tau
	shift      []float64
	scale      []float64 // r_i of a chunk of queries
	den        []T
	look       int // keys tried together
	probe      dense.Matrix[T]
	fresh      bool // references were raised to a key that is in no sum yet: z may be below 1

	starS dense.Matrix[T] // of a view
	starZ []T

	kBuf, vBuf, qBuf, outBuf dense.Matrix[T] // gathered rows
	pos                      []int           // positions of gathered keys
	count                    []int           // keys of the chunk seen by each query

	packed kern.Panel[T]   // features of the keys of a chunk
	lifted dense.Matrix[T] // they, multiplied by 1/unlift
	unlift T
	sub    kern.Panel[T]   // the first of them
	a      dense.Matrix[T] // scores of a chunk
	ones   []T
	extra  []T

	win               windowScratch[T]
	rows              windowRows
	forward, backward stream[T]
	main              stream[T] // of a decoder

	checks bool
	report Report
	bad    bool // an output was not finite
	err    error
}

// huge stands for −tau of a feature that no key has had: any key with the feature exceeds it, and −Inf stays −Inf.
const huge = 1e30

// use prepares for a map and chunks of the given rows; checks says that outputs may not be finite.
func (w *worker[T]) use(m randfeat.FeatureMap[T], tab *kern.Table[T], rows int, checks bool) {
	f := m.OutDim()
	w.m, w.tab, w.ws.Workers, w.checks = m, tab, 1, checks
	w.phiK, w.phiQ = buf.Shaped(w.phiK, rows, f), buf.Shaped(w.phiQ, rows, f)
	if m.Signed() {
		w.value = buf.Shaped(w.value, rows, f)
	} else {
		w.value = dense.Matrix[T]{Data: w.value.Data[:0]}
	}
	w.col = buf.Sized(w.col, f)
	w.shift, w.scale, w.den, w.extra = buf.Sized(w.shift, rows), buf.Sized(w.scale, rows), buf.Sized(w.den, rows), buf.Sized(w.extra, rows)
	w.look, w.fresh = rows, false
	if len(w.ones) < rows {
		w.ones = buf.Sized(w.ones, rows)
		for i := range w.ones {
			w.ones[i] = 1
		}
	}
	w.count = buf.Sized(w.count, rows)
	w.a = buf.Shaped(w.a, rows, rows)
}

// values is the scratch for the values of rows features, empty for maps that have none.
func (w *worker[T]) values(rows int) dense.Matrix[T] {
	if w.value.Rows == 0 {
		return dense.Matrix[T]{}
	}
	return w.value.RowRange(0, rows)
}

// next writes the scaled features φ2(k_j)_f e^{−t_f} of as many of the first keys as stay below their references plus
// lag, at least one, and returns how many. It raises the references of s for the first key if necessary: every query
// that sees any of the keys sees the first. k has at least one row.
func (w *worker[T]) next(phi dense.Matrix[T], s *sums[T], k dense.Matrix[T]) (int, error) {
	n := min(w.look, k.Rows)
	got := 0
	w.fresh = false
	var err error
	if s.ref.set {
		if got, err = w.keys(phi.RowRange(0, n), s, k.RowRange(0, n)); err != nil {
			return 0, err
		}
	}
	if got == 0 {
		first := s.ref.set
		w.fresh = true
		if err := w.raise(phi, s, k.RowRange(0, 1)); err != nil {
			return 0, err
		}
		if first {
			w.report.Raised++
			w.look = 16 // others may follow soon
			n = min(n, w.look)
		}
		if n == 1 {
			return 1, nil
		}
		if got, err = w.keys(phi.RowRange(0, n), s, k.RowRange(0, n)); err != nil {
			return 0, err
		}
		if got == 0 {
			// Exponents so large that their rounding exceeds lag: the key alone, from the exponents that raised.
			return 1, w.raise(phi, s, k.RowRange(0, 1))
		}
	}
	if got == n {
		w.look = min(2*w.look, w.phiK.Rows)
	}
	return got, nil
}

// raise lifts the references of s to the key and writes its scaled features into the first row of phi.
func (w *worker[T]) raise(phi dense.Matrix[T], s *sums[T], k dense.Matrix[T]) error {
	e, value := phi.RowRange(0, 1), w.values(1)
	if err := w.m.LogKeys(e, value, w.shift[:1], k, &w.ws); err != nil {
		return err
	}
	row := e.Row(0)
	s.raise(w.tab, row, w.shift[0])
	w.tab.MulAdd(row, s.negTau(), 1)
	w.tab.Exp(row, T(s.ref.base-w.shift[0]))
	if !value.IsEmpty() {
		w.tab.Mul(row, value.Row(0))
	}
	w.tab.FlushMax(row)
	return nil
}

// negTau sets col to −tau, with huge instead of Inf.
func (w *worker[T]) negTau(ref *reference[T]) {
	for f, t := range ref.tau {
		if c := -t; c <= huge {
			w.col[f] = c
		} else {
			w.col[f] = huge
		}
	}
}

// Features are handed to products without subnormal numbers, which would slow these manyfold: they are flushed to zero
// (kern.Table.FlushMax). Beside a feature that is at least 1, or a denominator of e^−30 and more, nobody misses them.

// keys writes the scaled features of k and returns how many of the first rows stay below e^lag.
func (w *worker[T]) keys(phi dense.Matrix[T], s *sums[T], k dense.Matrix[T]) (int, error) {
	neg, base, shift := s.negTau(), s.ref.base, w.shift[:k.Rows]
	if value := w.values(k.Rows); !value.IsEmpty() {
		if err := w.m.LogKeys(phi, value, shift, k, &w.ws); err != nil {
			return 0, err
		}
		for j := range k.Rows {
			e := phi.Row(j)
			w.tab.MulAdd(e, neg, 1)
			d := T(base - shift[j])
			if !(w.tab.Max(e) <= lag+d) {
				return j, nil
			}
			w.tab.Exp(e, d)
			w.tab.Mul(e, value.Row(j))
			w.tab.FlushMax(e)
		}
		return k.Rows, nil
	}
	for j := range shift {
		shift[j] = base
	}
	if err := w.m.KeysScaled(phi, neg, shift, k, &w.ws); err != nil {
		return 0, err
	}
	limit := T(math.Exp(lag))
	if w.tab.FlushMax(phi.Data) <= limit {
		return k.Rows, nil
	}
	for j := range k.Rows {
		if !(w.tab.Max(phi.Row(j)) <= limit) {
			return j, nil
		}
	}
	return k.Rows, nil
}

// queries writes the scaled features φ1(q_i)_f e^{t_f − r_i}, whose largest exponential is 1, and r_i into scale. If no
// feature of a query has been had by a key, the row is zero and its scale the smallest number.
func (w *worker[T]) queries(phi dense.Matrix[T], scale []float64, ref *reference[T], q dense.Matrix[T]) error {
	value := w.values(q.Rows)
	if err := w.m.LogQueries(phi, value, scale, q, &w.ws); err != nil {
		return err
	}
	for i := range q.Rows {
		e := phi.Row(i)
		w.tab.MulAdd(e, ref.tau, 1)
		top := w.tab.Max(e)
		if math.IsInf(float64(top), -1) {
			clear(e)
			scale[i] = -math.MaxFloat64
			continue
		}
		w.tab.Exp(e, top)
		if !value.IsEmpty() {
			w.tab.Mul(e, value.Row(i))
		}
		scale[i] += float64(top) + ref.base
	}
	w.tab.FlushMax(phi.Data)
	return nil
}

// Guessing: the row maxima r_i of queries only have to be about right. If they are, the features of a block are one fused
// product and exponential without a pass for the maxima.
const (
	guessProbes = 4  // rows whose maxima are computed
	guessSpread = 20 // nats by which they may differ
	guessRows   = 16 // rows that pay for it
	// guessMost bounds guessed features: their products with lifted features of keys must not overflow.
	guessMost = 1 << 24
	// The largest feature of a query may then be between e^−below and e^above without harm: with z ≥ 1 a denominator is
	// at least the largest feature, and at most Σz times that.
	below, above = 30, 60
)

// guess is queries with one scale for all rows, taken from a few of them. It reports whether these agree; whether the
// others do, plausible tells from their denominators. Only for maps that are not signed.
func (w *worker[T]) guess(phi dense.Matrix[T], scale []float64, ref *reference[T], q dense.Matrix[T]) (bool, error) {
	w.probe = buf.Shaped(w.probe, guessProbes, q.Cols)
	for p := range guessProbes {
		copy(w.probe.Row(p), q.Row(p*(q.Rows-1)/(guessProbes-1)))
	}
	if err := w.queries(phi.RowRange(0, guessProbes), scale[:guessProbes], ref, w.probe); err != nil {
		return false, err
	}
	lo, hi := slices.Min(scale[:guessProbes]), slices.Max(scale[:guessProbes])
	if !(hi-lo <= guessSpread) {
		return false, nil
	}
	for f, t := range ref.tau {
		w.col[f] = max(t, -huge)
	}
	r := (lo + hi) / 2
	for i := range scale {
		scale[i] = r
		w.shift[i] = r - ref.base
	}
	if err := w.m.QueriesScaled(phi, w.col, w.shift[:q.Rows], q, &w.ws); err != nil {
		return false, err
	}
	return w.tab.FlushMax(phi.Data) <= guessMost, nil
}

// plausible reports whether all denominators show that their largest feature neither overflows nor underflows.
func plausible[T dense.Float](den, z, z2 []T) bool {
	var sum T
	for _, v := range z {
		sum += v
	}
	for _, v := range z2 {
		sum += v
	}
	lo, hi := T(math.Exp(-below))*sum, T(math.Exp(above))
	for _, d := range den {
		if !(lo <= d && d <= hi) {
			return false
		}
	}
	return true
}

// read sets out = phi·S and den = phi·z.
func (w *worker[T]) read(out dense.Matrix[T], den []T, phi dense.Matrix[T], v *view[T]) {
	w.tab.Product(out, phi, v.s, false)
	w.tab.MulV(den, phi, v.z)
	if v.z2 == nil {
		return
	}
	w.tab.Product(out, phi, v.s2, true)
	w.tab.MulV(w.extra[:len(den)], phi, v.z2)
	w.tab.MulAdd(den, w.extra[:len(den)], 1)
}

// finish divides a row by its denominator. check is for values: a row of a positive map is finite if they are.
func (w *worker[T]) finish(row []T, den T, empty, check bool) {
	w.report.Rows++
	if empty {
		w.report.Empty++
		clear(row)
		return
	}
	if den < 0 {
		w.report.Negative++
	}
	inv := 1 / den
	if inv-inv != 0 || den-den != 0 { // not finite
		w.zero(row, den)
		return
	}
	w.tab.Scale(row, inv)
	if check {
		w.check(row, den)
	}
}

// check clears a row that is not finite.
func (w *worker[T]) check(row []T, den T) {
	if dense.IsFinite(w.tab.Norm2(row)) {
		return
	}
	for _, v := range row {
		if !dense.IsFinite(float64(v)) {
			w.zero(row, den)
			return
		}
	}
}

// finishAll finishes neighbouring rows; past keys and count[i] of the chunk are seen by row i.
func (w *worker[T]) finishAll(out dense.Matrix[T], den []T, past int64, count []int) {
	whole := out.Stride == out.Cols
	for i := range out.Rows {
		w.finish(out.Row(i), den[i], past+int64(count[i]) == 0, w.checks && !whole)
	}
	if !w.checks || !whole || dense.IsFinite(w.tab.Norm2(out.Data)) {
		return
	}
	for i := range out.Rows {
		w.check(out.Row(i), den[i])
	}
}

// zero is the result of a row without a finite quotient.
func (w *worker[T]) zero(row []T, den T) {
	w.bad = true
	clear(row)
	w.report.Zero++
	if den < 0 {
		w.report.Negative--
	}
}

// add adds keys, to which next may have raised references, to s.
func (w *worker[T]) add(s *sums[T], phi, v dense.Matrix[T]) {
	s.add(w.tab, phi, v)
	w.fresh = false
}

// absorb adds keys and values to s.
func (w *worker[T]) absorb(s *sums[T], k, v dense.Matrix[T]) error {
	for k.Rows > 0 {
		n, err := w.next(w.phiK, s, k)
		if err != nil {
			return err
		}
		w.add(s, w.phiK.RowRange(0, n), v.RowRange(0, n))
		k, v = k.RowRange(n, k.Rows), v.RowRange(n, v.Rows)
	}
	return nil
}

package linear

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// keys are the first keys of a chunk that fit under the current references: their features at the references of the
// sums they are added to, their values, their positions if some keys before end do not count (nil means all), and the
// position behind the last.
type keys[T dense.Float] struct {
	phi, v dense.Matrix[T]
	pos    []int
	end    int
}

// take writes the scaled features of the keys at positions lo to hi−1, at most one chunk. It ends at a multiple of the
// chunk size, so that chunks do not depend on where segments were cut, and early at a key that needs higher references
// than the part of mem has. If mem kept the features of the segment, they are used instead.
func (w *worker[T]) take(s *stream[T], mem *memory[T], lo, hi int) (keys[T], error) {
	end := min(hi, lo-lo%w.phiK.Rows+w.phiK.Rows, lo+w.look)
	k, v, pos := w.keyRows(s, lo, end)
	if mem.kept {
		return keys[T]{mem.features.RowRange(mem.part.n, mem.part.n+k.Rows), v, pos, end}, nil
	}
	n, phi := 0, w.phiK
	if k.Rows > 0 {
		if !w.lent.IsEmpty() {
			phi = w.lent.RowRange(lo, end)
		}
		var err error
		if n, err = w.next(phi, &mem.part, k); err != nil {
			return keys[T]{}, err
		}
	}
	if n < k.Rows {
		if end = lo + n; pos != nil {
			end = pos[n]
		}
	}
	return keys[T]{phi.RowRange(0, n), v.RowRange(0, n), pos, end}, nil
}

// plant gives mem the references that the segment from position lo begins with. At every multiple of maxSegment the key
// there raises them first: all queries behind it see that key.
func (w *worker[T]) plant(s *stream[T], seeds *sums[T], mem *memory[T], lo int) error {
	if lo%maxSegment == 0 {
		if k, _, _ := w.keyRows(s, lo, lo+1); k.Rows > 0 {
			if err := w.raise(w.phiK, seeds, k); err != nil {
				return err
			}
		}
	}
	mem.plant(seeds)
	return nil
}

// absorb adds keys and values to the part of mem. If keep is set, the features are written into mem.features.
func (w *worker[T]) absorb(mem *memory[T], k, v dense.Matrix[T], keep bool) error {
	for k.Rows > 0 {
		phi := w.phiK
		if keep {
			phi = mem.features.RowRange(mem.part.n, mem.part.n+k.Rows)
		}
		n, err := w.next(phi, &mem.part, k)
		if err != nil {
			return err
		}
		mem.part.add(w.tab, phi.RowRange(0, n), v.RowRange(0, n))
		k, v = k.RowRange(n, k.Rows), v.RowRange(n, v.Rows)
	}
	return nil
}

// next writes the scaled features φ2(k_j)_f e^{−t_f} of the first keys that stay below their references plus lag, at
// least one, and returns their number. If necessary it first raises the references of s to the first key. This is
// causal: every query that sees any of the keys sees the first. k has at least one row.
//
// w.look is the number of keys tried at a time. It shrinks after a raise, because features beyond the failing key are
// computed in vain, and doubles again while all fit.
func (w *worker[T]) next(phi dense.Matrix[T], s *sums[T], k dense.Matrix[T]) (int, error) {
	n := min(w.look, k.Rows)
	got := 0
	var err error
	if s.ref.set {
		if got, err = w.scaled(phi.RowRange(0, n), s, k.RowRange(0, n)); err != nil {
			return 0, err
		}
	}
	if got == 0 {
		first := s.ref.set
		if err := w.raise(phi, s, k.RowRange(0, 1)); err != nil {
			return 0, err
		}
		if first {
			w.report.Raised++
			w.look = 16 // further raises may follow soon
			n = min(n, w.look)
		}
		if n == 1 {
			return 1, nil
		}
		if got, err = w.scaled(phi.RowRange(0, n), s, k.RowRange(0, n)); err != nil {
			return 0, err
		}
		if got == 0 {
			// The exponents are so large that their rounding exceeds lag: take the key alone, at the exponents that
			// raised the references.
			return 1, w.raise(phi, s, k.RowRange(0, 1))
		}
	}
	if got == n {
		w.look = min(2*w.look, w.phiK.Rows)
	}
	return got, nil
}

// raise lifts the references of s to the key in k and writes its scaled features into the first row of phi.
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

// negTau sets w.col to −tau, with huge in place of +Inf.
func (w *worker[T]) negTau(ref *reference[T]) {
	for f, t := range ref.tau {
		if c := -t; c <= huge {
			w.col[f] = c
		} else {
			w.col[f] = huge
		}
	}
}

// Subnormal features would slow down matrix products manyfold, so they are flushed to zero (kern.Table.FlushMax).
// Beside a feature of at least 1, or a denominator of at least e^−30, they are below rounding.

// scaled writes the scaled features of k and returns how many of the first rows stay below e^lag. Signed features go
// through their log form, because the modulus alone decides.
func (w *worker[T]) scaled(phi dense.Matrix[T], s *sums[T], k dense.Matrix[T]) (int, error) {
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

// queries writes the scaled features φ1(q_i)_f e^{t_f − r_i}, whose largest modulus is 1, and r_i into scale. If no key
// has had any feature of a query, its row is zero and its scale the smallest number.
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

// Constants of guess.
const (
	// The row maxima r_i of queries only have to be about right. If a guess is good enough, the features of a block are
	// one fused product and exponential, without a pass for the maxima.
	guessProbes = 4  // rows whose maxima are computed
	guessSpread = 20 // nats by which these maxima may differ
	guessRows   = 16 // rows from which a guess pays
	// guessMost bounds guessed features: their products with lifted features of keys must not overflow.
	guessMost = 1 << 24
	// The largest feature of a query may lie between e^−below and e^above without harm: with z ≥ 1, a denominator is at
	// least the largest feature, and at most Σz times it.
	below, above = 30, 60
)

// guess is queries with one scale for all rows, taken from a few of them. It reports whether these few agree; plausible
// decides from the denominators whether the other rows do too. It is valid only for maps without signed features, whose
// denominators cannot cancel.
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

// plausible reports whether all denominators show that the largest feature of their row neither overflows nor
// underflows. If references were raised to a key that is in no sum yet, the sums may be next to nothing; they prove
// nothing then.
func plausible[T dense.Float](den, z, z2 []T) bool {
	var sum T
	for _, v := range z {
		sum += v
	}
	for _, v := range z2 {
		sum += v
	}
	if !(sum >= T(math.Exp(-lag))) {
		return false
	}
	lo, hi := T(math.Exp(-below))*sum, T(math.Exp(above))
	for _, d := range den {
		if !(lo <= d && d <= hi) {
			return false
		}
	}
	return true
}

// weigh writes the features of q at the references of the view, r_i into scale and φ·z into den. It guesses r_i if
// enough rows share the work, and computes them otherwise or if the guess fails. past is the number of keys in the
// view. Whether a guess holds depends on all rows of the block, so the bits depend on the blocks, too.
func (w *worker[T]) weigh(phi, q dense.Matrix[T], v *view[T], past int64) error {
	den, scale := w.den[:q.Rows], w.scale[:q.Rows]
	if past > 0 && q.Rows >= guessRows && w.value.Rows == 0 {
		ok, err := w.guess(phi, scale, v.ref, q)
		if err != nil {
			return err
		}
		if ok {
			if w.normalisers(den, phi, v); plausible(den, v.z, v.z2) {
				return nil
			}
		}
	}
	if err := w.queries(phi, scale, v.ref, q); err != nil {
		return err
	}
	w.normalisers(den, phi, v)
	return nil
}

// normalisers sets den = phi·z.
func (w *worker[T]) normalisers(den []T, phi dense.Matrix[T], v *view[T]) {
	w.tab.MulV(den, phi, v.z)
	if v.z2 != nil {
		w.tab.MulV(w.extra[:len(den)], phi, v.z2)
		w.tab.MulAdd(den, w.extra[:len(den)], 1)
	}
}

package linear

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// readAll answers the queries at positions p0 to p1−1, which see the same past keys, from a view of these keys.
func (w *worker[T]) readAll(s *stream[T], view *view[T], past int64, p0, p1 int) error {
	first, last := s.queriesAt(p0, p1)
	for g := range s.group {
		for i0 := first; i0 < last; i0 += w.phiQ.Rows {
			i1 := min(i0+w.phiQ.Rows, last)
			if past == 0 {
				w.empty(s, g, i0, i1)
				continue
			}
			out, den, err := w.read(s, view, past, g, i0, i1)
			if err != nil {
				return err
			}
			count := w.count[:i1-i0]
			clear(count)
			w.deliver(s, g, i0, out, den, past, count)
		}
	}
	return nil
}

// read computes the features of queries i0 to i1−1 of head g, no more than a chunk, and from a view of past keys the
// numerators out = φ·S and denominators den = φ·z. out is the rows of the output or, if rows stay unfinished, scratch.
func (w *worker[T]) read(s *stream[T], v *view[T], past int64,
	g, i0, i1 int) (out dense.Matrix[T], den []T, err error) {
	phi := w.phiQ.RowRange(0, i1-i0)
	if err := w.weigh(phi, w.queryRows(s, g, i0, i1), v, past); err != nil {
		return out, nil, err
	}
	if s.scale == nil {
		out = s.outputs(g).RowRange(i0, i1)
	} else {
		w.outBuf = buf.Shaped(w.outBuf, i1-i0, s.v.Cols)
		out = w.outBuf
	}
	w.tab.Product(out, phi, v.s, false)
	if v.z2 != nil {
		w.tab.Product(out, phi, v.s2, true)
	}
	return out, w.den[:i1-i0], nil
}

// deliver ends the rows from i0 of head g, which have seen past keys and count[i] keys of their chunk. It divides them
// by their denominators, or merges them into the sums that windowBlock will finish.
func (w *worker[T]) deliver(s *stream[T], g, i0 int, out dense.Matrix[T], den []T, past int64, count []int) {
	if s.scale == nil {
		w.finishAll(out, den, past, count)
		return
	}
	for i := range out.Rows {
		if past+int64(count[i]) > 0 {
			w.merge(s, g, s.row(i0+i), out.Row(i), float64(den[i]), w.scale[i])
		}
	}
}

// empty finishes rows whose queries see no key of the stream.
func (w *worker[T]) empty(s *stream[T], g, i0, i1 int) {
	if s.scale != nil {
		return // unfinished rows: the window may have keys
	}
	out := s.outputs(g)
	for i := i0; i < i1; i++ {
		w.finish(out.Row(i), 1, true, false)
	}
}

// finish divides a row by its denominator, or sets it to zeros (docs/theory.md §6.4). check asks for a check of the
// quotients: a row of a positive map is finite if its values are.
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

// check sets a row that is not finite to zeros. The norm is a cheap test, but it may overflow for finite rows, hence
// the second look.
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

// finishAll finishes neighbouring rows; row i has seen past keys and count[i] keys of its chunk. If the rows are
// contiguous, one norm of all of them replaces the check of each.
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

// zero sets a row without a finite quotient to zeros and counts it.
func (w *worker[T]) zero(row []T, den T) {
	w.bad = true
	clear(row)
	w.report.Zero++
	if den < 0 {
		w.report.Negative--
	}
}

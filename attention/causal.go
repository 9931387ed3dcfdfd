package attention

import (
	"math"
	"sort"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// triangleRows is how many rows of scores are computed together: blocks above the diagonal are left out.
const triangleRows = 32

// causalSegment answers the queries at positions lo to hi−1 and adds the keys there to the part of mem. Queries before
// the first key belong to the first segment, queries after the last key to the last.
//
// A chunk is read in two steps: from the memory of the keys before it, and from the triangle of its own scores. It ends
// early at a key that needs higher references, so a reference comes from a key that all its queries see.
func (w *worker[T]) causalSegment(s *stream[T], mem *memory[T], lo, hi int) error {
	w.look = w.phiK.Rows
	for c := lo; c < hi; {
		end := min(hi, c-c%w.phiK.Rows+w.phiK.Rows, c+w.look)
		k, v, pos := w.keyRows(s, c, end)
		n := 0
		if k.Rows > 0 {
			var err error
			if n, err = w.next(w.phiK, &mem.part, k); err != nil {
				return err
			}
		}
		if n < k.Rows {
			if end = c + n; pos != nil {
				end = pos[n]
			}
		}
		v = v.RowRange(0, n)
		if err := w.chunk(s, mem, w.phiK.RowRange(0, n), v, pos, c, end); err != nil {
			return err
		}
		c = end
	}
	return nil
}

// chunk answers the queries at positions p0 to p1−1 and adds the keys there, which have features phi, to mem.
func (w *worker[T]) chunk(s *stream[T], mem *memory[T], phi, v dense.Matrix[T], pos []int, p0, p1 int) error {
	past := mem.seen()
	if max(p0-s.off, 0) >= min(p1-s.off, s.lenQ()) {
		w.add(&mem.part, phi, v)
		return nil
	}
	if p1-p0 == 1 {
		// One query, which sees all of the chunk.
		w.add(&mem.part, phi, v)
		view := mem.view(w, s.group > fewQueries)
		return w.answer(s, &view, mem.seen(), dense.Matrix[T]{}, nil, p0, p1)
	}
	view := mem.view(w, p1-p0 > fewQueries)
	if view.factor == nil {
		w.pack(phi)
		err := w.answer(s, &view, past, v, pos, p0, p1)
		w.add(&mem.part, phi, v)
		return err
	}
	// The references of reading are above those of the part. The sums of the view are a copy: add the keys first.
	mem.part.add(w.tab, phi, v)
	for j := range phi.Rows {
		w.tab.Mul(phi.Row(j), view.factor)
	}
	w.tab.FlushMax(phi.Data)
	w.pack(phi)
	err := w.answer(s, &view, past, v, pos, p0, p1)
	w.fresh = false
	return err
}

// A product of two small features can be subnormal where neither is, and a score is a sum of many such products: as slow
// as if they were. If features of keys fall below narrow, those below 2^−44 are left out of the triangle and the others
// lifted: no product with a query's feature is subnormal then. Next to z_f ≥ 1 the at most 4096 keys of a segment lose
// less than 2^−32. float64 has the range for all that matter.
const (
	narrow    = 0x1p-24
	liftLeast = 0x1p-44
)

// pack prepares the keys of a chunk for its triangle.
func (w *worker[T]) pack(phi dense.Matrix[T]) {
	w.unlift = 1
	if phi.Rows == 0 {
		return
	}
	if f, ok := any(phi.Data).([]float32); ok && !isNarrow(phi.Row(phi.Rows-1)) {
		w.lifted = buf.Shaped(w.lifted, phi.Rows, phi.Cols)
		lift(any(w.lifted.Data).([]float32), f)
		phi, w.unlift = w.lifted, liftLeast
	}
	w.tab.Pack(&w.packed, phi)
}

// lift sets dst_i = x_i/liftLeast, or 0 if that is below 1. It works on bits: no branch to mispredict, no product to be
// subnormal.
func lift(dst, x []float32) {
	least := math.Float32bits(liftLeast)
	up := math.Float32bits(1) - least
	dst = dst[:len(x)]
	for i, v := range x {
		b := math.Float32bits(v)
		small := uint32(int32(b&^(1<<31)-least) >> 31) // all ones if so
		dst[i] = math.Float32frombits((b + up) &^ small)
	}
}

// isNarrow reports whether no feature of a key, zeros apart, is below narrow.
func isNarrow[T dense.Float](phi []T) bool {
	for _, v := range phi {
		if -narrow < v && v < narrow && v != 0 {
			return false
		}
	}
	return true
}

// answer computes the outputs of the queries at positions p0 to p1−1 from a view of past keys and from the packed keys
// of the chunk at p0, whose values are v. More positions than a chunk are allowed if there are no such keys.
func (w *worker[T]) answer(s *stream[T], view *view[T], past int64, v dense.Matrix[T], pos []int, p0, p1 int) error {
	first, last := max(p0-s.off, 0), min(p1-s.off, s.lenQ())
	for g := range s.group {
		for i0 := first; i0 < last; i0 += w.phiQ.Rows {
			i1 := min(i0+w.phiQ.Rows, last)
			if past == 0 && v.Rows == 0 {
				w.empty(s, g, i0, i1)
				continue
			}
			q := w.queryRows(s, g, i0, i1)
			phi, den := w.phiQ.RowRange(0, q.Rows), w.den[:q.Rows]
			direct := s.scale == nil
			out := s.outputs(g)
			if direct {
				out = out.RowRange(i0, i1)
			} else {
				w.outBuf = buf.Shaped(w.outBuf, i1-i0, s.v.Cols)
				out = w.outBuf
			}
			fast := past > 0 && !w.fresh && q.Rows >= guessRows && w.value.Rows == 0
			if fast {
				var err error
				if fast, err = w.guess(phi, w.scale[:q.Rows], view.ref, q); err != nil {
					return err
				}
				if fast {
					w.read(out, den, phi, view)
					fast = plausible(den, view.z, view.z2)
				}
			}
			if !fast {
				if err := w.queries(phi, w.scale[:q.Rows], view.ref, q); err != nil {
					return err
				}
				w.read(out, den, phi, view)
			}
			count := w.count[:q.Rows]
			clear(count)
			if v.Rows > 0 {
				w.counts(count, pos, i0+s.off-p0, p0, v.Rows)
				w.triangle(out, den, phi, v, count)
			}
			if direct {
				w.finishAll(out, den, past, count)
				continue
			}
			for i := range out.Rows {
				if past+int64(count[i]) > 0 {
					w.merge(s, g, s.row(i0+i), out.Row(i), float64(den[i]), w.scale[i])
				}
			}
		}
	}
	return nil
}

// empty finishes rows whose queries see no key.
func (w *worker[T]) empty(s *stream[T], g, i0, i1 int) {
	if s.scale != nil {
		return // the window may have keys
	}
	out := s.outputs(g)
	for i := i0; i < i1; i++ {
		w.finish(out.Row(i), 1, true, false)
	}
}

// counts says how many keys of the chunk each query sees: the first query is at position p0 + skip.
func (w *worker[T]) counts(count []int, pos []int, skip, p0, keys int) {
	for i := range count {
		if pos == nil {
			count[i] = min(skip+i+1, keys)
		} else {
			count[i] = min(sort.SearchInts(pos, p0+skip+i+1), keys)
		}
	}
}

// triangle adds the part of a chunk's own keys: scores A = phi·phi_kᵀ, of which row i keeps the first count[i], then
// out += A·v and den += A·1.
func (w *worker[T]) triangle(out dense.Matrix[T], den []T, phi, v dense.Matrix[T], count []int) {
	for r := 0; r < phi.Rows; r += triangleRows {
		end := min(r+triangleRows, phi.Rows)
		cols := count[end-1]
		if cols == 0 {
			continue
		}
		whole := min(v.Rows, (cols+w.packed.Width-1)/w.packed.Width*w.packed.Width)
		w.sub = kern.Panel[T]{Rows: whole, Cols: w.packed.Cols, Width: w.packed.Width, Data: w.packed.Data}
		a := buf.Shaped(w.a, end-r, whole)
		w.tab.MulT(a, phi.RowRange(r, end), &w.sub, nil)
		if w.unlift != 1 {
			w.tab.Scale(a.Data, w.unlift)
		}
		w.tab.FlushMax(a.Data)
		for i := range a.Rows {
			clear(a.Row(i)[count[r+i]:])
		}
		extra := w.extra[:a.Rows]
		w.tab.MulV(extra, a, w.ones[:whole])
		w.tab.MulAdd(den[r:end], extra, 1)
		w.tab.Product(out.RowRange(r, end), a, v.RowRange(0, whole), true)
	}
}

package linear

import (
	"math"
	"sort"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// readBeside answers the queries at positions p0 to p1−1, which lie before the first key or behind the last, if there
// are any.
func (w *worker[T]) readBeside(s *stream[T], mem *memory[T], p0, p1 int) error {
	if p0 >= p1 {
		return nil
	}
	view := mem.view(w, p1-p0 > fewQueries)
	return w.readAll(s, &view, mem.seen(), p0, p1)
}

// causalSegment answers the queries at positions lo to hi−1 and adds the keys there to the part of mem.
//
// A chunk is read in two steps: from the memory of the keys before it, and from the triangle of its own scores.
// Invariant: a reference comes from a key that all queries of the chunk see. A chunk therefore ends early at a key that
// needs higher references (docs/theory.md §6.2). The keys of the last chunk are added only if keep is set.
func (w *worker[T]) causalSegment(s *stream[T], mem *memory[T], lo, hi int, keep bool) error {
	w.look = w.phiK.Rows
	for lo < hi {
		k, err := w.take(s, mem, lo, hi)
		if err != nil {
			return err
		}
		if err := w.chunk(s, mem, k, lo, keep || k.end < hi); err != nil {
			return err
		}
		lo = k.end
	}
	return nil
}

// chunk answers the queries from position p0 to the end of the keys k and, if keep is set, adds these keys to mem.
func (w *worker[T]) chunk(s *stream[T], mem *memory[T], k keys[T], p0 int, keep bool) error {
	past := mem.seen()
	if first, last := s.queriesAt(p0, k.end); first >= last || s.group == 0 {
		if keep {
			mem.part.add(w.tab, k.phi, k.v)
		}
		return nil
	}
	if k.end-p0 == 1 {
		// One query per head, which sees all of the chunk: read it from the sums, without a triangle.
		mem.part.add(w.tab, k.phi, k.v)
		view := mem.view(w, s.group > fewQueries)
		return w.readAll(s, &view, mem.seen(), p0, k.end)
	}
	view := mem.view(w, k.end-p0 > fewQueries)
	if view.factor == nil {
		w.pack(k.phi)
		err := w.readChunk(s, &view, past, k, p0)
		if keep {
			mem.part.add(w.tab, k.phi, k.v)
		}
		return err
	}
	// Reading needs references above those of the part, so the sums of the view are a copy. Add the keys to the part
	// first, before the factor changes their features.
	if keep {
		mem.part.add(w.tab, k.phi, k.v)
	}
	for j := range k.phi.Rows {
		w.tab.Mul(k.phi.Row(j), view.factor)
	}
	w.tab.FlushMax(k.phi.Data)
	w.pack(k.phi)
	return w.readChunk(s, &view, past, k, p0)
}

// readChunk answers the queries from position p0 to the end of the packed keys k. They see the past keys of the view
// and, of k, the keys up to their own position.
func (w *worker[T]) readChunk(s *stream[T], view *view[T], past int64, k keys[T], p0 int) error {
	if k.v.Rows == 0 {
		return w.readAll(s, view, past, p0, k.end)
	}
	first, last := s.queriesAt(p0, k.end)
	for g := range s.group {
		for i0 := first; i0 < last; i0 += w.phiQ.Rows {
			i1 := min(i0+w.phiQ.Rows, last)
			out, den, err := w.read(s, view, past, g, i0, i1)
			if err != nil {
				return err
			}
			count := w.count[:i1-i0]
			counts(count, k.pos, i0+s.off-p0, p0, k.v.Rows)
			w.triangle(out, den, w.phiQ.RowRange(0, i1-i0), k.v, count)
			w.deliver(s, g, i0, out, den, past, count)
		}
	}
	return nil
}

// counts sets count[i] to the number of keys of the chunk that query i sees. The first query is at position p0 + skip;
// pos holds the positions of the keys if some are masked.
func counts(count []int, pos []int, skip, p0, keys int) {
	for i := range count {
		if pos == nil {
			count[i] = min(skip+i+1, keys)
		} else {
			count[i] = min(sort.SearchInts(pos, p0+skip+i+1), keys)
		}
	}
}

// triangleRows is the number of rows of scores computed together; blocks above the diagonal are skipped.
const triangleRows = 32

// triangle adds the contribution of a chunk's own keys: scores A = phi·phi_kᵀ, of which row i keeps the first count[i],
// then out += A·v and den += A·1. count is non-decreasing, so the last row of a block of rows decides how many columns
// the block needs.
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

// A product of two small features can be subnormal although neither factor is. A score is a sum of many such products,
// which is as slow as subnormal features. If features of keys fall below narrow, features below 2^−44 are dropped from
// the triangle and the others are scaled up by 2^44. Then no product with a query's feature is subnormal. Relative to
// z_f ≥ 1, the at most 4096 keys of a segment lose less than 2^−32. float64 has enough range without this.
const (
	narrow    = 0x1p-24
	liftLeast = 0x1p-44
)

// pack prepares the features of a chunk's keys for its triangle; unlift undoes their scaling. The last key decides for
// all, which is cheap and changes nothing but speed and rounding.
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

// lift sets dst_i = x_i/liftLeast, or 0 if that is below 1. It works on bits: no branch to mispredict, no product that
// could be subnormal.
func lift(dst, x []float32) {
	least := math.Float32bits(liftLeast)
	up := math.Float32bits(1) - least
	dst = dst[:len(x)]
	for i, v := range x {
		b := math.Float32bits(v)
		small := uint32(int32(b&^(1<<31)-least) >> 31) // all ones if |v| < liftLeast, else 0
		dst[i] = math.Float32frombits((b + up) &^ small)
	}
}

// isNarrow reports whether no feature of a key, except zeros, is below narrow.
func isNarrow[T dense.Float](phi []T) bool {
	for _, v := range phi {
		if -narrow < v && v < narrow && v != 0 {
			return false
		}
	}
	return true
}

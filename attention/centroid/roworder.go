package centroid

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// rowOrder sorts queries so that those that attend to the same keys are neighbours: they are halved by the direction in
// which they differ most until a part has the rows of one block. They have few coordinates, the principal ones of all
// queries in the metric of the keys. On real heads blocks of such queries need a third to a half of the keys that
// blocks of neighbours in the text need for the same error.
type rowOrder struct {
	order []int32             // the result: rows in their new order
	axes  kern.Panel[float32] // of the coordinates
	// The rows of a part lie side by side and move to and fro between two places.
	at  [2][]orderRow
	key []float32 // of the rows of a part: their projections on the direction that divides it
}

// orderPart are the rows lo to hi−1, which lie at from.
type orderPart struct{ from, lo, hi int }

// orderRow is a row that is sorted.
type orderRow struct {
	z   [orderCoordinates]float32
	row int32
}

const (
	// orderCoordinates are found by orderSteps steps of subspace iteration.
	orderCoordinates = 8
	orderSteps       = 6
	// A quarter of the rows of a part, orderFew at least and orderSample at most, tell in which direction they differ
	// most, after orderPowers steps of the power method.
	orderSample = 96
	orderFew    = 32
	orderPowers = 5
)

// begin makes room for n rows.
func (o *rowOrder) begin(n int) {
	o.order, o.key = buf.Sized(o.order, n), buf.Sized(o.key, n)
	o.at[0], o.at[1] = buf.Sized(o.at[0], n), buf.Sized(o.at[1], n)
}

// set takes the coordinates of the rows from lo on.
func (o *rowOrder) set(lo int, z dense.Matrix[float32]) {
	for i := range z.Rows {
		r := &o.at[0][lo+i]
		r.z, r.row = [orderCoordinates]float32{}, int32(lo+i)
		copy(r.z[:], z.Row(i))
	}
}

// split orders the rows of a part.
func (o *rowOrder) split(pick *selector, p orderPart, leaf int) {
	if mid := o.halve(pick, p, leaf); mid > 0 {
		o.split(pick, orderPart{1 - p.from, p.lo, mid}, leaf)
		o.split(pick, orderPart{1 - p.from, mid, p.hi}, leaf)
	}
}

// halve moves the rows of a part to the other place, in two halves, and says where the second begins. 0: the part is
// in order.
func (o *rowOrder) halve(pick *selector, p orderPart, leaf int) (mid int) {
	from, lo, hi := p.from, p.lo, p.hi
	rows, parts := o.at[from][lo:hi], (hi-lo+leaf-1)/leaf
	dir, ok := [orderCoordinates]float32{}, false
	if parts > 1 {
		dir, ok = o.direction(rows)
	}
	if !ok {
		for i := range rows {
			o.order[lo+i] = rows[i].row
		}
		return 0
	}
	key := o.key[lo:hi]
	least, most := float32(math.Inf(1)), float32(math.Inf(-1))
	for i := range rows {
		z := &rows[i].z
		s := (z[0]*dir[0] + z[1]*dir[1] + z[2]*dir[2] + z[3]*dir[3]) +
			(z[4]*dir[4] + z[5]*dir[5] + z[6]*dir[6] + z[7]*dir[7])
		key[i] = s
		least, most = min(least, s), max(most, s)
	}
	half := parts / 2 * leaf
	pick.divide(key, half, least, most)
	// The rows of the largest keys go to the front; all others follow. Nobody can guess which, so nothing branches.
	to := o.at[1-from][lo:hi]
	front, back := 0, half
	for i, b := range pick.bucket {
		at := back
		if b != 0 {
			at = front
		}
		to[at] = rows[i]
		front += int(b)
		back += 1 - int(b)
	}
	return lo + half
}

// direction is about the first principal direction of rows, by the power method on a sample of them; false: they do not
// differ.
func (o *rowOrder) direction(rows []orderRow) (dir [orderCoordinates]float32, ok bool) {
	const r = orderCoordinates
	n := min(len(rows), max(len(rows)/4, orderFew), orderSample)
	var sum, x, y [r]float64
	var cov [r][r]float64
	first := &rows[0].z
	for i := range n {
		for c, v := range rows[(2*i+1)*len(rows)/(2*n)].z {
			x[c] = float64(v) - float64(first[c]) // exactly 0 for equal rows
		}
		for a, v := range x {
			sum[a] += v
			for b := range a + 1 {
				cov[a][b] += v * x[b]
			}
		}
	}
	best := 0
	for a := range r {
		for b := range a + 1 {
			cov[a][b] -= sum[a] * sum[b] / float64(n)
			cov[b][a] = cov[a][b]
		}
		if cov[a][a] > cov[best][best] {
			best = a
		}
	}
	if !(cov[best][best] > 0) {
		return dir, false
	}
	// Start with the row of the coordinate that varies most.
	x = cov[best]
	for range orderPowers {
		var top float64
		for _, v := range x {
			top = max(top, math.Abs(v))
		}
		if !(top > 0) || !dense.IsFinite(top) {
			return dir, false
		}
		for a := range r {
			y[a] = 0
			for b, v := range x {
				y[a] += cov[a][b] / cov[best][best] * (v / top)
			}
		}
		x = y
	}
	for c, v := range x {
		dir[c] = float32(v)
	}
	return dir, true
}

// principal sets dst to the directions, one per row, in which a symmetric matrix m without negative eigenvalues is
// largest, by subspace iteration; next is scratch memory of the same shape. Where m has a smaller rank the last rows
// are zeros.
func principal(tab *kern.Table[float32], dst, next, m dense.Matrix[float32]) {
	// Begin with the rows of the largest diagonal elements.
	clear(dst.Data)
	last := -1 // diagonal elements in descending order, of equal ones the first
	for r := range dst.Rows {
		best := -1
		for j := range m.Rows {
			after := last < 0 || m.At(j, j) < m.At(last, last) || m.At(j, j) == m.At(last, last) && j > last
			if after && (best < 0 || m.At(j, j) > m.At(best, best)) {
				best = j
			}
		}
		if last = best; best < 0 { // only NaN are left
			break
		}
		copy(dst.Row(r), m.Row(best))
	}
	for step := range orderSteps {
		if step > 0 {
			tab.Product(next, dst, m, false)
			copy(dst.Data, next.Data)
		}
		for r := range dst.Rows { // Gram–Schmidt
			row := dst.Row(r)
			was := tab.Norm2(row)
			for range 2 { // rows may be nearly alike
				for i := range r {
					var dot float64
					for l, v := range dst.Row(i) {
						dot += float64(v) * float64(row[l])
					}
					tab.MulAdd(row, dst.Row(i), float32(-dot))
				}
			}
			norm := tab.Norm2(row)
			if !(norm > 1e-10*was) || !dense.IsFinite(1/math.Sqrt(norm)) {
				clear(row)
				continue
			}
			tab.Scale(row, float32(1/math.Sqrt(norm)))
		}
	}
}

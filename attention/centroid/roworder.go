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
type rowOrder[T dense.Float] struct {
	order []int32         // the result: rows in their new order
	z     dense.Matrix[T] // the coordinates of every row
	key   []T             // of the rows of a part: their projections on the direction that divides it
}

const (
	// orderCoordinates are found by orderSteps steps of subspace iteration.
	orderCoordinates = 8
	orderSteps       = 6
	// orderSample rows of a part tell in which direction they differ most, after orderPowers steps of the power method.
	orderSample = 96
	orderPowers = 5
)

// run orders the rows of o.z into parts of leaf rows: all but the last have as many.
func (o *rowOrder[T]) run(leaf int) {
	n := o.z.Rows
	o.order, o.key = buf.Sized(o.order, n), buf.Sized(o.key, n)
	for i := range o.order {
		o.order[i] = int32(i)
	}
	o.split(0, n, leaf)
}

// split orders rows lo to hi−1 of the order.
func (o *rowOrder[T]) split(lo, hi, leaf int) {
	parts := (hi - lo + leaf - 1) / leaf
	if parts < 2 {
		return
	}
	rows, key := o.order[lo:hi], o.key[lo:hi]
	dir, ok := o.direction(rows)
	if !ok {
		return
	}
	for i, r := range rows {
		var s T
		for c, v := range o.z.Row(int(r)) {
			s += v * dir[c&(orderCoordinates-1)]
		}
		key[i] = s
	}
	half := parts / 2 * leaf
	nth(key, rows, half)
	o.split(lo, lo+half, leaf)
	o.split(lo+half, hi, leaf)
}

// direction is about the first principal direction of rows, by the power method on a sample of them; false: they do not
// differ.
func (o *rowOrder[T]) direction(rows []int32) (dir [orderCoordinates]T, ok bool) {
	const r = orderCoordinates
	n := min(len(rows), orderSample)
	var sum, x, y [r]float64
	var cov [r][r]float64
	first := o.z.Row(int(rows[0]))
	for i := range n {
		for c, v := range o.z.Row(int(rows[(2*i+1)*len(rows)/(2*n)])) {
			x[c&(r-1)] = float64(v) - float64(first[c]) // exactly 0 for equal rows
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
		dir[c] = T(v)
	}
	return dir, true
}

// nth moves the n rows of the smallest keys to the front, of equal ones those of the smallest number (Hoare).
func nth[T dense.Float](key []T, row []int32, n int) {
	for lo, hi := 0, len(key); hi-lo > 1; {
		// The median of three, in the middle.
		mid := lo + (hi-lo)/2
		sort2(key, row, lo, mid)
		if before(key[hi-1], key[mid], row[hi-1], row[mid]) {
			key[mid], key[hi-1], row[mid], row[hi-1] = key[hi-1], key[mid], row[hi-1], row[mid]
			sort2(key, row, lo, mid)
		}
		k, r := key[mid], row[mid]
		i, j := lo, hi-1
		for i <= j {
			for before(key[i], k, row[i], r) {
				i++
			}
			for before(k, key[j], r, row[j]) {
				j--
			}
			if i <= j {
				key[i], key[j], row[i], row[j] = key[j], key[i], row[j], row[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			hi = j + 1
		case n >= i:
			lo = i
		default:
			return
		}
	}
}

func before[T dense.Float](a, b T, i, j int32) bool { return a < b || a == b && i < j }

// sort2 swaps elements i < j where j comes before i.
func sort2[T dense.Float](key []T, row []int32, i, j int) {
	if before(key[j], key[i], row[j], row[i]) {
		key[i], key[j], row[i], row[j] = key[j], key[i], row[j], row[i]
	}
}

// principal sets dst to the directions, one per row, in which a symmetric matrix m without negative eigenvalues is
// largest, by subspace iteration; next is scratch memory of the same shape. Where m has a smaller rank the last rows
// are zeros.
func principal[T dense.Float](tab *kern.Table[T], dst, next, m dense.Matrix[T]) {
	// Begin with the rows of the largest diagonal elements.
	clear(dst.Data)
	used := make([]bool, m.Rows)
	for r := range dst.Rows {
		best := -1
		for j := range m.Rows {
			if !used[j] && (best < 0 || m.At(j, j) > m.At(best, best)) {
				best = j
			}
		}
		used[best] = true
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
					tab.MulAdd(row, dst.Row(i), T(-dot))
				}
			}
			norm := tab.Norm2(row)
			if !(norm > 1e-10*was) || !dense.IsFinite(1/math.Sqrt(norm)) {
				clear(row)
				continue
			}
			tab.Scale(row, T(1/math.Sqrt(norm)))
		}
	}
}

package centroid

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// rowOrder sorts queries so that those that attend to the same keys are neighbours: they are halved by the direction in
// which they differ most, in the metric of the keys, until a part has the rows of one block. On real heads blocks of
// such queries need a third to a half of the keys that blocks of neighbours in the text need for the same error.
type rowOrder[T dense.Float] struct {
	tab   *kern.Table[T]
	order []int32 // the result: rows in their new order
	z     dense.Matrix[T]

	move    dense.Matrix[T]
	moved   []int32
	at      []int32
	project []T
	sample  dense.Matrix[T]
	cov     dense.Matrix[T]
	dir     []T
	next    []T
}

const (
	// orderSample rows of a part tell in which direction they differ most, after orderSteps steps of the power method.
	orderSample = 128
	orderSteps  = 6
)

// run orders the rows of o.z, which it moves, into parts of leaf rows: all but the last have as many.
func (o *rowOrder[T]) run(tab *kern.Table[T], leaf int) {
	o.tab = tab
	n := o.z.Rows
	o.order = buf.Sized(o.order, n)
	for i := range o.order {
		o.order[i] = int32(i)
	}
	o.move, o.moved = buf.Shaped(o.move, n, o.z.Cols), buf.Sized(o.moved, n)
	o.at, o.project = buf.Sized(o.at, n), buf.Sized(o.project, n)
	o.split(o.z, o.move, o.order, o.moved, 0, n, leaf)
}

// split orders rows lo to hi−1 of z, whose numbers are in order. Other and moved are room to move them to; the result is
// in o.order.
func (o *rowOrder[T]) split(z, other dense.Matrix[T], order, moved []int32, lo, hi, leaf int) {
	parts := (hi - lo + leaf - 1) / leaf
	if parts < 2 || !o.direction(z, lo, hi) {
		if hi > lo && &order[0] != &o.order[0] {
			copy(o.order[lo:hi], order[lo:hi])
		}
		return
	}
	half := parts / 2 * leaf
	o.tab.MulV(o.project[lo:hi], z.RowRange(lo, hi), o.dir)
	at := o.at[lo:hi]
	for i := range at {
		at[i] = int32(lo + i)
	}
	o.nth(at, half)
	for i, j := range at {
		if parts > 2 {
			copy(other.Row(lo+i), z.Row(int(j)))
		}
		moved[lo+i] = order[j]
	}
	o.split(other, z, moved, order, lo, lo+half, leaf)
	o.split(other, z, moved, order, lo+half, hi, leaf)
}

// direction sets o.dir to about the first principal direction of rows lo to hi−1 of z; false: they do not differ.
func (o *rowOrder[T]) direction(z dense.Matrix[T], lo, hi int) bool {
	d, n := z.Cols, min(hi-lo, orderSample)
	o.sample, o.cov = buf.Shaped(o.sample, n, d), buf.Shaped(o.cov, d, d)
	o.dir, o.next = buf.Zeroed(o.dir, d), buf.Sized(o.next, d)
	for i := range n {
		copy(o.sample.Row(i), z.Row(lo+(2*i+1)*(hi-lo)/(2*n)))
	}
	o.tab.ColSum(o.dir, o.sample)
	for i := range n {
		o.tab.MulAdd(o.sample.Row(i), o.dir, T(-1/float64(n)))
	}
	clear(o.cov.Data)
	o.tab.TMul(o.cov, o.sample, o.sample)
	// Start with the row of the coordinate that varies most.
	best := 0
	for j := range d {
		if o.cov.At(j, j) > o.cov.At(best, best) {
			best = j
		}
	}
	if d == 0 || !(o.cov.At(best, best) > 0) {
		return false
	}
	copy(o.dir, o.cov.Row(best))
	for range orderSteps {
		norm := math.Sqrt(o.tab.Norm2(o.dir))
		if !(norm > 0) || !dense.IsFinite(norm) {
			return false
		}
		o.tab.Scale(o.dir, T(1/norm))
		o.tab.MulV(o.next, o.cov, o.dir)
		o.dir, o.next = o.next, o.dir
	}
	return true
}

// nth moves the n rows of the smallest projections to the front of at, of equal ones those of the smallest index:
// Hoare's selection.
func (o *rowOrder[T]) nth(at []int32, n int) {
	before := func(a, b int32) bool {
		x, y := o.project[a], o.project[b]
		return x < y || x == y && a < b
	}
	for lo, hi := 0, len(at); hi-lo > 1; {
		// The median of three, in the middle.
		mid := lo + (hi-lo)/2
		if before(at[mid], at[lo]) {
			at[mid], at[lo] = at[lo], at[mid]
		}
		if before(at[hi-1], at[mid]) {
			at[hi-1], at[mid] = at[mid], at[hi-1]
			if before(at[mid], at[lo]) {
				at[mid], at[lo] = at[lo], at[mid]
			}
		}
		pivot := at[mid]
		i, j := lo, hi-1
		for i <= j {
			for before(at[i], pivot) {
				i++
			}
			for before(pivot, at[j]) {
				j--
			}
			if i <= j {
				at[i], at[j] = at[j], at[i]
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

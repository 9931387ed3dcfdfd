package attention

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Seq is a sequence in host memory: a view of [batch, head, position, dim] in any order of the first three axes.
// Element (b, h, l, c) is Data[b*StrideB + h*StrideH + l*StrideL + c]; the last axis is contiguous. Algorithms use Head
// and do not depend on the layout.
type Seq[T dense.Float] struct {
	Shape
	Data                      []T
	StrideB, StrideH, StrideL int
}

// NewSeq returns zeros in the order batch, head, position, dim. Like make, it panics if a size is negative or the
// number of elements overflows an int. Check sizes from untrusted input first.
func NewSeq[T dense.Float](batch, heads, length, dim int) Seq[T] {
	data := dense.New[T](1, elements(batch, heads, length, dim)).Data
	return Seq[T]{Shape: Shape{batch, heads, length, dim}, Data: data,
		StrideB: heads * length * dim, StrideH: length * dim, StrideL: dim}
}

// NewSeqBLHD returns zeros in the order batch, position, head, dim: the layout of most projection layers. It panics as
// NewSeq does.
func NewSeqBLHD[T dense.Float](batch, length, heads, dim int) Seq[T] {
	data := dense.New[T](1, elements(batch, heads, length, dim)).Data
	return Seq[T]{Shape: Shape{batch, heads, length, dim}, Data: data,
		StrideB: heads * length * dim, StrideH: dim, StrideL: heads * dim}
}

// elements is the product of the sizes. It panics on negative sizes and overflow, where a plain product could look
// valid: two negative sizes, or large ones, may give a small positive number.
func elements(sizes ...int) int {
	n, most := 1, math.MaxInt
	for _, s := range sizes {
		if s < 0 {
			panic(fmt.Sprintf("attention: a sequence of negative size %d", sizes))
		}
		if s > 0 && most/s == 0 {
			panic(fmt.Sprintf("attention: a sequence of size %d has too many elements", sizes))
		}
		n *= s
		if s > 0 {
			most /= s
		}
	}
	return n
}

// One returns a matrix as a sequence of one batch and one head.
func One[T dense.Float](m dense.Matrix[T]) Seq[T] {
	return Seq[T]{Shape: Shape{1, 1, m.Rows, m.Cols}, Data: m.Data, StrideL: m.Stride}
}

// Head returns the Len×Dim matrix of one batch and head. It shares memory with s.
func (s Seq[T]) Head(b, h int) dense.Matrix[T] {
	m := dense.Matrix[T]{Rows: s.Len, Cols: s.Dim, Stride: s.StrideL}
	if s.Len > 0 && s.Dim > 0 {
		o := b*s.StrideB + h*s.StrideH
		m.Data = s.Data[o : o+(s.Len-1)*s.StrideL+s.Dim]
	}
	return m
}

// Check reports a shape that is negative or reaches outside Data. The error contains name.
func (s Seq[T]) Check(name string) error {
	if err := s.Shape.check(name); err != nil {
		return err
	}
	if s.Batch == 0 || s.Heads == 0 || s.Len == 0 || s.Dim == 0 {
		return nil
	}
	if s.StrideB < 0 || s.StrideH < 0 || s.StrideL < 0 {
		return fmt.Errorf("%s has strides %d, %d, %d, want none below 0: %w", name, s.StrideB, s.StrideH, s.StrideL,
			dense.ErrShape)
	}
	if s.Len > 1 && s.StrideL < s.Dim {
		return fmt.Errorf("%s: positions are %d apart and %d long: %w", name, s.StrideL, s.Dim, dense.ErrShape)
	}
	last, ok := s.Dim-1, true
	for _, a := range [][2]int{{s.Batch, s.StrideB}, {s.Heads, s.StrideH}, {s.Len, s.StrideL}} {
		// Compare by division: a product of sizes from a hostile header may overflow.
		if n := a[0] - 1; n > 0 && a[1] > (len(s.Data)-1)/n {
			ok = false
		} else {
			last += n * a[1]
		}
	}
	if !ok || last >= len(s.Data) {
		return fmt.Errorf("%s is %v with strides %d, %d, %d but has only %d elements: %w", name, s.Shape,
			s.StrideB, s.StrideH, s.StrideL, len(s.Data), dense.ErrShape)
	}
	return nil
}

// CheckFinite reports the first NaN or infinity by batch, head, position and column.
func (s Seq[T]) CheckFinite(name string) error { return s.CheckVisible(name, nil) }

// CheckValues returns an error that names the first NaN or infinity among the queries, and the keys and values that
// seen marks: the result of [Visibility.SeenKeys].
func CheckValues[T dense.Float](q, k, v Seq[T], seen []bool) error {
	if err := q.CheckVisible("q", nil); err != nil {
		return err
	}
	if err := k.CheckVisible("k", seen); err != nil {
		return err
	}
	return v.CheckVisible("v", seen)
}

// finiteGrain is the number of elements whose check justifies a goroutine.
const finiteGrain = 1 << 15

// CheckVisible is CheckFinite for the positions that count, one entry per batch and position; nil means all. The others
// are padding and may hold anything.
func (s Seq[T]) CheckVisible(name string, counts []bool) error {
	tab, err := kern.Chosen[T]()
	if err != nil {
		return err
	}
	rows, grain := s.Batch*s.Heads*s.Len, 1+finiteGrain/max(1, s.Dim)
	first := 0
	if par.Workers(rows, grain) == 1 { // without a closure, which would be allocated
		first = s.badRow(tab, counts, 0, rows)
	} else {
		first = s.firstBadRow(tab, counts, rows, grain)
	}
	if first == rows {
		return nil
	}
	h, l := first/s.Len, first%s.Len
	m := s.Head(h/s.Heads, h%s.Heads)
	c := slices.IndexFunc(m.Row(l), func(x T) bool { return !dense.IsFinite(float64(x)) })
	return fmt.Errorf("%s: batch %d, head %d, position %d, column %d is %v: %w", name, h/s.Heads, h%s.Heads, l, c,
		m.At(l, c), dense.ErrNotFinite)
}

// firstBadRow is badRow over all rows, on several goroutines. It returns the first such row whatever the scheduling.
func (s Seq[T]) firstBadRow(tab *kern.Table[T], counts []bool, rows, grain int) int {
	var first atomic.Int64
	first.Store(int64(rows))
	par.For(rows, grain, func(lo, hi int) {
		l := int64(s.badRow(tab, counts, lo, hi))
		for was := first.Load(); l < int64(hi) && l < was && !first.CompareAndSwap(was, l); was = first.Load() {
		}
	})
	return int(first.Load())
}

// badRow returns the first of the rows lo to hi−1, counted head by head, that counts and has a value that is not
// finite, or hi. Rows that lie side by side are one call of the kernel.
func (s Seq[T]) badRow(tab *kern.Table[T], counts []bool, lo, hi int) int {
	for lo < hi {
		h, from := lo/s.Len, lo%s.Len
		to := min(s.Len, from+hi-lo)
		m := s.Head(h/s.Heads, h%s.Heads)
		if counts != nil || m.Stride != m.Cols || !tab.Finite(m.Data[from*m.Cols:to*m.Cols]) {
			for l := from; l < to; l++ {
				if (counts == nil || counts[h/s.Heads*s.Len+l]) && !tab.Finite(m.Row(l)) {
					return lo + l - from
				}
			}
		}
		lo += to - from
	}
	return hi
}

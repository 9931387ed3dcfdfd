package main

// #include "randfeat.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// check rejects arrays whose shape and pointer do not fit together.
func check(a *C.rf_array, name string) error {
	switch {
	case a == nil:
		return fmt.Errorf("%s is missing", name)
	case a.rows < 0 || a.cols < 0:
		return fmt.Errorf("%s has the shape %d × %d", name, int64(a.rows), int64(a.cols))
	case a.data == nil && a.rows > 0 && a.cols > 0:
		return fmt.Errorf("%s has no memory", name)
	}
	return nil
}

// view returns the array as a matrix that shares its memory. ok is false if its rows are not contiguous and aligned,
// or if it is empty.
func view[T dense.Float](a *C.rf_array) (m dense.Matrix[T], ok bool) {
	var t T
	size := int64(unsafe.Sizeof(t))
	rows, cols, stride := int64(a.rows), int64(a.cols), int64(a.row_stride)
	if rows <= 1 {
		stride = cols * size
	}
	if rows == 0 || cols == 0 || cols > 1 && int64(a.col_stride) != size || stride%size != 0 || stride < cols*size ||
		uintptr(a.data)%uintptr(size) != 0 {
		return m, false
	}
	stride /= size
	return dense.Matrix[T]{Rows: int(rows), Cols: int(cols), Stride: int(stride),
		Data: unsafe.Slice((*T)(a.data), (rows-1)*stride+cols)}, true
}

// output returns a view of an array that a call writes to.
func output[T dense.Float](a *C.rf_array, name string) (dense.Matrix[T], error) {
	if err := check(a, name); err != nil {
		return dense.Matrix[T]{}, err
	}
	m, ok := view[T](a)
	if !ok && a.rows > 0 && a.cols > 0 {
		return m, fmt.Errorf("%s must have contiguous, aligned rows", name)
	}
	if !ok {
		m = dense.Matrix[T]{Rows: int(a.rows), Cols: int(a.cols), Stride: int(a.cols)}
	}
	return m, nil
}

// tile is the side of the squares that gather copies. Two of them fit into the first-level cache.
const tile = 32

// gather copies rows lo to hi−1 of an array with any strides. It copies square by square, so that both sides stay in
// the cache in Fortran order too.
func gather[T dense.Float](dst dense.Matrix[T], a *C.rf_array, lo, hi int) {
	rs, cs, cols := int(a.row_stride), int(a.col_stride), int(a.cols)
	for i0 := lo; i0 < hi; i0 += tile {
		i1 := min(hi, i0+tile)
		for j0 := 0; j0 < cols; j0 += tile {
			j1 := min(cols, j0+tile)
			for i := i0; i < i1; i++ {
				row := dst.Data[(i-lo)*dst.Stride+j0 : (i-lo)*dst.Stride+j1]
				p := unsafe.Add(a.data, i*rs+j0*cs)
				for j := range row {
					row[j] = *(*T)(unsafe.Add(p, j*cs))
				}
			}
		}
	}
}

// input returns the array in its own precision: a view, or a copy if its rows are not contiguous.
func input[T dense.Float](a *C.rf_array) dense.Matrix[T] {
	if m, ok := view[T](a); ok {
		return m
	}
	m := dense.New[T](int(a.rows), int(a.cols))
	gather(m, a, 0, m.Rows)
	return m
}

// double returns the array in float64.
func double(a *C.rf_array, name string) (dense.Matrix[float64], error) {
	if err := check(a, name); err != nil {
		return dense.Matrix[float64]{}, err
	}
	switch a.dtype {
	case C.RF_F64:
		return input[float64](a), nil
	case C.RF_F32:
		return dense.Convert[float64](input[float32](a)), nil
	}
	return dense.Matrix[float64]{}, fmt.Errorf("%s must be of float32 or float64", name)
}

// blocks passes the rows of x to f: all at once if they are contiguous, otherwise copied in blocks. lo is the first
// row of a block.
func blocks[T dense.Float](x *C.rf_array, f func(lo int, rows dense.Matrix[T]) error) error {
	if in, ok := view[T](x); ok {
		return f(0, in)
	}
	const block = 2048
	rows := int(x.rows)
	buf := dense.New[T](min(block, rows), int(x.cols))
	for lo := 0; lo < rows; lo += block {
		hi := min(rows, lo+block)
		par.For(hi-lo, 4*tile, func(a, b int) {
			gather(buf.RowRange(a, b), x, lo+a, lo+b)
		})
		if err := f(lo, buf.RowRange(0, hi-lo)); err != nil {
			return err
		}
	}
	return nil
}

// sequence returns a view of a sequence of attention.
func sequence(a *C.rf_seq, name string) (s sequences, err error) {
	switch {
	case a == nil:
		return s, fmt.Errorf("%s is missing", name)
	case a.dtype != C.RF_F32:
		return s, fmt.Errorf("%s must be of float32", name)
	case a.data == nil || a.batch < 1 || a.heads < 1 || a.length < 1 || a.dim < 1:
		return s, fmt.Errorf("%s is empty", name)
	case a.stride_batch < 0 || a.stride_head < 0 || a.stride_length < 0:
		return s, fmt.Errorf("%s has a negative stride", name)
	}
	n := (a.batch-1)*a.stride_batch + (a.heads-1)*a.stride_head + (a.length-1)*a.stride_length + a.dim
	shape := attention.Shape{Batch: int(a.batch), Heads: int(a.heads), Len: int(a.length), Dim: int(a.dim)}
	return sequences{Shape: shape, Data: unsafe.Slice((*float32)(a.data), int(n)),
		StrideB: int(a.stride_batch), StrideH: int(a.stride_head), StrideL: int(a.stride_length)}, nil
}

// same checks that all arrays of a call have the same type of floats.
func same(first C.int32_t, others ...C.int32_t) error {
	for _, o := range others {
		if o != first {
			return errors.New("all arrays of a call must be of float32, or all of float64")
		}
	}
	if first != C.RF_F32 && first != C.RF_F64 {
		return errors.New("arrays must be of float32 or float64")
	}
	return nil
}

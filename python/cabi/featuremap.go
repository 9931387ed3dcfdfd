package main

// #include "randfeat.h"
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// featureMap is a drawn map in both precisions. The float32 map is made at its first use, from the same projections.
// Workspaces are pooled, because calls may be concurrent.
type featureMap struct {
	spec   randfeat.Spec
	f64    *randfeat.Map[float64]
	f32    func() (*randfeat.Map[float32], error)
	pool32 par.Pool[randfeat.Workspace[float32]]
	pool64 par.Pool[randfeat.Workspace[float64]]
}

// mapRequest is the argument of rf_map_new.
type mapRequest struct {
	Spec     randfeat.Spec `json:"spec"`
	Features int           `json:"features"`
	Fit      bool          `json:"fit"`
}

//export rf_map_new
func rf_map_new(request C.rf_string, x, y *C.rf_array, handle *C.uint64_t, info, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		var r mapRequest
		if err := parse(request, &r); err != nil {
			return err
		}
		s, err := r.Spec, error(nil)
		if r.Features > 0 {
			if s, err = s.WithFeatures(r.Features); err != nil {
				return err
			}
		}
		if r.Fit {
			if s, err = fitted(s, x, y); err != nil {
				return err
			}
		}
		m := &featureMap{spec: s}
		if m.f64, err = randfeat.New[float64](s); err != nil {
			return err
		}
		m.f32 = sync.OnceValues(func() (*randfeat.Map[float32], error) {
			return randfeat.NewWithOmega[float32](s, m.f64.Omega())
		})
		if err := giveJSON(info, map[string]any{"spec": s, "dim": m.f64.InDim(), "features": m.f64.OutDim(),
			"positive": m.f64.Positive(), "symmetric": m.f64.Symmetric()}); err != nil {
			return err
		}
		*handle = put(m)
		return nil
	})
}

// fitted returns the spec with parameters fitted to queries x and keys y, or to x alone if y is nil.
func fitted(s randfeat.Spec, x, y *C.rf_array) (randfeat.Spec, error) {
	q, err := double(x, "x")
	if err != nil {
		return s, err
	}
	k := q
	if y != nil {
		if k, err = double(y, "y"); err != nil {
			return s, err
		}
	}
	return randfeat.Fit(s, q, k)
}

//export rf_map_apply
func rf_map_apply(h C.uint64_t, x, out *C.rf_array, logScale *C.double, keys, workers C.int32_t,
	e *C.rf_text) C.int32_t {
	return call(e, func() error {
		m, err := get[*featureMap](h)
		if err != nil {
			return err
		}
		if err := errors.Join(check(x, "x"), check(out, "out")); err != nil {
			return err
		}
		if err := same(x.dtype, out.dtype); err != nil {
			return err
		}
		var scales []float64
		if logScale != nil {
			scales = unsafe.Slice((*float64)(unsafe.Pointer(logScale)), int(x.rows))
		}
		if x.dtype == C.RF_F64 {
			return apply(m.f64, &m.pool64, x, out, scales, keys != 0, workers)
		}
		f32, err := m.f32()
		if err != nil {
			return err
		}
		return apply(f32, &m.pool32, x, out, scales, keys != 0, workers)
	})
}

func apply[T dense.Float](m *randfeat.Map[T], pool *par.Pool[randfeat.Workspace[T]], x, out *C.rf_array,
	scales []float64, keys bool, workers C.int32_t) error {
	o, err := output[T](out, "out")
	if err != nil {
		return err
	}
	if o.Rows != int(x.rows) || o.Cols != m.OutDim() {
		return fmt.Errorf("out is %d × %d, want %d × %d", o.Rows, o.Cols, int(x.rows), m.OutDim())
	}
	if int(x.cols) != m.InDim() {
		return fmt.Errorf("x has %d columns, the map has %d: %w", int(x.cols), m.InDim(), dense.ErrShape)
	}
	if o.Rows == 0 {
		return nil
	}
	ws := pool.Get()
	defer pool.Put(ws)
	ws.Workers = int(workers)
	f := m.Queries
	if keys {
		f = m.Keys
	}
	return blocks(x, func(lo int, rows dense.Matrix[T]) error {
		part := scales
		if part != nil {
			part = part[lo : lo+rows.Rows]
		}
		return f(o.RowRange(lo, lo+rows.Rows), part, rows, ws)
	})
}

//export rf_map_row
func rf_map_row(h C.uint64_t, x unsafe.Pointer, dim C.int64_t, out unsafe.Pointer, features C.int64_t,
	dtype, keys C.int32_t, e *C.rf_text) C.int32_t {
	size := C.int64_t(8)
	if dtype == C.RF_F32 {
		size = 4
	}
	in := C.rf_array{data: x, rows: 1, cols: dim, row_stride: dim * size, col_stride: size, dtype: dtype}
	to := C.rf_array{data: out, rows: 1, cols: features, row_stride: features * size, col_stride: size, dtype: dtype}
	return rf_map_apply(h, &in, &to, nil, keys, 1, e)
}

//export rf_map_gram
func rf_map_gram(h C.uint64_t, x, y, out *C.rf_array, workers C.int32_t, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		m, err := get[*featureMap](h)
		if err != nil {
			return err
		}
		if err := errors.Join(check(x, "x"), check(y, "y"), check(out, "out")); err != nil {
			return err
		}
		if err := same(x.dtype, y.dtype, out.dtype); err != nil {
			return err
		}
		if x.dtype == C.RF_F64 {
			return gram(m.f64, &m.pool64, x, y, out, workers)
		}
		f32, err := m.f32()
		if err != nil {
			return err
		}
		return gram(f32, &m.pool32, x, y, out, workers)
	})
}

func gram[T dense.Float](m *randfeat.Map[T], pool *par.Pool[randfeat.Workspace[T]], x, y, out *C.rf_array,
	workers C.int32_t) error {
	o, err := output[T](out, "out")
	if err != nil {
		return err
	}
	ws := pool.Get()
	defer pool.Put(ws)
	ws.Workers = int(workers)
	return m.Gram(o, input[T](x), input[T](y), ws)
}

//export rf_kernel_gram
func rf_kernel_gram(spec C.rf_string, x, y, out *C.rf_array, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		var k kernel.Kernel
		if err := json.Unmarshal([]byte(C.GoString(spec)), &k); err != nil {
			return fmt.Errorf("kernel: %w", err)
		}
		if err := errors.Join(check(x, "x"), check(y, "y"), check(out, "out")); err != nil {
			return err
		}
		if err := same(x.dtype, y.dtype, out.dtype); err != nil {
			return err
		}
		if x.dtype == C.RF_F64 {
			return exactGram[float64](k, x, y, out)
		}
		return exactGram[float32](k, x, y, out)
	})
}

func exactGram[T dense.Float](k kernel.Kernel, x, y, out *C.rf_array) error {
	o, err := output[T](out, "out")
	if err != nil {
		return err
	}
	return kernel.Gram(k, o, input[T](x), input[T](y))
}

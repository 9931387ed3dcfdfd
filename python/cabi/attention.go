package main

// #include "randfeat.h"
import "C"

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/dense"
)

// chosen is a choice of attention that can be run in both precisions, each made when it is asked for.
type chosen struct {
	f32 func() (*choose.Attention[float32], error)
	f64 func() (*choose.Attention[float64], error)
}

func newChosen(c *choose.Choice) *chosen {
	return &chosen{
		f32: sync.OnceValues(func() (*choose.Attention[float32], error) { return choose.New[float32](c) }),
		f64: sync.OnceValues(func() (*choose.Attention[float64], error) { return choose.New[float64](c) }),
	}
}

type chooseOptions struct {
	Tol    float64 `json:"tol"`
	Budget float64 `json:"budget"`
	Causal bool    `json:"causal"`
	Scale  float64 `json:"scale"`
	Seed   uint64  `json:"seed"`
	Online bool    `json:"online"`
	ByCost bool    `json:"by_cost"`
}

//export rf_attention_choose
func rf_attention_choose(q, k, v *C.rf_seq, options C.rf_string, workers C.int32_t, jobOut, handle *C.uint64_t,
	report, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		var o chooseOptions
		if err := parse(options, &o); err != nil {
			return err
		}
		f := chooseSeqs[float32]
		if q != nil && q.dtype == C.RF_F64 {
			f = chooseSeqs[float64]
		}
		w, err := f(q, k, v, o, int(workers))
		if err != nil {
			return err
		}
		return run(w, jobOut, handle, report)
	})
}

func chooseSeqs[T dense.Float](cq, ck, cv *C.rf_seq, o chooseOptions, workers int) (work, error) {
	q, k, v, err := three[T](cq, ck, cv)
	if err != nil {
		return nil, err
	}
	return func(context.Context, func(string, int64, int64)) (any, any, error) {
		c, err := choose.Choose(choose.Options{Tol: o.Tol, Budget: o.Budget, Seed: o.Seed, Online: o.Online,
			ByCost: o.ByCost}, attention.Visibility{Causal: o.Causal}, o.Scale, q, k, v)
		if err != nil {
			return nil, nil, err
		}
		return newChosen(c), c, nil
	}, nil
}

func three[T dense.Float](cq, ck, cv *C.rf_seq) (q, k, v attention.Seq[T], err error) {
	if cq != nil && ck != nil && cv != nil {
		if err = same(cq.dtype, ck.dtype, cv.dtype); err != nil {
			return
		}
	}
	if q, err = sequence[T](cq, "q"); err != nil {
		return
	}
	if k, err = sequence[T](ck, "k"); err != nil {
		return
	}
	v, err = sequence[T](cv, "v")
	return
}

//export rf_attention_read
func rf_attention_read(text C.rf_string, handle *C.uint64_t, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		c := new(choose.Choice)
		if err := json.Unmarshal([]byte(C.GoString(text)), c); err != nil {
			return err
		}
		a := newChosen(c)
		if _, err := a.f32(); err != nil {
			return err
		}
		*handle = put(a)
		return nil
	})
}

//export rf_attention_run
func rf_attention_run(h C.uint64_t, q, k, v, out *C.rf_seq, causal C.int32_t, scale C.double, workers C.int32_t,
	jobOut *C.uint64_t, report, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		var a *chosen
		if h != 0 {
			var err error
			if a, err = get[*chosen](h); err != nil {
				return err
			}
		}
		if q == nil || out == nil {
			return fmt.Errorf("q or out is missing")
		}
		if err := same(q.dtype, out.dtype); err != nil {
			return err
		}
		exact := attention.Visibility{Causal: causal != 0}
		var w work
		var err error
		if q.dtype == C.RF_F32 {
			var m attention.Attention[attention.Seq[float32]]
			if a == nil {
				m = &attention.Exact[float32]{Visibility: exact, Scale: float64(scale)}
			} else if m, err = a.f32(); err != nil {
				return err
			}
			w, err = forward(m, q, k, v, out)
		} else {
			var m attention.Attention[attention.Seq[float64]]
			if a == nil {
				m = &attention.Exact[float64]{Visibility: exact, Scale: float64(scale)}
			} else if m, err = a.f64(); err != nil {
				return err
			}
			w, err = forward(m, q, k, v, out)
		}
		if err != nil {
			return err
		}
		return run(w, jobOut, nil, report)
	})
}

func forward[T dense.Float](a attention.Attention[attention.Seq[T]], cq, ck, cv, cout *C.rf_seq) (work, error) {
	q, k, v, err := three[T](cq, ck, cv)
	if err != nil {
		return nil, err
	}
	out, err := sequence[T](cout, "out")
	if err != nil {
		return nil, err
	}
	return func(context.Context, func(string, int64, int64)) (any, any, error) {
		r, err := a.Forward(out, q, k, v)
		return nil, map[string]int64{"rows": r.Rows, "empty": r.Empty, "negative": r.Negative, "zero": r.Zero,
			"exact": r.Exact, "scored": r.Scored}, err
	}, nil
}

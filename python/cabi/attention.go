package main

// #include "randfeat.h"
import "C"

import (
	"context"
	"encoding/json"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
)

// sequences are always float32, like the tensors of models. A float64 version would add a tenth to the size of the
// library.
type sequences = attention.Seq[float32]

// chooseOptions is the JSON form of choose.Options, with the visibility and the scale.
type chooseOptions struct {
	Tol    float64 `json:"tol"`
	Budget float64 `json:"budget"`
	Causal bool    `json:"causal"`
	Scale  float64 `json:"scale"`
	Seed   uint64  `json:"seed"`
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
		qs, ks, vs, err := three(q, k, v)
		if err != nil {
			return err
		}
		return run(func(context.Context, func(string, int64, int64)) (any, any, error) {
			defer useThreads(int(workers))()
			c, err := choose.Choose(choose.Options{Tol: o.Tol, Budget: o.Budget, Seed: o.Seed,
				ByCost: o.ByCost}, attention.Visibility{Causal: o.Causal}, o.Scale, qs, ks, vs)
			if err != nil {
				return nil, nil, err
			}
			a, err := choose.New(c)
			return a, c, err
		}, jobOut, handle, report)
	})
}

// three returns views of queries, keys and values.
func three(cq, ck, cv *C.rf_seq) (q, k, v sequences, err error) {
	if q, err = sequence(cq, "q"); err != nil {
		return
	}
	if k, err = sequence(ck, "k"); err != nil {
		return
	}
	v, err = sequence(cv, "v")
	return
}

//export rf_attention_read
func rf_attention_read(text C.rf_string, handle *C.uint64_t, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		c := new(choose.Choice)
		if err := json.Unmarshal([]byte(C.GoString(text)), c); err != nil {
			return err
		}
		a, err := choose.New(c)
		if err != nil {
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
		var a attention.Attention[sequences] = &attention.Exact[float32]{Scale: float64(scale),
			Visibility: attention.Visibility{Causal: causal != 0}}
		if h != 0 {
			c, err := get[*choose.Attention](h)
			if err != nil {
				return err
			}
			a = c
		}
		qs, ks, vs, err := three(q, k, v)
		if err != nil {
			return err
		}
		dst, err := sequence(out, "out")
		if err != nil {
			return err
		}
		return run(func(context.Context, func(string, int64, int64)) (any, any, error) {
			defer useThreads(int(workers))()
			r, err := a.Forward(dst, qs, ks, vs)
			return nil, map[string]int64{"rows": r.Rows, "empty": r.Empty, "negative": r.Negative, "zero": r.Zero,
				"exact": r.Exact, "scored": r.Scored}, err
		}, jobOut, nil, report)
	})
}

package main

// #include "randfeat.h"
import "C"

import (
	"bytes"
	"context"
	"time"

	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// adviseOptions is the JSON form of advise.Options.
type adviseOptions struct {
	Kernel    kernel.Kernel  `json:"kernel"`
	Features  int            `json:"features"`
	Target    float64        `json:"target"`
	PerToken  int64          `json:"per_token_ns"`
	Positive  bool           `json:"positive"`
	Loss      advise.Loss    `json:"loss"`
	Measure   advise.Measure `json:"measure"`
	Unbiased  bool           `json:"unbiased"`
	Families  []string       `json:"families"`
	Couplings []string       `json:"couplings"`
	Rows      int            `json:"rows"`
	Draws     int            `json:"draws"`
	Brief     bool           `json:"brief"`
	Seed      uint64         `json:"seed"`
}

//export rf_advise
func rf_advise(x, y *C.rf_array, options C.rf_string, jobOut *C.uint64_t, report, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		var o adviseOptions
		if err := parse(options, &o); err != nil {
			return err
		}
		q, err := double(x, "x")
		if err != nil {
			return err
		}
		var k dense.Matrix[float64]
		if y != nil {
			if k, err = double(y, "y"); err != nil {
				return err
			}
		}
		return run(func(ctx context.Context, progress func(string, int64, int64)) (any, any, error) {
			r, err := advise.Kernel(ctx, q, k, advise.Options{Kernel: o.Kernel, Features: o.Features, Target: o.Target,
				PerToken: time.Duration(o.PerToken), Positive: o.Positive, Loss: o.Loss, Measure: o.Measure,
				Unbiased: o.Unbiased, Families: o.Families, Couplings: o.Couplings, Rows: o.Rows, Draws: o.Draws,
				Brief: o.Brief, Seed: o.Seed,
				Progress: func(stage string, done, total int) { progress(stage, int64(done), int64(total)) }})
			if err != nil {
				return nil, nil, err
			}
			var page bytes.Buffer
			if err := r.WriteHTML(&page); err != nil {
				return nil, nil, err
			}
			return nil, map[string]any{"report": r, "html": page.String(), "about": r.About(),
				"error_name": r.ErrorName()}, nil
		}, jobOut, nil, report)
	})
}

package main

/*
#include <stdlib.h>
#include "randfeat.h"
*/
import "C"

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unsafe"

	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

//export rf_fit
func rf_fit(t C.uint64_t, options C.rf_string, workers C.int32_t, jobOut, handle *C.uint64_t,
	report, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		table, err := get[*table](t)
		if err != nil {
			return err
		}
		var o tabular.Options
		if err := json.Unmarshal([]byte(C.GoString(options)), &o); err != nil {
			return fmt.Errorf("options: %w", err)
		}
		return run(func(ctx context.Context, progress func(string, int64, int64)) (any, any, error) {
			defer useThreads(int(workers))()
			o.Progress = progress
			m, r, err := tabular.Fit(ctx, table.src, o)
			if err != nil {
				return nil, nil, err
			}
			return &model{m}, r, nil
		}, jobOut, handle, report)
	})
}

// model is a fitted model. It is immutable, so calls may be concurrent.
type model struct{ *machine.Model }

//export rf_model_read
func rf_model_read(p unsafe.Pointer, n C.int64_t, handle *C.uint64_t, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		if p == nil || n < 0 {
			return errors.New("the bytes of the model are missing")
		}
		m, err := machine.Read(bytes.Clone(unsafe.Slice((*byte)(p), int(n))))
		if err != nil {
			return err
		}
		*handle = put(&model{m})
		return nil
	})
}

//export rf_model_write
func rf_model_write(h C.uint64_t, p *unsafe.Pointer, n *C.int64_t, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		m, err := get[*model](h)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if _, err := m.WriteTo(&b); err != nil {
			return err
		}
		*p, *n = C.CBytes(b.Bytes()), C.int64_t(b.Len())
		return nil
	})
}

//export rf_model_info
func rf_model_info(h C.uint64_t, out, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		m, err := get[*model](h)
		if err != nil {
			return err
		}
		kind, err := m.Kind.Info()
		if err != nil {
			return err
		}
		return giveJSON(out, map[string]any{
			"kind": m.Kind, "task": m.Task, "outputs": m.Outputs, "rows": m.Rows, "lambda": m.Lambda,
			"schema": m.Schema, "spec": m.Spec, "history": m.History,
			"probabilities": m.Task == machine.Classification && (kind.Probabilities || m.Calibrated()),
			"intervals":     m.Residuals.Rows > 0, "variance": kind.Bayesian && m.Task == machine.Regression,
			"anomaly": len(m.Quantiles) > 0,
		})
	})
}

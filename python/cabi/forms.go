package main

// #include "randfeat.h"
import "C"

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/calc"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// formulas is the table of closed forms, built at its first use.
var formulas = sync.OnceValue(calc.NewTable)

type formulaInfo struct {
	Name      string       `json:"name"`
	Reference string       `json:"reference"`
	Inputs    []calc.Input `json:"inputs"`
}

//export rf_formulas
func rf_formulas(out, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		list := []formulaInfo{}
		for _, f := range calc.Entries() {
			list = append(list, formulaInfo{f.Name, f.Reference, f.Inputs})
		}
		return giveJSON(out, list)
	})
}

//export rf_formula
func rf_formula(name, inputs C.rf_string, value, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		f, err := formulas().Find(C.GoString(name))
		if err != nil {
			return err
		}
		v, err := f.Eval(json.RawMessage(C.GoString(inputs)))
		if err != nil {
			return err
		}
		give(value, string(calc.Encode(v)))
		return nil
	})
}

//export rf_catalog
func rf_catalog(which C.rf_string, out, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		switch C.GoString(which) {
		case "families":
			return giveJSON(out, family.List())
		case "couplings":
			return giveJSON(out, coupling.List())
		case "kernels":
			var names []string
			for _, k := range kernel.Kinds() {
				names = append(names, k.String())
			}
			return giveJSON(out, names)
		}
		return fmt.Errorf("no catalog %q, want families, couplings or kernels", C.GoString(which))
	})
}

//export rf_moments
func rf_moments(spec C.rf_string, x, y, out *C.rf_array, warning, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		var s randfeat.Spec
		if err := json.Unmarshal([]byte(C.GoString(spec)), &s); err != nil {
			return fmt.Errorf("spec: %w", err)
		}
		q, err := double(x, "x")
		if err != nil {
			return err
		}
		k, err := double(y, "y")
		if err != nil {
			return err
		}
		o, err := output[float64](out, "out")
		if err != nil {
			return err
		}
		if q.Rows != k.Rows || o.Rows != q.Rows || o.Cols != 6 || q.Cols != s.Dim || k.Cols != s.Dim {
			return fmt.Errorf("x is %d × %d and y %d × %d, want rows of %d columns in pairs", q.Rows, q.Cols, k.Rows,
				k.Cols, s.Dim)
		}
		for i := range q.Rows {
			m, err := theory.Of(s.Kernel, s.Family, s.Coupling, s.M, q.Row(i), k.Row(i))
			if err != nil {
				return err
			}
			approximate := 0.0
			if m.Approximate {
				approximate = 1
			}
			copy(o.Row(i), []float64{m.LogKernel, m.LogMean, m.LogBias, m.LogVar, m.LogMSE, approximate})
		}
		if warning != nil && q.Rows > 0 {
			give(warning, theory.Warning(s.Kernel, s.Family, s.Coupling, s.M, q.Row(0), k.Row(0)))
		}
		return nil
	})
}

package main

import (
	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/theory"
)

// warnPairs bounds the pairs at which a combination is judged.
const warnPairs = 64

// warning says why a spec is a bad choice for queries x and keys y: theory knows that the coupling hurts the family at
// some pair of the data. It is "" otherwise.
func warning(spec randfeat.Spec, x, y dense.Matrix[float64]) string {
	if spec.Coupling == nil {
		return ""
	}
	draws, err := spec.Family.Draws(spec.Kernel.Kind, spec.Kernel.Dim(spec.Dim), spec.M)
	if err != nil || len(draws) == 0 { // invalid, or no projections to couple
		return ""
	}
	pairs := newPairSample(x.Rows, y.Rows, warnPairs)
	for k := range pairs.n {
		i, j := pairs.at(k)
		if w := theory.Warning(spec.Kernel, spec.Family, spec.Coupling, spec.M, x.Row(i), y.Row(j)); w != "" {
			return w
		}
	}
	return ""
}

// both are two warnings in one, either of which may be "".
func both(a, b string) string {
	if a != "" && b != "" {
		a += "; "
	}
	return a + b
}

// warning is that of a spec, or "" with given projections: their coupling is unknown.
func (f *mapFlags) warning(spec randfeat.Spec, x, y dense.Matrix[float64]) string {
	if len(f.omega) > 0 {
		return ""
	}
	return warning(spec, x, y)
}

func sampleArray(x data.Array) dense.Matrix[float64] {
	if x.DType == data.Float32 {
		return someRows(x.F32)
	}
	return someRows(x.F64)
}

// someRows is a sample of rows in float64, enough for [warning].
func someRows[T dense.Float](x dense.Matrix[T]) dense.Matrix[float64] {
	n := min(x.Rows, warnPairs)
	out := dense.New[float64](n, x.Cols)
	for k := range n {
		row := out.Row(k)
		for l, v := range x.Row(int(int64(k) * int64(x.Rows) / int64(n))) {
			row[l] = float64(v)
		}
	}
	return out
}

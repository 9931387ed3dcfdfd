package mapflags

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/theory"
)

// warnPairs bounds the pairs of rows at which a combination is judged: closed forms are slow.
const warnPairs = 64

// Warning explains why a spec is a bad choice for queries x and keys y: theory knows that the coupling
// increases the error of the family at some pair of the data. It is "" otherwise.
func Warning(spec randfeat.Spec, x, y dense.Matrix[float64]) string {
	if spec.Coupling == nil {
		return ""
	}
	draws, err := spec.Family.Draws(spec.Kernel.Kind, spec.Kernel.Dim(spec.Dim), spec.M)
	if err != nil || len(draws) == 0 { // invalid, or no projections to couple
		return ""
	}
	pairs := NewPairSample(x.Rows, y.Rows, warnPairs)
	for k := range pairs.N {
		i, j := pairs.At(k)
		if w := theory.Warning(spec.Kernel, spec.Family, spec.Coupling, spec.M, x.Row(i), y.Row(j)); w != "" {
			return w
		}
	}
	return ""
}

// Both joins two warnings, either of which may be "".
func Both(a, b string) string {
	if a != "" && b != "" {
		a += "; "
	}
	return a + b
}

// Warning is the package's Warning, or "" for given projections, whose coupling is unknown.
func (f *Flags) Warning(spec randfeat.Spec, x, y dense.Matrix[float64]) string {
	if len(f.Omega) > 0 {
		return ""
	}
	return Warning(spec, x, y)
}

// SampleArray is SomeRows for an array of either precision.
func SampleArray(x npy.Array) dense.Matrix[float64] {
	if x.DType == npy.Float32 {
		return SomeRows(x.F32)
	}
	return SomeRows(x.F64)
}

// SomeRows returns a sample of rows in float64, enough for [Warning].
func SomeRows[T dense.Float](x dense.Matrix[T]) dense.Matrix[float64] {
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

// pairSample selects up to N pairs of rows: all of them, or a sample that covers both sets evenly.
type pairSample struct {
	N, rows, cols int
	all           bool
}

// NewPairSample selects at most most pairs of rows×cols.
func NewPairSample(rows, cols, most int) pairSample {
	if rows <= most/cols {
		return pairSample{N: rows * cols, rows: rows, cols: cols, all: true}
	}
	return pairSample{N: most, rows: rows, cols: cols}
}

// At returns pair k. In a sample the rows advance evenly, and the columns by the golden ratio, which matches no
// period of the data.
func (s pairSample) At(k int) (i, j int) {
	if s.all {
		return k / s.cols, k % s.cols
	}
	_, frac := math.Modf((float64(k) + 0.5) / math.Phi)
	return int(int64(k) * int64(s.rows) / int64(s.N)), min(int(frac*float64(s.cols)), s.cols-1)
}

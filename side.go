package randfeat

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/exec"
)

// A Map calls its compiled sides and their derivatives through the interfaces of this file. A package that mentions a
// Map compiles the methods of its fields' types again; those of an interface are only calls. So package exec is
// compiled once for float32 and once for float64, in this package, and not in every package that uses a Map.

// side is an exec.Side.
type side[T dense.Float] interface {
	OutDim() int
	Signed() bool
	Run(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], norms []float64, ws *exec.Workspace[T])
	RunChecked(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], limit float64, ws *exec.Workspace[T]) int
	Log(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], norms []float64, ws *exec.Workspace[T])
	Scaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], norms []float64, ws *exec.Workspace[T])
}

// backward is an exec.Backward.
type backward[T dense.Float] interface {
	Learns() bool
	NewSums() *exec.Sums[T]
	Run(dx, dphi, phi, x dense.Matrix[T], col []T, shift, norms []float64, sums *exec.Sums[T], ws *exec.Workspace[T])
}

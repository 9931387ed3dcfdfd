package randfeat

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/exec"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// A Map calls its compiled sides and their derivatives through the interfaces of this file, and makes them with
// functions that are not generic. The compiler instantiates a generic function again in every package that can reach
// it. The interfaces end that chain here: package exec is compiled once for float32 and once for float64, in this
// package, and not in every package that uses a Map.

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

func compile[T dense.Float](s plan.Side, dim int, tab *kern.Table[T]) side[T] {
	switch tab := any(tab).(type) {
	case *kern.Table[float32]:
		return compile32(s, dim, tab).(side[T])
	case *kern.Table[float64]:
		return compile64(s, dim, tab).(side[T])
	}
	panic("unreachable")
}

func compileBackward[T dense.Float](s side[T]) backward[T] {
	switch s := any(s).(type) {
	case side[float32]:
		return backward32(s).(backward[T])
	case side[float64]:
		return backward64(s).(backward[T])
	}
	panic("unreachable")
}

//go:noinline
func compile32(s plan.Side, dim int, tab *kern.Table[float32]) any { return exec.Compile(s, dim, tab) }

//go:noinline
func compile64(s plan.Side, dim int, tab *kern.Table[float64]) any { return exec.Compile(s, dim, tab) }

//go:noinline
func backward32(s side[float32]) any { return exec.CompileBackward(s.(*exec.Side[float32])) }

//go:noinline
func backward64(s side[float64]) any { return exec.CompileBackward(s.(*exec.Side[float64])) }

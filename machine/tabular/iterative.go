package tabular

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// fitIterative is machine.FitExact or FitMargins by conjugate gradients.
func (f *fit) fitIterative(s machine.Setup, x, y dense.Matrix[float64], lambda float64) (*machine.Model, error) {
	solve := machine.FitExactIterative
	if f.decision.Margins {
		solve = machine.FitMarginsIterative
	}
	m, done, err := solve(s, x, y, lambda, machine.Iterative{Tolerance: iterativeTolerance, Steps: iterativeSteps,
		Sketch: largeSketch, Memory: f.o.Memory, Progress: func(step int, _ float64) error {
			f.progress("steps", int64(step), 0)
			return f.ctx.Err()
		}})
	if err != nil || f.inner {
		return m, err
	}
	f.note("the exact kernel by conjugate gradients: %d products, residual %.1g, %d landmarks, %d MiB; a factorisation "+
		"would need %d MiB", done.Steps, done.Residual, done.Sketch, done.Bytes>>20, 8*int64(x.Rows)*int64(x.Rows)>>20)
	return m, nil
}

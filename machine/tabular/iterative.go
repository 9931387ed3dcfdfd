package tabular

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

const (
	// iterativeLimit times exactRows rows have the exact kernel by conjugate gradients, where rows have no marks.
	iterativeLimit = 3
	// iterativeTolerance is the residual at which a fit ends: predictions show nothing smaller.
	iterativeTolerance = 1e-3
	iterativeSteps     = 100
)

// iterativeRows is the number of rows from which exact kernels are solved by conjugate gradients: a factorisation takes
// longer then. A variable for tests with fewer.
var iterativeRows = 12000

// iterative reports whether conjugate gradients can solve the exact kernel: rows have no weights, groups or times. With
// groups or times every fold is a separate fit.
func (j *job) iterative() bool {
	return j.weights == nil && j.o.ClassWeights == nil && !j.deal.grouped() && !j.deal.ordered()
}

// iterates reports whether they do so of n rows.
func (j *job) iterates(n int) bool {
	return j.iterative() && n > min(iterativeRows, exactRows, j.factoredRows())
}

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

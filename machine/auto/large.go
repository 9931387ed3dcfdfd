package auto

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// chooseLarge chooses bandwidth and penalty of more features than a factorisation can have: those of the exact kernel
// of some rows of the sample, which so many features come near to.
func (f *fit) chooseLarge(s *sample, rows int64) (*decision, error) {
	if !f.info.Exact {
		return nil, fmt.Errorf("%d features are for ridge alone, a %s model has at most %d: %w", f.o.Features, f.kind,
			maxFeatures, machine.ErrSetup)
	}
	c := &chooser{f: f, s: s, rows: rows, known: map[tried][]trial{},
		d: &decision{Rows: rows, Sampled: s.len(), Last: s.last, Large: true}}
	c.spec = randfeat.Spec{Kernel: kernel.Kernel{Kind: f.o.kernelKind()}, Dim: s.x.Cols, Seed: f.o.Seed}
	c.noteModel()
	c.spec = c.candidates()[0]
	if f.o.Coupling == nil && c.spec.Dim > largeDense {
		c.spec.Coupling = coupling.Hadamard{}
	}
	e, err := c.exactSettings()
	if err != nil {
		return nil, err
	}
	c.spec.Kernel.Kind = e.tries.kind
	if c.spec, err = c.at(e.at.scale, f.o.Features); err != nil {
		return nil, err
	}
	if f.o.Coupling == nil && !c.defined(c.spec) {
		c.spec = c.candidates()[0] // IID, which every law has
		if c.spec, err = c.at(e.at.scale, f.o.Features); err != nil {
			return nil, err
		}
	}
	c.noteKernel()
	c.took(e)
	c.found(e, fmt.Sprintf("best %s of the exact kernel: %s", f.metric(), e.judged()))
	n, err := c.spec.OutDim()
	if err != nil {
		return nil, err
	}
	c.chosen(Choice{Name: "features", Number: float64(n), Value: fmt.Sprint(n), Given: true, Why: "as asked"})
	c.d.Spec, c.d.Lambda, c.d.Tried = c.spec, e.at.lambda, len(e.all) > 1
	return c.d, nil
}

const (
	// largeDense is the number of columns beyond which projections are structured: dense ones of so many features are
	// read from memory for every block of rows, in every pass, and products with them are most of the time.
	largeDense = 128
	// A fit by conjugate gradients ends at a residual that predictions do not show, or after so many passes.
	largeTolerance = 1e-3
	largeSteps     = 50
)

// largeSketch are the rows of the preconditioner; 0: the usual number. A variable for tests with fewer.
var largeSketch = 0

// heldCells is how many numbers of a table are kept for passes of conjugate gradients, 1 GiB: a larger table is read
// again in every one.
const heldCells = 1 << 27

// fitLarge solves by conjugate gradients, and says what that took.
func (f *fit) fitLarge(rows machine.Rows) (*machine.Model, error) {
	d := f.decision
	rows, err := f.held(rows)
	if err != nil {
		return nil, err
	}
	m, done, err := machine.FitIterative(f.setup(d.Spec), rows, d.Lambda, machine.Iterative{
		Tolerance: largeTolerance, Steps: largeSteps, Sketch: largeSketch,
		Progress: func(step int, _ float64) error {
			f.progress("steps", int64(step), 0)
			return f.ctx.Err()
		}})
	if err != nil {
		return nil, err
	}
	f.note("%d features by conjugate gradients: %d passes over the rows, residual %.1g, a preconditioner of %d rows, %d "+
		"MiB; a factorisation would need %d MiB", m.Weights.Rows, done.Steps+1, done.Residual, done.Sketch,
		done.Bytes>>20, 16*int64(m.Weights.Rows)*int64(m.Weights.Rows)>>20)
	if !done.Converged {
		f.note("conjugate gradients have not converged: the weights are between those of this λ and of a larger one; give a "+
			"larger λ than %s", short(d.Lambda))
	}
	return m, nil
}

// held are rows in memory, unless they are too many.
func (f *fit) held(rows machine.Rows) (machine.Rows, error) {
	if f.decision.Rows > heldCells/int64(rows.Dim()+rows.Outputs()) {
		f.note("the table is read again in every pass: it has more than %d numbers", heldCells)
		return rows, nil
	}
	n := int(f.decision.Rows)
	x, y, at := dense.New[float64](n, rows.Dim()), dense.New[float64](n, rows.Outputs()), 0
	err := rows.Each(f.o.Block, func(bx, by dense.Matrix[float64]) error {
		for i := range bx.Rows {
			if at == n {
				return fmt.Errorf("%s: more than the %d rows that were there before: %w", f.src.Name(), n,
					machine.ErrMismatch)
			}
			copy(x.Row(at), bx.Row(i))
			copy(y.Row(at), by.Row(i))
			at++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return machine.MatrixRows(x.RowRange(0, at), y.RowRange(0, at))
}

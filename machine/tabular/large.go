package tabular

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// chooseLarge chooses bandwidth and penalty for more features than a factorisation can have. It takes those of the
// exact kernel of some rows of the sample, which so many features approximate closely.
func (f *search) chooseLarge(s *sample, rows int64) (*decision, error) {
	if !f.info.Exact {
		return nil, fmt.Errorf("%d features are for ridge alone, a %s model has at most %d: %w", f.o.Features, f.kind,
			maxFeatures, machine.ErrSetup)
	}
	c := &chooser{f: f, s: s, rows: rows, known: map[tried][]trial{},
		d: &decision{Rows: rows, Sampled: s.len(), Last: s.last, Large: true}}
	c.spec = randfeat.Spec{Kernel: kernel.Kernel{Kind: f.kernelKind()}, Dim: s.x.Cols, Seed: f.o.Seed}
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
		c.spec = c.candidates()[0] // independent projections, which every law has
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
	// largeDense is the number of columns above which projections are structured. Dense ones would be read from
	// memory for every block of rows in every pass, and products with them would take most of the time.
	largeDense = 128
	// A fit by conjugate gradients ends at this residual, which predictions do not show, or after largeSteps passes.
	largeTolerance = 1e-3
	largeSteps     = 50
)

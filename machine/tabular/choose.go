package tabular

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// searchAll makes all choices on a sample of a table of n rows. It gives the columns of the sample the weights of the
// scaling that it chose.
func searchAll(of *job, s *sample, n int64) (*decision, error) {
	f := &search{job: of}
	scaling, err := f.chooseScaling(s, n)
	if err != nil {
		return nil, err
	}
	d, err := f.chooseWithMetric(s, n, scaling)
	if err != nil {
		return nil, err
	}
	f.noteRescaled(scaling)
	if scaling != nil {
		d.Choices = slices.Insert(d.Choices, 1, *scaling)
		d.Tried = d.Tried || !scaling.Given
	}
	d.fields, d.marks, d.Guide = f.fields, f.marks, &f.found
	return d, nil
}

// noteRescaled says in the choice of a scaling that a later search took another one.
func (f *search) noteRescaled(scaling *Choice) {
	if scaling != nil && f.rescaled != (rescaled{}) {
		scaling.Value, scaling.Why, f.rescaled = f.rescaled.to, f.rescaled.why, rescaled{}
	}
}

// choose decides everything except a penalty that all rows can decide better. For logistic regression it searches all
// settings but λ with least squares, which has closed forms; the same maps suit both.
//
// The order matters. First the family, because bandwidths and feature counts of two families are not comparable. Then s
// with λ, which trade off against each other. Then F, whose learning curve is meaningful only at a good s. Last λ
// again, at the final map.
func (f *search) choose(s *sample, rows int64) (*decision, error) {
	switch {
	case f.exactOf(rows):
		return f.chooseExact(s, rows)
	case f.o.Loss != "":
		return nil, fmt.Errorf("loss %s for a model without an exact kernel of classes: leave it out: %w", f.o.Loss,
			machine.ErrSetup)
	case f.o.Map == MapNystrom && !(f.info.LeastSquares && f.info.Summed()):
		return nil, fmt.Errorf("a %s model has no features of landmarks here: leave the map out: %w", f.kind,
			machine.ErrSetup)
	case f.o.Map == MapNystrom:
		return f.chooseNystrom(s, rows)
	case f.o.Features > maxFeatures:
		return f.chooseLarge(s, rows)
	case f.o.Map == MapExact && !f.info.Exact:
		return nil, fmt.Errorf("a %s model has no exact kernel: leave the map out: %w", f.kind, machine.ErrSetup)
	case f.o.Map == MapExact:
		return nil, fmt.Errorf("%s: %d rows are too many for an exact kernel, the limit is %d (fewer if rows are wide): "+
			"leave the map to be chosen, or give fewer rows: %w", f.src.Name(), rows, f.exactLimit(), machine.ErrSetup)
	}
	c := &chooser{f: f, s: s, rows: rows, d: &decision{Rows: rows, Sampled: s.len(), Last: s.last},
		known: map[tried][]trial{}}
	c.spec = randfeat.Spec{Kernel: kernel.Kernel{Kind: f.kernelKind()}, Dim: s.x.Cols, Seed: f.o.Seed}
	if f.info.LeastSquares {
		c.try = &ridgeTries{ctx: f.ctx, s: s, task: f.task, evidence: f.info.Bayesian}
	} else {
		c.try = &sumTries{ctx: f.ctx, s: s, kind: f.kind, setup: f.setup(c.spec)}
	}
	c.median = medianDistance(s, f.kernelKind(), f.o.Seed)
	c.noteModel()
	c.noteKernel()
	c.planned = c.plan()
	f.progress(stageChoose, 0, c.planned)
	for _, step := range []func() error{c.chooseFamily, c.chooseBandwidth, c.chooseFeatures, c.moreFeatures, c.refit,
		c.chooseMap, c.choosePenalty} {
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	// A single trial chooses nothing, so scores on the rows that it was tried on are unbiased.
	c.d.Spec, c.d.Lambda, c.d.Tried = c.spec, c.lambda, c.d.Open
	for _, ch := range c.d.Choices {
		c.d.Tried = c.d.Tried || !ch.Given && len(ch.Trials) > 1
	}
	return c.d, nil
}

package tabular

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// nystrom chooses at most m landmarks in the sample at bandwidth s. It returns them and their spec.
func (c *chooser) nystrom(kind kernel.Kind, s float64, m int) (randfeat.Spec, []coupling.Omega, error) {
	k := kernel.Kernel{Kind: kind, Scale: s}
	rows, omega, err := machine.Landmarks(k, c.s.x, m, c.f.o.Seed)
	if err != nil {
		return randfeat.Spec{}, nil, err
	}
	return randfeat.Spec{Kernel: k, Family: family.Landmarks{}, Dim: c.s.x.Cols, M: len(rows), Seed: c.f.o.Seed},
		omega, nil
}

// chooseNystrom chooses bandwidth and penalty with the exact kernel of some rows, which many landmarks approximate
// closely. It takes the landmarks from the sample: as many as the caller set, or as the budget allows.
func (f *search) chooseNystrom(s *sample, rows int64) (*decision, error) {
	c := &chooser{f: f, s: s, rows: rows, d: &decision{Rows: rows, Sampled: s.len(), Last: s.last},
		known: map[tried][]trial{}}
	c.noteModel()
	c.chosen(Choice{Name: "map", Value: MapNystrom, Given: true, Why: "as asked"})
	e, err := c.exactSettings()
	if err != nil {
		return nil, err
	}
	m := f.o.Features
	if m == 0 {
		m = min(f.o.Budget, f.mostFeaturesFor(), max(s.len()/2, 1))
	}
	if m > s.len() {
		return nil, fmt.Errorf("%d landmarks from a sample of %d rows: ask for fewer features, or for a larger sample: %w",
			m, s.len(), machine.ErrSetup)
	}
	spec, marks, err := c.nystrom(e.tries.kind, e.at.scale, m)
	if err != nil {
		return nil, err
	}
	c.takeNystrom(e, spec, marks, e.at.lambda)
	why := fmt.Sprintf("the budget is %d, the sample has %d rows", f.o.Budget, s.len())
	switch {
	case f.o.Features > 0 && spec.M == m:
		why = "as asked"
	case spec.M < m:
		why = fmt.Sprintf("%d were looked for: these tell the kernel of all rows of the sample", m)
	}
	c.chosen(Choice{Name: "features", Number: float64(spec.M), Value: fmt.Sprint(spec.M), Given: f.o.Features > 0,
		Why: why})
	c.last = e.all
	if err := c.choosePenalty(); err != nil {
		return nil, err
	}
	c.d.Spec, c.d.Lambda, c.d.Tried = c.spec, c.lambda, true
	return c.d, nil
}

// exactSettings searches bandwidth and penalty of the exact kernel of some rows of the sample.
func (c *chooser) exactSettings() (*exactSearch, error) {
	e := c.exactSearch(c.order(), finalSizes(c.s.len())...)
	e.at, e.final, e.open = c.f.start, true, c.f.kernelOpen()
	return e, e.search()
}

// takeNystrom makes landmarks the map of the decision.
func (c *chooser) takeNystrom(e *exactSearch, spec randfeat.Spec, marks []coupling.Omega, lambda float64) {
	c.spec, c.lambda, c.f.marks = spec, lambda, marks
	c.noteKernel()
	c.took(e)
	s := spec.Kernel.Scale
	b := Choice{Name: "bandwidth", Number: s, Value: short(s), Given: c.f.o.Bandwidth > 0, Why: "as asked"}
	if !b.Given {
		b.Why = fmt.Sprintf("best %s of the exact kernel, %s", c.f.metric(), e.judged())
		b.Trials = e.shown(func(t trial) float64 { return t.spec.Kernel.Scale })
	}
	c.chosen(b)
}

// chooseMap compares random features, whose choices are all made, with two maps that take the same time, if the
// caller left the map open. A map replaces the one before only if it is better by more than a standard error:
//
//   - as many random features as the budget allows, at the bandwidth of the exact kernel, which may be narrower than
//     any bandwidth that suits few features;
//   - landmarks. A landmark costs a row of the triangle R⁻¹ besides its products with the others, so 1/√2 as many
//     landmarks take the same time. There are as many as the budget allows, however few random features were enough
//     for the sample: with 100,000 rows, 362 landmarks had an R² of 0.881, and 50,000 rows with the exact kernel
//     0.899.
func (c *chooser) chooseMap() error {
	f := c.f
	if !f.mapOpen() || !f.info.Exact || len(c.last) == 0 || f.o.Bandwidth > 0 || f.o.Lambda > 0 {
		return nil
	}
	top := c.last[best(c.last)]
	ch := Choice{Name: "map", Value: MapRandom}
	features := c.find("features")
	ch.Trials = append(ch.Trials, f.shown(top, 0, fmt.Sprintf("random, %d features", int(features.Number))))
	e, err := c.exactSettings()
	if err != nil {
		return err
	}
	around := []float64{e.at.lambda, e.at.lambda * math.Sqrt(0.1), e.at.lambda * math.Sqrt(10)}
	// Random features at the bandwidth of the exact kernel.
	at := c.spec
	at.Kernel.Kind = e.tries.kind
	if !c.defined(at) {
		at.Coupling = coupling.IID{}
	}
	ts, err := c.trial(at, e.at.scale, c.limit(), around)
	if err != nil {
		return err
	}
	if i := best(ts); i >= 0 {
		ch.Trials = append(ch.Trials, f.shown(ts[i], 1, fmt.Sprintf("random, %d features, bandwidth %s", c.limit(),
			short(e.at.scale))))
		if diff, se := gain(top.loss, ts[i].loss); diff > se {
			top, c.last = ts[i], ts
			c.spec, c.lambda = top.spec, top.lambda
			n, err := top.spec.OutDim()
			if err != nil {
				return err
			}
			features.Number, features.Value = float64(n), fmt.Sprint(n)
			features.Why = "the budget, with the bandwidth of the exact kernel"
			c.moveBandwidth(top.spec.Kernel.Scale)
			c.took(e)
		}
	}
	// Landmarks.
	m := min(int(float64(c.limit())/math.Sqrt2), c.s.len()/2)
	spec, marks, err := c.nystrom(e.tries.kind, e.at.scale, m)
	if err != nil {
		return err
	}
	sums := &sumTries{ctx: f.ctx, s: c.s, kind: f.kind, setup: f.setup(spec), omega: marks}
	if ts, err = sums.try(spec, around); err != nil && !errors.Is(err, machine.ErrSetup) {
		return err
	}
	c.counted()
	ch.Why = "landmarks are not better by more than a standard error"
	if i := best(ts); i >= 0 {
		ch.Trials = append(ch.Trials, f.shown(ts[i], 2, fmt.Sprintf("nystrom, %d landmarks", spec.M)))
		if diff, se := gain(top.loss, ts[i].loss); diff > se {
			ch.Value, ch.Why = MapNystrom, "better than random features by more than a standard error"
			c.d.Choices = c.d.Choices[:1] // keep the choice of the model; the others are of random features
			c.last = ts
			c.chosen(ch)
			c.takeNystrom(e, spec, marks, ts[i].lambda)
			c.chosen(Choice{Name: "features", Number: float64(spec.M), Value: fmt.Sprint(spec.M),
				Why: fmt.Sprintf("landmarks, in the time of %d random features", c.limit())})
			return nil
		}
	}
	c.chosen(ch)
	return nil
}

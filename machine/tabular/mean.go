package tabular

import (
	"errors"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// A model of few rows predicts the mean of several kernel machines. Few rows hardly tell kernels, bandwidths and
// penalties apart. Machines with different kernels, each with its own best bandwidth and λ, err in different ways, and
// the mean has less variance. One machine with the mean of the kernels gains much less: it still depends on one choice
// of bandwidth and λ (docs/machines.md).
//
// The machines share their landmarks, so the model is one list of landmarks with the weights of all machines
// (family.Landmarks.Also).

// exactPart is one machine of a mean.
type exactPart struct {
	Kernel kernel.Kind
	Scale  float64
	Lambda float64
}

// alsoShare is the share of each further machine in the mean; the chosen machine has the rest.
const alsoShare = 0.25

// averaged reports whether the machine of a kernel is part of every mean.
func averaged(k kernel.Kind) bool {
	return k == kernel.Gaussian || k == fewKernel || k == kernel.Laplace
}

// meanRows is the number of rows below which several machines are averaged. With more rows the gain falls to 0.15
// points, for a fifth more time (docs/machines.md).
const meanRows = 400

// averages reports whether the table of a search is small enough for a mean. A scored fold follows its table, although
// it has fewer rows: it is scored for the model of that table. With Options.Quick, choices of leastScaling rows or more
// are made outside one fold, without a guide.
func (f *search) averages(rows int64) bool {
	if f.guide != nil {
		return f.guide.Mean
	}
	return rows < meanRows && !(f.o.Quick && (f.inner || rows >= leastScaling))
}

// average finds the further machines of a mean, each at its own best bandwidth and λ on the present rows. from is the
// best trial of the kernel that the search began with.
func (e *exactSearch) average(from trial) error {
	if e.wide || !e.c.f.averages(e.c.rows) {
		return nil
	}
	kind, at, all, tried := e.tries.kind, e.at, e.all, len(e.kinds)
	for _, k := range []kernel.Kind{kernel.Gaussian, fewKernel, kernel.Laplace} {
		t := from
		if k == kind || k == kernel.Laplace && e.tries.x.Cols > laplaceColumns {
			continue
		}
		if k != from.spec.Kernel.Kind {
			var err error
			if t, err = e.tryKind(k, from); err != nil {
				return err
			}
			if t.loss == nil {
				continue
			}
			e.at = exactPoint{t.spec.Kernel.Scale, t.lambda}
			if err := e.climb(); err != nil {
				return err
			}
			if t, err = e.top(); err != nil {
				return err
			}
		}
		e.also = append(e.also, exactPart{k, t.spec.Kernel.Scale, t.lambda})
	}
	e.at, e.all, e.kinds = at, all, e.kinds[:tried]
	return e.tries.take(kind)
}

// noteMean takes the further machines of a search and lists them. A given bandwidth or λ means one machine, and so do
// margins.
func (c *chooser) noteMean(e *exactSearch) {
	if o := &c.f.o; o.Bandwidth > 0 || o.Lambda > 0 || c.d.Margins || len(e.also) == 0 || !c.f.averages(c.rows) {
		return
	}
	c.d.Also = slices.DeleteFunc(e.also, func(p exactPart) bool { return p.Kernel == e.tries.kind })
	var names string
	for i, p := range c.d.Also {
		if i > 0 {
			names += ", "
		}
		names += p.Kernel.String() + " (s = " + short(p.Scale) + ", λ = " + short(p.Lambda) + ")"
	}
	c.chosen(Choice{Name: "also", Value: names, Why: "few rows: the mean of several kernels errs less"})
}

// solveExact fits the exact kernel, or several, to all rows of a sample.
func (f *final) solveExact(s *sample, spec randfeat.Spec, lambda float64) (*machine.Model, error) {
	m, err := f.solveKernel(s, spec, lambda)
	if err != nil || len(f.d.Also) == 0 {
		return m, err
	}
	var (
		all   = dense.New[float64](m.Weights.Rows*(1+len(f.d.Also)), m.Outputs)
		n     = m.Weights.Rows
		first = 1 - alsoShare*float64(len(f.d.Also))
		list  family.Landmarks
	)
	intercept := dense.New[float64](1, m.Outputs)
	add := func(i int, m *machine.Model, share float64) {
		addScaled(all.RowRange(i*n, (i+1)*n), m.Weights, share)
		addScaled(intercept, row(m.Intercept), share)
	}
	add(0, m, first)
	for i, p := range f.d.Also {
		spec.Kernel.Kind, spec.Kernel.Scale = p.Kernel, p.Scale
		one, err := f.solveKernel(s, spec, p.Lambda)
		if err != nil {
			return nil, err
		}
		add(i+1, one, alsoShare)
		list.Also = append(list.Also, kernel.Kernel{Kind: p.Kernel, Scale: p.Scale / m.Spec.Kernel.Scale})
	}
	m.Weights, m.Intercept, m.Spec.Family = all, intercept.Row(0), list
	return m, nil
}

// addScaled adds share·v to sum.
func addScaled(sum, v dense.Matrix[float64], share float64) {
	for i := range v.Rows {
		kern.Best[float64]().MulAdd(sum.Row(i), v.Row(i), share)
	}
}

// row returns v as a matrix of one row.
func row(v []float64) dense.Matrix[float64] {
	return dense.Matrix[float64]{Rows: 1, Cols: len(v), Stride: len(v), Data: v}
}

// leaveOutMean is leaveOut for the model of a decision: the mean over its machines.
func (f *final) leaveOutMean(e *exactTries) (dense.Matrix[float64], error) {
	k := f.model.Spec.Kernel
	out, err := e.leaveOutRaised(exactPoint{k.Scale, f.model.Lambda})
	if err != nil || len(f.d.Also) == 0 {
		return out, err
	}
	sum := dense.New[float64](out.Rows, out.Cols)
	addScaled(sum, out, 1-alsoShare*float64(len(f.d.Also)))
	for _, p := range f.d.Also {
		if err := e.take(p.Kernel); err != nil {
			return out, err
		}
		if out, err = e.leaveOutRaised(exactPoint{p.Scale, p.Lambda}); err != nil {
			return out, err
		}
		addScaled(sum, out, alsoShare)
	}
	return sum, nil
}

// leaveOutRaised is leaveOut with λ, or with a larger one if λ is singular.
func (e *exactTries) leaveOutRaised(at exactPoint) (dense.Matrix[float64], error) {
	for k := 0; ; k++ {
		pred, err := e.leaveOut(0, exactPoint{at.scale, at.lambda * math.Pow(10, float64(k)/2)})
		if !errors.Is(err, linalg.ErrNotPositive) {
			return pred, err
		}
		if k == mostRaises {
			return pred, machine.ErrSingular
		}
	}
}

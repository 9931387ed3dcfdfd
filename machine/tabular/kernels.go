package tabular

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/kernel"
)

// noteKernel lists a kernel that the caller set or that a metric was learned with.
func (c *chooser) noteKernel() {
	if name := c.f.o.Kernel; name != "" {
		c.chosen(Choice{Name: "kernel", Value: name, Given: true, Why: "as asked"})
	} else if c.f.learned != nil {
		c.chosen(Choice{Name: "kernel", Value: c.f.learned.kernel.String(), Why: "the metric is best with it"})
	}
}

// took lists the kernel that a search chose.
func (c *chooser) took(e *exactSearch) {
	if len(e.kinds) == 0 {
		return
	}
	ch := Choice{Name: "kernel", Value: e.tries.kind.String(), Trials: e.kinds,
		Why: "no alternative is better by more than one standard error"}
	usual := kernel.Gaussian
	if e.few() {
		usual = fewKernel
	}
	if e.tries.kind != usual {
		ch.Why = fmt.Sprintf("best %s of %d rows, by more than one standard error", c.f.metric(), e.told)
	}
	c.chosen(ch)
}

// laplaceColumns is the number of columns up to which the Laplace kernel is tried. Its distances have no product form,
// and with wide rows they would take longer than everything else.
const laplaceColumns = 256

// tryKinds compares other kernels with the Gaussian one on the present rows, at its settings and at a few larger
// bandwidths. matern32 goes first, because its smoothness lies between those of the Gaussian and matern12. If it is no
// better, the target is smooth and the other two are not tried. laplace, a product over columns, is always tried.
// Another kernel must be better by more than a standard error, on more rows if there are any, because rough kernels
// look best on few rows. The climb continues from the best setting.
func (e *exactSearch) tryKinds() error {
	if e.few() {
		return e.tryFew()
	}
	smooth, err := e.top()
	if err != nil || smooth.loss == nil {
		return err
	}
	e.told = e.tries.x.Rows
	all := e.all
	var top trial // of the others
	e.kinds = append(e.kinds, e.c.f.shown(smooth, 0, kernel.Gaussian.String()))
	rougher := true // a Matérn kernel is worth more trials if the first is better
	for _, kind := range []kernel.Kind{kernel.Matern32, kernel.Matern52, kernel.Matern12, kernel.Laplace} {
		switch g := e.c.f.guide; {
		case g != nil && kind != g.Kernel || e.probes(kind):
			continue
		case g == nil && (kind == kernel.Laplace && e.tries.x.Cols > laplaceColumns ||
			kind != kernel.Laplace && !rougher):
			continue
		}
		t, err := e.tryKind(kind, smooth)
		if err != nil {
			return err
		}
		if t.loss != nil && (top.loss == nil || mean(t.compared()) < mean(top.compared()) || fewerErrors(top, t, 1)) {
			top = t
		}
		if kind == kernel.Matern32 {
			rougher = t.loss != nil && (mean(t.compared()) < mean(smooth.compared()) || fewerErrors(smooth, t, 1))
		}
	}
	more := e.told < e.sizes[len(e.sizes)-1]
	if top.loss == nil || !e.worth(smooth, top, more) {
		e.all = all
		if err := e.tries.take(kernel.Gaussian); err != nil {
			return err
		}
		return e.average(smooth)
	}
	if more {
		e.rival = e.at
	}
	e.at, e.all = exactPoint{top.spec.Kernel.Scale, top.lambda}, nil
	if err := e.tries.take(top.spec.Kernel.Kind); err != nil {
		return err
	}
	if err := e.climb(); err != nil {
		return err
	}
	return e.average(smooth)
}

// worth reports whether the search continues with a kernel other than the Gaussian one. That kernel must be better by
// more than a standard error. If more rows will decide, it must not be clearly worse: the advantage of a rough kernel
// may grow with the rows.
func (e *exactSearch) worth(smooth, top trial, more bool) bool {
	diff, se := gain(smooth.compared(), top.compared())
	return diff > se || fewerErrors(smooth, top, surely) || more && (diff > -se || fewerErrors(smooth, top, 0))
}

// fewerErrors reports whether t is better than another trial by some standard errors of the loss that counts. For
// classes this loss is a count of errors. The Brier score is less noisy but may disagree, because a kernel with a large
// penalty predicts values far from 0 and 1.
func fewerErrors(than, t trial, some float64) bool {
	diff, se := gain(than.loss, t.loss)
	return diff > some*se
}

// confirmKind returns to the Gaussian kernel if the other kernel is not better on the present rows by more than a
// standard error.
func (e *exactSearch) confirmKind() error {
	if e.rival == (exactPoint{}) {
		return nil
	}
	kind, at := e.tries.kind, e.at
	if err := e.try(e.at.orNarrower()); err != nil {
		return err
	}
	rough := e.all
	e.at, e.all, e.rival = e.rival, nil, exactPoint{}
	if err := e.tries.take(kernel.Gaussian); err != nil {
		return err
	}
	if err := e.try(e.at.orNarrower()); err != nil {
		return err
	}
	a, b := best(e.all), best(rough)
	if a >= 0 && b >= 0 {
		diff, se := gain(e.all[a].compared(), rough[b].compared())
		if diff <= se && !fewerErrors(e.all[a], rough[b], surely) {
			return nil
		}
	}
	e.at, e.all = at, rough
	return e.tries.take(kind)
}

// tryKind returns the best of a few settings of a kernel near those of the Gaussian one, in units of its own distances.
// Rough kernels prefer larger bandwidths: their correlation falls fast at first and then slowly.
func (e *exactSearch) tryKind(kind kernel.Kind, smooth trial) (t trial, err error) {
	if err := e.tries.take(kind); err != nil {
		return t, err
	}
	o := &e.c.f.o
	lambda := smooth.lambda
	if o.Lambda > 0 {
		lambda = o.Lambda
	}
	first := smooth.spec.Kernel.Scale * medianDistance(&sample{x: e.tries.x}, kind, o.Seed) / e.c.median
	e.all = nil
	if err := e.try(product([]float64{first, 2 * first, 4 * first}, []float64{lambda})); err != nil {
		return t, err
	}
	if i := best(e.all); i >= 0 && o.Lambda == 0 { // what it is rougher by explains some of what was noise
		if err := e.try([]exactPoint{{e.all[i].spec.Kernel.Scale, lambda * math.Sqrt(0.1)}}); err != nil {
			return t, err
		}
	}
	if t, err = e.top(); t.loss != nil {
		e.kinds = append(e.kinds, e.c.f.shown(t, float64(len(e.kinds)), kind.String()))
	}
	return t, err
}

// compared returns the losses that kernels are compared by: errors of a regression, or the Brier score of classes,
// which is far less noisy than errors.
func (t trial) compared() []float64 {
	if t.tie != nil {
		return t.tie
	}
	return t.loss
}

// judged returns the losses that kernels of few rows, and metrics, are compared by: errors of a regression, or for
// classes the errors plus half of the Brier score.
func (t trial) judged() []float64 {
	if t.tie == nil {
		return t.loss
	}
	out := make([]float64, len(t.loss))
	for i, v := range t.loss {
		out[i] = v + t.tie[i]/2
	}
	return out
}

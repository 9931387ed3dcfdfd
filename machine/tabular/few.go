package tabular

import "github.com/randfeat/randfeat/kernel"

// fewKernel is the kernel of fewer than leastScaling rows, unless another one is better by more than a standard error.
// So few rows seldom tell kernels apart, and the roughest one overfits least: its predictions return to the mean
// between rows. On 12 tables of 50, 100 and 150 rows it was better than the Gaussian kernel with the same rule
// (docs/machines.md).
const fewKernel = kernel.Matern12

// few reports whether the table has so few rows.
func (e *exactSearch) few() bool { return len(e.order) < leastScaling }

// tryFew chooses the kernel of few rows. Trials of so few rows take little time, so each kernel is tried at its own
// best bandwidth and λ.
func (e *exactSearch) tryFew() error {
	e.told = e.tries.x.Rows
	smooth, err := e.top()
	if err != nil || smooth.loss == nil {
		return err
	}
	e.kinds = append(e.kinds, e.c.f.shown(smooth, 0, kernel.Gaussian.String()))
	var base trial
	others := []trial{smooth}
	for _, kind := range []kernel.Kind{fewKernel, kernel.Matern32, kernel.Matern52, kernel.Laplace} {
		if g := e.c.f.guide; g != nil && kind != g.Kernel && kind != fewKernel && !(g.Mean && averaged(kind)) ||
			kind == kernel.Laplace && e.tries.x.Cols > laplaceColumns {
			continue
		}
		t, err := e.tryKind(kind, smooth)
		if err != nil {
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
		e.kinds[len(e.kinds)-1] = e.c.f.shown(t, float64(len(e.kinds)-1), kind.String())
		if kind == fewKernel {
			base = t
		} else {
			others = append(others, t)
		}
	}
	top := base
	for _, t := range others {
		if base.loss == nil {
			top = smooth
			break
		}
		if diff, se := gain(base.judged(), t.judged()); diff > se && mean(t.judged()) < mean(top.judged()) {
			top = t
		}
	}
	for _, t := range append(others, base) {
		if k := t.spec.Kernel; t.loss != nil && averaged(k.Kind) && k.Kind != top.spec.Kernel.Kind {
			e.also = append(e.also, exactPart{k.Kind, k.Scale, t.lambda})
		}
	}
	e.at, e.all = exactPoint{top.spec.Kernel.Scale, top.lambda}, nil
	if err := e.tries.take(top.spec.Kernel.Kind); err != nil {
		return err
	}
	return e.climb()
}

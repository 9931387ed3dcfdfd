package tabular

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/kernel"
)

// Bandwidths of rough kernels of few rows, in octaves of the median distance, and penalties in decades.
const fewOctavesLo, fewOctavesHi = -2, 4

// fewNoise is the part of a standard error by which another kernel must be better.
var fewNoise = 0.5

var fewDecades = []float64{-5, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5}

// tryFew compares kernels of so few rows that trials cost nothing and standard errors decide nothing: each is tried on
// a grid of its own, and the one of the least loss is taken, whether surely better or not. Its choices are as noisy as
// the rows are few; nested scores know that.
func (e *exactSearch) tryFew() error {
	smooth, err := e.top()
	if err != nil || smooth.loss == nil {
		return err
	}
	e.told = e.tries.x.Rows
	e.kinds = append(e.kinds, e.c.f.shown(smooth, 0, kernel.Gaussian.String()))
	top, all, at := smooth, e.all, e.at
	for _, kind := range []kernel.Kind{kernel.Matern12, kernel.Laplace} {
		if kind == kernel.Laplace && e.tries.x.Cols > laplaceColumns {
			continue
		}
		if err := e.tries.take(kind); err != nil {
			return err
		}
		e.all = nil
		if err := e.try(e.fewPoints(kind)); err != nil {
			return err
		}
		i := best(e.all)
		if i < 0 {
			continue
		}
		t := e.all[i]
		e.kinds = append(e.kinds, e.c.f.shown(t, float64(len(e.kinds)), kind.String()))
		if diff, se := gain(top.rowLoss(), t.rowLoss()); diff > fewNoise*se {
			top, all, at = t, e.all, exactPoint{t.spec.Kernel.Scale, t.lambda}
		}
	}
	e.all, e.at = all, at
	return e.tries.take(top.spec.Kernel.Kind)
}

// fewPoints are the settings of a kernel on its grid.
func (e *exactSearch) fewPoints(kind kernel.Kind) []exactPoint {
	median := medianDistance(&sample{x: e.tries.x}, kind, e.c.f.o.Seed)
	var scales, lambdas []float64
	for k := fewOctavesLo; k <= fewOctavesHi; k++ {
		scales = append(scales, math.Ldexp(median, k))
	}
	for _, d := range fewDecades {
		lambdas = append(lambdas, math.Pow(10, d))
	}
	if e.c.f.o.Lambda > 0 {
		lambdas = []float64{e.c.f.o.Lambda}
	}
	return product(scales, lambdas)
}

// rowLoss are the losses of a trial, and for classes half of the Brier score beside the errors.
func (t *trial) rowLoss() []float64 {
	out := slices.Clone(t.loss)
	for i := range t.tie {
		out[i] += t.tie[i] / 2
	}
	return out
}

package tabular

import "github.com/randfeat/randfeat/kernel"

// quickRows are enough rows outside a fold for choices that serve all rows, where Options.Quick asks for less time:
// with fewer, the choices of one part of the rows are too often not those of all.
const quickRows = 160

// quickSize is the number of rows on which settings for n rows are tried at most, where Options.Quick asks for less
// time.
func quickSize(n int) int {
	if n >= 2*secondRows {
		return secondRows
	}
	return firstRows
}

// probe compares the choice of few rows with rough, narrow kernels on more rows, where Options.Quick asks for less
// time: they gain most by more rows, above all where rows nearly repeat others, and few rows do not show it. A table of
// 1280 rows had an R² of 0.30 with the kernel of 512 rows, and of 0.47 with matern12 at a third of the median distance.
func (e *exactSearch) probe() error {
	f := e.c.f
	if !f.o.Quick || !e.open || f.o.Lambda > 0 || e.tries.parts != nil || len(e.order) < secondRows*3/4 {
		return nil
	}
	if err := e.rows(min(len(e.order), marginRows, f.trialRows())); err != nil {
		return err
	}
	if err := e.try(e.at.orNarrower()); err != nil {
		return err
	}
	kind, all, i := e.tries.kind, e.all, best(e.all)
	if i < 0 {
		return nil
	}
	e.at, e.all = exactPoint{all[i].spec.Kernel.Scale, all[i].lambda}, nil
	if err := e.tries.take(kernel.Matern12); err != nil {
		return err
	}
	median := medianDistance(&sample{x: e.tries.x}, kernel.Matern12, f.o.Seed)
	if err := e.try(product([]float64{median / 3, median}, []float64{probePenalty, e.at.lambda})); err != nil {
		return err
	}
	if k := best(e.all); k >= 0 {
		if diff, se := gain(all[i].compared(), e.all[k].compared()); diff > se || fewerErrors(all[i], e.all[k], 1) {
			e.at = exactPoint{e.all[k].spec.Kernel.Scale, e.all[k].lambda}
			e.kinds, e.told = append(e.kinds, f.shown(e.all[k], float64(len(e.kinds)), "matern12, more rows")), e.tries.x.Rows
			return nil
		}
	}
	e.all = all
	return e.tries.take(kind)
}

// probePenalty is one of the penalties of a probe.
const probePenalty = 0.1

// fewer is a number of rows, or half of it where Options.Quick asks for less time.
func (j *job) fewer(rows int) int {
	if j.o.Quick {
		return rows / 2
	}
	return rows
}

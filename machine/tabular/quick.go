package tabular

import "github.com/randfeat/randfeat/kernel"

// quickRows is the number of rows outside a fold that suffices for choices that serve all rows, if Options.Quick is
// set. With fewer rows, choices of one part too often differ from those of all rows.
const quickRows = 160

// probeRows is the largest number of rows of a probe. With 1024 rows, two of nine tables lost 3 points.
const probeRows = 1448

// quickSize is the largest number of rows on which settings for n rows are tried if Options.Quick is set.
func quickSize(n int) int {
	if n >= 2*secondRows {
		return secondRows
	}
	return firstRows
}

// probe compares the choice of few rows with rough, narrow kernels on more rows. Such kernels gain most from more rows,
// above all if rows nearly repeat others, and few rows do not show it. A table of 1280 rows had an R² of 0.30 with the
// kernel that 512 rows chose, and of 0.47 with matern12 at a third of the median distance. Of 10,000 rows of chess,
// matern12 had 58 % right and laplace 67 %; 1024 rows hardly told them apart.
//
// From 2·secondRows rows on, the search itself tries matern12 on enough rows, unless Options.Quick is set.
func (e *exactSearch) probe() error {
	f, n := e.c.f, len(e.order)
	if !e.open || f.o.Lambda > 0 || e.tries.parts != nil || n < secondRows*3/4 ||
		!f.o.Quick && (f.guide != nil || e.margins != nil || e.faultless()) {
		return nil
	}
	many := n >= 2*secondRows
	if f.o.Quick || !many {
		if err := e.rows(min(n, probeRows, f.trialRows())); err != nil {
			return err
		}
		if err := e.climbOnce(e.at.orNarrower()); err != nil {
			return err
		}
		if err := e.probeKind(kernel.Matern12); err != nil {
			return err
		}
	}
	if !many || e.tries.kind == kernel.Laplace || e.tries.x.Cols > laplaceColumns {
		return nil
	}
	return e.probeKind(kernel.Laplace)
}

// probes reports whether a quick fit tries a kernel in a probe, on more rows than others: it need not be tried before.
func (e *exactSearch) probes(kind kernel.Kind) bool {
	n := len(e.order)
	return e.c.thin() && e.open && e.c.f.o.Lambda == 0 && e.tries.parts == nil &&
		(kind == kernel.Matern12 && n >= secondRows*3/4 || kind == kernel.Laplace && n >= 2*secondRows)
}

// thin reports whether a quick fit leaves out trials, because the table has too few rows to gain by them. Without them,
// three fits of 10,000 rows of nursery lost 0.2 to 2.5 points, and six of chess, campaign and a generated table 0.2.
func (c *chooser) thin() bool { return c.f.o.Quick && c.rows < thinRows }

const thinRows = 6000

// probeKind tries another kernel at two bandwidths, and the better of these with the λ of the search; quick fits of
// many rows try both with it. It takes the kernel if it is better than the best trial on the present rows by more than
// a standard error.
func (e *exactSearch) probeKind(kind kernel.Kind) error {
	was, all, i := e.tries.kind, e.all, best(e.all)
	if i < 0 {
		return nil
	}
	old := all[i]
	e.all = nil
	err := e.tries.take(kind)
	if err == nil {
		median := medianDistance(&sample{x: e.tries.x}, kind, e.c.f.o.Seed)
		penalties := []float64{probePenalty}
		if e.c.f.o.Quick && !e.c.thin() {
			penalties = append(penalties, e.at.lambda)
		}
		err = e.try(product([]float64{median / 3, median}, penalties))
		if k := best(e.all); err == nil && k >= 0 && len(penalties) == 1 {
			err = e.try([]exactPoint{{e.all[k].spec.Kernel.Scale, e.at.lambda}})
		}
	}
	if err != nil {
		return err
	}
	if k := best(e.all); k >= 0 && probed(old, e.all[k]) {
		top := e.all[k]
		e.at, e.told = exactPoint{top.spec.Kernel.Scale, top.lambda}, e.tries.x.Rows
		e.kinds = append(e.kinds, e.c.f.shown(top, float64(len(e.kinds)), kind.String()))
		return nil
	}
	e.all = all
	return e.tries.take(was)
}

// probed reports whether t is better than old by more than a standard error.
func probed(old, t trial) bool {
	diff, se := gain(old.compared(), t.compared())
	return diff > se || fewerErrors(old, t, 1)
}

// probePenalty is one of the penalties of a probe.
const probePenalty = 0.1

// fewer returns half of rows if Options.Quick is set, and rows otherwise.
func (j *job) fewer(rows int) int {
	if j.o.Quick {
		return rows / 2
	}
	return rows
}

// metricFewer is fewer for a metric of a table of n rows. From duelRows rows on it does not halve: a metric of half as
// many rows missed the best one of a table of 6,000 rows, which then had 58.9 % correct instead of 61.2 %.
func (j *job) metricFewer(rows, n int) int {
	if n >= duelRows {
		return rows
	}
	return j.fewer(rows)
}

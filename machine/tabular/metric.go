package tabular

import (
	"cmp"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/kernel/metric"
)

const (
	// metricRows are the rows that kinds of metrics compete on, half of them to learn from and half to judge;
	// metricMost are those that the metric taken is learned from, and confirmed on.
	metricRows = 1024
	metricMost = 2048
	// metricSteps bounds the rounds of fit and metric: more overfit.
	metricSteps = 3
	// metricColumns is the number of columns up to which a metric is learned, fullColumns that up to which it may turn
	// directions: its eigenvectors take a time of d³.
	metricColumns = 512
	fullColumns   = 128
	// pointProducts bounds the multiply-adds of the gradients of one round, by fewer points to take them at;
	// signProducts those of the Laplace kernel, which are no products.
	pointProducts = 1 << 28
	signProducts  = 1 << 24
	leastPoints   = 128
)

// learned is a metric that was chosen.
type learned struct {
	kernel kernel.Kind
	kind   metric.Kind
	steps  int
	m      dense.Matrix[float64] // d×d
	at     exactPoint
	rows   int                     // that it was learned from
	halves []dense.Matrix[float64] // metrics of two halves of such rows
}

// round is one fit of a chain: the settings that a kernel with the metric so far is best with, and the metric that its
// gradients give.
type round struct {
	factor, lambda float64 // bandwidth in median distances
}

// chain is a kernel with a metric learned in rounds: m is that of the rounds so far, empty without one.
type chain struct {
	kernel kernel.Kind
	kind   metric.Kind
	rounds []round // the settings of every fit; the last is that with m
	m      dense.Matrix[float64]
	loss   []float64 // of the rows that judge, which nothing here has seen
}

func (c *chain) mean() float64 { return mean(c.loss) }

// last are the settings of the latest fit.
func (c *chain) last() round { return c.rounds[len(c.rounds)-1] }

// metricSearch learns metrics on one half of some rows and judges them on the other: the labels of rows that a metric
// was learned from are in it, and rows left out of the fit alone would make it look 2 points too good.
type metricSearch struct {
	c       *chooser
	quick   quick
	x, t    dense.Matrix[float32]
	classes []int
	full    bool
}

// newMetricSearch takes rows of the sample.
func (c *chooser) newMetricSearch(rows []int) *metricSearch {
	x, y, t := c.s.picked(rows)
	s := &metricSearch{c: c, x: dense.Convert[float32](x), t: dense.Convert[float32](t), full: x.Cols <= fullColumns}
	if c.f.classes() {
		s.classes = make([]int, len(rows))
		for i := range s.classes {
			s.classes[i] = int(y.At(i, 0))
		}
	}
	return s
}

// half is one of the two sets of rows.
type half struct{ lo, hi int }

// take gives rows in the coordinates of a metric to the fits.
func (s *metricSearch) take(kind kernel.Kind, m dense.Matrix[float64], h half) float64 {
	x := s.x.RowRange(h.lo, h.hi)
	u := x
	if !m.IsEmpty() {
		u = dense.New[float32](x.Rows, m.Rows)
		metric.Apply(u, x, dense.Convert[float32](m))
	}
	var classes []int
	if s.classes != nil {
		classes = s.classes[h.lo:h.hi]
	}
	s.quick.setRows(kind, u, s.t.RowRange(h.lo, h.hi), classes)
	return s.quick.median(s.c.f.o.Seed)
}

// fit is the best of some settings on the rows taken, by half of the rows, each left out.
func (s *metricSearch) fit(median float64, rounds []round) (quickFit, round, error) {
	if err := s.c.f.ctx.Err(); err != nil {
		return quickFit{}, round{}, err
	}
	fits, err := s.quick.try(s.points(median, rounds), s.quick.u.Rows/2)
	if err != nil {
		return quickFit{}, round{}, err
	}
	if len(fits) == 0 {
		return quickFit{}, round{}, linalg.ErrNotPositive
	}
	top := slices.MinFunc(fits, func(a, b quickFit) int { return cmp.Compare(a.mean, b.mean) })
	return top, round{top.at.scale / median, top.at.lambda}, nil
}

// points are settings in units of the columns, with penalties that float32 can tell.
func (s *metricSearch) points(median float64, rounds []round) []exactPoint {
	var out []exactPoint
	for _, r := range rounds {
		p := exactPoint{r.factor * median, max(r.lambda, quickLeast(s.quick.u.Rows))}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// around are settings with penalties beside.
func (r round) around() []round {
	return []round{r, {r.factor, r.lambda * math.Sqrt(0.1)}, {r.factor, r.lambda * math.Sqrt(10)}}
}

// judge sets the losses of a chain on a half that it was not learned from, each row predicted by the others. Both
// halves have as many rows, so that its settings suit both.
func (s *metricSearch) judge(ch *chain, h half) error {
	median := s.take(ch.kernel, ch.m, h)
	fits, err := s.quick.try(s.points(median, []round{ch.last()}), 0)
	if err != nil {
		return err
	}
	if len(fits) == 0 {
		return linalg.ErrNotPositive
	}
	ch.loss = fits[0].loss
	return nil
}

// gradients is the average outer product of the gradients of a fit to the rows of a half.
func (s *metricSearch) gradients(ch *chain, fit quickFit, h half, full bool) (dense.Matrix[float64], error) {
	x := s.x.RowRange(h.lo, h.hi)
	n, d := x.Rows, x.Cols
	points := pointProducts / (n * d * s.t.Cols)
	if ch.kernel == kernel.Laplace {
		points = min(points, signProducts/(n*d))
	}
	k := kernel.Kernel{Kind: ch.kernel, Scale: fit.at.scale, M: ch.m}
	return metric.AGOP(k, x, fit.alpha, x.RowRange(0, min(n, max(points, leastPoints))), full)
}

// run is a chain of given settings on a half, from the beginning.
func (s *metricSearch) run(of *chain, h half) (*chain, error) {
	ch := &chain{kernel: of.kernel, kind: of.kind, rounds: of.rounds}
	for i := range len(of.rounds) - 1 {
		median := s.take(ch.kernel, ch.m, h)
		fit, _, err := s.fit(median, of.rounds[i:i+1])
		if err != nil {
			return nil, err
		}
		g, err := s.gradients(ch, fit, h, ch.kind.Full())
		if err != nil {
			return nil, err
		}
		if ch.m, err = metric.Matrix(ch.kind, g); err != nil {
			return nil, err
		}
	}
	return ch, nil
}

// kernelKind is the kernel of the metric, or that which was asked for, or the Gaussian one.
func (f *search) kernelKind() kernel.Kind {
	if f.learned != nil {
		return f.learned.kernel
	}
	return f.o.kernelKind()
}

// kernelOpen reports whether other kernels may be tried: a metric was learned with one.
func (f *search) kernelOpen() bool { return f.learned == nil && f.job.kernelOpen() }

// inMetric is x·mᵀ, or x without a metric.
func inMetric(m, x dense.Matrix[float64]) dense.Matrix[float64] {
	if m.IsEmpty() {
		return x
	}
	out := dense.New[float64](x.Rows, m.Rows)
	metric.Apply(out, x, m)
	return out
}

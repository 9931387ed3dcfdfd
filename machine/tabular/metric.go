package tabular

import (
	"cmp"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine/internal/metric"
)

const (
	// metricRows is the number of rows on which kinds of metrics compete: half to learn from, half to judge.
	// metricMost is the number of rows on which the winner is learned again and confirmed.
	metricRows = 1024
	metricMost = 2048
	// metricSteps bounds the rounds of fit and metric: more rounds overfit.
	metricSteps = 3
	// metricColumns is the number of columns up to which a metric is learned. Up to fullColumns it may be a full
	// matrix, whose eigenvectors take d³ operations.
	metricColumns = 512
	fullColumns   = 128
	// pointProducts bounds the multiply-adds of the gradients of one round: they are taken at fewer points if
	// necessary. signProducts is the bound for the Laplace kernel, whose gradients are not matrix products.
	pointProducts = 1 << 28
	signProducts  = 1 << 24
	leastPoints   = 128
)

// learned is the metric that was chosen.
type learned struct {
	kernel kernel.Kind
	kind   metric.Kind
	steps  int
	m      dense.Matrix[float64] // d×d
	at     exactPoint
	rows   int                     // rows that it was learned from
	halves []dense.Matrix[float64] // metrics learned from two halves of the rows
}

// round is one fit of a chain: the best settings of the kernel with the metric so far. The gradients of this fit
// give the next metric.
type round struct {
	factor, lambda float64 // bandwidth in median distances
}

// chain is a kernel with a metric that is learned in rounds. m is the metric after the rounds so far, empty at the
// start.
type chain struct {
	kernel kernel.Kind
	kind   metric.Kind
	rounds []round // settings of every fit; the last belong to m
	m      dense.Matrix[float64]
	loss   []float64 // of the judging rows, which the chain has not seen
}

func (c *chain) mean() float64 { return mean(c.loss) }

// last returns the settings of the latest fit.
func (c *chain) last() round { return c.rounds[len(c.rounds)-1] }

// metricSearch learns metrics on one half of some rows and judges them on the other half. A metric contains the
// labels of the rows that it was learned from; leaving rows out of the fit only would make it look 2 points too
// good.
type metricSearch struct {
	c       *chooser
	quick   quick
	x, t    dense.Matrix[float32]
	classes []int
	full    bool
}

// newMetricSearch copies the given rows of the sample.
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

// half is the range of rows of one half.
type half struct{ lo, hi int }

// take transforms the rows of a half by a metric and makes them the rows of the next fits. It returns their median
// distance.
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

// fit returns the best of some settings, judged by half of the rows, each left out.
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

// points converts settings to units of the columns, with penalties large enough for float32.
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

// around returns the settings, and the same with a λ half a decade below and above.
func (r round) around() []round {
	return []round{r, {r.factor, r.lambda * math.Sqrt(0.1)}, {r.factor, r.lambda * math.Sqrt(10)}}
}

// judge sets the losses of a chain on a half that it was not learned from, each row predicted by the others. Both
// halves have the same number of rows, so the settings suit both.
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

// gradients returns the average outer product of the gradients of a fit to the rows of a half.
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

// run repeats a chain on a half from its start, with the settings of of.
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

// kernelKind returns the kernel of the learned metric, else the one that the caller set, else the Gaussian.
func (f *search) kernelKind() kernel.Kind {
	if f.learned != nil {
		return f.learned.kernel
	}
	return f.o.kernelKind()
}

// kernelOpen reports whether other kernels may be tried. They may not if a metric was learned, because it belongs to
// its kernel.
func (f *search) kernelOpen() bool { return f.learned == nil && f.job.kernelOpen() }

// inMetric returns x·mᵀ, or x if there is no metric.
func inMetric(m, x dense.Matrix[float64]) dense.Matrix[float64] {
	if m.IsEmpty() {
		return x
	}
	out := dense.New[float64](x.Rows, m.Rows)
	metric.Apply(out, x, m)
	return out
}

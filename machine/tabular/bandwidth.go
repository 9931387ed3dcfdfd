package tabular

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/kernel"
)

// The grid of bandwidths is the median distance times 2^lo … 2^hi, in steps of a power of two. If an end of the
// grid is best, it grows by up to extraOctaves steps. It reaches further down than up: at s = 4 medians the
// kernel of the median pair is already 0.97, and wider kernels hardly differ on the data.
const (
	octavesLo    = -3
	octavesHi    = 2
	extraOctaves = 3
	// extraPenalties is how far a search of λ may leave its grid, in half decades.
	extraPenalties = 4
)

// Decades of penalties that are tried. Features have norm about 1 and targets variance 1, so λ is the ratio of noise
// variance to signal variance: from almost no noise to ten times more noise than signal. aroundPenalty may go beyond.
const (
	decadesLo = -5
	decadesHi = 1
)

// bandwidths returns the first grid, or the bandwidth that the caller set.
func (c *chooser) bandwidths() []float64 {
	if c.f.o.Bandwidth > 0 {
		return []float64{c.f.o.Bandwidth}
	}
	var g []float64
	for k := octavesLo; k <= octavesHi; k++ {
		g = append(g, math.Ldexp(c.median, k))
	}
	return g
}

// chooseBandwidth searches s and λ together: a coarse grid with few features, then finer steps around the best with
// more. Trials with different numbers of features are not comparable, so the fine search starts by trying the best s
// again. Within a search the score decides (the evidence of a Gaussian process). Out-of-fold losses decide whether to
// continue, because they have a standard error.
func (c *chooser) chooseBandwidth() error {
	ch := Choice{Name: "bandwidth", Given: c.f.o.Bandwidth > 0, Why: "as asked"}
	if ch.Given && c.fixedPenalty() { // there is nothing to try
		s := c.f.o.Bandwidth
		c.spec.Kernel, c.lambda = kernel.Kernel{Kind: c.spec.Kernel.Kind, Scale: s}, c.f.o.Lambda
		ch.Number, ch.Value = s, short(s)
		c.chosen(ch)
		return nil
	}
	features := c.searchFeatures()
	coarse := features
	if !ch.Given && !c.unpenalised() {
		coarse = min(features, coarseFeatures)
	}
	var all []trial
	wide := c.grid(1, decadesLo, decadesHi, 1)
	run := func(s float64) error {
		ts, err := c.trial(c.spec, s, coarse, wide)
		if err != nil {
			return err
		}
		all = append(all, ts...)
		if i := best(ts); i >= 0 {
			ch.Trials = append(ch.Trials, c.f.shown(ts[i], s, fmt.Sprintf("%d features", coarse)))
		}
		return nil
	}
	for _, s := range c.bandwidths() {
		if err := run(s); err != nil {
			return err
		}
	}
	if best(all) < 0 {
		return fmt.Errorf("bandwidth: %w", errNothing)
	}
	at := all[best(all)]
	if !ch.Given {
		// The end of the grid need not be the best.
		for range extraOctaves {
			s := at.spec.Kernel.Scale
			lo, hi := extremes(ch.Trials)
			next := 0.0
			switch s {
			case lo:
				next = s / 2
			case hi:
				next = s * 2
			}
			if next == 0 {
				break
			}
			if err := run(next); err != nil {
				return err
			}
			after := all[best(all)]
			if diff, se := gain(at.loss, after.loss); diff <= se {
				break
			}
			at = after
		}
		if coarse < c.finalLimit() {
			at = narrowest(all, at)
		}
		// Finer steps.
		s, lambda := at.spec.Kernel.Scale, at.lambda
		from := len(all)
		for _, f := range []float64{1, math.Sqrt2 / 2, math.Sqrt2} {
			ts, err := c.aroundPenalty(s*f, features, c.grid(lambda, -1, 1, 2))
			if err != nil {
				return err
			}
			all = append(all, ts...)
			if i := best(ts); i >= 0 {
				lambda = ts[i].lambda
				ch.Trials = append(ch.Trials, c.f.shown(ts[i], s*f, fmt.Sprintf("%d features", features)))
			}
		}
		if i := best(all[from:]); i >= 0 {
			at = all[from+i]
		}
		ch.Why = fmt.Sprintf("best %s with %d features around the median distance %s", c.f.metric(), features,
			short(c.median))
	}
	s := at.spec.Kernel.Scale
	c.lambda = at.lambda
	spec, err := c.at(s, features)
	if err != nil {
		return err
	}
	c.spec.Kernel = spec.Kernel
	ch.Number, ch.Value = s, short(s)
	ch.Trials = distinct(ch.Trials)
	c.chosen(ch)
	return nil
}

// aroundPenalty tries penalties at one bandwidth. If an end of the list is best, it continues beyond it by half
// decades. A single penalty is not continued: it would be both ends.
func (c *chooser) aroundPenalty(s float64, features int, lambdas []float64) ([]trial, error) {
	ts, err := c.trial(c.spec, s, features, lambdas)
	for range extraPenalties {
		i := best(ts)
		if err != nil || i < 0 || len(lambdas) < 2 {
			break
		}
		lo, hi := lambdas[0], lambdas[0]
		for _, t := range ts {
			lo, hi = min(lo, t.lambda), max(hi, t.lambda)
		}
		next := lo / math.Sqrt(10)
		switch ts[i].lambda {
		case lo:
		case hi:
			next = hi * math.Sqrt(10)
		default:
			return ts, nil
		}
		var more []trial
		more, err = c.trial(c.spec, s, features, []float64{next})
		if len(more) == 0 { // too small to be used
			break
		}
		ts = append(ts, more...)
	}
	return ts, err
}

// narrowest returns the trial with the smallest bandwidth whose loss is within a standard error of trial at. A search
// with few features prefers wide kernels, which need fewer features. So narrowest is used only if the model may get
// more features than the search had.
func narrowest(ts []trial, at trial) trial {
	if at.loss == nil {
		return at
	}
	var list []trial
	least := at.spec.Kernel.Scale
	for _, t := range ts {
		if diff, se := gain(t.loss, at.loss); diff <= se && t.spec.Kernel.Scale <= least {
			list = append(list, t)
			least = t.spec.Kernel.Scale
		}
	}
	list = slices.DeleteFunc(list, func(t trial) bool { return t.spec.Kernel.Scale > least })
	if i := best(list); i >= 0 {
		return list[i]
	}
	return at
}

func extremes(ts []Trial) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, t := range ts {
		lo, hi = min(lo, t.Value), max(hi, t.Value)
	}
	return lo, hi
}

// distinct keeps the best trial of every value, sorted by value.
func distinct(ts []Trial) []Trial {
	slices.SortStableFunc(ts, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(b.Score, a.Score))
	})
	return slices.CompactFunc(ts, func(a, b Trial) bool { return a.Value == b.Value })
}

package tabular

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/internal/metric"
)

// hopeful is the number of standard errors by which a metric must win the race to be searched further. For random
// features, nothing judges it again.
const hopeful = 1

func (j *job) classes() bool { return j.task == machine.Classification }

// metricKernels returns the kernels that metrics are tried with.
func (f *search) metricKernels(d int) []kernel.Kind {
	switch g := f.guide; {
	case f.o.Kernel != "":
		return []kernel.Kind{f.o.kernelKind()}
	case g != nil && g.Metric != nil:
		return []kernel.Kind{g.Metric.Kernel}
	}
	out := []kernel.Kind{kernel.Gaussian, kernel.Matern12}
	if d <= laplaceColumns {
		out = append(out, kernel.Laplace)
	}
	return out
}

// firstRounds returns the settings at which a kernel is tried before there is a metric. They lie near the setting of
// the Gaussian kernel that the choice of the scaling found, or on a grid if there is none.
func (f *search) firstRounds(kind kernel.Kind, median float64) []round {
	var out []round
	at := round{f.start.scale / median, f.start.lambda}
	factors, lambdas := []float64{1, 2, 4}, []float64{1, 0.3}
	switch {
	case f.start == exactPoint{}:
		at = round{1, 1}
		factors, lambdas = []float64{0.25, 0.5, 1, 2}, []float64{0.001, 0.01, 0.1, 1}
	case kind == kernel.Gaussian:
		factors, lambdas = []float64{0.5, 1}, []float64{1, 0.3}
	}
	for _, a := range factors {
		for _, l := range lambdas {
			out = append(out, round{a * at.factor, l * at.lambda})
		}
	}
	return out
}

// race searches for a metric on some rows, whose columns are already scaled. incumbent is the best setting without a
// metric. Chains learn from one half of the rows and are judged on the other. race returns the best chain if it is
// better there than all kernels without a metric, or if the caller asked for a metric; otherwise nil.
func (c *chooser) race(order []int, incumbent *exactSetting, asked bool) (*chain, error) {
	n := min(len(order), c.f.metricFewer(metricRows, len(order)))
	s := c.newMetricSearch(order[:n])
	a, b := half{0, n / 2}, half{n / 2, n}
	plain, err := s.plain(a, incumbent)
	if err != nil {
		return nil, err
	}
	for _, ch := range plain {
		if err := s.judge(ch, b); err != nil {
			return nil, err
		}
	}
	now := slices.MinFunc(plain, byMean)
	var list []growth
	for _, ch := range plain {
		first, err := s.begin(ch, a, b)
		if err != nil {
			return nil, err
		}
		list = append(list, first...)
	}
	slices.SortStableFunc(list, func(g, h growth) int { return byMean(g.chain, h.chain) })
	var top *chain
	for i, g := range list {
		last, err := g.chain, error(nil)
		if i < grown && g.mean() <= mostLoss*now.mean() {
			if last, err = s.grow(g, a, b); err != nil {
				return nil, err
			}
		}
		if top == nil || last.mean() < top.mean() {
			top = last
		}
	}
	if top == nil || asked {
		return top, nil
	}
	if top.mean() >= now.mean() {
		return nil, nil
	}
	// Exchange the halves for the two that are left.
	back, err := s.run(top, b)
	if err != nil {
		return nil, err
	}
	same := &chain{kernel: now.kernel, rounds: now.rounds}
	for _, ch := range []*chain{back, same} {
		if err := s.judge(ch, a); err != nil {
			return nil, err
		}
	}
	diff, se := gain(slices.Concat(now.loss, same.loss), slices.Concat(top.loss, back.loss))
	if diff <= hopeful*se {
		return nil, nil
	}
	return top, nil
}

func byMean(a, b *chain) int { return cmp.Compare(a.mean(), b.mean()) }

// plain fits the kernels without a metric on a half, each at its best setting, and returns the two best.
func (s *metricSearch) plain(h half, incumbent *exactSetting) ([]*chain, error) {
	type tried struct {
		ch   *chain
		loss float64
	}
	var all []tried
	for _, kind := range s.c.f.metricKernels(s.x.Cols) {
		median := s.take(kind, dense.Matrix[float64]{}, h)
		gauss := median
		if kind == kernel.Laplace && s.c.f.start != (exactPoint{}) { // settings are those of distances
			gauss = medianDistance(&sample{x: dense.Convert[float64](s.quick.u)}, kernel.Gaussian, s.c.f.o.Seed)
		}
		first := s.c.f.firstRounds(kind, gauss)
		if incumbent != nil && incumbent.kind == kind {
			first = append(first, round{incumbent.at.scale / median, incumbent.at.lambda})
		}
		fit, at, err := s.fit(median, first)
		if errors.Is(err, linalg.ErrNotPositive) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, tried{&chain{kernel: kind, rounds: []round{at}}, fit.mean})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("metric: %w", errNothing)
	}
	slices.SortStableFunc(all, func(a, b tried) int { return cmp.Compare(a.loss, b.loss) })
	var out []*chain
	for _, t := range all[:min(2, len(all))] {
		out = append(out, t.ch)
	}
	return out, nil
}

// growth is a chain with the fit that its next round begins with.
type growth struct {
	*chain
	fit quickFit
}

const (
	// grown is the number of chains that get more than one round: the best after the first.
	grown = 4
	// mostLoss bounds the loss after a round, relative to the loss before. Metrics that lose more are given up.
	mostLoss = 1.1
)

// begin returns chains of one round, one for every kind of metric, learned on half a and judged on half b.
func (s *metricSearch) begin(from *chain, a, b half) ([]growth, error) {
	median := s.take(from.kernel, dense.Matrix[float64]{}, a)
	fit, _, err := s.fit(median, from.rounds)
	if err != nil {
		return nil, err
	}
	g, err := s.gradients(from, fit, a, s.full)
	if errors.Is(err, dense.ErrNotFinite) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []growth
	for _, kind := range metric.Kinds() {
		if g := s.c.f.guide; kind.Full() && !s.full || g != nil && g.Metric != nil && kind != g.Metric.Kind {
			continue
		}
		at := from.last()
		next, err := s.round(&chain{kernel: from.kernel, kind: kind, rounds: from.rounds}, g,
			append(at.around(), round{at.factor / 2, at.lambda}, round{at.factor * 2, at.lambda}), a, b)
		if err != nil {
			return nil, err
		}
		if next.chain != nil {
			out = append(out, next)
		}
	}
	return out, nil
}

// grow adds rounds to a chain as long as they improve it.
func (s *metricSearch) grow(from growth, a, b half) (*chain, error) {
	for len(from.rounds) <= metricSteps {
		g, err := s.gradients(from.chain, from.fit, a, from.kind.Full())
		if err != nil {
			return nil, err
		}
		next, err := s.round(from.chain, g, from.last().around(), a, b)
		if err != nil {
			return nil, err
		}
		if next.chain == nil || next.mean() >= from.mean() {
			break
		}
		from = next
	}
	return from.chain, nil
}

// round adds a round to a chain: the metric of its gradients, and the best of some settings with it. It returns no
// chain if the gradients are zero, or no setting can be used.
func (s *metricSearch) round(of *chain, g dense.Matrix[float64], try []round, a, b half) (growth, error) {
	next := *of
	var err error
	if next.m, err = metric.Matrix(of.kind, g); err != nil {
		return growth{}, nil // a constant function
	}
	fit, at, err := s.fit(s.take(next.kernel, next.m, a), try)
	if errors.Is(err, linalg.ErrNotPositive) {
		return growth{}, nil
	}
	if err != nil {
		return growth{}, err
	}
	next.rounds = append(slices.Clone(of.rounds), at)
	return growth{&next, fit}, s.judge(&next, b)
}

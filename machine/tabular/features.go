package tabular

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/machine"
)

// chooseFeatures doubles the number of features until the gain stops, twice in a row while there are few. It then takes
// the smallest number whose loss is within a standard error of the best. This is the "1 SE rule" of Breiman et al. 1984
// (Classification and Regression Trees, §3.4.3), with the paired difference in place of the error: losses of maps on
// the same rows are correlated. A single flat step may be chance while maps are small and noisy. The smallest number is
// preferred because every later prediction costs F.
func (c *chooser) chooseFeatures() error {
	ch := Choice{Name: "features", Given: c.f.o.Features > 0, Why: "as asked"}
	s := c.spec.Kernel.Scale
	if ch.Given {
		spec, err := c.at(s, c.f.o.Features)
		if err != nil {
			return err
		}
		return c.setFeatures(ch, spec)
	}
	var curve []trial
	flat, moving := 0, true
	for f := min(firstFeatures, c.limit()); f <= c.limit() && flat < 2; f *= 2 {
		var before []float64
		if n := len(curve); n > 0 && !moving {
			before = curve[n-1].loss
		}
		ts, err := c.ladder(s, f, before)
		if err != nil {
			return err
		}
		i := best(ts)
		if i < 0 {
			continue
		}
		if n := len(curve); n > 0 {
			if diff, se := gain(curve[n-1].loss, ts[i].loss); diff >= se {
				flat = 0
			} else if flat++; f > trialFeatures {
				flat = 2 // the next step would cost eight times as much
			}
		}
		curve = append(curve, ts[i])
		ch.Trials = append(ch.Trials, c.f.shown(ts[i], float64(f), ""))
		if f > trialFeatures {
			next := ts[i].spec.Kernel.Scale
			s, moving = next, next != s
		}
	}
	if len(curve) == 0 {
		return fmt.Errorf("features: %w", errNothing)
	}
	top := 0
	for i, t := range curve {
		if mean(t.loss) < mean(curve[top].loss) {
			top = i
		}
	}
	at := top
	for i := top; i >= 0; i-- {
		if diff, se := gain(curve[i].loss, curve[top].loss); diff <= se {
			at = i
		}
	}
	c.lambda = curve[at].lambda
	f := int(ch.Trials[at].Value)
	switch {
	case f*2 > c.limit() && c.limit() == c.f.o.Budget:
		ch.Why = fmt.Sprintf("more still helped, the budget is %d", c.f.o.Budget)
		if at < top || flat > 0 {
			ch.Why = "the learning curve flattens"
		}
	case at < top:
		ch.Why = fmt.Sprintf("as good as %d within a standard error", int(ch.Trials[top].Value))
	default:
		ch.Why = "the best of the learning curve"
	}
	if err := c.setFeatures(ch, curve[at].spec); err != nil {
		return err
	}
	c.moveBandwidth(curve[at].spec.Kernel.Scale)
	return nil
}

// ladder tries f features near bandwidth s. Features have norm 1 at any number, so a good λ stays good; up to
// trialFeatures, where factorisations are cheap, it may move. More features allow narrower kernels. Those are tried
// only if more features improve on the losses before at s.
func (c *chooser) ladder(s float64, f int, before []float64) ([]trial, error) {
	if f <= trialFeatures {
		return c.trial(c.spec, s, f, c.grid(c.lambda, -0.5, 0.5, 2))
	}
	same := c.grid(c.lambda, 0, 0, 1)
	all, err := c.trial(c.spec, s, f, same)
	if err != nil || c.find("bandwidth").Given {
		return all, err
	}
	if i := best(all); i >= 0 && before != nil {
		if diff, se := gain(before, all[i].loss); diff < se {
			return all, nil
		}
	}
	for range narrower {
		s *= math.Sqrt2 / 2
		ts, err := c.trial(c.spec, s, f, same)
		if err != nil {
			return nil, err
		}
		all = append(all, ts...)
		if i := best(all); i >= 0 && all[i].spec.Kernel.Scale != s {
			break
		}
	}
	return all, nil
}

// narrower is the largest number of steps of √2 that the bandwidth may move when the number of features doubles. It
// bounds the cost: every step is a map and K factorisations. The search ends at the first step that does not help.
const narrower = 3

func (c *chooser) moveBandwidth(s float64) {
	ch := c.find("bandwidth")
	if s == ch.Number {
		return
	}
	ch.Why += fmt.Sprintf("; moved from %s with %d features", short(ch.Number), int(c.find("features").Number))
	ch.Number, ch.Value = s, short(s)
	c.spec.Kernel.Scale = s
}

func (c *chooser) setFeatures(ch Choice, spec randfeat.Spec) error {
	n, err := spec.OutDim()
	if err != nil {
		return err
	}
	if n > maxFeatures {
		return fmt.Errorf("family %s makes %d features, the limit is %d", spec.Family.Name(), n, maxFeatures)
	}
	ch.Number, ch.Value = float64(n), fmt.Sprint(n)
	if want := c.f.o.Features; ch.Given && n != want {
		ch.Why = fmt.Sprintf("nearest to the %d asked for that family %s can make", want, spec.Family.Name())
	}
	c.spec.M = spec.M
	c.chosen(ch)
	return nil
}

// moreFeatures doubles the number of features of a model with variances until the variances are reliable. A learning
// curve of errors stops when predictions are good, at a fraction of the features that variances need. The doubling
// stops when the saturation is below half of machine.Saturated: there, measured variances were at least 0.7 of the
// exact ones, and a factor of two remains for the rows outside the sample.
func (c *chooser) moreFeatures() error {
	ch := c.find("features")
	r, ok := c.try.(*ridgeTries)
	if !ok || !c.f.info.Bayesian || ch.Given {
		return nil
	}
	from := int(ch.Number)
	for f := from; ; f *= 2 {
		spec, err := c.at(c.spec.Kernel.Scale, f)
		if err != nil {
			return err
		}
		used, err := r.saturation(spec, c.lambda)
		if err != nil {
			return err
		}
		c.counted()
		enough := !(used > machine.Saturated/2)
		if !enough && 2*f <= c.f.o.Budget {
			continue
		}
		if f == from {
			return nil
		}
		n, err := spec.OutDim()
		if err != nil {
			return err
		}
		c.spec.M = spec.M
		ch.Number, ch.Value = float64(n), fmt.Sprint(n)
		ch.Why = fmt.Sprintf("%d are enough for predictions; more, so that %.2f of them are used up and variances can be "+
			"believed", from, used)
		if !enough {
			ch.Why = fmt.Sprintf("%d are enough for predictions; variances need more than the budget", from)
		}
		return nil
	}
}

// refit moves the bandwidth once more if the model has a different number of features than the search had and the
// learning curve did not move it: ladder moves it only beyond trialFeatures, and not for a number set by the caller.
// It takes at most four steps of √2 in one direction, assuming that the loss has one minimum in s. It leaves the
// trials of the penalties at the final map: fewer if a factorisation takes long, and a single one if λ is settled
// later.
func (c *chooser) refit() error {
	features := int(c.find("features").Number)
	ch := c.find("bandwidth")
	s := c.spec.Kernel.Scale
	if !ch.Given && features != c.searchFeatures() && (features < c.searchFeatures() || c.find("features").Given) {
		same := c.grid(c.lambda, 0, 0, 1)
		all, err := c.trial(c.spec, s, features, same)
		if err != nil {
			return err
		}
		// Try narrower kernels while that helps, else wider ones.
		for step, tried := math.Sqrt2/2, 0; tried < 4; tried++ {
			ts, err := c.trial(c.spec, s*step, features, same)
			if err != nil {
				return err
			}
			all = append(all, ts...)
			i := best(all)
			if i < 0 {
				break
			}
			if got := all[i].spec.Kernel.Scale; got != s {
				s = got
				continue
			}
			if tried > 0 {
				break
			}
			step = math.Sqrt2
		}
		c.moveBandwidth(s)
	}
	if c.fixedPenalty() {
		spec, err := c.at(s, features)
		c.spec = spec
		return err
	}
	around := c.grid(c.lambda, -0.5, 0.5, 2)
	switch {
	case features <= trialFeatures:
		around = c.grid(c.lambda, -1, 1, 2)
	case c.open() || !c.f.info.Summed():
		around = c.grid(c.lambda, 0, 0, 1)
	}
	ts, err := c.aroundPenalty(s, features, around)
	if err != nil {
		return err
	}
	i := best(ts)
	if i < 0 {
		return fmt.Errorf("penalty: %w", errNothing)
	}
	c.spec, c.lambda, c.last = ts[i].spec, ts[i].lambda, ts
	return nil
}

package auto

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
)

// chooseFeatures doubles the number of features until that no longer pays, twice in a row, and takes the smallest number
// that is as good as the best within a standard error of the paired difference.
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
	flat := 0
	for f := min(firstFeatures, c.limit()); f <= c.limit() && flat < 2; f *= 2 {
		// Features have norm 1 whatever their number, so a good λ stays one; where factorisations are cheap it may move.
		lambdas := c.grid(c.lambda, 0, 0, 1)
		if f <= trialFeatures {
			lambdas = c.grid(c.lambda, -0.5, 0.5, 2)
		}
		ts, err := c.trial(c.spec, s, f, lambdas)
		if err != nil {
			return err
		}
		i := best(ts)
		if i < 0 {
			continue
		}
		if n := len(curve); n > 0 {
			if diff, se := gain(curve[n-1].loss, ts[i].loss); diff < se {
				flat++
			} else {
				flat = 0
			}
		}
		curve = append(curve, ts[i])
		ch.Trials = append(ch.Trials, c.f.shown(ts[i], float64(f), ""))
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
	return c.setFeatures(ch, curve[at].spec)
}

func (c *chooser) setFeatures(ch Choice, spec randfeat.Spec) error {
	m, err := randfeat.New[float64](spec)
	if err != nil {
		return err
	}
	if m.OutDim() > maxFeatures {
		return fmt.Errorf("family %s makes %d features, the limit is %d", spec.Family.Name(), m.OutDim(), maxFeatures)
	}
	ch.Number, ch.Value = float64(m.OutDim()), fmt.Sprint(m.OutDim())
	c.spec.M = spec.M
	c.chosen(ch)
	return nil
}

// refit moves the bandwidth once more where the model has more or fewer features than the search had: more of them make
// room for a narrower kernel. It leaves the trials of the penalties at the final map.
func (c *chooser) refit() error {
	features := int(c.find("features").Number)
	ch := c.find("bandwidth")
	s := c.spec.Kernel.Scale
	var all []trial
	run := func(s float64, lambdas []float64) error {
		ts, err := c.trial(c.spec, s, features, lambdas)
		all = append(all, ts...)
		return err
	}
	if !ch.Given && features != c.searchFeatures() {
		same := c.grid(c.lambda, 0, 0, 1)
		if err := run(s, same); err != nil {
			return err
		}
		// Towards narrower kernels while that helps, else the other way.
		for step, tried := math.Sqrt2/2, 0; tried < 4; tried++ {
			if err := run(s*step, same); err != nil {
				return err
			}
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
		if s != ch.Number {
			ch.Why += fmt.Sprintf("; moved from %s with %d features", short(ch.Number), features)
			ch.Number, ch.Value = s, short(s)
		}
	}
	around := c.grid(c.lambda, -0.5, 0.5, 2)
	if features <= trialFeatures {
		around = c.grid(c.lambda, -1, 1, 2)
	}
	ts, err := c.trial(c.spec, s, features, around)
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

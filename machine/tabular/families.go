package tabular

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

const (
	// maxBlocks is the dimension up to which projections are drawn in blocks of d. A block takes d³ operations, in
	// every trial. Cosines of independent directions are of order d^(−1/2), so in higher dimensions blocks gain
	// little.
	maxBlocks = 1024
	// maxCovariance is the dimension up to which families with covariances are tried. Fitting one takes d³
	// operations and estimates d(d+1)/2 parameters from the sample.
	maxCovariance = 256
)

// candidates returns the families and couplings to choose between, the default first. For least squares there is
// only one: features of any sign work in φ·φ, and trigonometric ones are bounded. Kernel-weighted means need
// positive weights.
func (c *chooser) candidates() []randfeat.Spec {
	spec := func(f family.Family, k coupling.Coupling) randfeat.Spec {
		s := c.spec
		s.Family, s.Coupling = f, k
		if c.f.o.Family != nil {
			s.Family = c.f.o.Family
		}
		if c.f.o.Coupling != nil {
			s.Coupling = c.f.o.Coupling
		} else if s.Dim > maxBlocks || !c.defined(s) {
			s.Coupling = coupling.IID{}
		}
		return s
	}
	if !c.f.info.Averages {
		return []randfeat.Spec{spec(family.Trig{}, coupling.Orthogonal{})}
	}
	if c.f.o.Family != nil {
		k := coupling.Coupling(coupling.Simplex{})
		if c.f.o.Family.Name() == (family.Trig{}).Name() {
			k = coupling.Orthogonal{}
		}
		return []randfeat.Spec{spec(nil, k)}
	}
	list := []randfeat.Spec{spec(family.OPRF{}, coupling.Simplex{})}
	if c.spec.Dim <= maxCovariance {
		list = append(list, spec(family.Adaptive{}, coupling.Simplex{}))
	}
	if c.f.task == machine.Regression {
		// With features of both signs, classes get no probabilities and a density no logarithm. A mean tolerates
		// them.
		list = append(list, spec(family.Trig{}, coupling.Orthogonal{}))
	}
	return list
}

// defined reports whether the coupling is defined for the projections of the family. Some families, such as Poisson,
// have projections that are not normal, and only independent ones are defined.
func (c *chooser) defined(s randfeat.Spec) bool {
	if c.f.o.Family == nil && s.Kernel.Kind.Exponential() {
		return true
	}
	one, err := c.specOf(s, c.median, 1)
	if err == nil {
		_, err = randfeat.Draw(one)
	}
	return !errors.Is(err, coupling.ErrLaw)
}

// fitted reports whether the parameters of a family are fitted: they are if the caller set none. They are fitted to
// scaled inputs, so again for every bandwidth.
func (c *chooser) fitted(f family.Family) bool {
	_, ok := f.(family.Fitter)
	return ok && reflect.ValueOf(f).IsZero()
}

// chooseFamily tries the candidates over a coarse grid of bandwidths and compares each at its own best bandwidth: their
// estimates have different variances, and therefore different optimal bandwidths. To replace the default, a family must
// be better by more than a standard error, because the best of several is partly lucky.
func (c *chooser) chooseFamily() error {
	list := c.candidates()
	at := 0
	why := "unbiased and bounded, the least error of a Gaussian kernel for least squares"
	var shown []Trial
	if len(list) > 1 {
		var tops []trial
		for _, spec := range list {
			var all []trial
			for _, s := range c.bandwidths() {
				ts, err := c.trial(spec, s, c.searchFeatures(), nil)
				if err != nil {
					return err
				}
				all = append(all, ts...)
			}
			i := best(all)
			if i < 0 {
				tops = append(tops, trial{})
				continue
			}
			tops = append(tops, all[i])
			shown = append(shown, c.f.shown(all[i], float64(len(tops)-1), label(spec)))
		}
		for i, t := range tops {
			if t.loss == nil {
				continue
			}
			if tops[at].loss == nil {
				at = i
				continue
			}
			if diff, se := gain(tops[at].loss, t.loss); diff > se {
				at = i
			}
		}
		if tops[at].loss == nil {
			return errNothing
		}
		why = "the best of what was tried, each at its best bandwidth"
		if at == 0 {
			why = "positive features; nothing tried was better by more than a standard error"
		}
	} else if c.f.info.Averages {
		why = "positive features of smallest error"
	}
	c.spec = list[at]
	fam := Choice{Name: "family", Value: c.spec.Family.Name(), Given: c.f.o.Family != nil, Why: why, Trials: shown}
	if fam.Given {
		fam.Why = "as asked"
	}
	if c.fitted(c.spec.Family) {
		fam.Why += "; parameters fitted to the sample"
		if w := family.Warning(c.spec.Family.(family.Fitter), c.s.len(), c.spec.Dim); w != "" {
			c.d.Notes = append(c.d.Notes, w)
		}
	}
	c.chosen(fam)
	cou := Choice{Name: "coupling", Value: coupling.IID{}.Name(), Given: c.f.o.Coupling != nil,
		Why: "goes with the family: less variance than independent projections"}
	if c.spec.Coupling != nil {
		cou.Value = c.spec.Coupling.Name()
	}
	switch {
	case cou.Given:
		cou.Why = "as asked"
	case c.spec.Dim > maxBlocks:
		cou.Why = fmt.Sprintf("blocks of %d dimensions would take too long to draw, and independent projections are nearly "+
			"orthogonal there", c.spec.Dim)
	case cou.Value == coupling.IID{}.Name():
		cou.Why = "others are not defined for the projections of this family"
	}
	c.chosen(cou)
	return nil
}

func label(s randfeat.Spec) string {
	if s.Coupling == nil {
		return s.Family.Name()
	}
	return s.Family.Name() + " × " + s.Coupling.Name()
}

// trial tries one bandwidth. It skips penalties that were tried before. Trials keep the losses of all rows, 8 or 16
// bytes per row, because they are compared row by row.
func (c *chooser) trial(spec randfeat.Spec, s float64, features int, lambdas []float64) ([]trial, error) {
	if err := c.f.ctx.Err(); err != nil {
		return nil, err
	}
	key := tried{label(spec), s, features}
	known := c.known[key]
	var open []float64
	if c.unpenalised() && known == nil {
		open = []float64{0}
	} else if !c.unpenalised() {
		open = slices.DeleteFunc(slices.Clone(lambdas), func(l float64) bool { return find(known, l) >= 0 })
	}
	if len(open) > 0 {
		full, err := c.specOf(spec, s, features)
		if err != nil {
			return nil, err
		}
		ts, err := c.try.try(full, open)
		if err != nil {
			return nil, err
		}
		known = append(known, ts...)
		c.known[key] = known
		c.counted()
	}
	if c.unpenalised() {
		return known, nil
	}
	var out []trial
	for _, l := range lambdas {
		if i := find(known, l); i >= 0 {
			out = append(out, known[i])
		}
	}
	return out, nil
}

// tried identifies the trials of one map. Everything else in a spec is fixed by the table and the seed.
type tried struct {
	family   string
	s        float64
	features int
}

// find returns the index of the trial with penalty λ, up to rounding: the steps reach the same λ from several
// centres.
func find(ts []trial, lambda float64) int {
	return slices.IndexFunc(ts, func(t trial) bool { return math.Abs(t.lambda-lambda) <= 1e-9*lambda })
}

// counted reports one more trial. The total is a guess that is raised if it proves too small.
func (c *chooser) counted() {
	c.done++
	c.f.progress(stageChoose, c.done, max(c.planned, c.done))
}

// plan guesses the number of trials.
func (c *chooser) plan() int64 {
	n := len(c.bandwidths())
	if c.f.o.Bandwidth > 0 && c.fixedPenalty() {
		n = 0
	}
	if k := len(c.candidates()); k > 1 { // the grids of all candidates include that of the chosen one
		n *= k
	}
	if c.f.o.Bandwidth == 0 {
		n += 3
	}
	if c.f.o.Features == 0 {
		for f := firstFeatures; f <= c.limit(); f *= 2 {
			if n++; f > trialFeatures && c.f.o.Bandwidth == 0 {
				n++
			}
		}
	}
	if !c.f.info.Summed() && c.f.o.Lambda == 0 {
		n += 5
	}
	return int64(n)
}

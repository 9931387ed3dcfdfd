package auto

import (
	"fmt"
	"reflect"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
)

const (
	// maxBlocks is the dimension up to which projections are drawn in blocks of d, which takes d³ operations.
	maxBlocks = 1024
	// maxCovariance is the dimension up to which a family that needs covariances is tried.
	maxCovariance = 256
)

// candidates are families and couplings that the data may choose between, the usual one first.
func (c *chooser) candidates() []randfeat.Spec {
	spec := func(f family.Family, k coupling.Coupling) randfeat.Spec {
		s := c.spec
		s.Family, s.Coupling = f, k
		if c.f.o.Family != nil {
			s.Family = c.f.o.Family
		}
		if c.f.o.Coupling != nil {
			s.Coupling = c.f.o.Coupling
		} else if s.Dim > maxBlocks {
			s.Coupling = coupling.IID{}
		}
		return s
	}
	if !c.unpenalised() {
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
	if c.f.task != "density" {
		list = append(list, spec(family.Trig{}, coupling.Orthogonal{}))
	}
	return list
}

// fitted reports whether the parameters of a family are to be fitted: they are where none were given.
func (c *chooser) fitted(f family.Family) bool {
	_, ok := f.(family.Fitter)
	return ok && reflect.ValueOf(f).IsZero()
}

// chooseFamily tries the candidates over a coarse grid of bandwidths. Another one than the usual must be better by more
// than a standard error.
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
	} else if c.unpenalised() {
		why = "positive features of smallest error"
	}
	c.spec = list[at]
	fam := Choice{Name: "family", Value: c.spec.Family.Name(), Given: c.f.o.Family != nil, Why: why, Trials: shown}
	if fam.Given {
		fam.Why = "as asked"
	}
	if c.fitted(c.spec.Family) {
		fam.Why += "; parameters fitted to the sample"
	}
	c.chosen(fam)
	cou := Choice{Name: "coupling", Value: coupling.IID{}.Name(), Given: c.f.o.Coupling != nil, Why: "goes with the family: less variance than independent projections"}
	if c.spec.Coupling != nil {
		cou.Value = c.spec.Coupling.Name()
	}
	switch {
	case cou.Given:
		cou.Why = "as asked"
	case c.spec.Dim > maxBlocks:
		cou.Why = fmt.Sprintf("blocks of %d dimensions would take too long to draw, and independent projections are nearly orthogonal there", c.spec.Dim)
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

// trial tries one bandwidth.
func (c *chooser) trial(spec randfeat.Spec, s float64, features int, lambdas []float64) ([]trial, error) {
	if err := c.f.ctx.Err(); err != nil {
		return nil, err
	}
	full, err := c.specOf(spec, s, features)
	if err != nil {
		return nil, err
	}
	return c.try.try(full, lambdas)
}

package advise

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
)

// variety is a family, with settings of its own where it has any, fitted to every fold.
type variety struct {
	name      string // of the example
	family    family.Family
	fits      bool
	fitted    []family.Family // without each fold
	positive  bool
	symmetric bool
	refused   string // why it does not take part

	expected  *float64 // by theory, of independent rows with expectedM projections
	expectedM int
}

// entrant is a variety with a coupling in the race.
type entrant struct {
	*variety
	coupling coupling.Coupling
	features int
	m        int
	refused  string
	twin     *variety // whose map it is
	draws    []draw
	tail     histogram
}

// leftCouplings are no candidates: each is another one's law at no less cost, a benchmark, or estimates another kernel.
var leftCouplings = []string{"orfprime", "givens", "optimised"}

// leftFamilies are unbiased families that are no candidates: dark estimates another kernel.
var leftFamilies = []string{"dark"}

// varieties lists every family that estimates the kernel.
func (s *study) varieties() []*variety {
	var out []*variety
	for _, i := range family.List() {
		if !i.Unbiased || slices.Contains(leftFamilies, i.Name) ||
			s.Families != nil && !slices.Contains(s.Families, i.Name) {
			continue
		}
		for n, e := range i.Examples(s.Kernel.Dim(s.dim)) {
			// Of a family with parameters those that are fitted; other examples are numbers for tests.
			if !e.Biased && (e.Fit || n == 0) {
				out = append(out, &variety{name: e.Name, family: e.Family, fits: e.Fit})
			}
		}
	}
	return out
}

// couplings lists the sensible ones.
func (s *study) couplings() []coupling.Coupling {
	var out []coupling.Coupling
	for _, c := range coupling.List() {
		if !slices.Contains(leftCouplings, c.Name) && (s.Couplings == nil || slices.Contains(s.Couplings, c.Name)) {
			out = append(out, c.Examples()[0])
		}
	}
	return out
}

// fit fits a variety to the statistics of every fold.
func (v *variety) fit(s *study) error {
	for _, f := range s.folds {
		fam := v.family
		if fitter, ok := fam.(family.Fitter); ok && v.fits {
			var err error
			if fam, err = fitter.Fit(f.stats.Stats); err != nil {
				return v.refuse(err)
			}
		}
		v.fitted = append(v.fitted, fam)
		m, err := randfeat.New[float64](randfeat.Spec{Kernel: s.Kernel, Family: fam, Dim: s.dim, M: 1})
		if err != nil {
			return v.refuse(err)
		}
		if v.positive, v.symmetric = m.Positive(), m.Symmetric(); s.Positive && !v.positive {
			v.refused = "its features are not positive: a normaliser made of them may vanish or change its sign"
		} else if s.oneSet && !v.symmetric {
			v.refused = "it maps queries and keys differently, which kernel machines cannot use"
		}
	}
	return nil
}

// known are the errors that tell what a candidate cannot do; others are about the data or the options.
var known = []error{family.ErrParam, family.ErrStats, family.ErrKernel, coupling.ErrLaw, coupling.ErrParam,
	coupling.ErrSize, randfeat.ErrFeatures, randfeat.ErrSpec}

func (v *variety) refuse(err error) error { return v.excuse(err, &v.refused) }

func (v *variety) excuse(err error, why *string) error {
	if !slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) }) {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	*why = err.Error()
	return nil
}

// enter is the variety with every coupling and at most so many features.
func (v *variety) enter(s *study, features int) (out []*entrant) {
	for _, c := range s.couplings() {
		out = append(out, &entrant{variety: v, coupling: c, refused: v.refused})
	}
	if v.refused != "" || len(out) == 0 {
		return out
	}
	spec, err := out[0].spec(s, 0).WithFeatures(features) // couplings do not change sizes
	n := 0
	if err == nil {
		n, err = spec.OutDim()
	}
	for _, e := range out {
		if e.m, e.features = spec.M, n; err != nil {
			e.refused = err.Error()
		}
	}
	return out
}

// same says that two entrants are one map under two names: a fit that ended at another family.
func (e *entrant) same(o *entrant) bool {
	if e.coupling != o.coupling || e.features != o.features || len(e.draws) == 0 || len(o.draws) == 0 {
		return false
	}
	for i, d := range e.draws[:min(len(e.draws), len(o.draws))] {
		if math.Abs(d.square-o.draws[i].square) > 1e-9*d.square ||
			math.Abs(d.typical-o.draws[i].typical) > 1e-9*d.typical {
			return false
		}
	}
	return true
}

// spec is the map of an entrant fitted without a fold.
func (e *entrant) spec(s *study, fold int) randfeat.Spec {
	return randfeat.Spec{Kernel: s.Kernel, Family: e.fitted[fold], Coupling: e.coupling, Dim: s.dim, M: e.m}
}

// title is the name of an entrant.
func (e *entrant) title() string { return e.name + ", " + e.coupling.Name() }

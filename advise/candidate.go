package advise

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
)

// variety is a family with its settings, fitted once per fold, to the rows outside of it.
type variety struct {
	name      string // name of the example in the family's registry entry
	family    family.Family
	fits      bool
	fitted    []family.Family // fitted[i] has not seen the rows of fold i; empty for landmarks
	landmarks bool            // Nyström: every draw chooses new landmarks, as many as features
	positive  bool
	symmetric bool
	refused   string // why it does not take part; empty if it does

	expected  *float64 // RMS error that theory expects for expectedM independent projections; nil: unknown
	expectedM int
}

// entrant is a variety with a coupling and a number of features: one candidate of the race.
type entrant struct {
	*variety
	coupling coupling.Coupling
	features int
	m        int
	own      []family.Family // for landmarks: the family of the first draw of every fold
	refused  string
	twin     *variety // another variety with the same map
	draws    []draw
	sums     []rowSums // squared errors of every row, by fold
	tail     histogram
}

// nystrom is the name of the variety whose features are kernels with landmarks.
const nystrom = "nystrom"

// varieties lists every family that estimates the kernel, and Nyström features for kernel machines.
func (s *study) varieties() []*variety {
	var out []*variety
	for _, i := range family.List() {
		if !i.Unbiased || i.Replaces ||
			s.Families != nil && !slices.Contains(s.Families, i.Name) {
			continue
		}
		for n, e := range i.Examples(s.Kernel.Dim(s.dim)) {
			// Of a family with parameters, take the fitted example; the others are numbers for tests.
			if !e.Biased && (e.Fit || n == 0) {
				out = append(out, &variety{name: e.Name, family: e.Family, fits: e.Fit})
			}
		}
	}
	if s.oneSet && !s.Unbiased && !s.Positive && (s.Families == nil || slices.Contains(s.Families, nystrom)) {
		out = append(out, &variety{name: nystrom, family: family.Nystrom{}, fits: true, landmarks: true,
			symmetric: true})
	}
	return out
}

// couplings lists the candidates' couplings.
func (s *study) couplings() []coupling.Coupling {
	var out []coupling.Coupling
	for _, c := range coupling.List() {
		candidate := !c.Replaces && !c.Benchmark && c.SameLaw == ""
		if candidate && (s.Couplings == nil || slices.Contains(s.Couplings, c.Name)) {
			out = append(out, c.Examples()[0])
		}
	}
	return out
}

// fit fits a variety to the statistics of every fold. Landmarks wait until their number is known.
func (v *variety) fit(s *study) error {
	if v.landmarks {
		return nil
	}
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

// known are errors that refuse one candidate. Other errors concern the data or the options and end the advice.
var known = []error{family.ErrParam, family.ErrStats, family.ErrKernel, coupling.ErrLaw, coupling.ErrParam,
	coupling.ErrSize, randfeat.ErrFeatures, randfeat.ErrSpec}

func (v *variety) refuse(err error) error { return v.excuse(err, &v.refused) }

// excuse records why a candidate is refused, or returns an error that is not its fault.
func (v *variety) excuse(err error, why *string) error {
	if !slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) }) {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	*why = err.Error()
	return nil
}

// enter returns the variety with every coupling and at most the given number of features.
func (v *variety) enter(s *study, features int) (out []*entrant) {
	if v.landmarks {
		return []*entrant{s.enterLandmarks(v, features)}
	}
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

// same reports whether two entrants are the same map: the fit of one family ended at a member of another. Equal
// draws show it, since the seeds are equal.
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

// spec returns the map of an entrant that was fitted without a fold.
func (e *entrant) spec(s *study, fold int) randfeat.Spec {
	spec := randfeat.Spec{Kernel: s.Kernel, Coupling: e.coupling, Dim: s.dim, M: e.m}
	if e.landmarks {
		spec.Family = e.own[fold]
	} else {
		spec.Family = e.fitted[fold]
	}
	return spec
}

// drawn returns the map of draw number r, fitted without the fold that the draw is measured on. Draws take
// turns over folds. The seed depends on r alone, so all candidates see the same draws and differences are less
// noisy.
func (e *entrant) drawn(s *study, r int) (randfeat.Spec, error) {
	fold := r % len(s.folds)
	spec := e.spec(s, fold)
	if set := s.first + r/len(s.folds); e.landmarks && set > 0 {
		var err error
		if spec.Family, err = s.fitLandmarks(fold, e.wanted(), set); err != nil {
			return spec, err
		}
	}
	spec.Seed = rng.Mix64(rng.Mix64(s.Seed) + uint64(s.first+r))
	return spec, nil
}

// again returns an entrant with the same map and no draws.
func (e *entrant) again() *entrant {
	return &entrant{variety: e.variety, coupling: e.coupling, features: e.features, m: e.m, own: e.own}
}

// resized returns an entrant of the same variety and coupling with at most the given number of features and no
// draws.
func (e *entrant) resized(s *study, features int) (*entrant, error) {
	if e.landmarks {
		out := s.enterLandmarks(e.variety, features)
		if out.refused != "" {
			return nil, fmt.Errorf("%s: %w", out.refused, randfeat.ErrFeatures)
		}
		return out, nil
	}
	spec, err := e.spec(s, 0).WithFeatures(features)
	if err != nil {
		return nil, err
	}
	out := e.again()
	out.m = spec.M
	out.features, err = spec.OutDim()
	return out, err
}

// title is the name of an entrant in reports.
func (e *entrant) title() string {
	if e.landmarks {
		return e.name
	}
	return e.name + ", " + e.coupling.Name()
}

// couplingName is empty for landmarks, which have no projections to couple.
func (e *entrant) couplingName() string {
	if e.landmarks {
		return ""
	}
	return e.coupling.Name()
}

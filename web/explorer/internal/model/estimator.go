package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// Fits that take longer are left out while a slider moves.
const slowFit = 4 * time.Millisecond

// maxFits bounds the cache.
const maxFits = 256

// prepare makes the estimator of a family, with its parameters fitted to isotropic rows if fit is set. One that cannot
// be made has the reason in its row. With quick a fit that is known to be slow is left for later.
func (m *Model) prepare(s *setting, f family.Family, fit, quick bool) *estimator {
	text, err := family.Encode(f)
	if err != nil {
		return failed(f, s, err)
	}
	key := fitKey{s.kernel.Kind, string(text), fit, s.Dim, s.QueryLen, s.KeyLen}
	if !fit {
		key.queryLen, key.keyLen = 0, 0
	}
	e, ok := m.fits[key]
	if !ok {
		if quick && m.slow[f.Name()] {
			e := failed(f, s, errors.New("computed when the sliders rest"))
			e.row.Pending = true
			return e
		}
		from := time.Now()
		e = fitted(s, f, fit)
		m.slow[f.Name()] = time.Since(from) > slowFit
		if len(m.fits) >= maxFits {
			clear(m.fits)
		}
		m.fits[key] = e
	}
	return e.withFeatures(s.Features).under(s.coupling)
}

// failed is the estimator of a family that has none.
func failed(f family.Family, s *setting, err error) *estimator {
	return &estimator{row: Row{Family: f.Name(), Coupling: s.coupling.Name(), Reason: err.Error()}.unknown()}
}

// fitted is an estimator with one projection.
func fitted(s *setting, f family.Family, fit bool) *estimator {
	spec := randfeat.Spec{Kernel: s.kernel, Family: f, Dim: s.Dim, M: 1}
	_, fits := f.(family.Fitter)
	fits = fits && fit
	var err error
	if fits {
		if spec, err = randfeat.Fit(spec, s.isotropic(s.QueryLen, 0), s.isotropic(s.KeyLen, 1)); err != nil {
			return failed(f, s, err)
		}
	}
	e := &estimator{row: Row{Family: f.Name(), Fitted: fits}}
	if e.form, err = family.Prepare(spec.Family, s.Dim); err != nil {
		return failed(f, s, err)
	}
	one, err := spec.OutDim()
	if err != nil {
		return failed(f, s, err)
	}
	spec.M = 2
	two, err := spec.OutDim() // affine in M
	if err != nil {
		return failed(f, s, err)
	}
	spec.M = 1
	e.spec, e.fixed, e.each = spec, 2*one-two, two-one
	// Parameters of a few numbers are worth showing; matrices are not.
	if value, err := family.Encode(spec.Family); err == nil && len(value) <= 400 {
		e.row.Value = value
	}
	return e
}

// withFeatures is the estimator with as many projections as give at most n features.
func (e *estimator) withFeatures(n int) *estimator {
	if e.form == nil {
		return e
	}
	other := *e
	switch {
	case e.each == 0:
		other.spec.M = 1
	case e.fixed+e.each > n:
		other.form = nil
		other.row.Reason = fmt.Sprintf("has at least %d features", e.fixed+e.each)
		other.row = other.row.unknown()
		return &other
	default:
		other.spec.M = (n - e.fixed) / e.each
	}
	other.row.M, other.row.Features = other.spec.M, e.fixed+e.each*other.spec.M
	return &other
}

// under is the estimator with a coupling.
func (e *estimator) under(c coupling.Coupling) *estimator {
	other := *e
	other.spec.Coupling, other.row.Coupling = c, c.Name()
	return &other
}

// own says that a family estimates a kernel of its own, relative to which its error is.
func (e *estimator) own() bool {
	_, own := e.spec.Family.(interface {
		Target(kernel.Kernel) kernel.Kernel
	})
	return own
}

// at is the row of the estimator at a pair.
func (e *estimator) at(x, y []float64) Row {
	r := e.row
	if e.form == nil {
		return r
	}
	m, err := theory.Of(e.spec.Kernel, e.form, e.spec.Coupling, e.spec.M, x, y)
	if err != nil {
		r.Reason = err.Error()
		var no *forms.NoClosedFormError
		if errors.As(err, &no) {
			r.Reason = "no closed form of " + no.What
		}
		return r.unknown()
	}
	base, logMSE, logBias := m.LogKernel, m.LogMSE, m.LogBias
	if e.own() {
		base, logMSE, logBias = m.LogMean, m.LogVar, math.Inf(-1)
		r.Own, r.Reason = true, "estimates a kernel of its own, relative to which its error is"
	}
	log := func(v float64) Number { return Number(v / math.Ln10) }
	r.Known, r.Approximate = true, m.Approximate
	r.LogMSE, r.LogVar, r.LogBias = log(logMSE-2*base), log(m.LogVar-2*base), log(logBias-base)
	r.Exact = math.IsInf(logMSE, -1)
	return r
}

// warned is at with the warning that belongs to it.
func (e *estimator) warned(x, y []float64) Row {
	r := e.at(x, y)
	if e.form != nil {
		r.Warning = theory.Warning(e.spec.Kernel, e.form, e.spec.Coupling, e.spec.M, x, y)
	}
	return r
}

// all are the estimators of the families of some names, or of all if names is nil; the chosen one has the parameters of
// the state, the others those of their first example.
func (m *Model) all(s *setting, names []string, quick bool) ([]*estimator, error) {
	chosen, fit, err := s.chosen()
	if err != nil {
		return nil, err
	}
	var out []*estimator
	for _, i := range family.List() {
		switch {
		case names != nil && !slices.Contains(names, i.Name):
		case i.Name == chosen.Name():
			out = append(out, m.prepare(s, chosen, fit, quick))
		default:
			e := i.Examples(s.Dim)[0]
			out = append(out, m.prepare(s, e.Family, e.Fit, quick))
		}
	}
	return out, nil
}

// WarmRequest asks for the fit of one family, so that quick answers have it.
type WarmRequest struct {
	State
	Name string `json:"name"`
}

func (m *Model) warm(r WarmRequest) (struct{}, error) {
	set, err := m.parse(r.State)
	if err != nil {
		return struct{}{}, err
	}
	_, err = m.all(set, []string{r.Name}, false)
	return struct{}{}, err
}

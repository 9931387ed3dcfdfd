package family

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// Prepare returns an estimator with the closed forms of f for embedded inputs of dim columns. Families with matrices
// (adaptive, complex-exp, importance, zero-one, and DARK over them) check and factor these once here, in O(d³), instead
// of at every pair, which then costs O(d²). Other families are returned as they are. The result may be used by several
// goroutines.
func Prepare(f Family, dim int) (theory.Estimator, error) {
	var p theory.Estimator = f
	var err error
	switch f := f.(type) {
	case nil:
		err = fmt.Errorf("no family: %w", ErrParam)
	case Adaptive:
		p, err = f.resolve(dim)
	case Importance:
		p, err = f.prepare(dim)
	case ComplexExp:
		var a factors
		a, err = f.factors(dim)
		p = factored{a, dim}
	case ZeroOne:
		p, err = f.prepare(dim)
	case DARK:
		if err = f.validate(dim); err != nil {
			break
		}
		var base theory.Estimator
		base, err = Prepare(f.Inner(), f.M.Rows)
		p = darkForm{f.M, base}
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// factored is a ComplexExp with its matrices inverted.
type factored struct {
	factors
	dim int
}

// Form implements theory.Estimator.
func (f factored) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := pairOf(f.dim, x, y); err != nil {
		return forms.Form{}, err
	}
	return f.form(x, y), nil
}

// zeroOneForm is a ZeroOne with the factors of every pair of centres.
type zeroOneForm struct {
	Clusters
	pairs []factors // in the order of own
}

func (f ZeroOne) prepare(dim int) (zeroOneForm, error) {
	out := zeroOneForm{Clusters: f.Clusters}
	if err := f.validate(f, dim); err != nil {
		return out, err
	}
	for _, c := range f.own() {
		a, err := ComplexExp{Diag: f.Diagonal(c[0], c[1])}.factors(dim)
		if err != nil {
			return out, err
		}
		out.pairs = append(out.pairs, a)
	}
	return out, nil
}

// Form implements theory.Estimator.
func (f zeroOneForm) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := pairOf(f.QueryCentres.Cols, x, y); err != nil {
		return forms.Form{}, err
	}
	at := f.at(nearest(f.QueryCentres, x), nearest(f.KeyCentres, y))
	if at < 0 {
		return Positive{}.Form(kind, x, y)
	}
	form := f.pairs[at].form(x, y)
	if f.Pairs != nil {
		form.LogMass = cancelled(form.LogMass)
	}
	return form, nil
}

// pairOf checks that both points have dim coordinates.
func pairOf(dim int, x, y []float64) error {
	if len(x) != dim || len(y) != dim {
		return fmt.Errorf("a pair of %d and %d coordinates, want %d: %w", len(x), len(y), dim, dense.ErrShape)
	}
	return nil
}

package forms

import (
	"github.com/randfeat/randfeat/internal/special"
)

// NoForm is the error for a quantity without a closed form.
func NoForm(what string) error { return &NoClosedFormError{What: what} }

// Form is the error of a family at one pair, before the coupling and the number of projections are known:
//
//	relative variance = Σ_k e^{LogWeight_k} (rv_k/m + pf·kappa_k) + Cross/m
//
// with one term for a plain family and one per base for a hybrid. It is relative to the squared mean.
type Form struct {
	Terms []Term
	// Cross is the relative covariance of bases on shared projections, known for independent rows only.
	Cross special.Signed
	// LogRatio is log(mean/kernel): 0 for an unbiased family.
	LogRatio float64
	// LogMass is the log of the mean of Σ_f |φ1_f φ2_f| relative to that of Σ_f φ1_f φ2_f, or a bound on it: 0 for
	// positive features. It is what rounding costs; see theory.Moments.LogRounding.
	LogMass float64
}

// Term is one base estimator.
type Term struct {
	LogWeight float64
	// Mean is its weight in the mean of the estimate: 1 for a plain family, E λ̂ for a base of a hybrid.
	Mean  float64
	Shape Shape
	LogRV float64 // log relative variance of one projection
	// V are the power sums of the vector v that the estimate depends on by ω·v, x+y or x−y for the plain families, in
	// the coordinates in which ω is drawn. V.Two, v² or z², is the argument of kappa.
	V   Powers
	Dim int
	// Couples says that kappa of Shape describes coupled rows; otherwise only independent rows have a form.
	Couples bool
	// Radial marks features weighted by |ω|² (OPRF, GERF with A ≠ 0): their coupled form needs rows that are not cut
	// from a padded dimension.
	Radial bool
	// Cosine marks the plain mean of cos ω·(x-y), the one map with a form for projections of fixed norm (ORF′) and for
	// kernels given by a spectrum.
	Cosine bool
}

// Powers are the sums Σ v_l², Σ v_l⁴ and Σ v_l⁶ of a vector.
type Powers struct{ Two, Four, Six float64 }

func (p *Powers) add(v float64) {
	v *= v
	p.Two += v
	p.Four += v * v
	p.Six += v * v * v
}

// PowersOf are the power sums of v.
func PowersOf(v []float64) (p Powers) {
	for _, a := range v {
		p.add(a)
	}
	return p
}

// PowersOfSum are the power sums of x + s·y.
func PowersOfSum(x []float64, s float64, y []float64) (p Powers) {
	for i, a := range x {
		p.add(a + s*y[i])
	}
	return p
}

// Simple is the Form of an unbiased family with one base and coupled forms in dimension d.
func Simple(shape Shape, d int, logRV float64, v Powers) Form {
	f := Form{Terms: []Term{{Mean: 1, Shape: shape, LogRV: logRV, V: v, Dim: d, Couples: true}}}
	if shape == Trigonometric { // features of modulus 1 estimate e^{-|v|²/2}
		f.LogMass = v.Two / 2
	}
	return f
}

// Uncoupled is the Form of an unbiased family in dimension d whose error is known for independent rows only.
func Uncoupled(d int, logRV float64) Form {
	return Form{Terms: []Term{{Mean: 1, LogRV: logRV, Dim: d}}}
}

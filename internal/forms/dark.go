package forms

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/internal/special"
)

// The DARK expectations are over queries and keys q, k iid N(0, Lambda), with l the
// eigenvalues of Lambda, all ≥ 0, and over one projection.

// DarkSigmaEigs returns the eigenvalues (1+2l)/(1−2l) of the optimal proposal
// covariance Sigma* = (I + 2Lambda)(I − 2Lambda)^{−1}. DARK Thm 3.2, re-derived. There is
// no optimal Gaussian proposal unless every l < 1/2: ErrNoClosedForm.
func DarkSigmaEigs(l []float64) ([]float64, error) {
	s := make([]float64, len(l))
	for i, v := range l {
		if !(v >= 0) {
			return nil, DomainError("l", v, "l ≥ 0")
		}
		if v >= 0.5 {
			return nil, &NoClosedFormError{"the optimal proposal of DARK Thm 3.2: an eigenvalue of the data covariance is 1/2 " +
				"or more"}
		}
		s[i] = (1 + 2*v) / (1 - 2*v)
	}
	return s, nil
}

// DarkSigma returns Sigma* for a full covariance Lambda. DARK Thm 3.2.
func DarkSigma(lambda mat.Symmetric) (*mat.SymDense, error) {
	var eig mat.EigenSym
	if !eig.Factorize(lambda, true) {
		return nil, DomainError("lambda", "matrix", "a symmetric matrix with finite entries")
	}
	l := eig.Values(nil)
	for i, v := range l {
		if v < 0 && -v <= 1e-12*l[len(l)-1] {
			l[i] = 0 // a singular covariance, up to rounding
		}
	}
	s, err := DarkSigmaEigs(l)
	if err != nil {
		return nil, err
	}
	var u mat.Dense
	eig.VectorsTo(&u)
	n := len(s)
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sum := 0.0
			for k := range n {
				sum += u.At(i, k) * s[k] * u.At(j, k)
			}
			out.SetSym(i, j, sum)
		}
	}
	return out, nil
}

// LogSecondDarkIsotropic returns the log expected second moment of the isotropic
// positive map, Π ((1+2l)(1−6l))^{−1/2}: +Inf unless every l < 1/6. DARK Thm 3.2.
func LogSecondDarkIsotropic(l []float64) float64 {
	return sumBelow(l, 1.0/6, func(v float64) float64 { return -(math.Log1p(2*v) + math.Log1p(-6*v)) / 2 })
}

// LogSecondDarkOptimal returns the log expected second moment under the optimal
// proposal, Π (1−2l)^{−1}: +Inf unless every l < 1/2. DARK Thm 3.2.
func LogSecondDarkOptimal(l []float64) float64 {
	return sumBelow(l, 0.5, func(v float64) float64 { return -math.Log1p(-2 * v) })
}

// LogKernelSquareDark returns log E SM², Π (1−4l²)^{−1/2}: +Inf unless every l < 1/2.
func LogKernelSquareDark(l []float64) float64 {
	return sumBelow(l, 0.5, func(v float64) float64 { return -math.Log1p(-4*v*v) / 2 })
}

// LogVarDarkIsotropic returns the log expected variance of one isotropic
// projection, the isotropic second moment minus E SM²; for m projections subtract
// log m. It is +Inf unless every l < 1/6: whitened inputs (l = 1) have infinite
// expected variance. DARK Thm 3.2(2).
func LogVarDarkIsotropic(l []float64) float64 {
	// second/ESM² = Π ((1−2l)/(1−6l))^{1/2}, free of cancellation for small l.
	ratio := sumBelow(l, 1.0/6, func(v float64) float64 { return math.Log1p(4*v/(1-6*v)) / 2 })
	return LogKernelSquareDark(l) + special.LogExpm1(ratio)
}

// LogVarDarkOptimal returns the log expected variance of one projection of the
// optimal proposal; +Inf unless every l < 1/2. DARK Thm 3.2(2).
func LogVarDarkOptimal(l []float64) float64 {
	// second/ESM² = Π ((1+2l)/(1−2l))^{1/2}.
	ratio := sumBelow(l, 0.5, func(v float64) float64 { return math.Atanh(2 * v) })
	return LogKernelSquareDark(l) + special.LogExpm1(ratio)
}

// sumBelow sums f over l; a value at or above limit makes it +Inf, one below 0 NaN.
func sumBelow(l []float64, limit float64, f func(float64) float64) float64 {
	sum := 0.0
	for _, v := range l {
		if !(v >= 0) {
			return math.NaN()
		}
		if v >= limit {
			sum = math.Inf(1)
			continue
		}
		sum += f(v)
	}
	return sum
}

// LogSecondDarkGaussian returns the log expected second moment under the proposal
// with variances s in the eigenbasis of Lambda,
//
//	Π √s / ( (1+2l) √(2 − 1/s − 8l/(1+2l)) ),
//
// +Inf unless every bracket is positive. docs/theory.md §5.6.
func LogSecondDarkGaussian(l, s []float64) float64 {
	if len(l) != len(s) {
		panic("forms: len(l) != len(s)")
	}
	sum := 0.0
	for i, v := range l {
		if !(v >= 0) || !(s[i] > 0) {
			return math.NaN()
		}
		bracket := 2 - 1/s[i] - 8*v/(1+2*v)
		if bracket <= 0 {
			sum = math.Inf(1)
			continue
		}
		sum += math.Log(s[i])/2 - math.Log1p(2*v) - math.Log(bracket)/2
	}
	return sum
}

// DarkLogWeight returns the log importance weight that turns N(0, I) draws into
// N(0, Sigma) ones,
//
//	−½ log det Sigma − ½ wᵀ(Sigma^{−1} − I)w.
//
// DARK Prop 4.1, which needs an invertible Sigma and equates expectations only: the
// weighted estimator has finite variance only if all eigenvalues of Sigma are below 2.
func DarkLogWeight(sigma mat.Symmetric, w []float64) (float64, error) {
	if sigma.SymmetricDim() != len(w) {
		panic("forms: dimension of sigma != len(w)")
	}
	var chol mat.Cholesky
	if !chol.Factorize(sigma) {
		return math.NaN(), DomainError("sigma", "matrix", "a positive definite matrix")
	}
	v := mat.NewVecDense(len(w), w)
	var solved mat.VecDense
	if err := chol.SolveVecTo(&solved, v); err != nil {
		return math.NaN(), DomainError("sigma", "matrix", "a well-conditioned matrix: "+err.Error())
	}
	return -(chol.LogDet() + mat.Dot(v, &solved) - mat.Dot(v, v)) / 2, nil
}

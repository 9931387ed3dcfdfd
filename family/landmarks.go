package family

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Landmarks are columns of the kernel matrix, F = m, positive:
//
//	φ_f(x) = κ(x, ω_f), for instance exp(x·ω_f), or exp(−|x−ω_f|²/2) for the Gaussian kernel
//
// with the projections as landmarks, for every kernel without negative values. Landmarks should be rows of the data,
// passed to randfeat.NewWithOmega; drawn ones are N(0, I). φ(x)·φ(y) does not estimate the kernel. A machine fits
// weights to the features: with all rows as landmarks the result is the exact kernel machine, with some of them the
// Nyström approximation (Williams & Seeger 2001).
type Landmarks struct{}

// Name is "landmarks".
func (Landmarks) Name() string { return "landmarks" }

// Draws asks for N(0, I).
func (f Landmarks) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if !kind.Signed() {
		kind = kernel.Gaussian
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f Landmarks) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	if !kind.Exponential() {
		return symmetric(plan.Leaf{Fn: plan.Columns, Kernel: kind, Omega: omega[0]}), nil
	}
	l := plan.Leaf{Fn: plan.Exp, Omega: omega[0], Mix: plan.Scalar(1)}
	if kind == kernel.Gaussian {
		l.Bias = norms2(omega[0])
		for i := range l.Bias {
			l.Bias[i] /= -2
		}
	}
	return finish(kind, symmetric(l), dim), nil
}

// Form returns an error: the products of these features do not estimate the kernel.
func (Landmarks) Form(kernel.Kind, []float64, []float64) (forms.Form, error) {
	return forms.Form{}, forms.NoForm("columns of the kernel (not an estimator)")
}

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
// given to randfeat.NewWithOmega; drawn ones are N(0, I). φ(x)·φ(y) is not an estimate of the kernel: a machine finds
// weights that turn the features into a kernel machine. With all rows as landmarks it is the exact one, with some of
// them that of Nyström (Williams & Seeger 2001).
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

// Form does not exist: the map estimates nothing.
func (Landmarks) Form(kernel.Kind, []float64, []float64) (forms.Form, error) {
	return forms.Form{}, forms.NoForm("columns of the kernel (not an estimator)")
}

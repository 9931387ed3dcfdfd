package family

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
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
type Landmarks struct {
	// Also holds further kernels. Each adds m features, its columns at the same landmarks: F = m·(1 + len(Also)). A
	// kernel here takes embedded inputs, so its Scale multiplies that of the spec. The weights of a mean of several
	// kernel machines are their weights one below the other.
	Also []kernel.Kernel `json:"also,omitempty"`
}

const (
	// mostAlso bounds the memory of a map from a file: every further kernel keeps its own landmarks.
	mostAlso = 16
	// Squared distances divided by scales between 1/farthest and farthest fit into float32.
	farthest = 1e9
)

// Name is "landmarks".
func (Landmarks) Name() string { return "landmarks" }

// Draws asks for N(0, I).
func (f Landmarks) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if !kind.Signed() {
		kind = kernel.Gaussian
	}
	if len(f.Also) > mostAlso {
		return nil, paramError(f, "%d further kernels, want at most %d", len(f.Also), mostAlso)
	}
	for _, k := range f.Also {
		if err := k.Validate(dim); err != nil || k.Kind.Signed() || !k.M.IsEmpty() ||
			max(k.Gain(), 1/k.Gain()) > farthest {
			return nil, paramError(f, "%v kernel with scale %v, want positive values, a scale from %g to %g and no M",
				k.Kind, k.Scale, 1/farthest, farthest)
		}
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f Landmarks) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	if !kind.Exponential() || len(f.Also) > 0 {
		return f.columns(kind, omega[0]), nil
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

// columns is a leaf of kernel columns for every kernel.
func (f Landmarks) columns(kind kernel.Kind, omega coupling.Omega) plan.Pair {
	var side plan.Side
	for i := range 1 + len(f.Also) {
		at, lin := omega, plan.Linear{}
		if i > 0 {
			kind, lin = f.Also[i-1].Kind, plan.Scalar(f.Also[i-1].Gain())
			at = coupling.Omega{Rows: dense.New[float64](omega.Rows.Rows, omega.Rows.Cols)}
			for r := range at.Rows.Rows {
				lin.Apply(at.Rows.Row(r), omega.Rows.Row(r))
			}
		}
		side.Leaves = append(side.Leaves, plan.Leaf{Fn: plan.Columns, Lin: lin, Kernel: kind, Omega: at})
		side.Blocks = append(side.Blocks, plan.Block{Coef: 1, Rho: plan.None, Base: i, Gate: plan.None})
	}
	return plan.Pair{Query: side, Key: side}
}

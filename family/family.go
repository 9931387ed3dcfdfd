// Package family holds the nonlinearities of random features. A family is an immutable value that knows which
// projections it needs, how a row becomes features, how its parameters follow from data, and its error.
//
// # Usage
//
// Choose a family by its value, or by its name with [Parse], and put it into a randfeat.Spec:
//
//	spec.Family = family.Trig{}              // random Fourier features: signed, for kernel machines
//	spec.Family = family.OPRF{}              // FAVOR++: positive, for attention
//	spec.Family = family.Adaptive{}          // positive, fitted to anisotropic data
//	f, err := family.Parse("complex-exp")    // as on the command line; List names all
//
// Then call randfeat.Fit. It returns a spec whose family has parameters from the data; families without parameters
// stay as they are. A family that implements [Fitter] says which statistics it needs beyond O(d) sums. Fitting
// changes the variance and never the kernel that is estimated, except for dark, whose kernel is part of the family.
//
// All families estimate the softmax kernel exp(x·y). Multiplying the features of a row by exp(-|x|²/2) turns them
// into features of the Gaussian kernel, so the relative error is the same for both (docs/theory.md §1.1). Trig alone
// estimates the kernels that are given by a spectrum (Bessel, Laplace, Matérn). docs/estimators.md compares the
// families.
//
// # Legend
//
// x is a query and y a key, both already embedded by the kernel (bandwidth, matrix); d their dimension; ω_1…ω_m the
// projections; F the number of output features; v² = |x+y|², z² = |x-y|².
//
// # Files
//
//	family.go, list.go, codec.go, examples.go   the interface, the registry, JSON, examples for tests
//	trig.go, positive.go, gerf.go, oprf.go      trigonometric and exponential maps
//	discrete.go                                 Poisson, geometric and their shifted forms
//	complexexp.go                               complex exponential maps
//	hybrid.go, bipolar.go, clustered.go         hybrids; kmeans.go finds their centres
//	dark.go, importance.go, adaptive.go         data-aware maps; gradient.go trains matrices
//	residual.go, baselines.go                   low-order-exact maps, baselines
//	landmarks.go, nystrom.go                    kernel columns, Nyström features
//	stats.go, sample.go, shrink.go, linalg.go   statistics for fits, and estimates that survive few rows
//	prepare.go                                  closed forms with matrices factored once
package family

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// Family is a feature map up to its random projections. Implementations are immutable values; the set is closed,
// because Lower returns an internal type.
type Family interface {
	// Name is the name used in specs and on the command line.
	Name() string
	// Draws lists the sets of projections that the map needs for inputs of dim columns and m projections. It also
	// validates the parameters: a family that does not estimate the kernel is ErrKernel, bad parameters are ErrParam.
	Draws(kind kernel.Kind, dim, m int) ([]Draw, error)
	// Lower turns drawn projections, one Omega per Draw, into an executable plan. The number of features is affine in m
	// and the same for queries and keys. It must accept any finite projections, all zeros included.
	Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error)
	// Form returns the input of the closed forms that predict the error at one pair.
	theory.Estimator
}

// Fitter is a family with parameters that can be chosen from data.
type Fitter interface {
	Family
	// Needs names the statistics to keep beyond O(d) sums.
	Needs() Options
	// Fit returns a copy with parameters from the statistics of embedded queries and keys.
	Fit(s *Stats) (Family, error)
}

// KernelFitter is a Fitter whose parameters depend on the kernel.
type KernelFitter interface {
	Fitter
	// FitKernel is Fit for one kernel of embedded rows.
	FitKernel(kind kernel.Kind, s *Stats) (Family, error)
}

// Draw is one set of projections.
type Draw struct {
	Law       coupling.Law
	Rows, Dim int
	// IID asks for independent rows whatever the coupling of the map. Coefficients of hybrids need it, because their
	// closed forms assume independence.
	IID bool
}

// ErrParam marks invalid or missing family parameters.
var ErrParam = errors.New("invalid family parameter")

// ErrKernel is returned by Draws when a family does not estimate a kernel.
var ErrKernel = errors.New("family does not estimate this kernel")

func paramError(f Family, format string, args ...any) error {
	return fmt.Errorf("family %s: %s: %w", f.Name(), fmt.Sprintf(format, args...), ErrParam)
}

// normalDraw is the Draws of a family with one set of N(0, I) projections.
func normalDraw(f Family, kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := checkSizes(f, kind, dim, m); err != nil {
		return nil, err
	}
	return []Draw{{Rows: m, Dim: dim}}, nil
}

// checkSizes checks that the kernel is an exponential one, and the sizes.
func checkSizes(f Family, kind kernel.Kind, dim, m int) error {
	if !kind.Exponential() {
		return fmt.Errorf("family %s with the %v kernel (only trig has it): %w", f.Name(), kind, ErrKernel)
	}
	if dim < 1 || m < 1 {
		return fmt.Errorf("family %s with dimension %d and %d projections: %w", f.Name(), dim, m, coupling.ErrSize)
	}
	return nil
}

// finish adds the factor exp(-|x|²/2) that turns softmax features into Gaussian ones. Families lower for softmax and
// call it last.
func finish(kind kernel.Kind, p plan.Pair, dim int) plan.Pair {
	if kind == kernel.Softmax {
		return p
	}
	half := plan.Norm2(-0.5)
	p.Query.Outer = p.Query.Outer.Add(half, dim)
	p.Key.Outer = p.Key.Outer.Add(half, dim)
	return p
}

// symmetric is a pair whose two sides are one leaf.
func symmetric(l plan.Leaf) plan.Pair { return plan.Pair{Query: plan.Single(l), Key: plan.Single(l)} }

// rootM is log m^{-1/2}, the normalisation of m projections.
func rootM(omega coupling.Omega) float64 { return -math.Log(float64(omega.Rows.Rows)) / 2 }

// halfNorm is the row term log m^{-1/2} - |u|²/2 of positive softmax features.
func halfNorm(omega coupling.Omega) plan.Quadratic {
	q := plan.Norm2(-0.5)
	q.Const = rootM(omega)
	return q
}

// need checks that there are as many sets of projections as dims has entries, each with that number of columns.
func need(f Family, omega []coupling.Omega, dims ...int) error {
	if len(omega) != len(dims) {
		return fmt.Errorf("family %s: %d sets of projections, want %d: %w", f.Name(), len(omega), len(dims),
			dense.ErrShape)
	}
	for i, o := range omega {
		if err := o.Rows.Check(); err != nil {
			return fmt.Errorf("family %s: projections %d: %w", f.Name(), i, err)
		}
		if o.Rows.Rows < 1 || o.Rows.Cols != dims[i] {
			return fmt.Errorf("family %s: projections %d are %d×%d, want at least one row of %d columns: %w",
				f.Name(), i, o.Rows.Rows, o.Rows.Cols, dims[i], dense.ErrShape)
		}
		if err := o.Rows.CheckFinite(); err != nil {
			return fmt.Errorf("family %s: projections %d: %w", f.Name(), i, err)
		}
	}
	return nil
}

// norms2 is |ω_f|² of every row.
func norms2(omega coupling.Omega) []float64 {
	n := make([]float64, omega.Rows.Rows)
	for f := range n {
		n[f] = dense.Norm2(omega.Rows.Row(f))
	}
	return n
}

// sumNorm2 returns v² = |x+y|² and z² = |x-y|². They are summed by coordinate, without cancellation: opposite vectors
// give v² = 0 and equal ones z² = 0 exactly.
func sumNorm2(x, y []float64) (v2, z2 float64) {
	for i, a := range x {
		v2 += (a + y[i]) * (a + y[i])
		z2 += (a - y[i]) * (a - y[i])
	}
	return v2, z2
}

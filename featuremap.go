package randfeat

import (
	"fmt"
	"reflect"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// FeatureMap is the interface through which other packages use a map: a pair of maps for queries and keys with
// φ1(x)·φ2(y) ≈ κ(x, y), in two forms that cannot overflow. *Map implements it; so may a map that a device or a graph
// computes. An implementation is immutable and serves many goroutines at a time.
//
// A Workspace is the scratch memory of *Map and may be nil. Other implementations may ignore it, except for Workers,
// the number of goroutines that a call may use.
//
// Plain features are QueriesScaled and KeysScaled with nil col and shifts of 0.
type FeatureMap[T dense.Float] interface {
	InDim() int  // input columns
	OutDim() int // features
	// Fingerprint identifies the map. Maps with equal fingerprints have the same features in the same order, up to
	// rounding, so sums over features of one can be read with the other.
	Fingerprint() [32]byte
	// Target is the kernel κ that the map estimates.
	Target() kernel.Kernel
	// Positive reports that no feature is ever negative, Signed that features have a factor besides their exponential.
	Positive() bool
	Signed() bool

	// LogQueries writes features as value_if·exp(e_if + row_i). A zero feature has value 0 or e = −Inf. If the map is
	// not Signed all values are 1, and callers pass an empty matrix.
	LogQueries(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], ws *Workspace[T]) error
	LogKeys(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], ws *Workspace[T]) error
	// QueriesScaled writes φ1(x_i)_f·exp(col_f − shift_i), with the scales applied in the log domain. A nil col is
	// zero, and a col_f of −Inf makes the feature zero.
	QueriesScaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], ws *Workspace[T]) error
	KeysScaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], ws *Workspace[T]) error
}

// Differentiable is a feature map with derivatives, for backward passes. *Map implements it for every family. Where
// features have no derivative (sgn and max(0, ·) at zero, clamped coordinates at their floor, rows between two
// clusters), the derivative of the side they are on is taken; gates and signs are constants.
type Differentiable[T dense.Float] interface {
	FeatureMap[T]
	// QueriesVJP sets dx_i = Σ_f dphi_if ∂/∂x_i [φ1(x_i)_f·exp(col_f − shift_i)]; see Map.QueriesVJP. g is nil unless
	// the map is Learnable.
	QueriesVJP(dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64, g *Grad[T], ws *Workspace[T]) error
	KeysVJP(dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64, g *Grad[T], ws *Workspace[T]) error
}

// Learnable is a differentiable map that also collects derivatives by the parameters of its family.
type Learnable[T dense.Float] interface {
	Differentiable[T]
	NewGrad() (*Grad[T], error)
}

var (
	_ Learnable[float32] = (*Map[float32])(nil)
	_ Learnable[float64] = (*Map[float64])(nil)
)

// CheckMap returns ErrSpec for a missing map: nil, or an interface that holds a nil pointer. A comparison with nil does
// not see the latter, and the first call would panic.
func CheckMap[T dense.Float](m FeatureMap[T]) error {
	if m == nil {
		return fmt.Errorf("no map: %w", ErrSpec)
	}
	if v := reflect.ValueOf(m); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("no map, only a nil %T: %w", m, ErrSpec)
	}
	return nil
}

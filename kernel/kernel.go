// Package kernel holds the exact kernels that random features estimate, and their exact Gram matrices.
//
//	Gaussian  exp(-|u-v|²/2)
//	Softmax   exp(u·v)
//	Bessel    j_{d/2-1}(|u-v|) = Γ(d/2)(2/z)^{d/2-1} J_{d/2-1}(z), the target of ORF′
//	Laplace   exp(-Σ|u_l-v_l|)
//	Matern12  exp(-a), a = |u-v|
//	Matern32  (1+a) exp(-a), a = √3|u-v|
//	Matern52  (1+a+a²/3) exp(-a), a = √5|u-v|
//
// where u = M x / Scale and v = M y / Scale. A matrix M turns the softmax kernel into the Mahalanobis kernel
// exp(xᵀΣy), Σ = MᵀM (DARK 4.1).
//
// # Usage
//
// A [Kernel] is a plain value. Scale 0 means 1; an empty matrix M is the identity. [Attention] is the softmax kernel
// with the scale of attention, exp(q·k/√d):
//
//	k := kernel.Kernel{Kind: kernel.Gaussian, Scale: bandwidth}
//	err := kernel.Gram(k, dst, x, y) // dst is x.Rows × y.Rows
//
// Use [LogGram] for the softmax kernel of long rows: exp(u·v) overflows, its logarithm does not. [EachBlock] visits
// a Gram matrix that does not fit in memory.
//
// Package family estimates these kernels with features; package machine/tabular learns M from data.
package kernel

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/special"
)

// Kind names a kernel of two vectors.
type Kind int

// The kernels.
const (
	Gaussian Kind = iota // exp(-|x-y|²/2)
	Softmax              // exp(x·y)
	Bessel               // j_{d/2-1}(|x-y|), ORF Thm 2
	Laplace              // exp(-Σ|x_l-y_l|), a product over coordinates
	Matern12             // exp(-|x-y|)
	Matern32             // (1+a) exp(-a), a = √3|x-y|
	Matern52             // (1+a+a²/3) exp(-a), a = √5|x-y|
)

var kindNames = [...]string{"gaussian", "softmax", "bessel", "laplace", "matern12", "matern32", "matern52"}

// Kinds lists all kernels; tests of kernels iterate over it.
func Kinds() []Kind {
	out := make([]Kind, len(kindNames))
	for i := range out {
		out[i] = Kind(i)
	}
	return out
}

// namesText lists the names of all kernels as text, for messages and help.
func namesText() string {
	last := len(kindNames) - 1
	return strings.Join(kindNames[:last], ", ") + " or " + kindNames[last]
}

// String is the name used in specs and on the command line.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kindNames[k]
}

// ParseKind is the inverse of String.
func ParseKind(s string) (Kind, error) {
	if s == "rbf" { // the name of scikit-learn
		return Gaussian, nil
	}
	for i, n := range kindNames {
		if n == s {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("kernel %q: want %s: %w", s, namesText(), ErrKernel)
}

// ErrKernel marks invalid kernels: unknown kinds, a bandwidth that is not positive, bad matrices.
var ErrKernel = errors.New("invalid kernel")

// Kernel is κ(Mx/Scale, My/Scale). The zero value is the unit Gaussian.
type Kernel struct {
	Kind  Kind
	Scale float64               // bandwidth; 0 means 1
	M     dense.Matrix[float64] // r×d; empty means the identity
}

// Attention is the kernel of softmax(QKᵀ/√d): inputs are scaled by d^{-1/4} (docs/theory.md §1.3).
func Attention(d int) Kernel { return Kernel{Kind: Softmax, Scale: math.Pow(float64(d), 0.25)} }

// Validate returns an error if k is invalid for inputs of dim columns.
func (k Kernel) Validate(dim int) error {
	if k.Kind < 0 || int(k.Kind) >= len(kindNames) {
		return fmt.Errorf("kind %d: %w", int(k.Kind), ErrKernel)
	}
	if k.Scale < 0 || !dense.IsFinite(k.Scale) {
		return fmt.Errorf("scale %v: the bandwidth must be a positive number: %w", k.Scale, ErrKernel)
	}
	if dim < 1 {
		return fmt.Errorf("dimension %d: want at least 1: %w", dim, dense.ErrShape)
	}
	if k.M.Rows == 0 && k.M.Cols == 0 {
		return nil
	}
	if err := k.M.Check(); err != nil {
		return fmt.Errorf("kernel matrix M: %w", err)
	}
	if k.M.Cols != dim || k.M.Rows < 1 {
		return fmt.Errorf("kernel matrix M is %d×%d, the inputs have %d columns: %w", k.M.Rows, k.M.Cols, dim,
			dense.ErrShape)
	}
	if err := k.M.CheckFinite(); err != nil {
		return fmt.Errorf("kernel matrix M: %w", err)
	}
	return nil
}

// Dim is the dimension of the mapped inputs u = Mx/Scale for inputs of dim columns.
func (k Kernel) Dim(dim int) int {
	if k.M.IsEmpty() {
		return dim
	}
	return k.M.Rows
}

// Gain is 1/Scale.
func (k Kernel) Gain() float64 {
	if k.Scale == 0 {
		return 1
	}
	return 1 / k.Scale
}

// Embed writes u = Mx/Scale into dst and returns it; dst has length Dim(len(x)).
func (k Kernel) Embed(dst, x []float64) []float64 {
	g := k.Gain()
	if k.M.IsEmpty() {
		for i, v := range x {
			dst[i] = g * v
		}
		return dst
	}
	for i := range dst {
		dst[i] = g * dense.Dot(k.M.Row(i), x)
	}
	return dst
}

// Log is the logarithm of the kernel value; for Bessel, which may be negative, the logarithm of its modulus.
func (k Kernel) Log(x, y []float64) float64 {
	d := k.Dim(len(x))
	u, v := k.Embed(make([]float64, d), x), k.Embed(make([]float64, d), y)
	if k.Kind == Bessel {
		return math.Log(math.Abs(k.unit(u, v)))
	}
	return k.unitLog(u, v)
}

// Eval is the exact kernel value.
func (k Kernel) Eval(x, y []float64) float64 {
	d := k.Dim(len(x))
	return k.unit(k.Embed(make([]float64, d), x), k.Embed(make([]float64, d), y))
}

// unitLog is the log kernel of embedded vectors, for all kernels except Bessel.
func (k Kernel) unitLog(u, v []float64) float64 {
	switch k.Kind {
	case Softmax:
		return dense.Dot(u, v)
	case Gaussian:
		return -sqDist(u, v) / 2
	}
	value, a := k.Kind.Decay(k.Kind.distance(u, v))
	return math.Log(value) - a
}

// unit is the kernel of embedded vectors.
func (k Kernel) unit(u, v []float64) float64 {
	if k.Kind == Bessel {
		return special.BesselJ(len(u), math.Sqrt(sqDist(u, v)))
	}
	if !k.Kind.Exponential() {
		value, a := k.Kind.Decay(k.Kind.distance(u, v))
		return value * math.Exp(-a)
	}
	return math.Exp(k.unitLog(u, v))
}

func sqDist(u, v []float64) float64 {
	var s float64
	for i, a := range u {
		d := a - v[i]
		s += d * d
	}
	return s
}

package metric

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
)

// Kind says which part of an average gradient outer product a metric uses, and which power of it.
type Kind int

// The kinds, the most cautious first. With G the outer product scaled to trace d, a metric is MᵀM = G^p:
const (
	DiagonalRoot Kind = iota // the diagonal, p = ½: columns that matter little keep some weight
	Diagonal                 // the diagonal, p = 1
	FullRoot                 // all of it, p = ½: directions, not columns, have weights
)

var kindNames = [...]string{"diag½", "diag", "full½"}

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{DiagonalRoot, Diagonal, FullRoot} }

// String returns the name for reports.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kindNames[k]
}

// Full reports whether the kind uses more than the diagonal.
func (k Kind) Full() bool { return k == FullRoot }

// power is p.
func (k Kind) power() float64 {
	if k == Diagonal {
		return 1
	}
	return 0.5
}

// Matrix returns the metric M = G^{p/2} of an average gradient outer product agop, which is d×d and symmetric, or one
// row for a diagonal. G is agop scaled to trace d. Negative eigenvalues are rounding errors and count as 0. An agop of
// zeros, from a constant function, has no metric: the error is kernel.ErrKernel.
func Matrix(k Kind, agop dense.Matrix[float64]) (dense.Matrix[float64], error) {
	d := agop.Cols
	trace := 0.0
	for i := range d {
		trace += entry(agop, i)
	}
	if !(trace > 0) || math.IsInf(trace, 1) {
		return dense.Matrix[float64]{}, fmt.Errorf("gradients of trace %g have no metric: %w", trace, kernel.ErrKernel)
	}
	root := func(v float64) float64 { return math.Pow(max(v, 0)*float64(d)/trace, k.power()/2) }
	if !k.Full() {
		out := dense.New[float64](d, d)
		for i := range d {
			out.Set(i, i, root(entry(agop, i)))
		}
		return out, nil
	}
	values, vectors, err := eigen(agop)
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	scaled := vectors.Clone() // one eigenvector per row
	for i, v := range values {
		f := root(v)
		for j := range scaled.Row(i) {
			scaled.Row(i)[j] *= f
		}
	}
	out := dense.New[float64](d, d)
	kern.Best[float64]().TMul(out, vectors, scaled)
	return out, nil
}

// entry is element i of the diagonal.
func entry(agop dense.Matrix[float64], i int) float64 {
	if agop.Rows == 1 {
		return agop.At(0, i)
	}
	return agop.At(i, i)
}

// eigen returns the eigenvalues of a symmetric matrix, largest first, and the eigenvectors, one per row.
func eigen(a dense.Matrix[float64]) ([]float64, dense.Matrix[float64], error) {
	d := a.Rows
	s := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			s.SetSym(i, j, a.At(i, j))
		}
	}
	var e mat.EigenSym
	if !e.Factorize(s, true) {
		return nil, dense.Matrix[float64]{}, fmt.Errorf("eigenvalues of a metric did not converge: %w",
			kernel.ErrKernel)
	}
	var u mat.Dense
	e.VectorsTo(&u)
	values, out := e.Values(nil), dense.New[float64](d, d)
	slices.Reverse(values)
	for k := range d {
		for i := range d {
			out.Set(k, i, u.At(i, d-1-k))
		}
	}
	return values, out, nil
}

// Direction is an eigenvector of MᵀM.
type Direction struct {
	Share  float64   // share of the sum of eigenvalues
	Vector []float64 // of length 1, its largest coordinate positive
}

// Directions returns at most most eigenvectors of MᵀM, in descending order of eigenvalues. For a diagonal metric they
// are unit vectors.
func Directions(m dense.Matrix[float64], most int) ([]Direction, error) {
	values, vectors, err := eigen(gram(m))
	if err != nil {
		return nil, err
	}
	sum := 0.0
	for i, v := range values {
		values[i] = max(v, 0)
		sum += values[i]
	}
	if !(sum > 0) {
		return nil, fmt.Errorf("a metric of zeros: %w", kernel.ErrKernel)
	}
	var out []Direction
	for k := range min(most, len(values)) {
		v := slices.Clone(vectors.Row(k))
		top := slices.MaxFunc(v, func(a, b float64) int {
			switch {
			case math.Abs(a) < math.Abs(b):
				return -1
			case math.Abs(a) > math.Abs(b):
				return 1
			}
			return 0
		})
		for i := range v {
			v[i] = math.Copysign(1, top) * v[i]
		}
		out = append(out, Direction{values[k] / sum, v})
	}
	return out, nil
}

// gram returns MᵀM.
func gram(m dense.Matrix[float64]) dense.Matrix[float64] {
	out := dense.New[float64](m.Cols, m.Cols)
	kern.Best[float64]().TMul(out, m, m)
	return out
}

// Shares returns the share of each column in the trace of MᵀM.
func Shares(m dense.Matrix[float64]) []float64 {
	out, sum := make([]float64, m.Cols), 0.0
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			out[j] += float64(v * v)
			sum += float64(v * v)
		}
	}
	for j := range out {
		out[j] /= sum
	}
	return out
}

// Alike returns the cosine similarity of MᵀM of two metrics, as vectors; 1 means equal. It shows how well metrics from
// two halves of the rows agree.
func Alike(a, b dense.Matrix[float64]) float64 {
	x, y := gram(a), gram(b)
	return dense.Dot(x.Data, y.Data) / math.Sqrt(dense.Norm2(x.Data)*dense.Norm2(y.Data))
}

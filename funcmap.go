package randfeat

import (
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// FuncMap is a [FeatureMap] made of plain functions, for maps of your own whose features do not overflow: a small
// network, polynomials, hashes. Everything that takes a FeatureMap works with it, such as linear attention.
type FuncMap[T dense.Float] struct {
	// Name identifies the functions: maps of one name and size must have the same features.
	Name    string
	In, Out int           // numbers per input row and per row of features
	Kernel  kernel.Kernel // the kernel that the features estimate
	// Query writes the features of x into phi, which has Out elements. Key does the same for keys; nil means that both
	// sides share Query. Several goroutines call them at the same time.
	Query, Key func(phi, x []T)
	// NonNegative promises that no feature is ever negative.
	NonNegative bool
}

// InDim is the number of columns of inputs.
func (m *FuncMap[T]) InDim() int { return m.In }

// OutDim is the number of features.
func (m *FuncMap[T]) OutDim() int { return m.Out }

// Fingerprint is a hash of the name and the sizes, not of the functions: change Name when the functions change.
func (m *FuncMap[T]) Fingerprint() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "func %q %d %d", m.Name, m.In, m.Out))
}

// Target returns Kernel.
func (m *FuncMap[T]) Target() kernel.Kernel { return m.Kernel }

// Positive reports that no feature is ever negative.
func (m *FuncMap[T]) Positive() bool { return m.NonNegative }

// Signed is true: features are values, their exponents are 0.
func (m *FuncMap[T]) Signed() bool { return true }

// LogQueries writes the features as values with exponents of 0.
func (m *FuncMap[T]) LogQueries(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], _ *Workspace[T]) error {
	return m.logs(e, value, row, x, m.Query)
}

// LogKeys is LogQueries for keys.
func (m *FuncMap[T]) LogKeys(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], _ *Workspace[T]) error {
	return m.logs(e, value, row, x, m.key())
}

// QueriesScaled writes the features times exp(col − shift).
func (m *FuncMap[T]) QueriesScaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T],
	_ *Workspace[T]) error {
	return m.scaled(dst, col, shift, x, m.Query)
}

// KeysScaled is QueriesScaled for keys.
func (m *FuncMap[T]) KeysScaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T],
	_ *Workspace[T]) error {
	return m.scaled(dst, col, shift, x, m.key())
}

func (m *FuncMap[T]) key() func(phi, x []T) {
	if m.Key != nil {
		return m.Key
	}
	return m.Query
}

// rows checks the shapes, calls f for every row of x with its row of dst, and checks that the features are finite.
func (m *FuncMap[T]) rows(dst, x dense.Matrix[T], f func(phi, x []T)) error {
	switch {
	case f == nil || m.In < 1 || m.Out < 1:
		return fmt.Errorf("map %q: no function, or %d inputs and %d features: %w", m.Name, m.In, m.Out, ErrSpec)
	case x.Cols != m.In:
		return fmt.Errorf("x has %d columns, the map takes %d: %w", x.Cols, m.In, dense.ErrShape)
	case dst.Rows != x.Rows || dst.Cols != m.Out:
		return fmt.Errorf("features of shape %d×%d, want %d×%d: %w", dst.Rows, dst.Cols, x.Rows, m.Out, dense.ErrShape)
	}
	for i := range x.Rows {
		f(dst.Row(i), x.Row(i))
		for j, v := range dst.Row(i) {
			if !dense.IsFinite(float64(v)) {
				return fmt.Errorf("features of %q: %w", m.Name,
					&dense.NotFiniteError{Row: i, Col: j, Value: float64(v)})
			}
		}
	}
	return nil
}

func (m *FuncMap[T]) logs(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], f func(phi, x []T)) error {
	if e.Rows != x.Rows || e.Cols != m.Out || len(row) != x.Rows {
		return fmt.Errorf("exponents of shape %d×%d and %d rows, want %d×%d: %w", e.Rows, e.Cols, len(row), x.Rows,
			m.Out, dense.ErrShape)
	}
	for i := range e.Rows {
		clear(e.Row(i))
	}
	clear(row)
	return m.rows(value, x, f)
}

func (m *FuncMap[T]) scaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T],
	f func(phi, x []T)) error {
	if len(shift) != x.Rows || col != nil && len(col) != m.Out {
		return fmt.Errorf("%d shifts and %d column scales for %d rows of %d features: %w", len(shift), len(col), x.Rows,
			m.Out, dense.ErrShape)
	}
	if err := m.rows(dst, x, f); err != nil {
		return err
	}
	for i := range dst.Rows {
		phi := dst.Row(i)
		for f := range phi {
			c := -shift[i]
			if col != nil {
				c += float64(col[f])
			}
			if c != 0 {
				phi[f] = T(float64(phi[f]) * math.Exp(c))
			}
		}
	}
	return nil
}

var _ FeatureMap[float32] = (*FuncMap[float32])(nil)

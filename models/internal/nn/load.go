package nn

import (
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/models/weights"
)

// Loader takes tensors from a file. It keeps the first error, so callers check Err once after many tensors.
type Loader struct {
	File weights.File
	Err  error
}

// Tensor returns the matrix with a name and shape. If rows is negative, any number of rows is accepted.
func (l *Loader) Tensor(name string, rows, cols int) weights.Tensor {
	t, err := l.File.Tensor(name)
	if err == nil && (len(t.Shape) != 2 || rows >= 0 && t.Shape[0] != rows || t.Shape[1] != cols) {
		err = fmt.Errorf("%s: tensor %s has shape %v, want [%d %d]: %w", l.File.Path(), name, t.Shape, rows, cols,
			weights.ErrFormat)
	}
	if err != nil && l.Err == nil {
		l.Err = err
	}
	return t
}

// Floats returns a matrix in float32.
func (l *Loader) Floats(name string, rows, cols int) []float32 {
	t := l.Tensor(name, rows, cols)
	if l.Err != nil {
		return nil
	}
	return t.Floats(nil)
}

// Vector returns a vector of length n in float32.
func (l *Loader) Vector(name string, n int) []float32 {
	t, err := weights.Get(l.File, name, n)
	if err != nil {
		if l.Err == nil {
			l.Err = err
		}
		return nil
	}
	return t.Floats(nil)
}

// Heads views rows whose columns are the heads, side by side, as a sequence.
func Heads(m Matrix, heads, dim int) attention.Seq[float32] {
	return attention.Seq[float32]{Shape: attention.Shape{Batch: 1, Heads: heads, Len: m.Rows, Dim: dim}, Data: m.Data,
		StrideB: m.Rows * m.Stride, StrideH: dim, StrideL: m.Stride}
}

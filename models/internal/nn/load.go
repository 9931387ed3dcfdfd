package nn

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/models/weights"
)

// Loader takes tensors from a file. It keeps the first error, so callers check Err once after many tensors.
type Loader struct {
	File  weights.File
	Err   error
	taken map[string]bool
}

// Has tells whether the file has a tensor.
func (l *Loader) Has(name string) bool {
	_, ok := slices.BinarySearch(l.File.Names(), name)
	return ok
}

// Rest makes a tensor that nobody took an error: the file describes another function than the one that was loaded.
// Names for which unused is true are those of buffers, or of heads for tasks that this module does not have.
func (l *Loader) Rest(unused func(name string) bool) {
	for _, name := range l.File.Names() {
		if l.Err != nil || l.taken[name] || unused(name) {
			continue
		}
		t, err := l.File.Tensor(name)
		if err == nil {
			err = fmt.Errorf("%s: tensor %s has no place in the architecture %s, as it is supported: %w", l.File.Path(),
				t.Name, l.File.Config().Architecture, weights.ErrFormat)
		}
		l.Err = err
	}
}

// Packed says that the tensors taken so far are packed: a mapped file gives the memory of their pages back.
func (l *Loader) Packed() {
	if f, ok := l.File.(interface{ Release() }); ok {
		f.Release()
	}
}

func (l *Loader) take(name string) (weights.Tensor, error) {
	if l.taken == nil {
		l.taken = map[string]bool{}
	}
	l.taken[name] = true
	return l.File.Tensor(name)
}

// Tensor returns the matrix with a name and shape. If rows is negative, any number of rows is accepted.
func (l *Loader) Tensor(name string, rows, cols int) weights.Tensor {
	t, err := l.take(name)
	if err == nil && (len(t.Shape) != 2 || rows >= 0 && t.Shape[0] != rows || t.Shape[1] != cols) {
		err = fmt.Errorf("%s: tensor %s has shape %v, want [%d %d]: %w", l.File.Path(), t.Name, t.Shape, rows, cols,
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
	_, _ = l.take(name)
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

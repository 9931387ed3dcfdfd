package kernel

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// blockRows bounds the memory of Gram and EachBlock: embedded keys are held for this many rows at a time.
const blockRows = 256

// Gram fills dst (x.Rows × y.Rows) with exact kernel values, computed in float64.
// Work memory is bounded by blocks of rows; rows of dst are computed in parallel.
func Gram[T dense.Float](k Kernel, dst, x, y dense.Matrix[T]) error {
	return gram(k, dst, x, y, k.unit)
}

// LogGram is Gram in the log domain; it is defined for the Gaussian and softmax kernels only.
func LogGram[T dense.Float](k Kernel, dst, x, y dense.Matrix[T]) error {
	if k.Kind == Bessel {
		return fmt.Errorf("log of the Bessel kernel, which changes sign: %w", ErrKernel)
	}
	return gram(k, dst, x, y, k.unitLog)
}

func gram[T dense.Float](k Kernel, dst, x, y dense.Matrix[T], value func(u, v []float64) float64) error {
	if err := checkSets(k, x, y); err != nil {
		return err
	}
	if dst.Rows != x.Rows || dst.Cols != y.Rows {
		return fmt.Errorf("dst is %d×%d, want %d×%d: %w", dst.Rows, dst.Cols, x.Rows, y.Rows, dense.ErrShape)
	}
	if err := dst.Check(); err != nil {
		return fmt.Errorf("dst: %w", err)
	}
	for lo := 0; lo < y.Rows; lo += blockRows {
		hi := min(lo+blockRows, y.Rows)
		v := embedRows(k, y.RowRange(lo, hi))
		par.For(x.Rows, 1+4096/(hi-lo), func(a, b int) {
			row, u := make([]float64, x.Cols), make([]float64, v.Cols)
			for i := a; i < b; i++ {
				widen(row, x.Row(i))
				k.Embed(u, row)
				out := dst.Row(i)[lo:hi]
				for j := range out {
					out[j] = T(value(u, v.Row(j)))
				}
			}
		})
	}
	return nil
}

// EachBlock computes the exact Gram matrix in blocks of rows and hands each to visit, in order: the whole
// matrix is never held. The block is valid until visit returns; an error from visit stops the loop.
func EachBlock(k Kernel, x, y dense.Matrix[float64], visit func(firstRow int, block dense.Matrix[float64]) error) error {
	if err := checkSets(k, x, y); err != nil {
		return err
	}
	buf := dense.New[float64](min(blockRows, x.Rows), y.Rows)
	for lo := 0; lo < x.Rows; lo += blockRows {
		hi := min(lo+blockRows, x.Rows)
		block := buf.RowRange(0, hi-lo)
		if err := Gram(k, block, x.RowRange(lo, hi), y); err != nil {
			return err
		}
		if err := visit(lo, block); err != nil {
			return err
		}
	}
	return nil
}

func checkSets[T dense.Float](k Kernel, x, y dense.Matrix[T]) error {
	if err := CheckSet("x", x); err != nil {
		return err
	}
	if err := CheckSet("y", y); err != nil {
		return err
	}
	if x.Cols != y.Cols {
		return fmt.Errorf("x has %d columns, y has %d: %w", x.Cols, y.Cols, dense.ErrShape)
	}
	return k.Validate(x.Cols)
}

// CheckSet reports an empty set, a malformed view or a value that is not finite, with the argument's name.
func CheckSet[T dense.Float](name string, x dense.Matrix[T]) error {
	if x.IsEmpty() {
		return fmt.Errorf("%s is an empty set (%d×%d): %w", name, x.Rows, x.Cols, dense.ErrShape)
	}
	if err := x.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := x.CheckFinite(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func embedRows[T dense.Float](k Kernel, x dense.Matrix[T]) dense.Matrix[float64] {
	out := dense.New[float64](x.Rows, k.Dim(x.Cols))
	row := make([]float64, x.Cols)
	for i := range x.Rows {
		widen(row, x.Row(i))
		k.Embed(out.Row(i), row)
	}
	return out
}

func widen[T dense.Float](dst []float64, src []T) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}

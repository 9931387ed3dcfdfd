package kernel

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/special"
)

// blockRows bounds the memory of Gram and EachBlock: embedded keys are held for this many rows at a time.
const blockRows = 256

// Gram fills dst (x.Rows × y.Rows) with exact kernel values, computed in float64 with the product kernels. |u-v|² is
// computed as |u|²+|v|²-2u·v, with an absolute error of a few roundings of |u|²+|v|². Matérn kernels have a kink or a
// bend at u = v, so near points are computed from the difference; the Laplace kernel always is. Work memory is bounded
// by blocks of rows, and by the rows times M for a kernel with a metric. Rows of dst are computed in parallel, and a
// value does not depend on the rows around it. For a set with itself (the same memory) only half of the values are
// computed; the matrix is symmetric to the last bit.
func Gram[T dense.Float](k Kernel, dst, x, y dense.Matrix[T]) error { return gram(k, dst, x, y, true) }

// LogGram is Gram in the log domain. The Bessel kernel, which changes sign, is ErrKernel.
func LogGram[T dense.Float](k Kernel, dst, x, y dense.Matrix[T]) error {
	if k.Kind.Signed() {
		return fmt.Errorf("log of the Bessel kernel, which changes sign: %w", ErrKernel)
	}
	return gram(k, dst, x, y, false)
}

// gram computes kernel values if exp is set, and their logarithms otherwise. For equal sets it computes block rows up
// to the diagonal block and writes each value to both sides.
func gram[T dense.Float](k Kernel, dst, x, y dense.Matrix[T], exp bool) error {
	if err := checkSets(k, x, y); err != nil {
		return err
	}
	if dst.Rows != x.Rows || dst.Cols != y.Rows {
		return fmt.Errorf("dst is %d×%d, want %d×%d: %w", dst.Rows, dst.Cols, x.Rows, y.Rows, dense.ErrShape)
	}
	if err := dst.Check(); err != nil {
		return fmt.Errorf("dst: %w", err)
	}
	tab := kern.Best[float64]()
	var packed kern.Panel[float64]
	same, rows := sameRows(x, y), x.Rows
	embedded := func(a, b int) dense.Matrix[float64] { return embedRows(k, x.RowRange(a, b)) }
	if !k.M.IsEmpty() && y.Rows > blockRows { // several blocks of y meet the same rows of x: do not multiply by M again
		all := embedRows(k, x)
		embedded = all.RowRange
	}
	for lo := 0; lo < y.Rows; lo += blockRows {
		hi := min(lo+blockRows, y.Rows)
		if same {
			rows = hi
		}
		v := embedRows(k, y.RowRange(lo, hi))
		tab.Pack(&packed, v)
		vv := rowNorms(tab, v)
		var transposed dense.Matrix[float64]
		if k.Kind == Laplace {
			transposed = transpose(v)
		}
		par.For(rows, 1+tab.Grain/((hi-lo)*v.Cols), func(a, b int) {
			values := dense.New[float64](min(b-a, blockRows), hi-lo)
			for ; a < b; a += blockRows {
				end := min(a+blockRows, b)
				u := embedded(a, end)
				out := values.RowRange(0, end-a)
				uu := rowNorms(tab, u)
				if k.Kind != Laplace {
					tab.MulT(out, u, &packed, nil)
				}
				if k.Kind.Exponential() || k.Kind == Bessel {
					k.finish(tab, out, uu, vv, u.Cols, exp)
				} else {
					k.Kind.decay(tab, out, u, v, transposed, uu, vv, exp)
				}
				for i := range out.Rows {
					row := dst.Row(a + i)[lo:hi]
					for j, w := range out.Row(i) {
						row[j] = T(w)
					}
				}
				for j := 0; same && j < hi-lo; j++ {
					row := dst.Row(lo + j)
					for i := a; i < min(end, lo); i++ {
						row[i] = T(out.At(i-a, j))
					}
				}
			}
		})
	}
	return nil
}

// sameRows reports whether x and y are the same rows in memory.
func sameRows[T dense.Float](x, y dense.Matrix[T]) bool {
	return x.Rows == y.Rows && x.Cols == y.Cols && x.Rows > 1 && x.Cols > 0 && &x.Row(0)[0] == &y.Row(0)[0] &&
		&x.Row(1)[0] == &y.Row(1)[0]
}

// finish turns inner products u·v of vectors of dim coordinates into kernel values, or their logarithms.
func (k Kernel) finish(tab *kern.Table[float64], dot dense.Matrix[float64], uu, vv []float64, dim int, exp bool) {
	for i := range dot.Rows {
		row := dot.Row(i)
		if k.Kind != Softmax {
			for j, d := range row {
				row[j] = min(0, d-(uu[i]+vv[j])/2) // -|u-v|²/2
			}
		}
		switch {
		case k.Kind == Bessel:
			for j, l := range row {
				row[j] = special.BesselJ(dim, math.Sqrt(-2*l))
			}
		case exp:
			tab.Exp(row, 0)
		}
	}
}

// decay is finish for kernels of a distance: Laplace and Matérn.
func (k Kind) decay(tab *kern.Table[float64], dot, u, v, transposed dense.Matrix[float64], uu, vv []float64, exp bool) {
	values := make([]float64, dot.Cols)
	for i := range dot.Rows {
		row := dot.Row(i)
		k.distances(row, u.Row(i), v, transposed, uu[i], vv)
		for j, d := range row {
			value, a := k.Decay(d)
			values[j], row[j] = value, -a
		}
		if exp {
			tab.Exp(row, 0)
			tab.Mul(row, values)
			continue
		}
		for j, v := range values {
			log := 0.0
			if v != 1 { // log 1 = 0 for kernels that are an exponential alone
				log = math.Log(v)
			}
			row[j] += log
		}
	}
}

func transpose(x dense.Matrix[float64]) dense.Matrix[float64] {
	t := dense.New[float64](x.Cols, x.Rows)
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			t.Set(j, i, v)
		}
	}
	return t
}

func rowNorms(tab *kern.Table[float64], x dense.Matrix[float64]) []float64 {
	n := make([]float64, x.Rows)
	for i := range n {
		n[i] = tab.Norm2(x.Row(i))
	}
	return n
}

// EachBlock computes the exact Gram matrix in blocks of rows and passes each to visit, in order, so the whole matrix is
// never held. The block is valid until visit returns; an error of visit stops the loop.
func EachBlock(k Kernel, x, y dense.Matrix[float64], visit func(firstRow int,
	block dense.Matrix[float64]) error) error {
	if err := checkSets(k, x, y); err != nil {
		return err
	}
	if !k.M.IsEmpty() && x.Rows > blockRows { // embed each row once, not once per block
		u := embedRows(k, x)
		v := u
		if !sameRows(x, y) {
			v = embedRows(k, y)
		}
		k, x, y = Kernel{Kind: k.Kind}, u, v
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

// embedRows is u = Mx/Scale of every row, in float64.
func embedRows[T dense.Float](k Kernel, x dense.Matrix[T]) dense.Matrix[float64] {
	out := dense.New[float64](x.Rows, k.Dim(x.Cols))
	par.For(x.Rows, blockRows, func(lo, hi int) {
		row := make([]float64, x.Cols)
		for i := lo; i < hi; i++ {
			widen(row, x.Row(i))
			k.Embed(out.Row(i), row)
		}
	})
	return out
}

func widen[T dense.Float](dst []float64, src []T) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}

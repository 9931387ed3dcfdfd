//go:build amd64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// vectorAVX2 replaces the plain vector operations. Whole vectors go to assembly and the rest to the reference: products
// round alike in both.
func vectorAVX2(t32 *Table[float32], t64 *Table[float64]) {
	t32.Norm2, t64.Norm2 = norm2With(norm2AVX2F32), norm2With(norm2AVX2F64)
	t32.Norms, t64.Norms = normsWith(t32.Norm2, normsAVX2F32), normsWith(t64.Norm2, normsAVX2F64)
	t32.Mul, t64.Mul = mulWith(8, mulAVX2F32), mulWith(4, mulAVX2F64)
	t32.Scale, t64.Scale = scaleWith(8, scaleAVX2F32), scaleWith(4, scaleAVX2F64)
	t32.MulAdd, t64.MulAdd = mulAddWith(8, mulAddAVX2F32), mulAddWith(4, mulAddAVX2F64)
	t32.AbsSums, t64.AbsSums = absSumsWith(8, absSumsAVX2F32), absSumsWith(4, absSumsAVX2F64)
	t32.Widen, t64.Widen = widenWith(4, widenAVX2F32), t64.MulAdd
	t32.Narrow = narrowWith(4, narrowAVX2F32)
	t32.ColSum, t64.ColSum = colSumWith(colSumAVX2F32), colSumWith(colSumAVX2F64)
	t32.MulV, t64.MulV = mulVWith(mulVAVX2F32), mulVWith(mulVAVX2F64)
	t32.MulRows, t64.MulRows = mulRowsWith(mulRowsAVX2F32), mulRowsWith(mulRowsAVX2F64)
	t32.AddDots, t64.AddDots = addDotsWith(addDotsAVX2F32), addDotsWith(addDotsAVX2F64)
	t32.pack, t64.pack = packWith(8, packAVX2F32), packWith(4, packAVX2F64)
	t32.Gather, t64.Gather = gatherWith(gatherAVX2F32), gatherWith(gatherAVX2F64)
}

// vectorAVX512 is vectorAVX2 with wider vectors where they pay.
func vectorAVX512(t32 *Table[float32], t64 *Table[float64]) {
	vectorAVX2(t32, t64)
	t32.Norms, t64.Norms = normsWith(t32.Norm2, normsAVX512F32), normsWith(t64.Norm2, normsAVX512F64)
	t32.MulAdd, t64.MulAdd = mulAddWith(16, mulAddAVX512F32), mulAddWith(8, mulAddAVX512F64)
	t32.AbsSums, t64.AbsSums = absSumsWith(16, absSumsAVX512F32), absSumsWith(8, absSumsAVX512F64)
	t32.Widen, t64.Widen = widenWith(8, widenAVX512F32), t64.MulAdd
	t32.Narrow = narrowWith(8, narrowAVX512F32)
	t32.ColSum, t64.ColSum = colSumWith(colSumAVX512F32), colSumWith(colSumAVX512F64)
	t32.MulV, t64.MulV = mulVWith(mulVAVX512F32), mulVWith(mulVAVX512F64)
	t32.MulRows, t64.MulRows = mulRowsWith(mulRowsAVX512F32), mulRowsWith(mulRowsAVX512F64)
	t32.AddDots, t64.AddDots = addDotsWith(addDotsAVX512F32), addDotsWith(addDotsAVX512F64)
	t32.pack, t64.pack = packWith(16, packAVX512F32), packWith(8, packAVX512F64)
	t32.Gather, t64.Gather = gatherWith(gatherAVX512F32), gatherWith(gatherAVX512F64)
	t32.Above, t64.Above = aboveWith(16, aboveAVX512F32), aboveWith(8, aboveAVX512F64)
}

// normStep divides the length of the rows that the kernels of Norm2 and Norms take. The reference adds the rest.
const normStep = 16

func norm2With[T dense.Float](kernel func(x *T, n int) float64) func([]T) float64 {
	return func(x []T) float64 {
		var s float64
		for len(x) >= normStep {
			n := min(len(x)-len(x)%normStep, callElements)
			s += kernel(&x[0], n)
			x = x[n:]
		}
		return s + norm2(x)
	}
}

func normsWith[T dense.Float](single func([]T) float64, kernel func(dst *float64, a *T,
	rows, cols, stride int)) func([]float64, dense.Matrix[T]) {
	return func(dst []float64, a dense.Matrix[T]) {
		checkView("a", a)
		if len(dst) != a.Rows {
			panic("kern: Norms of different shapes")
		}
		whole := a.Cols - a.Cols%normStep
		if whole == 0 || whole > callElements {
			for i := range dst {
				dst[i] = single(a.Row(i))
			}
			return
		}
		if a.IsEmpty() {
			return
		}
		raceRead(a)
		eachRows(a, func(i, n, stride int) { kernel(&dst[i], &a.Data[i*a.Stride], n, whole, stride) })
		if whole < a.Cols {
			for i := range dst {
				dst[i] += norm2(a.Row(i)[whole:])
			}
		}
	}
}

func mulWith[T dense.Float](lanes int, kernel func(dst, a *T, n int)) func(dst, a []T) {
	return func(dst, a []T) {
		a = a[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst)-len(dst)%lanes, callElements)
			kernel(&dst[0], &a[0], n)
			dst, a = dst[n:], a[n:]
		}
		mul(dst, a)
	}
}

func scaleWith[T dense.Float](lanes int, kernel func(dst *T, n int, f T)) func(dst []T, f T) {
	return func(dst []T, f T) {
		for len(dst) >= lanes {
			n := min(len(dst)-len(dst)%lanes, callElements)
			kernel(&dst[0], n, f)
			dst = dst[n:]
		}
		scale(dst, f)
	}
}

func mulAddWith[T dense.Float](lanes int, kernel func(dst, a *T, n int, f T)) func(dst, a []T, f T) {
	return func(dst, a []T, f T) {
		a = a[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst)-len(dst)%lanes, callElements)
			raceRead(asRow(a[:n]))
			raceWrite(asRow(dst[:n]))
			kernel(&dst[0], &a[0], n, f)
			dst, a = dst[n:], a[n:]
		}
		mulAdd(dst, a, f)
	}
}

func absSumsWith[T dense.Float](lanes int, kernel func(dst, a, u *T, rows, cols, stride int)) func([]T, dense.Matrix[T],
	[]T) {
	return func(dst []T, a dense.Matrix[T], u []T) {
		checkAbsSums(dst, a, u)
		checkView("a", a)
		raceRead(a)
		if len(u) == 0 || len(u) > callElements {
			absSums(dst, a, u)
			return
		}
		most := max(lanes, callElements/len(u)/lanes*lanes)
		size := int(unsafe.Sizeof(T(0)))
		j := 0
		for len(dst)-j >= lanes {
			n := min((len(dst)-j)/lanes*lanes, most)
			kernel(&dst[j], &a.Data[j], &u[0], len(u), n, a.Stride*size)
			j += n
		}
		if j < len(dst) {
			absSums(dst[j:], a.ColRange(j, a.Cols), u)
		}
	}
}

func widenWith(lanes int, kernel func(dst *float64, a *float32, n int, f float64)) func([]float64, []float32, float64) {
	return func(dst []float64, a []float32, f float64) {
		a = a[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst)-len(dst)%lanes, callElements)
			raceRead(asRow(a[:n]))
			raceWrite(asRow(dst[:n]))
			kernel(&dst[0], &a[0], n, f)
			dst, a = dst[n:], a[n:]
		}
		widen(dst, a, f)
	}
}

func narrowWith(lanes int, kernel func(dst *float32, a *float64, n int, f float64)) func([]float32, []float64,
	float64) {
	return func(dst []float32, a []float64, f float64) {
		a = a[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst)-len(dst)%lanes, callElements)
			raceRead(asRow(a[:n]))
			raceWrite(asRow(dst[:n]))
			kernel(&dst[0], &a[0], n, f)
			dst, a = dst[n:], a[n:]
		}
		narrow(dst, a, f)
	}
}

// colSumWith sums rows in several calls: between them the sums rest in dst.
func colSumWith[T dense.Float](kernel func(dst, a *T, rows, cols, stride int)) func(dst []T, a dense.Matrix[T]) {
	return func(dst []T, a dense.Matrix[T]) {
		checkView("a", a)
		if len(dst) != a.Cols {
			panic("kern: ColSum of different shapes")
		}
		if a.IsEmpty() {
			return
		}
		raceRead(a)
		raceWrite(asRow(dst))
		eachRows(a, func(i, n, stride int) { kernel(&dst[0], &a.Data[i*a.Stride], n, a.Cols, stride) })
	}
}

func mulVWith[T dense.Float](kernel func(dst, a *T, rows, cols, stride int, v *T)) func(dst []T, a dense.Matrix[T],
	v []T) {
	return func(dst []T, a dense.Matrix[T], v []T) {
		checkView("a", a)
		if len(dst) != a.Rows || len(v) != a.Cols {
			panic("kern: MulV of different shapes")
		}
		if a.IsEmpty() {
			clear(dst)
			return
		}
		raceRead(a)
		raceRead(asRow(v))
		raceWrite(asRow(dst))
		eachRows(a, func(i, n, stride int) { kernel(&dst[i], &a.Data[i*a.Stride], n, a.Cols, stride, &v[0]) })
	}
}

func mulRowsWith[T dense.Float](kernel func(sum, dst, a, b *T, rows, cols, strideDst, strideA, strideB int)) func(
	sum []T, dst, a, b dense.Matrix[T]) {
	return func(sum []T, dst, a, b dense.Matrix[T]) {
		checkView("dst", dst)
		checkView("a", a)
		checkView("b", b)
		checkMulRows(sum, dst, a, b)
		if a.IsEmpty() {
			clear(sum)
			return
		}
		raceRead(a)
		raceRead(b)
		raceWrite(dst)
		raceWrite(asRow(sum))
		size := int(unsafe.Sizeof(T(0)))
		eachRows(a, func(i, n, stride int) {
			kernel(&sum[i], &dst.Data[i*dst.Stride], &a.Data[i*a.Stride], &b.Data[i*b.Stride], n, a.Cols,
				dst.Stride*size, stride, b.Stride*size)
		})
	}
}

func addDotsWith[T dense.Float](kernel func(dst, z, a, b *T, rows, cols, strideA, strideB int)) func(dst, z []T,
	a, b dense.Matrix[T]) {
	return func(dst, z []T, a, b dense.Matrix[T]) {
		checkView("a", a)
		checkView("b", b)
		checkAddDots(dst, z, a, b)
		if a.IsEmpty() {
			clear(dst)
			return
		}
		raceRead(a)
		raceRead(b)
		raceWrite(asRow(z))
		raceWrite(asRow(dst))
		eachRows(a, func(i, n, stride int) {
			kernel(&dst[i], &z[0], &a.Data[i*a.Stride], &b.Data[i*b.Stride], n, a.Cols, stride,
				b.Stride*int(unsafe.Sizeof(T(0))))
		})
	}
}

func gatherWith[T dense.Float](kernel func(dst, src *T, rows *int32, n, cols, strideDst, strideSrc int)) func(dst,
	src dense.Matrix[T], rows []int32) {
	return func(dst, src dense.Matrix[T], rows []int32) {
		checkView("dst", dst)
		checkView("src", src)
		checkGather(dst, src, rows)
		if dst.IsEmpty() {
			return
		}
		raceRead(src)
		raceWrite(dst)
		size := int(unsafe.Sizeof(T(0)))
		eachRows(dst, func(i, n, stride int) {
			kernel(&dst.Data[i*dst.Stride], &src.Data[0], &rows[i], n, dst.Cols, stride, src.Stride*size)
		})
	}
}

func aboveWith[T dense.Float](lanes int, kernel func(dst *int32, x *T, n, first int, low T) int) func(dst []int32,
	x []T, low T) int {
	return func(dst []int32, x []T, low T) int {
		dst = dst[:len(x)]
		at, i := 0, 0
		for len(x)-i >= lanes {
			n := min((len(x)-i)/lanes*lanes, callElements)
			raceRead(asRow(x[i : i+n]))
			at += kernel(&dst[at], &x[i], n, i, low)
			i += n
		}
		for ; i < len(x); i++ {
			if x[i] >= low {
				dst[at] = int32(i)
				at++
			}
		}
		return at
	}
}

// eachRows calls f on n rows from i on, so many that one call stays short, with their distance in bytes.
func eachRows[T dense.Float](a dense.Matrix[T], f func(i, n, stride int)) {
	step := max(4, callElements/a.Cols)
	for i := 0; i < a.Rows; i += step {
		f(i, min(step, a.Rows-i), a.Stride*int(unsafe.Sizeof(T(0))))
	}
}

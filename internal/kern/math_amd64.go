//go:build amd64 && !noasm

package kern

import (
	"math"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// Elementwise functions and transforms of the amd64 tables; _gen/math and _gen/fwht describe the methods. Largest
// errors in ulp, float32 over every 13th argument, float64 over random and hard ones (math_test.go measures and bounds
// them):
//
//	           AVX-512        AVX2
//	           f32    f64     f32    f64
//	exp        1.00   1.27    0.89   0.84
//	exp2       0.99   1.25    0.95   0.87
//	log        0.83   0.82    0.83   0.82
//	sin        1.18   1.65    1.18   1.65
//	cos        1.20   1.63    1.20   1.63
//	FWHT       equal to the reference bit for bit
//
// Special cases are those of package math. Subnormal arguments and results keep the bounds and cost no assists. A
// result depends on its argument alone, never on its place in the slice.

// callElements bounds one call of an assembly function, which cannot be preempted, to some 50 µs.
const callElements = 1 << 15

// mathAVX512 replaces the elementwise functions and the transforms of tables for CPUs with AVX-512 F, DQ, BW and VL.
func mathAVX512(t32 *Table[float32], t64 *Table[float64]) {
	t32.Exp, t64.Exp = expWith[float32](avx512F32), expWith[float64](avx512F64)
	t32.ExpSum, t64.ExpSum = expSumWith[float32](avx512F32), expSumWith[float64](avx512F64)
	t32.ExpRows, t64.ExpRows = expRowsWith(t32, avx512F32), expRowsWith(t64, avx512F64)
	t32.Exp2, t64.Exp2 = exp2With(exp2AVX512F32), exp2With(exp2AVX512F64)
	t32.Log, t64.Log = logWith(logAVX512F32), logWith(logAVX512F64)
	t32.SinCos, t64.SinCos = sinCosWith(sinCosAVX512F32), sinCosWith(sinCosAVX512F64)
	t32.Max, t64.Max = maxWith(maxAVX512F32), maxWith(maxAVX512F64)
	t32.FlushMax, t64.FlushMax = flushMaxWith(flushMaxAVX512F32), flushMaxWith(flushMaxAVX512F64)
	t32.RowMax, t64.RowMax = rowMaxWith(rowMaxAVX512F32), rowMaxWith(rowMaxAVX512F64)
	t32.FWHT = fwht[float32]{16, 16, fwhtBlockAVX512F32, fwhtPassAVX512F32}.transform
	t64.FWHT = fwht[float64]{8, 16, fwhtBlockAVX512F64, fwhtPassAVX512F64}.transform
}

// mathAVX2 is mathAVX512 for CPUs with AVX2 and FMA.
func mathAVX2(t32 *Table[float32], t64 *Table[float64]) {
	t32.Exp, t64.Exp = expWith[float32](avx2F32), expWith[float64](avx2F64)
	t32.ExpSum, t64.ExpSum = expSumWith[float32](avx2F32), expSumWith[float64](avx2F64)
	t32.ExpRows, t64.ExpRows = expRowsWith(t32, avx2F32), expRowsWith(t64, avx2F64)
	t32.Exp2, t64.Exp2 = exp2With(exp2AVX2F32), exp2With(exp2AVX2F64)
	t32.Log, t64.Log = logWith(logAVX2F32), logWith(logAVX2F64)
	t32.SinCos, t64.SinCos = sinCosWith(sinCosAVX2F32), sinCosWith(sinCosAVX2F64)
	t32.Max, t64.Max = maxWith(maxAVX2F32), maxWith(maxAVX2F64)
	t32.FlushMax, t64.FlushMax = flushMaxWith(flushMaxAVX2F32), flushMaxWith(flushMaxAVX2F64)
	t32.RowMax, t64.RowMax = rowMaxWith(rowMaxAVX2F32), rowMaxWith(rowMaxAVX2F64)
	t32.FWHT = fwht[float32]{8, 8, fwhtBlockAVX2F32, fwhtPassAVX2F32}.transform
	t64.FWHT = fwht[float64]{4, 8, fwhtBlockAVX2F64, fwhtPassAVX2F64}.transform
}

// asRow is x as a matrix.
func asRow[T dense.Float](x []T) dense.Matrix[T] {
	return dense.Matrix[T]{Rows: 1, Cols: len(x), Stride: len(x), Data: x}
}

func expWith[T dense.Float](id target) func([]T, T) {
	return func(dst []T, shift T) {
		for len(dst) > 0 {
			n := min(len(dst), callElements)
			raceWrite(asRow(dst[:n]))
			id.exp(data(dst), n, unsafe.Pointer(&shift), 1, 0)
			dst = dst[n:]
		}
	}
}

func expSumWith[T dense.Float](id target) func([]T, T) T {
	return func(dst []T, shift T) T {
		var s, part T
		for len(dst) > 0 {
			n := min(len(dst), callElements)
			raceWrite(asRow(dst[:n]))
			id.expSum(data(dst), n, unsafe.Pointer(&shift), unsafe.Pointer(&part), 1, 0)
			s += part
			dst = dst[n:]
		}
		return s
	}
}

// expRowsWith has the bits of ExpSum, which serves rows too long for one call.
func expRowsWith[T dense.Float](t *Table[T], id target) func(sum []T, a dense.Matrix[T], shift []T) {
	return func(sum []T, a dense.Matrix[T], shift []T) {
		checkView("a", a)
		if a.IsEmpty() || a.Cols > callElements || len(sum) != a.Rows || len(shift) != a.Rows {
			expSumRows(t, sum, a, shift)
			return
		}
		raceRead(asRow(shift))
		raceWrite(a)
		raceWrite(asRow(sum))
		eachRows(a, func(i, n, stride int) {
			id.expSum(data(a.Data[i*a.Stride:]), a.Cols, data(shift[i:]), data(sum[i:]), n, stride)
		})
	}
}

// exp sets c = exp(c − shift) for rows rows of cols columns, stride bytes apart, with one shift per row. Direct calls
// keep the arguments on the stack.
func (id target) exp(c unsafe.Pointer, cols int, shift unsafe.Pointer, rows, stride int) {
	switch id {
	case avx512F32:
		expAVX512F32((*float32)(c), cols, (*float32)(shift), rows, stride)
	case avx512F64:
		expAVX512F64((*float64)(c), cols, (*float64)(shift), rows, stride)
	case avx2F32:
		expAVX2F32((*float32)(c), cols, (*float32)(shift), rows, stride)
	case avx2F64:
		expAVX2F64((*float64)(c), cols, (*float64)(shift), rows, stride)
	}
}

// expSum is exp with the sums of the rows.
func (id target) expSum(c unsafe.Pointer, cols int, shift, sum unsafe.Pointer, rows, stride int) {
	switch id {
	case avx512F32:
		expSumAVX512F32((*float32)(c), cols, (*float32)(shift), (*float32)(sum), rows, stride)
	case avx512F64:
		expSumAVX512F64((*float64)(c), cols, (*float64)(shift), (*float64)(sum), rows, stride)
	case avx2F32:
		expSumAVX2F32((*float32)(c), cols, (*float32)(shift), (*float32)(sum), rows, stride)
	case avx2F64:
		expSumAVX2F64((*float64)(c), cols, (*float64)(shift), (*float64)(sum), rows, stride)
	}
}

func exp2With[T dense.Float](kernel func(dst *T, cols int, shift *T, rows, stride int)) func([]T) {
	zero := new(T)
	return func(dst []T) {
		for len(dst) > 0 {
			n := min(len(dst), callElements)
			raceWrite(asRow(dst[:n]))
			kernel(&dst[0], n, zero, 1, 0)
			dst = dst[n:]
		}
	}
}

func logWith[T dense.Float](kernel func(dst *T, n int)) func([]T) {
	return func(dst []T) {
		for len(dst) > 0 {
			n := min(len(dst), callElements)
			raceWrite(asRow(dst[:n]))
			kernel(&dst[0], n)
			dst = dst[n:]
		}
	}
}

// trigLimit is the largest |t| that the kernels of sin and cos reduce.
const trigLimit = 1e5

// sinCosWith completes a kernel that stops before vectors with a |t| > trigLimit. Such a vector goes through the kernel
// with zeros in place of the large elements, which are then computed in Go. Their neighbours therefore get the same
// bits as elsewhere.
func sinCosWith[T dense.Float](kernel func(sin, cos, t *T, n int) int) func(sin, cos, t []T) {
	return func(sin, cos, t []T) {
		sin, cos = sin[:len(t)], cos[:len(t)]
		if len(t) > 0 {
			raceRead(asRow(t))
			raceWrite(asRow(sin))
			raceWrite(asRow(cos))
		}
		for len(t) > 0 {
			n := kernel(&sin[0], &cos[0], &t[0], min(len(t), callElements))
			if n == 0 {
				var large [32]T
				n = copy(large[:], t)
				for i, v := range large[:n] {
					if v > trigLimit || v < -trigLimit {
						v = 0
					}
					sin[i] = v
				}
				kernel(&sin[0], &cos[0], &sin[0], n)
				for i, v := range large[:n] {
					if v > trigLimit || v < -trigLimit {
						s, c := sinCosLarge(float64(v))
						sin[i], cos[i] = T(s), T(c)
					}
				}
			}
			sin, cos, t = sin[n:], cos[n:], t[n:]
		}
	}
}

func maxWith[T dense.Float](kernel func(x *T, n int) T) func([]T) T {
	return func(x []T) T {
		m := T(math.Inf(-1))
		for len(x) > 0 {
			n := min(len(x), callElements)
			raceRead(asRow(x[:n]))
			v := kernel(&x[0], n)
			if v == 0 {
				v = zeroSign(x[:n])
			}
			m = max(m, v)
			x = x[n:]
		}
		return m
	}
}

func flushMaxWith[T dense.Float](kernel func(x *T, n int) T) func([]T) T {
	flush := maxWith(kernel)
	return func(x []T) T {
		raceWrite(asRow(x))
		return flush(x)
	}
}

func rowMaxWith[T dense.Float](kernel func(dst, x *T, rows, cols, stride int)) func(dst []T, a dense.Matrix[T]) {
	return func(dst []T, a dense.Matrix[T]) {
		checkView("a", a)
		if len(dst) != a.Rows {
			panic("kern: RowMax of different shapes")
		}
		if a.IsEmpty() {
			for i := range dst {
				dst[i] = T(math.Inf(-1))
			}
			return
		}
		raceRead(a)
		raceWrite(asRow(dst))
		eachRows(a, func(i, n, stride int) { kernel(&dst[i], &a.Data[i*a.Stride], n, a.Cols, stride) })
		for i, v := range dst {
			if v == 0 {
				dst[i] = zeroSign(a.Row(i))
			}
		}
	}
}

// zeroSign is the larger zero of x: +0 if there is one. VMAXPS does not distinguish the two zeros.
func zeroSign[T dense.Float](x []T) T {
	for _, v := range x {
		if v == 0 && !math.Signbit(float64(v)) {
			return v
		}
	}
	return T(math.Copysign(0, -1))
}

// fwht is the Walsh–Hadamard transform from two kernels.
type fwht[T dense.Float] struct {
	lanes, radix int
	// block transforms n elements; if n exceeds lanes·radix, it transforms blocks of that size.
	block func(x *T, n int)
	// pass transforms over radix elements that are h apart, for count neighbours.
	pass func(x *T, h, count, radix int)
}

// transform equals FWHT bit for bit: all butterflies have the same operands, only their order in time differs. Large
// arrays are split so that each part is finished while it is in cache.
func (f fwht[T]) transform(x []T) {
	n := len(x)
	if n < f.lanes {
		FWHT(x)
		return
	}
	h := min(n, f.lanes*f.radix)
	const part = 1 << 12
	if n > part {
		h = n / f.radix
		h = max(h, part)
		for i := 0; i < n; i += h {
			f.transform(x[i : i+h])
		}
	} else {
		raceWrite(asRow(x))
		f.block(&x[0], n)
	}
	for h < n {
		r := min(f.radix, n/h)
		for i := 0; i < n; i += r * h {
			for j := 0; j < h; j += callElements / f.radix {
				f.pass(&x[i+j], h, min(h-j, callElements/f.radix), r)
			}
		}
		h *= r
	}
}

//go:build amd64 && !noasm

package kern

import "github.com/randfeat/randfeat/dense"

//go:noescape
func norm2AVX2F32(x *float32, n int) float64

//go:noescape
func norm2AVX2F64(x *float64, n int) float64

//go:noescape
func mulAVX2F32(dst, a *float32, n int)

//go:noescape
func mulAVX2F64(dst, a *float64, n int)

//go:noescape
func scaleAVX2F32(dst *float32, n int, f float32)

//go:noescape
func scaleAVX2F64(dst *float64, n int, f float64)

// vectorAVX2 replaces the plain vector operations. Whole vectors go to assembly and the rest to the reference: products
// round alike in both.
func vectorAVX2(t32 *Table[float32], t64 *Table[float64]) {
	t32.Norm2, t64.Norm2 = norm2With(norm2AVX2F32), norm2With(norm2AVX2F64)
	t32.Mul, t64.Mul = mulWith(8, mulAVX2F32), mulWith(4, mulAVX2F64)
	t32.Scale, t64.Scale = scaleWith(8, scaleAVX2F32), scaleWith(4, scaleAVX2F64)
}

func norm2With[T dense.Float](kernel func(x *T, n int) float64) func([]T) float64 {
	return func(x []T) float64 {
		const step = 16
		var s float64
		for len(x) >= step {
			n := min(len(x)-len(x)%step, callElements)
			s += kernel(&x[0], n)
			x = x[n:]
		}
		return s + norm2(x)
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

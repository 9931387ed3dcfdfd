// Package kern holds the array primitives under every feature map, as tables of functions.
//
// [Reference] in plain Go is the definition. Faster tables replace entries, never meanings; a map picks its
// table once.
package kern

import (
	"math"
	"math/bits"

	"github.com/randfeat/randfeat/dense"
)

// Table is one implementation of the primitives.
type Table[T dense.Float] struct {
	Name   string
	MulT   func(dst, x, w dense.Matrix[T]) // dst = x·wᵀ
	Exp    func(dst []T, shift T)          // dst_i = exp(dst_i - shift)
	SinCos func(sin, cos, t []T)           // t is left alone unless it is sin or cos itself
	Max    func(x []T) T                   // -Inf for no elements; NaN if one is NaN
	FWHT   func(x []T)                     // in place, Sylvester order, not normalised; len(x) a power of two
}

// Best is the fastest table of this machine.
func Best[T dense.Float]() *Table[T] { return Reference[T]() }

// Reference is the plain Go table.
func Reference[T dense.Float]() *Table[T] {
	return &Table[T]{Name: "go", MulT: mulT[T], Exp: exp[T], SinCos: sinCos[T], Max: maxOf[T], FWHT: FWHT[T]}
}

// mulT computes four columns at a time: one load of x_k serves four products.
func mulT[T dense.Float](dst, x, w dense.Matrix[T]) {
	for i := range x.Rows {
		xi, di := x.Row(i), dst.Row(i)
		j := 0
		for ; j+4 <= w.Rows; j += 4 {
			w0, w1, w2, w3 := w.Row(j)[:len(xi)], w.Row(j + 1)[:len(xi)], w.Row(j + 2)[:len(xi)], w.Row(j + 3)[:len(xi)]
			var s0, s1, s2, s3 T
			for k, v := range xi {
				s0 += v * w0[k]
				s1 += v * w1[k]
				s2 += v * w2[k]
				s3 += v * w3[k]
			}
			di[j], di[j+1], di[j+2], di[j+3] = s0, s1, s2, s3
		}
		for ; j < w.Rows; j++ {
			di[j] = dense.Dot(xi, w.Row(j))
		}
	}
}

func exp[T dense.Float](dst []T, shift T) {
	for i, v := range dst {
		dst[i] = T(math.Exp(float64(v - shift)))
	}
}

func sinCos[T dense.Float](sin, cos, t []T) {
	for i, v := range t {
		s, c := math.Sincos(float64(v))
		sin[i], cos[i] = T(s), T(c)
	}
}

func maxOf[T dense.Float](x []T) T {
	m := T(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

// FWHT is the unnormalised Walsh–Hadamard transform in Sylvester order, in place. len(x) is a power of two.
// Two butterfly levels are fused, which halves the memory traffic.
func FWHT[T dense.Float](x []T) {
	n := len(x)
	h := 1
	if bits.TrailingZeros(uint(n))%2 == 1 {
		for i := 0; i < n; i += 2 {
			x[i], x[i+1] = x[i]+x[i+1], x[i]-x[i+1]
		}
		h = 2
	}
	for ; h < n; h *= 4 {
		for i := 0; i < n; i += 4 * h {
			a, b, c, d := x[i:i+h], x[i+h:i+2*h], x[i+2*h:i+3*h], x[i+3*h:i+4*h]
			for j := range a {
				p, q := a[j]+b[j], a[j]-b[j]
				r, s := c[j]+d[j], c[j]-d[j]
				a[j], b[j], c[j], d[j] = p+r, q+s, p-r, q-s
			}
		}
	}
}

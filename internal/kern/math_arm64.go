//go:build arm64 && !noasm

package kern

import (
	"math"

	"github.com/randfeat/randfeat/dense"
)

// Elementwise functions of the NEON table. _gen/neon tells the methods. Largest errors in ulp, for sin and cos up to
// 1e5: in float32 over all arguments, by a C model of the same operations (not kept; its bits were those of the
// kernels on 600 000 arguments under emulation); in float64 over random and hard arguments, so a larger one may exist.
// math_test.go checks the bound of 2. Beyond 1e5 sinCosLarge serves; there float64 had 1.372 (sin) and 1.587 (cos) in
// that test:
//
//	        exp    exp2   log    sin    cos
//	f32     1.014  0.949  0.840  1.533  1.533
//	f64     0.997  0.960  0.727  1.285  1.369
//
// Instructions per vector of the main loops (4 float32 or 2 float64; no time can be measured under emulation):
//
//	        exp    exp2   log    sin and cos
//	f32     29.8   27.8   42.5   43.3
//	f64     40.0   37.8   48.5   56.5
//
// Special cases are those of package math. Subnormal arguments and results keep the bounds; the rounding mode register
// (FPCR) is left alone. A result depends on its argument alone, never on its place in the slice.

// neonVectors bounds the vectors of one call, since assembly cannot be preempted.
const neonVectors = 4096

// neonLimit is the largest |t| whose reduction the sine kernel does itself.
const neonLimit = 1e5

// expNEON is Exp: whole vectors in place, the rest in a padded vector, so that equal inputs give equal bits anywhere.
func expNEON[T dense.Float](dst []T, shift T) {
	lanes := neonLanes[T]()
	for len(dst) >= lanes {
		v := min(len(dst)/lanes, neonVectors)
		expVectors(&dst[0], v, shift)
		dst = dst[v*lanes:]
	}
	if len(dst) > 0 {
		var b [4]T
		copy(b[:], dst)
		expVectors(&b[0], 1, shift)
		copy(dst, b[:])
	}
}

func expVectors[T dense.Float](x *T, vectors int, shift T) {
	if is32[T]() {
		expNEONF32(asF32(x), vectors, float32(shift))
	} else {
		expNEONF64(asF64(x), vectors, float64(shift))
	}
}

func exp2NEON[T dense.Float](dst []T) {
	lanes := neonLanes[T]()
	for len(dst) >= lanes {
		v := min(len(dst)/lanes, neonVectors)
		exp2Vectors(&dst[0], v)
		dst = dst[v*lanes:]
	}
	if len(dst) > 0 {
		var b [4]T
		copy(b[:], dst)
		exp2Vectors(&b[0], 1)
		copy(dst, b[:])
	}
}

func exp2Vectors[T dense.Float](x *T, vectors int) {
	if is32[T]() {
		exp2NEONF32(asF32(x), vectors)
	} else {
		exp2NEONF64(asF64(x), vectors)
	}
}

func logNEON[T dense.Float](dst []T) {
	lanes := neonLanes[T]()
	for len(dst) >= lanes {
		v := min(len(dst)/lanes, neonVectors)
		logVectors(&dst[0], v)
		dst = dst[v*lanes:]
	}
	if len(dst) > 0 {
		var b [4]T
		copy(b[:], dst)
		logVectors(&b[0], 1)
		copy(dst, b[:])
	}
}

func logVectors[T dense.Float](x *T, vectors int) {
	if is32[T]() {
		logNEONF32(asF32(x), vectors)
	} else {
		logNEONF64(asF64(x), vectors)
	}
}

// sinCosNEON is SinCos. A vector with an element beyond 1e5, an infinity or NaN is done apart.
func sinCosNEON[T dense.Float](sin, cos, t []T) {
	lanes := neonLanes[T]()
	sin, cos = sin[:len(t)], cos[:len(t)]
	for i := 0; i < len(t); {
		v := min((len(t)-i)/lanes, neonVectors)
		if v > 0 {
			done := sinCosVectors(&sin[i], &cos[i], &t[i], v)
			i += done * lanes
			if done == v {
				continue
			}
		}
		end := min(i+lanes, len(t))
		sinCosApart(sin[i:end], cos[i:end], t[i:end])
		i = end
	}
}

// sinCosApart is SinCos of up to one vector: elements in range as everywhere, the others one by one to the same bound.
func sinCosApart[T dense.Float](sin, cos, t []T) {
	var in, s, c [4]T
	for i, v := range t {
		if math.Abs(float64(v)) <= neonLimit {
			in[i] = v
		}
	}
	sinCosVectors(&s[0], &c[0], &in[0], 1)
	for i, v := range t {
		if !(math.Abs(float64(v)) <= neonLimit) {
			a, b := sinCosLarge(float64(v))
			s[i], c[i] = T(a), T(b)
		}
	}
	copy(sin, s[:])
	copy(cos, c[:])
}

func sinCosVectors[T dense.Float](sin, cos, t *T, vectors int) int {
	if is32[T]() {
		return sinCosNEONF32(asF32(sin), asF32(cos), asF32(t), vectors)
	}
	return sinCosNEONF64(asF64(sin), asF64(cos), asF64(t), vectors)
}

func maxNEON[T dense.Float](x []T) T {
	lanes := neonLanes[T]()
	m := T(math.Inf(-1))
	for len(x) >= lanes {
		v := min(len(x)/lanes, 8*neonVectors)
		if is32[T]() {
			m = max(m, T(maxNEONF32(asF32(&x[0]), v)))
		} else {
			m = max(m, T(maxNEONF64(asF64(&x[0]), v)))
		}
		x = x[v*lanes:]
	}
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

func mulNEON[T dense.Float](dst, a []T) {
	lanes := neonLanes[T]()
	a = a[:len(dst)]
	for len(dst) >= lanes {
		v := min(len(dst)/lanes, 8*neonVectors)
		if is32[T]() {
			mulNEONF32(asF32(&dst[0]), asF32(&a[0]), v)
		} else {
			mulNEONF64(asF64(&dst[0]), asF64(&a[0]), v)
		}
		dst, a = dst[v*lanes:], a[v*lanes:]
	}
	mul(dst, a)
}

func scaleNEON[T dense.Float](dst []T, f T) {
	lanes := neonLanes[T]()
	for len(dst) >= lanes {
		v := min(len(dst)/lanes, 8*neonVectors)
		if is32[T]() {
			scaleNEONF32(asF32(&dst[0]), v, float32(f))
		} else {
			scaleNEONF64(asF64(&dst[0]), v, float64(f))
		}
		dst = dst[v*lanes:]
	}
	scale(dst, f)
}

// norm2NEON has the eight sums of Reference, and its bits: the compiler fuses v·v + s on arm64.
func norm2NEON[T dense.Float](x []T) float64 {
	var s [8]float64
	for len(x) >= 8 {
		blocks := min(len(x)/8, neonVectors)
		if is32[T]() {
			norm2NEONF32(asF32(&x[0]), blocks, &s[0])
		} else {
			norm2NEONF64(asF64(&x[0]), blocks, &s[0])
		}
		x = x[8*blocks:]
	}
	for i, v := range x {
		s[i] += float64(v) * float64(v)
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

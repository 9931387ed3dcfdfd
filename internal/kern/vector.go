package kern

import "github.com/randfeat/randfeat/dense"

// norm2 sums in float64 whatever the precision of x: row terms enter log scales, where float32 would lose digits.
// Eight partial sums hide the latency of the additions.
func norm2[T dense.Float](x []T) float64 {
	var s [8]float64
	for len(x) >= 8 {
		q := x[:8]
		for i := range s {
			v := float64(q[i])
			s[i] += v * v
		}
		x = x[8:]
	}
	for i, v := range x {
		s[i] += float64(v) * float64(v)
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

func mul[T dense.Float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] *= a[i]
	}
}

func scale[T dense.Float](dst []T, f T) {
	for i := range dst {
		dst[i] *= f
	}
}

// mulAdd rounds the product on every platform (the conversion forbids the compiler to fuse it), so that all tables have
// the same bits.
func mulAdd[T dense.Float](dst, a []T, f T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] += T(f * a[i])
	}
}

// widen and narrow round the product too.
func widen[T dense.Float](dst []float64, a []T, f float64) {
	a = a[:len(dst)]
	for i, v := range a {
		dst[i] += float64(f * float64(v))
	}
}

func narrow[T dense.Float](dst []T, a []float64, f float64) {
	a = a[:len(dst)]
	for i, v := range a {
		dst[i] = T(f * v)
	}
}

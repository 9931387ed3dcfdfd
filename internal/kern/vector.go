package kern

import (
	"math"

	"github.com/randfeat/randfeat/dense"
)

// norm2 sums in float64 whatever the precision of x: row terms enter log scales, where float32 would lose digits. Eight
// partial sums hide the latency of the additions.
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

// mulAdd rounds the product on every platform (the conversion keeps the compiler from fusing it), so that all tables
// have the same bits.
func mulAdd[T dense.Float](dst, a []T, f T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] += T(f * a[i])
	}
}

// absSums adds four rows in one pass, one after the other, so that the sums are read a quarter as often.
func absSums[T dense.Float](dst []T, a dense.Matrix[T], u []T) {
	checkAbsSums(dst, a, u)
	clear(dst)
	l, n := 0, len(dst)
	for ; l+4 <= len(u); l += 4 {
		v := u[l : l+4]
		b, c, d, e := a.Row(l)[:n], a.Row(l + 1)[:n], a.Row(l + 2)[:n], a.Row(l + 3)[:n]
		for j, s := range dst {
			s += abs(v[0] - b[j])
			s += abs(v[1] - c[j])
			s += abs(v[2] - d[j])
			dst[j] = s + abs(v[3]-e[j])
		}
	}
	for ; l < len(u); l++ {
		for j, b := range a.Row(l)[:n] {
			dst[j] += abs(u[l] - b)
		}
	}
}

func abs[T dense.Float](v T) T { return T(math.Abs(float64(v))) }

func checkAbsSums[T dense.Float](dst []T, a dense.Matrix[T], u []T) {
	if len(dst) != a.Cols || len(u) != a.Rows {
		panic("kern: AbsSums of different shapes")
	}
}

// widen and narrow round the product as mulAdd does.
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

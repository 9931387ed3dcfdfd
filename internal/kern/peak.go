package kern

import "github.com/randfeat/randfeat/dense"

// Peak runs rounds of independent multiply-adds with the widest registers that t uses and returns the number of
// floating-point operations. Timed, it gives the upper limit of the speed of products. A round takes some 2 ns;
// assembly cannot be preempted, so keep one call below 50 000 rounds.
func Peak[T dense.Float](t *Table[T], rounds int) int {
	_, double := any(T(0)).(float64)
	if n := peak(t.Name, double, rounds); n > 0 || rounds <= 0 {
		return n
	}
	return peakGo[T](rounds)
}

// peakSink keeps the compiler from dropping the loop.
var peakSink float64

func peakGo[T dense.Float](rounds int) int {
	var s0, s1, s2, s3, s4, s5, s6, s7 T
	x, y := T(1), T(peakSink)
	for range rounds {
		s0 += x * y
		s1 += x * y
		s2 += x * y
		s3 += x * y
		s4 += x * y
		s5 += x * y
		s6 += x * y
		s7 += x * y
	}
	if s := s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7; s != 0 {
		peakSink = float64(s)
	}
	return 16 * rounds
}

// Triad sets a = b + s·c and returns the bytes moved, without the reads that writing needs on most CPUs. On slices
// beyond the caches it measures the bandwidth of memory; plain Go is fast enough for that.
func Triad(a, b, c []float64, s float64) int {
	b, c = b[:len(a)], c[:len(a)]
	for i := range a {
		a[i] = b[i] + s*c[i]
	}
	return 24 * len(a)
}

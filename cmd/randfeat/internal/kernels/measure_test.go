package kernels

import (
	"math"
	"strconv"
	"testing"
)

// Whatever the magnitudes and their order, the sums are those of exact arithmetic.
func TestErrorSumsFarApart(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs [][4]float64 // value, log scale, sign, log kernel
		want  float64      // Frobenius
	}{
		{"tiny first", [][4]float64{{0.1, 0, 1, -800}, {1, 0, 1, 0}}, 0.1},
		{"tiny last", [][4]float64{{1, 0, 1, 0}, {0.1, 0, 1, -800}}, 0.1},
		{"tiny estimate", [][4]float64{{1, -900, 1, 0}}, 1},
		{"no estimate", [][4]float64{{0, 0, 1, -800}}, 1},
		{"exact", [][4]float64{{1, -800, 1, -800}}, 0},
		{"all tiny, far off", [][4]float64{{1, -700, 1, -800}}, math.Exp(100)},
		{"wrong sign", [][4]float64{{1, 0, -1, 0}}, 2},
		{"zero of the kernel", [][4]float64{{0.5, 0, 1, math.Inf(-1)}, {2, 0, 1, math.Log(2)}}, 0.25},
	} {
		var s errorSums
		for _, p := range c.pairs {
			s.add(p[0], p[1], p[2], p[3])
		}
		if got := s.frobenius(); math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The sums do not depend on the unit they are kept in, nor on how pairs are grouped.
func TestErrorSums(t *testing.T) {
	type pair struct{ value, scale, log float64 }
	pairs := []pair{{1.1, 0, 0}, {0.9, 5, 5}, {2, -300, -300}, {1, 900, 900}, {1.5, 899, 900}}
	var one errorSums
	var parts [2]errorSums
	for i, p := range pairs {
		one.add(p.value, p.scale, 1, p.log)
		parts[i%2].add(p.value, p.scale, 1, p.log)
	}
	var two errorSums
	for _, p := range parts {
		two.merge(p)
	}
	want := 0.0
	for _, p := range pairs {
		rel := p.value*math.Exp(p.scale-p.log) - 1
		want += rel * rel
	}
	want = math.Sqrt(want / float64(len(pairs)))
	for _, s := range []errorSums{one, two} {
		if math.Abs(s.rms()-want) > 1e-12 {
			t.Errorf("rms %v, want %v", s.rms(), want)
		}
		// Only the two largest kernels count in the norm: (1.5/e - 1)/√2.
		if f := (1.5/math.E - 1) / math.Sqrt2; math.Abs(s.frobenius()-math.Abs(f)) > 1e-12 {
			t.Errorf("frobenius %v, want %v", s.frobenius(), math.Abs(f))
		}
	}
	if strconv.Itoa(one.pairs) != strconv.Itoa(two.pairs) {
		t.Errorf("%d and %d pairs", one.pairs, two.pairs)
	}
}

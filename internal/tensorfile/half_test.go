package tensorfile

import (
	"math"
	"testing"
)

// Every float16 is sign · 2^(e−15) · 1.f, subnormal or not a number, by the definition of binary16.
func TestHalf(t *testing.T) {
	for b := range 1 << 16 {
		e, f := b>>10&31, float64(b&1023)/1024
		want := math.Ldexp(1+f, e-15)
		switch {
		case e == 0:
			want = math.Ldexp(f, -14)
		case e == 31 && f == 0:
			want = math.Inf(1)
		case e == 31:
			want = math.NaN()
		}
		if b>>15 == 1 {
			want = -want
		}
		got := float64(Half(uint16(b)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) &&
			want == 0 {
			t.Fatalf("%04x is %g, want %g", b, got, want)
		}
		if v := Brain(uint16(b)); math.Float32bits(v) != uint32(b)<<16 {
			t.Fatalf("bfloat16 %04x is %g", b, v)
		}
	}
}

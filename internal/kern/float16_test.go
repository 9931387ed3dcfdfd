package kern

import (
	"math"
	"testing"
)

// Every float16 is sign · 2^(e−15) · 1.f, subnormal or not a number, by the definition of binary16.
func TestFloat(t *testing.T) {
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
		got := float64(FromHalf(uint16(b)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) &&
			want == 0 {
			t.Fatalf("%04x is %g, want %g", b, got, want)
		}
		if v := FromBrain(uint16(b)); math.Float32bits(v) != uint32(b)<<16 {
			t.Fatalf("bfloat16 %04x is %g", b, v)
		}
	}
}

// All halves survive, and rounding is to nearest even.
func TestRound(t *testing.T) {
	for h := range 1 << 16 {
		f := FromHalf(uint16(h))
		if back := ToHalf(f); back != uint16(h) && f == f {
			t.Fatalf("%#x → %v → %#x", h, f, back)
		}
		if h&0x7fff < 0x7c00-1 { // the middle between neighbours goes to the even one
			up := FromHalf(uint16(h + 1))
			if got := ToHalf((f + up) / 2); got != uint16(h+h&1) {
				t.Fatalf("Round(%v) = %#x, want %#x", (f+up)/2, got, h+h&1)
			}
		}
	}
	for v, want := range map[float32]uint16{65519.996: 0x7bff, 65520: 0x7c00, -1e9: 0xfc00, 1e-8: 0, 3e-8: 1} {
		if got := ToHalf(v); got != want {
			t.Errorf("Round(%v) = %#x, want %#x", v, got, want)
		}
	}
}

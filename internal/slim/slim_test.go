package slim

import "testing"

func width[T float32 | float64](x T) int {
	if _, ok := any(x).(float32); ok {
		return 32
	}
	return 64
}

func of[T float32 | float64](x T) int { return Of[func(T) int](width[float32], width[float64])(x) }

func TestOf(t *testing.T) {
	if n, m := of(float32(1)), of(1.0); n != 32 || m != 64 {
		t.Errorf("the functions of float32 and float64 are those of %d and %d bits", n, m)
	}
	if n := testing.AllocsPerRun(100, func() { of(1.0) }); n != 0 {
		t.Errorf("a call allocates %v times, want none", n)
	}
}

package advise

import "testing"

func TestRatio(t *testing.T) {
	for f, want := range map[float64]string{3.617: "3.6", 30.2: "30", 943: "940", 98765: "99000", 2: "2"} {
		if got := ratio(f); got != want {
			t.Errorf("%g is written as %s, want %s", f, got, want)
		}
	}
}

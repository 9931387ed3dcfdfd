package cli

import (
	"testing"
)

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0.0972: "9.7 %", 0.996: "100 %", 1: "100 %", 21.77: "2177 %",
		1.678e13: "1.7e+15 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}

func TestSpeed(t *testing.T) {
	for ratio, want := range map[float64]string{0.418: "2.4 times slower", 3: "3 times faster", 0.97: "as fast",
		1.04: "as fast"} {
		if got := Speed(ratio); got != want {
			t.Errorf("%v: %s, want %s", ratio, got, want)
		}
	}
}

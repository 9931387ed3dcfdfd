package cli

import (
	"fmt"
	"math"
)

// Speed says how a method compares with another that took ratio times as long.
func Speed(ratio float64) string {
	if math.Abs(math.Log(ratio)) < 0.05 {
		return "as fast"
	}
	if ratio < 1 {
		return fmt.Sprintf("%.2g times slower", 1/ratio)
	}
	return fmt.Sprintf("%.2g times faster", ratio)
}

// Percent shows a share with two digits, but 100 % not as 1e+02 %.
func Percent(share float64) string {
	if p := 100 * share; p >= 99.5 && p < 1e4 {
		return fmt.Sprintf("%.0f %%", p)
	}
	return fmt.Sprintf("%.2g %%", 100*share)
}

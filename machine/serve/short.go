package serve

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// short formats a number with five digits, without an exponent if that is readable.
func short(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e9) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', 5, 64)
	}
	digits := max(0, 5-len(strconv.FormatFloat(math.Trunc(math.Abs(v)), 'f', 0, 64)))
	if math.Abs(v) < 1 && v != 0 {
		digits = 4 - int(math.Floor(math.Log10(math.Abs(v))))
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		s = "0"
	}
	return s
}

// show quotes a text for a message, cut to a readable length.
func show[S string | []byte](s S) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q…", s[:40])
	}
	return fmt.Sprintf("%q", s)
}

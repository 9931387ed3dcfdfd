package figure

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// cycles are levels with an order of their own, by their first three letters.
var cycles = []string{"mon tue wed thu fri sat sun", "jan feb mar apr may jun jul aug sep oct nov dec"}

// scales are words of ordered answers; a level may have any of them.
var scales = []string{"none never no very-low low small minor medium mid middle moderate normal large high major very-high yes always",
	"xxs xs s m l xl xxl", "poor bad fair average good very-good excellent", "first second third fourth fifth"}

// InOrder returns levels in the order in which a reader expects them on an axis: days, months, numbers and ordered
// answers in theirs, all others as they are.
func InOrder(levels []string) []string {
	out := slices.Clone(levels)
	for _, rank := range []func(string) (float64, bool){number, among(cycles[0], 3), among(cycles[1], 3),
		among(scales[0], 0), among(scales[1], 0), among(scales[2], 0), among(scales[3], 0)} {
		at := map[string]float64{}
		for _, l := range levels {
			if v, ok := rank(l); ok {
				at[l] = v
			}
		}
		if len(at) == len(levels) {
			slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(at[a], at[b]) })
			return out
		}
	}
	return out
}

// number is the first number of a level: of "10-19", 10.
func number(level string) (float64, bool) {
	below := strings.HasPrefix(level, "<")
	level = strings.TrimLeft(level, "<>=≤≥ ")
	end := strings.IndexFunc(level, func(r rune) bool { return !strings.ContainsRune("0123456789.-+", r) })
	if end < 0 {
		end = len(level)
	}
	if i := strings.IndexByte(level[:end], '-'); i > 0 {
		end = i
	}
	v, err := strconv.ParseFloat(strings.TrimRight(level[:end], "+-"), 64)
	if below {
		v = math.Nextafter(v, math.Inf(-1))
	}
	return v, err == nil
}

// among ranks levels by a list of words, of which the first letters count if n > 0.
func among(words string, n int) func(string) (float64, bool) {
	list := strings.Fields(words)
	return func(level string) (float64, bool) {
		level = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(level)), " ", "-")
		if n > 0 && len(level) > n && strings.Trim(level[:n+1], "abcdefghijklmnopqrstuvwxyz") == "" {
			level = level[:n]
		}
		i := slices.Index(list, level)
		return float64(i), i >= 0
	}
}

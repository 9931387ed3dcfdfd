// Package similar finds the name that was probably meant.
package similar

import "strings"

// Nearest is the name that is most like one that is not there, or empty if none is near: equal but for case and blanks,
// or a few letters off.
func Nearest(name string, names []string) string {
	n := len([]rune(name))
	best, least := "", (n+2)/3+1
	if least < 3 {
		least = 1 + n/3 // c1 is not c2
	}
	for _, other := range names {
		if d := Distance(fold(name), fold(other)); d < least {
			best, least = other, d
		}
	}
	return best
}

// Hint is a clause for an error message about an unknown name, such as " (did you mean trig?)", or empty if no name is
// near.
func Hint(name string, names []string) string {
	if near := Nearest(name, names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

var unimportant = strings.NewReplacer(" ", "", "_", "", "-", "", ".", "")

func fold(s string) string { return unimportant.Replace(strings.ToLower(s)) }

// Distance is the number of letters to insert, delete or change (Levenshtein).
func Distance(a, b string) int {
	to := []rune(b)
	row := make([]int, len(to)+1) // from the letters of a so far to each beginning of b
	for j := range row {
		row[j] = j
	}
	i := 0
	for _, x := range a {
		i++
		corner := row[0]
		row[0] = i
		for j, y := range to {
			d := corner
			if x != y {
				d = 1 + min(corner, row[j], row[j+1])
			}
			corner, row[j+1] = row[j+1], d
		}
	}
	return row[len(to)]
}

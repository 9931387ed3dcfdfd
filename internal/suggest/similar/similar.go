// Package similar finds the name that a user probably meant, for error messages about unknown names and flags.
package similar

import "strings"

// Nearest returns the element of names that is closest to name, or "" if none is close. Case, blanks, underscores,
// hyphens and dots do not count; otherwise about a third of the letters may differ, and none in names of one or two
// letters, where every other name would be close.
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

// Hint returns a clause for an error message about an unknown name, such as " (did you mean trig?)", or "" if no name
// is close.
func Hint(name string, names []string) string {
	if near := Nearest(name, names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// unimportant removes the characters that people leave out or exchange.
var unimportant = strings.NewReplacer(" ", "", "_", "", "-", "", ".", "")

func fold(s string) string { return unimportant.Replace(strings.ToLower(s)) }

// Distance returns the least number of letters to insert, delete or change to turn a into b (Levenshtein 1966).
func Distance(a, b string) int {
	to := []rune(b)
	row := make([]int, len(to)+1) // row[j] is the distance from the letters of a so far to the first j of b
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

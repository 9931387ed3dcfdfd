package figure

import (
	"slices"
	"strings"
	"testing"
)

func TestInOrder(t *testing.T) {
	for given, want := range map[string]string{
		"Tue Sun Sat Mon":          "Mon Tue Sat Sun",
		"sunday monday":            "monday sunday",
		"Oct Jan Dec May":          "Jan May Oct Dec",
		"october march":            "march october",
		"10-19 100+ 1-9 <1":        "<1 1-9 10-19 100+",
		"high low medium":          "low medium high",
		"L S XL M":                 "S M L XL",
		"red green":                "red green",
		"monster sun":              "monster sun",
		"Mon Tue other":            "Mon Tue other",
		"Good Poor Very_good":      "Good Poor Very_good",
		"very-good poor excellent": "poor very-good excellent",
	} {
		if got := InOrder(strings.Fields(given)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", given, got, want)
		}
	}
}

package lab

import (
	"math"
	"testing"
)

// Scores of 3 true and 1 false positives, 4 true and 2 false negatives, by hand.
func TestGLUEScore(t *testing.T) {
	for set, want := range map[string]float64{"SST2": 0.7, "MRPC": 6.0 / 9, "CoLA": 10 / math.Sqrt(4*5*5*6)} {
		if got := glueScore(set, 3, 1, 4, 2); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %g, want %g", set, got, want)
		}
	}
	if got := glueScore("CoLA", 0, 0, 5, 5); got != 0 {
		t.Errorf("one class only: %g", got)
	}
}

package exec

import (
	"testing"

	"github.com/randfeat/randfeat/internal/plan"
)

// A plan function that this package does not run would be found by the first map that uses it, as a panic.
func TestEveryFunctionHasATable(t *testing.T) {
	for f, e := range functions[float64]() {
		if e.log == nil || vjps[float64]()[f] == nil {
			t.Errorf("%v has no entry, or half of one", plan.Fn(f))
		}
		if e.unit && e.flat {
			t.Errorf("%v is both unit and flat: it would be constant", plan.Fn(f))
		}
	}
}

package tabular

import (
	"errors"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/kernel"
)

// Losses of a part are kept for the same setting, kernel and loss on the same rows, and for no other.
func TestPartsAreKept(t *testing.T) {
	o := Options{Learn: learn("class"), Folds: 1}
	c, order := searched(t, waves(600, 1), o)
	at := exactPoint{1, 0.01}
	e := c.exactSearch(order)
	take := func(rows []int, kind kernel.Kind) {
		x, y, targets := c.s.picked(rows)
		if err := errors.Join(e.tries.take(kind), e.tries.reset(x, y, targets)); err != nil {
			t.Fatal(err)
		}
	}
	try := func(squares bool, parts int, at exactPoint) trial {
		ts, err := (&marginTries{e: &e.tries, parts: parts, squares: squares}).try([]exactPoint{at})
		if err != nil || len(ts) != 1 {
			t.Fatalf("%d trials, error %v", len(ts), err)
		}
		return ts[0]
	}
	take(order[:300], kernel.Gaussian)
	first := try(false, 1, at)
	others := map[string]trial{"another loss": try(true, 1, at), "another λ": try(false, 1, exactPoint{1, 1})}
	if kept := len(e.tries.parted); kept != 3 {
		t.Errorf("%d parts kept, want 3", kept)
	}
	whole := try(false, marginParts, at)
	if n := len(first.tie); !slices.Equal(whole.tie[len(whole.tie)-n:], first.tie) || len(e.tries.parted) != 6 {
		t.Errorf("%d parts kept, want 6, or another result of a part that was kept", len(e.tries.parted))
	}
	if err := e.tries.take(kernel.Matern12); err != nil {
		t.Fatal(err)
	}
	others["another kernel"] = try(false, 1, at)
	take(order[300:], kernel.Gaussian)
	others["other rows"] = try(false, 1, at)
	for name, other := range others {
		if slices.Equal(other.tie, first.tie) {
			t.Errorf("%s: the same losses", name)
		}
	}
}

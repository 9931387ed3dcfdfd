package tabular

import (
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
)

// TestScoresAreOfAllRows: models of half of the rows that a scored model has tell how scores rise with rows, and stated
// is what they promise for all.
func TestScoresAreOfAllRows(t *testing.T) {
	src := waves(300, 3)
	for _, target := range []string{"y", "class"} {
		o := Options{Learn: learn(target), Seed: 2, Bandwidth: 1.5, Lambda: 0.1, Folds: 5}
		m, r := mustFit(t, src, o)
		if len(r.Curve) != 3 || r.Curve[0].Share != 0.4 || r.Curve[1].Share != 0.8 || r.Curve[2].Share != 1 {
			t.Fatalf("%s: curve %+v", target, r.Curve)
		}
		half, fold, all := r.Curve[0].Value, r.Curve[1].Value, r.Curve[2].Value
		want := fold + (1-math.Sqrt(0.8))/(math.Sqrt2-1)*(fold-half)
		if math.Abs(all-want) > 1e-12 || r.Scores[0].Value != all || half == fold {
			t.Errorf("%s: %v of two fifths of the rows, %v of four: stated %v and %v, want %v", target, half, fold, all,
				r.Scores[0].Value, want)
		}
		if target == "y" && fold >= half {
			t.Errorf("RMSE %v with half of the rows, %v with all", half, fold)
		}
		if !strings.HasSuffix(m.History.ScoredOn, "extrapolated to all rows") {
			t.Errorf("scored on %q", m.History.ScoredOn)
		}
		again, r2 := mustFit(t, src, o)
		if r2.Curve[0] != r.Curve[0] || len(again.Weights.Data) != len(m.Weights.Data) {
			t.Errorf("%s: curves %+v and %+v of the same fit", target, r.Curve, r2.Curve)
		}
	}
}

// Groups, times and random features are scored as they are.
func TestScoresWithoutACurve(t *testing.T) {
	src := waves(120, 3)
	for name, o := range map[string]Options{
		"groups":          {Learn: learn("y"), Marks: data.MarkColumns{Group: "class"}, Folds: 2},
		"times":           {Learn: learn("y"), Marks: data.MarkColumns{Time: "a"}},
		"random features": {Learn: learn("y"), Map: MapRandom, Features: 64},
		"few rows":        {Learn: learn("y")},
	} {
		o.Seed, o.Bandwidth, o.Lambda = 2, 1.5, 0.1
		from := data.Source(src)
		if name == "few rows" {
			from = waves(45, 3)
		}
		_, r := mustFit(t, from, o)
		if len(r.Scores) == 0 || r.Curve != nil || strings.Contains(r.ScoredOn, "continued") {
			t.Errorf("%s: %d scores of %s, curve %+v", name, len(r.Scores), r.ScoredOn, r.Curve)
		}
	}
}

// Halves share no row, and have all of them.
func TestHalves(t *testing.T) {
	n := 0
	for i := range int64(1000) {
		if inHalf(7, i, 1) == inHalf(7, i, 2) {
			t.Fatalf("row %d is in both halves or in none", i)
		}
		if inHalf(7, i, 1) {
			n++
		}
	}
	if n < 440 || n > 560 {
		t.Errorf("%d of 1000 rows in the first half", n)
	}
	s := foldSource{deal: newDealer(7, nil), k: 1, last: 1, parts: 5, half: 1}
	inside := s
	inside.inside = true
	held := 0
	for i := range int64(1000) {
		if s.has(i) && (inside.has(i) || !inHalf(7, i, 1)) {
			t.Fatalf("a model of half of the rows learns row %d", i)
		}
		if inside.has(i) {
			held++
		}
	}
	if held != 200 {
		t.Errorf("%d rows are scored, want 200", held)
	}
}

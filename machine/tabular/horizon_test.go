package tabular

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
)

// drifting is a random walk, sampled in time: what is known of it is worth the less the longer ago it was.
func drifting(n int) *numbers {
	rng := rand.New(rand.NewPCG(9, 1))
	s := &numbers{names: []string{"t", "x", "y"}}
	level := 0.0
	for i := range n {
		level += 0.1 * rng.NormFloat64()
		x := rng.NormFloat64()
		s.rows = append(s.rows, []float64{float64(i), x, x + level})
	}
	return s
}

// TestHorizon: a model that is scored a horizon ahead has not seen the rows within it.
func TestHorizon(t *testing.T) {
	src := drifting(400)
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Marks: data.MarkColumns{Time: "t"}, Seed: 1,
		Keep: []string{"t"}, Bandwidth: 2, Lambda: 0.1, Horizon: 40}
	_, far, err := Fit(context.Background(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(far.ScoredOn, "at least 40 earlier") {
		t.Errorf("scored on %s", far.ScoredOn)
	}
	o.Horizon = 0
	_, next, err := Fit(context.Background(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	if far.Scores[0].Value <= next.Scores[0].Value {
		t.Errorf("RMSE %g a horizon ahead, %g at once", far.Scores[0].Value, next.Scores[0].Value)
	}
	// By hand: which rows a model of the last stretch learns from.
	marks, err := o.Marks.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	d := newDealer(1, marks)
	d.horizon = 40
	parts := d.parts(5)
	f := &frame{job: &job{deal: d}, s: &sample{ordered: true, rows: make([]int64, 400)}, folds: parts,
		fold: [][]int{make([]int, 400)}}
	for i := range f.s.rows {
		f.s.rows[i], f.fold[0][i] = int64(i), d.of(int64(i), parts)
	}
	first := d.deal(parts).from[parts-2]
	_, from := f.rows(0, parts-1)
	for i := range 400 {
		if want := float64(i) <= first-40; slices.Contains(from, i) != want {
			t.Fatalf("row %d of a stretch from %g: learned from %v", i, first, !want)
		}
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		o.Horizon = bad
		if _, _, err := Fit(context.Background(), src, o); err == nil || !strings.Contains(err.Error(), "horizon") {
			t.Errorf("%g: %v", bad, err)
		}
	}
	o.Horizon = 1000
	if _, _, err := Fit(context.Background(), src, o); err == nil || !strings.Contains(err.Error(), "smaller one") {
		t.Error(err)
	}
}

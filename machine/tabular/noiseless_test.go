package tabular

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// sines are n rows of normal columns a, b, c and y = f(a, b, c), without noise; every third row repeats one before it
// if repeated.
func sines(n int, seed uint64, repeated bool, f func(x []float64) float64) *numbers {
	r := rand.New(rand.NewPCG(seed, 2))
	s := &numbers{names: []string{"a", "b", "c", "y"}}
	for i := range n {
		row := []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), 0}
		if repeated && i%3 == 2 {
			row = append([]float64(nil), s.rows[i-1]...)
		}
		row[3] = f(row[:3])
		s.rows = append(s.rows, row)
	}
	return s
}

func sumOfSines(x []float64) float64 { return math.Sin(x[0]) + math.Sin(x[1]) + math.Sin(x[2]) }

// limits sets the number of rows up to which kernels are factored.
func limits(t *testing.T, exact int) {
	t.Helper()
	old, rows := exactRows, iterativeRows
	exactRows, iterativeRows = exact, 200
	t.Cleanup(func() { exactRows, iterativeRows = old, rows })
}

// Targets without noise, for which ever smaller penalties are better, are fitted by conjugate gradients with a λ that
// float32 can tell, at and beyond the number of rows that could be factored.
func TestTargetsWithoutNoise(t *testing.T) {
	const exact = 300
	limits(t, exact)
	for _, c := range []struct {
		name  string
		rows  int
		twice bool
		f     func(x []float64) float64
	}{
		{"sines", exact, false, sumOfSines},
		{"sines, one more row", exact + 1, false, sumOfSines},
		{"one column", exact + 1, false, func(x []float64) float64 { return x[1] }},
		{"repeated rows", exact + 1, true, sumOfSines},
		{"constant", exact + 1, false, func([]float64) float64 { return 3 }},
	} {
		m, r := mustFit(t, sines(c.rows, 1, c.twice, c.f), Options{Seed: 1, Scaling: scalingStandard, Quick: true,
			Learn: data.LearnOptions{Targets: []string{"y"}}})
		if !c.twice { // rows that repeat others have weights, and are factored
			if least := 1e-6; m.Lambda < least { // leastPenalty of 134 rows
				t.Errorf("%s: λ = %g, conjugate gradients have at least %g", c.name, m.Lambda, least)
			}
			notes := strings.Join(r.Notes, "\n")
			factored := c.rows <= exact && strings.Contains(notes, "factored")
			if !factored && !strings.Contains(notes, "products (at most 200)") {
				t.Errorf("%s: notes %q", c.name, r.Notes)
			}
		}
		scores := evaluate(t, m, sines(1000, 9, false, c.f))
		if s := scores[1]; c.name != "constant" && !(s.Name == "R²" && s.Value > 0.98) {
			t.Errorf("%s: %s %.4f of new rows", c.name, s.Name, s.Value)
		}
		if s := scores[0]; c.name == "constant" && !(s.Value < 1e-6) {
			t.Errorf("%s: %s %g of new rows", c.name, s.Name, s.Value)
		}
	}
}

// A λ that conjugate gradients cannot solve ends no fit: few rows are factored, more have a larger λ. One that was
// given is factored or refused.
func TestUnsolvable(t *testing.T) {
	const n = 300
	target := data.LearnOptions{Targets: []string{"y"}}
	src := sines(n, 1, false, sumOfSines)
	for _, c := range []struct {
		exact  int
		lambda float64
		note   string
	}{{n, 0, "was factored"}, {n, 1e-9, "was factored"}, {n - 1, 0, "products (at most"}} {
		limits(t, c.exact)
		m, r := mustFit(t, src, Options{Seed: 1, Scaling: scalingStandard, Kernel: "laplace", Bandwidth: 3e4,
			Lambda: c.lambda, Folds: 1, Learn: target})
		if !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
			t.Errorf("at most %d rows are factored, λ = %g: notes %q", c.exact, c.lambda, r.Notes)
		}
		if s := evaluate(t, m, sines(1000, 9, false, sumOfSines))[1]; !(s.Value > 0.9) {
			t.Errorf("at most %d rows are factored, λ = %g → %g: %s %.4f of new rows", c.exact, c.lambda, m.Lambda,
				s.Name, s.Value)
		}
		if why := choice(t, r, "lambda").Why; (c.exact < n) != strings.Contains(why, "raised from") {
			t.Errorf("at most %d rows are factored: λ %q", c.exact, why)
		}
	}
	limits(t, n-1)
	_, _, err := Fit(t.Context(), src, Options{Seed: 1, Scaling: scalingStandard, Kernel: "laplace", Bandwidth: 3e4,
		Lambda: 1e-9, Folds: 1, Learn: target})
	if !errors.Is(err, machine.ErrSingular) {
		t.Errorf("a given λ of more rows: %v", err)
	}
}

// Conjugate gradients end at a share of the error that the choice measured.
func TestTolerance(t *testing.T) {
	for _, c := range []struct{ missed, want float64 }{{0, 1e-3}, {1e-6, leastTolerance},
		{0.05, missedShare * 0.05}, {0.9, mostTolerance}} {
		if got := (&decision{Missed: c.missed}).tolerance(mostTolerance); got != c.want {
			t.Errorf("an error of %g: tolerance %g, want %g", c.missed, got, c.want)
		}
	}
}

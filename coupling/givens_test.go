package coupling_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// givensFourth is E Σ_j r_j⁴ of a row after T rotations of a signed permutation; T → ∞ gives Haar.
func givensFourth(d int, rotations float64) float64 {
	n := float64(d)
	haar := 3 / (n + 2)
	return haar + (1-haar)*math.Pow(1-(n+2)/(2*n*(n-1)), rotations)
}

// fourthFailure is the z-score of the mean of Σ_j r_j⁴ over rows against want.
func fourthFailure(s sampler, d int, want float64, reps int, src rand.Source) float64 {
	var m stattest.Moments
	for range reps {
		o, err := s(d, d, coupling.Law{Kind: coupling.Sphere, Param: 1}, src)
		if err != nil {
			return math.Inf(1)
		}
		var sum float64
		for _, v := range o.Rows.Data {
			sum += v * v * v * v
		}
		m.Add(sum / float64(d))
	}
	return stattest.Z(m.Mean(), want, math.Sqrt(m.Var()), reps)
}

// The exact fourth moment of the godoc holds for few rotations, and the default is close to Haar.
func TestGivensConvergesToHaar(t *testing.T) {
	bound := stattest.Bound(alpha, comparisons)
	for _, c := range []struct{ d, rotations int }{{2, 1}, {5, 3}, {8, 10}, {8, 40}, {16, 64}} {
		z := fourthFailure(coupling.Givens{Rotations: c.rotations}.Sample, c.d, givensFourth(c.d, float64(c.rotations)),
			2000,
			rng.Stream(70))
		if math.Abs(z) > bound {
			t.Errorf("d=%d, %d rotations: fourth moment off, z = %.1f", c.d, c.rotations, z)
		}
	}
	for _, c := range []struct {
		d   int
		log float64 // ⌈log2 d⌉
	}{{2, 1}, {3, 2}, {5, 3}, {16, 4}, {64, 6}} {
		excess := givensFourth(c.d, 4*float64(c.d)*c.log)*float64(c.d+2)/3 - 1
		if excess > 0.004 {
			t.Errorf("d=%d: default leaves a relative excess %.4f of the fourth moment", c.d, excess)
		}
		reps := 1500
		if c.d == 64 {
			reps = 40
		}
		if z := fourthFailure(coupling.Givens{}.Sample, c.d, 3/float64(c.d+2), reps,
			rng.Stream(71)); math.Abs(z) > bound {
			t.Errorf("d=%d: default differs from Haar, z = %.1f", c.d, z)
		}
	}
}

// PEERS trap 12: one seed for all rotations turns the same plane by the same angle again and again.
func TestTrapOneSeedForAllGivensRotations(t *testing.T) {
	const d, rotations = 8, 96
	mutant := func(m, dim int, l coupling.Law, src rand.Source) (coupling.Omega, error) {
		w := dense.Identity[float64](dim)
		seed := src.Uint64()
		for range rotations {
			rnd := rand.New(rng.Stream(seed))
			p := rnd.Perm(dim)
			sin, cos := math.Sincos(2 * math.Pi * rnd.Float64())
			a, b := w.Row(p[0]), w.Row(p[1])
			for k := range a {
				a[k], b[k] = cos*a[k]-sin*b[k], sin*a[k]+cos*b[k]
			}
		}
		return coupling.Omega{Rows: w}, nil
	}
	bound := stattest.Bound(alpha, comparisons)
	if z := fourthFailure(coupling.Givens{Rotations: rotations}.Sample, d, 3./(d+2), 300,
		rng.Stream(72)); math.Abs(z) > bound {
		t.Errorf("independent rotations: z = %.1f", z)
	}
	if z := fourthFailure(mutant, d, 3./(d+2), 300, rng.Stream(72)); math.Abs(z) < bound {
		t.Errorf("one seed for all rotations passes the same check: z = %.1f", z)
	}
}

func TestGivensFields(t *testing.T) {
	if _, err := (coupling.Givens{Rotations: -1}).Sample(1, 2, coupling.Law{}, rng.Stream(1)); err == nil ||
		!strings.Contains(err.Error(), "Rotations") {
		t.Errorf("negative number of rotations: %v", err)
	}
}

package stattest_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// The scores of right predictions are standard normal or narrower, on both sides, whether pairs of a draw are
// independent or copies of each other; scores of wrong ones are not.
func TestVarianceScores(t *testing.T) {
	const reps, draws, pairs = 3000, 120, 8
	src := rand.New(rng.Stream(1))
	for _, copies := range []bool{false, true} {
		var zs, means stattest.Moments
		largest := 0.0
		for range reps {
			var c stattest.Clusters
			for range draws {
				u := make([]float64, pairs)
				for i := range u {
					u[i] = src.NormFloat64()
					if copies {
						u[i] = u[0]
					}
				}
				c.Add(u)
			}
			ratio, se := c.Variance()
			z := stattest.VarianceZ(ratio, se)
			zs.Add(z)
			largest = max(largest, math.Abs(z))
			mean, meanSE := c.Mean()
			means.Add(mean / meanSE)
			// 120 draws of 8 independent pairs are as good as 960 replicates, of copies no better than 120.
			if low := stattest.VarianceZ(ratio/2, se); !copies && low > -6 {
				t.Fatalf("half the predicted variance has z = %.1f only", low)
			}
		}
		// An estimated standard error with few draws has slightly heavier tails; largest of 3000 normals: 3.6.
		if v := zs.Var(); v > 1.15 || v < 0.7 || math.Abs(zs.Mean()) > 0.25 || largest > 5 {
			t.Errorf("copies %v: variance scores have mean %.2f, variance %.2f, largest %.1f", copies, zs.Mean(), v,
				largest)
		}
		if v := means.Var(); v > 1.15 || v < 0.8 || math.Abs(means.Mean()) > 0.1 {
			t.Errorf("copies %v: mean scores have mean %.2f, variance %.2f", copies, means.Mean(), v)
		}
	}
}

// A wrong scale does not widen its own error bar, as it would if the error were that of the sample.
func TestVarZDoesNotExcuseItself(t *testing.T) {
	src := rand.New(rng.Stream(2))
	var m stattest.Moments
	for range 500 {
		m.Add(10 * src.NormFloat64())
	}
	if z := m.VarZ(100); math.Abs(z) > 4 {
		t.Errorf("right variance: z = %.1f", z)
	}
	for _, wrong := range []float64{50, 200, 10, 1000} {
		if z := m.VarZ(wrong); math.Abs(z) < 6 {
			t.Errorf("variance %v instead of 100: z = %.1f only", wrong, z)
		}
	}
}

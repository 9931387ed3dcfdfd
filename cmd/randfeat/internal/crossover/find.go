package crossover

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/randfeat/randfeat/internal/rng"
)

// resamples is the number of bootstrap samples of the measurements.
const resamples = 400

// Find sets the length where the times cross, and its bootstrap interval. A resample without a crossing counts as an
// end of the measured range.
func (r *CrossoverResult) Find(seed uint64) {
	medians := func(pick func(times []float64) float64) (linear, exact []float64) {
		for _, p := range r.Points {
			linear, exact = append(linear, pick(p.LinearRuns)), append(exact, pick(p.ExactRuns))
		}
		return linear, exact
	}
	at, ok := r.crossing(medians(median))
	if !ok {
		last := r.Points[len(r.Points)-1]
		if ratio := last.Linear.Median / last.Exact.Median; ratio > 1 { // extrapolate: times grow as L and L²
			length := float64(last.Length) * ratio
			r.Length, r.Extrapolated = &length, true
		} else {
			r.Below = true
		}
		return
	}
	src := rand.New(rng.Stream(seed, 200))
	var found []float64
	for range resamples {
		x, ok := r.crossing(medians(func(times []float64) float64 {
			again := make([]float64, len(times))
			for i := range again {
				again[i] = times[src.IntN(len(times))]
			}
			return median(again)
		}))
		switch linear, exact := r.Points[len(r.Points)-1].Linear.Median, r.Points[len(r.Points)-1].Exact.Median; {
		case ok:
			found = append(found, x)
		case linear > exact:
			found = append(found, float64(r.Points[len(r.Points)-1].Length))
		default:
			found = append(found, float64(r.Points[0].Length))
		}
	}
	slices.Sort(found)
	low, high := math.Min(found[resamples/20], at), math.Max(found[resamples-1-resamples/20], at)
	r.Length, r.Low, r.High = &at, &low, &high
}

// crossing returns the length from which linear is faster at all longer lengths, interpolated in the logarithms
// of length and time. It is false if linear is faster everywhere, or not at the longest length.
func (r *CrossoverResult) crossing(linear, exact []float64) (float64, bool) {
	gain := func(i int) float64 { return math.Log(exact[i] / linear[i]) }
	last := len(r.Points) - 1
	if gain(last) < 0 {
		return 0, false
	}
	i := last
	for i > 0 && gain(i-1) >= 0 {
		i--
	}
	if i == 0 {
		return 0, false
	}
	a, b := math.Log(float64(r.Points[i-1].Length)), math.Log(float64(r.Points[i].Length))
	t := -gain(i-1) / (gain(i) - gain(i-1))
	return math.Exp(a + t*(b-a)), true
}

func median(v []float64) float64 { return quartiles(v).Median }

// quartiles of at least one number, by linear interpolation between order statistics.
func quartiles(v []float64) Quartiles {
	s := slices.Sorted(slices.Values(v))
	at := func(p float64) float64 { // linear between order statistics
		x := p * float64(len(s)-1)
		i := int(x)
		if i+1 >= len(s) {
			return s[len(s)-1]
		}
		return s[i] + (x-float64(i))*(s[i+1]-s[i])
	}
	return Quartiles{at(0.25), at(0.5), at(0.75)}
}

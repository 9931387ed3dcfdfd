package sampling

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
)

// Weights writes self-normalised importance weights of the draws of one query, with sum 1: w_j ∝ exp(score_j −
// LogCount_j). score is the true log weight of a class, q·c/τ for a softmax. Σ_j w_j f(class_j) then estimates the mean
// of f under the softmax, with a bias of order 1/K. It returns the effective sample size 1/Σw²: the number of
// independent draws from the softmax itself with the same precision.
func (d Draws) Weights(dst, score []float64) (effective float64, err error) {
	if len(dst) != len(d.LogCount) || len(score) != len(d.LogCount) {
		return 0, fmt.Errorf("%d weights and %d scores for %d draws: %w", len(dst), len(score), len(d.LogCount),
			dense.ErrShape)
	}
	most := math.Inf(-1)
	for j, s := range score {
		dst[j] = s - d.LogCount[j]
		most = max(most, dst[j])
	}
	if !dense.IsFinite(most) {
		return 0, fmt.Errorf("scores of draws: %w", dense.ErrNotFinite)
	}
	sum, square := 0.0, 0.0
	for j, l := range dst {
		dst[j] = math.Exp(l - most)
		sum += dst[j]
		square += dst[j] * dst[j]
	}
	for j := range dst {
		dst[j] /= sum
	}
	return sum * sum / square, nil
}

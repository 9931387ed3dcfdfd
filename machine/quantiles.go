package machine

import (
	"math"
	"slices"
)

const (
	quantileSteps = 1000    // quantiles are kept at steps of 1/1000 of probability
	maxScores     = 1 << 20 // numbers kept at most; beyond that only every 2nd, 4th, … row is kept
)

// Calibration keeps evenly spaced scores of rows that a density has not seen, in bounded memory. Their quantiles show
// how common a score is. The zero value is ready.
type Calibration struct {
	kept []float64
	step int64
	rows int64
}

// Add adds the score of one row.
func (c *Calibration) Add(score float64) {
	c.step = max(c.step, 1)
	if c.rows%c.step == 0 {
		c.kept = append(c.kept, score)
	}
	c.rows++
	if len(c.kept) == maxScores {
		for j := range maxScores / 2 {
			c.kept[j] = c.kept[2*j]
		}
		c.kept, c.step = c.kept[:maxScores/2], 2*c.step
	}
}

// Quantiles returns Model.Quantiles: scores at equal steps of probability, interpolated linearly; nil for fewer than
// two scores.
func (c *Calibration) Quantiles() []float64 {
	if len(c.kept) < 2 {
		return nil
	}
	sorted := slices.Clone(c.kept)
	slices.Sort(sorted)
	out := make([]float64, quantileSteps+1)
	for i := range out {
		at := float64(i) / quantileSteps * float64(len(sorted)-1)
		lo := int(at)
		q := sorted[lo]
		if part := at - float64(lo); part > 0 && !math.IsInf(q, -1) {
			q += part * (sorted[lo+1] - q)
		}
		out[i] = q
	}
	slices.Sort(out) // interpolation may lose the order in the last bit
	return out
}

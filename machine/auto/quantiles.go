package auto

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

const (
	quantileSteps = 1000    // quantiles are kept at steps of 1/1000 of probability
	maxScores     = 1 << 20 // of more rows, every 2nd, 4th, … counts
)

// thinned are the scores of rows at equal steps, in bounded memory.
type thinned struct {
	kept []float64
	step int64
	rows int64
}

func (t *thinned) add(pred dense.Matrix[float64]) {
	t.step = max(t.step, 1)
	for i := range pred.Rows {
		if t.rows%t.step == 0 {
			t.kept = append(t.kept, pred.At(i, 0))
		}
		t.rows++
		if len(t.kept) == maxScores {
			for j := range maxScores / 2 {
				t.kept[j] = t.kept[2*j]
			}
			t.kept, t.step = t.kept[:maxScores/2], 2*t.step
		}
	}
}

// quantiles at equal steps of probability, linear between scores; nil of fewer than two.
func (t *thinned) quantiles() []float64 {
	if len(t.kept) < 2 {
		return nil
	}
	slices.Sort(t.kept)
	out := make([]float64, quantileSteps+1)
	for i := range out {
		at := float64(i) / quantileSteps * float64(len(t.kept)-1)
		lo := int(at)
		q := t.kept[lo]
		if part := at - float64(lo); part > 0 && !math.IsInf(q, -1) {
			q += part * (t.kept[lo+1] - q)
		}
		out[i] = q
	}
	slices.Sort(out) // interpolation may lose the order in the last bit
	return out
}

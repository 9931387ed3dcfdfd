package tabular

import (
	"cmp"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// earlyRows is the number of rows that searches look at first. With class weights, every class gets as many of them
// as its weight asks for. Otherwise a class of 2.4 % would have 12 of 512 rows, and choosing the best of many
// settings by 12 rows would be luck: choices would differ from fit to fit by far more than scores do.
const earlyRows = 1024

// order returns the order in which searches take the rows of the sample: by a hash of the seed. With class weights,
// the early rows are chosen so that the share of a class among them is its share of the total weight, or all its
// rows, evenly spread.
func (c *chooser) order() []int {
	n := c.s.len()
	out := shuffled(n, c.f.o.Seed)
	if !c.weighsClasses() || n <= earlyRows {
		return out
	}
	count, weight := c.classes(out)
	quota, left, open := make([]float64, len(count)), float64(earlyRows), slices.Clone(weight)
	for range count { // classes with too few rows leave the rest of their quota to others
		sum, given := 0.0, 0.0
		for _, w := range open {
			sum += w
		}
		for k, w := range open {
			if w > 0 && left*w/sum >= count[k] {
				quota[k], open[k] = count[k], 0
				given += count[k]
			}
		}
		if left -= given; given == 0 {
			for k, w := range open {
				if w > 0 {
					quota[k] = max(math.Round(left*w/sum), 1)
				}
			}
			break
		}
	}
	key, seen := make([]float64, n), make([]float64, len(count))
	for _, i := range out {
		k := int(c.s.y.At(i, 0))
		at, early := seen[k]+0.5, quota[k]
		if seen[k]++; at < early {
			key[i] = at / early
		} else {
			key[i] = 1 + (at-early)/(count[k]-early)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(key[a], key[b]) })
	return out
}

// weighsClasses reports whether the weights of rows include class weights.
func (c *chooser) weighsClasses() bool { return c.f.o.ClassWeights != nil && c.s.weighted }

// judgeShifted judges predictions of weighted classes by log loss, after calibrating them on these rows as the model
// will be. Errors by the largest raw score are no guide: a model that nearly interpolates gives a rare class scores
// far below ½, however well it separates it.
func (e *exactTries) judgeShifted(t *trial, pred dense.Matrix[float64]) error {
	m := &machine.Model{}
	classes, weights := e.judgedClasses(pred.Rows)
	var err error
	if m.Calibration, err = machine.FitCalibration(pred, classes, weights, true); err != nil {
		return err
	}
	p := make([]float64, pred.Cols)
	for i, w := range weights {
		copy(p, pred.Row(i))
		m.Calibrate(p)
		t.loss = append(t.loss, -w*math.Log(max(p[classes[i]], 1e-300)))
	}
	t.loss = e.parts.scored(t.loss)
	t.score = -mean(t.loss)
	return nil
}

// judgedClasses returns the classes and weights of the last n rows.
func (e *exactTries) judgedClasses(n int) (classes []int, weights []float64) {
	for i := e.x.Rows - n; i < e.x.Rows; i++ {
		classes, weights = append(classes, int(e.y.At(i, 0))), append(weights, e.roots[i]*e.roots[i])
	}
	return classes, weights
}

// classes counts some rows of the sample and sums their weights, by class.
func (c *chooser) classes(rows []int) (count, weight []float64) {
	count, weight = make([]float64, c.f.outputs), make([]float64, c.f.outputs)
	for _, i := range rows {
		k := int(c.s.y.At(i, 0))
		count[k]++
		weight[k] += c.s.weight(i)
	}
	return count, weight
}

// roots returns the square roots of the weights of some rows, or nil if there are no weights. If the share of a
// class among these rows differs from its share of all rows, its weights are changed so that the class counts as
// much as in all rows.
func (c *chooser) roots(rows []int) []float64 {
	out := c.s.roots(rows)
	if !c.weighsClasses() {
		return out
	}
	all := make([]int, c.s.len())
	for i := range all {
		all[i] = i
	}
	_, want := c.classes(all)
	_, have := c.classes(rows)
	for i, r := range rows {
		k := int(c.s.y.At(r, 0))
		out[i] *= math.Sqrt(want[k] / have[k] * float64(len(rows)) / float64(len(all)))
	}
	return out
}

package machine

import (
	"cmp"
	"math"
	"slices"
)

// AUC is the area under the ROC curve: the probability that a positive has a higher value than a negative, where ties
// count half. The value is NaN if there are no positives or no negatives.
func AUC(positive, negative []float64) Score {
	r := ranks{classes: 2, scores: slices.Concat(positive, negative),
		labels: make([]int32, len(positive)+len(negative))}
	for i := range positive {
		r.labels[i] = 1
	}
	return areaOf([]*ranks{&r}, 1)
}

// pairs are the pairs of a positive and a negative among the rows of one model, by weight.
type pairs struct {
	ordered            float64 // weight of the pairs in order; ties count half
	positive, negative tally
}

// weight is the weight of all pairs.
func (p pairs) weight() float64 { return p.positive.w * p.negative.w }

// areaOf is the area under the ROC curve of one class against all others, over the pairs of rows that one model
// scored: scores of different models have no common origin. Of models of folds it is the mean area within folds
// (LeDell, Petersen & van der Laan 2015, "Computationally efficient confidence intervals for cross-validated area under
// the ROC curve estimates", Electron. J. Statist. 9), where each fold weighs as its pairs.
//
// A ranking over the folds together is too low. A fold with few positives leaves many to the others, so their model has
// a larger intercept: rows with large scores are then those of folds with few positives.
func areaOf(models []*ranks, class int) Score {
	s := Score{Name: "ROC AUC", Value: math.NaN(), Low: math.NaN(), High: math.NaN()}
	var parts []pairs
	ordered, all := 0.0, 0.0
	for _, r := range models {
		s.Rows += int64(len(r.labels))
		if p := r.pairs(class); p.weight() > 0 {
			parts = append(parts, p)
			ordered += p.ordered
			all += p.weight()
		}
	}
	if all > 0 {
		s.Value = ordered / all
		s.Low, s.High = aucInterval(s.Value, parts)
	}
	return s
}

// aucInterval is method 5 of Newcombe 2006, "Confidence intervals for an effect size measure based on the Mann–Whitney
// statistic", part 2. The limits θ solve (θ̂−θ)² = z² V(θ) with the variance V of Hanley and McNeil 1982 for samples of
// equal size. They stay in [0, 1] and have a width at 0 and 1. Over several folds with the weights w, V is
// Σw²V_f/(Σw)².
func aucInterval(v float64, parts []pairs) (low, high float64) {
	all := 0.0
	for _, p := range parts {
		all += p.weight()
	}
	excess := func(t float64) float64 {
		variance := 0.0
		for _, p := range parts {
			m, n, share := p.positive.effective(), p.negative.effective(), p.weight()/all
			k := (m+n)/2 - 1
			variance += share * share * t * (1 - t) * (1 + k*(1-t)/(2-t) + k*t/(1+t)) / (m * n)
		}
		return (v-t)*(v-t) - z95*z95*variance
	}
	// excess is negative at v (unless v is 0 or 1) and positive at both ends, so each bracket contains one root.
	solve := func(in, out float64) float64 {
		for range 100 {
			mid := (in + out) / 2
			if excess(mid) <= 0 {
				in = mid
			} else {
				out = mid
			}
		}
		return (in + out) / 2
	}
	low, high = 0, 1
	if v > 0 {
		low = solve(v, 0)
	}
	if v < 1 {
		high = solve(v, 1)
	}
	return low, high
}

// maxRanked bounds the numbers that ranks keeps, to 32 MiB. With more rows it keeps every 2nd, 4th, … row.
const maxRanked = 1 << 22

// ranks keeps the scores of classes together with the true classes, for areas under ROC curves, in bounded memory. For
// two classes one number is enough: the difference of their scores.
type ranks struct {
	classes int
	labels  []int32
	weights []float64 // one per kept row; nil means 1
	scores  []float64 // width per row
	step    int64
	rows    int64 // rows seen
}

// width is the number of scores kept per row.
func (r *ranks) width() int {
	if r.classes == 2 {
		return 1
	}
	return r.classes
}

// weigh starts to keep weights: rows so far get weight 1.
func (r *ranks) weigh() {
	r.weights = make([]float64, len(r.labels))
	for i := range r.weights {
		r.weights[i] = 1
	}
}

func (r *ranks) add(truth int, p []float64, weight float64) {
	r.step = max(r.step, 1)
	if r.rows%r.step == 0 {
		r.labels = append(r.labels, int32(truth))
		if r.weights != nil {
			r.weights = append(r.weights, weight)
		}
		if r.classes == 2 {
			r.scores = append(r.scores, p[1]-p[0])
		} else {
			r.scores = append(r.scores, p...)
		}
	}
	r.rows++
	r.bound()
}

// bound halves the kept rows while there are too many.
func (r *ranks) bound() {
	for len(r.scores) > maxRanked && len(r.labels) > 1 {
		r.halve()
	}
}

// halve keeps every second of the kept rows and doubles the step.
func (r *ranks) halve() {
	w, kept := r.width(), (len(r.labels)+1)/2
	for i := range kept {
		r.labels[i] = r.labels[2*i]
		if r.weights != nil {
			r.weights[i] = r.weights[2*i]
		}
		copy(r.scores[i*w:(i+1)*w], r.scores[2*i*w:])
	}
	r.labels, r.scores, r.step = r.labels[:kept], r.scores[:kept*w], 2*r.step
	if r.weights != nil {
		r.weights = r.weights[:kept]
	}
}

// merge puts the rows of o after those of r, at the larger of both steps; o is not changed.
func (r *ranks) merge(o ranks) {
	if o.rows == 0 {
		return
	}
	o.labels, o.scores, o.weights = slices.Clone(o.labels), slices.Clone(o.scores), slices.Clone(o.weights)
	if r.weights == nil && o.weights != nil {
		r.weigh()
	}
	if o.weights == nil && r.weights != nil {
		o.weigh()
	}
	r.step = max(r.step, 1)
	for r.step < o.step {
		r.halve()
	}
	for o.step < r.step {
		o.halve()
	}
	r.weights = append(r.weights, o.weights...)
	r.labels, r.scores, r.rows = append(r.labels, o.labels...), append(r.scores, o.scores...), r.rows+o.rows
	r.bound()
}

// pairs counts the pairs of a row of one class and a row of another.
func (r *ranks) pairs(class int) pairs {
	w, at, sign := r.width(), class, 1.0
	if w == 1 {
		at, sign = 0, float64(2*class-1)
	}
	type ranked struct {
		value float64
		row   int32
	}
	order := make([]ranked, len(r.labels))
	for i := range order {
		order[i] = ranked{sign * r.scores[i*w+at], int32(i)}
	}
	slices.SortFunc(order, func(a, b ranked) int { return cmp.Compare(a.value, b.value) })
	var out pairs
	for lo := 0; lo < len(order); {
		hi := lo
		var up, down tally // of equal values
		for ; hi == lo || hi < len(order) && order[hi].value == order[lo].value; hi++ {
			weight := 1.0
			if r.weights != nil {
				weight = r.weights[order[hi].row]
			}
			if int(r.labels[order[hi].row]) == class {
				up.add(weight)
			} else {
				down.add(weight)
			}
		}
		out.ordered += up.w * (out.negative.w + down.w/2)
		out.positive.merge(up)
		out.negative.merge(down)
		lo = hi
	}
	return out
}

// meanArea is the mean area over the classes that occur, each against the rest. Its limits are the means of the limits
// of the classes: the same rows enter all of them, so their errors may be correlated and must not be averaged out.
func meanArea(models []*ranks, classes int) Score {
	if classes == 2 {
		return areaOf(models, 1)
	}
	sum := Score{Name: "ROC AUC"}
	occur := 0.0
	for c := range classes {
		s := areaOf(models, c)
		if sum.Rows = s.Rows; !math.IsNaN(s.Value) {
			sum.Value, sum.Low, sum.High, occur = sum.Value+s.Value, sum.Low+s.Low, sum.High+s.High, occur+1
		}
	}
	sum.Value, sum.Low, sum.High = sum.Value/occur, sum.Low/occur, sum.High/occur
	return sum
}

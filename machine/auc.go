package machine

import (
	"cmp"
	"math"
	"slices"
)

// AUC is the area under the ROC curve: the probability that a positive has a higher value than a negative, where ties
// count half. The value is NaN if there are no positives or no negatives. The slices are sorted in place.
func AUC(positive, negative []float64) Score {
	slices.Sort(positive)
	slices.Sort(negative)
	p, n := float64(len(positive)), float64(len(negative))
	s := Score{Name: "ROC AUC", Value: math.NaN(), Low: math.NaN(), High: math.NaN(), Rows: int64(p + n)}
	if p == 0 || n == 0 {
		return s
	}
	sum, below, equal := 0.0, 0, 0 // negatives up to below are less, up to equal not more
	for _, v := range positive {
		for below < len(negative) && cmp.Less(negative[below], v) {
			below++
		}
		equal = max(equal, below)
		for equal < len(negative) && negative[equal] == v {
			equal++
		}
		sum += float64(below+equal) / 2
	}
	s.Value = sum / p / n
	s.Low, s.High = aucInterval(s.Value, p, n)
	return s
}

// aucInterval is method 5 of Newcombe 2006, "Confidence intervals for an effect size measure based on the Mann–Whitney
// statistic", part 2. The limits θ solve (θ̂−θ)² = z² V(θ) with the variance V of Hanley and McNeil 1982 for samples of
// equal size. They stay in [0, 1] and have a width at 0 and 1.
func aucInterval(v, m, n float64) (low, high float64) {
	excess := func(t float64) float64 {
		k := (m+n)/2 - 1
		variance := t * (1 - t) * (1 + k*(1-t)/(2-t) + k*t/(1+t)) / (m * n)
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

// of is the area under the ROC curve of one class against all others.
func (r *ranks) of(class int) Score {
	var positive, negative []float64
	w, at, sign := r.width(), class, 1.0
	if w == 1 {
		at, sign = 0, float64(2*class-1)
	}
	if r.weights != nil {
		values := make([]float64, len(r.labels))
		for i := range values {
			values[i] = sign * r.scores[i*w+at]
		}
		return r.weighted(class, values)
	}
	for i, l := range r.labels {
		if v := sign * r.scores[i*w+at]; int(l) == class {
			positive = append(positive, v)
		} else {
			negative = append(negative, v)
		}
	}
	return AUC(positive, negative)
}

// weighted is the area for rows with weights: the share of the weight of all pairs that are in order. The interval uses
// the effective sample sizes of the positives and the negatives.
func (r *ranks) weighted(class int, values []float64) Score {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	var positive, negative tally
	sum := 0.0
	for lo := 0; lo < len(order); {
		hi := lo
		var up, down tally // of equal values
		for ; hi == lo || hi < len(order) && values[order[hi]] == values[order[lo]]; hi++ {
			if i := order[hi]; int(r.labels[i]) == class {
				up.add(r.weights[i])
			} else {
				down.add(r.weights[i])
			}
		}
		sum += up.w * (negative.w + down.w/2)
		positive.merge(up)
		negative.merge(down)
		lo = hi
	}
	s := Score{Name: "ROC AUC", Value: math.NaN(), Low: math.NaN(), High: math.NaN(), Rows: int64(len(values))}
	if positive.w > 0 && negative.w > 0 {
		s.Value = sum / positive.w / negative.w
		s.Low, s.High = aucInterval(s.Value, positive.effective(), negative.effective())
	}
	return s
}

// score is the mean area over the classes that occur, each against the rest. Its limits are the means of the limits of
// the classes: the same rows enter all of them, so their errors may be correlated and must not be averaged out.
func (r *ranks) score() Score {
	if r.classes == 2 {
		return r.of(1)
	}
	sum := Score{Name: "ROC AUC", Rows: int64(len(r.labels))}
	classes := 0.0
	for c := range r.classes {
		if s := r.of(c); !math.IsNaN(s.Value) {
			sum.Value, sum.Low, sum.High, classes = sum.Value+s.Value, sum.Low+s.Low, sum.High+s.High, classes+1
		}
	}
	sum.Value, sum.Low, sum.High = sum.Value/classes, sum.Low/classes, sum.High/classes
	return sum
}

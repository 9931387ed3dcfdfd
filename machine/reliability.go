package machine

import "math"

// Bin describes the rows whose predicted class had a probability from From to To.
type Bin struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Said  float64 `json:"said"`  // mean probability of the predicted class
	Right Score   `json:"right"` // share of these rows whose prediction is right
}

// Reliability says how far probabilities can be trusted: of the rows predicted with a probability of 0.8, 80 % should
// be right.
type Reliability struct {
	Bins []Bin `json:"bins"` // bins that have rows
	// Error is the expected calibration error: the mean over rows of the difference between the mean probability and
	// the share of right rows in their bin (Guo et al. 2017, "On calibration of modern neural networks",
	// arXiv:1706.04599, eq. 3).
	Error float64 `json:"error"`
	// Chance is approximately the value that Error would have if all probabilities were right: a mean of absolute
	// differences is never 0.
	Chance float64 `json:"chance"`
}

// binEnds are tenths, and finer near 1, where most predictions are.
var binEnds = [...]float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}

// binSums holds the sums over the rows whose predicted class has a probability inside a bin.
type binSums struct {
	n           int64
	rows, right tally
	said        float64 // Σ p
	variance    float64 // Σ p(1−p): the variance of the number of right rows if the probabilities are true
}

func (b *binSums) add(p float64, right bool, weight float64) {
	b.n++
	b.rows.add(weight)
	b.said += weight * p
	b.variance += weight * weight * (p * (1 - p))
	if right {
		b.right.add(weight)
	}
}

func (b *binSums) merge(o binSums) {
	b.n += o.n
	b.rows.merge(o.rows)
	b.right.merge(o.right)
	b.said += o.said
	b.variance += o.variance
}

// binOf is the index of the bin of probability p.
func binOf(p float64) int {
	for i, end := range binEnds {
		if p < end {
			return i
		}
	}
	return len(binEnds) - 1
}

// Reliability returns the reliability of the probabilities of a classification, or nil without probabilities or rows.
func (e *Evaluation) Reliability() *Reliability {
	if e.task != Classification || e.unlikely || e.loss.n == 0 {
		return nil
	}
	r := new(Reliability)
	from, n := 0.0, e.loss.of.w
	for i, b := range e.bins {
		if b.rows.w > 0 {
			r.Bins = append(r.Bins, Bin{From: from, To: binEnds[i], Said: b.said / b.rows.w,
				Right: share("right", b.right, b.rows, b.n)})
			r.Error += math.Abs(b.right.w-b.said) / n
			r.Chance += math.Sqrt(2/math.Pi*b.variance) / n // mean absolute value of a normal variable
		}
		from = binEnds[i]
	}
	return r
}

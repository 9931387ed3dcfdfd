package tabular

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine/internal/metric"
)

// Candidate is a setting of a kernel machine. It is plain data: two candidates with equal fields are the same, and a
// model is fitted from a candidate and the rows, and from nothing else.
type Candidate struct {
	Codes   string      `json:"codes,omitempty"` // of columns of many levels; empty: as they are
	Scaling string      `json:"scaling"`         // of columns: one of Values("scaling")
	Metric  Learning    `json:"metric,omitzero"` // learned; zero: none
	Kernel  kernel.Kind `json:"kernel"`
	Width   float64     `json:"width"` // bandwidth in units of the median distance
	Lambda  float64     `json:"lambda"`
	Loss    string      `json:"loss"` // one of Values("loss")
}

// Learning says how a metric is learned: in rounds, each from the gradients of a fit.
type Learning struct {
	Kind   metric.Kind         `json:"kind,omitempty"`
	Rounds int                 `json:"rounds,omitempty"` // 0: no metric
	At     [metricRounds]Point `json:"at,omitzero"`      // of the fits
}

// Point is a width, in units of the median distance, and a penalty.
type Point struct {
	Width  float64 `json:"width"`
	Lambda float64 `json:"lambda"`
}

// columns returns the part of a candidate that decides about columns.
func (c Candidate) columns() Candidate {
	out := Candidate{Codes: c.Codes, Scaling: c.Scaling, Metric: c.Metric}
	if c.Metric.Rounds > 0 {
		out.Kernel = c.Kernel // whose gradients are taken
	}
	return out
}

// at returns the candidate with another width and penalty.
func (c Candidate) at(width, lambda float64) Candidate {
	c.Width, c.Lambda = width, lambda
	return c
}

// trial is a candidate with a prediction of every row by a model that has not seen the row's fold.
type trial struct {
	Candidate
	// out has one matrix for every deal of the rows to folds. Rows that nothing predicts, such as the first period of
	// time, are NaN.
	out []matrix
	// loss decides, by row: the squared error, for classes the error plus half of the Brier score, for weighted classes
	// the log loss. It is the mean over the deals, times the weight of the row; NaN: not predicted.
	loss []float64
	// shown is what the report shows, by row: the squared error, the error of the class, or the log loss.
	shown []float64
	mean  float64 // of loss
	rows  int     // of the frame
}

// gain returns the mean of a − b and its standard error, with rows paired: what affects both in a row, such as being
// hard to predict, cancels. Rows that either lacks do not count.
func gain(a, b []float64) (diff, se float64) {
	n := 0.0
	for i, v := range a {
		if d := v - b[i]; !math.IsNaN(d) {
			diff += d
			n++
		}
	}
	if n == 0 {
		return 0, math.Inf(1)
	}
	diff /= n
	for i, v := range a {
		if d := v - b[i] - diff; !math.IsNaN(d) {
			se += d * d
		}
	}
	return diff, math.Sqrt(se / (n * max(n-1, 1)))
}

// mean returns the mean of the values that are numbers.
func mean(x []float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / n
}

// faultless reports whether a trial of classes has no errors on enough rows to say so.
func (t *trial) faultless(f *frame) bool {
	return f.classes() && len(t.loss) >= leastScaling && mean(t.shown) == 0
}

// best returns the trial with the least mean loss; nil: there is none. The first wins a tie.
func best(ts []*trial) *trial {
	var top *trial
	for _, t := range ts {
		if top == nil || t.mean < top.mean {
			top = t
		}
	}
	return top
}

// describe names the part of a candidate in which it differs from another.
func (c Candidate) describe(rule string) string {
	switch rule {
	case "kernel":
		return c.Kernel.String()
	case "scaling":
		return c.Scaling
	case "metric":
		if c.Metric.Rounds == 0 {
			return "none"
		}
		return fmt.Sprintf("%v, %v, %d rounds", c.Kernel, c.Metric.Kind, c.Metric.Rounds)
	case "encode":
		if c.Codes == "" {
			return "as it is"
		}
		return c.Codes
	case "loss":
		return c.Loss
	}
	return fmt.Sprintf("width %s, λ %s", short(c.Width), short(c.Lambda))
}

// errNothing means that no setting could be tried.
var errNothing = errors.New("no setting could be tried: the features overflow or are singular")

// distinct keeps the best trial of every value, sorted by value.
func distinct(ts []Trial) []Trial {
	slices.SortStableFunc(ts, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(b.Score, a.Score))
	})
	return slices.CompactFunc(ts, func(a, b Trial) bool { return a.Value == b.Value })
}

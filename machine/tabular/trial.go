package tabular

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/machine"
)

// trial is the result of one setting on the sample, every row predicted by a model that has not seen its fold.
type trial struct {
	spec   randfeat.Spec
	lambda float64
	loss   []float64 // by row: error of the class, squared error, or negative log density
	tie    []float64 // Brier score by row, which decides between nearly equal trials of classes; or nil
	score  float64   // maximised: negative mean loss, or log evidence per row
}

// tries tries settings on the sample. Its results leave out penalties that cannot be used. Models without a penalty
// give one trial.
type tries interface {
	try(spec randfeat.Spec, lambdas []float64) ([]trial, error)
}

// faultless reports whether a trial of classes has no errors on enough rows to say so.
func (t *trial) faultless() bool {
	return t.tie != nil && len(t.loss) >= leastScaling && mean(t.loss) == 0
}

// errNothing means that no setting could be tried.
var errNothing = errors.New("no setting could be tried: the features overflow or are singular")

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// gain returns the mean of a − b and its standard error, with rows paired: what affects both in a row, such as being
// hard to predict, cancels. Rows of a fold share a model and are not independent, so the error is a scale for what
// is worth its cost, not a test.
func gain(a, b []float64) (diff, se float64) {
	n := float64(len(a))
	for i, v := range a {
		diff += v - b[i]
	}
	diff /= n
	for i, v := range a {
		d := v - b[i] - diff
		se += d * d
	}
	return diff, math.Sqrt(se / (n * max(n-1, 1)))
}

// nearTie is the number of standard errors of the difference within which two error rates count as equal, so that
// the Brier score decides. It is much less noisy than a count of errors. At 0, a count over a few hundred rows would
// decide by chance; at 1 and above, the reported errors would hardly matter.
const nearTie = 0.5

// best returns the index of the trial with the largest score, or −1 if there are none. Among nearly equal trials the
// Brier score decides. The first wins a tie, so the order of trials is part of the result.
func best(ts []trial) int {
	top := -1
	for i := range ts {
		if top < 0 || ts[i].score > ts[top].score {
			top = i
		}
	}
	if top < 0 || ts[top].tie == nil {
		return top
	}
	choice := top
	for i := range ts {
		diff, se := gain(ts[i].loss, ts[top].loss)
		if diff <= nearTie*se && mean(ts[i].tie) < mean(ts[choice].tie) {
			choice = i
		}
	}
	return choice
}

// metric names Trial.Score.
func (j *job) metric() string {
	switch {
	case j.info.Bayesian:
		return "log evidence per row"
	case j.shifts():
		return "out-of-fold log likelihood of weighted classes"
	case j.task == machine.Classification:
		return "out-of-fold accuracy"
	case j.task == machine.Regression:
		return "out-of-fold R²"
	}
	return "held-out log density"
}

// shown converts a trial for the report.
func (j *job) shown(t trial, value float64, label string) Trial {
	out := Trial{Value: value, Label: label, Metric: j.metric(), Score: t.score}
	if j.info.Bayesian {
		return out
	}
	loss := mean(t.loss)
	for _, v := range t.loss {
		out.Error += (v - loss) * (v - loss)
	}
	n := float64(len(t.loss))
	out.Error = math.Sqrt(out.Error / (n * max(n-1, 1)))
	switch {
	case j.shifts():
		out.Score = -loss
	case j.task == machine.Classification:
		out.Score = 1 - loss
	case j.task == machine.Regression: // targets are standardised
		out.Score, out.Error = 1-loss/float64(j.outputs), out.Error/float64(j.outputs)
	}
	return out
}

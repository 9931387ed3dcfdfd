package watch

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// outputs says which predictions a reference knows, and what is known about them from the fit.
type outputs struct {
	Task  machine.Task `json:",omitempty"` // empty: no predictions
	Count int          `json:",omitempty"` // targets, or classes; 0: the outputs are no probabilities
	// Names are targets or classes, Mean and Scale those of targets in the fit.
	Names []string        `json:",omitempty"`
	Mean  []float64       `json:",omitempty"`
	Scale []float64       `json:",omitempty"`
	AtFit []machine.Score `json:",omitempty"` // scores on rows that the fit had not seen
	// Spread predicts the mean squared error of the first target from the features of the middle bandwidth, relative to
	// that of the fit: one vector, constant first, for every part of the rows left out.
	Spread [][]float64 `json:",omitempty"`
	Tails  float64     `json:",omitempty"` // variance of squared errors over their squared mean
}

// Statistics of the predictions of classes, after the sum of each probability.
const (
	sumTop = iota // largest probability
	sumTopVariance
	sumEntropy
	sumEntropyVariance
	classSums
)

// size is the number of statistics of a row.
func (o *outputs) size() int {
	switch {
	case o.Count == 0:
		return 0
	case o.Task == machine.Classification:
		return o.Count + classSums
	}
	return 2 * o.Count // values and squares
}

// add adds the statistics of the outputs of a row.
func (o *outputs) add(sums []float64, row []float64) {
	if o.Task != machine.Classification {
		for k, v := range row {
			z := min(max((v-o.Mean[k])/o.Scale[k], -capped), capped)
			sums[2*k] += z
			sums[2*k+1] += z * z
		}
		return
	}
	top, entropy, square := 0.0, 0.0, 0.0
	for k, p := range row {
		p = min(max(p, 0), 1)
		sums[k] += p
		top = max(top, p)
		if p > 0 {
			l := -math.Log(max(p, leastProbability))
			entropy += p * l
			square += p * l * l
		}
	}
	sums = sums[o.Count:]
	sums[sumTop] += top
	sums[sumTopVariance] += top * (1 - top)
	sums[sumEntropy] += entropy
	sums[sumEntropyVariance] += square - entropy*entropy
}

// leastProbability bounds the log loss of a row.
const leastProbability = 1e-15

// Expected is a score on new rows without their targets.
type Expected struct {
	Name  string  `json:"name"`  // accuracy, log loss or RMSE
	Value float64 `json:"value"` // on the new rows
	Low   float64 `json:"low"`   // ends of a 95 % interval
	High  float64 `json:"high"`  // upper end
	// AtFit is the score on rows that the fit had not seen.
	AtFit float64 `json:"at_fit"`
	// Beyond says that many rows are far from all rows of the fit: there nothing is known about the errors.
	Beyond bool `json:"beyond,omitempty"`
}

// Shift is the mean prediction of a target or the mean probability of a class.
type Shift struct {
	Name  string  `json:"name"`   // of the target or class
	Value float64 `json:"value"`  // on the new rows
	AtFit float64 `json:"at_fit"` // mean of the target, or share of the class
}

// mostFar is the share of rows far from the fit above which its errors say little about the rows.
const mostFar = 0.2

// z95 is the 97.5 % quantile of the standard normal law.
const z95 = 1.959963984540054

// expected returns the scores to expect of the rows of m. Calibrated probabilities say how often the most likely class
// is right; a regression has learned how its error depends on the row.
func (m *Monitor) expected() (list []Expected) {
	o, sums := &m.r.out, m.sums[m.r.atPredictions:m.r.atCounts]
	if o.Count == 0 {
		return nil
	}
	add := func(name string, value, variance float64, at machine.Score) {
		fit := max(0, (at.High-at.Low)/(2*z95))
		if at.Low == 0 && at.High == 0 || math.IsNaN(fit) {
			fit = 0
		}
		sd := math.Sqrt(variance + fit*fit)
		e := Expected{Name: name, Value: value, Low: value - z95*sd, High: value + z95*sd, AtFit: at.Value,
			Beyond: m.sums[m.r.atFar] > mostFar*m.rows}
		if e.Low = max(e.Low, 0); name == "accuracy" {
			e.High = min(e.High, 1)
		}
		list = append(list, e)
	}
	for _, at := range o.AtFit {
		switch {
		case o.Task == machine.Classification && at.Name == "accuracy":
			s := sums[o.Count:]
			add(at.Name, s[sumTop]/m.rows, s[sumTopVariance]/(m.rows*m.rows), at)
		case o.Task == machine.Classification && at.Name == "log loss":
			s := sums[o.Count:]
			add(at.Name, s[sumEntropy]/m.rows, s[sumEntropyVariance]/(m.rows*m.rows), at)
		case at.Name == "RMSE" && len(o.Spread) > 0 && at.Output <= 1:
			ratio, variance := m.spread()
			value := at.Value * math.Sqrt(ratio)
			// The delta method: a root has half the relative deviation.
			add(at.Name, value, value*value/4*(variance/(ratio*ratio)+o.Tails/m.rows), machine.Score{Value: at.Value,
				Low: at.Low * math.Sqrt(ratio), High: at.High * math.Sqrt(ratio)})
		}
	}
	return list
}

// spread is the mean squared error to expect of the rows, relative to that of the fit, and its variance by the
// jackknife over parts of the rows.
func (m *Monitor) spread() (ratio, variance float64) {
	parts := m.r.out.Spread
	each := make([]float64, len(parts))
	at := m.sums[m.r.features : 2*m.r.features]
	for k, w := range parts {
		each[k] = w[0]
		for f, v := range at {
			each[k] += w[1+f] * v / m.rows
		}
		each[k] = max(each[k], 0.05)
		ratio += each[k] / float64(len(parts))
	}
	n := float64(len(parts))
	for _, v := range each {
		variance += (v - ratio) * (v - ratio) * (n - 1) / n
	}
	return ratio, variance
}

// shifts are the mean predictions.
func (m *Monitor) shifts() (list []Shift) {
	o, sums := &m.r.out, m.sums[m.r.atPredictions:m.r.atCounts]
	for k := range o.Count {
		s := Shift{Name: o.Names[k], AtFit: o.Mean[k]}
		if s.Value = sums[k] / m.rows; o.Task != machine.Classification {
			s.Value = o.Mean[k] + o.Scale[k]*sums[2*k]/m.rows
		}
		list = append(list, s)
	}
	return list
}

// spreadParts is the number of parts of the rows, each left out once.
const spreadParts = 8

// learnSpread learns how the squared error of the first target depends on a row: ridge regression of squared residuals
// on random features. phi are the features of the rows and square the squared residuals.
func learnSpread(phi dense.Matrix[float64], square []float64) (parts [][]float64, tails float64) {
	n := len(square)
	mean := sum(square) / float64(n)
	if !(mean > 0) {
		return nil, 0
	}
	target := dense.New[float64](n, 1)
	for i, v := range square {
		// Squared errors have heavy tails: one row in a hundred may not decide.
		target.Set(i, 0, min(v/mean, 20))
		tails += (v/mean - 1) * (v/mean - 1) / float64(n)
	}
	return jackknife(phi, target), tails
}

// spreadPenalty is the penalty of the ridge regression: the variance of a squared error over that of its mean between
// rows, both relative.
const spreadPenalty = 8

// jackknife solves ridge regression of y on the features, with a constant that is not penalised, without each part of
// the rows in turn.
func jackknife(phi, y dense.Matrix[float64]) (parts [][]float64) {
	f := phi.Cols + 1
	sums := make([]*mat.SymDense, spreadParts)
	right := make([]*mat.VecDense, spreadParts)
	all, allRight := mat.NewSymDense(f, nil), mat.NewVecDense(f, nil)
	for k := range sums {
		sums[k], right[k] = mat.NewSymDense(f, nil), mat.NewVecDense(f, nil)
		for i := k; i < phi.Rows; i += spreadParts {
			row := mat.NewVecDense(f, append([]float64{1}, phi.Row(i)...))
			sums[k].SymRankOne(sums[k], 1, row)
			right[k].AddScaledVec(right[k], y.At(i, 0), row)
		}
		all.AddSym(all, sums[k])
		allRight.AddVec(allRight, right[k])
	}
	for j := 1; j < f; j++ {
		all.SetSym(j, j, all.At(j, j)+spreadPenalty)
	}
	for k := range sums {
		sums[k].ScaleSym(-1, sums[k])
		sums[k].AddSym(all, sums[k])
		right[k].SubVec(allRight, right[k])
		var c mat.Cholesky
		var w mat.VecDense
		if !c.Factorize(sums[k]) || c.SolveVecTo(&w, right[k]) != nil {
			return nil
		}
		parts = append(parts, w.RawVector().Data)
	}
	return parts
}

// Observed is a score on new rows with targets beside that of the fit.
type Observed struct {
	Name  string  `json:"name"`   // accuracy, log loss or RMSE
	Value float64 `json:"value"`  // on the new rows
	Low   float64 `json:"low"`    // ends of a 95 % interval
	High  float64 `json:"high"`   // upper end
	AtFit float64 `json:"at_fit"` // as stated at the fit
	// Changed says that the difference from the fit is larger than chance explains, at the level 0.05.
	Changed bool   `json:"changed"`
	Text    string `json:"text"` // the comparison, in a sentence
}

// Observed compares scores of rows with those that the fit stated.
func (r *Reference) Observed(scores []machine.Score) (list []Observed) {
	for _, s := range scores {
		for _, at := range r.out.AtFit {
			if at.Name != s.Name || at.Output != s.Output {
				continue
			}
			o := Observed{Name: s.Name, Value: s.Value, Low: s.Low, High: s.High, AtFit: at.Value}
			sd := math.Hypot(s.High-s.Low, at.High-at.Low) / (2 * z95)
			o.Changed = math.Abs(s.Value-at.Value) > z95*sd
			verdict := "as stated at the fit"
			if o.Changed {
				verdict = "worse than stated at the fit"
				if (s.Value > at.Value) == (s.Name == "accuracy") {
					verdict = "better than stated at the fit"
				}
			}
			o.Text = fmt.Sprintf("%s %.4g, %s (%.4g)", s.Name, s.Value, verdict, at.Value)
			list = append(list, o)
		}
	}
	return list
}

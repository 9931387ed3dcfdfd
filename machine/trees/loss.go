package trees

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// Target is what to predict, with a row for every row of the table.
type Target struct {
	// Values has a column for each output: the loss is half the squared error, and each output has trees of its own.
	// With Classes it has one column of class numbers from 0: the loss is −log p, logistic for two classes and
	// multinomial for more.
	Values  dense.Matrix[float64]
	Classes int
	Weights []float64 // multiply the losses of rows; nil means 1
}

const (
	maxValue   = 1e30 // of a target or weight: leaf values are float32
	maxClasses = 1 << 12
)

// loss is a target with the link from scores to predictions: identity, logistic function or softmax. The gradient with
// respect to a score then is prediction minus truth for all three.
type loss struct {
	Target
	scores int // per row; with two classes, of class 1 alone
	first  int // class of score 0
}

func newLoss(t Target, rows int) (*loss, error) {
	l := &loss{Target: t, scores: max(t.Values.Cols, t.Classes)}
	if err := t.Values.Check(); err != nil {
		return nil, fmt.Errorf("trees: target: %w", err)
	}
	if l.Weights == nil {
		l.Weights = slices.Repeat([]float64{1}, rows)
	}
	if t.Values.Rows != rows || len(l.Weights) != rows || t.Values.Cols < 1 || t.Classes != 0 && t.Values.Cols > 1 {
		return nil, fmt.Errorf("trees: targets of %d×%d and %d weights, the table has %d rows: %w", t.Values.Rows,
			t.Values.Cols, len(l.Weights), rows, dense.ErrShape)
	}
	if t.Classes < 0 || t.Classes == 1 || t.Classes > maxClasses {
		return nil, fmt.Errorf("trees: %d classes, want 2 to %d", t.Classes, maxClasses)
	}
	if t.Classes == 2 {
		l.scores, l.first = 1, 1
	}
	for i, w := range l.Weights {
		for _, v := range t.Values.Row(i) {
			if t.Classes > 0 && !(v >= 0 && v < float64(t.Classes) && v == math.Trunc(v)) {
				return nil, fmt.Errorf("trees: row %d has class %v of %d", i, v, t.Classes)
			}
			if !(math.Abs(v) <= maxValue && w >= 0 && w <= maxValue) {
				return nil, fmt.Errorf("trees: row %d has target %v with weight %v, beyond %v", i, v, w, maxValue)
			}
		}
	}
	return l, nil
}

// outputs is the number of predictions per row.
func (l *loss) outputs() int { return max(l.scores, l.Classes) }

func (l *loss) truth(row int32, score int) float64 {
	switch {
	case l.Classes == 0:
		return l.Values.At(int(row), score)
	case l.Values.At(int(row), 0) == float64(score+l.first):
		return 1
	}
	return 0
}

// start returns the scores before the first tree: those of the best constant, with half a row added to each class.
func (l *loss) start(rows []int32) []float64 {
	start, half := make([]float64, l.scores), float64(min(l.Classes, 1))/2
	for c := range start {
		sum, total := half, half*float64(l.Classes)
		for _, r := range rows {
			sum += float64(l.Weights[r] * l.truth(r, c))
			total += l.Weights[r]
		}
		switch start[c] = sum / total; {
		case l.scores < l.Classes:
			start[c] = math.Log(sum / (total - sum))
		case l.Classes > 0:
			start[c] = math.Log(sum / total)
		}
	}
	return start
}

// link turns the scores of a row into predictions of the same number.
func link(p, scores []float64, classes int) {
	switch {
	case classes == 0:
		copy(p, scores)
	case classes == 2:
		p[0] = 1 / (1 + math.Exp(-scores[0]))
	default:
		most, sum := scores[0], 0.0
		for _, s := range scores {
			most = max(most, s)
		}
		for c, s := range scores {
			p[c] = math.Exp(s - most)
			sum += p[c]
		}
		for c := range p {
			p[c] /= sum
		}
	}
}

// derivative is gradient and Hessian of a loss with respect to a score, or sums of |gradient| and Hessian.
type derivative struct{ g, h float64 }

// derivative of the loss of a row that is predicted p. The Hessian of softmax has the factor k/(k−1), because its
// diagonal alone overstates steps (Friedman, Hastie and Tibshirani 2000, algorithm 6).
func (l *loss) derivative(row int32, score int, p float64) derivative {
	w := l.Weights[row]
	d := derivative{w * (p - l.truth(row, score)), w}
	if l.Classes > 0 {
		d.h *= p * (1 - p)
	}
	if l.scores > 1 && l.Classes > 0 {
		d.h *= float64(l.scores) / float64(l.scores-1)
	}
	return d
}

// of is the loss of a row with predictions p.
func (l *loss) of(row int32, p []float64) float64 {
	sum := 0.0
	for c, v := range p {
		t := l.truth(row, c)
		switch {
		case l.Classes == 0:
			sum += float64((v - t) * (v - t) / 2)
		case t == 1:
			sum -= math.Log(max(v, 1e-300))
		case l.Classes == 2:
			sum -= math.Log(max(1-v, 1e-300))
		}
	}
	return l.Weights[row] * sum
}

package trees

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
)

// Target is the column or columns to predict, with an entry for every row of the table: either Values, or Class and
// Classes.
type Target struct {
	// Values has a column for each output. The loss is half the squared error; each output has trees of its own.
	Values dense.Matrix[float64]
	// Class has the class of each row, from 0 to Classes−1. The loss is −log p: logistic for two classes, multinomial
	// for more.
	Class   []int
	Classes int
	// Weights multiply the losses of rows; nil means 1.
	Weights []float64
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
	if err := t.Values.Check(); err != nil {
		return nil, fmt.Errorf("trees: target: %w", err)
	}
	l := &loss{t, t.Classes, 0}
	switch given := len(t.Class); {
	case t.Classes == 0 && given == 0:
		l.scores, given = t.Values.Cols, t.Values.Rows
		fallthrough
	case t.Values.IsEmpty() && t.Classes >= 2 && t.Classes <= maxClasses:
		if given != rows || l.scores < 1 {
			return nil, fmt.Errorf("trees: targets of %d rows and %d outputs, the table has %d rows: %w", given, l.scores,
				rows, dense.ErrShape)
		}
	default:
		return nil, fmt.Errorf("trees: %d classes and %d columns of values: want 2 to %d classes, or values", t.Classes,
			t.Values.Cols, maxClasses)
	}
	if t.Classes == 2 {
		l.scores, l.first = 1, 1
	}
	for i, c := range t.Class {
		if c < 0 || c >= t.Classes {
			return nil, fmt.Errorf("trees: row %d has class %d of %d", i, c, t.Classes)
		}
	}
	for i := range t.Values.Rows {
		for j, v := range t.Values.Row(i) {
			if !(math.Abs(v) <= maxValue) {
				return nil, fmt.Errorf("trees: row %d, target %d is %v, beyond ±%v", i, j, v, maxValue)
			}
		}
	}
	if l.Weights == nil {
		l.Weights = make([]float64, rows)
		for i := range l.Weights {
			l.Weights[i] = 1
		}
	}
	if len(l.Weights) != rows {
		return nil, fmt.Errorf("trees: %d weights, the table has %d rows: %w", len(l.Weights), rows, dense.ErrShape)
	}
	for i, w := range l.Weights {
		if !(w >= 0 && w <= maxValue) {
			return nil, fmt.Errorf("trees: row %d has weight %v", i, w)
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
	case l.Class[row] == score+l.first:
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

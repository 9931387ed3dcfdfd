package machine

import (
	"cmp"
	"math"
	"slices"
)

// ClassScores holds the scores of one class of a classification. A value is NaN if there is nothing to divide by: the
// precision of a class that was never predicted, the recall of a class without rows.
type ClassScores struct {
	Class     int   `json:"class"`
	Rows      int64 `json:"rows"`      // rows whose true class this is
	Predicted int64 `json:"predicted"` // rows predicted as the class
	Precision Score `json:"precision"` // share of the predicted rows that are of the class
	Recall    Score `json:"recall"`    // share of the rows of the class that are predicted as it
	F1        Score `json:"f1"`        // harmonic mean of precision and recall
	AUC       Score `json:"auc"`       // the class against all others
}

// Classes returns the scores of every class. Precision and recall have Clopper–Pearson limits. F1 = 2J/(1+J), where J
// is the share of correct rows among the rows that are of the class or predicted as it. Its limits are the transformed
// limits of J: unlike those of the delta method, they have a width at 0 and 1.
func (e *Evaluation) Classes() []ClassScores {
	var out []ClassScores
	for c, row := range e.confusion {
		s := ClassScores{Class: c}
		var rows, predicted, either tally
		for k, n := range row {
			s.Rows += n
			s.Predicted += e.confusion[k][c]
			rows.merge(e.cell(c, k))
			predicted.merge(e.cell(k, c))
			if either.merge(e.cell(c, k)); k != c {
				either.merge(e.cell(k, c))
			}
		}
		right := e.cell(c, c)
		s.Precision = share("precision", right, predicted, s.Predicted)
		s.Recall = share("recall", right, rows, s.Rows)
		s.F1 = share("F1", right, either, s.Rows+s.Predicted-row[c])
		for _, v := range []*float64{&s.F1.Value, &s.F1.Low, &s.F1.High} {
			*v = 2 * *v / (1 + *v)
		}
		s.AUC = areaOf(e.ranked(), c)
		out = append(out, s)
	}
	return out
}

// share is the weighted share of right among all, with its interval; rows is the number of rows that all comes from.
func share(name string, right, all tally, rows int64) Score {
	s := Score{Name: name, Value: math.NaN(), Low: math.NaN(), High: math.NaN(), Rows: rows}
	if all.w > 0 {
		s.Value, s.Low, s.High = shareOf(right, all)
	}
	return s
}

// Confused counts rows of one class that are predicted as another.
type Confused struct {
	Truth     int     `json:"truth"`
	Predicted int     `json:"predicted"`
	Rows      int64   `json:"rows"`
	Share     float64 `json:"share"` // of the rows of the true class
}

// LargestConfusions returns up to most pairs of classes that are confused most often. It replaces the confusion matrix
// if there are many classes.
func (e *Evaluation) LargestConfusions(most int) []Confused {
	confusion := e.Confusion()
	var out []Confused
	for c, row := range confusion {
		rows := int64(0)
		for _, n := range row {
			rows += n
		}
		for k, n := range row {
			if k != c && n > 0 {
				out = append(out, Confused{c, k, n, float64(n) / float64(rows)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Confused) int { return cmp.Compare(b.Rows, a.Rows) })
	return out[:min(most, len(out))]
}

package machine

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// TestExtrapolated: scores of predictions move by a part of what they gained with twice the rows, their intervals
// with them, within the range of a score and of a law without a negative limit.
func TestExtrapolated(t *testing.T) {
	fewer := NewEvaluation(KindRidge, Regression, 1)
	y := dense.New[float64](4, 1)
	pred := dense.New[float64](4, 1)
	for i := range y.Rows {
		y.Set(i, 0, float64(i))
		pred.Set(i, 0, float64(i)+1) // RMSE and MAE 1, R² 0.2
	}
	if err := fewer.Add(y, pred, dense.Matrix[float64]{}); err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	in := []Score{{Name: "RMSE", Value: 0.8, Low: 0.7, High: 1}, {Name: "R²", Value: 0.9, Low: 0.8, High: 1},
		{Name: "MAE", Value: 0.1, Low: 0.05, High: 0.2}, {Name: "Brier", Value: 0.3, Low: 0.2, High: 0.4},
		{Name: "RMSE", Output: 2, Value: 5, Low: nan, High: nan}}
	out := fewer.Extrapolate(in, 0.25)
	w := math.Sqrt(1.25*1.25 + 0.0625 - 0.3125)
	left := 1 - 0.25*(math.Sqrt2-1) // of an error whose curve is steeper than a power of −1/2
	r2 := 1 - 0.1*left*left
	want := []Score{{Value: 0.75, Low: 0.75 - 0.1*w, High: 0.75 + 0.2*w}, {Value: r2, Low: r2 - 0.1*w, High: 1},
		{Value: 0.1 * left, Low: 0.1*left - 0.05*w, High: 0.1*left + 0.1*w},
		{Value: 0.3, Low: 0.2, High: 0.4}, {Value: 5, Low: nan, High: nan}}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 || math.IsNaN(a) && math.IsNaN(b) }
	for i, s := range out {
		if g := want[i]; !near(s.Value, g.Value) || !near(s.Low, g.Low) || !near(s.High, g.High) {
			t.Errorf("%s: %v (%v to %v), want %v (%v to %v)", s.Name, s.Value, s.Low, s.High, g.Value, g.Low, g.High)
		}
	}
	if in[0].Value != 0.8 {
		t.Error("the scores given were changed")
	}
}

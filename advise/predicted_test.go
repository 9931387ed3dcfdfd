package advise

import (
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
)

// The error that theory expects of independent trigonometric features is (1−κ²)²/(2m) at a pair (HRF Lemma 2.1), in
// units of κ² if errors are relative and in units of the mean of κ² otherwise.
func TestPredictedUnits(t *testing.T) {
	const m = 16
	for _, loss := range []Loss{lossRelative, lossAbsolute} {
		s := newStudy(t, normalRows(40, 3, 2), Options{Seed: 5, Loss: loss})
		e := &entrant{variety: &variety{fitted: slices.Repeat([]family.Family{family.Trig{}}, len(s.folds))},
			coupling: coupling.IID{}, features: 2 * m, m: m}
		var sum, n, squares, pairs float64
		for _, f := range s.folds { // absolute errors have one unit in all folds
			for j, l := range f.logKernel.Data {
				if f.meets(j) {
					squares, pairs = squares+math.Exp(2*l), pairs+1
				}
			}
		}
		for i, f := range s.folds {
			for p := range closedPairs {
				a, b := p*f.x.Rows/closedPairs, (p*7919+i)%f.y.Rows
				if a == b {
					continue
				}
				k2 := math.Exp(2 * f.logKernel.At(a, b))
				unit := squares / pairs
				if loss == lossRelative {
					unit = k2
				}
				sum, n = sum+(1-k2)*(1-k2)/(2*m)/unit, n+1
			}
		}
		got, want := s.predicted(e, m, 0), math.Sqrt(sum/n)
		if got == nil {
			t.Errorf("%s errors: nothing predicted, want %g", loss, want)
		} else if math.Abs(*got/want-1) > 1e-9 {
			t.Errorf("%s errors: predicted %g, want %g", loss, *got, want)
		}
	}
}

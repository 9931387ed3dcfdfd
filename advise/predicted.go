package advise

import (
	"cmp"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/theory"
)

// closedPairs bounds the pairs of a fold at which closed forms are evaluated.
const closedPairs = 64

// predicted is the root mean square error that theory expects of an entrant with m projections, over pairs of
// the pilot. It is nil if there is no closed form, or one of another kernel.
func (s *study) predicted(e *entrant, m int, folds int) *float64 {
	if e.landmarks {
		return nil
	}
	folds = cmp.Or(folds, len(s.folds))
	var logs []float64
	for i, f := range s.folds[:folds] {
		spec := e.spec(s, i)
		est, err := family.Prepare(spec.Family, s.Kernel.Dim(s.dim))
		if err != nil {
			return nil
		}
		for p := range closedPairs {
			a, b := p*f.x.Rows/closedPairs, (p*7919+i)%f.y.Rows
			if !f.meets(a*f.y.Rows + b) {
				continue
			}
			moments, err := theory.Of(s.Kernel, est, e.coupling, m, f.x.Row(a), f.y.Row(b))
			if err != nil {
				return nil
			}
			logs = append(logs, moments.LogMSE+2*f.shift.At(a, b))
		}
	}
	if len(logs) == 0 {
		return nil
	}
	most := slices.Max(logs)
	if !dense.IsFinite(most) {
		return nil
	}
	var sum float64
	for _, l := range logs {
		sum += math.Exp(l - most)
	}
	v := finite(math.Exp((most + math.Log(sum/float64(len(logs)))) / 2))
	return &v
}

package tabular

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/machine"
)

// halfDecades are the steps around the λ of the sample between which all rows choose. Each costs a factorisation.
var halfDecades = []float64{-2, -1, 0, 1, 2}

// pather is implemented by sums that evaluate penalties without another pass over the rows: machine.Ridge.
type pather interface {
	Path(lambdas []float64) ([]machine.Point, error)
	Len() int64
}

// pathPenalty chooses λ from the sums of all rows: by generalised cross-validation, or by the evidence of a Gaussian
// process. While an end of the steps is best, it continues, up to six decades: the centre comes from a sample and
// may be far off.
func pathPenalty(r pather, evidence bool, centre float64, outputs int) (Choice, error) {
	ch := Choice{Name: "lambda", Why: "least generalised cross-validation error of all rows"}
	metric := "GCV R²"
	if evidence {
		ch.Why, metric = "largest marginal likelihood of all rows", "log evidence per row"
	}
	top := math.Inf(-1)
	try := func(step float64) (bool, error) {
		lambda := centre * math.Pow(10, step/2)
		path, err := r.Path([]float64{lambda})
		if err != nil {
			return false, err
		}
		score := 1 - path[0].GCV/float64(outputs) // targets are standardised
		if evidence {
			score = path[0].LogEvidence / float64(r.Len())
		}
		if math.IsInf(score, 0) || math.IsNaN(score) {
			return false, nil
		}
		ch.Trials = append(ch.Trials, Trial{Value: lambda, Score: score, Metric: metric})
		if score <= top {
			return false, nil
		}
		top, ch.Number = score, lambda
		return true, nil
	}
	for _, step := range halfDecades {
		if _, err := try(step); err != nil {
			return ch, err
		}
	}
	for _, side := range []float64{-1, 1} {
		if ch.Number != centre*math.Pow(10, side*halfDecades[len(halfDecades)-1]/2) {
			continue
		}
		for k, better := 3, true; better && k <= 12; k++ {
			var err error
			if better, err = try(side * float64(k)); err != nil {
				return ch, err
			}
		}
	}
	if ch.Number == 0 {
		return ch, fmt.Errorf("no penalty near %g can be used: give one with λ, or fewer features: %w", centre,
			machine.ErrSingular)
	}
	ch.Value = short(ch.Number)
	return ch, nil
}

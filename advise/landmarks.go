package advise

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
)

// Nyström features are kernels with landmarks, which are rows of the data. They are biased, but on rows like
// the training rows their error may be a tenth of that of random features. The landmarks of a fold come from
// the rows outside it, so errors are measured on rows that no landmark was drawn from.

const (
	// maxLandmarks bounds the landmarks of a candidate: choosing n among 2048 rows takes 1024·n² multiply-adds.
	maxLandmarks = 1024
	// landmarkSets bounds the choices of landmarks per fold. They differ much less than draws of projections
	// do.
	landmarkSets = 4
)

// enterLandmarks fits landmarks for each fold, without its rows.
func (s *study) enterLandmarks(v *variety, features int) *entrant {
	e := &entrant{variety: v, coupling: coupling.IID{}, features: min(features, maxLandmarks), m: 1}
	for i := range s.folds {
		f, err := s.fitLandmarks(i, e.features, 0)
		if err != nil {
			e.refused = err.Error()
			return e
		}
		e.own = append(e.own, f)
	}
	e.features = e.own[0].(family.Nystrom).Rows.Rows // fewer if those already span all rows
	return e
}

// wanted is the number of landmarks that fits look for.
func (e *entrant) wanted() int { return e.own[0].(family.Nystrom).N }

// fitLandmarks chooses landmarks among the rows outside of a fold. set numbers the choices.
func (s *study) fitLandmarks(fold, n, set int) (family.Family, error) {
	f := family.Nystrom{N: n, Seed: rng.Mix64(s.Seed + uint64(set))}
	return f.FitKernel(s.Kernel.Kind, s.folds[fold].stats.Stats)
}

// enough bounds the draws of an entrant: there are only so many sets of landmarks.
func (e *entrant) enough(s *study, draws int) int {
	if e.landmarks {
		return min(draws, landmarkSets*len(s.folds))
	}
	return draws
}

package randfeat

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
)

// ErrFeatures is returned by WithFeatures for a number of features that no number of projections gives.
var ErrFeatures = errors.New("no number of projections gives so many features")

// OutDim is the number of features of the map (Map.OutDim), computed without drawing anything.
func (s Spec) OutDim() (int, error) {
	if _, err := s.draws(); err != nil {
		return 0, err
	}
	fixed, each, err := s.size()
	if err != nil {
		return 0, err
	}
	if each > 0 && s.M > (math.MaxInt-fixed)/each {
		return 0, fmt.Errorf("family %s: %d features for each of %d projections: %w", s.Family.Name(), each, s.M,
			ErrSpec)
	}
	return fixed + each*s.M, nil
}

// WithFeatures returns the spec with the largest number of projections whose map has at most features features. The
// error is ErrFeatures if even one projection gives more, or if the family has a fixed number of features (elu, lfk)
// that differs; the spec then has M = 1, its smallest map.
func (s Spec) WithFeatures(features int) (Spec, error) {
	s.M = 1
	fixed, each, err := s.size()
	if err != nil {
		return s, err
	}
	switch {
	case each == 0 && fixed != features:
		return s, fmt.Errorf("family %s has %d features whatever the number of projections, not %d: %w",
			s.Family.Name(), fixed, features, ErrFeatures)
	case each == 0:
		return s, nil
	case fixed+each > features:
		return s, fmt.Errorf("family %s has %d features with one projection, more than %d: %w",
			s.Family.Name(), fixed+each, features, ErrFeatures)
	}
	s.M = (features - fixed) / each
	return s, nil
}

// size returns fixed and each such that the map has fixed + each·M features. Families have an affine number of features
// (family.Family), so the plans of one and of two zero projections determine both.
func (s Spec) size() (fixed, each int, err error) {
	var n [2]int
	for i := range n {
		s.M = i + 1
		draws, err := s.draws()
		if err != nil {
			return 0, 0, err
		}
		omega := make([]coupling.Omega, len(draws))
		for k, d := range draws {
			if int64(d.Rows) > maxElements/int64(d.Dim) {
				return 0, 0, tooMany(d)
			}
			omega[k].Rows = dense.New[float64](d.Rows, d.Dim)
		}
		pair, err := Lower(s, omega)
		if err != nil {
			return 0, 0, err
		}
		n[i] = pair.Query.OutDim(s.Dim)
	}
	return 2*n[0] - n[1], n[1] - n[0], nil
}

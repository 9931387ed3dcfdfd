package sampling

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
)

// distance measures how far the distribution q of a sampler is from the softmax p.
type distance struct {
	KL          float64 // Σ p log(p/q) in nats, p the softmax; +Inf if q lacks a class
	Wasserstein float64 // Σ_i |P_i − Q_i| of the cumulative sums, classes in the order of ids at distance 1
	KS          float64 // max_i |P_i − Q_i|, Kolmogorov–Smirnov
	// Effective is the effective sample size of importance weights as a share of many draws: 1/Σ p²/q over the classes
	// that q has.
	Effective float64
}

// Distances compares q with p. Both are probabilities of all classes.
func Distances(p, q []float64) (d distance, err error) {
	if len(p) != len(q) || len(p) == 0 {
		return d, fmt.Errorf("distributions over %d and %d classes: %w", len(p), len(q), dense.ErrShape)
	}
	var cp, cq, covered, square float64
	for i, a := range p {
		b := q[i]
		if !(a >= 0) || !(b >= 0) {
			return d, fmt.Errorf("probabilities %g and %g of class %d: %w", a, b, i, dense.ErrNotFinite)
		}
		cp, cq = cp+a, cq+b
		d.Wasserstein += math.Abs(cp - cq)
		d.KS = max(d.KS, math.Abs(cp-cq))
		if a > 0 {
			d.KL += a * math.Log(a/b)
		}
		if b > 0 {
			covered += a
			square += a * a / b
		}
	}
	if square > 0 {
		d.Effective = covered * covered / square
	}
	d.KL = max(0, d.KL) // rounding
	return d, nil
}

// Softmax writes the softmax distribution over all classes for a query, which the sampler approximates. Removed classes
// have probability 0.
func (s *Sampler[T]) Softmax(dst []float64, q []T) error {
	if len(dst) != s.classes.Rows {
		return fmt.Errorf("%d numbers for %d classes: %w", len(dst), s.classes.Rows, dense.ErrShape)
	}
	return s.with(q, func(w *worker[T]) error {
		if err := s.score(w, 0, s.classes.Rows); err != nil {
			return err
		}
		most := math.Inf(-1)
		for i, v := range w.scores {
			if !s.dead[i] {
				most = max(most, float64(v))
			}
		}
		sum := 0.0
		for i, v := range w.scores {
			dst[i] = 0
			if !s.dead[i] {
				dst[i] = math.Exp(float64(v) - most)
				sum += dst[i]
			}
		}
		for i := range dst {
			dst[i] /= sum
		}
		return nil
	})
}

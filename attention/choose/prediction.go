package choose

import (
	"errors"
	"fmt"
	"math"
)

// errRange marks rows whose denominators vary too much for a first-order expansion of the quotient.
var errRange = errors.New("out of the range of first-order predictions")

// prediction is the error of linear attention on given rows that theory predicts before a map is drawn.
//
// With weights w_j, attention a_j = w_j/Σw, relative errors ε_j = ŵ_j/w_j - 1 and their covariance C = E εεᵀ, the delta
// method gives, to first order in C,
//
//	ô - o = Σ_j a_j ε_j (v_j - o) / (1 + Σ a_l ε_l)        E|ô - o|² ≈ Σ_jk a_j a_k C_jk (v_j-o)·(v_k-o) / (1 + aᵀCa)
//	â_j - a_j = a_j (ε_j - Σ_l a_l ε_l) / (1 + Σ a_l ε_l)  E|â - a|² ≈ Σ_j a_j² (C_jj - 2(Ca)_j + aᵀCa) / (1 + aᵀCa)
//
// The estimates of different keys share their projections, so C is far from diagonal. Most of it cancels, because Σ_j
// a_j (v_j - o) = 0. The variances of single weights are therefore not enough; see [Basis].
type prediction struct {
	Output float64 // RMS of ‖ô-o‖_F/‖o‖_F
	Row    float64 // RMS of |â_i-a_i|₂/|a_i|₂
	// Denominator is the RMS relative error of the denominators, √(aᵀCa), or an upper bound of it; it may be +Inf.
	// Worst is the largest such error of a row. Output and Row are predicted up to a Denominator of 1 and, for signed
	// features, up to a Worst of 1/4.
	Denominator, Worst float64
	// Basis says how the prediction was made. With NoPrediction, Output and Row are NaN, and Denominator is NaN if
	// there is no closed form. All fields are 0 if no prediction was requested.
	Basis Basis
	// Err is nil, or says what has no closed form (it wraps theory.ErrNoClosedForm), or that denominators vary too
	// much.
	Err error
}

// predictionSum adds up the predicted squared errors of rows. The zero value predicts nothing.
type predictionSum struct {
	of     *predictor // the predictor with the least precise basis among those merged
	signed bool       // some map has features that may be negative

	rows              int
	output, attention float64
	denom, worst      float64
	norm              float64
}

// sum returns an empty sum for rows of p.
func (p *predictor) sum() predictionSum { return predictionSum{of: p, signed: !p.positive} }

// add adds a row. output and attention are the squared norms of its exact output and of its exact attention.
func (s *predictionSum) add(r rowErrors, output, attention float64) {
	s.rows++
	s.output += r.Output
	s.attention += r.Attention / attention
	s.denom += r.Denominator
	s.worst = max(s.worst, r.Denominator)
	s.norm += output
}

// merge adds the rows of o. The less precise basis of the two is the basis of both.
func (s *predictionSum) merge(o *predictionSum) {
	if s.of == nil || o.of != nil && o.of.basis > s.of.basis {
		s.of = o.of
	}
	s.signed = s.signed || o.signed
	s.rows += o.rows
	s.output += o.output
	s.attention += o.attention
	s.denom += o.denom
	s.worst = max(s.worst, o.worst)
	s.norm += o.norm
}

// prediction returns the prediction for all rows together. Sums estimated from sampled keys can be slightly negative;
// they count as 0.
func (s *predictionSum) prediction() prediction {
	root := func(num, den float64) float64 {
		if num <= 0 {
			return 0
		}
		return math.Sqrt(num / den)
	}
	if s.of == nil {
		return prediction{Basis: noPrediction}
	}
	n := float64(s.rows)
	p := prediction{Output: root(s.output, s.norm), Row: root(s.attention, n), Denominator: root(s.denom, n),
		Worst: root(s.worst, 1), Basis: s.of.basis, Err: s.of.err}
	if p.Basis == noPrediction {
		return p
	}
	if err := s.inRange(&p); err != nil {
		p.Err, p.Basis, p.Output, p.Row = err, noPrediction, math.NaN(), math.NaN()
	}
	return p
}

// Ranges of the relative error of denominators within which the first-order prediction is useful.
const (
	// Positive weights keep denominators positive. Large errors are merely too rare to be observed, so that the
	// prediction exceeds most measurements, by a factor of at most 3 up to here.
	positiveRange = 1
	// Signed weights let denominators come near zero and below, where a quotient has no moments: one such row outweighs
	// all others. At four standard deviations a normal denominator is negative in one of 30 000 cases. Within this
	// range predictions hold to a fifth; at twice the range errors are 2 to 4 times as large as predicted, at 1 tens of
	// times.
	signedRange = 0.25
)

// inRange returns an error that wraps errRange if the first-order expansion does not hold.
func (s *predictionSum) inRange(p *prediction) error {
	switch {
	case p.Denominator > positiveRange:
		return fmt.Errorf("denominators vary by %.2g of their size, want at most %v: %w", p.Denominator, positiveRange,
			errRange)
	case s.signed && p.Worst > signedRange:
		return fmt.Errorf("features are signed and denominators vary by up to %.2g of their size, want at most %v: near "+
			"zero errors have no bound: %w", p.Worst, signedRange, errRange)
	}
	return nil
}

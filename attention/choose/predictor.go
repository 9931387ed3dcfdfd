package choose

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// predictor predicts the errors of rows of one head. It is immutable, so heads may share it.
type predictor struct {
	kernel   kernel.Kernel // target of the estimates, including the matrix of DARK
	coupling coupling.Coupling
	m        int
	law      weightLaw // nil if the covariances have no closed form
	form     theory.Estimator
	positive bool // no estimated weight is ever negative
	basis    Basis
	err      error
}

// newPredictor finds the best basis for the map of a spec, from Covariances down to NoPrediction. It returns no error:
// err of the predictor says why a better basis was not possible.
func newPredictor(s randfeat.Spec) *predictor {
	p := &predictor{kernel: s.Target(), coupling: s.Coupling, m: s.M}
	f := s.Family
	// The matrix of a wrapper is part of the target kernel. In its coordinates the inner family makes the same
	// estimates.
	type wrapper interface{ Inner() family.Family }
	for w, ok := f.(wrapper); ok; w, ok = f.(wrapper) {
		f = w.Inner()
	}
	dim := p.kernel.Dim(s.Dim)
	var err error
	if p.positive, err = positive(s); err != nil {
		return p.fail(err)
	}
	if p.form, err = family.Prepare(f, dim); err != nil {
		return p.fail(err)
	}
	zero := make([]float64, dim)
	if _, err := p.form.Form(p.kernel.Kind, zero, zero); err != nil { // baselines estimate no kernel
		return p.fail(err)
	}
	if _, ok := s.Coupling.(coupling.ORFPrime); ok || !p.kernel.Kind.Exponential() {
		p.basis, p.err = upperBound, forms.NoForm("covariances of the weights of two keys with projections that are not normal")
		return p
	}
	if p.law, err = lawOf(f, dim); err != nil {
		if !errors.Is(err, theory.ErrNoClosedForm) {
			return p.fail(err)
		}
		p.basis, p.err, p.law = upperBound, err, nil
		return p
	}
	if s.M > 1 && coupling.Pairs(s.Coupling, dim).Kind != coupling.PairIndependent {
		p.basis = scaledCovariances
		if _, err := p.moments(s.Coupling, zero, zero); err != nil {
			p.basis, p.err = independentRows, err
		}
	}
	return p
}

// fail makes p a predictor without predictions.
func (p *predictor) fail(err error) *predictor {
	p.basis, p.err = noPrediction, err
	return p
}

// moments returns the closed-form moments of one embedded pair with coupling c; nil means independent projections.
func (p *predictor) moments(c coupling.Coupling, x, y []float64) (theory.Moments, error) {
	return theory.Of(kernel.Kernel{Kind: p.kernel.Kind}, p.form, c, p.m, x, y)
}

// rowErrors holds the predicted mean squared errors of one query: of its output and of its attention in their own
// units, and of its denominator relative to the exact one.
type rowErrors struct{ Output, Attention, Denominator float64 }

// quotients divides the mean squares of the numerators of errors by the mean square of the denominator, 1 + aᵀCa in
// units of Σw. If anything overflows, all three are infinite.
func quotients(output, attention, denominator float64) rowErrors {
	den := 1 + max(denominator, 0)
	r := rowErrors{output / den, attention / den, denominator}
	if !math.IsNaN(r.Output+r.Attention) && !math.IsInf(den, 1) {
		return r
	}
	return rowErrors{math.Inf(1), math.Inf(1), math.Inf(1)}
}

// rowKeys holds the keys that the prediction of one query uses: all keys that it sees, or a sample.
type rowKeys struct {
	Embedded   dense.Matrix[float64] // y_j, embedded by the target kernel (kernel.Kernel.Embed)
	Attention  []float64             // a_j
	Exact      []bool                // the weight is not estimated: the key is in a window or a sink
	Deviations dense.Matrix[float64] // v_j - o
	Sampled    bool                  // the keys are draws from a with replacement, not all keys
}

// row predicts the errors of the embedded query x (see prediction). With all keys the double sums over keys are
// complete. With a sample from a they are U-statistics: Σ_jk a_j a_k g_jk is estimated by the mean of g over pairs of
// different draws. C is then centred first; this changes nothing but noise because Σ_j a_j (v_j - o) = 0.
func (p *predictor) row(x []float64, k rowKeys) (rowErrors, error) {
	if p.basis == noPrediction {
		return rowErrors{math.NaN(), math.NaN(), math.NaN()}, nil
	}
	if p.law == nil {
		return p.bound(x, k)
	}
	n := len(k.Attention)
	weight, other, centre := k.Attention, k.Attention, 0.0 // weights of a key and of the other key of a pair
	if k.Sampled {
		weight, other, centre = make([]float64, n), make([]float64, n), 1
		for s := range n {
			weight[s], other[s] = 1/float64(n), 1/float64(n-1)
		}
	}
	cov, c := p.law.At(x, k.Embedded), dense.New[float64](n, n)
	mixed, den := make([]float64, n), 0.0 // Ca and aᵀCa
	for s := range n {
		for t := range s + 1 {
			if k.Exact[s] || k.Exact[t] || weight[s] == 0 || weight[t] == 0 {
				continue
			}
			v := cov(s, t)
			c.Set(s, t, v)
			if s == t {
				if !k.Sampled {
					mixed[s] += v * other[s]
				}
				continue
			}
			mixed[s] += v * other[t]
			mixed[t] += v * other[s]
		}
	}
	for s, w := range weight {
		den += w * mixed[s]
	}
	var e rowErrors
	e.Denominator = den
	for s, w := range weight {
		e.Attention += w * k.Attention[s] * (c.At(s, s) - 2*mixed[s] + den)
		if !k.Sampled {
			e.Output += w * w * c.At(s, s) * dense.Norm2(k.Deviations.Row(s))
		}
		for t := range s {
			v := c.At(s, t) - centre*(mixed[s]+mixed[t]-den)
			e.Output += 2 * w * other[t] * v * dense.Dot(k.Deviations.Row(s), k.Deviations.Row(t))
		}
	}
	scale := 1 / float64(p.m)
	if p.basis == scaledCovariances {
		r, err := p.ratio(x, k)
		if err != nil {
			return rowErrors{}, err
		}
		scale *= r
	}
	return quotients(e.Output*scale, e.Attention*scale, e.Denominator*scale), nil
}

// ratio returns the variance of single weights with the coupling divided by that with independent projections, both
// averaged over keys with weights a_j².
func (p *predictor) ratio(x []float64, k rowKeys) (float64, error) {
	var coupled, free float64
	for s, a := range k.Attention {
		if k.Exact[s] || a == 0 {
			continue
		}
		c, err := p.moments(p.coupling, x, k.Embedded.Row(s))
		if err != nil {
			return 0, err
		}
		f, err := p.moments(nil, x, k.Embedded.Row(s))
		if err != nil {
			return 0, err
		}
		w := a * a
		if k.Sampled {
			w = a
		}
		coupled += w * math.Exp(c.LogRelVar())
		free += w * math.Exp(f.LogRelVar())
	}
	if free == 0 || math.IsInf(free, 0) || math.IsInf(coupled, 0) {
		return 1, nil
	}
	return coupled / free, nil
}

// bound uses |C_jk| ≤ s_j s_k, where s_j is the relative root mean square error of one weight:
//
//	E|ô - o|² ≤ ( Σ_j a_j s_j |v_j - o| )²,   E|â - a|² ≤ Σ_j a_j² (s_j + Σ_l a_l s_l)²
//
// to first order. It does not divide by 1 + aᵀCa: dividing by an upper bound would not give an upper bound.
func (p *predictor) bound(x []float64, k rowKeys) (rowErrors, error) {
	n := len(k.Attention)
	rms, weight := make([]float64, n), make([]float64, n)
	var out, den float64
	for s, a := range k.Attention {
		weight[s] = a
		if k.Sampled {
			weight[s] = 1 / float64(n)
		}
		if k.Exact[s] || a == 0 {
			continue
		}
		m, err := p.moments(p.coupling, x, k.Embedded.Row(s))
		if errors.Is(err, theory.ErrNoClosedForm) { // the coupling has none: independent projections are the best known
			m, err = p.moments(nil, x, k.Embedded.Row(s))
		}
		if err != nil {
			return rowErrors{math.NaN(), math.NaN(), math.NaN()}, err
		}
		rms[s] = math.Exp(m.LogRelMSE() / 2)
		out += weight[s] * rms[s] * math.Sqrt(dense.Norm2(k.Deviations.Row(s)))
		den += weight[s] * rms[s]
	}
	var row float64
	for s, a := range k.Attention {
		row += weight[s] * a * (rms[s] + den) * (rms[s] + den)
	}
	return rowErrors{out * out, row, den * den}, nil
}

// positive reports whether no estimated weight of the map of a spec can be negative. This is a property of the
// features, whatever the draw.
func positive(s randfeat.Spec) (bool, error) {
	omega, err := randfeat.Draw(s)
	if err != nil {
		return false, err
	}
	pair, err := randfeat.Lower(s, omega)
	if err != nil {
		return false, err
	}
	return pair.Query.Positive() && pair.Key.Positive(), nil
}

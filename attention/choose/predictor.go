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

// predictor predicts errors of the rows of one head. It is immutable.
type predictor struct {
	kernel   kernel.Kernel // of the estimates, with the matrix of DARK
	coupling coupling.Coupling
	m        int
	law      weightLaw // nil: no covariances
	form     theory.Estimator
	positive bool // no estimated weight is ever negative
	basis    Basis
	err      error
}

// newPredictor looks up what is known about the map of a spec.
func newPredictor(s randfeat.Spec) *predictor {
	p := &predictor{kernel: s.Target(), coupling: s.Coupling, m: s.M}
	f := s.Family
	// The matrix of a wrapper is part of the target kernel; its estimates are those of the family inside.
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
	if _, err := p.form.Form(p.kernel.Kind, zero, zero); err != nil { // baselines
		return p.fail(err)
	}
	if _, ok := s.Coupling.(coupling.ORFPrime); ok || !p.kernel.Kind.Exponential() {
		p.basis, p.err = UpperBound, forms.NoForm("covariances of the weights of two keys with projections that are not normal")
		return p
	}
	if p.law, err = lawOf(f, dim); err != nil {
		if !errors.Is(err, theory.ErrNoClosedForm) {
			return p.fail(err)
		}
		p.basis, p.err, p.law = UpperBound, err, nil
		return p
	}
	if s.M > 1 && coupling.Pairs(s.Coupling, dim).Kind != coupling.PairIndependent {
		p.basis = ScaledCovariances
		if _, err := p.moments(s.Coupling, zero, zero); err != nil {
			p.basis, p.err = IndependentRows, err
		}
	}
	return p
}

func (p *predictor) fail(err error) *predictor {
	p.basis, p.err = NoPrediction, err
	return p
}

// moments are the closed forms for one embedded pair.
func (p *predictor) moments(c coupling.Coupling, x, y []float64) (theory.Moments, error) {
	return theory.Of(kernel.Kernel{Kind: p.kernel.Kind}, p.form, c, p.m, x, y)
}

// rowErrors is what is predicted for one query: mean squares of the errors of its output and of its attention, in
// the units of these, and of its denominator, relative.
type rowErrors struct{ Output, Attention, Denominator float64 }

// quotients divides the mean squares of the numerators of errors by that of the denominator, 1 + aᵀCa in units of Σw.
// Where they overflow, so does the prediction.
func quotients(output, attention, denominator float64) rowErrors {
	den := 1 + max(denominator, 0)
	r := rowErrors{output / den, attention / den, denominator}
	if !math.IsNaN(r.Output+r.Attention) && !math.IsInf(den, 1) {
		return r
	}
	return rowErrors{math.Inf(1), math.Inf(1), math.Inf(1)}
}

// rowKeys are the keys of one query that its prediction looks at: all that it sees, or a sample.
type rowKeys struct {
	Embedded   dense.Matrix[float64] // y_j, embedded by the target kernel (kernel.Kernel.Embed)
	Attention  []float64             // a_j
	Exact      []bool                // the weight is not estimated: inside a window
	Deviations dense.Matrix[float64] // v_j - o
	Sampled    bool                  // keys were drawn from a, with replacement; otherwise they are all keys
}

// row predicts the errors of the embedded query x. With all keys the double sums over keys are complete. With a sample
// from a they are U-statistics: Σ_jk a_j a_k g_jk is the mean of g over pairs of different draws; C is then centred
// first, which takes nothing but noise away because Σ_j a_j (v_j - o) = 0.
func (p *predictor) row(x []float64, k rowKeys) (rowErrors, error) {
	if p.basis == NoPrediction {
		return rowErrors{math.NaN(), math.NaN(), math.NaN()}, nil
	}
	if p.law == nil {
		return p.bound(x, k)
	}
	n := len(k.Attention)
	weight, other, centre := k.Attention, k.Attention, 0.0 // of a key, of the other key of a pair
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
	if p.basis == ScaledCovariances {
		r, err := p.ratio(x, k)
		if err != nil {
			return rowErrors{}, err
		}
		scale *= r
	}
	return quotients(e.Output*scale, e.Attention*scale, e.Denominator*scale), nil
}

// ratio is the mean square error of single weights with the coupling over that of independent projections, averaged
// over keys with weights a_j².
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

// bound uses |C_jk| ≤ s_j s_k, s_j the relative root mean square error of one weight:
//
//	E|ô - o|² ≤ ( Σ_j a_j s_j |v_j - o| )²,   E|â - a|² ≤ Σ_j a_j² (s_j + Σ_l a_l s_l)²
//
// to first order: a bound of the denominator's error must not divide.
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
		if errors.Is(err, theory.ErrNoClosedForm) { // of the coupling: that of independent rows is the best known
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

// positive reports whether no estimated weight of the map of a spec is ever negative: a property of its features,
// whatever is drawn.
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

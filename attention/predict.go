package attention

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// Method says how a [Prediction] was obtained, from the best to none.
type Method int

// ErrRange: the denominators vary by more than their size, so quotients have no expansion in their errors.
var ErrRange = errors.New("out of the range of first-order predictions")

// The methods. All take the mean of a quotient for the quotient of means, which holds while denominators vary little
// (Prediction.Denominator up to about 0.1). Beyond that means are those of heavy tails, which few draws show: the
// prediction then exceeds most measurements. Above 1 there is none.
const (
	// Covariances of the weights of every two keys, in closed form: independent projections.
	Covariances Method = iota
	// ScaledCovariances are those of independent projections times the closed-form ratio of variances, coupled to
	// independent, averaged over the keys: the ratio for two different keys has no closed form.
	ScaledCovariances
	// IndependentRows: nothing is known of the coupling for this family; the value is that of independent projections.
	// Err says what is missing.
	IndependentRows
	// UpperBound: only variances of single weights are known (of independent projections where the coupling has no form);
	// covariances are bounded by Cauchy and Schwarz. Err says what is missing.
	UpperBound
	// NoPrediction: the map has no closed form at all, or denominators vary too much; Err says which.
	NoPrediction
)

// String names the method.
func (m Method) String() string {
	switch m {
	case Covariances:
		return "covariances"
	case ScaledCovariances:
		return "scaled covariances"
	case IndependentRows:
		return "independent rows"
	case UpperBound:
		return "upper bound"
	case NoPrediction:
		return "no prediction"
	}
	return fmt.Sprintf("Method(%d)", int(m))
}

// Prediction is what theory says of the errors of linear attention on given rows, before a map is drawn.
//
// With weights w_j, attention a_j = w_j/Σw, relative errors ε_j = ŵ_j/w_j - 1 and their covariance C = E εεᵀ,
//
//	ô - o = Σ_j a_j ε_j (v_j - o) / (1 + Σ a_l ε_l)          E|ô - o|² ≈ Σ_jk a_j a_k C_jk (v_j - o)·(v_k - o) / (1 + aᵀCa)
//	â_j - a_j = a_j (ε_j - Σ_l a_l ε_l) / (1 + Σ a_l ε_l)    E|â - a|² ≈ Σ_j a_j² (C_jj - 2(Ca)_j + aᵀCa) / (1 + aᵀCa)
//
// to first order in C the delta method.
// Estimates of different keys share their projections: C is far from diagonal, and most of it cancels, because
// Σ_j a_j (v_j - o) = 0. So the variances of single weights are not enough; see Method.
type Prediction struct {
	Output float64 // RMS of ‖ô-o‖_F/‖o‖_F
	Row    float64 // RMS of |â_i-a_i|₂/|a_i|₂
	// Denominator is the RMS relative error of the denominators, √(aᵀCa), or its bound. Above 1, perhaps +Inf, Output and
	// Row are not predicted.
	Denominator float64
	// Method: with NoPrediction, Output and Row are NaN; so is Denominator without a closed form. All are 0 if no prediction
	// was asked for.
	Method Method
	// Err is nil, or says what has no closed form and wraps theory.ErrNoClosedForm, or says that Denominator is above 1 and
	// wraps ErrRange.
	Err error
}

// checkRange withdraws a prediction whose denominators vary too much.
func (p *Prediction) checkRange() {
	if p.Method != NoPrediction && p.Denominator > 1 {
		p.Err = fmt.Errorf("denominators vary by %.2g of their size, want at most 1: %w", p.Denominator, ErrRange)
		p.Method, p.Output, p.Row = NoPrediction, math.NaN(), math.NaN()
	}
}

// predictor predicts errors of the rows of one head.
type predictor struct {
	kernel   kernel.Kernel // of the estimates, with the matrix of DARK
	coupling coupling.Coupling
	m        int
	law      weightLaw // nil: no covariances
	form     theory.Estimator
	method   Method
	err      error
	failed   bool
}

// newPredictor looks up what is known about a map.
func newPredictor(s randfeat.Spec) *predictor {
	p := &predictor{kernel: s.Target(), coupling: s.Coupling, m: s.M}
	f := s.Family
	for {
		dark, ok := f.(family.DARK)
		if !ok {
			break
		}
		if f = dark.Base; f == nil {
			f = family.Positive{}
		}
	}
	dim := p.kernel.Dim(s.Dim)
	var err error
	if p.form, err = family.Prepare(f, dim); err != nil {
		return p.fail(err)
	}
	zero := make([]float64, dim)
	if _, err := p.form.Form(p.kernel.Kind, zero, zero); err != nil { // baselines
		return p.fail(err)
	}
	if _, ok := s.Coupling.(coupling.ORFPrime); ok || p.kernel.Kind == kernel.Bessel {
		p.method, p.err = UpperBound, theory.NoForm("covariances of the weights of two keys with projections of fixed norm")
		return p
	}
	if p.law, err = newWeightLaw(f, dim); err != nil {
		if !errors.Is(err, theory.ErrNoClosedForm) {
			return p.fail(err)
		}
		p.method, p.err, p.law = UpperBound, err, nil
		return p
	}
	if s.M > 1 && coupling.Pairs(s.Coupling, dim).Kind != coupling.PairIndependent {
		p.method = ScaledCovariances
		if _, err := p.moments(s.Coupling, zero, zero); err != nil {
			p.method, p.err = IndependentRows, err
		}
	}
	return p
}

func (p *predictor) fail(err error) *predictor {
	p.method, p.err, p.failed = NoPrediction, err, true
	return p
}

// moments are the closed forms for one embedded pair.
func (p *predictor) moments(c coupling.Coupling, x, y []float64) (theory.Moments, error) {
	return theory.Of(kernel.Kernel{Kind: p.kernel.Kind}, p.form, c, p.m, x, y)
}

// rowErrors are the predicted squares for one query, in units of the values.
type rowErrors struct{ output, row, denominator float64 }

// quotients divides the mean squares of the numerators of errors by that of the denominator, 1 + aᵀCa in units of Σw.
// Where they overflow, so does the prediction.
func quotients(output, row, denominator float64) rowErrors {
	den := 1 + max(denominator, 0)
	e := rowErrors{output / den, row / den, denominator}
	if !math.IsNaN(e.output+e.row) && !math.IsInf(den, 1) {
		return e
	}
	return rowErrors{math.Inf(1), math.Inf(1), math.Inf(1)}
}

// keysOf are the keys of one query that its prediction looks at.
type keysOf struct {
	y       dense.Matrix[float64] // embedded
	a       []float64             // attention
	exact   []bool                // weight not estimated: inside the window
	dev     dense.Matrix[float64] // v_j - o
	sampled bool                  // keys were drawn from a, with replacement; otherwise they are all keys
}

// row predicts the errors of the query x. With all keys the double sums over keys are complete. With a sample from a
// they are U-statistics: Σ_jk a_j a_k g_jk is the mean of g over pairs of different draws; C is then centred first, which
// takes nothing but noise away because Σ_j a_j (v_j - o) = 0.
func (p *predictor) row(x []float64, k keysOf) (rowErrors, error) {
	if p.failed {
		return rowErrors{math.NaN(), math.NaN(), math.NaN()}, p.err
	}
	if p.law == nil {
		return p.bound(x, k)
	}
	n := len(k.a)
	weight, other, centre := k.a, k.a, 0.0 // of a key, of the other key of a pair
	if k.sampled {
		weight, other, centre = make([]float64, n), make([]float64, n), 1
		for s := range n {
			weight[s], other[s] = 1/float64(n), 1/float64(n-1)
		}
	}
	cov, c := p.law.at(x, k.y), dense.New[float64](n, n)
	mixed, den := make([]float64, n), 0.0 // Ca and aᵀCa
	for s := range n {
		for t := range s + 1 {
			if k.exact[s] || k.exact[t] || weight[s] == 0 || weight[t] == 0 {
				continue
			}
			v := cov(s, t)
			c.Set(s, t, v)
			if s == t {
				if !k.sampled {
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
	e.denominator = den
	for s, w := range weight {
		e.row += w * k.a[s] * (c.At(s, s) - 2*mixed[s] + den)
		if !k.sampled {
			e.output += w * w * c.At(s, s) * dense.Norm2(k.dev.Row(s))
		}
		for t := range s {
			v := c.At(s, t) - centre*(mixed[s]+mixed[t]-den)
			e.output += 2 * w * other[t] * v * dense.Dot(k.dev.Row(s), k.dev.Row(t))
		}
	}
	scale := 1 / float64(p.m)
	if p.method == ScaledCovariances {
		r, err := p.ratio(x, k)
		if err != nil {
			return rowErrors{}, err
		}
		scale *= r
	}
	return quotients(e.output*scale, e.row*scale, e.denominator*scale), nil
}

// ratio is the mean square error of single weights with the coupling over that of independent projections, averaged
// over keys with weights a_j².
func (p *predictor) ratio(x []float64, k keysOf) (float64, error) {
	var coupled, free float64
	for s, a := range k.a {
		if k.exact[s] || a == 0 {
			continue
		}
		c, err := p.moments(p.coupling, x, k.y.Row(s))
		if err != nil {
			return 0, err
		}
		f, err := p.moments(nil, x, k.y.Row(s))
		if err != nil {
			return 0, err
		}
		w := a * a
		if k.sampled {
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
func (p *predictor) bound(x []float64, k keysOf) (rowErrors, error) {
	n := len(k.a)
	rms, weight := make([]float64, n), make([]float64, n)
	var out, den float64
	for s, a := range k.a {
		weight[s] = a
		if k.sampled {
			weight[s] = 1 / float64(n)
		}
		if k.exact[s] || a == 0 {
			continue
		}
		m, err := p.moments(p.coupling, x, k.y.Row(s))
		if errors.Is(err, theory.ErrNoClosedForm) { // of the coupling: that of independent rows is the best known
			m, err = p.moments(nil, x, k.y.Row(s))
		}
		if err != nil {
			return rowErrors{math.NaN(), math.NaN(), math.NaN()}, err
		}
		rms[s] = math.Exp(m.LogRelMSE() / 2)
		out += weight[s] * rms[s] * math.Sqrt(dense.Norm2(k.dev.Row(s)))
		den += weight[s] * rms[s]
	}
	var row float64
	for s, a := range k.a {
		row += weight[s] * a * (rms[s] + den) * (rms[s] + den)
	}
	return rowErrors{out * out, row, den * den}, nil
}

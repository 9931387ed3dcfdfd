package theory

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/special"
	"github.com/randfeat/randfeat/kernel"
)

// Estimator is the part of a family that the closed forms need; every family implements it.
type Estimator interface {
	// Form describes the error at one pair; x and y are embedded by the kernel. It returns an error that wraps
	// ErrNoClosedForm if no closed form is known.
	Form(kind kernel.Kind, x, y []float64) (forms.Form, error)
}

// Moments are the predicted moments of an estimate of κ(x, y), as natural logarithms; -Inf is an exact zero.
type Moments struct {
	LogKernel float64 // log |κ(x, y)|, the exact value
	LogMean   float64 // log |E κ̂|
	LogBias   float64 // log |E κ̂ - κ|; -Inf means unbiased
	LogVar    float64
	LogMSE    float64
	// Approximate says that rows follow the law of the closed form only nearly (HD products, Givens rotations). The
	// bias is then an expansion to sixth order in |v|, and the variance is that of exact rows.
	Approximate bool
	LogMass     float64 // LogMass of the Form, see LogRounding
}

// LogRounding is the log of the error, relative to κ, that features rounded to the unit u leave whatever their number:
// u·e^{LogMass}, with u = 2^-24 for float32 and 2^-53 for float64. It is a floor for signed features whose products
// cancel down to a small kernel: trigonometric ones at a distance, or hybrids of them at y = -x, where their variance
// is zero. Measured errors of float32 were within a factor of 8.
func (m Moments) LogRounding(u float64) float64 {
	return math.Log(u) + m.LogMass + m.LogMean - m.LogKernel
}

// LogRelMSE is the log of the mean squared error relative to κ².
func (m Moments) LogRelMSE() float64 { return m.LogMSE - 2*m.LogKernel }

// LogRelVar is the log of the variance relative to the squared mean.
func (m Moments) LogRelVar() float64 { return m.LogVar - 2*m.LogMean }

// Of predicts the moments of the estimate of k at x, y by family f with m projections coupled by c (nil means
// independent). If no closed form exists, it returns an error that wraps ErrNoClosedForm.
func Of(k kernel.Kernel, f Estimator, c coupling.Coupling, m int, x, y []float64) (Moments, error) {
	if f == nil {
		return Moments{}, forms.DomainError("family", nil, "a family")
	}
	if len(x) != len(y) {
		return Moments{}, forms.DomainError("y", len(y), fmt.Sprintf("%d coordinates, as x has", len(x)))
	}
	if err := k.Validate(len(x)); err != nil {
		return Moments{}, err
	}
	if m < 1 {
		return Moments{}, forms.DomainError("m", m, "m ≥ 1")
	}
	d := k.Dim(len(x))
	u, v := k.Embed(make([]float64, d), x), k.Embed(make([]float64, d), y)
	form, err := f.Form(k.Kind, u, v)
	if err != nil {
		return Moments{}, err
	}
	if !k.Kind.Exponential() && (len(form.Terms) != 1 || !form.Terms[0].Cosine) {
		return Moments{}, forms.NoForm(fmt.Sprintf("the %v kernel with a family other than trig", k.Kind))
	}
	if prime, ok := c.(coupling.ORFPrime); ok || k.Kind == kernel.Bessel {
		radius := 1.0
		if prime.SqrtDim {
			radius = math.Sqrt(float64(d))
		}
		return fixedNorm(k, form, c, m, u, v, radius)
	}
	logRel, approximate, err := logRelVar(form, c, m)
	if err != nil {
		return Moments{}, err
	}
	logRow, err := formRowRatio(form, c, m)
	if err != nil {
		return Moments{}, err
	}
	out := Moments{LogKernel: (kernel.Kernel{Kind: k.Kind}).Log(u, v), LogBias: math.Inf(-1),
		LogMass: form.LogMass, Approximate: approximate}
	out.LogMean = out.LogKernel + form.LogRatio
	out.LogVar = 2*out.LogMean + logRel
	if out.LogMean += logRow; out.LogMean != out.LogKernel {
		hi, lo := max(out.LogMean, out.LogKernel), min(out.LogMean, out.LogKernel)
		out.LogBias = special.LogSub(hi, lo)
	}
	out.LogMSE = special.LogSumExp(out.LogVar, 2*out.LogBias)
	return out, nil
}

// logRelVar is the log relative variance for m rows: the weighted terms of the form, plus the covariance of bases that
// share projections.
func logRelVar(f forms.Form, c coupling.Coupling, m int) (logRel float64, approximate bool, err error) {
	logs := make([]float64, 0, len(f.Terms)+1)
	for _, t := range f.Terms {
		v, approx, err := logRelMSE(t, c, m)
		if err != nil {
			return 0, false, err
		}
		logs = append(logs, t.LogWeight+v)
		approximate = approximate || approx
	}
	total := special.LogSumExp(logs...)
	if f.Cross.Sign == 0 || math.IsInf(total, 0) {
		return total, approximate, nil
	}
	if m > 1 && coupling.Pairs(c, f.Terms[0].Dim).Kind != coupling.PairIndependent {
		return 0, false, forms.NoForm("bases on shared projections with coupled rows")
	}
	sum := special.SumSigned(special.Signed{Sign: 1, Log: total}, f.Cross.Scale(-math.Log(float64(m))))
	if sum.Sign <= 0 { // a variance of zero, up to rounding
		return math.Inf(-1), approximate, nil
	}
	return sum.Log, approximate, nil
}

// logRelMSE is the log relative variance of one term for m rows (docs/theory.md §5.2).
func logRelMSE(t forms.Term, c coupling.Coupling, m int) (logRel float64, approximate bool, err error) {
	pairs := coupling.Pairs(c, t.Dim)
	if m == 1 || pairs.Kind == coupling.PairIndependent {
		e, _ := coupling.Excess(c, t.Dim, m)
		return t.LogRV - math.Log(float64(m)), e.Fourth != 0, nil
	}
	if !pairs.Kind.Closed() {
		return 0, false, forms.NoForm(fmt.Sprintf("the variance under the %s coupling", c.Name()))
	}
	if !t.Couples {
		return 0, false, forms.NoForm(fmt.Sprintf("this family under the %s coupling: only independent rows have one",
			c.Name()))
	}
	if pairs.Kind == coupling.PairCoupled && t.Radial {
		return 0, false, forms.NoForm(fmt.Sprintf("features weighted by |ω|² under the %s coupling", c.Name()))
	}
	if t.Radial && pairs.Dim != t.Dim {
		return 0, false, forms.NoForm(fmt.Sprintf("features weighted by |ω|² under the %s coupling, padded from %d to %d",
			c.Name(), t.Dim, pairs.Dim))
	}
	logRel, err = forms.LogRelMSE(t.Shape, pairs.Kind, pairs.Dim, m, t.LogRV, t.V.Two)
	return logRel, !pairs.Exact, err
}

// fixedNorm is ORF′ (ORF Thms 2, 4): cosines of projections of a fixed norm, whose mean is the Bessel kernel whatever
// kernel the caller asked for.
func fixedNorm(k kernel.Kernel, f forms.Form, c coupling.Coupling, m int, u, v []float64,
	radius float64) (Moments, error) {
	t := f.Terms[0]
	if len(f.Terms) != 1 || !t.Cosine || f.LogRatio != 0 || t.Dim != len(u) {
		return Moments{}, forms.NoForm("projections of fixed norm with a family other than trig")
	}
	d, z := len(u), radius*math.Sqrt(t.V.Two)
	var logVar float64
	switch pairs := coupling.Pairs(c, d); {
	case pairs.Kind == coupling.PairOrthogonal && pairs.Dim == d:
		logVar = forms.LogVarORFPrime(d, m, z)
	case m == 1 || pairs.Kind == coupling.PairIndependent:
		logVar = forms.LogVarORFPrime(d, 1, z) - math.Log(float64(m))
	default:
		return Moments{}, forms.NoForm(fmt.Sprintf("the Bessel kernel under the %s coupling", c.Name()))
	}
	unit := kernel.Kernel{Kind: k.Kind}
	out := Moments{LogKernel: unit.Log(u, v), LogMean: special.BesselJLog(d, z).Log, LogVar: logVar,
		LogBias:     math.Inf(-1),
		Approximate: !coupling.Pairs(c, d).Exact}
	switch {
	case k.Kind == kernel.Bessel && radius == 1:
	case !k.Kind.Exponential():
		out.LogBias = math.Log(math.Abs(forms.ORFMean(d, z) - unit.Eval(u, v)))
	case radius == 1:
		out.LogBias = math.Log(math.Abs(forms.ORFBias(d, z)))
	default:
		out.LogBias = math.Log(math.Abs(forms.ORFMean(d, z) - math.Exp(-t.V.Two/2)))
	}
	if k.Kind == kernel.Softmax { // the factor e^{(|x|²+|y|²)/2} of the softmax form
		shift := out.LogKernel + t.V.Two/2
		out.LogMean += shift
		out.LogBias += shift
		out.LogVar += 2 * shift
	}
	out.LogMSE = special.LogSumExp(out.LogVar, 2*out.LogBias)
	return out, nil
}

package forms

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/mathext"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/special"
)

// coupledPairs are two orthogonal rows whose squared norms are at opposite quantiles, a = F⁻¹(u) and b = F⁻¹(1−u)
// with F the distribution function of chi²_d. Their conformity is the expectation over u of 0F1(; d/2; ±t(a+b)/4)
// (docs/theory.md §4.11).
type coupledPairs struct{}

// partnered is the share of the m projections, in blocks of d, that have a partner.
func partnered(m, d int) float64 {
	return float64(m/d*(d-d%2)+m%d-m%d%2) / float64(m)
}

// logMSE corrects the error under the law with independent norms: only partners have another covariance.
func (c coupledPairs) logMSE(shape Shape, d, m int, logRV, t float64) (float64, error) {
	base, err := LogRelMSE(shape, coupling.PairOrthogonal, d, m, logRV, t)
	if err != nil || d == 1 || m == 1 || t == 0 || math.IsInf(logRV, 1) || kappaIsNegligible(shape, d, logRV, t) {
		return base, err
	}
	free := orthogonalPairs{}.kappa(shape, d, t)
	free.Sign = -free.Sign
	diff := special.SumSigned(c.kappa(shape, d, t), free).Scale(math.Log(partnered(m, d) / float64(m)))
	ratio := float64(diff.Sign) * math.Exp(diff.Log-base)
	if !(ratio > -1) {
		return math.NaN(), DomainError("logRV", logRV, "a variance that pairs with coupled norms can have")
	}
	return base + math.Log1p(ratio), nil
}

// kappa is the relative covariance of two partners. The constant and the linear part of the conformity are those of
// independent rows and cancel; for small t they are taken out before the expectation.
func (c coupledPairs) kappa(shape Shape, d int, t float64) special.Signed {
	const tiny = 1e-100
	if t < tiny { // proportional to t² there, which underflows
		return c.kappa(shape, d, tiny).Scale(2 * math.Log(t/tiny))
	}
	x, b, rest, frequency := t, float64(d)/2, 0.0, 0.0
	if shape == Trigonometric {
		x, frequency = -t, math.Sqrt(t)
	}
	var terms []special.Signed
	for _, node := range normNodes(d, frequency) {
		switch {
		case t <= smallCoupled:
			rest += node.weight * conformityRest(d, x*node.sum/4)
			continue
		case x > 0:
			h := special.Signed{Sign: 1, Log: special.Hyp0F1Log(b, x*node.sum/4)}
			terms = append(terms, h.Scale(math.Log(node.weight)-x))
		default:
			terms = append(terms, special.BesselJLog(d, math.Sqrt(t*node.sum)).Scale(math.Log(node.weight)-x))
		}
	}
	if t > smallCoupled {
		return minusOne(special.SumSigned(terms...))
	}
	return special.SignedOf(math.Exp(-x)*rest - lostLinear(x)) // e^{−x}(1 + x + rest) − 1
}

// smallCoupled is the largest t for the expansion about t = 0.
const smallCoupled = 4

// conformityRest is 0F1(; b; x) − 1 − x/b, b = d/2.
func conformityRest(d int, x float64) float64 {
	b := float64(d) / 2
	switch {
	case math.Abs(x) <= 4*b || math.Abs(x) <= 4:
		term := x / b
		sum := 0.0
		for k := 2.0; ; k++ {
			term *= x / (k * (b + k - 1))
			sum += term
			if math.Abs(term) <= 1e-18*math.Abs(sum) || k > maxSeries {
				return sum
			}
		}
	case x > 0:
		return math.Exp(special.Hyp0F1Log(b, x)) - 1 - x/b
	}
	return special.BesselJ(d, 2*math.Sqrt(-x)) - 1 - x/b
}

// lostLinear is 1 − e^{−x}(1+x) = x²/2 − x³/3 + …
func lostLinear(x float64) float64 {
	if math.Abs(x) > 0.5 {
		return 1 - math.Exp(-x)*(1+x)
	}
	sum, power := 0.0, -x
	for k := 2.0; k < 30; k++ {
		power *= -x / k
		sum += (k - 1) * power
	}
	return sum
}

// normNode is a node of the expectation over sum = a + b of two partners.
type normNode struct{ weight, sum float64 }

var coupledNorms sync.Map // d → []normNode with the step 1/8

// normNodes are nodes for the trapezoidal rule in the normal quantile s of u = Φ(−s): a + b is a smooth, even function
// of s, nearly constant for large d, so that the rule converges as for a Gaussian. |s| ≤ 14 has all that e^{−t} leaves
// of a conformity. Oscillation of trigonometric features needs a finer step far out, where kappaIsNegligible ends at
// t = 10⁷.
func normNodes(d int, frequency float64) []normNode {
	const top = 14
	step := 1 / math.Ceil(max(8, frequency/5))
	if v, ok := coupledNorms.Load(d); ok && step == 1./8 {
		return v.([]normNode)
	}
	var nodes []normNode
	total := 0.0
	for i := 0; float64(i)*step <= top; i++ {
		s := float64(i) * step
		w := 2 * math.Exp(-s*s/2)
		if i == 0 {
			w = 1
		}
		u := math.Erfc(s/math.Sqrt2) / 2
		long := 2 * mathext.GammaIncRegCompInv(float64(d)/2, u)
		short := 2 * mathext.GammaIncRegCompInv(float64(d)/2, 1-u)
		nodes = append(nodes, normNode{w, long + short})
		total += w
	}
	for i := range nodes {
		nodes[i].weight /= total
	}
	if step == 1./8 {
		coupledNorms.Store(d, nodes)
	}
	return nodes
}

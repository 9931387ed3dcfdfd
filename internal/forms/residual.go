package forms

import (
	"math"
	"math/big"

	"github.com/randfeat/randfeat/internal/special"
)

// residualLimit keeps e^{xx+yy+4xy} within the exponents of big.Float.
const residualLimit = 1e8

// LogRVResidual returns the log relative variance (over e^{2xy}) of one projection
// of the residual map g(ω,x) = X − A, X = e^{ω·x−xx/2}, A = 1 + ω·x:
//
//	E[ g(ω,x)² g(ω,y)² ] − ( e^{xy} − 1 − xy )².
//
// Derived here for the features of docs/theory.md §2.19. Expanding (X−A)²(Y−B)² leaves nine
// terms; a factor X^i Y^j tilts ω to N(ix+jy, I) at the price e^{[i=2]xx + ij·xy + [j=2]yy},
// and A^{2−i} B^{2−j} is then a bivariate Gaussian moment. The sum is of order
// xx² yy², so it is formed in extended precision. ErrDomain if no vectors have these
// products, or if xx or yy exceeds 1e8.
func LogRVResidual(xx, yy, xy float64) (float64, error) {
	switch {
	case !(xx >= 0 && xx <= residualLimit):
		return math.NaN(), DomainError("xx", xx, "0 ≤ xx ≤ 1e8")
	case !(yy >= 0 && yy <= residualLimit):
		return math.NaN(), DomainError("yy", yy, "0 ≤ yy ≤ 1e8")
	case !(math.Abs(xy) <= math.Sqrt(xx)*math.Sqrt(yy)*(1+1e-9)):
		return math.NaN(), DomainError("xy", xy, "|xy| ≤ √(xx·yy)")
	case xx == 0 || yy == 0:
		return math.Inf(-1), nil
	}
	r := newResidual(xx, yy, xy)
	sum := r.num(0)
	for i := range 3 {
		for j := range 3 {
			sum.Add(sum, r.term(i, j))
		}
	}
	mean := r.sub(r.expXY, r.add(r.num(1), r.xy))
	sum.Sub(sum, r.mul(mean, mean))
	return special.LogBig(sum) - 2*xy, nil
}

// residual carries the products and their exponentials at one precision.
type residual struct {
	prec                uint
	xx, yy, xy          *big.Float
	expXX, expYY, expXY *big.Float
}

func newResidual(xx, yy, xy float64) residual {
	bits := func(v float64) float64 { return 2 * math.Abs(math.Log2(v)) }
	r := residual{prec: uint(192 + bits(xx) + bits(yy))}
	r.xx, r.yy, r.xy = r.num(xx), r.num(yy), r.num(xy)
	r.expXX, r.expYY, r.expXY = expBig(r.xx), expBig(r.yy), expBig(r.xy)
	return r
}

func (r residual) num(v float64) *big.Float { return new(big.Float).SetPrec(r.prec).SetFloat64(v) }

func (r residual) add(a *big.Float, more ...*big.Float) *big.Float {
	sum := new(big.Float).Set(a)
	for _, b := range more {
		sum.Add(sum, b)
	}
	return sum
}

func (r residual) sub(a, b *big.Float) *big.Float { return r.num(0).Sub(a, b) }

func (r residual) mul(a *big.Float, more ...*big.Float) *big.Float {
	prod := new(big.Float).Set(a)
	for _, b := range more {
		prod.Mul(prod, b)
	}
	return prod
}

// term is the expectation of binom(2,i) binom(2,j) X^i (−A)^{2−i} Y^j (−B)^{2−j}.
func (r residual) term(i, j int) *big.Float {
	fi, fj := r.num(float64(i)), r.num(float64(j))
	a := r.add(r.num(1), r.mul(fi, r.xx), r.mul(fj, r.xy)) // mean of A under the tilt
	b := r.add(r.num(1), r.mul(fi, r.xy), r.mul(fj, r.yy))
	out := r.moment(2-i, 2-j, a, b)
	sign := []float64{1, -2, 1} // binom(2,i)·(−1)^{2−i}
	out.Mul(out, r.num(sign[i]*sign[j]))
	if i == 2 {
		out.Mul(out, r.expXX)
	}
	if j == 2 {
		out.Mul(out, r.expYY)
	}
	for range i * j {
		out.Mul(out, r.expXY)
	}
	return out
}

// moment is E A^p B^q, p, q ≤ 2, for A, B normal with means a, b, variances xx, yy
// and covariance xy.
func (r residual) moment(p, q int, a, b *big.Float) *big.Float {
	two, four := r.num(2), r.num(4)
	switch {
	case p < q:
		flipped := residual{prec: r.prec, xx: r.yy, yy: r.xx, xy: r.xy}
		return flipped.moment(q, p, b, a)
	case p == 0:
		return r.num(1)
	case p == 1 && q == 0:
		return r.mul(a)
	case p == 1:
		return r.add(r.mul(a, b), r.xy)
	case q == 0:
		return r.add(r.mul(a, a), r.xx)
	case q == 1:
		return r.add(r.mul(a, a, b), r.mul(r.xx, b), r.mul(two, a, r.xy))
	}
	return r.add(r.mul(a, a, b, b), r.mul(r.xx, b, b), r.mul(r.yy, a, a),
		r.mul(four, a, b, r.xy), r.mul(r.xx, r.yy), r.mul(two, r.xy, r.xy))
}

// expBig returns e^x at the precision of x: Taylor's series of x/2^k, squared k
// times, with k guard bits.
func expBig(x *big.Float) *big.Float {
	k := max(0, x.MantExp(nil)+8)
	prec := x.Prec() + uint(k) + 16
	y := new(big.Float).SetPrec(prec).Set(x)
	y.SetMantExp(y, -k)
	sum := new(big.Float).SetPrec(prec).SetInt64(1)
	term := new(big.Float).SetPrec(prec).SetInt64(1)
	n := new(big.Float).SetPrec(prec)
	for i := int64(1); term.Sign() != 0 && term.MantExp(nil) > -int(prec); i++ {
		term.Mul(term, y)
		term.Quo(term, n.SetInt64(i))
		sum.Add(sum, term)
	}
	for range k {
		sum.Mul(sum, sum)
	}
	return new(big.Float).SetPrec(x.Prec()).Set(sum)
}

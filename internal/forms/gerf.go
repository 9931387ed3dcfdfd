package forms

import (
	"math"
	"math/cmplx"
)

// LogSecondGERF returns log R, the log second moment of one generalized
// exponential (GERF) projection relative to the squared kernel,
//
//	R = ½ ( Re e^{t1} + e^{t3} ),  w = 1 − 8A, h = Re w,
//	t1 = d Log((1+w)/(2√w)) + s V/w,
//	t3 = (d/2) log(1 + 16|A|²/h) + V ( (s + 2|1−4A|)/(2h) − s/2 ),
//
// where V = |x + s y|² and s is +1 or −1. It is +Inf unless Re(1 − 8A) > 0.
// CRT Thm 3.2, eq 6, divided by K².
func LogSecondGERF(d int, a complex128, s int, v2 float64) float64 {
	g, ok := newGERF(d, a, s, v2)
	if !ok {
		return g.t3
	}
	return logHalfSum(g.t1, g.t3)
}

// LogRVGERF returns the log relative variance log(R − 1) of one GERF projection,
// accurate also where R is close to 1. CRT Thm 3.2.
func LogRVGERF(d int, a complex128, s int, v2 float64) float64 {
	g, ok := newGERF(d, a, s, v2)
	if !ok {
		return g.t3
	}
	return logHalfSumMinus1(g.t1, g.t3, g.linear)
}

type gerf struct {
	t1         complex128
	t3, linear float64 // linear = Re t1 + t3
}

// newGERF evaluates the exponents. When it reports false, t3 is the answer: NaN for
// an invalid argument, +Inf for an infinite variance.
//
// With e = −8 Re A, h = 1 + e, u = 1 − 4 Re A, y = 4 Im A, r = |1−4A| and
// δ = r − u = y²/(r+u), every coefficient is a sum without cancellation near A = 0:
//
//	e^{t1} prefactor  ((1−4A)²/(1−8A))^{d/2} = (1 + 16A²/(1−8A))^{d/2}
//	V in t3           s=+1: (1+δ)/h          s=−1: 1 + δ/h
//	V in linear       s=+1: h/|w|² + (1+δ)/h s=−1: (he + 4y²)/|w|² + δ/h
//	logs in linear    (d/4) log(N/D),  N = (u²+y²)⁴, D = h²|w|², |w|² = h²+4y²
func newGERF(d int, a complex128, s int, v2 float64) (gerf, bool) {
	if d < 1 || (s != 1 && s != -1) || !(v2 >= 0) || cmplx.IsNaN(a) {
		return gerf{t3: math.NaN()}, false
	}
	e, y := -8*real(a), 4*imag(a)
	h := 1 + e
	if h <= 0 {
		return gerf{t3: math.Inf(1)}, false
	}
	dim := float64(d)
	u := 1 + e/2
	delta := y * y / (math.Hypot(u, y) + u)
	w2 := h*h + 4*y*y

	t3 := dim/2*math.Log1p((e*e/4+y*y)/h) + v2*delta/h
	linear := dim/4*math.Log1p(gerfExcess(e, y)/(h*h*w2)) + v2*delta/h
	if s == 1 {
		t3 += v2 / h
		linear += v2 * (h/w2 + 1/h)
	} else {
		t3 += v2
		linear += v2 * (h*e + 4*y*y) / w2
	}
	w := 1 - 8*a
	t1 := complex(dim/2, 0)*clog1p(16*a*a/w) + complex(float64(s)*v2, 0)/w
	return gerf{t1, t3, linear}, true
}

// gerfExcess is N − D of newGERF with the leading terms cancelled by hand:
// u²+y² = h+g with g = e²/4+y², so N − D = (h+g)⁴ − h⁴ − 4h²y² and
// hg − y² = he²/4 + ey².
func gerfExcess(e, y float64) float64 {
	h, g := 1+e, e*e/4+y*y
	return 4*h*h*(h*e*e/4+e*y*y) + g*g*(6*h*h+4*h*g+g*g)
}

// clog1p is Log(1+p), accurate for small p.
func clog1p(p complex128) complex128 {
	x, y := real(p), imag(p)
	return complex(math.Log1p(2*x+x*x+y*y)/2, math.Atan2(y, 1+x))
}

package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// LambdaMoments are the second moments of the random coefficient lambda of a
// bipolar hybrid, which weighs the hyperbolic base by lambda and the trigonometric
// one by 1 − lambda.
type LambdaMoments struct {
	Lam2  float64 // E lambda²
	Rest2 float64 // E (1−lambda)²
	Cross float64 // E lambda(1−lambda)
}

// AngularMoments returns the moments of the angular coefficient with n sign
// projections at angle theta in [0, π]; n·lambda is binomial with q = theta/π:
//
//	E lambda² = q(q − q/n + 1/n),  E(1−lambda)² = (1−q)(1−q+q/n),
//	E lambda(1−lambda) = q(1−q)(1−1/n).
//
// HRF Lemma 3.2, with E(1−lambda)² for the coefficient misprinted in eq 47.
func AngularMoments(theta float64, n int) LambdaMoments {
	q, inv := theta/math.Pi, 1/float64(n)
	p := (math.Pi - theta) / math.Pi
	return LambdaMoments{
		Lam2:  q * (q*(1-inv) + inv),
		Rest2: p * (p*(1-inv) + inv),
		Cross: q * p * (1 - inv),
	}
}

// GaussianMoments returns the moments of the normalised Gaussian coefficient with
// bandwidth sig, input norm r and n projections. With R = 1 − e^{−2 sig² r²},
// e = e^{−sig² z²/2} and g = (1 − e^{−sig² z²})²/(2nR²):
//
//	E lambda² = (1−e)²/R² + g,  E(1−lambda)² = (1−R−e)²/R² + g,
//	E lambda(1−lambda) = (1−e)/R − E lambda².
//
// HRF Thms F.1 and F.2, eqs 72–73.
func GaussianMoments(z2, sig, r float64, n int) LambdaMoments {
	s2 := sig * sig
	norm := -math.Expm1(-2 * s2 * r * r)
	mean := -math.Expm1(-s2*z2/2) / norm
	// 1 − mean = (e − e^{−2 sig² r²})/R, which vanishes at z = 2r.
	rest := -math.Exp(-s2*z2/2) * math.Expm1(s2*z2/2-2*s2*r*r) / norm
	spread := -math.Expm1(-s2*z2) / norm
	g := spread * spread / (2 * float64(n))
	return LambdaMoments{Lam2: mean*mean + g, Rest2: rest*rest + g, Cross: mean*rest - g}
}

// LogMSEBipolar returns the log mean squared error, for the softmax kernel, of a
// bipolar hybrid of m hyperbolic and m trigonometric projections,
//
//	E[lambda²] MSE_pp + E[(1−lambda)²] MSE_trig − [shared] (2/m) SM² (1 − cos(xx−yy)) E[lambda(1−lambda)],
//
// where shared says that both bases use the same projections. HRF Thm 3.1; the
// "unchanged" of Thms F.1 and F.2 for shared projections holds only for |x| = |y|.
func LogMSEBipolar(mom LambdaMoments, m int, xx, yy, xy float64, shared bool) float64 {
	terms := []special.Signed{
		special.SignedOf(mom.Lam2).Scale(LogRVHyperbolic(sumSq(xx, yy, xy))),
		special.SignedOf(mom.Rest2).Scale(LogRVTrig(sumSq(xx, yy, -xy))),
	}
	if shared {
		s := math.Sin((xx - yy) / 2)
		terms = append(terms, special.SignedOf(-4*s*s*mom.Cross))
	}
	return special.SumSigned(terms...).Log - math.Log(float64(m)) + 2*xy
}

// sumSq is |x+y|², clamped where rounding made it negative.
func sumSq(xx, yy, xy float64) float64 { return math.Max(0, xx+yy+2*xy) }

// LogMSETrig returns the log mean squared error of m iid trigonometric projections
// of the softmax kernel, ½ e^{xx+yy} (1 − e^{−z²})²/m. HRF Lemma 2.2.
func LogMSETrig(m int, xx, yy, xy float64) float64 {
	return LogRVTrig(sumSq(xx, yy, -xy)) + 2*xy - math.Log(float64(m))
}

// LogMSEHyperbolic returns the log mean squared error of m iid hyperbolic
// projections of the softmax kernel, ½ e^{v²} SM² (1 − e^{−v²})²/m. HRF Lemma 2.2.
func LogMSEHyperbolic(m int, xx, yy, xy float64) float64 {
	return LogRVHyperbolic(sumSq(xx, yy, xy)) + 2*xy - math.Log(float64(m))
}

// The remaining functions describe the relative error eps = √MSE/SM for inputs on
// the sphere of radius r at angle theta.

// LogEpsTrig returns log eps of m trigonometric projections, with s = sin²(theta/2),
//
//	eps = (2m)^{−1/2} e^{2r²s} (1 − e^{−4r²s}).
//
// HRF Lemma 3.4, eq 25.
func LogEpsTrig(theta, r float64, m int) float64 {
	s := math.Sin(theta / 2)
	return logEpsPole(r*r*s*s, m)
}

// LogEpsHyperbolic returns log eps of m hyperbolic projections, LogEpsTrig at
// π − theta. HRF Lemma 3.4.
func LogEpsHyperbolic(theta, r float64, m int) float64 {
	c := math.Cos(theta / 2)
	return logEpsPole(r*r*c*c, m)
}

func logEpsPole(r2s float64, m int) float64 {
	return 2*r2s + special.Log1mExp(-4*r2s) - math.Log(2*float64(m))/2
}

// LogW returns log W(r), W(r) = e^{2r²} (1 − e^{−4r²}); W(r)/√(2m) is the largest
// error of either pole. HRF Lemma 3.4.
func LogW(r float64) float64 { return 2*r*r + special.Log1mExp(-4*r*r) }

// LogEpsAngular returns log eps of the angular hybrid with m projections per base
// and n sign projections,
//
//	eps = e^{r²} (2m)^{−1/2} √(a(theta) + a(π−theta)),
//	a(t) = (t/π)(t/π − t/(nπ) + 1/n) e^{2r² cos t} (1 − e^{−4r² cos²(t/2)})².
//
// HRF eqs 48–50 (eq 66 with √h).
func LogEpsAngular(theta, r float64, m, n int) float64 {
	mom := AngularMoments(theta, n)
	c, s := math.Cos(theta/2), math.Sin(theta/2)
	h := special.LogSumExp(
		math.Log(mom.Lam2)+2*r*r*math.Cos(theta)+2*special.Log1mExp(-4*r*r*c*c),
		math.Log(mom.Rest2)-2*r*r*math.Cos(theta)+2*special.Log1mExp(-4*r*r*s*s))
	return r*r + (h-math.Log(2*float64(m)))/2
}

// LogEpsAngularBound returns the log of a bound on LogEpsAngular over all theta, for
// r ≥ 1 (NaN below):
//
//	(W(r)/r) (2m)^{−1/2} √( 1/π − 1/(nπ) + r/(n√π) ).
//
// HRF Thm 3.5, corrected: the last term is printed 1/(n√π), which is violated for
// n = 1, r ≥ 4.2.
func LogEpsAngularBound(r float64, m, n int) float64 {
	if !(r >= 1) || m < 1 || n < 1 {
		return math.NaN()
	}
	inv := 1 / float64(n)
	root := (1-inv)/math.Pi + r*inv/math.Sqrt(math.Pi)
	return LogW(r) - math.Log(r) + (math.Log(root)-math.Log(2*float64(m)))/2
}

// LogEpsAngularLimit returns the log of the common limit of eps/√theta at theta → 0
// and eps/√(π−theta) at theta → π, W(r)/√(2πmn). HRF Thm 3.5.
func LogEpsAngularLimit(r float64, m, n int) float64 {
	return LogW(r) - math.Log(2*math.Pi*float64(m)*float64(n))/2
}

// Angle is the angle between two vectors in [0, π], accurate near both ends; π/2 if one is zero.
func Angle(x, y []float64) float64 {
	var nx, ny float64
	for i := range x {
		nx, ny = math.Hypot(nx, x[i]), math.Hypot(ny, y[i])
	}
	if nx == 0 || ny == 0 {
		return math.Pi / 2
	}
	var diff, sum float64
	for i := range x {
		a, b := x[i]/nx, y[i]/ny
		diff, sum = math.Hypot(diff, a-b), math.Hypot(sum, a+b)
	}
	return 2 * math.Atan2(diff, sum)
}

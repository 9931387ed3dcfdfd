package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// Geometric minimises g(p) = −d log p + Σ_l log I0(2 t_l/√(1−p)) over p in (0, 1), where t_l is the mean of |x_l y_l|
// and d = len(t) (CRT eq 13). It returns the minimiser and the minimum. g is convex, so Brent's method finds the global
// minimum.
func BestGeometric(t []float64) (p, objective float64) {
	g := func(p float64) float64 {
		s := -float64(len(t)) * math.Log(p)
		for _, v := range t {
			s += special.LogI0(2 * v / math.Sqrt(1-p))
		}
		return s
	}
	p = brent(g, 1e-6, 1-1e-6, 1e-9, 200)
	return p, g(p)
}

// brent returns a local minimum of f in [a, b] by Brent's method: a step goes to the vertex of the parabola through the
// three best points, or is a golden section where the parabola cannot be trusted (R. P. Brent, Algorithms for
// Minimization without Derivatives, 1973, ch. 5).
//
// x is the best point so far, w the second best and v the former w; before is the step before the last. A parabolic
// step must stay inside the bracket and be shorter than half of that one, which makes the steps shrink.
func brent(f func(float64) float64, a, b, tol float64, iterations int) float64 {
	golden := (3 - math.Sqrt(5)) / 2
	x := a + golden*(b-a)
	w, v := x, x
	fx := f(x)
	fw, fv := fx, fx
	var step, before float64
	for range iterations {
		mid, eps := (a+b)/2, tol*math.Abs(x)+1e-14
		if math.Abs(x-mid) <= 2*eps-(b-a)/2 {
			break
		}
		var p, q float64
		if math.Abs(before) > eps {
			r := (x - w) * (fx - fv)
			q = (x - v) * (fx - fw)
			p = (x-v)*q - (x-w)*r
			q = 2 * (q - r)
			if q > 0 {
				p = -p
			}
			q = math.Abs(q)
		}
		if last := before; math.Abs(p) < math.Abs(q*last/2) && p > q*(a-x) && p < q*(b-x) {
			before, step = step, p/q
		} else {
			before = b - x
			if x >= mid {
				before = a - x
			}
			step = golden * before
		}
		u := x + step
		if math.Abs(step) < eps {
			u = x + math.Copysign(eps, step)
		}
		fu := f(u)
		if fu <= fx {
			if u < x {
				b = x
			} else {
				a = x
			}
			v, fv, w, fw, x, fx = w, fw, x, fx, u, fu
			continue
		}
		if u < x {
			a = u
		} else {
			b = u
		}
		if fu <= fw || w == x {
			v, fv, w, fw = w, fw, u, fu
		} else if fu <= fv || v == x || v == w {
			v, fv = u, fu
		}
	}
	return x
}

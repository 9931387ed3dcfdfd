package choose

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/special"
)

// discreteLaw is the law of Poisson features (lambda set) or geometric features (p set), on inputs moved by −shift. It
// is the formula for one pair (CRT Thms 3.4, 3.5) with y_l² replaced by y_jl y_kl [derived]; E is the mean of the
// product of the relative weights, and the covariance is E − 1:
//
//	Poisson    E = exp( λd + Σ_l x_l² y_jl y_kl/λ - x·y_j - x·y_k )
//	geometric  E = p^{-d} Π_l I_0( 2|x_l| √(y_jl y_kl/(1-p)) ) exp( -x·y_j - x·y_k ),  J_0 where y_jl y_kl < 0
//
// It is computed in logarithms, with the sign apart: factors of many coordinates can overflow.
type discreteLaw struct {
	lambda, p float64
	shift     []float64
}

// At implements weightLaw.
func (f discreteLaw) At(x []float64, y dense.Matrix[float64]) func(j, k int) float64 {
	d := len(x)
	move := func(v []float64) []float64 {
		out := append([]float64(nil), v...)
		for l, c := range f.shift {
			out[l] -= c
		}
		return out
	}
	x = move(x)
	rows, dots := make([][]float64, y.Rows), make([]float64, y.Rows)
	for j := range rows {
		rows[j] = move(y.Row(j))
		dots[j] = dense.Dot(x, rows[j])
	}
	return func(j, k int) float64 {
		log, sign := -dots[j]-dots[k], 1.0
		for l, v := range x {
			t := v * v * rows[j][l] * rows[k][l]
			if f.lambda > 0 {
				log += t / f.lambda
				continue
			}
			if r := 2 * math.Sqrt(math.Abs(t)/(1-f.p)); t >= 0 {
				log += special.LogI0(r)
			} else {
				b := special.BesselJLog(2, r)
				log += b.Log
				sign *= float64(b.Sign)
			}
		}
		if f.lambda > 0 {
			log += f.lambda * float64(d)
		} else {
			log -= float64(d) * math.Log(f.p)
		}
		if sign == 1 {
			return math.Expm1(log)
		}
		return sign*math.Exp(log) - 1
	}
}

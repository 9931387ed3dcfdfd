package family

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Gradient is dM. The base has exponents w·u + uᵀQu + l·u + const at u = Mz, so
//
//	dM = wᵀ ΣdE⊗z + (Q + Qᵀ) M Σ s zzᵀ + l ⊗ Σ s z.
//
// The positive base has w = ω, Q = −I/2, l = 0.
func (f DARK) Gradient(kind kernel.Kind, dim int, omega []coupling.Omega,
	query, key plan.ExponentSums) (dense.Matrix[float64], error) {
	if err := f.validate(dim); err != nil {
		return dense.Matrix[float64]{}, err
	}
	r := f.M.Rows
	p, err := f.Inner().Lower(kind, r, omega)
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	grad := dense.New[float64](r, dim)
	add := func(m dense.Matrix[float64]) {
		for i, v := range m.Data {
			grad.Data[i] += v
		}
	}
	for i, side := range []plan.Side{p.Query, p.Key} {
		sums := []plan.ExponentSums{query, key}[i]
		leaf := side.Leaves[0]
		lin := leaf.Lin
		if lin.IsZero() {
			lin = plan.Scalar(1)
		}
		w := plan.Mul(leaf.Omega.Rows, leaf.Mix.Compose(lin, r).Matrix(r))
		row := leaf.Row.Compose(lin, leaf.Shift, r).Add(side.Outer, r)
		q := row.Quad.Matrix(r)
		m := plan.Mul(f.M, sums.Q)
		add(plan.Mul(plan.Transpose(w), sums.W))
		add(plan.Mul(q, m))
		add(plan.Mul(plan.Transpose(q), m))
		for k, l := range row.Lin {
			for c, s := range sums.Lin {
				grad.Row(k)[c] += l * s
			}
		}
	}
	return grad, nil
}

// Gradient is dW: the exponents contain W as it is.
func (f LFK) Gradient(_ kernel.Kind, _ int, _ []coupling.Omega,
	query, key plan.ExponentSums) (dense.Matrix[float64], error) {
	g := query.W.Clone()
	for i, v := range key.W.Data {
		g.Data[i] += v
	}
	return g, nil
}

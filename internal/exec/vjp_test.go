package exec

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// The gradient of every form of a quadratic, an asymmetric matrix included, against its values.
func TestQuadraticGradient(t *testing.T) {
	const d, n, h = 3, 2, 1e-6
	tab := kern.Reference[float64]()
	x := dense.MustFromRows([][]float64{{0.3, -1.2, 2}, {1, 0, -0.5}})
	for name, q := range map[string]plan.Quadratic{
		"gain":  plan.Norm2(-0.7),
		"diag":  {Quad: plan.Linear{Diag: []float64{1, -2, 0.5}}},
		"dense": {Quad: plan.Linear{Dense: dense.MustFromRows([][]float64{{1, 2, 0}, {-1, 0.5, 3}, {0, 0, -2}})}},
		"lin":   {Const: 3, Lin: []float64{1, 2, -3}, Quad: plan.Scalar(0.5)},
	} {
		g := compileQuad(q, tab)
		dx := dense.New[float64](n, d)
		g.add(dx, []float64{2, -1}, x, make([]float64, n*d), tab)
		for i, s := range []float64{2, -1} {
			du, acc := make([]float64, d), make([]float64, d)
			quadBack(&q, du, s, x.Row(i), acc)
			for k := range d {
				at := func(c float64) float64 {
					y := append([]float64(nil), x.Row(i)...)
					y[k] += c
					return quadAt(&q, y, dense.Norm2(y))
				}
				want := s * (at(h) - at(-h)) / (2 * h)
				if math.Abs(dx.At(i, k)-want) > 1e-8 || math.Abs(du[k]-want) > 1e-8 {
					t.Errorf("%s, row %d, coordinate %d: %v and %v, differences give %v", name, i, k, dx.At(i, k),
						du[k], want)
				}
			}
		}
	}
}

func TestWorkersBound(t *testing.T) {
	l := plan.Leaf{Fn: plan.Exp, Omega: hadamard(t, 64, 64), Mix: plan.Scalar(1)}
	s := Compile(plan.Single(l), 64, kern.Reference[float64]())
	if n := s.workers(&Workspace[float64]{Workers: 1}, 1<<20); n != 1 {
		t.Errorf("%d goroutines for Workers = 1", n)
	}
	if n := s.workers(new(Workspace[float64]), 1); n != 1 {
		t.Errorf("%d goroutines for one row", n)
	}
}

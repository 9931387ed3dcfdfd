package exec

import (
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/rng"
)

func hadamard(t testing.TB, m, d int) coupling.Omega {
	o, err := coupling.Hadamard{}.Sample(m, d, coupling.Law{}, rng.Stream(1))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// The fast transforms and the dense product are two ways to the same projections, also after a matrix and a shift.
func TestFastEqualsDense(t *testing.T) {
	const d, m = 100, 300
	lin := dense.New[float64](d, d)
	rng.Normals(lin.Data, rng.Stream(2))
	shift := make([]float64, d)
	rng.Normals(shift, rng.Stream(3))
	x := dense.New[float64](5, d)
	rng.Normals(x.Data, rng.Stream(4))
	for name, l := range map[string]plan.Leaf{
		"plain":  {Mix: plan.Scalar(0.1)},
		"matrix": {Mix: plan.Scalar(0.01), Lin: plan.Linear{Dense: lin}, Shift: shift},
		"mix":    {Mix: plan.Linear{Dense: lin}, Shift: shift},
		"diag":   {Mix: plan.Linear{Diag: shift}},
	} {
		l.Fn, l.Omega = plan.Exp, hadamard(t, m, d)
		if !fastPays(kern.Reference[float64](), l.Omega.Fast, d) {
			t.Fatal("the test does not reach the fast path")
		}
		fast := Compile(plan.Single(l), d, kern.Reference[float64]())
		l.Omega.Fast = nil
		slow := Compile(plan.Single(l), d, kern.Reference[float64]())
		a, b := dense.New[float64](5, m), dense.New[float64](5, m)
		sa, sb := make([]float64, 5), make([]float64, 5)
		fast.Run(a, sa, x, make([]float64, 5), new(Workspace[float64]))
		slow.Run(b, sb, x, make([]float64, 5), new(Workspace[float64]))
		for i := range 5 {
			if math.Abs(sa[i]-sb[i]) > 1e-11*(1+math.Abs(sb[i])) {
				t.Errorf("%s: scale %v and %v", name, sa[i], sb[i])
			}
			for f, v := range a.Row(i) {
				if math.Abs(v-b.At(i, f)) > 1e-9 {
					t.Fatalf("%s: feature %d is %v fast, %v dense", name, f, v, b.At(i, f))
				}
			}
		}
	}
}

// BenchmarkFastOrDense measures the two costs that fastPays compares: m = d, float32.
func BenchmarkFastOrDense(b *testing.B) {
	for _, d := range []int{16, 32, 64, 128, 256, 512, 1024} {
		o := hadamard(b, d, d)
		x := dense.New[float32](64, d)
		for i := range x.Data {
			x.Data[i] = float32(i%7) * 0.1
		}
		dst := dense.New[float32](64, d)
		leaf := plan.Leaf{Fn: plan.Exp, Omega: o, Mix: plan.Scalar(1)}
		side := Compile(plan.Single(leaf), d, kern.Best[float32]())
		var sc scratch[float32]
		w := projection[float32]{rows: d}
		side.tab.Pack(&w.w, dense.Convert[float32](o.Rows))
		fast := projection[float32]{fast: omega.NewTransform(o.Fast, side.tab), rows: d,
			pre: preMap[float32]{gain: 1}}
		sc.pre, sc.fast = make([]float32, d), make([]float32, o.Fast.N)
		for name, p := range map[string]*projection[float32]{"dense": &w, "fast": &fast} {
			b.Run(fmt.Sprintf("path=%s/d=%d", name, d), func(b *testing.B) {
				for b.Loop() {
					p.project(side, dst, x, &sc)
				}
			})
		}
	}
}

func TestExpm1MinusArg(t *testing.T) {
	for _, x := range []float64{-30, -1, -0.5, -1e-3, -1e-9, 0, 1e-12, 1e-4, 0.3, 0.5, 0.9, 5} {
		got := expm1MinusArg(x)
		want := math.Expm1(x) - x
		if math.Abs(x) < 0.05 {
			want = x * x / 2 * (1 + x/3*(1+x/4*(1+x/5*(1+x/6*(1+x/7)))))
		}
		if math.Abs(got-want) > 3e-15*math.Abs(want) {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
}

package randfeat_test

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// replicate samples the estimate at one pair, with the plan changed by mutate.
func replicate(t *testing.T, f family.Family, c coupling.Coupling, m, reps int, x, y []float64, mutate func(plan.Pair) plan.Pair) *stattest.Moments {
	t.Helper()
	draws, err := f.Draws(kernel.Softmax, len(x), m)
	if err != nil {
		t.Fatal(err)
	}
	out := new(stattest.Moments)
	for r := range reps {
		p := &pool{c: c, seed: uint64(r), sets: map[string][]coupling.Omega{}}
		omega, err := p.take(draws)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := f.Lower(kernel.Softmax, len(x), omega)
		if err != nil {
			t.Fatal(err)
		}
		if mutate != nil {
			pair = mutate(pair)
		}
		out.Add(runPair(pair, x, y))
	}
	return out
}

// zScores compares replicates with the closed form.
func zScores(t *testing.T, g *stattest.Moments, f family.Family, c coupling.Coupling, m int, x, y []float64) (mean, variance float64) {
	t.Helper()
	want, err := theory.Of(kernel.Kernel{Kind: kernel.Softmax}, f, c, m, x, y)
	if err != nil {
		t.Fatal(err)
	}
	v := math.Exp(want.LogVar)
	return stattest.Z(g.Mean(), math.Exp(want.LogMean), math.Sqrt(v), g.N()), (g.Var() - v) / g.VarSE()
}

// The tests of this file must be able to fail: each takes a wrong map through the same comparison as a right one.

func TestMutantScaleOffByOnePercent(t *testing.T) {
	x, y := testPair(5)
	bound := stattest.Bound(1e-6, 8)
	for _, f := range []family.Family{family.Trig{}, family.Positive{}, family.OPRF{A: -0.05}, family.Angular{N: 4}} {
		c, m := coupling.Orthogonal{}, 61
		right := replicate(t, f, c, m, 12000, x, y, nil)
		if z, zv := zScores(t, right, f, c, m, x, y); math.Abs(z) > bound || math.Abs(zv) > bound {
			t.Errorf("%s: z = %.1f (mean), %.1f (variance), bound %.1f", f.Name(), z, zv, bound)
		}
		wrong := replicate(t, f, c, m, 12000, x, y, func(p plan.Pair) plan.Pair {
			p.Query.Outer.Const += math.Log(1.01)
			return p
		})
		if z, _ := zScores(t, wrong, f, c, m, x, y); math.Abs(z) < bound {
			t.Errorf("%s: a scale off by 1 %% has z = %.1f, below the bound %.1f", f.Name(), z, bound)
		}
	}
}

// Trap 9 of the peers: λ̂ = θ/π must multiply the positive base. Swapped weights stay unbiased, so only the variance
// and the exactness at θ = 0 can tell.
func TestTrapHybridWeightsSwapped(t *testing.T) {
	x := []float64{0.6, 0.1, -0.2, 0.1}
	y := []float64{0.5, 0.2, -0.1, 0.1} // a small angle: trig must dominate
	f, c, m := family.Angular{N: 8}, coupling.IID{}, 24
	swap := func(p plan.Pair) plan.Pair {
		for _, s := range []*plan.Side{&p.Query, &p.Key} {
			s.Leaves[0], s.Leaves[1] = s.Leaves[1], s.Leaves[0]
		}
		return p
	}
	bound := stattest.Bound(1e-6, 4)
	right, wrong := replicate(t, f, c, m, 8000, x, y, nil), replicate(t, f, c, m, 8000, x, y, swap)
	if z, zv := zScores(t, right, f, c, m, x, y); math.Abs(z) > bound || math.Abs(zv) > bound {
		t.Errorf("right weights: z = %.1f (mean), %.1f (variance), bound %.1f", z, zv, bound)
	}
	_, zv := zScores(t, wrong, f, c, m, x, y)
	if z := stattest.Z(wrong.Mean(), math.Exp(dense.Dot(x, y)), math.Sqrt(wrong.Var()), wrong.N()); math.Abs(z) > bound || zv < bound {
		t.Errorf("swapped weights: z = %.1f (mean), %.1f (variance); want an unbiased mean and a wrong variance", z, zv)
	}
	same := replicate(t, f, c, m, 50, x, x, nil)
	if k := math.Exp(dense.Norm2(x)); math.Abs(same.Mean()/k-1) > 1e-12 || same.Var() > 1e-20 {
		t.Errorf("at x = y the estimate is %v ± %v, want exactly %v", same.Mean(), math.Sqrt(same.Var()), k)
	}
}

// Trap 10: a bandwidth wrong by a factor of two hid behind a loose tolerance for years.
func TestTrapBandwidth(t *testing.T) {
	const sigma, m, reps = 1.7, 16, 3000
	x, y := []float64{0.9, -1.1, 0.4}, []float64{-0.2, 0.5, 1.3}
	z2 := 1.1*1.1 + 1.6*1.6 + 0.9*0.9
	for _, f := range []family.Family{family.Trig{}, family.Positive{}} {
		k := kernel.Kernel{Kind: kernel.Gaussian, Scale: sigma}
		want, err := theory.Of(k, f, coupling.Orthogonal{}, m, x, y)
		if err != nil {
			t.Fatal(err)
		}
		exact := math.Exp(-z2 / (2 * sigma * sigma))
		if math.Abs(math.Exp(want.LogMean)/exact-1) > 1e-13 {
			t.Fatalf("%s: the closed form has mean %v, want %v", f.Name(), math.Exp(want.LogMean), exact)
		}
		var g stattest.Moments
		dst := dense.New[float64](1, 1)
		for seed := range uint64(reps) {
			mp, err := randfeat.New[float64](randfeat.Spec{Kernel: k, Family: f, Coupling: coupling.Orthogonal{}, Dim: 3, M: m, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			if err := mp.Gram(dst, dense.MustFromRows([][]float64{x}), dense.MustFromRows([][]float64{y}), nil); err != nil {
				t.Fatal(err)
			}
			g.Add(dst.Data[0])
		}
		bound := stattest.Bound(1e-6, 2)
		if z := stattest.Z(g.Mean(), exact, math.Exp(want.LogVar/2), g.N()); math.Abs(z) > bound {
			t.Errorf("%s: z = %.1f", f.Name(), z)
		}
		for _, wrong := range []float64{math.Exp(-z2 / (sigma * sigma)), math.Exp(-z2 / (2 * sigma))} {
			if z := stattest.Z(g.Mean(), wrong, math.Exp(want.LogVar/2), g.N()); math.Abs(z) < bound {
				t.Errorf("%s: the test cannot tell %v from %v", f.Name(), exact, wrong)
			}
		}
	}
}

// Trap 2: an epsilon added to features biases small kernel values. Ours are scale free: moving both points away from
// the origin along the same direction must leave the log of every feature exact.
func TestTrapNoEpsilonInFeatures(t *testing.T) {
	omega := dense.MustFromRows([][]float64{{0.3, -1.2}, {1.1, 0.4}, {-0.7, 0.2}})
	m, err := randfeat.NewWithOmega[float64](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Dim: 2},
		[]coupling.Omega{{Rows: omega}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []float64{1e-3, 1, 10, 30, 100} {
		x := dense.MustFromRows([][]float64{{0.6 * r, -0.8 * r}})
		phi, scale := dense.New[float64](1, 3), make([]float64, 1)
		if err := m.Queries(phi, scale, x, nil); err != nil {
			t.Fatal(err)
		}
		for f, v := range phi.Data {
			got := math.Log(v) + scale[0]
			want := dense.Dot(omega.Row(f), x.Row(0)) - r*r/2 - math.Log(3)/2
			if math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
				t.Errorf("|x| = %v: log feature %d is %v, want %v", r, f, got, want)
			}
		}
	}
}

// Trap 3: a stabiliser shared by keys must be restored exactly. Each row has its own scale, so a huge key in the batch
// changes nothing for the others.
func TestTrapStabiliserIsPerRow(t *testing.T) {
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.OPRF{A: -0.1}, Dim: 4, M: 32, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	small := dense.MustFromRows([][]float32{{0.1, 0.2, -0.1, 0.3}, {0.5, -0.2, 0.1, 0}})
	both := dense.MustFromRows([][]float32{{0.1, 0.2, -0.1, 0.3}, {0.5, -0.2, 0.1, 0}, {60, -50, 40, 30}})
	a, b := dense.New[float32](2, 2), dense.New[float32](2, 3)
	if err := m.Gram(a, small, small, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Gram(b, small, both, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for j := range 2 {
			if a.At(i, j) != b.At(i, j) {
				t.Errorf("estimate %d,%d is %v alone and %v beside a huge key", i, j, a.At(i, j), b.At(i, j))
			}
		}
	}
}

// Trap 6: nothing is redrawn from the data or on use; another seed is the only way to other projections.
func TestTrapNoHiddenRedraw(t *testing.T) {
	s := randfeat.Spec{Family: family.Trig{}, Dim: 3, M: 8, Seed: 5}
	m, err := randfeat.New[float64](s)
	if err != nil {
		t.Fatal(err)
	}
	x := dense.New[float64](10, 3)
	rng.Normals(x.Data, rng.Stream(1))
	first, second, other := dense.New[float64](10, 16), dense.New[float64](10, 16), dense.New[float64](5, 16)
	for _, step := range []struct{ dst, x dense.Matrix[float64] }{{first, x}, {other, x.RowRange(5, 10)}, {second, x}} {
		if err := m.Queries(step.dst, nil, step.x, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range first.Data {
		if second.Data[i] != v {
			t.Fatal("the second call differs from the first")
		}
	}
	for i, v := range other.Data {
		if first.RowRange(5, 10).Data[i] != v {
			t.Fatal("features depend on the batch")
		}
	}
	again, err := randfeat.New[float64](s.WithSeed(6))
	if err != nil {
		t.Fatal(err)
	}
	if again.Fingerprint() == m.Fingerprint() {
		t.Fatal("another seed gave the same map")
	}
}

// The closed form of the residual family's variance depends on |x|², |y|² and x·y alone; two dimensions and many
// draws are enough, and needed: the summands are fourth powers of exponentials.
func TestResidualVariance(t *testing.T) {
	x, y := []float64{0.35, 0.1}, []float64{0.2, -0.3}
	f, bound := family.Residual{}, stattest.Bound(1e-6, 2)
	g := replicate(t, f, coupling.IID{}, 4, 60000, x, y, nil)
	if z, zv := zScores(t, g, f, coupling.IID{}, 4, x, y); math.Abs(z) > bound || math.Abs(zv) > bound {
		t.Errorf("z = %.1f (mean), %.1f (variance), bound %.1f", z, zv, bound)
	}
}

// ORF′: orthogonal rows of fixed norm estimate the Bessel kernel, and a Gaussian or softmax kernel with the bias that
// theory predicts (ORF Thms 2 and 4).
func TestORFPrime(t *testing.T) {
	type combo struct {
		k kernel.Kernel
		c coupling.Coupling
	}
	bessel, gauss, soft := kernel.Kernel{Kind: kernel.Bessel, Scale: 0.4}, kernel.Kernel{Scale: 0.4}, kernel.Kernel{Kind: kernel.Softmax, Scale: 0.6}
	combos := []combo{
		{bessel, coupling.IID{}}, {bessel, coupling.Orthogonal{}}, {bessel, coupling.ORFPrime{}},
		{gauss, coupling.ORFPrime{}}, {gauss, coupling.ORFPrime{SqrtDim: true}}, {soft, coupling.ORFPrime{SqrtDim: true}}, {soft, coupling.ORFPrime{}},
	}
	sizes := [][2]int{{2, 2}, {2, 5}, {5, 3}, {5, 5}, {16, 16}, {16, 37}}
	bound := stattest.Bound(1e-6, 2*len(combos)*len(sizes))
	for _, s := range sizes {
		d, m := s[0], s[1]
		x, y := testPair(d)
		xm, ym := dense.MustFromRows([][]float64{x}), dense.MustFromRows([][]float64{y})
		for _, c := range combos {
			want, err := theory.Of(c.k, family.Trig{}, c.c, m, x, y)
			if err != nil {
				t.Fatal(err)
			}
			var g stattest.Moments
			dst := dense.New[float64](1, 1)
			for seed := range uint64(600) {
				mp, err := randfeat.New[float64](randfeat.Spec{Kernel: c.k, Family: family.Trig{}, Coupling: c.c, Dim: d, M: m, Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				if err := mp.Gram(dst, xm, ym, nil); err != nil {
					t.Fatal(err)
				}
				g.Add(dst.Data[0])
			}
			v := math.Exp(want.LogVar)
			mean := math.Copysign(math.Exp(want.LogMean), g.Mean())
			z, zv := stattest.Z(g.Mean(), mean, math.Sqrt(v), g.N()), (g.Var()-v)/(g.VarSE()+1e-12)
			if math.Abs(z) > bound || math.Abs(zv) > bound {
				t.Errorf("%v × %s, d = %d, m = %d: z = %.1f (mean), %.1f (variance), bound %.1f", c.k.Kind, c.c.Name(), d, m, z, zv, bound)
			}
			// The same draws must refute the kernel that a bias was predicted against.
			if bias := math.Exp(want.LogBias); bias > 10*math.Sqrt(v/float64(g.N())) {
				if exact := c.k.Eval(x, y); math.Abs(stattest.Z(g.Mean(), exact, math.Sqrt(v), g.N())) < bound {
					t.Errorf("%v × %s, d = %d: a bias of %.3g was not seen", c.k.Kind, c.c.Name(), d, bias)
				}
			}
		}
	}
}

// The pure ReLU features have a closed-form mean (arc-cosine kernel of order 1, docs/theory.md §2.17).
func TestReLUMean(t *testing.T) {
	x, y := testPair(5)
	g := replicate(t, family.ReLU{Pure: true}, coupling.Orthogonal{}, 5, 4000, x, y, nil)
	th := theory.Angle(x, y)
	want := math.Sqrt(dense.Norm2(x)*dense.Norm2(y)) * (math.Sin(th) + (math.Pi-th)*math.Cos(th)) / (2 * math.Pi)
	if z := stattest.Z(g.Mean(), want, math.Sqrt(g.Var()), g.N()); math.Abs(z) > stattest.Bound(1e-6, 1) {
		t.Errorf("z = %.1f", z)
	}
}

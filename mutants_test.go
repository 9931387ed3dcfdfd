package randfeat_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/special"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// replicate samples the estimate at one pair, and with the same draws that of the plan changed by mutate.
func replicate(t *testing.T, f family.Family, c coupling.Coupling, m, reps int, x, y []float64,
	mutate func(plan.Pair) plan.Pair) (right, wrong *stattest.Moments) {
	t.Helper()
	draws, err := f.Draws(kernel.Softmax, len(x), m)
	if err != nil {
		t.Fatal(err)
	}
	right, wrong = new(stattest.Moments), new(stattest.Moments)
	xs, ys := dense.MustFromRows([][]float64{x}), dense.MustFromRows([][]float64{y})
	var run runner
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
		right.Add(run.pairs(pair, false, xs, ys)[0])
		if mutate != nil {
			wrong.Add(run.pairs(mutate(pair), false, xs, ys)[0])
		}
	}
	return right, wrong
}

// zScores compares replicates with the closed form.
func zScores(t *testing.T, g *stattest.Moments, f family.Family, c coupling.Coupling, m int, x, y []float64) (mean,
	variance float64) {
	t.Helper()
	want, err := theory.Of(kernel.Kernel{Kind: kernel.Softmax}, f, c, m, x, y)
	if err != nil {
		t.Fatal(err)
	}
	v := math.Exp(want.LogVar)
	return stattest.Z(g.Mean(), math.Exp(want.LogMean), math.Sqrt(v), g.N()), g.VarZ(v)
}

// The tests of this file must be able to fail: each takes a wrong map through the same comparison as a right one.

// A long sum of features in one float32 stops growing; the accumulator of package kern must not. The features are those
// of a map, repeated: the exact sum is a multiple of that of one block.
func TestTrapLongFloat32Sums(t *testing.T) {
	const block, repeats, m = 2000, 1000, 4 // 2·10⁶ rows
	mp, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax},
		Family: family.Positive{},
		Dim:    3, M: m, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	x, phi, ones := dense.New[float32](block, 3), dense.New[float32](block, m), dense.New[float32](block, 1)
	src := rand.New(rng.Stream(7))
	for i := range x.Data {
		x.Data[i] = float32(src.NormFloat64() / 2)
	}
	if err := mp.Keys(phi, nil, x, nil); err != nil {
		t.Fatal(err)
	}
	var exact [m]float64
	for i := range block {
		ones.Set(i, 0, 1)
		for j, v := range phi.Row(i) {
			exact[j] += float64(v) * repeats
		}
	}
	tab, err := kern.Chosen[float32]()
	if err != nil {
		t.Fatal(err)
	}
	sum := kern.NewAccumulator(tab, m, 1)
	var plain [m]float32
	for range repeats {
		sum.Add(phi, ones)
		for i := range block {
			for j, v := range phi.Row(i) {
				plain[j] += v
			}
		}
	}
	worst, naive := 0.0, 0.0
	for j, v := range sum.Sum().Data {
		worst, naive = max(worst, math.Abs(v/exact[j]-1)), max(naive, math.Abs(float64(plain[j])/exact[j]-1))
	}
	t.Logf("relative error %.1e, of one float32 sum %.1e", worst, naive)
	if worst > 2e-6 {
		t.Errorf("relative error %.1e after %d rows", worst, block*repeats)
	}
	if naive < 1e-4 {
		t.Errorf("no power: a plain float32 sum has error %.1e", naive)
	}
}

// a map whose projections are structured may not lose to the dense one: it chooses the cheaper path. The
// minimum over alternating runs is compared, with a margin far above its noise.
func TestTrapStructuredIsNotSlower(t *testing.T) {
	if testing.Short() {
		t.Skip("timing")
	}
	const margin = 1.5
	for _, d := range []int{16, 64, 256, 1024} {
		rows := max(32, 1<<20/(d*d))
		x, dst := dense.New[float32](rows, d), dense.New[float32](rows, d)
		src := rand.New(rng.Stream(8))
		for i := range x.Data {
			x.Data[i] = float32(src.NormFloat64() / math.Sqrt(float64(d)))
		}
		var maps [2]*randfeat.Map[float32]
		for i, c := range []coupling.Coupling{coupling.Hadamard{},
			coupling.IID{}} { // dense rows cost the same, however drawn
			var err error
			if maps[i], err = randfeat.New[float32](randfeat.Spec{Family: family.Positive{}, Coupling: c, Dim: d, M: d,
				Seed: 1}); err != nil {
				t.Fatal(err)
			}
		}
		var ws [2]randfeat.Workspace[float32]
		best := [2]time.Duration{math.MaxInt64, math.MaxInt64}
		// Usually over after the first round. Other work can only lengthen a run: a busy machine gets many more.
		for round := 0; round < 100 && (round == 0 || float64(best[0]) > margin*float64(best[1])); round++ {
			for range 20 {
				for i, mp := range maps {
					start := time.Now()
					if err := mp.Queries(dst, nil, x, &ws[i]); err != nil {
						t.Fatal(err)
					}
					best[i] = min(best[i], time.Since(start))
				}
			}
		}
		t.Logf("d = m = %d: structured %v, dense %v for %d rows", d, best[0], best[1], rows)
		if float64(best[0]) > margin*float64(best[1]) {
			t.Errorf("d = m = %d: the structured map takes %v, a dense one %v", d, best[0], best[1])
		}
	}
}

// A scale off by 1 % (4 % without -full) is seen.
func TestMutantScale(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	draws, off := 200, 0.04
	if stattest.Full() {
		draws, off = 3000, 0.01
	}
	x, y := testPair(5)
	bound := stattest.Bound(1e-6, 8)
	for _, f := range []family.Family{family.Trig{}, family.Positive{}, family.OPRF{A: -0.05}, family.Angular{N: 4}} {
		c, m := coupling.Orthogonal{}, 241 // few large maps cost less than many small ones of equal error
		right, wrong := replicate(t, f, c, m, draws, x, y, func(p plan.Pair) plan.Pair {
			p.Query.Outer.Const += math.Log1p(off)
			return p
		})
		if z, zv := zScores(t, right, f, c, m, x, y); math.Abs(z) > bound || math.Abs(zv) > bound {
			t.Errorf("%s: z = %.1f (mean), %.1f (variance), bound %.1f", f.Name(), z, zv, bound)
		}
		if z, _ := zScores(t, wrong, f, c, m, x, y); math.Abs(z) < bound {
			t.Errorf("%s: a scale off by %v has z = %.1f, below the bound %.1f", f.Name(), off, z, bound)
		}
	}
}

// λ̂ = θ/π must multiply the positive base. Swapped weights stay unbiased, so only the variance
// and the exactness at θ = 0 can tell.
func TestTrapHybridWeightsSwapped(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
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
	right, wrong := replicate(t, f, c, m, 8000, x, y, swap)
	if z, zv := zScores(t, right, f, c, m, x, y); math.Abs(z) > bound || math.Abs(zv) > bound {
		t.Errorf("right weights: z = %.1f (mean), %.1f (variance), bound %.1f", z, zv, bound)
	}
	_, zv := zScores(t, wrong, f, c, m, x, y)
	if z := stattest.Z(wrong.Mean(), math.Exp(dense.Dot(x, y)), math.Sqrt(wrong.Var()),
		wrong.N()); math.Abs(z) > bound ||
		zv < bound {
		t.Errorf("swapped weights: z = %.1f (mean), %.1f (variance); want an unbiased mean and a wrong variance", z, zv)
	}
	same, _ := replicate(t, f, c, m, 50, x, x, nil)
	if k := math.Exp(dense.Norm2(x)); math.Abs(same.Mean()/k-1) > 1e-12 || same.Var() > 1e-20 {
		t.Errorf("at x = y the estimate is %v ± %v, want exactly %v", same.Mean(), math.Sqrt(same.Var()), k)
	}
}

// a bandwidth wrong by a factor of two hid behind a loose tolerance for years.
func TestTrapBandwidth(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
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
			mp, err := randfeat.New[float64](randfeat.Spec{Kernel: k, Family: f, Coupling: coupling.Orthogonal{},
				Dim: 3, M: m,
				Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			if err := mp.Gram(dst, dense.MustFromRows([][]float64{x}), dense.MustFromRows([][]float64{y}),
				nil); err != nil {
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

// an epsilon added to features biases small kernel values. Ours are scale free: moving both points away from
// the origin along the same direction must leave the log of every feature exact.
func TestTrapNoEpsilonInFeatures(t *testing.T) {
	omega := dense.MustFromRows([][]float64{{0.3, -1.2}, {1.1, 0.4}, {-0.7, 0.2}})
	m, err := randfeat.NewWithOmega[float64](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax},
		Family: family.Positive{}, Dim: 2},
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

// The closed form of the residual family's variance depends on |x|², |y|² and x·y alone; two dimensions and many
// draws are enough, and needed: the summands are fourth powers of exponentials.
func TestResidualVariance(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	x, y := []float64{0.35, 0.1}, []float64{0.2, -0.3}
	f, bound := family.Residual{}, stattest.Bound(1e-6, 2)
	g, _ := replicate(t, f, coupling.IID{}, 4, 60000, x, y, nil)
	if z, zv := zScores(t, g, f, coupling.IID{}, 4, x, y); math.Abs(z) > bound || math.Abs(zv) > bound {
		t.Errorf("z = %.1f (mean), %.1f (variance), bound %.1f", z, zv, bound)
	}
}

// ORF′: orthogonal rows of fixed norm estimate the Bessel kernel, and a Gaussian or softmax kernel with the bias that
// theory predicts (ORF Thms 2 and 4).
func TestORFPrime(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	type combo struct {
		k kernel.Kernel
		c coupling.Coupling
	}
	bessel, gauss, soft := kernel.Kernel{Kind: kernel.Bessel,
		Scale: 0.4}, kernel.Kernel{Scale: 0.4}, kernel.Kernel{Kind: kernel.Softmax, Scale: 0.6}
	combos := []combo{
		{bessel, coupling.IID{}}, {bessel, coupling.Orthogonal{}}, {bessel, coupling.ORFPrime{}},
		{gauss, coupling.ORFPrime{}}, {gauss, coupling.ORFPrime{SqrtDim: true}}, {soft,
			coupling.ORFPrime{SqrtDim: true}}, {soft, coupling.ORFPrime{}},
	}
	sizes := [][2]int{{2, 2}, {5, 5}, {2, 5}, {5, 3}, {16, 16}, {16, 37}}
	if !stattest.Full() {
		sizes = sizes[:2]
	}
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
				mp, err := randfeat.New[float64](randfeat.Spec{Kernel: c.k, Family: family.Trig{}, Coupling: c.c,
					Dim: d, M: m,
					Seed: seed})
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
			z, zv := stattest.Z(g.Mean(), mean, math.Sqrt(v), g.N()), g.VarZ(v)
			if math.Abs(z) > bound || math.Abs(zv) > bound {
				t.Errorf("%v × %s, d = %d, m = %d: z = %.1f (mean), %.1f (variance), bound %.1f", c.k.Kind, c.c.Name(),
					d, m, z, zv,
					bound)
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

// Exponentials of rows of a fixed norm r have the mean 0F1(; d/2; r²|x+y|²/4) instead of exp(|x+y|²/2)
// (docs/theory.md §1.2, 4.9). With OPRF, r is stretched by √(1−4A) and the weight (1−4A)^{d/2} e^{2Ar²} stays.
func TestORFPrimeOfExponentials(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	const a = -0.05
	type combo struct {
		f      family.Family
		weight func(d, r2 float64) float64 // logarithm
		gain2  float64
	}
	zero := func(_, _ float64) float64 { return 0 }
	combos := []combo{{family.Positive{}, zero, 1}, {family.Hyperbolic{}, zero, 1},
		{family.OPRF{A: a}, func(d, r2 float64) float64 { return d/2*math.Log(1-4*a) + 2*a*r2 }, 1 - 4*a}}
	sizes := []size{{d: 2, m: 2, draws: 1500}, {d: 2, m: 5, draws: 1500}, {d: 5, m: 3, draws: 1000},
		{d: 5, m: 13, draws: 1000}, {d: 16, m: 16, draws: 300}, {d: 64, m: 64, draws: 60}}
	bound := stattest.Bound(1e-6, 2*len(combos)*len(sizes))
	largest, refuted := 0.0, 0
	for _, s := range sizes {
		xs, ys := testPairs(s.d)
		for _, c := range combos {
			for _, prime := range []coupling.ORFPrime{{}, {SqrtDim: true}} {
				draws, err := c.f.Draws(kernel.Softmax, s.d, s.m)
				if err != nil {
					t.Fatal(err)
				}
				x, y := xs.Row(0), ys.Row(0) // norms and angle of all pairs
				v2 := dense.Norm2(x) + dense.Norm2(y) + 2*dense.Dot(x, y)
				r := prime.Radius(s.d)
				want := math.Exp(c.weight(float64(s.d), r*r) - (dense.Norm2(x)+dense.Norm2(y))/2 +
					special.Hyp0F1Log(float64(s.d)/2, c.gain2*r*r*v2/4))
				var g stattest.Moments // of the mean over pairs
				var run runner
				for seed := range uint64(s.draws) {
					p := &pool{c: prime, seed: seed, sets: map[string][]coupling.Omega{}}
					omega, err := p.take(draws)
					if err != nil {
						t.Fatal(err)
					}
					pair, err := c.f.Lower(kernel.Softmax, s.d, omega)
					if err != nil {
						t.Fatal(err)
					}
					var sum float64
					for _, v := range run.pairs(pair, false, xs, ys) {
						sum += v
					}
					g.Add(sum / float64(xs.Rows))
				}
				sd := math.Sqrt(g.Var())
				z := stattest.Z(g.Mean(), want, sd, g.N())
				largest = max(largest, math.Abs(z))
				if math.Abs(z) > bound {
					t.Errorf("%s × %+v, d = %d, m = %d: z = %.1f, bound %.1f", c.f.Name(), prime, s.d, s.m, z, bound)
				}
				// The same draws must refute the softmax kernel where the predicted bias is large enough to be seen.
				if exact := math.Exp(dense.Dot(x, y)); math.Abs(want-exact) > 1.6*bound*sd/math.Sqrt(float64(g.N())) {
					refuted++
					if math.Abs(stattest.Z(g.Mean(), exact, sd, g.N())) < bound {
						t.Errorf("%s × %+v, d = %d, m = %d: a bias of %.3g was not seen", c.f.Name(), prime, s.d, s.m,
							want-exact)
					}
				}
			}
		}
	}
	t.Logf("largest |z| %.2f, bound %.2f; the kernel is refuted by %d of %d", largest, bound, refuted,
		2*len(combos)*len(sizes))
	if refuted < len(sizes) {
		t.Errorf("only %d combinations could refute the kernel", refuted)
	}
}

// chiSeries returns E cos(c·a) (sign −1) or E cosh(c·a) (sign +1) for c ~ chi_n as a function of a:
//
//	1F1(n/2; 1/2; ±a²/2) = Σ_k (n/2)_k/(1/2)_k (±a²/2)^k/k!
//
// for |a| up to 1.5 and n up to 8, where what is left after 20 terms is below 1e-12.
func chiSeries(n, sign float64) func(a float64) float64 {
	const terms = 20
	var coef [terms]float64
	coef[0] = 1
	for k := 1; k < terms; k++ {
		j := float64(k - 1)
		coef[k] = coef[k-1] * (n/2 + j) / (0.5 + j) * sign / 2 / (j + 1)
	}
	return func(a float64) float64 {
		a *= a
		s := 0.0
		for k := terms - 1; k >= 0; k-- {
			s = s*a + coef[k]
		}
		return s
	}
}

// enumerateRows is E g(row_i·z) for each of the n rows of a block (S) H D_1 H D_2 H D_3, over all sign patterns. The
// global signs of the D are left out: g is even.
func enumerateRows(z []float64, n int, simplex bool, g func(float64) float64) []float64 {
	patterns := make([][]float64, 1<<(n-1))
	for p := range patterns {
		patterns[p] = make([]float64, n)
		for b := range n {
			patterns[p][b] = (1 - 2*float64(p>>b&1)) / math.Sqrt(float64(n))
		}
	}
	step := func(dst, src, signs []float64) {
		for i, v := range src {
			dst[i] = v * signs[i]
		}
		kern.FWHT(dst)
	}
	padded, u, v, w, out := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n),
		make([]float64,
			n)
	copy(padded, z)
	for _, third := range patterns {
		step(u, padded, third)
		for _, second := range patterns {
			step(v, u, second)
			for _, first := range patterns {
				if !simplex { // all rows have the same law: H_ij s_j are as random as s_j
					out[0] += g(dense.Dot(v, first))
					continue
				}
				step(w, v, first)
				omega.SimplexInPlace(w)
				for i, a := range w {
					out[i] += g(a)
				}
			}
		}
	}
	if !simplex {
		for i := range out {
			out[i] = out[0]
		}
	}
	total := math.Pow(float64(len(patterns)), 3)
	for i := range out {
		out[i] /= total
	}
	return out
}

// Rows of HD products are far from uniform for small n, where the mean can be enumerated (and where the default draws
// exact blocks instead): signs by force, norms by 1F1(n/2; 1/2; ±a²/2). The sampled maps must have that mean, and not
// that of the kernel where the two differ visibly.
//
// Relative biases at |x| = 0.8, |y| = 0.7, over both couplings; those of exponentials are at |x+y| = 1.4 (d = 2, 3, 5)
// or 0.8 (d = 4, 8), those of trig at |x-y| = 0.5 or 1.3:
//
//	n = 2   −11.7 % (positive, hyperbolic), −0.1 % (trig): only four directions occur, whatever the signs
//	n = 4   −2.0 % and +1.1 % (exponentials, hadamard and fastsimplex), +1.4 % and −0.6 % (trig)
//	n = 8   −0.2 % (exponentials), 0.01 % (trig)
func TestStructuredMean(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	// n = 8 once, with padding and a second block: its enumeration takes longer than the draws.
	sizes := []size{{d: 2, m: 2, draws: 8000}, {d: 2, m: 5, draws: 5000}, {d: 3, m: 4, draws: 4000},
		{d: 4, m: 6, draws: 4000}, {d: 5, m: 11, draws: 2500}}
	if !stattest.Full() {
		sizes = []size{{d: 2, m: 2, draws: 8000}, {d: 2, m: 5, draws: 4000}, {d: 3, m: 4, draws: 1500}}
	}
	couplings := []coupling.Coupling{coupling.Hadamard{K: 3}, coupling.FastSimplex{K: 3}}
	families := []family.Family{family.Trig{}, family.Positive{}, family.Hyperbolic{}}
	bound := stattest.Bound(1e-6, len(sizes)*len(couplings)*len(families))
	largest, refuted := 0.0, 0
	for _, s := range sizes {
		n := 1 << bits.Len(uint(s.d-1))
		x, y := testPair(s.d)
		rescale(x, 0.8)
		rescale(y, 0.7)
		nx, ny, xy := dense.Norm2(x), dense.Norm2(y), dense.Dot(x, y)
		diff, sum := make([]float64, s.d), make([]float64, s.d)
		for i := range x {
			diff[i], sum[i] = x[i]-y[i], x[i]+y[i]
		}
		t.Logf("d = %d: |x-y| = %.2f, |x+y| = %.2f", s.d, math.Sqrt(dense.Norm2(diff)), math.Sqrt(dense.Norm2(sum)))
		for _, c := range couplings {
			_, simplex := c.(coupling.FastSimplex)
			trig := enumerateRows(diff, n, simplex, chiSeries(float64(n), -1))
			exp := enumerateRows(sum, n, simplex, chiSeries(float64(n), 1))
			for _, f := range families {
				rows, shift := exp, -(nx+ny)/2
				if f == (family.Trig{}) {
					rows, shift = trig, (nx+ny)/2
				}
				var want float64
				for i := range s.m {
					want += math.Exp(shift) * rows[i%n] / float64(s.m)
				}
				g, _ := replicate(t, f, c, s.m, s.draws, x, y, nil)
				sd, exact := math.Sqrt(g.Var()), math.Exp(xy)
				z := stattest.Z(g.Mean(), want, sd, g.N())
				largest = max(largest, math.Abs(z))
				label := fmt.Sprintf("%s × %s, n = %d, d = %d, m = %d", f.Name(), c.Name(), n, s.d, s.m)
				t.Logf("%s: relative bias %+.4f, sampled %+.4f ± %.4f, z = %.1f", label, want/exact-1, g.Mean()/exact-1,
					sd/math.Sqrt(float64(g.N()))/exact, z)
				if math.Abs(z) > bound {
					t.Errorf("%s: z = %.1f, bound %.1f", label, z, bound)
				}
				if math.Abs(want-exact) > 1.6*bound*sd/math.Sqrt(float64(g.N())) {
					refuted++
					if math.Abs(stattest.Z(g.Mean(), exact, sd, g.N())) < bound {
						t.Errorf("%s: a bias of %.3g was not seen", label, want-exact)
					}
				}
			}
		}
	}
	t.Logf("largest |z| %.2f, bound %.2f; %d biases seen", largest, bound, refuted)
	if refuted < 8 { // exponentials with n = 2
		t.Errorf("only %d biases could be seen", refuted)
	}
}

// The pure ReLU features have a closed-form mean (arc-cosine kernel of order 1, docs/theory.md §2.17).
func TestReLUMean(t *testing.T) {
	x, y := testPair(5)
	g, _ := replicate(t, family.ReLU{Pure: true}, coupling.Orthogonal{}, 5, 4000, x, y, nil)
	th := forms.Angle(x, y)
	want := math.Sqrt(dense.Norm2(x)*dense.Norm2(y)) * (math.Sin(th) + (math.Pi-th)*math.Cos(th)) / (2 * math.Pi)
	if z := stattest.Z(g.Mean(), want, math.Sqrt(g.Var()), g.N()); math.Abs(z) > stattest.Bound(1e-6, 1) {
		t.Errorf("z = %.1f", z)
	}
}

package machine

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// dualGP is Gaussian-process regression from kernel matrices alone, with a flat prior on the mean (Rasmussen &
// Williams, eqs 2.41, 2.42 and 2.45 with the constant basis function): prediction and variance of new observations, log
// evidence.
func dualGP(t *testing.T, k, kNew dense.Matrix[float64], self []float64, y []float64, noise float64) (mean,
	variance []float64, evidence float64) {
	t.Helper()
	n := k.Rows
	a := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			a.SetSym(i, j, k.At(i, j))
		}
		a.SetSym(i, i, k.At(i, i)+noise)
	}
	var c mat.Cholesky
	if !c.Factorize(a) {
		t.Fatal("kernel matrix is not positive definite")
	}
	solve := func(v []float64) []float64 {
		var x mat.VecDense
		if err := c.SolveVecTo(&x, mat.NewVecDense(n, append([]float64(nil), v...))); err != nil {
			t.Fatal(err)
		}
		return x.RawVector().Data
	}
	ones := make([]float64, n)
	for i := range ones {
		ones[i] = 1
	}
	k1 := solve(ones)
	mass := dense.Dot(ones, k1)
	b := dense.Dot(y, k1) / mass
	rest := make([]float64, n)
	for i := range rest {
		rest[i] = y[i] - b
	}
	alpha := solve(rest)
	for i := range kNew.Rows {
		q := kNew.Row(i)
		mean = append(mean, b+dense.Dot(q, alpha))
		r := 1 - dense.Dot(q, k1)
		variance = append(variance, noise+self[i]-dense.Dot(q, solve(q))+r*r/mass)
	}
	evidence = -(float64(n-1)*math.Log(2*math.Pi) + c.LogDet() + math.Log(mass) + dense.Dot(rest, alpha)) / 2
	return mean, variance, evidence
}

func column(y dense.Matrix[float64], k int) []float64 {
	v := make([]float64, y.Rows)
	for i := range v {
		v[i] = y.At(i, k)
	}
	return v
}

func TestGPEqualsTheDualWithTheFeatureKernel(t *testing.T) {
	x, y := sample(6, 40, 2, 2)
	xNew, _ := sample(7, 15, 2, 1)
	for _, m := range []int{8, 60} { // fewer and more features than rows
		r := mustRidge(t, Setup{Spec: trigSpec(2, m), Outputs: 2}, x, y)
		const lambda = 0.2
		noise := []float64{0.3, 0.7}
		model, err := r.GP(lambda, noise)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPredictor[float64](model)
		if err != nil {
			t.Fatal(err)
		}
		mean, variance := dense.New[float64](15, 2), dense.New[float64](15, 2)
		if err := errors.Join(p.Predict(mean, xNew, nil), p.Variance(variance, xNew, nil)); err != nil {
			t.Fatal(err)
		}
		phi, phiNew := features(t, model, x), features(t, model, xNew)
		evidence := 0.0
		for o, v := range noise {
			signal := v / lambda
			k, kNew, self := dense.New[float64](40, 40), dense.New[float64](15, 40), make([]float64, 15)
			for j := range 40 {
				for i := range 40 {
					k.Set(i, j, signal*dense.Dot(phi.Row(i), phi.Row(j)))
				}
				for i := range 15 {
					kNew.Set(i, j, signal*dense.Dot(phiNew.Row(i), phi.Row(j)))
				}
			}
			for i := range self {
				self[i] = signal * dense.Norm2(phiNew.Row(i))
			}
			wantMean, wantVar, e := dualGP(t, k, kNew, self, column(y, o), v)
			evidence += e
			for i := range self {
				if math.Abs(mean.At(i, o)-wantMean[i]) > 1e-9 || math.Abs(variance.At(i, o)-wantVar[i]) > 1e-9 {
					t.Fatalf("m = %d, row %d: mean %.12g and variance %.12g, want %.12g and %.12g", m, i, mean.At(i, o),
						variance.At(i, o), wantMean[i], wantVar[i])
				}
			}
		}
		got, err := r.LogEvidence(lambda, noise)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got-evidence) > 1e-8 {
			t.Errorf("m = %d: log evidence %.12g, want %.12g", m, got, evidence)
		}
		// The noise that is chosen has the largest evidence, which is that of the path.
		best, err := r.LogEvidence(lambda, nil)
		if err != nil {
			t.Fatal(err)
		}
		free, err := r.GP(lambda, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []float64{0.99, 1.01} {
			worse, err := r.LogEvidence(lambda, []float64{f * free.Noise[0], free.Noise[1]})
			if err != nil || worse >= best {
				t.Errorf("noise × %g: evidence %g, not below %g (%v)", f, worse, best, err)
			}
		}
		path, err := r.Path([]float64{lambda})
		if err != nil || math.Abs(path[0].LogEvidence-best) > 1e-9 {
			t.Errorf("path %+v, want evidence %.12g (%v)", path, best, err)
		}
	}
}

// The error of the feature kernel falls like 1/√m, and with it that of the predictions.
func TestGPApproachesTheExactOne(t *testing.T) {
	stattest.SkipRace(t)
	x, y := sample(8, 60, 2, 1)
	xNew, _ := sample(9, 20, 2, 1)
	const lambda, noise = 0.5, 0.2
	k := kernel.Kernel{Scale: 1.5}
	gram := func(a, b dense.Matrix[float64]) dense.Matrix[float64] {
		g := dense.New[float64](a.Rows, b.Rows)
		if err := kernel.Gram(k, g, a, b); err != nil {
			t.Fatal(err)
		}
		for i := range g.Data {
			g.Data[i] *= noise / lambda
		}
		return g
	}
	self := make([]float64, 20)
	for i := range self {
		self[i] = noise / lambda
	}
	mean, variance, evidence := dualGP(t, gram(x, x), gram(xNew, x), self, column(y, 0), noise)
	// Root mean squares over draws of the map.
	errorAt := func(m int) (e [3]float64) {
		const draws = 10
		for seed := range uint64(draws) {
			r := mustRidge(t, Setup{Spec: trigSpec(2, m).WithSeed(seed), Outputs: 1}, x, y)
			model, err := r.GP(lambda, []float64{noise})
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPredictor[float64](model)
			if err != nil {
				t.Fatal(err)
			}
			a, b := dense.New[float64](20, 1), dense.New[float64](20, 1)
			if err := errors.Join(p.Predict(a, xNew, nil), p.Variance(b, xNew, nil)); err != nil {
				t.Fatal(err)
			}
			for i := range mean {
				e[0] += math.Pow(a.At(i, 0)-mean[i], 2) / 20 / draws
				e[1] += math.Pow(b.At(i, 0)-variance[i], 2) / 20 / draws
			}
			l, err := r.LogEvidence(lambda, []float64{noise})
			if err != nil {
				t.Fatal(err)
			}
			e[2] += math.Pow(l-evidence, 2) / draws
		}
		for i := range e {
			e[i] = math.Sqrt(e[i])
		}
		return e
	}
	few, many := errorAt(16), errorAt(400) // 25 times the features: a fifth of the error
	for i, what := range []string{"mean", "variance", "log evidence"} {
		t.Logf("%s: off by %.3g with 16 projections, %.3g with 400", what, few[i], many[i])
		if many[i] > few[i]/3 {
			t.Errorf("%s: the error does not fall", what)
		}
	}
}

func TestGPErrors(t *testing.T) {
	x, y := sample(1, 10, 2, 1)
	r := mustRidge(t, Setup{Spec: trigSpec(2, 4), Outputs: 1}, x, y)
	for _, c := range []struct {
		lambda float64
		noise  []float64
	}{{0, nil}, {-1, nil}, {1, []float64{0}}, {1, []float64{math.NaN()}}} {
		if _, err := r.GP(c.lambda, c.noise); !errors.Is(err, ErrSetup) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := r.GP(1, []float64{1, 1}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("two variances: %v", err)
	}
	m, err := r.Model(1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPredictor[float32](m)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Variance(dense.New[float32](1, 1), dense.New[float32](1, 2), nil); !errors.Is(err, ErrSetup) {
		t.Errorf("variance of a ridge: %v", err)
	}
}

// Against exact processes: variances of new observations are nearly right where features are many by their saturation,
// and few features, whose variances are at most half of the right ones, are found by it.
func TestSaturationTellsOverconfidence(t *testing.T) {
	stattest.SkipRace(t)
	const news = 40
	found, trusted := 0, 0
	for _, c := range []struct {
		n, d          int
		scale, lambda float64
	}{{150, 1, 0.7, 0.1}, {100, 3, 0.7, 0.01}, {100, 3, 2, 0.01}, {200, 3, 0.7, 0.3}, {100, 6, 2, 0.01},
		{150, 6, 2, 0.3},
		{100, 6, 0.7, 0.3}} {
		x, y := sample(6, c.n, c.d, 1)
		xNew, _ := sample(7, news, c.d, 1)
		kern := kernel.Kernel{Scale: c.scale}
		k, kNew, self := dense.New[float64](c.n, c.n), dense.New[float64](news, c.n), make([]float64, news)
		for j := range c.n {
			for i := range c.n {
				k.Set(i, j, kern.Eval(x.Row(i), x.Row(j)))
			}
			for i := range news {
				kNew.Set(i, j, kern.Eval(xNew.Row(i), x.Row(j)))
				self[i] = 1
			}
		}
		_, exact, _ := dualGP(t, k, kNew, self, column(y, 0), c.lambda)
		for _, m := range []int{25, 100, 400} {
			spec := randfeat.Spec{Kernel: kern, Family: family.Trig{}, Coupling: coupling.Orthogonal{}, Dim: c.d, M: m,
				Seed: 3}
			r := mustRidge(t, Setup{Spec: spec, Outputs: 1}, x, y)
			path, err := r.Path([]float64{c.lambda})
			if err != nil {
				t.Fatal(err)
			}
			model, err := r.GP(c.lambda, []float64{c.lambda})
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPredictor[float64](model)
			if err != nil {
				t.Fatal(err)
			}
			v := dense.New[float64](news, 1)
			if err := p.Variance(v, xNew, nil); err != nil {
				t.Fatal(err)
			}
			got, want := 0.0, 0.0
			for i, e := range exact {
				got, want = got+v.At(i, 0), want+e
			}
			ratio, used := got/want, path[0].Saturation
			t.Logf("n = %d, d = %d, s = %g, λ = %g, F = %d: saturation %.2f, variance %.2f of exact", c.n, c.d, c.scale,
				c.lambda, 2*m, used, ratio)
			if used <= Saturated/2 {
				trusted++
				if ratio < 0.7 {
					t.Errorf("%+v, F = %d: saturation %.2f, but the variance is %.2f of that of the exact process", c,
						2*m, used,
						ratio)
				}
			}
			if ratio < 0.6 {
				found++
				if used < Saturated {
					t.Errorf("%+v, F = %d: the variance is %.2f of that of the exact process, saturation %.2f tells nothing of it", c,
						2*m, ratio, used)
				}
			}
		}
	}
	if found < 3 || trusted < 5 {
		t.Errorf("%d overconfident processes and %d to be trusted: the test shows nothing", found, trusted)
	}
}

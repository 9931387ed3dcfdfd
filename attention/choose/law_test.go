package choose

import (
	"errors"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// normalRows is a rows×cols matrix of N(0, scale²) values around centre.
func normalRows(rows, cols int, scale, centre float64, seed uint64) dense.Matrix[float64] {
	m := dense.New[float64](rows, cols)
	rng.Normals(m.Data, rng.Stream(seed))
	for i := range m.Data {
		m.Data[i] = centre + scale*m.Data[i]
	}
	return m
}

// kernelFamilies are the examples of all families that estimate a kernel, fitted to data like those of the tests.
func kernelFamilies(t testing.TB, d int) map[string]family.Family {
	t.Helper()
	out := map[string]family.Family{}
	for _, f := range cases.Estimators(t, normalRows(300, d, 0.25, 0.1, 1), normalRows(300, d, 0.3, -0.1, 2)) {
		if !f.Biased {
			out[f.Name] = f.Family
		}
	}
	return out
}

// At j = k the covariances must be the variances of package theory, for every family that has them; the rest must say
// so.
func TestWeightLawAgreesWithVariances(t *testing.T) {
	const d = 4
	x, y := normalRows(1, d, 0.3, 0.1, 3).Row(0), normalRows(3, d, 0.3, -0.1, 4)
	without := map[string]bool{"mixture": true, "angular": true, "gaussian-lambda": true, "bipolar-gaussian": true,
		"hybrid": true, "residual": true, "zero-one-heaviest": true}
	for name, f := range kernelFamilies(t, d) {
		law, err := lawOf(f, d)
		if without[f.Name()] || without[name] {
			if !errors.Is(err, theory.ErrNoClosedForm) {
				t.Errorf("%s: error %v, want no closed form", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cov := law.At(x, y)
		for j := range y.Rows {
			m, err := theory.Of(kernel.Kernel{Kind: kernel.Softmax}, f, nil, 1, x, y.Row(j))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := math.Exp(m.LogRelVar())
			if got := cov(j, j); math.Abs(got-want) > 1e-9*(want+1e-3) {
				t.Errorf("%s, key %d: relative variance %.12g, theory says %.12g", name, j, got, want)
			}
		}
	}
	for _, f := range cases.Families(t, y, y) {
		if f.Info.Unbiased {
			continue
		}
		if _, err := lawOf(f.Family, d); !errors.Is(err, theory.ErrNoClosedForm) {
			t.Errorf("%s: error %v, want no closed form", f.Name, err)
		}
	}
}

// covariances of the weights of different keys against replicates: one wide map of independent rows is as many
// replicates as it has projections, so the product of two feature columns is averaged over rows.
func TestWeightLawCovariances(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of draws")
	}
	const d, maps, m = 4, 100, 400
	x, y := normalRows(1, d, 0.3, 0.1, 3), normalRows(3, d, 0.3, -0.1, 4)
	pairs := [][2]int{{0, 1}, {0, 2}, {1, 2}}
	families := kernelFamilies(t, d)
	bound := stattest.Bound(1e-6, len(pairs)*len(families))
	largest, refuted := 0.0, 0
	for name, f := range families {
		law, err := lawOf(f, d)
		if err != nil {
			continue
		}
		spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: f, Dim: d, M: m}
		var prod [3]stattest.Moments
		target := spec.Target()
		for seed := range uint64(maps) {
			mp, err := randfeat.New[float64](spec.WithSeed(seed))
			if err != nil {
				t.Fatal(err)
			}
			phi, psi := dense.New[float64](1, mp.OutDim()), dense.New[float64](3, mp.OutDim())
			if err := mp.Queries(phi, nil, x, nil); err != nil {
				t.Fatal(err)
			}
			if err := mp.Keys(psi, nil, y, nil); err != nil {
				t.Fatal(err)
			}
			// Features of one projection are m apart: [sin…, cos…], [+…, -…] and the blocks of clusters.
			rel := make([][3]float64, m)
			for c := range mp.OutDim() {
				for j := range 3 {
					rel[c%m][j] += phi.At(0, c) * psi.At(j, c) * m / target.Eval(x.Row(0), y.Row(j))
				}
			}
			var sum [3]float64
			for _, r := range rel {
				for i, p := range pairs {
					sum[i] += (r[p[0]] - 1) * (r[p[1]] - 1) / m
				}
			}
			for i, s := range sum {
				prod[i].Add(s)
			}
		}
		cov := law.At(x.Row(0), y)
		for i, p := range pairs {
			sd := math.Sqrt(prod[i].Var())
			z := stattest.Z(prod[i].Mean(), cov(p[0], p[1]), sd, maps)
			largest = max(largest, math.Abs(z))
			if math.Abs(z) > bound {
				t.Errorf("%s, keys %v: covariance %.4g, closed form %.4g, z = %.1f", name, p, prod[i].Mean(),
					cov(p[0], p[1]), z)
			}
			if math.Abs(stattest.Z(prod[i].Mean(), 0, sd, maps)) > bound {
				refuted++ // independence of keys is refuted
			}
		}
	}
	t.Logf("largest |z| %.2f, bound %.2f; %d covariances are not zero", largest, bound, refuted)
	if refuted < 20 {
		t.Errorf("only %d covariances differ from zero: the test has no power", refuted)
	}
}

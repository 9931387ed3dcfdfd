package machine

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	lin "github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

func positiveSpec(dim, m int) randfeat.Spec {
	return randfeat.Spec{Kernel: kernel.Kernel{Scale: 1.2}, Family: family.OPRF{A: -0.1}, Coupling: coupling.Simplex{},
		Dim: dim, M: m, Seed: 4}
}

func mustSmoother(t *testing.T, s Setup, x, y dense.Matrix[float64]) *smoother {
	t.Helper()
	a, err := newSmoother(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(x, y); err != nil {
		t.Fatal(err)
	}
	return a
}

func smootherModel(t *testing.T, a *smoother) *Model {
	t.Helper()
	m, err := a.Model(0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The same estimate as attention with values y, for positive, signed and asymmetric maps, near and far from the origin.
func TestSmootherEqualsAttention(t *testing.T) {
	x, y := sample(1, 500, 3, 2)
	q, _ := sample(2, 50, 3, 1)
	asymmetric := positiveSpec(3, 32)
	asymmetric.Family = family.GERF{A: -0.1, S: -1}
	far := positiveSpec(3, 32)
	far.Kernel = kernel.Kernel{Kind: kernel.Softmax, Scale: 0.1} // exponents of some hundreds
	for name, spec := range map[string]randfeat.Spec{"positive": positiveSpec(3, 32), "trig": trigSpec(3, 300),
		"asymmetric": asymmetric, "far": far} {
		model := smootherModel(t, mustSmoother(t, Setup{Spec: spec, Outputs: 2, Block: 64}, x, y))
		m, err := randfeat.New[float64](spec)
		if err != nil {
			t.Fatal(err)
		}
		want := dense.New[float64](50, 2)
		a := lin.Attention[float64]{Maps: []randfeat.FeatureMap[float64]{m}}
		if _, err := a.Forward(attention.One(want), attention.One(q), attention.One(x), attention.One(y)); err != nil {
			t.Fatal(err)
		}
		got := predict(t, model, q)
		p32, err := NewPredictor[float32](model)
		if err != nil {
			t.Fatal(err)
		}
		single := dense.New[float32](50, 2)
		if err := p32.Predict(single, dense.Convert[float32](q), nil); err != nil {
			t.Fatal(err)
		}
		for i, v := range want.Data {
			// Denominators of signed features may be small: relative to the numerators, 10⁻⁹ is generous.
			if d := math.Abs(got.Data[i] - v); d > 1e-9*(1+math.Abs(v)) {
				t.Fatalf("%s: %.15g, want %.15g", name, got.Data[i], v)
			}
			tol := 1e-4
			if name == "far" {
				tol = 2e-2 // exponents of hundreds have errors of some 10⁻⁵ in float32, and the estimate is steep
			}
			if name != "trig" && math.Abs(float64(single.Data[i])-v) > tol*(1+math.Abs(v)) {
				t.Fatalf("%s in float32: %.9g, want %.9g", name, single.Data[i], v)
			}
		}
	}
}

// With many features the smoother is that of the exact kernel.
func TestSmootherApproachesTheExactKernel(t *testing.T) {
	x, raw := sample(3, 200, 2, 1)
	y := classes(raw, 3)
	spec := positiveSpec(2, 4096)
	got := predict(t, smootherModel(t, mustSmoother(t, Setup{Spec: spec, Task: Classification, Outputs: 3}, x, y)), x)
	k := dense.New[float64](200, 200)
	if err := kernel.Gram(spec.Kernel, k, x, x); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		var p [3]float64
		sum := 0.0
		for j, w := range k.Row(i) {
			p[int(y.At(j, 0))] += w
			sum += w
		}
		total := 0.0
		for c := range p {
			total += got.At(i, c)
			// The relative error of a kernel value is some √(e^{|x+y|²}/m); the sums average it.
			if d := math.Abs(got.At(i, c) - p[c]/sum); d > 0.1 {
				t.Errorf("row %d, class %d: %.3f, want %.3f", i, c, got.At(i, c), p[c]/sum)
			}
			if got.At(i, c) < 0 {
				t.Errorf("row %d: negative probability", i)
			}
		}
		if math.Abs(total-1) > 1e-12 {
			t.Errorf("row %d: probabilities sum to %g", i, total)
		}
	}
}

func TestSmootherMergeAndBits(t *testing.T) {
	x, y := sample(4, 900, 3, 1)
	s := Setup{Spec: positiveSpec(3, 200), Outputs: 1, Block: 100}
	rows, _ := MatrixRows(x, y)
	want := smootherModel(t, mustSmoother(t, s, x, y))
	for _, procs := range []int{1, 3} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			a, err := newSmoother(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.AddRows(rows); err != nil {
				t.Fatal(err)
			}
			got := smootherModel(t, a)
			if !slices.Equal(got.Weights.Data, want.Weights.Data) || !slices.Equal(got.LogScale, want.LogScale) ||
				!slices.Equal(got.Mass, want.Mass) {
				t.Errorf("%d cores, streamed: other bits", procs)
			}
		}()
	}
	p := predict(t, want, x)
	for _, cut := range []int{0, 1, 450} {
		a, b := mustSmoother(t, s, x.RowRange(cut, 900), y.RowRange(cut, 900)), mustSmoother(t, s, x.RowRange(0, cut),
			y.RowRange(0, cut))
		if err := a.Merge(b); err != nil {
			t.Fatal(err)
		}
		for i, v := range predict(t, smootherModel(t, a), x).Data {
			if math.Abs(v-p.Data[i]) > 1e-11*(1+math.Abs(v)) {
				t.Fatalf("cut at %d: prediction %d is %g, want %g", cut, i, v, p.Data[i])
			}
		}
	}
	other := mustSmoother(t, Setup{Spec: s.Spec.WithSeed(1), Outputs: 1}, x, y)
	if err := other.Merge(mustSmoother(t, s, x, y)); !errors.Is(err, ErrMismatch) {
		t.Errorf("merge of another map: %v", err)
	}
	empty, _ := newSmoother(s)
	if _, err := empty.Model(0); !errors.Is(err, ErrNoRows) {
		t.Errorf("no rows: %v", err)
	}
}

// calibrated returns the model of a density with the quantiles of the scores of rows.
func calibrated(d Sums, rows Rows) (*Model, error) {
	m, err := d.Model(0)
	if err != nil {
		return nil, err
	}
	p, err := NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	var scores Calibration
	err = rows.Each(defaultBlock, func(x, _ dense.Matrix[float64]) error {
		out := dense.New[float64](x.Rows, 1)
		err := p.Predict(out, x, nil)
		for _, v := range out.Data {
			scores.Add(v)
		}
		return err
	})
	m.Quantiles = scores.Quantiles()
	return m, err
}

func TestDensity(t *testing.T) {
	x, _ := sample(5, 400, 2, 1)
	held, _ := sample(6, 2000, 2, 1)
	spec := positiveSpec(2, 2048)
	d, err := newDensity(Setup{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := MatrixRows(held, dense.Matrix[float64]{})
	if err := d.Add(x, dense.Matrix[float64]{}); err != nil {
		t.Fatal(err)
	}
	m, err := calibrated(d, rows)
	if err != nil {
		t.Fatal(err)
	}
	// The log mean of the exact kernel, where it is not far in the tails.
	q := held.RowRange(0, 100)
	k := dense.New[float64](100, 400)
	if err := kernel.Gram(spec.Kernel, k, q, x); err != nil {
		t.Fatal(err)
	}
	got := predict(t, m, q)
	for i := range 100 {
		mean := 0.0
		for _, v := range k.Row(i) {
			mean += v / 400
		}
		if d := got.At(i, 0) - math.Log(mean); dense.Norm2(q.Row(i)) < 3 && math.Abs(d) > 0.25 {
			t.Errorf("row %d: log density %.3f, want %.3f", i, got.At(i, 0), math.Log(mean))
		}
	}
	// And exactly the log mean of the feature kernel.
	fm, err := randfeat.New[float64](spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := fm.Gram(k, q, x, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		mean := 0.0
		for _, v := range k.Row(i) {
			mean += v / 400
		}
		if d := got.At(i, 0) - math.Log(mean); math.Abs(d) > 1e-10 {
			t.Errorf("row %d: log density %.15g, want %.15g", i, got.At(i, 0), math.Log(mean))
		}
	}
	// Anomaly scores of rows like the calibration rows are uniform: quantiles of a fresh set within 5 standard errors.
	fresh, _ := sample(7, 2000, 2, 1)
	below := 0
	for _, s := range predict(t, m, fresh).Data {
		a := m.Anomaly(s)
		if a < 0 || a > 1 {
			t.Fatalf("anomaly %g", a)
		}
		if a > 0.9 {
			below++
		}
	}
	if z := (float64(below) - 200) / math.Sqrt(2*2000*0.09); math.Abs(z) > 5 {
		t.Errorf("%d of 2000 rows have an anomaly above 0.9, z = %.1f", below, z)
	}
	outlier := predict(t, m, dense.MustFromRows([][]float64{{9, -9}}))
	if a := m.Anomaly(outlier.At(0, 0)); a != 1 {
		t.Errorf("an outlier with score %g has anomaly %g", outlier.At(0, 0), a)
	}
	if a := m.Anomaly(math.Inf(1)); a != 0 {
		t.Errorf("a score above all has anomaly %g", a)
	}
	for i, v := range m.Quantiles {
		if a := m.Anomaly(v); math.Abs(a-(1-float64(i)/1000)) > 1e-9 {
			t.Fatalf("anomaly of quantile %d is %g", i, a)
		}
	}
	if _, err := newDensity(Setup{Spec: trigSpec(2, 4)}); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(),
		"negative features") {
		t.Errorf("density with signed features: %v", err)
	}
}

// Features of both signs may make the sum of all weights negative: the class is that of the largest numerator all the
// same, and the estimates are probabilities. (A quotient by a negative sum would give the class of the smallest.)
func TestSmootherClassesOfSignedFeatures(t *testing.T) {
	x, y := sample(41, 300, 3, 1)
	q, _ := sample(42, 400, 3, 1)
	for _, spec := range []randfeat.Spec{
		{Kernel: kernel.Kernel{Scale: 0.4}, Family: family.Trig{}, Dim: 3, M: 6, Seed: 2},
		{Kernel: kernel.Kernel{Scale: 0.4}, Family: family.Poisson{Lambda: 2}, Dim: 3, M: 40, Seed: 3},
	} {
		for _, k := range []int{2, 3} {
			model := smootherModel(t, mustSmoother(t, Setup{Spec: spec, Task: Classification, Outputs: k}, x,
				classes(y, k)))
			fm, err := randfeat.New[float64](spec)
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPredictor[float64](model)
			if err != nil {
				t.Fatal(err)
			}
			out, phi := dense.New[float64](q.Rows, k), dense.New[float64](q.Rows, fm.OutDim())
			if err := errors.Join(p.Predict(out, q, nil), fm.Queries(phi, nil, q, nil)); err != nil {
				t.Fatal(err)
			}
			e, err := model.Evaluation()
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Add(dense.New[float64](q.Rows, 1), out, dense.Matrix[float64]{}); err != nil ||
				len(e.Scores()) != 2 {
				t.Errorf("%s: scores %v, %v: want accuracies, there are no probabilities", spec.Family.Name(),
					e.Scores(), err)
			}
			negative, none := 0, 0
			for i := range q.Rows {
				numerators, den := make([]float64, k), 0.0
				for f, v := range phi.Row(i) {
					if math.IsInf(model.LogScale[f], -1) {
						continue
					}
					v *= math.Exp(model.LogScale[f])
					den += v * model.Mass[f]
					for c := range k {
						numerators[c] += v * model.Weights.At(f, c)
					}
				}
				if den < 0 {
					negative++
				}
				if slices.Max(numerators) < 0 {
					none++
				}
				if got, want := Class(out.Row(i)), Class(numerators); got != want {
					t.Fatalf("%s: row %d is of class %d, numerators %v ask for %d", spec.Family.Name(), i, got,
						numerators, want)
				}
				sum := 0.0
				for _, v := range out.Row(i) {
					if sum += v; v < 0 || v > 1 {
						t.Fatalf("%s: row %d has probabilities %v", spec.Family.Name(), i, out.Row(i))
					}
				}
				if math.Abs(sum-1) > 1e-12 {
					t.Fatalf("%s: row %d has probabilities %v, sum %g", spec.Family.Name(), i, out.Row(i), sum)
				}
			}
			if negative < 10 || none == 0 {
				t.Errorf("%s, %d classes: %d sums of weights are negative, %d rows have no positive numerator: the test shows "+
					"nothing",
					spec.Family.Name(), k, negative, none)
			}
		}
	}
}

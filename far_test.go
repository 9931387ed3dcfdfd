package randfeat_test

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// farSets are rows of standard deviation 0.3 about a mean in every coordinate, representable in float32.
func farSets(n, d int, meanX, meanY float64) (x, y dense.Matrix[float64]) {
	x, y = normals[float64](n, d, 31), normals[float64](n, d, 32)
	for i := range x.Data {
		x.Data[i] = float64(float32(meanX + 0.3*x.Data[i]))
		y.Data[i] = float64(float32(meanY + 0.3*y.Data[i]))
	}
	return x, y
}

// rmsRelative is the root mean square of got/want - 1.
func rmsRelative[T dense.Float](got dense.Matrix[T], want dense.Matrix[float64]) float64 {
	var sum float64
	for i, v := range got.Data {
		r := float64(v)/want.Data[i] - 1
		sum += r * r
	}
	return math.Sqrt(sum / float64(len(got.Data)))
}

// Far from the origin row terms are thousands of nats and must cancel. No family may lose its estimate there without
// theory saying so: where the Gram matrix is wrong by its whole size, the predicted error is as large.
func TestFarFromTheOrigin(t *testing.T) {
	const n, d, m = 40, 16, 64
	x, y := farSets(n, d, 8, 8)
	for _, info := range family.List() {
		f, err := family.Parse(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := randfeat.Fit(randfeat.Spec{Family: f, Dim: d, M: m, Seed: 5}, x, y)
		if err != nil {
			t.Logf("%s: %v", info.Name, err) // importance says that its optimum does not exist
			continue
		}
		m32, err := randfeat.New[float32](s)
		if err != nil {
			t.Logf("%s: %v", info.Name, err) // no default parameters
			continue
		}
		m64, err := randfeat.New[float64](s)
		if err != nil {
			t.Fatal(err)
		}
		exact, g64, g32 := dense.New[float64](n, n), dense.New[float64](n, n), dense.New[float32](n, n)
		if err := kernel.Gram(s.Target(), exact, x, y); err != nil {
			t.Fatal(err)
		}
		if err := m64.Gram(g64, x, y, nil); err != nil {
			t.Fatal(err)
		}
		if err := m32.Gram(g32, dense.Convert[float32](x), dense.Convert[float32](y), nil); err != nil {
			t.Fatal(err)
		}
		var predicted float64
		noForm := false
		for i := range n {
			p, err := theory.Of(s.Kernel, s.Family, nil, m, x.Row(i), y.Row(i))
			if err != nil {
				noForm = true
				break
			}
			predicted += math.Exp(p.LogRelVar()) / n
		}
		e32, e64 := rmsRelative(g32, exact), rmsRelative(g64, exact)
		t.Logf("%-16s float32 %.3g, float64 %.3g, predicted %.3g", info.Name, e32, e64, math.Sqrt(predicted))
		if noForm {
			continue
		}
		if math.Abs(e32-e64) > 1e-3*(1+e64) {
			t.Errorf("%s: error %.4g in float32, %.4g in float64", info.Name, e32, e64)
		}
		if e32 > 3*math.Sqrt(predicted) {
			t.Errorf("%s: error %.4g, predicted %.4g", info.Name, e32, math.Sqrt(predicted))
		}
	}
}

// Adaptive centres both sides: its features stay in range in every form, also where queries and keys have different
// means, and with any coupling.
func TestAdaptiveFarFromTheOrigin(t *testing.T) {
	const n, d, m = 60, 16, 128
	for name, c := range map[string]struct {
		kind         kernel.Kind
		meanX, meanY float64
	}{
		"gaussian":                  {kernel.Gaussian, 8, 8},
		"gaussian, different means": {kernel.Gaussian, 8, 8.5},
		"gaussian, very far":        {kernel.Gaussian, 1000, 1000.25},
		"softmax":                   {kernel.Softmax, 8, 0.1},
		"softmax, opposite":         {kernel.Softmax, 2, -2},
	} {
		x, y := farSets(n, d, c.meanX, c.meanY)
		s := randfeat.Spec{Kernel: kernel.Kernel{Kind: c.kind}, Family: family.Adaptive{}, Dim: d, M: m, Seed: 5}
		s, err := randfeat.Fit(s, x, y)
		if err != nil {
			t.Fatal(err)
		}
		exact := dense.New[float64](n, n)
		if err := kernel.Gram(s.Kernel, exact, x, y); err != nil {
			t.Fatal(err)
		}
		var predicted float64
		for i := range n {
			p, err := theory.Of(s.Kernel, s.Family, nil, m, x.Row(i), y.Row(i))
			if err != nil {
				t.Fatal(err)
			}
			predicted += math.Exp(p.LogRelMSE()) / n
		}
		for form, e := range map[string]float64{
			"float32 Gram": gramError[float32](t, s, x, y, exact), "float64 Gram": gramError[float64](t, s, x, y,
				exact),
			"plain float32": plainError[float32](t, s, x, y, exact), "plain float64": plainError[float64](t, s, x, y,
				exact),
			"log float32": logError[float32](t, s, x, y, exact),
		} {
			if !(e < 1.5*math.Sqrt(predicted)) || !(predicted < 0.25) {
				t.Errorf("%s, %s: error %.4g, predicted %.4g", name, form, e, math.Sqrt(predicted))
			}
		}
	}
}

// A shift of the keys alone leaves features that underflow in float32; Gram finds the entries that they lose.
func TestGramOfLostFeatures(t *testing.T) {
	const n, d = 60, 16
	x, y := farSets(n, d, 8, 8)
	s, err := randfeat.Fit(randfeat.Spec{Family: family.Adaptive{}, Dim: d, M: 128, Seed: 5}, x, y)
	if err != nil {
		t.Fatal(err)
	}
	exact := dense.New[float64](n, n)
	if err := kernel.Gram(s.Kernel, exact, x, y); err != nil {
		t.Fatal(err)
	}
	want := gramError[float32](t, s, x, y, exact)
	a := s.Family.(family.Adaptive)
	a.Q = nil
	s.Family = a
	if got := gramError[float32](t, s, x, y, exact); math.Abs(got-want) > 1e-3*want {
		t.Errorf("error %.4g with a shift of the keys, %.4g with one of both sides", got, want)
	}
}

func gramError[T dense.Float](t *testing.T, s randfeat.Spec, x, y, exact dense.Matrix[float64]) float64 {
	t.Helper()
	m, err := randfeat.New[T](s)
	if err != nil {
		t.Fatal(err)
	}
	g := dense.New[T](x.Rows, y.Rows)
	if err := m.Gram(g, dense.Convert[T](x), dense.Convert[T](y), nil); err != nil {
		t.Fatal(err)
	}
	return rmsRelative(g, exact)
}

// plainError is that of the dot products of features without log scales.
func plainError[T dense.Float](t *testing.T, s randfeat.Spec, x, y, exact dense.Matrix[float64]) float64 {
	t.Helper()
	m, err := randfeat.New[T](s)
	if err != nil {
		t.Fatal(err)
	}
	p, q := dense.New[T](x.Rows, m.OutDim()), dense.New[T](y.Rows, m.OutDim())
	if err := m.Queries(p, nil, dense.Convert[T](x), nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Keys(q, nil, dense.Convert[T](y), nil); err != nil {
		t.Fatal(err)
	}
	g := dense.New[T](x.Rows, y.Rows)
	for i := range p.Rows {
		for j := range q.Rows {
			g.Set(i, j, dense.Dot(p.Row(i), q.Row(j)))
		}
	}
	return rmsRelative(g, exact)
}

// logError is that of exponents added in the log domain, as attention does.
func logError[T dense.Float](t *testing.T, s randfeat.Spec, x, y, exact dense.Matrix[float64]) float64 {
	t.Helper()
	m, err := randfeat.New[T](s)
	if err != nil {
		t.Fatal(err)
	}
	p, q := dense.New[T](x.Rows, m.OutDim()), dense.New[T](y.Rows, m.OutDim())
	rowX, rowY := make([]float64, x.Rows), make([]float64, y.Rows)
	if err := m.LogQueries(p, dense.Matrix[T]{}, rowX, dense.Convert[T](x), nil); err != nil {
		t.Fatal(err)
	}
	if err := m.LogKeys(q, dense.Matrix[T]{}, rowY, dense.Convert[T](y), nil); err != nil {
		t.Fatal(err)
	}
	g := dense.New[float64](x.Rows, y.Rows)
	for i := range p.Rows {
		for j := range q.Rows {
			var sum float64
			for f, e := range p.Row(i) {
				sum += math.Exp(float64(e) + float64(q.At(j, f)) + rowX[i] + rowY[j])
			}
			g.Set(i, j, sum)
		}
	}
	return rmsRelative(g, exact)
}

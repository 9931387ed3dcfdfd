package choose

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// randomSeq is a sequence of N(centre, scale²) values.
func randomSeq[T dense.Float](batch, heads, length, dim int, scale, centre float64, seed uint64) attention.Seq[T] {
	s := attention.NewSeq[T](batch, heads, length, dim)
	v := make([]float64, len(s.Data))
	rng.Normals(v, rng.Stream(seed))
	for i := range v {
		s.Data[i] = T(centre + scale*v[i])
	}
	return s
}

// oneMap is a map for attention over rows of d columns.
func oneMap[T dense.Float](t testing.TB, f family.Family, c coupling.Coupling, d, m int, seed uint64) *randfeat.Map[T] {
	t.Helper()
	mp, err := randfeat.New[T](randfeat.Spec{Kernel: kernel.Attention(d), Family: f, Coupling: c, Dim: d, M: m,
		Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return mp
}

// The prediction is made before a map is drawn; over many draws the measured errors must have its root mean square.
// With covariances it is exact to first order: where denominators vary by less than 0.1 the two agree to
// 10 %, of which 50 draws leave a few per cent to chance; scaled covariances to 20 %. What is said to be a bound must
// be one.
func TestPredictionAgreesWithMeasurement(t *testing.T) {
	if testing.Short() {
		t.Skip("many of draws")
	}
	const d, m, length, draws = 8, 256, 48, 50
	q, k, v := randomSeq[float64](1, 1, length, d, 0.45, 0.1, 1), randomSeq[float64](1, 1, length, d, 0.45, -0.1, 2),
		randomSeq[float64](1, 1, length, 5, 1, 0.3, 3)
	stats, err := linear.NewHeadStats[float64](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Adaptive{},
		Dim: d}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := stats.Add(q, k, nil, nil); err != nil {
		t.Fatal(err)
	}
	specs, err := stats.Fit()
	if err != nil {
		t.Fatal(err)
	}
	adaptive := specs[0].Family
	darkM := dense.Identity[float64](d)
	for i := range d {
		darkM.Set(i, i, 0.8)
		darkM.Set(i, (i+1)%d, 0.3)
	}
	for _, c := range []struct {
		f      family.Family
		c      coupling.Coupling
		kernel kernel.Kind
		method Basis
		lo, hi float64 // of measured over predicted
		causal bool
		window int
		keys   int
	}{
		{f: family.Positive{}, kernel: kernel.Softmax, method: covariances, lo: 0.9, hi: 1.1},
		{f: family.Positive{}, kernel: kernel.Softmax, method: covariances, lo: 0.9, hi: 1.1, causal: true},
		{f: family.Positive{}, kernel: kernel.Softmax, method: covariances, lo: 0.9, hi: 1.1, window: 7},
		// sampled keys
		{f: family.Positive{}, kernel: kernel.Softmax, method: covariances, lo: 0.85, hi: 1.15, keys: 32},
		{f: family.Positive{}, kernel: kernel.Gaussian, method: covariances, lo: 0.9, hi: 1.1},
		{f: family.OPRF{A: -0.05}, kernel: kernel.Softmax, method: covariances, lo: 0.9, hi: 1.1},
		{f: family.Trig{}, kernel: kernel.Softmax, method: covariances, lo: 0.9, hi: 1.1},
		{f: family.Hyperbolic{}, kernel: kernel.Softmax, method: covariances, lo: 0.9, hi: 1.1},
		{f: adaptive, kernel: kernel.Softmax, method: covariances, lo: 0.9, hi: 1.1},
		{f: family.DARK{M: darkM}, kernel: kernel.Softmax, method: covariances, lo: 0.9, hi: 1.1},
		{f: family.Positive{}, c: coupling.Orthogonal{}, kernel: kernel.Softmax, method: scaledCovariances,
			lo: 0.8, hi: 1.2},
		{f: family.OPRF{A: -0.05}, c: coupling.Orthogonal{}, kernel: kernel.Softmax, method: scaledCovariances,
			lo: 0.8, hi: 1.2},
		{f: family.Positive{}, c: coupling.Simplex{}, kernel: kernel.Softmax, method: scaledCovariances,
			lo: 0.8, hi: 1.2},
		{f: adaptive, c: coupling.Orthogonal{}, kernel: kernel.Softmax, method: independentRows, lo: 0.5,
			hi: 1.05},
		{f: family.Angular{N: 4}, kernel: kernel.Softmax, method: upperBound, lo: 0.02, hi: 1},
		{f: family.Residual{}, kernel: kernel.Softmax, method: upperBound, lo: 0.02, hi: 1},
	} {
		name := fmt.Sprintf("%s kernel=%v causal=%v window=%d", c.f.Name(), c.kernel, c.causal, c.window)
		if c.c != nil {
			name += " " + c.c.Name()
		}
		var out, row, predOut, predRow, den float64
		for seed := range uint64(draws) {
			kern := kernel.Attention(d)
			kern.Kind = c.kernel
			mp, err := randfeat.New[float64](randfeat.Spec{Kernel: kern, Family: c.f, Coupling: c.c, Dim: d, M: m,
				Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			lin := &linear.Attention[float64]{Visibility: attention.Visibility{Causal: c.causal},
				Maps: []randfeat.FeatureMap[float64]{mp}, Window: c.window}
			got, err := Compare(lin, q, k, v, CompareOptions{Rows: length, Keys: c.keys, Unpredicted: seed > 0})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out += got.Output * got.Output / draws
			row += got.Row * got.Row / draws
			if got.Rounding > 1e-12 {
				t.Errorf("%s: a relative difference of %.1g between Forward and its definition", name, got.Rounding)
			}
			if seed > 0 {
				continue
			}
			p := got.Predicted
			predOut, predRow, den = p.Output, p.Row, p.Denominator
			if p.Basis != c.method {
				t.Errorf("%s: method %v, want %v", name, p.Basis, c.method)
			}
			if missing := c.method == independentRows || c.method == upperBound; errors.Is(p.Err,
				theory.ErrNoClosedForm) != missing {
				t.Errorf("%s: error %v", name, p.Err)
			}
		}
		ro, rr := math.Sqrt(out)/predOut, math.Sqrt(row)/predRow
		t.Logf("%-60s output %.4f predicted %.4f (%.2f), rows %.4f predicted %.4f (%.2f), denominators %.3f", name,
			math.Sqrt(out), predOut, ro, math.Sqrt(row), predRow, rr, den)
		if !(ro >= c.lo && ro <= c.hi) {
			t.Errorf("%s: output error %.4f, predicted %.4f: ratio %.2f not within [%.2f, %.2f]", name, math.Sqrt(out),
				predOut, ro, c.lo, c.hi)
		}
		if !(rr >= c.lo && rr <= c.hi) {
			t.Errorf("%s: row error %.4f, predicted %.4f: ratio %.2f not within [%.2f, %.2f]", name, math.Sqrt(row),
				predRow, rr, c.lo, c.hi)
		}
	}
}

// Wherever a prediction is given, at whatever variation of the denominators, the measured error is within the bounds
// that prediction states: a fifth for signed maps, whose predictions end early, a factor of 3 below for positive
// ones, no more than the prediction where that is a bound.
func TestPredictionsHoldWhereGiven(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of draws")
	}
	const d, length, draws = 8, 48, 40
	for _, c := range []struct {
		f        family.Family
		lo, hi   float64 // of measured over predicted
		withhold float64 // what a denominator error must not exceed where there is a prediction
	}{
		{family.Trig{}, 0.85, 1.2, 0.25},
		{family.GERF{A: 0.02 - 0.02i, S: -1}, 0.85, 1.2, 0.25},
		{family.Positive{}, 0.33, 1.1, 1},
		{family.Hyperbolic{}, 0.33, 1.1, 1},
		{family.Angular{N: 4}, 0.05, 1, 0.25},
		{family.Residual{}, 0.05, 1, 0.25},
	} {
		given, withheld := 0, 0
		for _, m := range []int{16, 64} {
			for _, size := range []float64{0.3, 0.4, 0.6, 0.8, 1} {
				q, k, v := randomSeq[float64](1, 1, length, d, size, 0.1, 1), randomSeq[float64](1, 1, length, d, size,
					-0.1, 2),
					randomSeq[float64](1, 1, length, 5, 1, 0.3, 3)
				var out, row float64
				var p prediction
				for seed := range uint64(draws) {
					lin := &linear.Attention[float64]{Maps: []randfeat.FeatureMap[float64]{oneMap[float64](t, c.f, nil,
						d, m, seed)}}
					got, err := Compare(lin, q, k, v, CompareOptions{Rows: length, Unpredicted: seed > 0})
					if err != nil {
						t.Fatal(err)
					}
					if seed == 0 {
						if p = got.Predicted; p.Basis == noPrediction {
							break
						}
					}
					out += got.Output * got.Output / draws
					row += got.Row * got.Row / draws
				}
				name := fmt.Sprintf("%s m=%d size %.1f, denominators %.2f, worst %.2f", c.f.Name(), m, size,
					p.Denominator, p.Worst)
				if p.Basis == noPrediction {
					withheld++
					if !errors.Is(p.Err, errRange) || !math.IsNaN(p.Output) || !(p.Worst > c.withhold) {
						t.Errorf("%s: %+v", name, p)
					}
					continue
				}
				given++
				ro, rr := math.Sqrt(out)/p.Output, math.Sqrt(row)/p.Row
				t.Logf("%s: measured over predicted: output %.2f, rows %.2f", name, ro, rr)
				if !(ro >= c.lo && ro <= c.hi) || !(rr >= c.lo && rr <= c.hi) {
					t.Errorf("%s: measured over predicted %.2f for outputs, %.2f for rows, want %.2f to %.2f", name, ro,
						rr, c.lo, c.hi)
				}
			}
		}
		if given < 3 || withheld < 2 {
			t.Errorf("%s: %d predictions given, %d withheld: the test shows nothing", c.f.Name(), given, withheld)
		}
	}
}

// Measured errors are those of all outputs against exact attention, whatever is masked, packed, grouped or in a window.
func TestCompareMeasuresAgainstExact(t *testing.T) {
	const d, dv, length, batch = 4, 3, 40, 2
	q, k, v := randomSeq[float64](batch, 4, length, d, 0.4, 0, 1), randomSeq[float64](batch, 2, length, d, 0.4, 0, 2),
		randomSeq[float64](batch, 2, length, dv, 1, 0, 3)
	mask, segments := make([]bool, batch*length), make([]int32, batch*length)
	for i := range mask {
		mask[i] = i%7 != 3
		segments[i] = int32(i % length / 15)
	}
	maps, err := linear.NewMaps[float64](linear.HeadSpecs(randfeat.Spec{Kernel: kernel.Attention(d),
		Family: family.Positive{}, Dim: d, M: 32, Seed: 1}, 2))
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*linear.Attention[float64]{
		"plain":    {Maps: maps},
		"causal":   {Maps: maps, Visibility: attention.Visibility{Causal: true}},
		"mask":     {Maps: maps, Visibility: attention.Visibility{KeyMask: mask}},
		"segments": {Maps: maps, Visibility: attention.Visibility{Segments: segments}},
		"all": {Maps: maps, Visibility: attention.Visibility{KeyMask: mask, Segments: segments,
			Causal: true}},
		"window": {Maps: maps, Window: 5, Visibility: attention.Visibility{KeyMask: mask}},
		"causal window": {Maps: maps, Window: 5, Visibility: attention.Visibility{KeyMask: mask, Causal: true,
			Segments: segments}},
		"sinks":        {Maps: maps, Sinks: 4, Visibility: attention.Visibility{KeyMask: mask, Causal: true}},
		"whole window": {Maps: maps, Window: length, Visibility: attention.Visibility{Causal: true}},
		"one map":      {Maps: maps[:1]},
	} {
		got, err := Compare(a, q, k, v, CompareOptions{Rows: batch * length, Exact: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lin := attention.NewSeq[float64](batch, 4, length, dv)
		report, err := a.Forward(lin, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		exact := attention.NewSeq[float64](batch, 4, length, dv)
		if _, err := (&attention.Exact[float64]{Visibility: a.Visibility}).Forward(exact, q, k, v); err != nil {
			t.Fatal(err)
		}
		var diff, norm float64
		for i, x := range exact.Data {
			diff += (lin.Data[i] - x) * (lin.Data[i] - x)
			norm += x * x
		}
		want := math.Sqrt(diff / norm)
		if math.Abs(got.Output-want) > 1e-9 || got.Rounding > 1e-12 {
			t.Errorf("%s: output error %.12g (rounding %.1g), want %.12g", name, got.Output, got.Rounding, want)
		}
		if name == "whole window" {
			if got.Output > 1e-12 || got.Row > 1e-12 || got.Variation > 1e-12 || got.Predicted.Output != 0 {
				t.Errorf("%s: errors %+v, want none", name, got.LinearErrors)
			}
		} else if !(got.Variation > 0.01 && got.Variation < 1 && got.Row > 0.01 && got.Predicted.Output > want/3 &&
			got.Predicted.Output < 3*want) {
			t.Errorf("%s: %+v", name, got.LinearErrors)
		}
		if got.Report != report || len(got.Heads) != 4 || got.Exact <= 0 || got.Linear <= 0 {
			t.Errorf("%s: report %+v, %d heads, times %v and %v", name, got.Report, len(got.Heads), got.Exact,
				got.Linear)
		}
		rows := 0
		for _, h := range got.Heads {
			rows += h.Rows
		}
		if rows != got.Rows || got.Rows != int(report.Rows-report.Empty) {
			t.Errorf("%s: %d rows compared, %d in the heads, %+v", name, got.Rows, rows, report)
		}
	}
}

// The sample depends on its seed alone; float32 outputs are told apart from their estimates; maps without theory say
// so.
func TestCompareSampleAndErrors(t *testing.T) {
	const d, length = 8, 500
	q, k, v := randomSeq[float32](1, 2, length, d, 0.6, 0, 1), randomSeq[float32](1, 2, length, d, 0.6, 0, 2),
		randomSeq[float32](1, 2, length, d, 1, 0, 3)
	a := &linear.Attention[float32]{Maps: []randfeat.FeatureMap[float32]{oneMap[float32](t, family.OPRF{A: -0.1},
		coupling.Orthogonal{}, d, 64, 1)}}
	errorsOf := func(o CompareOptions) LinearErrors {
		t.Helper()
		c, err := Compare(a, q, k, v, o)
		if err != nil {
			t.Fatal(err)
		}
		return c.LinearErrors
	}
	first, again, other := errorsOf(CompareOptions{}), errorsOf(CompareOptions{}), errorsOf(CompareOptions{Seed: 1})
	if first != again || first == other || first.Rows != 64 {
		t.Errorf("samples %+v, %+v and with another seed %+v", first, again, other)
	}
	if !(first.Rounding > 0 && first.Rounding < 1e-5) {
		t.Errorf("float32 outputs are %.1g from their definition", first.Rounding)
	}
	if p := errorsOf(CompareOptions{Unpredicted: true}).Predicted; p.Basis != noPrediction || p.Output != 0 {
		t.Errorf("a prediction nobody asked for: %+v", p)
	}
	for _, f := range []family.Family{family.ReLU{}, family.ELU{}} {
		a.Maps[0] = oneMap[float32](t, f, nil, d, 64, 1)
		e := errorsOf(CompareOptions{})
		if p := e.Predicted; p.Basis != noPrediction || !errors.Is(p.Err, theory.ErrNoClosedForm) ||
			!math.IsNaN(p.Output) || !(e.Output > 0) {
			t.Errorf("%s: %+v", f.Name(), e)
		}
	}
	masked := &linear.Attention[float32]{Maps: a.Maps, Visibility: attention.Visibility{KeyMask: make([]bool, length)}}
	if c, err := Compare(masked, q, k, v, CompareOptions{}); err != nil || c.Rows != 0 || c.Output != 0 ||
		c.Report.Empty != 2*length {
		t.Errorf("all keys masked: %+v, %v", c, err)
	}
	wrong := q
	wrong.Batch = -1
	if _, err := Compare(a, wrong, k, v, CompareOptions{}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("a negative number of batches: %v", err)
	}
	if _, err := Compare(a, q, k, v, CompareOptions{Rows: -1}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("a negative number of rows: %v", err)
	}
	if _, err := Compare(a, q, k, q, CompareOptions{Keys: 1}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("one key: %v", err)
	}
	bessel, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Bessel},
		Family: family.Trig{}, Coupling: coupling.ORFPrime{}, Dim: d, M: 8})
	if err != nil {
		t.Fatal(err)
	}
	a.Maps[0] = bessel
	if _, err := Compare(a, q, k, v, CompareOptions{}); !errors.Is(err, kernel.ErrKernel) {
		t.Errorf("the bessel kernel: %v", err)
	}
}

// A huge variance is not a huge error: no number is given where the first order means nothing, and the reason is. At
// 100 variances overflow.
func TestPredictionOutOfRange(t *testing.T) {
	const d, length = 16, 64
	v := randomSeq[float64](1, 1, length, d, 1, 0, 3)
	clusters := family.Clusters{QueryCentres: randomSeq[float64](1, 1, 2, d, 1, 0, 4).Head(0, 0),
		KeyCentres: randomSeq[float64](1, 1, 2, d, 1, 0, 5).Head(0, 0)}
	for _, size := range []float64{1, 4, 100} {
		q, k := randomSeq[float64](1, 1, length, d, size, 0, 1), randomSeq[float64](1, 1, length, d, size, 0, 2)
		for _, f := range []family.Family{family.Positive{}, family.ZeroOne{Clusters: clusters}, family.Residual{}} {
			for _, c := range []coupling.Coupling{nil, coupling.Orthogonal{}} {
				for _, keys := range []int{0, 32} { // all and sampled
					a := &linear.Attention[float64]{Maps: []randfeat.FeatureMap[float64]{oneMap[float64](t, f, c, d, 64,
						1)}}
					got, err := Compare(a, q, k, v, CompareOptions{Rows: 8, Keys: keys})
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range []LinearErrors{got.LinearErrors, got.Heads[0]} {
						p := e.Predicted
						if p.Basis != noPrediction || !errors.Is(p.Err, errRange) ||
							!math.IsNaN(p.Output) || !math.IsNaN(p.Row) || !(p.Denominator > 1) {
							t.Errorf("%s, size %v, coupling %v, %d keys: %+v beside a measured error of %.2f", f.Name(),
								size, c, keys, p, e.Output)
						}
					}
				}
			}
		}
	}
}

// Keys that are masked, or of a segment that no query has, may hold anything: the comparison is that with zeros there.
func TestCompareIgnoresHiddenKeys(t *testing.T) {
	const d, length = 4, 150
	vis := attention.Visibility{KeyMask: make([]bool, length), Segments: make([]int32, length),
		KeySegments: make([]int32, length)}
	hidden := func(j int) bool { return !vis.KeyMask[j] || vis.KeySegments[j] == 9 }
	for j := range length {
		vis.KeyMask[j] = j%7 != 3
		if j < length/5 {
			vis.KeySegments[j] = 9
		}
	}
	a := &linear.Attention[float64]{Visibility: vis, Maps: []randfeat.FeatureMap[float64]{oneMap[float64](t,
		family.Positive{}, nil, d, 32, 1)}}
	q, k, v := randomSeq[float64](1, 2, length, d, 0.5, 0, 1), randomSeq[float64](1, 1, length, d, 0.5, 0, 2),
		randomSeq[float64](1, 1, length, 3, 1, 0, 3)
	for _, opt := range []CompareOptions{{}, {Keys: 16, Exact: true}} {
		var got [2]comparison
		for i, x := range []float64{0, math.NaN()} {
			for j := range length {
				for c := range 4 {
					if hidden(j) {
						k.Head(0, 0).Row(j)[c], v.Head(0, 0).Row(j)[c%3] = x, x
					}
				}
			}
			var err error
			if got[i], err = Compare(a, q, k, v, opt); err != nil {
				t.Fatal(err)
			}
		}
		if got[0].LinearErrors != got[1].LinearErrors || !(got[0].Predicted.Output > 0) {
			t.Errorf("%+v: errors %+v with zeros, %+v with NaN", opt, got[0].LinearErrors, got[1].LinearErrors)
		}
	}
}

// No draw has probability 0, also if the others add up to less than 1.
func TestDrawFromSkipsImpossible(t *testing.T) {
	for _, j := range drawFrom([]float64{0, 0.2, 0, 0.2, 0, 0}, 100, rng.Stream(1)) {
		if j != 1 && j != 3 {
			t.Fatalf("drew index %d of probability 0", j)
		}
	}
}

// The error of outputs falls as 1/√m: a line through log error against log m has slope -1/2.
func TestErrorFallsAsRootM(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of draws")
	}
	const d, length, draws = 8, 64, 40
	q, k, v := randomSeq[float64](1, 1, length, d, 0.4, 0.1, 31), randomSeq[float64](1, 1, length, d, 0.4, -0.1, 32),
		randomSeq[float64](1, 1, length, 4, 1, 0, 33)
	sizes := []int{32, 128, 512}
	for _, c := range []struct {
		f      family.Family
		c      coupling.Coupling
		causal bool
	}{{family.Positive{}, nil, false}, {family.Positive{}, nil, true}, {family.OPRF{A: -0.05}, coupling.Orthogonal{},
		false}, {family.Trig{}, nil, false}, {family.Angular{N: 4}, nil, false}} {
		var sx, sy, sxx, sxy float64
		for _, m := range sizes {
			var sum float64
			for seed := range uint64(draws) {
				a := linear.Attention[float64]{Visibility: attention.Visibility{Causal: c.causal},
					Maps: []randfeat.FeatureMap[float64]{oneMap[float64](t, c.f, c.c, d, m, seed)}}
				got, err := Compare(&a, q, k, v, CompareOptions{Rows: 16, Unpredicted: true})
				if err != nil {
					t.Fatal(err)
				}
				sum += got.Output * got.Output
			}
			x, y := math.Log(float64(m)), math.Log(sum/draws)/2
			sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
		}
		n := float64(len(sizes))
		slope := (n*sxy - sx*sy) / (n*sxx - sx*sx)
		t.Logf("%s, causal = %v: slope %.3f", c.f.Name(), c.causal, slope)
		// Errors over 40 draws of a whole output are known to about 4 %: 0.02 in the slope over two factors of four.
		if math.Abs(slope+0.5) > 0.07 {
			t.Errorf("%s, causal = %v: slope %.3f, want -0.5", c.f.Name(), c.causal, slope)
		}
	}
}

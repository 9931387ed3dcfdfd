package machine

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Every kind, in both precisions: rows do not depend on each other, on the number of cores, or on who else predicts.
func TestPredictor(t *testing.T) {
	for name, m := range models(t) {
		t.Run(name+"/float64", func(t *testing.T) { checkPredictor[float64](t, m) })
		t.Run(name+"/float32", func(t *testing.T) { checkPredictor[float32](t, m) })
	}
}

func checkPredictor[T dense.Float](t *testing.T, m *Model) {
	x64, _ := sample(3, 3000, 3, 1)
	x := dense.Convert[T](x64)
	p, err := NewPredictor[T](m)
	if err != nil {
		t.Fatal(err)
	}
	calls := []func(dst, x dense.Matrix[T], ws *Workspace[T]) error{p.Predict}
	if m.Kind == KindGP {
		calls = append(calls, p.Variance)
	}
	for _, call := range calls {
		want := dense.New[T](3000, m.Outputs)
		if err := call(want, x, nil); err != nil {
			t.Fatal(err)
		}
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				var ws Workspace[T]
				// A padded view, in parts of odd sizes.
				got := dense.New[T](3000, m.Outputs+1).ColRange(0, m.Outputs)
				for lo := 0; lo < 3000; {
					hi := min(3000, lo+1+37*(g+1))
					if err := call(got.RowRange(lo, hi), x.RowRange(lo, hi), &ws); err != nil {
						t.Error(err)
					}
					lo = hi
				}
				if !slices.Equal(got.Clone().Data, want.Data) {
					t.Error("other bits")
				}
			})
		}
		wg.Wait()
		var ws Workspace[T]
		ws.Workers = 1
		few := x.RowRange(0, 100)
		dst := want.RowRange(0, 100)
		if n := testing.AllocsPerRun(5, func() {
			if err := call(dst, few, &ws); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("%g allocations with a workspace", n)
		}
	}
	bad := dense.New[T](1000, 3)
	bad.Set(777, 2, T(math.NaN()))
	dst := dense.New[T](1000, m.Outputs)
	if err := p.Predict(dst, bad, nil); !errors.Is(err, dense.ErrNotFinite) ||
		!strings.Contains(err.Error(), "row 777") {
		t.Errorf("NaN in row 777: %v", err)
	}
	for _, err := range []error{
		p.Predict(dst, dense.New[T](1000, 4), nil),
		p.Predict(dst, dense.New[T](999, 3), nil),
		p.Predict(dense.New[T](1000, m.Outputs+1), bad, nil),
	} {
		if !errors.Is(err, dense.ErrShape) {
			t.Errorf("wrong shape: %v", err)
		}
	}
	if err := p.Predict(dst.RowRange(0, 0), bad.RowRange(0, 0), nil); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

// Predictions in float32 equal predictions in float64 up to rounding of features and weights.
func TestPredictorPrecision(t *testing.T) {
	x, _ := sample(3, 200, 3, 1)
	for name, m := range models(t) {
		want := predict(t, m, x)
		p, err := NewPredictor[float32](m)
		if err != nil {
			t.Fatal(err)
		}
		got := dense.New[float32](200, m.Outputs)
		if err := p.Predict(got, dense.Convert[float32](x), nil); err != nil {
			t.Fatal(err)
		}
		for i, v := range want.Data {
			if d := math.Abs(float64(got.Data[i]) - v); d > 1e-4*(1+math.Abs(v)) {
				t.Errorf("%s: %g, want %g", name, got.Data[i], v)
			}
		}
	}
}

func TestPredictionsThatOverflow(t *testing.T) {
	x, y := sample(1, 50, 2, 1)
	spec := trigSpec(2, 4)
	spec.Kernel = kernel.Kernel{Kind: kernel.Softmax}
	m, err := mustRidge(t, Setup{Spec: spec, Outputs: 1}, x, y).Model(1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	q := dense.New[float64](300, 2)
	q.Set(222, 0, 1e5)
	if err := p.Predict(dense.New[float64](300, 1), q, nil); !errors.Is(err, dense.ErrNotFinite) ||
		!strings.Contains(err.Error(), "row 222") {
		t.Errorf("features beyond float64: %v", err)
	}
	q.Set(222, 0, 1e200)
	if err := p.Predict(dense.New[float64](300, 1), q, nil); !errors.Is(err, dense.ErrNotFinite) ||
		!strings.Contains(err.Error(), "row 222") {
		t.Errorf("a projection beyond float64: %v", err)
	}
}

// A workspace serves one predictor after the other, whatever their kinds: nothing of the last one is left.
func TestWorkspaceServesOtherPredictors(t *testing.T) {
	x, y := sample(1, 200, 3, 1)
	var models []*Model
	for _, spec := range []randfeat.Spec{trigSpec(3, 40), positiveSpec(3, 64), positiveSpec(3, 16), trigSpec(3, 10)} {
		models = append(models, smootherModel(t, mustSmoother(t, Setup{Spec: spec, Outputs: 1}, x, y)))
	}
	models = append(models, models[:2]...)
	ws := Workspace[float64]{Workers: 1}
	for i, m := range models {
		p, err := NewPredictor[float64](m)
		if err != nil {
			t.Fatal(err)
		}
		rows := x.RowRange(0, 48+i)
		got, want := dense.New[float64](rows.Rows, 1), dense.New[float64](rows.Rows, 1)
		if err := errors.Join(p.Predict(got, rows, &ws), p.Predict(want, rows, nil)); err != nil {
			t.Fatalf("model %d: %v", i, err)
		}
		if !slices.Equal(got.Data, want.Data) {
			t.Errorf("model %d: predictions depend on what the workspace did before", i)
		}
	}
}

func BenchmarkRidgeAdd(b *testing.B) {
	const n = 4096
	x, y := sample(1, n, 62, 1)
	for _, single := range []bool{false, true} {
		b.Run(fmt.Sprintf("float32=%v/F=2048/d=62", single), func(b *testing.B) {
			r, err := NewRidge(Setup{Spec: trigSpec(62, 1024), Outputs: 1, Float32: single})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := r.Add(x, y); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*n*2048*2048/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkPredict(b *testing.B) {
	x, y := sample(1, 2000, 62, 1)
	r, err := NewRidge(Setup{Spec: trigSpec(62, 512), Outputs: 1})
	if err == nil {
		err = r.Add(x, y)
	}
	if err != nil {
		b.Fatal(err)
	}
	m, err := r.Model(1)
	if err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{1, 2000} {
		b.Run(fmt.Sprintf("float32/F=1024/d=62/rows=%d", rows), func(b *testing.B) {
			p, err := NewPredictor[float32](m)
			if err != nil {
				b.Fatal(err)
			}
			var ws Workspace[float32]
			in, out := dense.Convert[float32](x).RowRange(0, rows), dense.New[float32](rows, 1)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Predict(out, in, &ws); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

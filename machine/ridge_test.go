package machine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

func trigSpec(dim, m int) randfeat.Spec {
	return randfeat.Spec{Kernel: kernel.Kernel{Scale: 1.5}, Family: family.Trig{}, Coupling: coupling.Orthogonal{},
		Dim: dim, M: m, Seed: 3}
}

// sample is n rows of a smooth function of dim inputs with noise, for k targets.
func sample(seed uint64, n, dim, k int) (x, y dense.Matrix[float64]) {
	r := rand.New(rand.NewPCG(seed, 2))
	x, y = dense.New[float64](n, dim), dense.New[float64](n, k)
	for i := range n {
		s := 0.0
		for j := range x.Row(i) {
			x.Row(i)[j] = r.NormFloat64()
			s += math.Sin(x.At(i, j) * float64(j+1))
		}
		for j := range k {
			y.Set(i, j, 5+s*float64(j+1)+0.3*r.NormFloat64())
		}
	}
	return x, y
}

// classes turns the first column of y into c classes.
func classes(y dense.Matrix[float64], c int) dense.Matrix[float64] {
	out := dense.New[float64](y.Rows, 1)
	for i := range y.Rows {
		out.Set(i, 0, float64(max(0, min(c-1, int(y.At(i, 0)-5+float64(c)/2)))))
	}
	return out
}

func mustRidge(t *testing.T, s Setup, x, y dense.Matrix[float64]) *Ridge {
	t.Helper()
	r, err := NewRidge(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(x, y); err != nil {
		t.Fatal(err)
	}
	return r
}

func features(t *testing.T, m *Model, x dense.Matrix[float64]) dense.Matrix[float64] {
	t.Helper()
	fm, err := randfeat.NewWithOmega[float64](m.Spec, m.Omega)
	if err != nil {
		t.Fatal(err)
	}
	phi := dense.New[float64](x.Rows, fm.OutDim())
	if err := fm.Queries(phi, nil, x, nil); err != nil {
		t.Fatal(err)
	}
	return phi
}

func predict(t *testing.T, m *Model, x dense.Matrix[float64]) dense.Matrix[float64] {
	t.Helper()
	p, err := NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	out := dense.New[float64](x.Rows, m.Outputs)
	if err := p.Predict(out, x, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func gonum(m dense.Matrix[float64]) *mat.Dense { return mat.NewDense(m.Rows, m.Cols, m.Clone().Data) }

// normalEquations solves the penalised least squares problem with an intercept as one augmented system, by QR: rows
// [φ 1 | y] and [√λ I 0 | 0].
func normalEquations(t *testing.T, phi, y dense.Matrix[float64], lambda float64) (w *mat.Dense) {
	t.Helper()
	n, f := phi.Rows, phi.Cols
	a, b := mat.NewDense(n+f, f+1, nil), mat.NewDense(n+f, y.Cols, nil)
	for i := range n {
		for j, v := range phi.Row(i) {
			a.Set(i, j, v)
		}
		a.Set(i, f, 1)
		for j, v := range y.Row(i) {
			b.Set(i, j, v)
		}
	}
	for j := range f {
		a.Set(n+j, j, math.Sqrt(lambda))
	}
	w = new(mat.Dense)
	if err := w.Solve(a, b); err != nil {
		t.Fatal(err)
	}
	return w
}

func oneHot(y dense.Matrix[float64], c int) dense.Matrix[float64] {
	out := dense.New[float64](y.Rows, c)
	for i := range y.Rows {
		out.Set(i, int(y.At(i, 0)), 1)
	}
	return out
}

func TestRidgeSolvesTheNormalEquations(t *testing.T) {
	for _, c := range []struct {
		name   string
		n, m   int
		lambda float64
		single bool
		tol    float64 // condition of the system times rounding: λ is at least 10⁻³ of a trace of n
	}{
		{"many rows", 300, 20, 0.1, false, 1e-11},
		{"fewer rows than features", 30, 40, 0.01, false, 1e-10},
		{"one row", 1, 5, 1, false, 1e-13},
		{"strong penalty", 300, 20, 1e6, false, 1e-11},
		{"float32", 5000, 20, 1, true, 3e-3}, // condition some 5000, rounding 6e-8, weights of some 5
	} {
		t.Run(c.name, func(t *testing.T) {
			x, y := sample(1, c.n, 3, 2)
			s := Setup{Spec: trigSpec(3, c.m), Outputs: 2, Float32: c.single, Block: 128}
			got, err := mustRidge(t, s, x, y).Model(c.lambda)
			if err != nil {
				t.Fatal(err)
			}
			phi := features(t, got, x)
			want := normalEquations(t, phi, y, c.lambda)
			f := phi.Cols
			for k := range 2 {
				for j := range f {
					if d := math.Abs(got.Weights.At(j, k) - want.At(j, k)); !(d <= c.tol*(1+math.Abs(want.At(j, k)))) {
						t.Fatalf("w[%d,%d] = %.15g, want %.15g", j, k, got.Weights.At(j, k), want.At(j, k))
					}
				}
				if d := math.Abs(got.Intercept[k] - want.At(f, k)); !(d <= 10*c.tol) {
					t.Fatalf("intercept %d = %.15g, want %.15g", k, got.Intercept[k], want.At(f, k))
				}
			}
			pred := predict(t, got, x)
			var fit mat.Dense
			fit.Mul(gonum(phi), want.Slice(0, f, 0, 2))
			for i := range x.Rows {
				if d := math.Abs(pred.At(i, 1) - fit.At(i, 1) - want.At(f, 1)); !(d <= 10*c.tol) {
					t.Fatalf("prediction %d is off by %g", i, d)
				}
			}
		})
	}
}

func TestRidgeClassifies(t *testing.T) {
	x, raw := sample(4, 200, 2, 1)
	y := classes(raw, 3)
	s := Setup{Spec: trigSpec(2, 16), Task: Classification, Outputs: 3}
	got, err := mustRidge(t, s, x, y).Model(0.5)
	if err != nil {
		t.Fatal(err)
	}
	want := normalEquations(t, features(t, got, x), oneHot(y, 3), 0.5)
	for k := range 3 {
		for j := range got.Weights.Rows {
			if d := math.Abs(got.Weights.At(j, k) - want.At(j, k)); d > 1e-11 {
				t.Fatalf("w[%d,%d] is off by %g", j, k, d)
			}
		}
	}
	// Scores of all classes sum to 1: so do their targets.
	p := predict(t, got, x)
	for i := range p.Rows {
		if sum := p.At(i, 0) + p.At(i, 1) + p.At(i, 2); math.Abs(sum-1) > 1e-10 {
			t.Fatalf("row %d: scores sum to %g", i, sum)
		}
	}
}

// Leave-one-out by n refits, the trace of the smoother from its matrix, GCV by its definition.
func TestPathAndLeaveOneOutEqualBruteForce(t *testing.T) {
	for _, n := range []int{12, 60} { // F = 30
		x, y := sample(2, n, 2, 2)
		s := Setup{Spec: trigSpec(2, 15), Outputs: 2, Block: 7}
		r := mustRidge(t, s, x, y)
		lambdas := []float64{0.01, 0.3, 10}
		path, err := r.Path(lambdas)
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := MatrixRows(x, y)
		for i, lambda := range lambdas {
			m, err := r.Model(lambda)
			if err != nil {
				t.Fatal(err)
			}
			phi := features(t, m, x)
			want := make([]float64, 2)
			loo := dense.New[float64](n, 2)
			for out := range n {
				a, b := without(phi, out), without(y, out)
				w := normalEquations(t, a, b, lambda)
				for k := range 2 {
					p := w.At(phi.Cols, k)
					for j, v := range phi.Row(out) {
						p += v * w.At(j, k)
					}
					loo.Set(out, k, p)
					want[k] += (y.At(out, k) - p) * (y.At(out, k) - p) / float64(n)
				}
			}
			seen := 0
			mse, err := r.LeaveOneOut(rows, lambda, func(first int64, yb, p dense.Matrix[float64]) error {
				for j := range p.Rows {
					at := int(first) + j
					if math.Abs(p.At(j, 1)-loo.At(at, 1)) > 1e-9 || yb.At(j, 1) != y.At(at, 1) {
						return fmt.Errorf("row %d: %.15g, want %.15g", at, p.At(j, 1), loo.At(at, 1))
					}
					seen++
				}
				return nil
			})
			if err != nil || seen != n {
				t.Fatal(seen, err)
			}
			for k := range want {
				if math.Abs(mse[k]-want[k]) > 1e-9*want[k] {
					t.Errorf("λ = %g: leave-one-out error %.15g, want %.15g", lambda, mse[k], want[k])
				}
			}
			// The smoother y → ŷ, column by column, is what ridge does to unit vectors.
			w := normalEquations(t, phi, dense.Identity[float64](n), lambda)
			df, rss := 0.0, 0.0
			for j := range n {
				df += w.At(phi.Cols, j)
				for c, v := range phi.Row(j) {
					df += v * w.At(c, j)
				}
			}
			p := predict(t, m, x)
			for j, v := range p.Data {
				rss += (v - y.Data[j]) * (v - y.Data[j])
			}
			gcv := float64(n) * rss / (float64(n) - df) / (float64(n) - df)
			got := path[i]
			if math.Abs(got.DF-df) > 1e-9 || math.Abs(got.RSS-rss) > 1e-8*rss || math.Abs(got.GCV-gcv) > 1e-7*gcv {
				t.Errorf("n = %d, λ = %g: %+v, want DF %.12g, RSS %.12g, GCV %.12g", n, lambda, got, df, rss, gcv)
			}
		}
	}
}

func without(m dense.Matrix[float64], out int) dense.Matrix[float64] {
	c := dense.New[float64](m.Rows-1, m.Cols)
	for i := range m.Rows {
		if i < out {
			copy(c.Row(i), m.Row(i))
		} else if i > out {
			copy(c.Row(i-1), m.Row(i))
		}
	}
	return c
}

func bytesOf(t *testing.T, r *Ridge) string {
	t.Helper()
	b, err := r.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// One block, a stream of blocks, any division into calls, any number of cores, and a fit that was saved and resumed:
// the same bits.
func TestRidgeSameBits(t *testing.T) {
	x, y := sample(3, 5000, 3, 2)
	for _, single := range []bool{false, true} {
		s := Setup{Spec: trigSpec(3, 150), Outputs: 2, Float32: single}
		want := mustRidge(t, s, x, y)
		rows, _ := MatrixRows(x, y)
		for _, c := range []struct{ procs, block int }{{1, 0}, {3, 0}, {2, 333}, {1, 4097}} {
			func() {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.procs))
				s.Block = c.block
				r, err := NewRidge(s)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.AddRows(rows); err != nil {
					t.Fatal(err)
				}
				if bytesOf(t, r) != bytesOf(t, want) {
					t.Errorf("float32 %v: another result with %+v", single, c)
				}
			}()
		}
		half := mustRidge(t, s, x.RowRange(0, 1234), y.RowRange(0, 1234))
		if _, err := half.Model(1); err != nil { // looking at a result changes nothing
			t.Fatal(err)
		}
		resumed, err := unmarshalSums(KindRidge, s, []byte(bytesOf(t, half)))
		if err != nil {
			t.Fatal(err)
		}
		if err := resumed.Add(x.RowRange(1234, 5000), y.RowRange(1234, 5000)); err != nil {
			t.Fatal(err)
		}
		if bytesOf(t, resumed.(*Ridge)) != bytesOf(t, want) {
			t.Errorf("float32 %v: a resumed fit differs", single)
		}
		a, err := want.Model(0.1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := resumed.Model(0.1)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range a.Weights.Data {
			if v != b.Weights.Data[i] {
				t.Fatal("another solution of the same sums")
			}
		}
	}
}

func TestRidgeMerge(t *testing.T) {
	x, y := sample(5, 900, 3, 1)
	for _, single := range []bool{false, true} {
		s := Setup{Spec: trigSpec(3, 20), Outputs: 1, Float32: single}
		shard := func(i int) *Ridge {
			return mustRidge(t, s, x.RowRange(300*i, 300*i+300),
				y.RowRange(300*i, 300*i+300))
		}
		join := func(order ...int) *Ridge {
			r := shard(order[0])
			for _, i := range order[1:] {
				if err := r.Merge(shard(i)); err != nil {
					t.Fatal(err)
				}
			}
			return r
		}
		first, again := bytesOf(t, join(0, 1, 2)), bytesOf(t, join(0, 1, 2))
		if first != again {
			t.Error("merging the same shards again gives other bits")
		}
		want, err := mustRidge(t, s, x, y).Model(0.1)
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
			r := join(order...)
			if r.Len() != 900 {
				t.Fatalf("%d rows", r.Len())
			}
			got, err := r.Model(0.1)
			if err != nil {
				t.Fatal(err)
			}
			tol := 1e-10
			if single {
				tol = 1e-3 // the same products, summed in float32 on another grid; the condition is some 10³
			}
			for i, v := range want.Weights.Data {
				if d := math.Abs(v - got.Weights.Data[i]); d > tol {
					t.Fatalf("order %v: weight %d off by %g", order, i, d)
				}
			}
		}
	}
	r := mustRidge(t, Setup{Spec: trigSpec(3, 20), Outputs: 1}, x, y)
	for name, s := range map[string]Setup{
		"seed":      {Spec: trigSpec(3, 20).WithSeed(9), Outputs: 1},
		"outputs":   {Spec: trigSpec(3, 20), Outputs: 2},
		"precision": {Spec: trigSpec(3, 20), Outputs: 1, Float32: true},
	} {
		o, err := NewRidge(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Merge(o); !errors.Is(err, ErrMismatch) {
			t.Errorf("merge with another %s: %v", name, err)
		}
		if _, err := unmarshalSums(KindRidge, s, []byte(bytesOf(t, r))); !errors.Is(err, ErrMismatch) {
			t.Errorf("read with another %s: %v", name, err)
		}
	}
}

func TestRidgeErrors(t *testing.T) {
	x, y := sample(1, 10, 2, 1)
	good := Setup{Spec: trigSpec(2, 4), Outputs: 1}
	asymmetric := good
	asymmetric.Spec.Family = family.GERF{A: -0.1, S: -1}
	for _, c := range []struct {
		name string
		s    Setup
		is   error
		says string
	}{
		{"asymmetric map", asymmetric, ErrSetup, "queries and keys differently"},
		{"no outputs", Setup{Spec: good.Spec}, ErrSetup, "outputs"},
		{"one class", Setup{Spec: good.Spec, Task: Classification, Outputs: 1}, ErrSetup, "classes"},
		{"no family", Setup{Spec: randfeat.Spec{Dim: 2, M: 4}, Outputs: 1}, randfeat.ErrSpec, "family"},
		{"unknown task", Setup{Spec: good.Spec, Task: "ranking", Outputs: 1}, ErrSetup, "ranking"},
		{"negative block", Setup{Spec: good.Spec, Outputs: 1, Block: -1}, ErrSetup, "blocks"},
	} {
		if _, err := NewRidge(c.s); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	r := mustRidge(t, good, x, y)
	before := bytesOf(t, r)
	bad := func(m dense.Matrix[float64], i int, v float64) dense.Matrix[float64] {
		c := m.Clone()
		c.Set(i, 0, v)
		return c
	}
	for _, c := range []struct {
		name string
		x, y dense.Matrix[float64]
		is   error
		says string
	}{
		{"NaN input", bad(x, 3, math.NaN()), y, dense.ErrNotFinite, "x: row 13, column 0"},
		{"NaN target", x, bad(y, 4, math.NaN()), dense.ErrNotFinite, "y: row 14, column 0"},
		{"infinite target", x, bad(y, 4, math.Inf(1)), dense.ErrNotFinite, "y: row 14"},
		{"huge target", x, bad(y, 4, 1e200), dense.ErrNotFinite, "y: row 14"},
		{"missing column", x.ColRange(0, 1), y, dense.ErrShape, "1 columns"},
		{"fewer targets", x, y.RowRange(0, 9), dense.ErrShape, "y is 9×1"},
	} {
		if err := r.Add(c.x, c.y); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if bytesOf(t, r) != before {
			t.Fatalf("%s changed the sums", c.name)
		}
	}
	unbounded := good
	unbounded.Spec.Kernel = kernel.Kernel{Kind: kernel.Softmax} // features grow like exp(|x|²/2)
	p, err := NewRidge(unbounded)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(bad(x, 1, 1e4), y); !errors.Is(err, dense.ErrNotFinite) ||
		!strings.Contains(err.Error(), "overflow") {
		t.Errorf("features beyond float64: %v", err)
	}
	cl, err := NewRidge(Setup{Spec: good.Spec, Task: Classification, Outputs: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []float64{-1, 3, 0.5} {
		if err := cl.Add(x, bad(dense.New[float64](10, 1), 2, v)); !errors.Is(err, ErrClass) ||
			!strings.Contains(err.Error(), "row 2") {
			t.Errorf("class %g: %v", v, err)
		}
	}
	empty, _ := NewRidge(good)
	if _, err := empty.Model(1); !errors.Is(err, ErrNoRows) {
		t.Errorf("no rows: %v", err)
	}
	if _, err := empty.Path([]float64{1}); !errors.Is(err, ErrNoRows) {
		t.Errorf("path of no rows: %v", err)
	}
	for _, l := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := r.Model(l); !errors.Is(err, ErrSetup) {
			t.Errorf("λ = %g: %v", l, err)
		}
	}
	rows, _ := MatrixRows(x.RowRange(0, 9), y.RowRange(0, 9))
	if _, err := r.LeaveOneOut(rows, 1, nil); !errors.Is(err, ErrMismatch) {
		t.Errorf("leave-one-out of other rows: %v", err)
	}
	b := []byte(before)
	for i := range b {
		c := append([]byte(nil), b...)
		c[i] ^= 1 << (i % 8)
		if _, err := unmarshalSums(KindRidge, good, c); err == nil {
			t.Fatalf("flipped bit in byte %d of a saved ridge: no error", i)
		}
	}
	for i := range b {
		if _, err := unmarshalSums(KindRidge, good, b[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d of %d bytes of a saved ridge: %v", i, len(b), err)
		}
	}
}

// Constant inputs make constant features: no information, but no failure either. Without penalty they are singular.
func TestRidgeConstantFeatures(t *testing.T) {
	x, y := dense.New[float64](20, 2), dense.New[float64](20, 1)
	sum := 0.0
	for i := range 20 {
		x.Set(i, 0, 2)
		y.Set(i, 0, float64(i))
		sum += float64(i)
	}
	r := mustRidge(t, Setup{Spec: trigSpec(2, 8), Outputs: 1}, x, y)
	m, err := r.Model(0.1)
	if err != nil {
		t.Fatal(err)
	}
	if p := predict(t, m, x); math.Abs(p.At(3, 0)-sum/20) > 1e-9 {
		t.Errorf("prediction %g, want the mean %g", p.At(3, 0), sum/20)
	}
	if _, err := r.Model(0); !errors.Is(err, ErrSingular) || !strings.Contains(err.Error(), "larger λ") {
		t.Errorf("λ = 0: %v", err)
	}
	path, err := r.Path([]float64{1e-30, 1})
	if err != nil || !(path[1].GCV < path[0].GCV || path[0].GCV > 0) {
		t.Errorf("path %+v, %v", path, err)
	}
}

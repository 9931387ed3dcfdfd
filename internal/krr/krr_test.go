package krr

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// table are n rows of d columns, a few of them repeated, and outs targets.
func table(n, d, outs int) (x, y dense.Matrix[float64]) {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	x, y = dense.New[float64](n, d), dense.New[float64](n, outs)
	for i := range n {
		for l := range d {
			x.Set(i, l, r.NormFloat64()+3)
		}
		if i%17 == 5 {
			copy(x.Row(i), x.Row(i-1))
		}
		for c := range outs {
			y.Set(i, c, math.Sin(x.At(i, 0)+float64(c))*x.At(i, 1)+0.1*r.NormFloat64())
		}
	}
	return x, y
}

var kinds = []kernel.Kind{kernel.Gaussian, kernel.Laplace, kernel.Matern12, kernel.Matern32, kernel.Matern52}

func TestSolveIsTheDirectFit(t *testing.T) {
	stattest.SkipRace(t)
	x, y := table(1100, 5, 2)
	for i, kind := range kinds {
		lambda := []float64{0.01, 1}[i%2]
		k := kernel.Kernel{Kind: kind, Scale: 2}
		gram := dense.New[float64](x.Rows, x.Rows)
		if err := kernel.Gram(k, gram, x, x); err != nil {
			t.Fatal(err)
		}
		want, err := linalg.SolveDual(gram, y, lambda)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewKernels(k, x, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		sk, err := NewSketch(s, 200, 1)
		if err != nil {
			t.Fatal(err)
		}
		const tolerance = 1e-7
		got, done, err := Solve(s, sk, y, lambda, nil, Options{Tolerance: tolerance, Steps: 400})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v, λ = %g: %+v", kind, lambda, done)
		if !done.Converged {
			t.Errorf("%v, λ = %g: not converged: %+v", kind, lambda, done)
		}
		for c := range y.Cols {
			var diff, norm, targets float64
			for i := range y.Rows {
				d := got.Alpha.At(i, c) - want.Alpha.At(i, c)
				diff, norm = diff+d*d, norm+want.Alpha.At(i, c)*want.Alpha.At(i, c)
				targets += y.At(i, c) * y.At(i, c)
			}
			// |α̂−α| ≤ |r|/λ, and the intercept adds as much
			if bound := 4 * tolerance * math.Sqrt(targets) / lambda; math.Sqrt(diff) > bound {
				t.Errorf("%v, λ = %g: α is off by %g of %g, bound %g", kind, lambda, math.Sqrt(diff),
					math.Sqrt(norm), bound)
			}
			if d := math.Abs(got.Intercept[c] - want.Intercept[c]); d > 1e-4 {
				t.Errorf("%v, λ = %g: intercept %g, want %g", kind, lambda, got.Intercept[c], want.Intercept[c])
			}
		}
	}
}

// The same bits at any number of threads, whatever is held.
func TestBitsDependOnNothing(t *testing.T) {
	x, y := table(1600, 4, 3)
	k := kernel.Kernel{Kind: kernel.Laplace, Scale: 3}
	solve := func(threads int, hold int64) *Fit {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		s, err := NewKernels(k, x, hold)
		if err != nil {
			t.Fatal(err)
		}
		sk, err := NewSketch(s, 150, 1)
		if err != nil {
			t.Fatal(err)
		}
		f, _, err := Solve(s, sk, y, 0.1, nil, Options{Tolerance: 1e-3, Steps: 10})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	want := solve(1, 1<<30)
	for _, c := range []struct {
		threads int
		hold    int64
	}{{1, 0}, {3, 0}, {3, 4 << 20}, {3, 1 << 30}, {8, 4 << 20}} {
		if got := solve(c.threads, c.hold); !slices.Equal(got.Alpha.Data, want.Alpha.Data) {
			t.Errorf("%d threads, %d bytes held: other bits", c.threads, c.hold)
		}
	}
}

// Products are those of the kernel to the roundings of float32, at numbers of blocks that are even and odd.
func TestProduct(t *testing.T) {
	for _, n := range []int{1, 500, 513, 1500, 2047} {
		x, y := table(max(n, 3), 3, 2)
		x, y = x.RowRange(0, n), y.RowRange(0, n)
		for _, kind := range kinds {
			k := kernel.Kernel{Kind: kind, Scale: 1.5}
			s, err := NewKernels(k, x, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, want := dense.New[float64](n, 2), dense.New[float64](n, 2)
			s.Product(got, y)
			if err := s.Exact(want, y); err != nil {
				t.Fatal(err)
			}
			for i := range got.Data {
				if d := math.Abs(got.Data[i] - want.Data[i]); d > 1e-6*float64(n)+1e-5 {
					t.Fatalf("%v, %d rows: element %d is %g, want %g", kind, n, i, got.Data[i], want.Data[i])
				}
			}
		}
	}
}

// Margins reach the minimum that many steps of the direct fit reach, from a fit of squared errors and from zero.
func TestMarginsAreTheDirectFit(t *testing.T) {
	stattest.SkipRace(t)
	x, y := table(900, 4, 3)
	for i := range y.Rows {
		for c := range y.Cols {
			v := 0.0
			if y.At(i, c) > 0.2 {
				v = 1
			}
			y.Set(i, c, v)
		}
	}
	for _, kind := range []kernel.Kind{kernel.Gaussian, kernel.Laplace} {
		for _, lambda := range []float64{1, 0.03} {
			k := kernel.Kernel{Kind: kind, Scale: 2}
			gram := dense.New[float64](x.Rows, x.Rows)
			if err := kernel.Gram(k, gram, x, x); err != nil {
				t.Fatal(err)
			}
			want, err := linalg.SolveDual(gram.Clone(), y, lambda)
			if err == nil {
				err = want.Margins(y, lambda, 4000)
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := NewKernels(k, x, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			sk, err := NewSketch(s, 200, 1)
			if err != nil {
				t.Fatal(err)
			}
			start, _, err := Solve(s, sk, y, lambda, nil, Options{Tolerance: 1e-2, Steps: 50})
			if err != nil {
				t.Fatal(err)
			}
			objective := func(alpha dense.Matrix[float64], b []float64, c int) float64 {
				sum := 0.0
				for i := range y.Rows {
					f := 0.0
					for j := range y.Rows {
						f += gram.At(i, j) * alpha.At(j, c)
					}
					sh := short(y.At(i, c), f+b[c])
					sum += sh*sh + lambda*alpha.At(i, c)*f
				}
				return sum / 2
			}
			for _, from := range []*Fit{start, nil} {
				got, done, err := Margins(s, sk, y, lambda, from, Options{Tolerance: 1e-4, Steps: 100})
				if err != nil {
					t.Fatal(err)
				}
				for c := range y.Cols {
					a, b := objective(start.Alpha, start.Intercept, c), objective(got.Alpha, got.Intercept, c)
					best := objective(want.Alpha, want.Intercept, c)
					t.Logf("%v, λ = %g: %d steps, from %.5g to %.5g, direct %.5g", kind, lambda, done.Steps, a, b, best)
					if b > best+0.002*(a-best) {
						t.Errorf("%v, λ = %g, class %d: %g after %d steps, squares have %g, the least is %g", kind, lambda,
							c, b, done.Steps, a, best)
					}
				}
			}
		}
	}
}

// A λ that float32 cannot tell ends soon, as an error or unconverged; steps that get nowhere are not taken.
func TestHopelessEnds(t *testing.T) {
	x, y := table(600, 3, 1)
	for _, scale := range []float64{1e3, 1e5} {
		s, err := NewKernels(kernel.Kernel{Kind: kernel.Laplace, Scale: scale}, x, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		sk, err := NewSketch(s, 20, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, rough := range []bool{false, true} {
			_, done, err := Solve(s, sk, y, 1e-10, nil, Options{Tolerance: 1e-6, Steps: 2000, Rough: rough})
			if err == nil && done.Converged || done.Steps > 20*patience {
				t.Errorf("scale %g: %+v, error %v", scale, done, err)
			}
			t.Logf("scale %g, rough %v: %+v, %v", scale, rough, done, err)
		}
	}
}

// The preconditioner is the inverse of D + FFᵀ to more digits than float32 has, even in the direction of the largest
// eigenvalue, n/D times the others: with fewer it would not be positive, and conjugate gradients would stop.
func TestPreconditionerIsAnInverse(t *testing.T) {
	x, _ := table(2000, 3, 1)
	for _, k := range []kernel.Kernel{{Kind: kernel.Gaussian, Scale: 20}, {Kind: kernel.Laplace, Scale: 300}} {
		s, err := NewKernels(k, x, 0)
		if err != nil {
			t.Fatal(err)
		}
		sk, err := NewSketch(s, 60, 1)
		if err != nil {
			t.Fatal(err)
		}
		p, err := sk.with(1e-5)
		if err != nil {
			t.Fatal(err)
		}
		r, z := dense.New[float64](x.Rows, 1), dense.New[float64](x.Rows, 1)
		for i := range r.Data {
			r.Data[i] = 1
		}
		if err := p.apply(z, r); err != nil {
			t.Fatal(err)
		}
		ft := make([]float64, sk.Landmarks())
		for i, v := range z.Data {
			for l, f := range sk.f.Row(i) {
				ft[l] += float64(f) * v
			}
		}
		off := 0.0
		for i, v := range z.Data {
			sum := v / p.d[i]
			for l, f := range sk.f.Row(i) {
				sum += float64(f) * ft[l]
			}
			off = max(off, math.Abs(sum-1))
		}
		if v := dots(r, z)[0]; !(v > 0) || off > 1e-6 {
			t.Errorf("%v: P·P⁻¹1 is off by %g, 1ᵀP⁻¹1 = %g", k.Kind, off, v)
		}
	}
}

// The stated residual is that of float64 kernels, as far as the tolerance can tell, although it comes from float32
// kernels if |α| is small. Where |α| is large, those would not even find a solution.
func TestResidualsTell(t *testing.T) {
	stattest.SkipRace(t)
	x, y := table(700, 3, 2)
	for _, c := range []struct {
		k      kernel.Kernel
		lambda float64
	}{{kernel.Kernel{Kind: kernel.Matern12, Scale: 2}, 1e-4}, {kernel.Kernel{Kind: kernel.Gaussian, Scale: 3}, 3e-5}} {
		s, err := NewKernels(c.k, x, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		sk, err := NewSketch(s, 500, 1)
		if err != nil {
			t.Fatal(err)
		}
		const tolerance = 3e-4
		f, done, err := Solve(s, sk, y, c.lambda, nil, Options{Tolerance: tolerance, Steps: 300})
		if err != nil {
			t.Fatal(err)
		}
		r := dense.New[float64](x.Rows, y.Cols)
		if err := s.Exact(r, f.Alpha); err != nil {
			t.Fatal(err)
		}
		for i := range r.Rows {
			for k, b := range f.Intercept {
				r.Row(i)[k] += float64(c.lambda*f.Alpha.At(i, k)) + b - y.At(i, k)
			}
		}
		rr, yy := dots(r, r), dots(y, y)
		most := 0.0
		for k := range rr {
			most = max(most, math.Sqrt(rr[k]/yy[k]))
		}
		t.Logf("%v, λ = %g: %d steps, stated %.3g, residual %.3g", c.k.Kind, c.lambda, done.Steps, done.Residual, most)
		if !done.Converged || most > 1.1*tolerance {
			t.Errorf("%v, λ = %g: residual %.3g, stated %.3g, want %g", c.k.Kind, c.lambda, most, done.Residual,
				tolerance)
		}
	}
}

// A target of few ones counts as longer: its residual is solved last, and all others need fewer steps. What is stated
// is relative to that length.
func TestRareTargets(t *testing.T) {
	x, _ := table(900, 3, 1)
	y := dense.New[float64](900, 2)
	for i := range 900 {
		y.Set(i, 0, math.Sin(x.At(i, 0)))
	}
	y.Set(400, 1, 1)
	s, err := NewKernels(kernel.Kernel{Scale: 1}, x, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	sk, err := NewSketch(s, 30, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Tolerance: 0.02, Steps: 500}
	_, own, err := Solve(s, sk, y, 0.01, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Least = 30
	f, done, err := Solve(s, sk, y, 0.01, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps, %d relative to its own length", done.Steps, own.Steps)
	if !done.Converged || !own.Converged || done.Steps > own.Steps/2 {
		t.Errorf("%+v, %+v relative to its own length", done, own)
	}
	if f.Alpha.CheckFinite() != nil {
		t.Error("not finite")
	}
}

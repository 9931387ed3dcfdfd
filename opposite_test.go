package randfeat_test

import (
	"errors"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Features of x and −x are large at opposite projections: at |x|² = 10⁴ those that matter for their product are
// e^{-300} of the largest, which float32 does not have. The product of every positive map must be that of float64 all
// the same, and exact for the families that are exact there.
func TestLogGramOfOppositeRows(t *testing.T) {
	const d = 16
	for _, norm2 := range []float64{16, 1e3, 1e4} {
		x, y := normals[float64](3, d, 41), dense.New[float64](3, d)
		for i := range x.Rows {
			c := math.Sqrt(norm2 / dense.Norm2(x.Row(i)))
			for l, v := range x.Row(i) {
				x.Row(i)[l] = float64(float32(c * v))
				y.Row(i)[l] = -x.At(i, l)
			}
		}
		for _, info := range family.List() {
			for _, e := range info.Examples(d) {
				s := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: e.Family, Dim: d, M: 64,
					Seed: 3}
				var err error
				if e.Fit {
					if s, err = randfeat.Fit(s, x, y); err != nil {
						continue
					}
				}
				m32, err := randfeat.New[float32](s)
				if err != nil {
					t.Fatalf("%s: %v", e.Name, err)
				}
				if !m32.Positive() || !info.Unbiased {
					continue
				}
				m64, err := randfeat.New[float64](s)
				if err != nil {
					t.Fatal(err)
				}
				got, want := dense.New[float64](3, 3), dense.New[float64](3, 3)
				none := dense.Matrix[float64]{}
				if err := m32.LogGram(got, none, dense.Convert[float32](x), dense.Convert[float32](y),
					nil); err != nil {
					t.Fatal(err)
				}
				if err := m64.LogGram(want, none, x, y, nil); err != nil {
					t.Fatal(err)
				}
				for i, v := range want.Data {
					// Exponents of float32 are good to 2^-24 of their size, which is some |x| per projection.
					if tol := 1e-6*(10+10*math.Sqrt(norm2)) + 1e-7*math.Abs(v); !(math.Abs(got.Data[i]-v) <= tol) {
						t.Errorf("|x|² = %g, %s: log estimate %d is %v in float32, %v in float64", norm2, e.Name, i,
							got.Data[i], v)
					}
				}
				if e.Name == "positive" || e.Name == "hyperbolic" {
					for i := range x.Rows {
						if exact := s.Kernel.Log(x.Row(i), y.Row(i)); math.Abs(want.At(i, i)-exact) > 1e-9*norm2 ||
							math.Abs(got.At(i, i)-exact) > 1e-6*(10+10*math.Sqrt(norm2)) {
							t.Errorf("|x|² = %g, %s: log estimate %v, %v in float32, want %v", norm2, e.Name,
								want.At(i, i), got.At(i, i),
								exact)
						}
					}
				}
			}
		}
	}
}

// LogGram is the logarithm of Gram with its sign.
func TestLogGram(t *testing.T) {
	x, y := normals[float64](150, 4, 42), normals[float64](140, 4, 43)
	for _, f := range []family.Family{family.Trig{}, family.OPRF{A: -0.1}} {
		s := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: f, Dim: 4, M: 16, Seed: 3}
		m, err := randfeat.New[float64](s)
		if err != nil {
			t.Fatal(err)
		}
		g, log, sign := dense.New[float64](150, 140), dense.New[float64](150, 140), dense.New[float64](150, 140)
		if err := errors.Join(m.Gram(g, x, y, nil), m.LogGram(log, sign, x, y, nil)); err != nil {
			t.Fatal(err)
		}
		for i, v := range g.Data {
			if got := sign.Data[i] * math.Exp(log.Data[i]); math.Abs(got-v) > 1e-12*math.Abs(v) {
				t.Fatalf("%s: entry %d is %v, want %v", f.Name(), i, got, v)
			}
		}
		none := dense.Matrix[float64]{}
		if err := m.LogGram(log, none, x, y, nil); m.Positive() != (err == nil) || err != nil && !errors.Is(err,
			dense.ErrShape) {
			t.Errorf("%s without signs: %v", f.Name(), err)
		}
		if err := m.LogGram(log.RowRange(0, 3), sign, x, y, nil); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s into another shape: %v", f.Name(), err)
		}
	}
}

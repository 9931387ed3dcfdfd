package randfeat_test

import (
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// What float32 costs a signed map is what theory says, within a factor of 8 for features of bounded modulus, no more
// than 8 times that for all: at opposite rows hybrids have no variance, but this error. The difference to float64 is
// median over draws and pairs, enough of them to be the same for all kernels.
func TestRoundingOfSignedMaps(t *testing.T) {
	const d, m, n = 16, 64, 4
	seeds := uint64(4)
	if stattest.Full() {
		seeds = 12
	}
	checked := map[string]bool{}
	for _, norm2 := range []float64{4, 16} {
		for _, opposite := range []bool{true, false} {
			x, y := normals[float64](n, d, 41), normals[float64](n, d, 42)
			for i := range n {
				c, e := math.Sqrt(norm2/dense.Norm2(x.Row(i))), math.Sqrt(norm2/dense.Norm2(y.Row(i)))
				for l, v := range x.Row(i) {
					x.Row(i)[l], y.Row(i)[l] = float64(float32(c*v)), float64(float32(e*y.At(i, l)))
					if opposite {
						y.Row(i)[l] = -x.At(i, l)
					}
				}
			}
			for _, info := range family.List() {
				for _, e := range info.Examples(d) {
					s := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: e.Family, Dim: d, M: m}
					if e.Fit {
						var err error
						if s, err = randfeat.Fit(s, x, y); err != nil {
							continue
						}
					}
					var ratios []float64
					for seed := range seeds {
						ratios = append(ratios, rounding(t, s.WithSeed(seed), x, y)...)
					}
					if len(ratios) == 0 {
						continue
					}
					slices.Sort(ratios)
					median := ratios[len(ratios)/2]
					least := 0.0
					switch e.Family.(type) {
					case family.Trig, family.Angular, family.BipolarGaussian:
						least = 1.0 / 8
						checked[info.Name] = true
					}
					if !(median <= 8) || median < least {
						t.Errorf("|x|² = %g, opposite %v, %s: rounding is %.3g of what theory says", norm2, opposite,
							e.Name, median)
					}
				}
			}
		}
	}
	if len(checked) != 3 {
		t.Errorf("bounded from below: %v", checked)
	}
}

// rounding is the difference of float32 and float64 estimates of the pairs of a signed map with a closed form,
// relative to the prediction.
func rounding(t *testing.T, s randfeat.Spec, x, y dense.Matrix[float64]) (ratios []float64) {
	t.Helper()
	m32, err := randfeat.New[float32](s)
	if err != nil {
		t.Fatal(err)
	}
	if m32.Positive() {
		return nil
	}
	m64, err := randfeat.New[float64](s)
	if err != nil {
		t.Fatal(err)
	}
	n := x.Rows
	log32, sign32 := dense.New[float64](n, n), dense.New[float64](n, n)
	log64, sign64 := dense.New[float64](n, n), dense.New[float64](n, n)
	if err := m32.LogGram(log32, sign32, dense.Convert[float32](x), dense.Convert[float32](y), nil); err != nil {
		t.Fatal(err)
	}
	if err := m64.LogGram(log64, sign64, x, y, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		p, err := theory.Of(s.Kernel, s.Family, nil, s.M, x.Row(i), y.Row(i))
		if err != nil {
			return nil
		}
		unit := p.LogKernel + p.LogRounding(0x1p-24)
		ratios = append(ratios, math.Abs(sign32.At(i, i)*math.Exp(log32.At(i, i)-unit)-sign64.At(i,
			i)*math.Exp(log64.At(i, i)-unit)))
	}
	return ratios
}

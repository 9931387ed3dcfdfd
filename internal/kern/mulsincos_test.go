package kern

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// argumentsOf is a product whose results are the given arguments: one input, 1, with the arguments as weights.
func argumentsOf[T dense.Float](tab *Table[T], p *Panel[T], t []T) (x dense.Matrix[T]) {
	tab.Pack(p, dense.Matrix[T]{Rows: len(t), Cols: 1, Stride: 1, Data: t})
	return dense.Matrix[T]{Rows: 1, Cols: 1, Stride: 1, Data: []T{1}}
}

// Factors: none, another power of two, one of 1000 features.
func sinCosFactorsTested() []float64 { return []float64{1, 0.25, 1 / math.Sqrt(1000)} }

// scaledULP is |got/f − want| in units of the last place of want: the error before the factor.
func scaledULP(got, f float64, want *big.Float, mant int) float64 {
	v := new(big.Float).SetPrec(bigPrec).Quo(bigOf(got), bigOf(f))
	v.Sub(v, want)
	e, _ := v.SetMantExp(v, mant-want.MantExp(nil)).Float64()
	return math.Abs(e)
}

// sinCosULP is the bound: 2 ulp before the factor. Another factor than a power of two can double the unit of the last
// rounding, which adds a half; tables that multiply afterwards round once more, by up to one.
func sinCosULP[T dense.Float](tab *Table[T], f float64) float64 {
	switch {
	case f == 1 || f == 0.25:
		return maxULP
	case strings.HasPrefix(tab.Name, "avx"):
		return maxULP + 0.5
	}
	return maxULP + 1
}

func TestMulTSinCosFloat32Errors(t *testing.T) {
	const chunk = 1 << 14
	in, sin, cos := make([]float32, 0, chunk), make([]float32, chunk), make([]float32, chunk)
	stride := *stride32
	if *exhaustive {
		stride = 1
	}
	for _, tab := range Available[float32]() {
		for _, f := range sinCosFactorsTested() {
			if f == 0.25 {
				continue
			}
			t.Run(fmt.Sprintf("table=%s/f=%.3g", tab.Name, f), func(t *testing.T) {
				f32 := float32(f)
				var p Panel[float32]
				var ws, wc worst
				for b := uint64(0); b < 1<<32; {
					in = in[:0]
					for ; b < 1<<32 && len(in) < chunk; b += stride {
						// Beyond the reduction, only every 100th: sinCosLarge has its own test.
						if v := math.Float32frombits(uint32(b)); math.Abs(float64(v)) <= trigTested || b%100 == 0 {
							in = append(in, v)
						}
					}
					x := argumentsOf(tab, &p, in)
					tab.MulTSinCos(asMatrix(sin[:len(in)]), asMatrix(cos[:len(in)]), x, &p, nil, f32)
					for i, v := range in {
						s, c := math.Sincos(float64(v))
						ws.see(unscaled32(sin[i], f32, s), float64(v))
						wc.see(unscaled32(cos[i], f32, c), float64(v))
					}
				}
				t.Logf("sin %.3f ulp at %v, cos %.3f ulp at %v", ws.ulp, ws.at, wc.ulp, wc.at)
				if bound := sinCosULP(tab, f); !(max(ws.ulp, wc.ulp) <= bound) {
					t.Errorf("more than %v ulp", bound)
				}
			})
		}
	}
}

const trigTested = 1e5

// unscaled32 is scaledULP against float64 values.
func unscaled32(got, f float32, want float64) float64 {
	if f == 1 || got != got || want == 0 {
		return ulps32(got, want*float64(f))
	}
	if math.Abs(want*float64(f)) < 0x1p-120 { // subnormal after the factor
		return min(ulps32(got, want*float64(f)), 1)
	}
	_, exp := math.Frexp(want)
	return math.Abs(math.Ldexp(float64(got)/float64(f)-want, 24-exp))
}

func asMatrix[T dense.Float](v []T) dense.Matrix[T] {
	return dense.Matrix[T]{Rows: 1, Cols: len(v), Stride: len(v), Data: v}
}

func TestMulTSinCosFloat64Errors(t *testing.T) {
	n := 3000
	if !stattest.Full() {
		n = 500
	}
	if *exhaustive {
		n = 300_000
	}
	in := hard64("sin", n, rand.New(rand.NewPCG(5, 6)))
	wantSin, wantCos := make([]*big.Float, len(in)), make([]*big.Float, len(in))
	for i, v := range in {
		wantSin[i], wantCos[i] = bigSinCos(v)
	}
	sin, cos := make([]float64, len(in)), make([]float64, len(in))
	for _, tab := range Available[float64]() {
		if tab.Name == "go" { // package math loses digits near multiples of π
			continue
		}
		for _, f := range sinCosFactorsTested() {
			var p Panel[float64]
			x := argumentsOf(tab, &p, in)
			tab.MulTSinCos(asMatrix(sin), asMatrix(cos), x, &p, nil, f)
			var ws, wc worst
			for i, v := range in {
				if wantSin[i] == nil {
					continue
				}
				ws.see(scaledULP(sin[i], f, wantSin[i], 53), v)
				wc.see(scaledULP(cos[i], f, wantCos[i], 53), v)
			}
			t.Logf("table=%s f=%.3g: sin %.3f ulp at %v, cos %.3f ulp at %v", tab.Name, f, ws.ulp, ws.at, wc.ulp, wc.at)
			if bound := sinCosULP(tab, f); !(max(ws.ulp, wc.ulp) <= bound) {
				t.Errorf("table=%s f=%.3g: more than %v ulp", tab.Name, f, bound)
			}
		}
	}
}

// Every shape and alignment, has the bits of its arguments taken one by one.
func TestMulTSinCos(t *testing.T) { each(t, checkMulTSinCos[float32], checkMulTSinCos[float64]) }

func checkMulTSinCos[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(31, 32))
	cases := append(edgeShapes(tab.Width), blockedShapes()...)
	for n := 1; n <= 17; n++ {
		cases = append(cases, productCase{n, 5, 4 * tab.Width, 0, 0}, productCase{n, 5, 40 * tab.Width, 0, 16})
	}
	var p, q Panel[T]
	inf := math.Inf(1)
	special := []float64{inf, -inf, math.NaN(), 1e5, -1e5, 100001, 1e30, -1e30, 0, tiny[T](), math.Pi / 2, 3e4}
	for trial, c := range cases {
		x, w := view(c.n, c.d, c.shift, c.pad, T(guard)), view(c.m, c.d, 0, 0, T(guard))
		fillNormal(x, r)
		fillNormal(w, r)
		bias := make([]T, c.m)
		for j := range bias {
			bias[j] = T(3 * r.NormFloat64())
			if trial%4 == 1 && r.IntN(20) == 0 {
				bias[j] = T(special[r.IntN(len(special))])
			}
		}
		if trial%3 == 0 {
			bias = nil
		}
		tab.Pack(&p, w)
		f := T(sinCosFactorsTested()[trial%3])
		arg := dense.New[T](c.n, c.m)
		tab.MulT(arg, x, &p, bias)
		wantSin, wantCos := dense.New[T](c.n, c.m), dense.New[T](c.n, c.m)
		for i := range c.n {
			one := argumentsOf(tab, &q, arg.Row(i))
			tab.MulTSinCos(wantSin.RowRange(i, i+1), wantCos.RowRange(i, i+1), one, &q, nil, f)
		}
		sin, cos := view(c.n, c.m, c.shift, c.pad, T(guard)), view(c.n, c.m, c.shift, c.pad+trial%3, T(guard))
		tab.MulTSinCos(sin, cos, x, &p, bias, f)
		what := fmt.Sprintf("%+v, f = %v", c, f)
		checkSame(t, what+": sin", sin, wantSin)
		checkSame(t, what+": cos", cos, wantCos)
		checkGuards(t, sin, c.shift)
		checkGuards(t, cos, c.shift)
		for i := range c.n {
			for j, v := range arg.Row(i) {
				s, k := math.Sincos(float64(v))
				if math.Abs(float64(v)) > 1e4 && float64(v-v) == 0 {
					continue // package math has fewer digits there
				}
				for _, e := range [][2]float64{{float64(wantSin.At(i, j)), s}, {float64(wantCos.At(i, j)), k}} {
					if d := math.Abs(e[0] - e[1]*float64(f)); !(d <= 4*epsilon[T]()*float64(f)) &&
						!(e[0] != e[0] && e[1] != e[1]) {
						t.Fatalf("%+v: at t = %v, factor %v: %v, want %v", c, v, f, e[0], e[1]*float64(f))
					}
				}
			}
		}
	}
	tab.MulTSinCos(dense.Matrix[T]{}, dense.Matrix[T]{}, dense.Matrix[T]{}, &Panel[T]{Width: tab.Width}, nil, 1)
}

// BenchmarkMulTSinCos counts the operations of the product alone. way=apart is MulT, SinCos, Scale.
func BenchmarkMulTSinCos(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchMulTSinCos(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchMulTSinCos(b, "float64", tab)
	}
}

func benchMulTSinCos[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	peak := peakRate(tab)
	for _, c := range [][3]int{{1, 64, 512}, {16, 64, 512}, {128, 64, 512}, {20000, 64, 512}, {20000, 64, 1024}} {
		n, d, m := c[0], c[1], c[2]
		r := rand.New(rand.NewPCG(1, 1))
		x, w := dense.New[T](n, d), dense.New[T](m, d)
		fillNormal(x, r)
		fillNormal(w, r)
		for i := range w.Data {
			w.Data[i] *= T(1 / math.Sqrt(float64(d)))
		}
		dst := dense.New[T](n, 2*m)
		sin, cos := dst.ColRange(0, m), dst.ColRange(m, 2*m)
		var p Panel[T]
		tab.Pack(&p, w)
		flops := 2 * float64(n) * float64(d) * float64(m)
		name := fmt.Sprintf("table=%s/T=%s/n=%d/d=%d/m=%d", tab.Name, typ, n, d, m)
		f := T(1 / math.Sqrt(float64(m)))
		for _, way := range []struct {
			name string
			run  func()
		}{
			{"product", func() { tab.MulT(sin, x, &p, nil) }},
			{"fused", func() { tab.MulTSinCos(sin, cos, x, &p, nil, f) }},
			{"apart", func() { mulThenSinCos(tab, sin, cos, x, &p, nil, f) }},
		} {
			b.Run(name+"/way="+way.name, func(b *testing.B) { timeProduct(b, flops, peak, way.run) })
		}
	}
}

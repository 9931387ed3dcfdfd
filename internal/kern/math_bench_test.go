package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// The elementwise benchmarks report ns/element; table=go is package math. Arguments are restored before every call, the
// copy is part of the time (some 0.02 ns/element in cache).
func BenchmarkExp(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchExp(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchExp(b, "float64", tab)
	}
}

func benchExp[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	for _, n := range []int{16, 64, 256, 1024} {
		benchInPlace(b, fmt.Sprintf("table=%s/T=%s/n=%d", tab.Name, typ, n), n,
			func(r *rand.Rand) T { return T(-5 + 2*r.NormFloat64()) }, func(x []T) { tab.Exp(x, 1) })
	}
	// Arguments whose results are all subnormal; some of them; subnormal arguments; results zero.
	low, least := -95.0, 1e-40
	if typ == "float64" {
		low, least = -730, 1e-310
	}
	for _, c := range []struct {
		name string
		arg  func(r *rand.Rand) float64
	}{
		{"subnormal", func(r *rand.Rand) float64 { return low + 4*r.Float64() }},
		{"mixed", func(r *rand.Rand) float64 { return low * 1.1 * r.Float64() }},
		{"tiny", func(r *rand.Rand) float64 { return least * r.Float64() }},
		{"zero", func(r *rand.Rand) float64 { return 10 * low * (1 + r.Float64()) }},
	} {
		benchInPlace(b, fmt.Sprintf("table=%s/T=%s/n=1024/range=%s", tab.Name, typ, c.name), 1024,
			func(r *rand.Rand) T { return T(c.arg(r)) }, func(x []T) { tab.Exp(x, 0) })
	}
}

func benchInPlace[T dense.Float](b *testing.B, name string, n int, arg func(*rand.Rand) T, f func([]T)) {
	b.Run(name, func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		src, x := aligned[T](n), aligned[T](n)
		for i := range src {
			src[i] = arg(r)
		}
		for b.Loop() {
			copy(x, src)
			f(x)
		}
		reportElements(b, n)
	})
}

func reportElements(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
}

func BenchmarkExp2(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchInPlace(b, fmt.Sprintf("table=%s/T=float32/n=1024", tab.Name), 1024,
			func(r *rand.Rand) float32 { return float32(5 * r.NormFloat64()) }, tab.Exp2)
	}
	for _, tab := range Available[float64]() {
		benchInPlace(b, fmt.Sprintf("table=%s/T=float64/n=1024", tab.Name), 1024,
			func(r *rand.Rand) float64 { return 5 * r.NormFloat64() }, tab.Exp2)
	}
}

func BenchmarkLog(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchInPlace(b, fmt.Sprintf("table=%s/T=float32/n=1024", tab.Name), 1024,
			func(r *rand.Rand) float32 { return float32(math.Exp(5 * r.NormFloat64())) }, tab.Log)
		benchInPlace(b, fmt.Sprintf("table=%s/T=float32/n=1024/range=subnormal", tab.Name), 1024,
			func(r *rand.Rand) float32 { return math.Float32frombits(r.Uint32() >> 9) }, tab.Log)
	}
	for _, tab := range Available[float64]() {
		benchInPlace(b, fmt.Sprintf("table=%s/T=float64/n=1024", tab.Name), 1024,
			func(r *rand.Rand) float64 { return math.Exp(5 * r.NormFloat64()) }, tab.Log)
	}
}

func BenchmarkSinCos(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchSinCos(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchSinCos(b, "float64", tab)
	}
}

func benchSinCos[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	least := 1e-40
	if typ == "float64" {
		least = 1e-310
	}
	for _, c := range []struct {
		n     int
		name  string
		scale float64
	}{{64, "", 10}, {256, "", 10}, {1024, "", 10}, {1024, "/range=subnormal", least}, {1024, "/range=large", 1e8}} {
		b.Run(fmt.Sprintf("table=%s/T=%s/n=%d%s", tab.Name, typ, c.n, c.name), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x, sin, cos := aligned[T](c.n), aligned[T](c.n), aligned[T](c.n)
			for i := range x {
				x[i] = T(c.scale * r.NormFloat64())
			}
			for b.Loop() {
				tab.SinCos(sin, cos, x)
			}
			reportElements(b, c.n)
		})
	}
}

func BenchmarkMax(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchMax(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchMax(b, "float64", tab)
	}
}

func benchMax[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	for _, n := range []int{64, 1024} {
		b.Run(fmt.Sprintf("table=%s/T=%s/n=%d", tab.Name, typ, n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x := aligned[T](n)
			for i := range x {
				x[i] = T(r.NormFloat64())
			}
			for b.Loop() {
				tab.Max(x)
			}
			reportElements(b, n)
		})
	}
}

func BenchmarkFWHT(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchFWHT(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchFWHT(b, "float64", tab)
	}
}

func benchFWHT[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	for _, n := range []int{16, 64, 256, 1024, 4096, 1 << 16, 1 << 20} {
		b.Run(fmt.Sprintf("table=%s/T=%s/n=%d", tab.Name, typ, n), func(b *testing.B) {
			x := aligned[T](n) // zeros stay zeros; additions take the same time for all numbers
			for b.Loop() {
				tab.FWHT(x)
			}
			reportElements(b, n)
		})
	}
}

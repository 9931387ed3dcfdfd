package kern

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/randfeat/randfeat/dense"
)

// benchShapes are rows, inputs, outputs of a product.
var benchShapes = [][3]int{
	{1, 64, 256}, {16, 64, 256}, {4096, 8, 64}, {4096, 16, 256}, {4096, 64, 65}, {4096, 64, 256}, {4096, 64, 1024},
	{4096, 256, 256}, {2048, 1024, 1024}, {512, 4096, 1024},
}

// peakRate is the best of many short runs, in operations per nanosecond: neighbours only ever make it lower.
func peakRate[T dense.Float](tab *Table[T]) float64 {
	best := 0.0
	for range 200 {
		start := time.Now()
		n := Peak(tab, 20_000)
		best = max(best, float64(n)/float64(time.Since(start).Nanoseconds()))
	}
	return best
}

// timeProduct reports the best round as well as the mean: on a shared machine the mean measures the neighbours.
func timeProduct(b *testing.B, flops, peak float64, f func()) {
	rounds := 1 + int(2e6/flops) // long enough for the clock
	best := 0.0
	for b.Loop() {
		start := time.Now()
		for range rounds {
			f()
		}
		best = max(best, flops*float64(rounds)/float64(time.Since(start).Nanoseconds()))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rounds), "ns/op")
	b.ReportMetric(flops*float64(b.N*rounds)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
	b.ReportMetric(best, "best-GFLOP/s")
	b.ReportMetric(100*best/peak, "%peak")
}

func BenchmarkMulT(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchMulT(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchMulT(b, "float64", tab)
	}
}

func benchMulT[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	peak := peakRate(tab)
	for _, c := range benchShapes {
		n, d, m := c[0], c[1], c[2]
		b.Run(fmt.Sprintf("table=%s/T=%s/n=%d/d=%d/m=%d", tab.Name, typ, n, d, m), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			x, w := dense.New[T](n, d), dense.New[T](m, d)
			fillNormal(x, r)
			fillNormal(w, r)
			dst, bias := dense.New[T](n, m), make([]T, m)
			var p Panel[T]
			tab.Pack(&p, w)
			timeProduct(b, 2*float64(n)*float64(d)*float64(m), peak, func() { tab.MulT(dst, x, &p, bias) })
		})
	}
}

func BenchmarkTMul(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchTMul(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchTMul(b, "float64", tab)
	}
}

// benchTMul accumulates l rows into an m×n sum.
func benchTMul[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	peak := peakRate(tab)
	for _, c := range [][3]int{{1, 256, 65}, {128, 256, 1}, {128, 256, 64}, {128, 256, 65}, {4096, 256, 64},
		{4096, 1024, 1024}} {
		l, m, n := c[0], c[1], c[2]
		b.Run(fmt.Sprintf("table=%s/T=%s/l=%d/m=%d/n=%d", tab.Name, typ, l, m, n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			x, y, dst := dense.New[T](l, m), dense.New[T](l, n), dense.New[T](m, n)
			fillNormal(x, r)
			fillNormal(y, r)
			timeProduct(b, 2*float64(l)*float64(m)*float64(n), peak, func() { tab.TMul(dst, x, y) })
		})
	}
}

func BenchmarkPack(b *testing.B) {
	tab := Best[float32]()
	w := dense.New[float32](128, 256)
	var p Panel[float32]
	for name, pack := range map[string]func(*Panel[float32], dense.Matrix[float32]){"Pack": tab.Pack,
		"PackT": tab.PackT} {
		b.Run(fmt.Sprintf("func=%s/rows=128/cols=256", name), func(b *testing.B) {
			b.SetBytes(int64(4 * len(w.Data)))
			for b.Loop() {
				pack(&p, w)
			}
		})
	}
}

func BenchmarkPeak(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchPeak(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchPeak(b, "float64", tab)
	}
}

func benchPeak[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	b.Run(fmt.Sprintf("table=%s/T=%s", tab.Name, typ), func(b *testing.B) {
		best := 0.0
		for b.Loop() {
			start := time.Now()
			n := Peak(tab, 10_000)
			best = max(best, float64(n)/float64(time.Since(start).Nanoseconds()))
		}
		b.ReportMetric(best, "best-GFLOP/s")
	})
}

func BenchmarkTriad(b *testing.B) {
	const n = 8 << 20 // three slices of 64 MiB
	x, y, z := make([]float64, n), make([]float64, n), make([]float64, n)
	for b.Loop() {
		b.SetBytes(int64(Triad(x, y, z, 3)))
	}
}

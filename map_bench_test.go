package randfeat_test

import (
	"fmt"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// BenchmarkQueries measures whole maps: features of 2048 rows into a reused output.
func BenchmarkQueries(b *testing.B) {
	for _, f := range []family.Family{family.Positive{}, family.OPRF{A: -0.1}, family.Trig{}, family.Hyperbolic{},
		family.GERF{A: 0.01i}, family.Angular{N: 2}} {
		for _, d := range []int{16, 64, 256} {
			benchmarkQueries[float32](b, f, d, 256)
		}
		benchmarkQueries[float64](b, f, 64, 256)
	}
}

func benchmarkQueries[T dense.Float](b *testing.B, f family.Family, d, m int) {
	const n = 2048
	mp, err := randfeat.New[T](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: f, Dim: d, M: m})
	if err != nil {
		b.Fatal(err)
	}
	x64 := dense.New[float64](n, d)
	rng.Normals(x64.Data, rng.Stream(1))
	for i := range x64.Data {
		x64.Data[i] *= 0.05
	}
	x, dst, scale := dense.Convert[T](x64), dense.New[T](n, mp.OutDim()), make([]float64, n)
	var ws randfeat.Workspace[T]
	for _, scaled := range []bool{false, true} {
		s := scale
		if !scaled {
			s = nil
		}
		b.Run(fmt.Sprintf("T=%T/family=%s/d=%d/m=%d/scaled=%v", T(0), f.Name(), d, m, scaled), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := mp.Queries(dst, s, x, &ws); err != nil {
					b.Fatal(err)
				}
			}
			ops := 2 * float64(n) * float64(d) * float64(m)
			b.ReportMetric(ops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n*mp.OutDim()), "ns/feature")
		})
	}
}

package centroid

import (
	"fmt"
	"testing"

	"github.com/randfeat/randfeat/attention"
)

func BenchmarkCausalForward(b *testing.B) {
	for _, length := range []int{1024, 4096, 8192} {
		for _, s := range []Spec{
			{Clusters: 64, Sinks: 4, Window: 64, Spread: true},
			{Clusters: 64, Sinks: 4, Window: 64, Spread: true, Top: 4},
			{Clusters: 64, Sinks: 4, Window: 64, Spread: true, Top: 8, Keys: 96},
			{Clusters: 64, Sinks: 4, Window: 64, Spread: true, Top: 8, Keys: 96, Shared: true},
			{Clusters: 128, Sinks: 4, Window: 64, Spread: true, Top: 20, Residual: 24, Keys: 256},
		} {
			name := fmt.Sprintf("L=%d/k=%d/top=%d/keys=%d/shared=%v", length, s.Clusters, s.Top, s.Keys, s.Shared)
			b.Run(name, func(b *testing.B) {
				in := makeInput[float32](1, 1, 3, 1, length, length, 64, 64, 0.7)
				a := &Attention[float32]{Specs: []Spec{s}, Unchecked: true}
				a.Causal = true
				c, err := Fit(a.Specs, 0, a.Visibility, in.q, in.k, in.v)
				if err != nil {
					b.Fatal(err)
				}
				a.Centres = c
				out := attention.NewSeq[float32](1, 3, length, 64)
				for b.Loop() {
					if _, err := a.Forward(out, in.q, in.k, in.v); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*3*length), "µs/row")
			})
		}
		b.Run(fmt.Sprintf("L=%d/exact", length), func(b *testing.B) {
			in := makeInput[float32](1, 1, 3, 1, length, length, 64, 64, 0.7)
			a := &attention.Exact[float32]{Visibility: attention.Visibility{Causal: true}, Unchecked: true}
			out := attention.NewSeq[float32](1, 3, length, 64)
			for b.Loop() {
				if _, err := a.Forward(out, in.q, in.k, in.v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*3*length), "µs/row")
		})
	}
}

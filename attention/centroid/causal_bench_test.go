package centroid

import (
	"fmt"
	"math"
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

// BenchmarkDecode is one token after many, a query, key and value of one head at d = 64.
func BenchmarkDecode(b *testing.B) {
	const d = 64
	for _, length := range []int{10_000, 100_000} {
		in := makeInput[float32](1, 1, 1, 1, length, length, d, d, 0.7)
		out := attention.NewSeq[float32](1, 1, 1, d)
		b.Run(fmt.Sprintf("L=%d/exact", length), func(b *testing.B) {
			a := &attention.Exact[float32]{Unchecked: true}
			for b.Loop() {
				if _, err := a.Forward(out, piece(in.q, 5, 1), in.k, in.v); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, s := range []Spec{
			{Clusters: 2 * int(math.Sqrt(float64(length))), Sinks: 4, Window: 64, Spread: true, Top: 8, Keys: 96},
			{Clusters: 3 * int(math.Sqrt(float64(length))), Sinks: 4, Window: 64, Spread: true, Top: 8, Keys: 128},
			{Clusters: 3 * int(math.Sqrt(float64(length))), Sinks: 4, Window: 64, Spread: true, Top: 16, Keys: 256},
		} {
			b.Run(fmt.Sprintf("L=%d/k=%d/top=%d/keys=%d", length, s.Clusters, s.Top, s.Keys), func(b *testing.B) {
				a := &Attention[float32]{Specs: []Spec{s}, Unchecked: true}
				c, err := Fit(a.Specs, 0, attention.Visibility{Causal: true}, in.q, in.k, in.v)
				if err != nil {
					b.Fatal(err)
				}
				a.Centres = c
				cache := newCache(b, a, 1, 1, 1, d, d)
				if err := cache.run(in.q, in.q, in.k, in.v, true); err != nil {
					b.Fatal(err)
				}
				p := 0
				for b.Loop() {
					p = (p + 1) % length
					if err := cache.Step(out, piece(in.q, p, 1), piece(in.k, p, 1), piece(in.v, p, 1)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cache.Bytes())/float64(cache.Len()), "B/token")
			})
		}
		b.Run(fmt.Sprintf("L=%d/slots=1024", length), func(b *testing.B) {
			s := newSlots[float32](b, SlotSpec{Budget: 1024}, 1, 1, 1, d, d)
			for p := 0; b.Loop(); p = (p + 1) % length {
				if err := s.Step(out, piece(in.q, p, 1), piece(in.k, p, 1), piece(in.v, p, 1)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

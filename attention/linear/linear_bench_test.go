package linear

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// BenchmarkLinear is one head on one thread unless said.
func BenchmarkLinear(b *testing.B) {
	const d = 64
	for _, c := range []struct {
		name    string
		causal  bool
		window  int
		length  int
		m       int
		threads int
	}{
		{"bidirectional", false, 0, 16384, 256, 1},
		{"causal", true, 0, 16384, 256, 1},
		{"bidirectional", false, 0, 2048, 256, 1},
		{"causal", true, 0, 2048, 256, 1},
		{"causal", true, 128, 16384, 256, 1},
		{"bidirectional", false, 128, 16384, 256, 1},
		{"bidirectional", false, 0, 16384, 256, 2},
		{"causal", true, 0, 16384, 256, 2},
	} {
		b.Run(fmt.Sprintf("%s/window=%d/L=%d/d=%d/m=%d/threads=%d", c.name, c.window, c.length, d, c.m, c.threads),
			func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.threads))
				m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Positive{},
					Dim: d, M: c.m, Seed: 1})
				must(b, err)
				a := &Attention[float32]{Visibility: attention.Visibility{Causal: c.causal},
					Maps:   []randfeat.FeatureMap[float32]{m},
					Window: c.window}
				q, k, v, out := normals[float32](1, 1, c.length, d, 1, 1), normals[float32](1, 1, c.length, d, 1, 2),
					normals[float32](1, 1, c.length, d, 1, 3), attention.NewSeq[float32](1, 1, c.length, d)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := a.Forward(out, q, k, v); err != nil {
						b.Fatal(err)
					}
				}
				// Two projections, two products with the sums.
				b.ReportMetric(8*float64(c.length)*d*float64(c.m)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
	}
}

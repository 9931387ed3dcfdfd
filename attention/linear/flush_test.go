package linear

import (
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
)

// oneLong has one column that is far longer than the others: many features of a row are subnormal next to its largest.
func oneLong(length, d int, seed uint64) attention.Seq[float32] {
	s := normals[float32](1, 1, length, d, 1, seed)
	for i := range length {
		s.Head(0, 0).Row(i)[0] *= 30
	}
	return s
}

// Products get no subnormal numbers, which would slow them manyfold.
func TestFeaturesAreNotSubnormal(t *testing.T) {
	const length, d, m = 700, 16, 64
	chosen, err := kern.Chosen[float32]()
	must(t, err)
	for _, f := range []family.Family{family.Positive{}, family.Trig{}} {
		for _, s := range []struct {
			name   string
			causal bool
			window int
		}{{"bidirectional", false, 0}, {"causal", true, 0}, {"causal window", true, 40}, {"band", false, 40}} {
			t.Run(fmt.Sprintf("%s/%s", f.Name(), s.name), func(t *testing.T) {
				mp, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: f, Dim: d, M: m,
					Seed: 5})
				must(t, err)
				tab, flushed := *chosen, 0
				check := func(name string, x dense.Matrix[float32]) {
					for i := range x.Rows {
						if n := subnormals(x.Row(i)); n > 0 {
							t.Fatalf("%s gets %d subnormal numbers in row %d", name, n, i)
						}
					}
				}
				tab.FlushMax = func(x []float32) float32 {
					flushed += subnormals(x)
					return chosen.FlushMax(x)
				}
				tab.TMul = func(dst, a, b dense.Matrix[float32]) {
					check("TMul", a)
					chosen.TMul(dst, a, b)
				}
				tab.Product = func(dst, x, y dense.Matrix[float32], add bool) {
					check("Product", x)
					chosen.Product(dst, x, y, add)
				}
				tab.MulT = func(dst, x dense.Matrix[float32], w *kern.Panel[float32], bias []float32) {
					check("MulT", x)
					if n := subnormals(w.Data); n > 0 {
						t.Fatalf("MulT gets a panel with %d subnormal numbers", n)
					}
					chosen.MulT(dst, x, w, bias)
				}
				q, k, v := oneLong(length, d, 1), oneLong(length, d, 2), normals[float32](1, 1, length, d, 1, 3)
				rows := (&Attention[float32]{}).rows(mp, s.causal || s.window > 0)
				st := stream[float32]{m: mp, q: q, out: attention.NewSeq[float32](1, 1, length, d), k: k.Head(0, 0),
					v:  v.Head(0, 0),
					q1: length, group: 1, rows: rows, causal: s.causal, window: s.window}
				c := &call[float32]{streams: streams[float32]{tab: &tab, all: []stream[float32]{st}, checks: true}}
				must(t, (*eachStream[float32])(c).Item(new(worker[float32]), 0))
				if f == (family.Positive{}) && flushed == 0 {
					t.Error("nothing was flushed: these data show nothing")
				}
			})
		}
	}
}

func subnormals(x []float32) int {
	n := 0
	for _, v := range x {
		if a := math.Abs(float64(v)); 0 < a && a < 0x1p-126 {
			n++
		}
	}
	return n
}

func TestLift(t *testing.T) {
	x := []float32{0, 1, -1, liftLeast, -liftLeast, math.Nextafter32(liftLeast, 0), 0x1p-126, -0x1p-100, 1.5, 0x1.8p28}
	want := []float32{0, 0x1p44, -0x1p44, 1, -1, 0, 0, 0, 0x1.8p44, 0x1.8p72}
	got := make([]float32, len(x))
	lift(got, x)
	for i, v := range got {
		if v != want[i] {
			t.Errorf("lift(%g) = %g, want %g", x[i], v, want[i])
		}
	}
}

package choose_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/kernel"
)

// Every attention has the same bits on any number of processors.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const h, n, d = 4, 1024, 16
	q, k, v := heads.Generate[float32](h, n, d, 1)
	spec := randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Positive{}, Dim: d, M: 256, Seed: 1}
	maps, err := linear.NewMaps[float32](linear.HeadSpecs(spec, h))
	if err != nil {
		t.Fatal(err)
	}
	gradients := func() (dq, dk, dv attention.Seq[float32]) {
		all := func() attention.Seq[float32] { return attention.NewSeq[float32](1, h, n, d) }
		return all(), all(), all()
	}
	join := func(all ...attention.Seq[float32]) (out []float32) {
		for _, s := range all {
			out = append(out, s.Data...)
		}
		return out
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, run := range map[string]func() []float32{
		"exact": func() []float32 {
			a := attention.Exact[float32]{}
			out := attention.NewSeq[float32](1, h, n, d)
			_, err := a.Forward(out, q, k, v)
			check(err)
			dq, dk, dv := gradients()
			check(a.Backward(dq, dk, dv, out, out, q, k, v))
			return join(out, dq, dk, dv)
		},
		"linear": func() []float32 {
			a := linear.Attention[float32]{Maps: maps}
			a.Causal = true
			out := attention.NewSeq[float32](1, h, n, d)
			_, err := a.Forward(out, q, k, v)
			check(err)
			dq, dk, dv := gradients()
			_, err = a.Backward(dq, dk, dv, out, out, q, k, v, nil)
			check(err)
			return join(out, dq, dk, dv)
		},
		"centroid": func() []float32 {
			a := centroid.Attention{Specs: []centroid.Spec{centroid.Blocks{Clusters: 64, Queries: 32, Keys: 16}}}
			out := attention.NewSeq[float32](1, h, n, d)
			_, err := a.Forward(out, q, k, v)
			check(err)
			return out.Data
		},
		"choose": func() []float32 {
			o := choose.Options{Tol: 0.3, ByCost: true}
			c, err := choose.Choose(o, attention.Visibility{}, 0, q, k, v)
			check(err)
			a, err := choose.New(c)
			check(err)
			out := attention.NewSeq[float32](1, h, n, d)
			_, err = a.Forward(out, q, k, v)
			check(err)
			return out.Data
		},
	} {
		want := run()
		for _, n := range []int{1, 2} {
			before := runtime.GOMAXPROCS(n)
			got := run()
			runtime.GOMAXPROCS(before)
			if !slices.Equal(got, want) {
				t.Errorf("%s: other bits on %d processors", name, n)
			}
		}
	}
}

package choose_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// mostWorkers is the largest number of goroutines that a loop inside of f was run on.
func mostWorkers(f func()) int64 {
	var most atomic.Int64
	see := func(_, workers int) {
		for m := most.Load(); int64(workers) > m && !most.CompareAndSwap(m, int64(workers)); m = most.Load() {
		}
	}
	par.Observe.Store(&see)
	defer par.Observe.Store(nil)
	f()
	return most.Load()
}

// Every attention keeps to its Workers, and has the same bits with any number.
func TestWorkers(t *testing.T) {
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
	for name, run := range map[string]func(workers int) []float32{
		"exact": func(workers int) []float32 {
			a := attention.Exact[float32]{Workers: workers}
			out := attention.NewSeq[float32](1, h, n, d)
			_, err := a.Forward(out, q, k, v)
			check(err)
			dq, dk, dv := gradients()
			check(a.Backward(dq, dk, dv, out, out, q, k, v))
			return join(out, dq, dk, dv)
		},
		"linear": func(workers int) []float32 {
			a := linear.Attention[float32]{Maps: maps, Workers: workers}
			a.Causal = true
			out := attention.NewSeq[float32](1, h, n, d)
			_, err := a.Forward(out, q, k, v)
			check(err)
			dq, dk, dv := gradients()
			_, err = a.Backward(dq, dk, dv, out, out, q, k, v, nil)
			check(err)
			return join(out, dq, dk, dv)
		},
		"centroid": func(workers int) []float32 {
			a := centroid.Attention{Specs: []centroid.Spec{centroid.PerQuery{Clusters: 16, Top: 2}}, Workers: workers}
			out := attention.NewSeq[float32](1, h, n, d)
			_, err := a.Forward(out, q, k, v)
			check(err)
			return out.Data
		},
		"choose": func(workers int) []float32 {
			o := choose.Options{Tol: 0.3, ByCost: true, Workers: workers}
			c, err := choose.Choose(o, attention.Visibility{}, 0, q, k, v)
			check(err)
			a, err := choose.New(c)
			check(err)
			a.Workers = workers
			out := attention.NewSeq[float32](1, h, n, d)
			_, err = a.Forward(out, q, k, v)
			check(err)
			return out.Data
		},
	} {
		var want []float32
		if most := mostWorkers(func() { want = run(0) }); most < 3 {
			t.Errorf("%s: %d goroutines at most with 8 processors: nothing is limited", name, most)
		}
		for _, workers := range []int{1, 2} {
			var got []float32
			if most := mostWorkers(func() { got = run(workers) }); most > int64(workers) {
				t.Errorf("%s: a loop on %d goroutines with Workers %d", name, most, workers)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: other bits with Workers %d", name, workers)
			}
		}
	}
}

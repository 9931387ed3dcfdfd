package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// scaleCase is work that is run at several numbers of threads, and the peers shown below it.
type scaleCase struct {
	name  string
	peers []string
	make  func() func()
}

const (
	dim, features = 64, 256
	long          = 16384
	productsName  = "control: products in the second-level cache"
)

func cases() []scaleCase {
	list := []scaleCase{
		{"control: a loop of integers", nil, integers},
		{productsName, nil, products},
		{"control: independent calls, L = 128", nil, independent},
		{"bidirectional", []string{"PyTorch eager", "NumPy, the four products alone"}, linearCase(1, long, false,
			false)},
		{"causal", nil, linearCase(1, long, true, false)},
		{"backward", []string{"PyTorch eager, forward and backward"}, linearCase(1, long, false, true)},
		{"causal backward", nil, linearCase(1, long, true, true)},
		{"bidirectional, 8 heads", nil, linearCase(8, long, false, false)},
		{"causal, 8 heads", nil, linearCase(8, long, true, false)},
		{"backward, 8 heads", nil, linearCase(8, long, false, true)},
		{"causal backward, 8 heads", nil, linearCase(8, long, true, true)},
		{"exact", []string{"PyTorch SDPA"}, func() func() {
			q, k, v, out := normals(1, long, 1), normals(1, long, 2), normals(1, long, 3), normals(1, long, 4)
			a := new(attention.Exact[float32])
			return func() { must(a.Forward(out, q, k, v)) }
		}},
		{"centroids, 8 heads, L = 2048", nil, centroids(8, 2048)},
		{"centroids", nil, centroids(1, long)},
		{"window 128, backward, L = 4096", nil, windowed(4096, false)},
		{"window 128, causal backward, L = 4096", nil, windowed(4096, true)},
	}
	for _, l := range []int{128, 256, 512, 1024, 2048, 4096} {
		list = append(list,
			scaleCase{fmt.Sprintf("bidirectional, L = %d", l), nil, linearCase(1, l, false, false)},
			scaleCase{fmt.Sprintf("causal, L = %d", l), nil, linearCase(1, l, true, false)},
			scaleCase{fmt.Sprintf("causal backward, L = %d", l), nil, linearCase(1, l, true, true)})
	}
	return list
}

func must[A any](a A, err error) A {
	if err != nil {
		panic(err)
	}
	return a
}

func normals(heads, length int, seed uint64) attention.Seq[float32] {
	s := attention.NewSeq[float32](1, heads, length, dim)
	r := rand.New(rand.NewPCG(seed, 0))
	one := s.Data[:length*dim]
	for i := range one {
		one[i] = float32(r.NormFloat64() * 0.4)
	}
	for h := 1; h < heads; h++ { // drawing them would take longer than all measurements
		copy(s.Data[h*length*dim:], one)
	}
	return s
}

func newLinear(causal bool) *linear.Attention[float32] {
	m := must(randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(dim), Family: family.Positive{}, Dim: dim,
		M: features, Seed: 1}))
	return &linear.Attention[float32]{Visibility: attention.Visibility{Causal: causal},
		Maps: []randfeat.FeatureMap[float32]{m}}
}

// linearCase is linear attention, or its gradients. Short sequences are run many times.
func linearCase(heads, length int, causal, backward bool) func() func() {
	return func() func() {
		a := newLinear(causal)
		q, k, v, dout := normals(heads, length, 1), normals(heads, length, 2), normals(heads, length, 3),
			normals(heads, length, 4)
		out, dq, dk, dv := normals(heads, length, 5), normals(heads, length, 6), normals(heads, length, 7),
			normals(heads, length, 8)
		must(a.Forward(out, q, k, v))
		times := max(1, 4096/length)
		return func() {
			for range times {
				if backward {
					must(a.Backward(dq, dk, dv, dout, out, q, k, v, nil))
				} else {
					must(a.Forward(out, q, k, v))
				}
			}
		}
	}
}

// windowed is the gradients of linear attention with a window.
func windowed(length int, causal bool) func() func() {
	return func() func() {
		a := newLinear(causal)
		a.Window = 128
		q, k, v, dout := normals(1, length, 1), normals(1, length, 2), normals(1, length, 3), normals(1, length, 4)
		out, dq, dk, dv := normals(1, length, 5), normals(1, length, 6), normals(1, length, 7), normals(1, length, 8)
		must(a.Forward(out, q, k, v))
		return func() { must(a.Backward(dq, dk, dv, dout, out, q, k, v, nil)) }
	}
}

// independent does the work of one long sequence in calls that are each too short for more than one thread.
func independent() func() {
	a := newLinear(false)
	q, k, v, out := normals(1, long, 1), normals(1, long, 2), normals(1, long, 3), normals(1, long, 4)
	const n = 128
	part := func(s attention.Seq[float32], i int) attention.Seq[float32] {
		s.Data, s.Len = s.Data[i*n*dim:], n
		return s
	}
	return func() {
		spread(long/n, func(i int) { must(a.Forward(part(out, i), part(q, i), part(k, i), part(v, i))) })
	}
}

// integers needs no memory and no vector unit.
func integers() func() {
	var sink atomic.Uint64
	return func() {
		spread(128, func(i int) {
			x := uint64(i)
			for range 200_000 {
				x = x*6364136223846793005 + 1442695040888963407
			}
			sink.Add(x)
		})
	}
}

// products are those of attention's features, one after the other in the caches of a core, with nothing to wait for.
// They show what the host gives to vector units.
func products() func() {
	const n = 128
	tab := must(kern.Chosen[float32]())
	var w kern.Panel[float32]
	tab.Pack(&w, normals(1, features, 1).Head(0, 0))
	x := normals(1, n*64, 2).Head(0, 0)
	dst := dense.New[float32](n*64, features)
	return func() {
		spread(n, func(i int) {
			for range 20 {
				tab.MulT(dst.RowRange(i*64, (i+1)*64), x.RowRange(i*64, (i+1)*64), &w, nil)
			}
		})
	}
}

// crew are the workers of spread. They stay awake between calls, as those of attention do.
var crew par.Crew[struct{}]

type items func(i int)

func (f items) Item(_ *struct{}, i int) error {
	f(i)
	return nil
}

// spread runs items on all threads.
func spread(n int, item func(i int)) {
	if err := crew.Do(n, runtime.GOMAXPROCS(0), items(item)); err != nil {
		panic(err)
	}
}

// centroids is centroid attention, including its fit.
func centroids(heads, length int) func() func() {
	return func() func() {
		q, k, v, out := normals(heads, length, 1), normals(heads, length, 2), normals(heads, length, 3),
			normals(heads, length, 4)
		for _, s := range []attention.Seq[float32]{q, k} {
			for i := range s.Data {
				s.Data[i] *= 3
			}
		}
		a := &centroid.Attention{Specs: []centroid.Spec{centroid.Blocks{Clusters: 64, Keys: max(64, length/32),
			Queries: 128}}}
		must(a.Forward(out, q, k, v))
		return func() { must(a.Forward(out, q, k, v)) }
	}
}

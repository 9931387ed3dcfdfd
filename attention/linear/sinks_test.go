package linear

import (
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// sinkKeys tells which of n keys are sinks: the first that are not masked.
func sinkKeys(sinks, n int, mask []bool) []bool {
	out := make([]bool, n)
	for j := range out {
		if out[j] = sinks > 0 && (mask == nil || mask[j]); out[j] {
			sinks--
		}
	}
	return out
}

// Every weight by definition, for all families: the kernel for the sinks and in the window, features for the others,
// one normaliser. Masks that begin with padding, queries before the first key and sinks for all keys included.
func TestSinks(t *testing.T) {
	stattest.SkipRace(t)
	t.Run("float32", testSinks[float32])
	t.Run("float64", testSinks[float64])
}

func testSinks[T dense.Float](t *testing.T) {
	const d, m, dv, heads = 5, 11, 3, 2
	for name, f := range linearFamilies(t, d) {
		spec := randfeat.Spec{Kernel: kernel.Attention(d), Family: f, Dim: d, M: m, Seed: 3}
		fm, err := randfeat.New[T](spec)
		must(t, err)
		ref, err := randfeat.New[float64](spec)
		must(t, err)
		for _, l := range [][2]int{{23, 23}, {10, 23}, {23, 10}} {
			q, k, v := normals[T](1, heads, l[0], d, 0.7, 1), normals[T](1, 1, l[1], d, 0.7, 2),
				normals[T](1, 1, l[1], dv, 1, 3)
			q64, k64, v64 := widened(q), widened(k).Head(0, 0), widened(v).Head(0, 0)
			off := l[1] - l[0]
			mask := make([]bool, l[1])
			for j := range mask {
				mask[j] = j > 2 && j%4 != 1
			}
			var estimates, values, moduli [heads]dense.Matrix[float64]
			for h := range heads {
				estimates[h], values[h], moduli[h] = logWeights(t, ref, q64.Head(0, h), k64)
			}
			for c := range 24 {
				causal, masked := c&1 > 0, c&2 > 0
				near := [][2]int{{0, 1}, {0, 4}, {6, 4}, {8, 11}, {0, 100}, {6, 100}}[c/4]
				if name != "positive" && near[1] != 4 && !stattest.Full() {
					continue
				}
				a := &Attention[T]{Visibility: attention.Visibility{Causal: causal},
					Maps:   []randfeat.FeatureMap[T]{fm},
					Window: near[0], Sinks: near[1], Chunk: 8}
				if masked {
					a.KeyMask = mask
				}
				out := attention.NewSeq[T](1, heads, l[0], dv)
				_, err := a.Forward(out, q, k, v)
				must(t, err)
				first := sinkKeys(near[1], l[1], a.KeyMask)
				for h := range heads {
					logs, weights, sizes := estimates[h].Clone(), values[h].Clone(), moduli[h].Clone()
					for i := range l[0] {
						for j := range l[1] {
							if first[j] || near[0] > 0 && inWindow(causal, near[0], i+off, j) {
								logs.Set(i, j, spec.Target().Log(q64.Head(0, h).Row(i), k64.Row(j)))
								weights.Set(i, j, 1)
								sizes.Set(i, j, 1)
							}
						}
					}
					want, condition := naive(logs, weights, sizes, v64, func(i, j int) bool {
						return (!causal || j <= i+off) && (!masked || mask[j])
					})
					if x := differ(t, out.Head(0, h), want, condition); !(x <= linearTolerance[T]()) {
						t.Errorf("%s, causal %t, lengths %v, window and sinks %v, masked %t: off by %.2g", name, causal, l,
							near, masked, x)
					}
				}
			}
		}
	}
}

// Sinks for every key are exact attention, within each packed sequence: one that is shorter than the sinks has only
// these.
func TestSinksExact(t *testing.T) {
	const d, dv, length = 16, 8, 300
	q, k, v := normals[float64](2, 2, length, d, 1.5, 1), normals[float64](2, 1, length, d, 1.5, 2),
		normals[float64](2, 1, length, dv, 1, 3)
	segments := make([]int32, 2*length)
	for i := range segments {
		segments[i] = int32(i % length / 70)
	}
	for _, causal := range []bool{false, true} {
		for _, packed := range []bool{false, true} {
			vis, sinks := attention.Visibility{Causal: causal}, length
			if packed {
				vis.Segments, sinks = segments, 70
			}
			for _, window := range []int{0, 20} {
				a := linear[float64](t, family.Trig{}, d, 8, causal)
				a.Visibility, a.Sinks, a.Window = vis, sinks, window
				got, want := attention.NewSeq[float64](2, 2, length, dv), attention.NewSeq[float64](2, 2, length, dv)
				_, err := a.Forward(got, q, k, v)
				must(t, err)
				_, err = (&attention.Exact[float64]{Visibility: vis}).Forward(want, q, k, v)
				must(t, err)
				for b := range 2 {
					for h := range 2 {
						if x := relative(got.Head(b, h), want.Head(b, h)); !(x <= 1e-12) {
							t.Errorf("causal %t, packed %t, window %d: off by %.2g", causal, packed, window, x)
						}
					}
				}
			}
		}
	}
}

// The bits do not depend on the number of threads, whether these share a stream or not, and a warm call allocates
// nothing.
func TestSinksDeterministic(t *testing.T) {
	const d, dv, length = 8, 8, 9000
	q, k, v := normals[float32](1, 1, length, d, 1, 1), normals[float32](1, 1, length, d, 1, 2),
		normals[float32](1, 1, length, dv, 1, 3)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, causal := range []bool{false, true} {
		for _, window := range []int{0, 30} {
			var want attention.Seq[float32]
			for _, procs := range []int{1, 2, 5} {
				runtime.GOMAXPROCS(procs)
				a := linear[float32](t, family.Positive{}, d, 16, causal)
				a.Sinks, a.Window = 5, window
				out := attention.NewSeq[float32](1, 1, length, dv)
				run := func() {
					_, err := a.Forward(out, q, k, v)
					must(t, err)
				}
				if run(); procs == 1 {
					want = out
					if n := testing.AllocsPerRun(1, run); n > 0 {
						t.Errorf("causal %t, window %d: %v allocations", causal, window, n)
					}
					continue
				}
				for i, x := range out.Data {
					if math.Float32bits(x) != math.Float32bits(want.Data[i]) {
						t.Fatalf("causal %t, window %d, %d threads: element %d is %v, was %v", causal, window, procs,
							i, x,
							want.Data[i])
					}
				}
			}
		}
	}
}

func TestSinksErrors(t *testing.T) {
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Bessel}, Family: family.Trig{},
		Dim: 4, M: 4})
	must(t, err)
	x := attention.NewSeq[float32](1, 1, 3, 4)
	a := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}, Sinks: 3}
	if _, err := a.Forward(attention.NewSeq[float32](1, 1, 3, 4), x, x, x); !errors.Is(err, kernel.ErrKernel) {
		t.Error(err)
	}
	a = linear[float32](t, family.Positive{}, 4, 4, true)
	a.Sinks = -1
	if _, err := a.Forward(attention.NewSeq[float32](1, 1, 3, 4), x, x, x); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
	a.Sinks = maxWindow + 1
	if _, err := a.NewState(shape(1, 1, 4), shape(1, 1, 4)); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
}

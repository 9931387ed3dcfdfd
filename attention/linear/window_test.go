package linear

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// inWindow says whether a query at position p has key j in its window.
func inWindow(causal bool, w, p, j int) bool {
	if causal {
		return j <= p && j > p-w
	}
	return j > p-w && j < p+w
}

// Every weight by definition: the kernel inside the window, features outside, one normaliser.
func TestWindow(t *testing.T) {
	stattest.SkipRace(t)
	t.Run("float32", testWindow[float32])
	t.Run("float64", testWindow[float64])
}

func testWindow[T dense.Float](t *testing.T) {
	const d, m, dv, heads = 5, 11, 3, 2
	mat := dense.New[float64](3, d)
	rng.Normals(mat.Data, rng.Stream(6))
	kernels := map[string]kernel.Kernel{
		"softmax":          kernel.Attention(d),
		"gaussian":         {Kind: kernel.Gaussian, Scale: 1.7},
		"gaussian, matrix": {Kind: kernel.Gaussian, Scale: 2.5, M: mat},
		"mahalanobis":      {Kind: kernel.Softmax, Scale: 2, M: mat},
	}
	for name, kern := range kernels {
		families := map[string]family.Family{"positive": family.Positive{}, "oprf": family.OPRF{A: -0.1},
			"trig": family.Trig{}}
		if kern.Kind == kernel.Softmax && kern.M.IsEmpty() {
			families["dark"] = family.DARK{M: mat}
			families["elu"] = family.ELU{}
		}
		for fname, f := range families {
			spec := randfeat.Spec{Kernel: kern, Family: f, Dim: d, M: m, Seed: 3}
			fm, err := randfeat.New[T](spec)
			must(t, err)
			ref, err := randfeat.New[float64](spec)
			must(t, err)
			for _, causal := range []bool{false, true} {
				for _, l := range [][2]int{{41, 41}, {20, 41}, {41, 20}, {1, 1}} {
					for _, window := range []int{1, 6, 13, 100} {
						if window != 6 && (fname != "positive" || name != "softmax") && !stattest.Full() {
							continue
						}
						for _, masked := range []bool{false, true} {
							q, k, v := normals[T](1, heads, l[0], d, 1, 1), normals[T](1, 1, l[1], d, 1, 2),
								normals[T](1, 1, l[1], dv, 1, 3)
							a := &Attention[T]{Visibility: attention.Visibility{Causal: causal},
								Maps:   []randfeat.FeatureMap[T]{fm},
								Window: window, Chunk: 8}
							if masked {
								a.KeyMask = make([]bool, l[1])
								for j := range a.KeyMask {
									a.KeyMask[j] = j%4 != 1 && j/9 != 2
								}
							}
							out := attention.NewSeq[T](1, heads, l[0], dv)
							_, err := a.Forward(out, q, k, v)
							must(t, err)
							q64, k64, v64 := widened(q), widened(k), widened(v)
							for h := range heads {
								logs, weights, moduli := logWeights(t, ref, q64.Head(0, h), k64.Head(0, 0))
								off := l[1] - l[0]
								for i := range l[0] {
									for j := range l[1] {
										if inWindow(causal, window, i+off, j) {
											logs.Set(i, j, spec.Target().Log(q64.Head(0, h).Row(i),
												k64.Head(0, 0).Row(j)))
											weights.Set(i, j, 1)
											moduli.Set(i, j, 1)
										}
									}
								}
								want, condition := naive(logs, weights, moduli, v64.Head(0, 0), func(i, j int) bool {
									return (!causal || j <= i+off) && (!masked || a.KeyMask[j])
								})
								if x := differ(t, out.Head(0, h), want, condition); !(x <= linearTolerance[T]()) {
									t.Errorf("%s, %s, causal %t, lengths %v, window %d, masked %t: off by %.2g", name,
										fname, causal, l, window, masked, x)
								}
							}
						}
					}
				}
			}
		}
	}
}

// A window of at least L is exact attention.
func TestWindowExact(t *testing.T) {
	t.Run("float32", func(t *testing.T) { testWindowExact[float32](t, 1e-5) })
	t.Run("float64", func(t *testing.T) { testWindowExact[float64](t, 1e-12) })
}

func testWindowExact[T dense.Float](t *testing.T, tol float64) {
	const d, dv, length = 16, 8, 300
	q, k, v := normals[T](1, 2, length, d, 1.5, 1), normals[T](1, 2, length, d, 1.5, 2),
		normals[T](1, 2, length, dv, 1, 3)
	for _, causal := range []bool{false, true} {
		a := linear[T](t, family.Trig{}, d, 8, causal)
		a.Window = length
		got, want := attention.NewSeq[T](1, 2, length, dv), attention.NewSeq[T](1, 2, length, dv)
		_, err := a.Forward(got, q, k, v)
		must(t, err)
		_, err = (&attention.Exact[T]{Visibility: attention.Visibility{Causal: causal}}).Forward(want, q, k, v)
		must(t, err)
		for h := range 2 {
			if x := relative(got.Head(0, h), want.Head(0, h)); !(x <= tol) {
				t.Errorf("causal %t: off by %.2g", causal, x)
			}
		}
	}
}

// The error against exact attention falls with the window, to nothing.
func TestWindowErrorFalls(t *testing.T) {
	const d, dv, length, m = 16, 8, 512, 64
	q, k, v := normals[float64](1, 1, length, d, 1, 1), normals[float64](1, 1, length, d, 1, 2),
		normals[float64](1, 1, length, dv, 1, 3)
	// Neighbours are alike, as in text and images: a query attends to what is near.
	for i := 1; i < length; i++ {
		for c := range d {
			k.Head(0, 0).Row(i)[c] = 0.9*k.Head(0, 0).Row(i - 1)[c] + 0.43*k.Head(0, 0).Row(i)[c]
		}
	}
	for i := range length {
		for c := range d {
			q.Head(0, 0).Row(i)[c] = 0.5*q.Head(0, 0).Row(i)[c] + 1.2*k.Head(0, 0).Row(i)[c]
		}
	}
	for _, causal := range []bool{false, true} {
		want := attention.NewSeq[float64](1, 1, length, dv)
		_, err := (&attention.Exact[float64]{Visibility: attention.Visibility{Causal: causal}}).Forward(want, q, k, v)
		must(t, err)
		last := math.Inf(1)
		for _, window := range []int{0, 8, 32, 128, 512} {
			a := linear[float64](t, family.Positive{}, d, m, causal)
			a.Window = window
			out := attention.NewSeq[float64](1, 1, length, dv)
			_, err := a.Forward(out, q, k, v)
			must(t, err)
			var sum, size float64
			for i, x := range want.Data {
				sum += (out.Data[i] - x) * (out.Data[i] - x)
				size += x * x
			}
			e := math.Sqrt(sum / size)
			t.Logf("causal %t, window %3d: relative error %.3g", causal, window, e)
			if !(e < 0.9*last) {
				t.Errorf("causal %t, window %d: error %.3g after %.3g", causal, window, e, last)
			}
			last = e
		}
		if last > 1e-12 {
			t.Errorf("causal %t: a window of the whole length is off by %.2g", causal, last)
		}
	}
}

func TestWindowErrors(t *testing.T) {
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Bessel}, Family: family.Trig{},
		Dim: 4, M: 4})
	must(t, err)
	a := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}, Window: 3}
	x := attention.NewSeq[float32](1, 1, 3, 4)
	if _, err := a.Forward(attention.NewSeq[float32](1, 1, 3, 4), x, x, x); !errors.Is(err, kernel.ErrKernel) {
		t.Error(err)
	}
	if _, err := a.NewState(shape(1, 1, 4), shape(1, 1, 4)); !errors.Is(err, kernel.ErrKernel) {
		t.Error(err)
	}
}

// No window is too wide: positions and windows of any size are added without overflow.
func TestWindowOfAnyWidth(t *testing.T) {
	const d, heads, queries = 4, 2, 30
	for _, keys := range []int{20, 45} {
		q, k, v := normals[float64](1, heads, queries, d, 1, 1), normals[float64](1, 1, keys, d, 1, 2),
			normals[float64](1, 1, keys, d, 1, 3)
		for _, causal := range []bool{false, true} {
			var want [2][]float64
			for _, window := range []int{queries + keys, math.MaxInt - 10, math.MaxInt} {
				linear, exact := attention.NewSeq[float64](1, heads, queries, d), attention.NewSeq[float64](1, heads,
					queries, d)
				l := &Attention[float64]{Visibility: attention.Visibility{Causal: causal}, Window: window, Sinks: 2,
					Maps: []randfeat.FeatureMap[float64]{testMap[float64](t, family.Positive{}, d, 6)}}
				_, err := l.Forward(linear, q, k, v)
				must(t, err)
				e := &attention.Exact[float64]{Visibility: attention.Visibility{Causal: causal}, Window: window}
				_, err = e.Forward(exact, q, k, v)
				must(t, err)
				for i, got := range [][]float64{linear.Data, exact.Data} {
					if want[i] == nil {
						want[i] = got
					} else if !slices.Equal(got, want[i]) {
						t.Errorf("%d keys, causal %v, window %d: other results than with the least that has all keys (%d)",
							keys, causal, window, i)
					}
				}
			}
		}
	}
}

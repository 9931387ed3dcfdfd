package linear

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// linearGradients runs Forward and Backward with a fixed random dout.
func linearGradients[T dense.Float](t testing.TB, a *Attention[T], q, k, v attention.Seq[T],
	grads []*randfeat.Grad[T]) (dout attention.Seq[T], d [3]attention.Seq[T]) {
	t.Helper()
	out := attention.NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)
	want, err := a.Forward(out, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	dout = normals[T](q.Batch, q.Heads, q.Len, v.Dim, 1, 99)
	d = [3]attention.Seq[T]{q, k, v} // in the same layouts
	for i := range d {
		d[i].Data = make([]T, len(d[i].Data))
		for j := range d[i].Data {
			d[i].Data[j] = T(math.NaN()) // must be overwritten
		}
	}
	got, err := a.Backward(d[0], d[1], d[2], dout, out, q, k, v, grads)
	if err != nil {
		t.Fatal(err)
	}
	if got.Rows != want.Rows || got.Empty != want.Empty || got.Negative != want.Negative || got.Zero != want.Zero {
		t.Errorf("report %+v backwards, %+v forwards", got, want)
	}
	return dout, d
}

// linearLoss is Σ out⊙dout.
func linearLoss(t testing.TB, a *Attention[float64], dout, q, k, v attention.Seq[float64]) float64 {
	t.Helper()
	out := attention.NewSeq[float64](q.Batch, q.Heads, q.Len, v.Dim)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	return dense.Dot(out.Data, dout.Data)
}

// checkDerivative compares directional derivatives with central differences: for every input in turn and every
// position a random direction would be slow; a few directions that touch single positions and all of them are enough
// to see each.
func checkDerivative(t *testing.T, a *Attention[float64], q, k, v attention.Seq[float64], tolerance float64) {
	t.Helper()
	dout, d := linearGradients(t, a, q, k, v, nil)
	const h = 1e-5
	args := [3]attention.Seq[float64]{q, k, v}
	for n, name := range []string{"dq", "dk", "dv"} {
		x := args[n].Data
		directions := [][]float64{normals[float64](1, 1, 1, len(x), 1, uint64(50+n)).Data,
			normals[float64](1, 1, 1, len(x), 1, uint64(60+n)).Data}
		for i := 0; i < len(x); i += 1 + len(x)/7 {
			one := make([]float64, len(x))
			one[i] = 1
			directions = append(directions, one)
		}
		for i, dir := range directions {
			save := append([]float64(nil), x...)
			move := func(c float64) float64 {
				for j := range x {
					x[j] = save[j] + c*dir[j]
				}
				l := linearLoss(t, a, dout, q, k, v)
				copy(x, save)
				return l
			}
			plus, minus := move(h), move(-h)
			want, got := (plus-minus)/(2*h), dense.Dot(d[n].Data, dir)
			if !(math.Abs(got-want) <= tolerance*(1+math.Abs(want)+math.Abs(plus))) {
				t.Errorf("%s, direction %d: derivative %v, differences give %v", name, i, got, want)
			}
		}
	}
}

func TestLinearBackwardFamilies(t *testing.T) {
	stattest.SkipRace(t)
	const d = 4
	for name, f := range linearFamilies(t, d) {
		if f.Name() == "angular" || f.Name() == "hybrid" {
			continue // sgn of projections: differences may step over a jump; the others have all leaf kinds
		}
		m := testMap[float64](t, f, d, 6)
		for _, causal := range []bool{false, true} {
			for _, sinks := range []int{0, 2} {
				t.Run(fmt.Sprintf("%s/causal=%v/sinks=%d", name, causal, sinks), func(t *testing.T) {
					q, k, v := normals[float64](1, 1, 13, d, 0.6, 1), normals[float64](1, 1, 13, d, 0.6, 2),
						normals[float64](1, 1, 13, 3, 1, 3)
					a := &Attention[float64]{Maps: []randfeat.FeatureMap[float64]{m}, Chunk: 5, Sinks: sinks,
						Visibility: attention.Visibility{Causal: causal}}
					tolerance := 1e-6
					if !m.Positive() {
						tolerance = 1e-4 // denominators may be small
					}
					checkDerivative(t, a, q, k, v, tolerance)
				})
			}
		}
	}
}

// Masks, packed sequences, groups of heads, other lengths and chunks, windows and sinks.
func TestLinearBackwardShapes(t *testing.T) {
	stattest.SkipRace(t)
	const d = 4
	m := testMap[float64](t, family.OPRF{A: -0.05}, d, 7)
	other := testMap[float64](t, family.Hyperbolic{}, d, 7)
	mask := make([]bool, 2*14)
	for i := range mask {
		mask[i] = i%5 != 3 && i != 0 && i != 14
	}
	segments := make([]int32, 2*14)
	for i := range segments {
		segments[i] = int32(i%14) / 6
	}
	gauss, err := randfeat.New[float64](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Gaussian, Scale: 0.8},
		Family: family.Positive{}, Dim: d, M: 6, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	dark := testMap[float64](t, family.DARK{M: normals[float64](1, 1, 3, d, 0.7, 8).Head(0, 0)}, d, 6)
	for name, c := range map[string]struct {
		maps       []randfeat.FeatureMap[float64]
		vis        attention.Visibility
		lenQ, lenK int
		heads, kv  int
		chunk      int
	}{
		"groups":   {lenQ: 14, lenK: 14, heads: 6, kv: 2, chunk: 4},
		"own maps": {maps: []randfeat.FeatureMap[float64]{m, other}, lenQ: 14, lenK: 14, heads: 4, kv: 2, chunk: 6},
		"mask":     {vis: attention.Visibility{KeyMask: mask}, lenQ: 11, lenK: 14, heads: 2, kv: 1, chunk: 5},
		"segments": {vis: attention.Visibility{Segments: segments}, lenQ: 14, lenK: 14, heads: 2, kv: 2, chunk: 4},
		"segment mask": {vis: attention.Visibility{Segments: segments, KeyMask: mask}, lenQ: 14, lenK: 14, heads: 2,
			kv:    1,
			chunk: 4},
		"more keys":  {lenQ: 5, lenK: 14, heads: 1, kv: 1, chunk: 4},
		"fewer keys": {lenQ: 14, lenK: 5, heads: 2, kv: 1, chunk: 4},
		"one chunk":  {lenQ: 9, lenK: 9, heads: 1, kv: 1},
		"chunk of 1": {lenQ: 7, lenK: 7, heads: 1, kv: 1, chunk: 1},
		"gaussian":   {maps: []randfeat.FeatureMap[float64]{gauss}, lenQ: 9, lenK: 9, heads: 2, kv: 1, chunk: 4},
		"dark":       {maps: []randfeat.FeatureMap[float64]{dark}, lenQ: 9, lenK: 9, heads: 2, kv: 1, chunk: 4},
	} {
		for _, causal := range []bool{false, true} {
			for _, near := range [][2]int{{0, 0}, {1, 0}, {3, 0}, {20, 0}, {0, 2}, {3, 2}, {1, 20}} {
				window, sinks := near[0], near[1]
				t.Run(fmt.Sprintf("%s/causal=%v/window=%d/sinks=%d", name, causal, window, sinks), func(t *testing.T) {
					maps := c.maps
					if maps == nil {
						maps = []randfeat.FeatureMap[float64]{m}
					}
					vis := c.vis
					vis.Causal = causal
					q := transposed(normals[float64](2, c.heads, c.lenQ, d, 0.7, 11))
					k, v := normals[float64](2, c.kv, c.lenK, d, 0.7, 12), normals[float64](2, c.kv, c.lenK, 3, 1, 13)
					a := &Attention[float64]{Maps: maps, Visibility: vis, Chunk: c.chunk, Window: window,
						Sinks: sinks}
					checkDerivative(t, a, q, k, v, 1e-6)
				})
			}
		}
	}
}

// Keys whose norms jump by orders of magnitude, so that references are raised and the sweeps split their chunks:
// float32 stays finite and near float64.
func TestLinearBackwardFloat32(t *testing.T) {
	const d, length = 16, 300
	for _, name := range []string{"positive", "hyperbolic", "oprf", "dark", "lfk", "relu", "elu", "adaptive"} {
		f := linearFamilies(t, d)[name]
		m32, m64 := testMap[float32](t, f, d, 32), testMap[float64](t, f, d, 32)
		for _, causal := range []bool{false, true} {
			for _, large := range []float32{1, 12, 1000} {
				t.Run(fmt.Sprintf("%s/causal=%v/large=%v", name, causal, large), func(t *testing.T) {
					if strings.Contains("relu elu", name) && large > 12 {
						t.Skip("the products of such inputs are not exponents")
					}
					q, k, v := normals[float32](1, 2, length, d, 1, 21), normals[float32](1, 1, length, d, 1, 22),
						normals[float32](1, 1, length, 8, 1, 23)
					for _, i := range []int{70, 71, 150, 290} {
						for j := range d {
							k.Head(0, 0).Row(i)[j] *= large
							q.Head(0, 1).Row(i - 3)[j] *= large
						}
					}
					vis := attention.Visibility{Causal: causal}
					_, got := linearGradients(t, &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m32},
						Visibility: vis, Chunk: 64}, q, k, v, nil)
					_, want := linearGradients(t, &Attention[float64]{Maps: []randfeat.FeatureMap[float64]{m64},
						Visibility: vis, Chunk: 50}, widened(q), widened(k), widened(v), nil)
					for n, name := range []string{"dq", "dk", "dv"} {
						for i, x := range got[n].Data {
							if !dense.IsFinite(float64(x)) || !dense.IsFinite(want[n].Data[i]) {
								t.Fatalf("%s element %d is %v in float32, %v in float64", name, i, x, want[n].Data[i])
							}
						}
						// Exponents of large inputs are rounded in float32, as those of Forward are.
						tolerance := 1e-4
						if large > 1 {
							tolerance = 2e-2
						}
						top := math.Sqrt(dense.Norm2(want[n].Data))
						var diff float64
						for i, x := range got[n].Data {
							e := float64(x) - want[n].Data[i]
							diff += e * e
						}
						if !(math.Sqrt(diff) <= tolerance*top) {
							t.Errorf("%s differs by %.2g of its norm", name, math.Sqrt(diff)/top)
						}
					}
				})
			}
		}
	}
}

// Long sequences use several segments and, with several threads, parallel sums: the bits are the same.
func TestLinearBackwardDeterministic(t *testing.T) {
	const d, length = 8, 9000
	m := testMap[float32](t, family.DARK{M: normals[float64](1, 1, 5, d, 0.5, 8).Head(0, 0)}, d, 24)
	q, k, v := normals[float32](1, 2, length, d, 1, 31), normals[float32](1, 1, length, d, 1, 32),
		normals[float32](1, 1, length, 6, 1, 33)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, causal := range []bool{false, true} {
		var want [3]attention.Seq[float32]
		var wantM dense.Matrix[float64]
		for _, procs := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(procs)
			a := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m},
				Visibility: attention.Visibility{Causal: causal}}
			g, err := m.NewGrad()
			if err != nil {
				t.Fatal(err)
			}
			_, got := linearGradients(t, a, q, k, v, []*randfeat.Grad[float32]{g})
			gotM, err := g.Parameter()
			if err != nil {
				t.Fatal(err)
			}
			if procs == 1 {
				want, wantM = got, gotM
				continue
			}
			for n := range got {
				for i, x := range got[n].Data {
					if x != want[n].Data[i] {
						t.Fatalf("causal=%v, %d threads: gradient %d element %d is %v, was %v", causal, procs, n, i, x,
							want[n].Data[i])
					}
				}
			}
			for i, x := range gotM.Data {
				if x != wantM.Data[i] {
					t.Fatalf("causal=%v, %d threads: parameter %d is %v, was %v", causal, procs, i, x, wantM.Data[i])
				}
			}
		}
	}
}

// Parameter gradients of DARK and LFK against differences.
func TestLinearBackwardParameters(t *testing.T) {
	const d = 4
	dark := func(p dense.Matrix[float64]) family.Family { return family.DARK{M: p} }
	lfk := func(p dense.Matrix[float64]) family.Family { return family.LFK{W: p} }
	for name, c := range map[string]struct {
		at   dense.Matrix[float64]
		with func(dense.Matrix[float64]) family.Family
	}{"dark": {normals[float64](1, 1, 3, d, 0.6, 41).Head(0, 0), dark},
		"lfk": {normals[float64](1, 1, 6, d, 1, 42).Head(0, 0), lfk}} {
		for _, causal := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/causal=%v", name, causal), func(t *testing.T) {
				spec := randfeat.Spec{Kernel: kernel.Attention(d), Family: c.with(c.at), Dim: d, M: 6, Seed: 5}
				omega, err := randfeat.Draw(spec)
				if err != nil {
					t.Fatal(err)
				}
				attention := func(p dense.Matrix[float64]) *Attention[float64] {
					s := spec
					s.Family = c.with(p)
					m, err := randfeat.NewWithOmega[float64](s, omega)
					if err != nil {
						t.Fatal(err)
					}
					return &Attention[float64]{Maps: []randfeat.FeatureMap[float64]{m},
						Visibility: attention.Visibility{Causal: causal}, Chunk: 4}
				}
				q, k, v := normals[float64](2, 4, 11, d, 1, 43), normals[float64](2, 2, 11, d, 1, 44),
					normals[float64](2, 2, 11, 3, 1, 45)
				a := attention(c.at)
				g, err := a.Maps[0].(randfeat.Learnable[float64]).NewGrad()
				if err != nil {
					t.Fatal(err)
				}
				dout, _ := linearGradients(t, a, q, k, v, []*randfeat.Grad[float64]{g})
				got, err := g.Parameter()
				if err != nil {
					t.Fatal(err)
				}
				const h = 1e-5
				for i := range c.at.Rows {
					for j := range c.at.Cols {
						plus, minus := c.at.Clone(), c.at.Clone()
						plus.Row(i)[j] += h
						minus.Row(i)[j] -= h
						want := (linearLoss(t, attention(plus), dout, q, k, v) - linearLoss(t, attention(minus), dout,
							q, k, v)) / (2 * h)
						if !(math.Abs(got.At(i, j)-want) <= 1e-6*(1+math.Abs(want))) {
							t.Errorf("parameter %d,%d: derivative %v, differences give %v", i, j, got.At(i, j), want)
						}
					}
				}
			})
		}
	}
}

// Gradients approach those of exact attention as the number of features grows: the error falls about as 1/√m.
func TestLinearBackwardApproachesExact(t *testing.T) {
	const d, length = 8, 40
	q, k, v := normals[float64](1, 1, length, d, 0.4, 51), normals[float64](1, 1, length, d, 0.4, 52),
		normals[float64](1, 1, length, 4, 1, 53)
	for _, causal := range []bool{false, true} {
		vis := attention.Visibility{Causal: causal}
		exact := &attention.Exact[float64]{Visibility: vis}
		out := attention.NewSeq[float64](1, 1, length, v.Dim)
		if _, err := exact.Forward(out, q, k, v); err != nil {
			t.Fatal(err)
		}
		dout := normals[float64](1, 1, length, v.Dim, 1, 99)
		want := [3]attention.Seq[float64]{attention.NewSeq[float64](1, 1, length, d), attention.NewSeq[float64](1, 1,
			length, d),
			attention.NewSeq[float64](1, 1, length, v.Dim)}
		if err := exact.Backward(want[0], want[1], want[2], dout, out, q, k, v); err != nil {
			t.Fatal(err)
		}
		var last [3]float64
		for n, features := range []int{256, 16384} {
			a := &Attention[float64]{Maps: []randfeat.FeatureMap[float64]{testMap[float64](t, family.Positive{}, d,
				features)}, Visibility: vis}
			_, got := linearGradients(t, a, q, k, v, nil)
			for i := range got {
				var diff float64
				for j, x := range got[i].Data {
					e := x - want[i].Data[j]
					diff += e * e
				}
				relative := math.Sqrt(diff / dense.Norm2(want[i].Data))
				// A factor 8 in theory.
				if n == 1 && !(relative < last[i]/4 && relative < 0.1) {
					t.Errorf("causal=%v, gradient %d: relative error %.3g with 256 features, %.3g with 16384", causal,
						i, last[i], relative)
				}
				last[i] = relative
			}
		}
	}
}

// No queries, no keys, no values, or far more of one than of the other.
func TestLinearBackwardEmpty(t *testing.T) {
	const d = 4
	m := testMap[float64](t, family.OPRF{A: -0.05}, d, 7)
	for _, shape := range [][3]int{{0, 5, 3}, {5, 0, 3}, {5, 5, 0}, {0, 0, 3}, {1, 1, 1}, {3, 300, 2}, {300, 3, 2}} {
		for _, causal := range []bool{false, true} {
			for _, window := range []int{0, 2} {
				q, k, v := normals[float64](2, 2, shape[0], d, 1, 1), normals[float64](2, 1, shape[1], d, 1, 2),
					normals[float64](2, 1, shape[1], shape[2], 1, 3)
				a := &Attention[float64]{Maps: []randfeat.FeatureMap[float64]{m},
					Visibility: attention.Visibility{Causal: causal},
					Window:     window}
				out, dout := attention.NewSeq[float64](2, 2, shape[0], shape[2]), normals[float64](2, 2, shape[0],
					shape[2], 1, 4)
				if _, err := a.Forward(out, q, k, v); err != nil {
					t.Fatal(err)
				}
				d := [3]attention.Seq[float64]{normals[float64](2, 2, shape[0], d, 1, 5),
					normals[float64](2, 1, shape[1], d, 1, 6), normals[float64](2, 1, shape[1], shape[2], 1, 7)}
				if _, err := a.Backward(d[0], d[1], d[2], dout, out, q, k, v, nil); err != nil {
					t.Fatal(err)
				}
				none := shape[0] == 0 || shape[1] == 0 || shape[2] == 0
				for n := range d {
					for i, x := range d[n].Data {
						if !dense.IsFinite(x) || none && x != 0 {
							t.Fatalf("%v, causal=%v, window=%d: gradient %d element %d is %v", shape, causal, window, n,
								i, x)
						}
					}
				}
			}
		}
	}
}

func TestLinearBackwardErrors(t *testing.T) {
	const d = 4
	m := testMap[float32](t, family.DARK{M: dense.Identity[float64](d)}, d, 6)
	a := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}
	q, k, v := normals[float32](1, 1, 6, d, 1, 1), normals[float32](1, 1, 6, d, 1, 2),
		normals[float32](1, 1, 6, 3, 1, 3)
	out := attention.NewSeq[float32](1, 1, 6, 3)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	dq, dk, dv, dout := attention.NewSeq[float32](1, 1, 6, d), attention.NewSeq[float32](1, 1, 6, d),
		attention.NewSeq[float32](1, 1, 6, 3),
		normals[float32](1, 1, 6, 3, 1, 4)
	g, err := m.NewGrad()
	if err != nil {
		t.Fatal(err)
	}
	run := func(a *Attention[float32], dq, dout, q, v attention.Seq[float32], grads ...*randfeat.Grad[float32]) error {
		_, err := a.Backward(dq, dk, dv, dout, out, q, k, v, grads)
		return err
	}
	broken := func(s attention.Seq[float32]) attention.Seq[float32] {
		s.Data = append([]float32(nil), s.Data...)
		s.Data[5] = float32(math.NaN())
		return s
	}
	windowed := &Attention[float32]{Maps: a.Maps, Window: 2}
	for name, c := range map[string]struct {
		got, want error
		text      string
	}{
		"dq":        {run(a, attention.NewSeq[float32](1, 1, 5, d), dout, q, v), dense.ErrShape, "dq is"},
		"gradients": {run(a, dq, dout, q, v, g, g), dense.ErrShape, "parameter gradients"},
		"window":    {run(windowed, dq, dout, q, v, g), errors.ErrUnsupported, "window"},
		"dout infinite": {run(a, dq, broken(dout), q, v), dense.ErrNotFinite,
			"dout: batch 0, head 0, position 1, column 2"},
		"q infinite": {run(a, dq, dout, broken(q), v), dense.ErrNotFinite,
			"q: batch 0, head 0, position 1, column 1"},
		"v infinite": {run(a, dq, dout, q, broken(v)), dense.ErrNotFinite, "v: batch 0"},
	} {
		if !errors.Is(c.got, c.want) || !strings.Contains(fmt.Sprint(c.got), c.text) {
			t.Errorf("%s: error %v, want %v", name, c.got, c.want)
		}
	}
	if err := run(a, dq, dout, q, v, g); err != nil {
		t.Errorf("a correct call: %v", err)
	}
}

// BenchmarkLinearBackward also reports how many times Forward it takes.
func BenchmarkLinearBackward(b *testing.B) {
	const d, m, length = 64, 256, 16384
	q, k, v := normals[float32](1, 1, length, d, 1, 1), normals[float32](1, 1, length, d, 1, 2),
		normals[float32](1, 1, length, d, 1, 3)
	fm := testMap[float32](b, family.Positive{}, d, m)
	for _, causal := range []bool{false, true} {
		b.Run(fmt.Sprintf("causal=%v/d=%d/m=%d/L=%d", causal, d, m, length), func(b *testing.B) {
			a := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{fm},
				Visibility: attention.Visibility{Causal: causal}}
			out, dout := attention.NewSeq[float32](1, 1, length, d), normals[float32](1, 1, length, d, 1, 4)
			dq, dk, dv := attention.NewSeq[float32](1, 1, length, d), attention.NewSeq[float32](1, 1, length, d),
				attention.NewSeq[float32](1, 1, length, d)
			var forward, backward time.Duration
			for b.Loop() {
				t0 := time.Now()
				if _, err := a.Forward(out, q, k, v); err != nil {
					b.Fatal(err)
				}
				t1 := time.Now()
				if _, err := a.Backward(dq, dk, dv, dout, out, q, k, v, nil); err != nil {
					b.Fatal(err)
				}
				forward += t1.Sub(t0)
				backward += time.Since(t1)
			}
			b.ReportMetric(float64(backward)/float64(forward), "forwards")
			b.ReportMetric(float64(forward.Nanoseconds())/float64(b.N), "ns-forward")
		})
	}
}

// Every head with a map of its own gets the parameter gradient that it gets alone, on any number of workers.
func TestLinearBackwardParametersPerHead(t *testing.T) {
	const d, dv, heads, length = 4, 3, 3, 40
	maps, alone := make([]randfeat.FeatureMap[float64], heads), make([]dense.Matrix[float64], heads)
	newGrads := func() (g []*randfeat.Grad[float64]) {
		for _, m := range maps {
			one, err := m.(randfeat.Learnable[float64]).NewGrad()
			must(t, err)
			g = append(g, one)
		}
		return g
	}
	for h := range maps {
		maps[h] = testMap[float64](t, family.LFK{W: normals[float64](1, 1, 6, d, 1, uint64(60+h)).Head(0, 0)}, d, 6)
	}
	q, k, v := normals[float64](1, heads, length, d, 0.7, 51), normals[float64](1, heads, length, d, 0.7, 52),
		normals[float64](1, heads, length, dv, 1, 53)
	one := func(s attention.Seq[float64], h int) attention.Seq[float64] { return attention.One(s.Head(0, h)) }
	for h, m := range maps {
		g := newGrads()[h : h+1]
		a := &Attention[float64]{Maps: []randfeat.FeatureMap[float64]{m},
			Visibility: attention.Visibility{Causal: true}, Chunk: 8}
		out := attention.NewSeq[float64](1, 1, length, dv)
		_, err := a.Forward(out, one(q, h), one(k, h), one(v, h))
		must(t, err)
		_, err = a.Backward(attention.NewSeq[float64](1, 1, length, d), attention.NewSeq[float64](1, 1, length, d),
			attention.NewSeq[float64](1, 1, length, dv),
			one(v, h), out, one(q, h), one(k, h), one(v, h), g)
		must(t, err)
		alone[h], err = g[0].Parameter()
		must(t, err)
	}
	a := &Attention[float64]{Maps: maps, Visibility: attention.Visibility{Causal: true}, Chunk: 8}
	out, g := attention.NewSeq[float64](1, heads, length, dv), newGrads()
	_, err := a.Forward(out, q, k, v)
	must(t, err)
	_, err = a.Backward(attention.NewSeq[float64](1, heads, length, d), attention.NewSeq[float64](1, heads, length, d),
		attention.NewSeq[float64](1, heads, length, dv), v, out, q, k, v, g)
	must(t, err)
	for h := range maps {
		got, err := g[h].Parameter()
		must(t, err)
		if !slices.Equal(got.Data, alone[h].Data) {
			t.Errorf("head %d: its parameter gradient differs from that of the head alone", h)
		}
	}
}

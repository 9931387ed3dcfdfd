package centroid

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// backward returns out, dq, dk, dv for random upstream gradients.
func backward[T dense.Float](t testing.TB, a *Attention[T], q, k, v attention.Seq[T]) (dout, out, dq, dk,
	dv attention.Seq[T]) {
	t.Helper()
	r := rand.New(rand.NewPCG(51, 52))
	dout = random[T](r, 1, q.Batch, q.Heads, q.Len, v.Dim)
	out = attention.NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)
	dq, dk, dv = random[T](r, 1, q.Batch, q.Heads, q.Len, q.Dim), random[T](r, 1, k.Batch, k.Heads, k.Len, k.Dim),
		random[T](r, 1, v.Batch, v.Heads, v.Len, v.Dim)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	if err := a.Backward(dq, dk, dv, dout, out, q, k, v); err != nil {
		t.Fatal(err)
	}
	return dout, out, dq, dk, dv
}

// Gradients are the differences of the naive sum with clusters, weights and choices held.
func TestBackwardByDifferences(t *testing.T) {
	for _, c := range shapeCases {
		if c.name == "sampled" || c.name == "window" || c.name == "all" && testing.Short() {
			continue
		}
		a, q, k, v := makeCase[float64](t, c)
		if c.mask { // numbers that nobody reads would be in the way of differences
			for i, x := range k.Data {
				if math.IsNaN(x) {
					k.Data[i] = 0
				}
			}
		}
		dout, out, dq, dk, dv := backward(t, a, q, k, v)
		var x call[float64]
		if err := x.start(a, out, q, k, v); err != nil {
			t.Fatal(err)
		}
		x.prepare()
		tied := 0
		some := min(x.used, 2) // they are alike
		if testing.Short() {
			some = 1
		}
		for _, p := range x.problems[:some] {
			// The loss of one problem: the others do not depend on its data.
			loss := func() (sum float64, gap float64) {
				gap = math.Inf(1)
				for g := range x.group {
					h := p.h*x.group + g
					rows, gaps, _ := naive(&x, p, q.Head(p.b, h), faithful)
					for i, row := range rows {
						for l, o := range row {
							sum += o * dout.Head(p.b, h).At(p.span.Q0+i, l)
						}
						gap = min(gap, gaps[i])
					}
				}
				return sum, gap
			}
			if _, gap := loss(); gap < 1e-5 {
				tied++
				continue
			}
			r := rand.New(rand.NewPCG(61, 62))
			check := func(name string, m, grad dense.Matrix[float64], i int) {
				if i < 0 {
					return
				}
				l := r.IntN(m.Cols)
				const h = 1e-6
				at := m.At(i, l)
				m.Set(i, l, at+h)
				up, _ := loss()
				m.Set(i, l, at-h)
				down, _ := loss()
				m.Set(i, l, at)
				want := (up - down) / (2 * h)
				if got := grad.At(i, l); math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
					t.Errorf("%s: d%s at %d, %d is %v, differences say %v", c.name, name, i, l, got, want)
				}
			}
			pick := func(lo, hi int) int {
				if hi == lo {
					return -1
				}
				return lo + r.IntN(hi-lo)
			}
			for range 3 {
				h := p.h*x.group + r.IntN(x.group)
				check("q", q.Head(p.b, h), dq.Head(p.b, h), pick(p.span.Q0, p.span.Q1))
				check("k", k.Head(p.b, p.h), dk.Head(p.b, p.h), pick(p.span.K0, p.span.K1))
				check("v", v.Head(p.b, p.h), dv.Head(p.b, p.h), pick(p.span.K0, p.span.K1))
			}
		}
		if tied == some {
			t.Errorf("%s: all problems have a tie", c.name)
		}
	}
}

// Where attention is exact the gradients are.
func TestBackwardLimitsAreExact(t *testing.T) {
	for _, c := range shapeCases {
		for _, change := range []func(*Spec){
			func(s *Spec) { s.Clusters, s.Top = 1000, 0 },
			func(s *Spec) { s.Clusters = max(s.Clusters, 2); s.Top = s.Clusters },
			func(s *Spec) { s.Window = max(c.lq, c.lk) },
		} {
			a, q, k, v := makeCase[float64](t, c)
			if change(&a.Specs[0]); c.centres {
				a.Centres = nil
			}
			dout, out, dq, dk, dv := backward(t, a, q, k, v)
			e := attention.Exact[float64]{Visibility: a.Visibility}
			wq, wk, wv := attention.NewSeq[float64](q.Batch, q.Heads, q.Len, q.Dim),
				attention.NewSeq[float64](k.Batch, k.Heads, k.Len, k.Dim),
				attention.NewSeq[float64](v.Batch, v.Heads, v.Len, v.Dim)
			if err := e.Backward(wq, wk, wv, dout, out, q, k, v); err != nil {
				t.Fatal(err)
			}
			for i, s := range [][2][]float64{{dq.Data, wq.Data}, {dk.Data, wk.Data}, {dv.Data, wv.Data}} {
				for j := range s[0] {
					if !(math.Abs(s[0][j]-s[1][j]) <= 1e-10*(1+math.Abs(s[1][j]))) {
						t.Fatalf("%s, %+v: gradient %d is %v at %d, exact attention has %v", c.name, a.Specs[0], i,
							s[0][j], j,
							s[1][j])
					}
				}
			}
		}
	}
}

func TestBackwardFloat32AndCores(t *testing.T) {
	for _, c := range shapeCases[:7] {
		a, q, k, v := makeCase[float64](t, c)
		_, _, dq, dk, dv := backward(t, a, q, k, v)
		b, q32, k32, v32 := makeCase[float32](t, c)
		b.Centres, b.Specs = a.Centres, a.Specs
		old := runtime.GOMAXPROCS(1)
		_, _, eq, ek, ev := backward(t, b, q32, k32, v32)
		runtime.GOMAXPROCS(4)
		_, _, fq, fk, fv := backward(t, b, q32, k32, v32)
		runtime.GOMAXPROCS(old)
		if !slices.Equal(eq.Data, fq.Data) || !slices.Equal(ek.Data, fk.Data) || !slices.Equal(ev.Data, fv.Data) {
			t.Errorf("%s: other bits on more cores", c.name)
		}
		if c.spec.Top > 0 {
			continue // a choice near a tie may fall to the other side
		}
		for i, s := range [][2]any{{dq, eq}, {dk, ek}, {dv, ev}} {
			x, y := s[0].(attention.Seq[float64]), s[1].(attention.Seq[float32])
			for j := range x.Data {
				if math.Abs(x.Data[j]-float64(y.Data[j])) > 2e-3*(1+math.Abs(x.Data[j])) {
					t.Fatalf("%s: gradient %d in float32 is %v at %d, in float64 %v", c.name, i, y.Data[j], j,
						x.Data[j])
				}
			}
		}
	}
}

func TestBackwardErrors(t *testing.T) {
	a, q, k, v := makeCase[float32](t, shapeCases[0])
	dout, out, dq, dk, dv := backward(t, a, q, k, v)
	bad := dk
	bad.Len--
	if a.Backward(dq, bad, dv, dout, out, q, k, v) == nil {
		t.Error("dk of another length: no error")
	}
	dout.Data[1] = float32(math.Inf(1))
	if a.Backward(dq, dk, dv, dout, out, q, k, v) == nil {
		t.Error("an infinite dout: no error")
	}
}

// causalCases are specs of causal attention whose gradients differ in kind.
var causalCases = []Spec{
	{Clusters: 6, Window: 4, Block: 4, Sinks: 2},
	{Clusters: 6, Block: 8, Spread: true},
	{Clusters: 6, Window: 4, Block: 4, Sinks: 1, Top: 2},
	{Clusters: 6, Window: 4, Block: 8, Sinks: 1, Top: 2, Spread: true, Shared: true},
	{Clusters: 6, Window: 4, Block: 4, Sinks: 1, Top: 3, Keys: 5, Spread: true},
	{Clusters: 6, Window: 4, Block: 4, Top: 3, Keys: 5, Spread: true, Shared: true, Residual: 3},
	{Window: 5, Block: 4, Sinks: 3},
}

// Gradients of causal attention are the differences of Forward: what is held constant changes in steps only.
func TestCausalBackwardByDifferences(t *testing.T) {
	const n = 90
	for i, spec := range causalCases {
		in := makeInput[float64](uint64(40+i), 2, 4, 2, n-8*(i%2), n, 6, 5, 0.7)
		vis := attention.Visibility{Causal: true}
		if i%3 == 1 {
			vis.KeyMask = make([]bool, 2*n)
			for j := range vis.KeyMask {
				vis.KeyMask[j] = j%7 != 3
			}
		}
		a := &Attention[float64]{Visibility: vis, Specs: []Spec{spec}}
		if spec.Clusters > 0 {
			a.Centres = centresOf[float64](t, spec, 4, 2, 6, 5)
		}
		r := rand.New(rand.NewPCG(71, 72))
		dout := random[float64](r, 1, 2, 4, in.q.Len, 5)
		out := forward(t, a, in)
		dq, dk, dv := random[float64](r, 1, 2, 4, in.q.Len, 6), random[float64](r, 1, 2, 2, n, 6), random[float64](r,
			1, 2, 2, n, 5)
		if err := a.Backward(dq, dk, dv, dout, out, in.q, in.k, in.v); err != nil {
			t.Fatal(err)
		}
		loss := func() (sum float64) {
			for j, o := range forward(t, a, in).Data {
				sum += o * dout.Data[j]
			}
			return sum
		}
		bad, trials := 0, 45
		if testing.Short() {
			trials = 12
		}
		for trial := range trials {
			s, grad := in.q, dq
			switch trial % 3 {
			case 1:
				s, grad = in.k, dk
			case 2:
				s, grad = in.v, dv
			}
			b, h, l, c := r.IntN(2), r.IntN(s.Heads), r.IntN(s.Len), r.IntN(s.Dim)
			const step = 1e-6
			at := s.Head(b, h).At(l, c)
			s.Head(b, h).Set(l, c, at+step)
			up := loss()
			s.Head(b, h).Set(l, c, at-step)
			down := loss()
			s.Head(b, h).Set(l, c, at)
			want := (up - down) / (2 * step)
			if got := grad.Head(b, h).At(l, c); math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Logf("%+v: gradient %d of batch %d, head %d, %d, %d is %v, differences say %v", spec, trial%3, b, h, l, c,
					got, want)
				bad++
			}
		}
		// A residual number of a key, a choice, or the bound of σ² may lie within a step of its edge, hardly twice.
		if bad > 1 {
			t.Errorf("%+v: %d of %d gradients differ", spec, bad, trials)
		}
	}
}

// Where causal attention is exact its gradients are, on any number of cores.
func TestCausalBackwardLimits(t *testing.T) {
	const n = 140
	in := makeInput[float64](50, 1, 4, 2, n, n, 6, 5, 0.7)
	exact := attention.Exact[float64]{Visibility: attention.Visibility{Causal: true}}
	for _, spec := range []Spec{{Clusters: 5, Top: 5, Block: 8}, {Clusters: 5, Top: 5, Keys: n, Block: 8, Spread: true},
		{Clusters: 5, Window: n, Block: 8}, {Window: n}} {
		a := &Attention[float64]{Visibility: exact.Visibility, Specs: []Spec{spec}}
		if spec.Clusters > 0 {
			a.Centres = centresOf[float64](t, spec, 4, 2, 6, 5)
		}
		dout, out, dq, dk, dv := backward(t, a, in.q, in.k, in.v)
		wq, wk, wv := attention.NewSeq[float64](1, 4, n, 6), attention.NewSeq[float64](1, 2, n, 6),
			attention.NewSeq[float64](1, 2, n, 5)
		if err := exact.Backward(wq, wk, wv, dout, out, in.q, in.k, in.v); err != nil {
			t.Fatal(err)
		}
		for i, s := range [][2][]float64{{dq.Data, wq.Data}, {dk.Data, wk.Data}, {dv.Data, wv.Data}} {
			for j := range s[0] {
				if !(math.Abs(s[0][j]-s[1][j]) <= 1e-10*(1+math.Abs(s[1][j]))) {
					t.Fatalf("%+v: gradient %d is %v at %d, exact attention has %v", spec, i, s[0][j], j, s[1][j])
				}
			}
		}
		old := runtime.GOMAXPROCS(1)
		_, _, eq, ek, ev := backward(t, a, in.q, in.k, in.v)
		runtime.GOMAXPROCS(old)
		if !slices.Equal(eq.Data, dq.Data) || !slices.Equal(ek.Data, dk.Data) || !slices.Equal(ev.Data, dv.Data) {
			t.Errorf("%+v: other bits on one core", spec)
		}
	}
	a := &Attention[float64]{Visibility: exact.Visibility, Specs: []Spec{{Clusters: 4}}}
	out := forward(t, a, in)
	if a.Backward(in.q, in.k, in.v, out, out, in.q, in.k, in.v) == nil {
		t.Error("no centres: no error")
	}
}

// Keys that enter clusters in one chunk of positions get gradients from queries of all later ones.
func TestCausalBackwardAcrossChunks(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const n = 2*chunkKeys + 150
	in := makeInput[float64](60, 1, 1, 1, n, n, 3, 2, 0.7)
	spec := Spec{Clusters: 4, Window: 8, Block: 16, Sinks: 1, Top: 1, Keys: 6, Spread: true, Residual: 2}
	a := &Attention[float64]{Visibility: attention.Visibility{Causal: true}, Specs: []Spec{spec},
		Centres: centresOf[float64](t, spec, 1, 1, 3, 2)}
	dout, _, _, dk, dv := backward(t, a, in.q, in.k, in.v)
	bad := 0
	for trial, l := range []int{0, 5, 900, chunkKeys - 20, chunkKeys - 8, chunkKeys + 1, 2*chunkKeys - 9,
		2*chunkKeys + 3, n - 1} {
		s, grad := in.k, dk
		if trial%2 == 1 {
			s, grad = in.v, dv
		}
		loss := func() (sum float64) {
			for j, o := range forward(t, a, in).Data {
				sum += o * dout.Data[j]
			}
			return sum
		}
		const step = 1e-6
		at := s.Head(0, 0).At(l, 1)
		s.Head(0, 0).Set(l, 1, at+step)
		up := loss()
		s.Head(0, 0).Set(l, 1, at-step)
		down := loss()
		s.Head(0, 0).Set(l, 1, at)
		want := (up - down) / (2 * step)
		if got := grad.Head(0, 0).At(l, 1); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
			t.Logf("gradient of key or value %d is %v, differences say %v", l, got, want)
			bad++
		}
	}
	if bad > 1 { // see TestCausalBackwardByDifferences
		t.Errorf("%d of 9 gradients differ", bad)
	}
}

// The queries of one head are the work of many, with the bits of one: tasks that overlap in neighbours, sinks, chosen
// clusters and centroids add to them in their order.
func TestBackwardBitsOfOneHead(t *testing.T) {
	const length, dim, workers = 2300, 16, 8
	q, k, v := speech(5, 2, length, dim)
	k, v = one(k), one(v)
	a := Attention[float32]{Specs: []Spec{{Clusters: 24, Top: 3, Window: 40, Block: 16, Sinks: 3}}}
	out, dout := attention.NewSeq[float32](1, 2, length, dim), attention.NewSeq[float32](1, 2, length, dim)
	copy(dout.Data, q.Data)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	var want [3][]float32
	for _, procs := range []int{1, 3, workers} {
		old := runtime.GOMAXPROCS(procs)
		dq := attention.NewSeq[float32](1, 2, length, dim)
		dk, dv := attention.NewSeq[float32](1, 1, length, dim), attention.NewSeq[float32](1, 1, length, dim)
		err := a.Backward(dq, dk, dv, dout, out, q, k, v)
		runtime.GOMAXPROCS(old)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range []attention.Seq[float32]{dq, dk, dv} {
			if procs == 1 {
				want[i] = s.Data
			} else if !slices.Equal(s.Data, want[i]) {
				t.Errorf("%d threads: gradient %d has other bits than with one", procs, i)
			}
		}
	}
}

// one is the first head.
func one(s attention.Seq[float32]) attention.Seq[float32] {
	s.Heads = 1
	return s
}

// The same causal: tasks of a stream share clusters, exact keys and neighbours.
func TestCausalBackwardBitsOfOneHead(t *testing.T) {
	const n = 3*gradPositions + 100
	in := makeInput[float32](61, 1, 2, 1, n, n, 4, 4, 0.7)
	spec := Spec{Clusters: 4, Window: 8, Block: 16, Sinks: 1, Top: 2, Keys: 6, Residual: 2}
	a := &Attention[float32]{Visibility: attention.Visibility{Causal: true}, Specs: []Spec{spec},
		Centres: centresOf[float32](t, spec, 1, 1, 4, 4)}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want [3][]float32
	for _, procs := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(procs)
		items := 0
		observe := func(n, _ int) { items = n } // of the last step
		par.Observe.Store(&observe)
		_, _, dq, dk, dv := backward(t, a, in.q, in.k, in.v)
		par.Observe.Store(nil)
		if items != 4 {
			t.Errorf("%d tasks, want 4", items)
		}
		for i, s := range []attention.Seq[float32]{dq, dk, dv} {
			if procs == 1 {
				want[i] = s.Data
			} else if !slices.Equal(s.Data, want[i]) {
				t.Errorf("%d threads: gradient %d has other bits than with one", procs, i)
			}
		}
	}
}

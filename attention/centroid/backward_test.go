package centroid

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
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

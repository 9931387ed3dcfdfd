package attention

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/stattest"
)

// gradOf is a fixed gradient of the shape of out.
func gradOf[T dense.Float](out Seq[T]) Seq[T] {
	return gaussianSeq[T](11, out.Batch, out.Heads, out.Len, out.Dim)
}

// backward returns dq, dk, dv for gradOf(out).
func backward[T dense.Float](t *testing.T, a *Exact[T], out, q, k, v Seq[T]) [3]Seq[T] {
	t.Helper()
	g := [3]Seq[T]{gaussianSeq[T](21, q.Batch, q.Heads, q.Len, q.Dim), gaussianSeq[T](22, k.Batch, k.Heads, k.Len,
		k.Dim), gaussianSeq[T](23, v.Batch, v.Heads, v.Len, v.Dim)}
	if err := a.Backward(g[0], g[1], g[2], gradOf(out), out, q, k, v); err != nil {
		t.Fatal(err)
	}
	return g
}

// naiveBackward differentiates through the L×L matrix of probabilities in float64.
func naiveBackward[T dense.Float](a *Exact[T], dout, q, k, v Seq[T]) [3]Seq[T] {
	scale := a.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Dim))
	}
	dq, dk, dv := NewSeq[float64](q.Batch, q.Heads, q.Len, q.Dim), NewSeq[float64](k.Batch, k.Heads, k.Len, k.Dim),
		NewSeq[float64](v.Batch, v.Heads, v.Len, v.Dim)
	for b := range q.Batch {
		for h := range q.Heads {
			kh := h * k.Heads / q.Heads
			qs, ks, vs, do := q.Head(b, h), k.Head(b, kh), v.Head(b, kh), dout.Head(b, h)
			gq, gk, gv := dq.Head(b, h), dk.Head(b, kh), dv.Head(b, kh)
			for i, p := range naiveProbabilities(a, q, k, b, h) {
				dp := make([]float64, k.Len)
				var mean float64
				for j := range dp {
					for c, g := range do.Row(i) {
						dp[j] += float64(g) * float64(vs.At(j, c))
						gv.Row(j)[c] += p[j] * float64(g)
					}
					mean += p[j] * dp[j]
				}
				for j := range dp {
					ds := p[j] * (dp[j] - mean) * scale
					for c := range q.Dim {
						gq.Row(i)[c] += ds * float64(ks.At(j, c))
						gk.Row(j)[c] += ds * float64(qs.At(i, c))
					}
				}
			}
		}
	}
	var g [3]Seq[T]
	for n, s := range []Seq[float64]{dq, dk, dv} {
		g[n] = NewSeq[T](s.Batch, s.Heads, s.Len, s.Dim)
		for i, x := range s.Data {
			g[n].Data[i] = T(x)
		}
	}
	return g
}

func TestExactBackwardEqualsNaive(t *testing.T) {
	stattest.SkipRace(t)
	for _, c := range exactCases {
		t.Run(c.name, func(t *testing.T) {
			t.Run("float32", func(t *testing.T) { checkBackward[float32](t, c) })
			t.Run("float64", func(t *testing.T) { checkBackward[float64](t, c) })
		})
	}
}

func checkBackward[T dense.Float](t *testing.T, c exactCase) {
	a, q, k, v := exactOf[T](c)
	out := forward(t, a, q, k, v)
	got := backward(t, a, out, q, k, v)
	want := naiveBackward(a, gradOf(out), q, k, v)
	for n, name := range []string{"dq", "dk", "dv"} {
		if e := maxDiff(t, got[n], want[n]); e > 2*tolerance[T]() {
			t.Errorf("%s differs from the L×L matrix by %.2g", name, e)
		}
	}
	a.Keep = new(Normalisers[T])
	forward(t, a, q, k, v)
	kept := backward(t, a, out, q, k, v)
	if err := errors.Join(sameBits(kept[0], got[0]), sameBits(kept[1], got[1]), sameBits(kept[2], got[2])); err != nil {
		t.Errorf("kept normalisers: %v", err)
	}
}

func TestExactBackwardIsTheDerivative(t *testing.T) {
	// Central differences of step 1e-5 are accurate to about 1e-10 in float64; the bound leaves room for roundoff
	// 1e-16/1e-5.
	const step = 1e-5
	for _, c := range []exactCase{
		{batch: 1, heads: 2, kvHeads: 1, lenQ: 5, lenK: 7, dim: 3, valDim: 2},
		{batch: 1, heads: 2, kvHeads: 1, lenQ: 7, lenK: 7, dim: 3, valDim: 2, causal: true, window: 4, scale: 0.9},
		{batch: 2, heads: 2, kvHeads: 2, lenQ: 141, lenK: 141, dim: 2, valDim: 2, mask: true},
	} {
		a, q, k, v := exactOf[float64](c)
		out := forward(t, a, q, k, v)
		dout := gradOf(out)
		loss := func() (s float64) {
			for i, o := range forward(t, a, q, k, v).Data {
				s += o * dout.Data[i]
			}
			return s
		}
		for n, g := range backward(t, a, out, q, k, v) {
			x := []Seq[float64]{q, k, v}[n]
			for i := 0; i < len(x.Data); i += 1 + len(x.Data)/40 {
				at := x.Data[i]
				x.Data[i] = at + step
				up := loss()
				x.Data[i] = at - step
				down := loss()
				x.Data[i] = at
				if d := (up - down) / (2 * step); math.Abs(d-g.Data[i]) > 1e-8*(1+math.Abs(d)) {
					t.Errorf("%s %d: derivative %v, difference quotient %v", []string{"dq", "dk", "dv"}[n], i,
						g.Data[i], d)
				}
			}
		}
	}
}

func TestExactBackwardWithoutKeys(t *testing.T) {
	a := &Exact[float64]{Visibility: Visibility{Segments: []int32{1, 2}, KeySegments: []int32{1, 1, 3}}}
	q, k, v := gaussianSeq[float64](1, 1, 1, 2, 4), gaussianSeq[float64](2, 1, 1, 3, 4),
		gaussianSeq[float64](3, 1, 1, 3, 2)
	g := backward(t, a, forward(t, a, q, k, v), q, k, v)
	zero := NewSeq[float64](1, 1, 1, 4)
	if err := errors.Join(sameBits(slice(g[0], 0, 1, 2), zero), sameBits(slice(g[1], 0, 2, 3), zero)); err != nil {
		t.Errorf("gradients of a query without keys and of a key without queries: %v", err)
	}
	empty := NewSeq[float64](1, 1, 0, 4)
	g = backward(t, &Exact[float64]{}, empty, empty, k, k)
	if err := errors.Join(sameBits(g[1], NewSeq[float64](1, 1, 3, 4)),
		sameBits(g[2], NewSeq[float64](1, 1, 3, 4))); err != nil {
		t.Errorf("no queries: %v", err)
	}
	g = backward(t, &Exact[float64]{}, NewSeq[float64](1, 1, 2, 4), q, empty, empty)
	if err := sameBits(g[0], NewSeq[float64](1, 1, 2, 4)); err != nil {
		t.Errorf("no keys: %v", err)
	}
}

// A panic in a block of keys ends the blocks that wait for it, reaches the caller, and leaves nothing behind.
func TestPanicOfAKeyBlockReachesTheCaller(t *testing.T) {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		t.Fatal(err)
	}
	bomb := errors.New("bomb")
	var left atomic.Int64
	mined := *tab
	mined.TMul = func(dst, x, y dense.Matrix[float32]) {
		if left.Add(-1) == 0 {
			time.Sleep(5 * time.Millisecond) // later blocks come to wait for this one
			panic(bomb)
		}
		tab.TMul(dst, x, y)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	a, q := &Exact[float32]{}, gaussianSeq[float32](1, 1, 1, 6*gradBlock, 8)
	out := forward(t, a, q, q, q)
	want := backward(t, a, out, q, q, q)
	for _, at := range []int64{1, 2, 9, 40} {
		slot := a.calls.Get()
		par.Held[exactCall[float32]](slot).tab = &mined
		a.calls.Put(slot)
		left.Store(at)
		ended := make(chan *par.Panic, 1)
		go func() { ended <- par.Catch(func() { backward(t, a, out, q, q, q) }) }()
		select {
		case p := <-ended:
			if !errors.Is(p, bomb) {
				t.Errorf("product %d panicked, the caller got %v", at, p)
			}
		case <-time.After(time.Minute):
			t.Fatalf("product %d panicked, and the other blocks wait", at)
		}
		got := backward(t, a, out, q, q, q)
		for i := range got {
			if err := sameBits(got[i], want[i]); err != nil {
				t.Errorf("after a panic: %v", err)
			}
		}
	}
}

package centroid

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/internal/kern"
)

// grouped are heads of which two query heads share a key head.
func grouped(kvHeads, length, dim int, seed uint64) (q, k, v attention.Seq[float32]) {
	q, k, v = heads.Generate[float32](2*kvHeads, length, dim, seed)
	k.Heads, v.Heads = kvHeads, kvHeads
	return q, k, v
}

// naiveRow is the definition: weights of keys that are exact, and of the centroids of all clusters but the chosen ones.
type naiveRow struct {
	num []float64
	den float64
}

func (n *naiveRow) add(weight float64, v []float64) {
	for i, x := range v {
		n.num[i] += weight * x
	}
	n.den += weight
}

// wide is a row in float64.
func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// near1 reports rows that differ by more than a float64 sum in another order may.
func near1(t *testing.T, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= tol) {
			t.Fatalf("%s, column %d: %v, want %v", what, i, got[i], w)
		}
	}
}

// sameBits is Forward, whose bits do not depend on the number of threads.
func sameBits(t *testing.T, a *Attention, q, k, v attention.Seq[float32]) (first attention.Seq[float32]) {
	t.Helper()
	for _, procs := range []int{1, 2, 7} {
		was := runtime.GOMAXPROCS(procs)
		out := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
		_, err := a.Forward(out, q, k, v)
		runtime.GOMAXPROCS(was)
		if err != nil {
			t.Fatal(err)
		}
		if procs == 1 {
			first = out
		} else if !slices.Equal(out.Data, first.Data) {
			t.Errorf("%+v: other bits with %d threads", a.Specs[0], procs)
		}
	}
	return first
}

// errorOf is |got − want| / |want| over all heads.
func errorOf(got, want attention.Seq[float32]) float64 {
	var diff, size float64
	for i, w := range want.Data {
		d := float64(got.Data[i] - w)
		diff, size = diff+d*d, size+float64(w)*float64(w)
	}
	return math.Sqrt(diff / size)
}

// sameRows compares the rows of At and of trials with all rows.
func sameRows(t *testing.T, a *Attention, trials *Trials, all attention.Seq[float32], rows []int,
	q, k, v attention.Seq[float32]) {
	t.Helper()
	at := attention.NewSeq[float32](1, q.Heads, len(rows), v.Dim)
	tried := attention.NewSeq[float32](1, q.Heads, len(rows), v.Dim)
	if err := a.At(at, rows, q, k, v); err != nil {
		t.Fatal(err)
	}
	if err := trials.At(tried, rows, a.Specs[0]); err != nil {
		t.Fatal(err)
	}
	for h := range q.Heads {
		for i, l := range rows {
			if want := all.Head(0, h).Row(l); !slices.Equal(at.Head(0, h).Row(i), want) ||
				!slices.Equal(tried.Head(0, h).Row(i), want) {
				t.Errorf("%+v, head %d, row %d: other bits than Forward", a.Specs[0], h, l)
			}
		}
	}
}

// With all keys exact the result is exact attention, whatever the sizes of logits: references of rows follow.
func TestDenseExact(t *testing.T) {
	const length, dim = 330, 32
	for _, s := range []Spec{Blocks{Clusters: 24, Queries: 64, Keys: 1000},
		Prefix{Clusters: 8, Chunk: 64, Queries: 32, Window: 16, Keys: 1000},
		Sketch{Clusters: 8, Chunk: 64, Window: 16, Sinks: 2, Share: 1e-12}} {
		for _, size := range []float32{0.1, 1, 40} {
			q, k, v := grouped(2, length, dim, 4)
			kern.Best[float32]().Scale(q.Data, size)
			vis := attention.Visibility{Causal: s.Causal()}
			a := &Attention{Visibility: vis, Specs: []Spec{s}}
			got, want := attention.NewSeq[float32](1, 4, length, dim), attention.NewSeq[float32](1, 4, length, dim)
			if _, err := a.Forward(got, q, k, v); err != nil {
				t.Fatal(err)
			}
			if _, err := (&attention.Exact[float32]{Visibility: vis}).Forward(want, q, k, v); err != nil {
				t.Fatal(err)
			}
			for i, w := range want.Data {
				if d := math.Abs(float64(got.Data[i] - w)); d > 2e-4*float64(size) {
					t.Fatalf("%T, size %v: %v, want %v", s, size, got.Data[i], w)
				}
			}
		}
	}
}

// Token by token, chunks give what Forward gives for blocks of one position, however the tokens are divided; a fork
// goes on by itself.
func TestChunksState(t *testing.T) {
	s := Sketch{Clusters: 16, Chunk: 32, Window: 10, Sinks: 3, Share: 0.05}
	const length, dim = 300, 16
	q, k, v := grouped(2, length, dim, 6)
	a := &Attention{Visibility: attention.Visibility{Causal: true}, Specs: []Spec{s}}
	want := attention.NewSeq[float32](1, 4, length, dim)
	if _, err := a.Forward(want, q, k, v); err != nil {
		t.Fatal(err)
	}
	part := func(m attention.Seq[float32], lo, hi int) attention.Seq[float32] {
		m.Data, m.Len = m.Data[lo*m.StrideL:], hi-lo
		return m
	}
	run := func(state State, out attention.Seq[float32], from int, sizes ...int) {
		t.Helper()
		for i := 0; from < length; i++ {
			to := min(length, from+sizes[i%len(sizes)])
			err := state.Step(part(out, from, to), part(q, from, to), part(k, from, to), part(v, from, to))
			if err != nil {
				t.Fatal(err)
			}
			from = to
		}
		if state.Len() != length || state.Report().Rows == 0 || state.Bytes() == 0 {
			t.Errorf("%d tokens, %+v, %d bytes", state.Len(), state.Report(), state.Bytes())
		}
	}
	fresh := func() *Chunks {
		c, err := NewChunks(a, q.Shape, v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, parts, forked := attention.NewSeq[float32](1, 4, length, dim), attention.NewSeq[float32](1, 4, length, dim),
		attention.NewSeq[float32](1, 4, length, dim)
	run(fresh(), one, 0, 1)
	run(fresh(), parts, 0, 100, 1, 63)
	if !slices.Equal(one.Data, parts.Data) {
		t.Error("outputs depend on how tokens are divided")
	}
	base := fresh()
	if err := base.Step(part(forked, 0, 170), part(q, 0, 170), part(k, 0, 170), part(v, 0, 170)); err != nil {
		t.Fatal(err)
	}
	fork := base.Fork()
	run(base, attention.NewSeq[float32](1, 4, length, dim), 170, 7)
	run(fork, forked, 170, 50)
	if !slices.Equal(one.Data, forked.Data) {
		t.Error("a fork goes on with other outputs")
	}
	for i, w := range want.Data {
		if d := math.Abs(float64(one.Data[i] - w)); d > 1e-4 {
			t.Fatalf("element %d: %v, Forward has %v", i, one.Data[i], w)
		}
	}
	base.Reset()
	if base.Len() != 0 {
		t.Error("tokens after Reset")
	}
	again := attention.NewSeq[float32](1, 4, length, dim)
	run(base, again, 0, 37)
	if !slices.Equal(one.Data, again.Data) {
		t.Error("other outputs after Reset")
	}
	plain := &Attention{Specs: []Spec{Prefix{Clusters: 4, Chunk: 16, Keys: 2, Queries: 8}}}
	if _, err := NewChunks(plain, q.Shape, v.Shape); !errors.Is(err, ErrSpec) {
		t.Errorf("chunks without sketches: %v", err)
	}
}

// Sorted queries are in blocks of equal size, and queries of two far groups do not share one.
func TestRowOrder(t *testing.T) {
	const n, leaf = 256, 32
	var o rowOrder
	var pick selector
	run := func(z dense.Matrix[float32]) {
		o.begin(n)
		o.set(0, z)
		o.split(&pick, orderPart{hi: n}, leaf)
	}
	z := dense.New[float32](n, 8)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range z.Data {
		z.Data[i] = float32(0.1 * r.NormFloat64())
	}
	group := func(i int) int { return i * 2654435761 >> 7 & 1 }
	var left int
	for i := range n {
		if group(i) == 1 {
			z.Row(i)[5] += 10
		} else {
			left++
		}
	}
	run(z)
	mixed := 0
	for lo := 0; lo < n; lo += leaf {
		ones := 0
		for _, i := range o.order[lo : lo+leaf] {
			ones += group(int(i))
		}
		if ones != 0 && ones != leaf {
			mixed++
		}
	}
	if mixed > 1 || left < leaf || left > n-leaf {
		t.Errorf("%d blocks have rows of both groups, %d rows are of the first", mixed, left)
	}
	// Equal rows keep their order: there is no direction.
	clear(z.Data)
	run(z)
	for i, r := range o.order {
		if int(r) != i {
			t.Fatalf("row %d of equal ones is %d", i, r)
		}
	}
}

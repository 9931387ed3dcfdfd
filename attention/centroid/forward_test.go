package centroid

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

type shapeCase struct {
	name                     string
	batch, heads, kv, lq, lk int
	d, dv                    int
	spec                     Blocks
	mask, packed, other      bool
}

var shapeCases = []shapeCase{
	{name: "plain", batch: 1, heads: 1, kv: 1, lq: 90, lk: 90, d: 8, dv: 5,
		spec: Blocks{Clusters: 12, Queries: 16, Keys: 9}},
	{name: "grouped", batch: 2, heads: 4, kv: 2, lq: 150, lk: 150, d: 16, dv: 9,
		spec: Blocks{Clusters: 13, Queries: 32, Keys: 20}},
	{name: "masked", batch: 2, heads: 2, kv: 1, lq: 120, lk: 140, d: 5, dv: 4, mask: true,
		spec: Blocks{Clusters: 10, Queries: 8, Keys: 12}},
	{name: "packed", batch: 2, heads: 2, kv: 2, lq: 150, lk: 150, d: 5, dv: 4, packed: true, mask: true,
		spec: Blocks{Clusters: 6, Queries: 16, Keys: 5}},
	{name: "packed keys", batch: 1, heads: 2, kv: 1, lq: 60, lk: 130, d: 5, dv: 4, packed: true, other: true,
		spec: Blocks{Clusters: 6, Queries: 16, Keys: 5}},
	{name: "more queries", batch: 1, heads: 1, kv: 1, lq: 90, lk: 40, d: 3, dv: 2,
		spec: Blocks{Clusters: 5, Queries: 30, Keys: 3}},
	{name: "d = 1", batch: 1, heads: 1, kv: 1, lq: 60, lk: 60, d: 1, dv: 1,
		spec: Blocks{Clusters: 7, Queries: 16, Keys: 4}},
	{name: "n < d", batch: 1, heads: 1, kv: 1, lq: 12, lk: 12, d: 40, dv: 33,
		spec: Blocks{Clusters: 3, Queries: 4, Keys: 2}},
	{name: "sampled", batch: 1, heads: 1, kv: 1, lq: 700, lk: 700, d: 6, dv: 3,
		spec: Blocks{Clusters: 20, Queries: 64, Keys: 30, Sample: 100}},
}

// makeCase returns attention of the case and random arguments; packed sequences and masks have odd ends.
func makeCase(t testing.TB, c shapeCase) (a *Attention, q, k, v attention.Seq[float32]) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(len(c.name)), uint64(c.lk)))
	q, k, v = random(r, 1.5, c.batch, c.heads, c.lq, c.d), random(r, 1.5, c.batch, c.kv, c.lk, c.d),
		random(r, 1, c.batch, c.kv, c.lk, c.dv)
	a = &Attention{Specs: []Spec{c.spec}}
	ids := func(n int) []int32 {
		out := make([]int32, 0, c.batch*n)
		for range c.batch {
			for i := range n {
				out = append(out, 2*int32(min(2, 5*i/(2*n))))
			}
		}
		return out
	}
	if c.packed {
		a.Segments = ids(c.lq)
		if c.other {
			a.KeySegments = ids(c.lk)
			for i, id := range a.KeySegments { // a sequence that nobody asks for
				if id == 2 {
					a.KeySegments[i] = 3
				}
			}
		}
	}
	if c.mask {
		a.KeyMask = make([]bool, c.batch*c.lk)
		for i := range a.KeyMask {
			a.KeyMask[i] = r.Float64() < 0.8
			if !a.KeyMask[i] {
				for h := range c.kv {
					k.Head(i/c.lk, h).Row(i % c.lk)[0] = float32(math.NaN())
				}
			}
		}
	}
	return a, q, k, v
}

// exactly compares with exact attention.
func exactly(t *testing.T, name string, a *Attention, q, k, v attention.Seq[float32], bound float64) {
	t.Helper()
	got, want := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim),
		attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
	rep, err := a.Forward(got, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	e := attention.Exact[float32]{Visibility: a.Visibility, Scale: a.Scale}
	rep2, err := e.Forward(want, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Exact = 0; rep != rep2 {
		t.Errorf("%s: report %+v, exact attention has %+v", name, rep, rep2)
	}
	for i := range got.Data {
		if !(math.Abs(float64(got.Data[i]-want.Data[i])) <= bound) {
			t.Fatalf("%s: %v at %d, exact attention has %v", name, got.Data[i], i, want.Data[i])
		}
	}
}

func TestLimitsAreExact(t *testing.T) {
	for _, c := range shapeCases {
		for name, change := range map[string]func(*Blocks){
			"k = L":    func(s *Blocks) { s.Clusters = c.lk },
			"k > L":    func(s *Blocks) { s.Clusters = 5 * c.lk },
			"keys = L": func(s *Blocks) { s.Keys = c.lk },
			"keys > L": func(s *Blocks) { s.Keys = 5 * c.lk },
			"a block of one query": func(s *Blocks) {
				s.Queries = 1 // the estimate is exact at its mean
			},
		} {
			changed := c
			change(&changed.spec)
			a, q, k, v := makeCase(t, changed)
			exactly(t, fmt.Sprintf("%s, %s", c.name, name), a, q, k, v, 1e-4)
		}
	}
}

// A packed sequence, and a batch, are as if alone.
func TestPackedAsIfAlone(t *testing.T) {
	c := shapeCases[1]
	a, q, k, v := makeCase(t, c)
	ids := make([]int32, c.batch*c.lq)
	for i := range ids {
		ids[i] = int32(i % c.lq / 70)
	}
	a.Segments = ids
	all := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
	if _, err := a.Forward(all, q, k, v); err != nil {
		t.Fatal(err)
	}
	cut := func(s attention.Seq[float32], b, lo, hi int) attention.Seq[float32] {
		s.Data = s.Data[b*s.StrideB+lo*s.StrideL:]
		s.Batch, s.Len = 1, hi-lo
		return s
	}
	alone := Attention{Specs: a.Specs}
	for b := range c.batch {
		for lo := 0; lo < c.lq; lo += 70 {
			hi := min(lo+70, c.lq)
			out := attention.NewSeq[float32](1, q.Heads, hi-lo, v.Dim)
			if _, err := alone.Forward(out, cut(q, b, lo, hi), cut(k, b, lo, hi), cut(v, b, lo, hi)); err != nil {
				t.Fatal(err)
			}
			for h := range q.Heads {
				for i := lo; i < hi; i++ {
					if !slices.Equal(out.Head(0, h).Row(i-lo), all.Head(b, h).Row(i)) {
						t.Fatalf("batch %d, head %d, row %d differs", b, h, i)
					}
				}
			}
		}
	}
}

func TestForeignStrides(t *testing.T) {
	for _, c := range shapeCases {
		a, q, k, v := makeCase(t, c)
		turned := func(s attention.Seq[float32]) attention.Seq[float32] {
			out := attention.NewSeqBLHD[float32](s.Batch, s.Len, s.Heads, s.Dim+3)
			out.Dim = s.Dim
			for i := range out.Data {
				out.Data[i] = float32(math.NaN())
			}
			for b := range s.Batch {
				for h := range s.Heads {
					for l := range s.Len {
						copy(out.Head(b, h).Row(l), s.Head(b, h).Row(l))
					}
				}
			}
			return out
		}
		out, other := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim),
			turned(attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim))
		if _, err := a.Forward(out, q, k, v); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Forward(other, turned(q), turned(k), turned(v)); err != nil {
			t.Fatal(err)
		}
		for b := range q.Batch {
			for h := range q.Heads {
				for l := range q.Len {
					if !slices.Equal(out.Head(b, h).Row(l), other.Head(b, h).Row(l)) {
						t.Fatalf("%s: row %d differs", c.name, l)
					}
				}
			}
		}
	}
}

func TestExtremeNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	const n, d = 200, 8
	for name, change := range map[string]func(q, k, v attention.Seq[float32]){
		"huge logits": func(q, k, _ attention.Seq[float32]) { scaleAll(q, 1e8); scaleAll(k, 1e9) },
		"tiny": func(q, k, v attention.Seq[float32]) {
			scaleAll(q, 1e-30)
			scaleAll(k, 1e-30)
			scaleAll(v,
				1e-30)
		},
		"zero queries":   func(q, _, _ attention.Seq[float32]) { scaleAll(q, 0) },
		"zero keys":      func(_, k, _ attention.Seq[float32]) { scaleAll(k, 0) },
		"equal values":   func(_, _, v attention.Seq[float32]) { scaleAll(v, 0); v.Data[0] = 0 },
		"far keys":       func(_, k, _ attention.Seq[float32]) { shiftAll(k, 1000) },
		"one huge key":   func(_, k, _ attention.Seq[float32]) { k.Data[5*d] = 1e15 },
		"one huge value": func(_, _, v attention.Seq[float32]) { v.Data[7*4] = 1e30 },
	} {
		q, k, v := random(r, 1, 1, 1, n, d), random(r, 1, 1, 1, n, d), random(r, 1, 1, 1,
			n, 4)
		change(q, k, v)
		for _, spec := range []Blocks{{Clusters: 10, Queries: 16, Keys: 3}, {Clusters: 10, Queries: 16, Keys: n}} {
			a := Attention{Specs: []Spec{spec}}
			out := attention.NewSeq[float32](1, 1, n, 4)
			if _, err := a.Forward(out, q, k, v); err != nil {
				t.Fatal(err)
			}
			lo, hi := slices.Min(v.Data), slices.Max(v.Data)
			slack := 0.5 * (hi - lo) // values of centroids are extrapolated
			if spec.Keys == n {
				slack = 1e-4 * (hi - lo)
			}
			for i, x := range out.Data {
				if !(x >= lo-slack && x <= hi+slack) {
					t.Fatalf("%s, %+v: output %v at %d, values are %v to %v", name, spec, x, i, lo, hi)
				}
			}
			if spec.Keys == n && name != "far keys" {
				exactly(t, name, &a, q, k, v, 1e-3*float64(max(hi, -lo)))
			}
		}
	}
}

func scaleAll(s attention.Seq[float32], f float32) {
	for i := range s.Data {
		s.Data[i] *= f
	}
}

func shiftAll(s attention.Seq[float32], f float32) {
	for i := range s.Data {
		s.Data[i] += f
	}
}

func TestWarmForwardDoesNotAllocate(t *testing.T) {
	for _, c := range shapeCases {
		a, q, k, v := makeCase(t, c)
		out := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
		run := func() {
			if _, err := a.Forward(out, q, k, v); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(5, run); n > 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func TestForwardErrors(t *testing.T) {
	a, q, k, v := makeCase(t, shapeCases[0])
	out := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
	for name, change := range map[string]func(a *Attention, q, k, v, out *attention.Seq[float32]){
		"no spec": func(a *Attention, _, _, _, _ *attention.Seq[float32]) { a.Specs = nil },
		"spec":    func(a *Attention, _, _, _, _ *attention.Seq[float32]) { a.Specs = []Spec{Blocks{}} },
		"scale":   func(a *Attention, _, _, _, _ *attention.Seq[float32]) { a.Scale = math.Inf(1) },
		"nil":     func(a *Attention, _, _, _, _ *attention.Seq[float32]) { a.Specs = []Spec{nil} },
		"causal":  func(a *Attention, _, _, _, _ *attention.Seq[float32]) { a.Causal = true },
		"out":     func(_ *Attention, _, _, _, out *attention.Seq[float32]) { out.Len-- },
		"q":       func(_ *Attention, q, _, _, _ *attention.Seq[float32]) { q.Dim-- },
		"NaN": func(_ *Attention, q, _, _,
			_ *attention.Seq[float32]) {
			q.Data[3] = float32(math.NaN())
		},
		"NaN values": func(_ *Attention, _, _, v,
			_ *attention.Seq[float32]) {
			v.Data[3] = float32(math.NaN())
		},
	} {
		b := &Attention{Specs: a.Specs}
		q2, k2, v2, out2 := q, k, v, out
		q2.Data, k2.Data, v2.Data = slices.Clone(q.Data), slices.Clone(k.Data), slices.Clone(v.Data)
		change(b, &q2, &k2, &v2, &out2)
		if _, err := b.Forward(out2, q2, k2, v2); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := a.At(out, []int{1}, q, k, v); err == nil {
		t.Error("At with another number of rows: no error")
	}
	out.Len = 1
	if err := a.At(out, []int{q.Len}, q, k, v); err == nil {
		t.Error("At with a row that is not there: no error")
	}
}

// At refuses repeated rows, and writes all rows in any order.
func TestAtRepeatedRows(t *testing.T) {
	const length, dim = 260, 16
	q, k, v := grouped(2, length, dim, 3)
	for name, spec := range map[string]Spec{
		"blocks": Blocks{Clusters: 6, Queries: 16, Keys: 10},
		"prefix": Prefix{Clusters: 6, Chunk: 32, Queries: 16, Keys: 10},
		"sketch": Sketch{Clusters: 6, Chunk: 32, Share: 0.1},
	} {
		a := &Attention{Specs: []Spec{spec}}
		a.Causal = spec.Causal()
		out := attention.NewSeq[float32](1, 4, 3, dim)
		if err := a.At(out, []int{200, 7, 200}, q, k, v); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s: a row twice: %v", name, err)
		}
		trials, err := NewTrials(a.Visibility, 0, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		if err := trials.At(out, []int{200, 7, 200}, spec); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s, trials: a row twice: %v", name, err)
		}
		all := attention.NewSeq[float32](1, 4, length, dim)
		if _, err := a.Forward(all, q, k, v); err != nil {
			t.Fatal(err)
		}
		rows := []int{200, 7, 30}
		if err := a.At(out, rows, q, k, v); err != nil {
			t.Fatal(err)
		}
		for h := range 4 {
			for i, l := range rows {
				if !slices.Equal(out.Head(0, h).Row(i), all.Head(0, h).Row(l)) {
					t.Errorf("%s: head %d, row %d differs from Forward", name, h, l)
				}
			}
		}
	}
}

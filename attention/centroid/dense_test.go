package centroid

import (
	"errors"
	"fmt"
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
func grouped[T dense.Float](kvHeads, length, dim int, seed uint64) (q, k, v attention.Seq[T]) {
	q, k, v = heads.Generate[T](2*kvHeads, length, dim, seed)
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
func wide[T dense.Float](x []T) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// naiveCluster is a cluster as the definition sees it.
type naiveCluster struct {
	centre, mean []float64
	size, hazard float64
	k, v         [][]float64
}

func naiveClusters[T dense.Float](p *problem[T], ref T) (out []naiveCluster) {
	for x := range p.clusters {
		c := naiveCluster{centre: wide(p.centre.Row(x)), mean: wide(p.mean.Row(x)),
			size: float64(p.start[x+1] - p.start[x])}
		if p.top > 0 {
			c.hazard = math.Exp(float64(p.risk[x]) - float64(ref))
		}
		for j := p.start[x]; j < p.start[x+1]; j++ {
			c.k, c.v = append(c.k, wide(p.k.Row(int(j)))), append(c.v, wide(p.v.Row(int(j))))
		}
		out = append(out, c)
	}
	return out
}

// naiveBlock is the attention of rows of scaled queries that choose top clusters together; near(r) are the keys and
// values that are exact for row r.
func naiveBlock(x [][]float64, clusters []naiveCluster, top, dv int,
	near func(r int) (k, v [][]float64)) [][]float64 {
	score := make([]float64, len(clusters))
	for r := range x {
		z := 0.0
		k, _ := near(r)
		for _, y := range k {
			z += math.Exp(dense.Dot(x[r], y))
		}
		for _, c := range clusters {
			z += c.size * math.Exp(dense.Dot(x[r], c.centre))
		}
		for i, c := range clusters {
			score[i] += c.size * math.Exp(dense.Dot(x[r], c.centre)) / z * c.hazard
		}
	}
	order := make([]int, len(clusters))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if score[a] > score[b] {
			return -1
		}
		return 1
	})
	chosen := map[int]bool{}
	for _, i := range order[:min(top, len(order))] {
		chosen[i] = clusters[i].hazard > 0
	}
	out := make([][]float64, len(x))
	for r := range x {
		row := naiveRow{num: make([]float64, dv)}
		k, v := near(r)
		for j := range k {
			row.add(math.Exp(dense.Dot(x[r], k[j])), v[j])
		}
		for i, c := range clusters {
			if !chosen[i] {
				row.add(c.size*math.Exp(dense.Dot(x[r], c.centre)), c.mean)
				continue
			}
			for j := range c.k {
				row.add(math.Exp(dense.Dot(x[r], c.k[j])), c.v[j])
			}
		}
		for i := range row.num {
			if row.den > 0 {
				row.num[i] /= row.den
			}
		}
		out[r] = row.num
	}
	return out
}

// near1 reports rows that differ by more than a float64 sum in another order may.
func near1[T dense.Float](t *testing.T, what string, got []T, want []float64, tol float64) {
	t.Helper()
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= tol) {
			t.Fatalf("%s, column %d: %v, want %v", what, i, got[i], w)
		}
	}
}

// Causal blocks over chunks are what their definition says, with masks and with fewer queries than keys.
func TestChunksNaive(t *testing.T) {
	const length, dim = 300, 16
	q, k, v := grouped[float64](2, length, dim, 2)
	mask := make([]bool, length)
	for i := range mask {
		mask[i] = i%9 != 4
	}
	for _, c := range []struct {
		mask []bool
		skip int // queries that are left out at the beginning
		spec Spec
	}{
		{nil, 0, Spec{Clusters: 6, Chunk: 64, Together: 16, Window: 20, Sinks: 3, Top: 4}},
		{mask, 0, Spec{Clusters: 6, Chunk: 48, Together: 32, Window: 0, Sinks: 2, Top: 5}},
		{nil, 131, Spec{Clusters: 20, Chunk: 40, Together: 24, Window: 8, Top: 3}},
		{nil, 0, Spec{Clusters: 8, Chunk: 64, Together: 64, Window: 64}},
		{nil, 0, Spec{Clusters: 5, Chunk: 35, Together: 12, Window: 2, Top: 2}},
		{mask, 77, Spec{Clusters: 8, Chunk: 8, Together: 8, Window: 8, Top: 2, Sinks: 8}},
	} {
		name := fmt.Sprintf("%+v", c.spec)
		qs := q
		qs.Data, qs.Len = q.Data[c.skip*q.StrideL:], length-c.skip
		vis := attention.Visibility{Causal: true, KeyMask: c.mask}
		a := &Attention[float64]{Visibility: vis, Specs: []Spec{c.spec}}
		out := attention.NewSeq[float64](1, 4, qs.Len, dim)
		if _, err := a.Forward(out, qs, k, v); err != nil {
			t.Fatal(name, err)
		}
		call := new(chunkCall[float64])
		if err := call.start(a, out, qs, k, v); err != nil {
			t.Fatal(err)
		}
		for i := range call.streams {
			s := &call.streams[i]
			kh, vh := k.Head(0, s.h), v.Head(0, s.h)
			for b0 := c.skip / c.spec.Together * c.spec.Together; b0 < length; b0 += c.spec.Together {
				far := max(0, b0-c.spec.Window) / c.spec.Chunk
				var list []naiveCluster
				for j := range far {
					p := call.keys.problems[s.first+j]
					list = append(list, naiveClusters(p, call.keys.problems[s.first].reference())...)
				}
				from, to := max(b0, c.skip), min(b0+c.spec.Together, length)
				near := func(r int) (ks, vs [][]float64) {
					for p := 0; p <= from+r%(to-from); p++ {
						if (p < c.spec.Sinks || p >= far*c.spec.Chunk) && (c.mask == nil || c.mask[p]) {
							ks, vs = append(ks, wide(kh.Row(p))), append(vs, wide(vh.Row(p)))
						}
					}
					return ks, vs
				}
				var x [][]float64
				for g := range 2 {
					for p := from; p < to; p++ {
						row := wide(q.Head(0, 2*s.h+g).Row(p))
						for l := range row {
							row[l] /= math.Sqrt(dim)
						}
						x = append(x, row)
					}
				}
				want := naiveBlock(x, list, c.spec.Top, dim, near)
				for r, w := range want {
					p := from + r%(to-from)
					near1(t, fmt.Sprintf("%s, position %d", name, p),
						out.Head(0, 2*s.h+r/(to-from)).Row(p-c.skip), w, 1e-9)
				}
			}
		}
	}
}

var denseCases = []struct {
	causal bool
	spec   Spec
}{{false, Spec{Clusters: 24, Together: 64, Keys: 50, Sinks: 1}},
	{true, Spec{Clusters: 8, Chunk: 64, Together: 32, Window: 16, Sinks: 2, Top: 4}}}

// sameBits is Forward, whose bits do not depend on the number of threads.
func sameBits(t *testing.T, a *Attention[float32], q, k, v attention.Seq[float32]) (first attention.Seq[float32]) {
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
func sameRows(t *testing.T, a *Attention[float32], trials *Trials[float32], all attention.Seq[float32], rows []int,
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

// Outputs have the same bits with any number of threads, and At and Trials have those of Forward.
func TestDenseBits(t *testing.T) {
	const length, dim = 700, 32
	q, k, v := grouped[float32](2, length, dim, 3)
	rows := []int{0, 5, 63, 64, 65, 299, 300, 511, 698, 699}
	for _, c := range denseCases {
		a := &Attention[float32]{Visibility: attention.Visibility{Causal: c.causal}, Specs: []Spec{c.spec}}
		sameBits(t, a, q, k, v)
		trials, err := NewTrials(a.Visibility, 0, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range []int{c.spec.Top, 0, 11} {
			s := c.spec
			if s.Top = top; !c.causal {
				s.Top, s.Keys = 0, 1+10*top
			}
			b := &Attention[float32]{Visibility: a.Visibility, Specs: []Spec{s}}
			all := attention.NewSeq[float32](1, 4, length, dim)
			if _, err := b.Forward(all, q, k, v); err != nil {
				t.Fatal(err)
			}
			sameRows(t, b, trials, all, rows, q, k, v)
		}
		if fitsOf(trials) != 1 {
			t.Errorf("causal %t: %d clusterings for specs that differ in top or keys alone", c.causal, fitsOf(trials))
		}
	}
}

// With all clusters exact the result is exact attention, whatever the sizes of logits: references of rows follow.
func TestDenseExact(t *testing.T) {
	const length, dim = 330, 32
	for _, c := range denseCases {
		for _, size := range []float32{0.1, 1, 40} {
			q, k, v := grouped[float32](2, length, dim, 4)
			kern.Best[float32]().Scale(q.Data, size)
			s := c.spec
			if s.Top = 1000; !c.causal {
				s.Top, s.Keys = 0, 1000
			}
			vis := attention.Visibility{Causal: c.causal}
			a := &Attention[float32]{Visibility: vis, Specs: []Spec{s}}
			got, want := attention.NewSeq[float32](1, 4, length, dim), attention.NewSeq[float32](1, 4, length, dim)
			if _, err := a.Forward(got, q, k, v); err != nil {
				t.Fatal(err)
			}
			if _, err := (&attention.Exact[float32]{Visibility: vis}).Forward(want, q, k, v); err != nil {
				t.Fatal(err)
			}
			for i, w := range want.Data {
				if d := math.Abs(float64(got.Data[i] - w)); d > 2e-4*float64(size) {
					t.Fatalf("causal %t, size %v: %v, want %v", c.causal, size, got.Data[i], w)
				}
			}
		}
	}
}

// Nothing depends on what comes after the block of a query, and masked keys may hold anything.
func TestChunksCausal(t *testing.T) {
	const length, dim = 400, 16
	s := denseCases[1].spec
	q, k, v := grouped[float32](1, length, dim, 5)
	mask := make([]bool, length)
	for i := range mask {
		mask[i] = i != 33 && i != 250
	}
	run := func() []float32 {
		a := &Attention[float32]{Visibility: attention.Visibility{Causal: true, KeyMask: mask}, Specs: []Spec{s}}
		out := attention.NewSeq[float32](1, 2, length, dim)
		if _, err := a.Forward(out, q, k, v); err != nil {
			t.Fatal(err)
		}
		return out.Data
	}
	want := run()
	r := rand.New(rand.NewPCG(1, 2))
	const from = 9 * 32
	for _, m := range []attention.Seq[float32]{q, k, v} {
		for h := range m.Heads {
			for l := from; l < length; l++ {
				for c := range m.Head(0, h).Row(l) {
					m.Head(0, h).Row(l)[c] = float32(r.NormFloat64())
				}
			}
		}
	}
	for _, l := range []int{33, 250} {
		k.Head(0, 0).Row(l)[3], v.Head(0, 0).Row(l)[1] = float32(math.NaN()), float32(math.Inf(1))
	}
	got := run()
	for h := range 2 {
		if !slices.Equal(got[h*length*dim:(h*length+from)*dim], want[h*length*dim:(h*length+from)*dim]) {
			t.Errorf("head %d depends on later blocks or on masked keys", h)
		}
	}
}

// Token by token, chunks give what Forward gives for blocks of one position, however the tokens are divided; a fork
// goes on by itself.
func TestChunksState(t *testing.T) {
	for _, s := range []Spec{{Clusters: 8, Chunk: 64, Together: 1, Window: 10, Sinks: 3, Top: 4},
		{Clusters: 16, Chunk: 32, Together: 1, Window: 10, Sinks: 3, Share: 0.05}} {
		testChunksState(t, s)
	}
}

func testChunksState(t *testing.T, s Spec) {
	const length, dim = 300, 16
	q, k, v := grouped[float32](2, length, dim, 6)
	a := &Attention[float32]{Visibility: attention.Visibility{Causal: true}, Specs: []Spec{s}}
	want := attention.NewSeq[float32](1, 4, length, dim)
	if _, err := a.Forward(want, q, k, v); err != nil {
		t.Fatal(err)
	}
	part := func(m attention.Seq[float32], lo, hi int) attention.Seq[float32] {
		m.Data, m.Len = m.Data[lo*m.StrideL:], hi-lo
		return m
	}
	run := func(state State[float32], out attention.Seq[float32], from int, sizes ...int) {
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
	fresh := func() *Chunks[float32] {
		c, err := NewChunks(a, 1, 4, 2, dim, dim)
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
	if err := base.Join(fork); !errors.Is(err, attention.ErrMismatch) {
		t.Error(err)
	}
	if _, err := NewCache(a, 1, 4, 2, dim, dim); !errors.Is(err, ErrSpec) {
		t.Errorf("a cache with chunks: %v", err)
	}
	plain := &Attention[float32]{Specs: []Spec{{Clusters: 4}}}
	if _, err := NewChunks(plain, 1, 4, 2, dim, dim); !errors.Is(err, ErrSpec) {
		t.Errorf("chunks without a chunk: %v", err)
	}
}

// Specs that make no sense are refused, and so are gradients.
func TestDenseRefuses(t *testing.T) {
	q, k, v := heads.Generate[float32](2, 40, 16, 1)
	out := attention.NewSeq[float32](1, 2, 40, 16)
	for i, c := range []struct {
		causal bool
		specs  []Spec
	}{
		{false, []Spec{{Clusters: 4, Together: 8, Keys: 2, Window: 2}}},
		{false, []Spec{{Clusters: 4, Together: 8, Top: 2}}},
		{false, []Spec{{Clusters: 4, Together: 8}}},
		{false, []Spec{{Clusters: 4, Together: 8, Chunk: 16}}},
		{true, []Spec{{Clusters: 4, Together: 8}}},
		{true, []Spec{{Clusters: 4, Chunk: 16}}},
		{true, []Spec{{Clusters: 17, Chunk: 16, Together: 8}}},
		{true, []Spec{{Chunk: 16, Together: 8, Sinks: 1}}},
		{true, []Spec{{Clusters: 4, Chunk: 16, Together: 8, Sinks: 17}}},
		{true, []Spec{{Clusters: 4, Chunk: 16, Together: 8, Spread: true}}},
		{true, []Spec{{Clusters: 4, Chunk: 16, Together: 8, Top: 2, Keys: 3}}},
		{true, []Spec{{Clusters: 4, Chunk: 16, Together: 8}, {Clusters: 4}}},
		{false, []Spec{{Clusters: 4, Together: mostTogether + 1}}},
		{true, []Spec{{Clusters: 4, Together: 8, Chunk: mostChunk + 1}}},
	} {
		a := &Attention[float32]{Visibility: attention.Visibility{Causal: c.causal}, Specs: c.specs}
		if _, err := a.Forward(out, q, k, v); !errors.Is(err, ErrSpec) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	for _, c := range denseCases {
		a := &Attention[float32]{Visibility: attention.Visibility{Causal: c.causal}, Specs: []Spec{c.spec}}
		if err := a.Backward(q, k, v, out, out, q, k, v); !errors.Is(err, ErrSpec) {
			t.Errorf("gradients: %v", err)
		}
	}
}

// Sorted queries are in blocks of equal size, and queries of two far groups do not share one.
func TestRowOrder(t *testing.T) {
	const n, leaf = 256, 32
	var o rowOrder[float32]
	var pick selector[float32]
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

package centroid

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
)

// naiveOpen is the output of one query over the keys of a tree and those that are not clustered, in float64, where
// every leaf is its keys or its centroid as its own expected error says. There are no branches.
func naiveOpen(x []float64, parts []*treePart[float64], near [][2][]float64, open float64) []float64 {
	d := len(x)
	dot := func(y []float64) (sum float64) {
		for i := range x {
			sum += x[i] * y[i]
		}
		return sum
	}
	type item struct {
		w float64
		v []float64
	}
	var items []item
	total := 0.0
	for _, n := range near {
		w := math.Exp(dot(n[0]))
		items, total = append(items, item{w, n[1]}), total+w
	}
	for _, p := range parts {
		for c := range p.leaf.Rows {
			total += float64(p.start[c+1]-p.start[c]) * math.Exp(dot(p.leaf.Row(c)[:d]))
		}
	}
	for _, p := range parts {
		for c := range p.leaf.Rows {
			row, n := p.leaf.Row(c), float64(p.start[c+1]-p.start[c])
			w, s2 := n*math.Exp(dot(row[:d])), 0.0
			for i := range x {
				s2 += x[i] * x[i] * row[d+i]
			}
			if e := math.Exp(min(s2, mostVariance)); w/total*math.Sqrt(e*(e-1)*p.hazard[c]) < open {
				items = append(items, item{w, row[2*d:]})
				continue
			}
			for j := p.start[c]; j < p.start[c+1]; j++ {
				items = append(items, item{math.Exp(dot(p.k.Row(int(j)))), p.v.Row(int(j))})
			}
		}
	}
	out, sum := make([]float64, len(items[0].v)), 0.0
	for _, it := range items {
		sum += it.w
		for l, v := range it.v {
			out[l] += it.w * v
		}
	}
	for l := range out {
		out[l] /= sum
	}
	return out
}

// A tree whose branches are single leaves gives the naive definition.
func TestOpenNaive(t *testing.T) {
	const length, dim = 200, 16
	q, k, v := grouped[float64](1, length, dim, 3)
	q.Heads, q.StrideB = 1, q.StrideH // the definition is that of one query head
	for _, open := range []float64{1e-3, 1e-2, 1e-1} {
		s := Spec{Clusters: 12, Chunk: 32, Together: 1, Window: 10, Sinks: 3, Open: open}
		a := &Attention[float64]{Visibility: attention.Visibility{Causal: true}, Specs: []Spec{s}}
		all, err := openings(a, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		parts := all[0].parts
		for _, p := range parts { // every leaf is a branch
			p.own, p.joint = nil, nil
			for c := range p.leaf.Rows {
				p.own = append(p.own, int32(c))
			}
		}
		rows := []int{5, 60, 107, 150, 199}
		exact := 0
		for _, l := range rows {
			far := farChunks(&s, l)
			var h chunkHead[float64]
			h.tree.reset(&s)
			h.tree.each = s.Clusters
			var w chunkStepper[float64]
			tab := tableOf[float64](t)
			for _, p := range parts[:far] {
				h.tree.push(tab, p)
			}
			h.near.room(tab, &s, dim, dim)
			var near [][2][]float64
			for j := 0; j <= l; j++ {
				if j >= far*s.Chunk || j < s.Sinks {
					near = append(near, [2][]float64{k.Head(0, 0).Row(j), v.Head(0, 0).Row(j)})
					h.near.append(j, k.Head(0, 0).Row(j), v.Head(0, 0).Row(j))
				}
			}
			x := make([]float64, dim)
			for i, y := range q.Head(0, 0).Row(l) {
				x[i] = y / math.Sqrt(dim)
			}
			w.tiles.begin(tab, 1, dim, dim)
			copy(w.tiles.x.Row(0), x)
			exact += w.tree.read(&w.tiles, &h.tree, &h.near, open)
			got := make([]float64, dim)
			w.tiles.finish(got, 0)
			for i, y := range naiveOpen(x, parts[:far], near, open) {
				if math.Abs(got[i]-y) > 1e-9 {
					t.Fatalf("open %v, row %d: %v, want %v", open, l, got[i], y)
				}
			}
		}
		if far := farChunks(&s, length-1) * s.Chunk; exact == 0 && open < 1e-1 || exact > len(rows)*far/2 {
			t.Errorf("open %v: %d exact keys", open, exact)
		}
	}
}

// The smaller Open, the smaller the error and the more keys are read; nearly nothing is exact attention. Branches and
// leaves partition the keys.
func TestOpen(t *testing.T) {
	const length, dim = 500, 16
	q, k, v := grouped[float32](2, length, dim, 6)
	vis := attention.Visibility{Causal: true}
	want := attention.NewSeq[float32](1, 4, length, dim)
	if _, err := (&attention.Exact[float32]{Visibility: vis}).Forward(want, q, k, v); err != nil {
		t.Fatal(err)
	}
	var errs, keys []float64
	for _, open := range []float64{10, 0.03, 0.003, 1e-30} {
		s := Spec{Clusters: 16, Chunk: 32, Together: 1, Window: 10, Sinks: 3, Open: open}
		a := &Attention[float32]{Visibility: vis, Specs: []Spec{s}}
		out := attention.NewSeq[float32](1, 4, length, dim)
		r, err := a.Forward(out, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		var d, o float64
		for i, w := range want.Data {
			d, o = d+math.Pow(float64(out.Data[i]-w), 2), o+float64(w*w)
		}
		errs, keys = append(errs, math.Sqrt(d/o)), append(keys, float64(r.Exact)/float64(r.Rows))
	}
	if !slices.IsSortedFunc(errs, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) || errs[3] > 1e-5 {
		t.Errorf("errors %v", errs)
	}
	if !slices.IsSorted(keys) || keys[0] > 40 || keys[3] < length/4 {
		t.Errorf("exact keys %v", keys)
	}
	s := Spec{Clusters: 16, Chunk: 32, Together: 1, Sinks: 3, Open: 0.1}
	a := &Attention[float32]{Visibility: vis, Specs: []Spec{s}}
	all, err := openings(a, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	var h tree[float32]
	h.reset(&s)
	for i, p := range all[0].parts {
		h.push(tableOf[float32](t), p)
		n := 0.0
		var seen []int32
		for b := range (i + 1) * h.each {
			n += math.Exp(float64(h.logSize[b]))
			seen = append(seen, h.kids[b]...)
		}
		if math.Abs(n-float64((i+1)*32-3)) > 1e-2 {
			t.Errorf("%v keys in %d chunks", n, i+1)
		}
		slices.Sort(seen)
		if len(slices.Compact(seen)) != len(seen) {
			t.Errorf("a leaf has two branches: %v", seen)
		}
	}
	out := attention.NewSeq[float32](1, 4, length, dim)
	for _, bad := range []Spec{{Clusters: 4, Open: 0.1}, {Clusters: 4, Chunk: 8, Together: 2, Open: 0.1},
		{Clusters: 4, Chunk: 8, Together: 1, Top: 1, Open: 0.1}, {Clusters: 4, Chunk: 8, Together: 1, Open: -1},
		{Clusters: 4, Chunk: 8, Together: 1, Keys: 1, Open: 0.1}, {Clusters: 4, Open: math.NaN()}} {
		if err := bad.Validate(); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	mixed := &Attention[float32]{Visibility: vis, Specs: []Spec{s, {Clusters: 16, Chunk: 32, Together: 1, Top: 1}}}
	if _, err := mixed.Forward(out, q, k, v); !errors.Is(err, ErrSpec) {
		t.Errorf("two kinds of heads: %v", err)
	}
}

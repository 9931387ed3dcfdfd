package centroid

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// naiveNode is a branch or a leaf, in float64. Hazard is ν²/n.
type naiveNode struct {
	n, hazard float64
	centroid  []float64
	variance  []float64 // of keys
	mean      []float64 // of values
	kids      []naiveNode
	k, v      [][]float64 // members of a leaf
}

// naiveLeaves are the clusters of a chunk: statistics of their keys and values. Ref is the mean of |v − v̄|² in the
// first chunk.
func naiveLeaves(p *treePart[float64], ref float64) (leaves []naiveNode) {
	_, average := naiveSpread(p)
	d := p.k.Cols
	for c := range p.leaf.Rows {
		x := naiveNode{n: float64(p.start[c+1] - p.start[c]), variance: make([]float64, d)}
		x.centroid, x.mean = p.leaf.Row(c)[:d], p.leaf.Row(c)[2*d:] // weighted by queries: other tests have them
		for j := int(p.start[c]); j < int(p.start[c+1]); j++ {
			x.k, x.v = append(x.k, p.k.Row(j)), append(x.v, p.v.Row(j))
			for i, y := range p.k.Row(j) {
				x.variance[i] += (y - x.centroid[i]) * (y - x.centroid[i]) / x.n
			}
			x.hazard += distance2(p.v.Row(j), average) / ref / (x.n * x.n)
		}
		leaves = append(leaves, x)
	}
	return leaves
}

// naiveSpread is the mean of |v − v̄|² in a chunk, and v̄.
func naiveSpread(p *treePart[float64]) (spread float64, average []float64) {
	average = make([]float64, p.v.Cols)
	for j := range p.v.Rows {
		for l, v := range p.v.Row(j) {
			average[l] += v / float64(p.v.Rows)
		}
	}
	for j := range p.v.Rows {
		spread += distance2(p.v.Row(j), average) / float64(p.v.Rows)
	}
	return spread, average
}

// naiveBranch is the node of some leaves: means by mass, the variance inside of leaves and that of their centroids.
func naiveBranch(kids []naiveNode) naiveNode {
	x := naiveNode{kids: kids, centroid: make([]float64, len(kids[0].centroid)),
		variance: make([]float64, len(kids[0].centroid)), mean: make([]float64, len(kids[0].mean))}
	for _, y := range kids {
		x.n += y.n
	}
	for _, y := range kids {
		x.hazard += y.hazard * y.n * y.n / (x.n * x.n)
		for i, c := range y.centroid {
			x.centroid[i] += y.n / x.n * c
		}
		for l, v := range y.mean {
			x.mean[l] += y.n / x.n * v
		}
	}
	for _, y := range kids {
		for i, c := range y.centroid {
			x.variance[i] += y.n / x.n * (y.variance[i] + (c-x.centroid[i])*(c-x.centroid[i]))
		}
	}
	return x
}

// naiveBranches are the branches of the first chunks: joint ones of every joinChunks complete chunks, own ones of the
// others.
func naiveBranches(t *testing.T, parts []*treePart[float64]) (branches []naiveNode) {
	ref, _ := naiveSpread(parts[0])
	add := func(parts []*treePart[float64], branch []int32) {
		kids := map[int32][]naiveNode{}
		for _, p := range parts {
			for _, leaf := range naiveLeaves(p, ref) {
				kids[branch[0]] = append(kids[branch[0]], leaf)
				branch = branch[1:]
			}
		}
		for _, b := range slices.Sorted(maps.Keys(kids)) {
			branches = append(branches, naiveBranch(kids[b]))
		}
	}
	for i := 0; i < len(parts); {
		if last := i + joinChunks - 1; last < len(parts) {
			if parts[last].joint == nil {
				t.Fatalf("chunks %d to %d have no joint branches", i, last)
			}
			add(parts[i:last+1], parts[last].joint)
			i = last + 1
		} else {
			add(parts[i:i+1], parts[i].own)
			i++
		}
	}
	return branches
}

// distance2 is |x − y|².
func distance2(x, y []float64) (sum float64) {
	for i := range x {
		sum += (x[i] - y[i]) * (x[i] - y[i])
	}
	return sum
}

// naiveOpen is the output of the queries of a group over branches and keys that are not clustered. All nodes whose
// expected error, over the queries together, reaches open are replaced by their children. It returns the number of
// clustered keys that are exact.
func naiveOpen(x [][]float64, branches []naiveNode, near [][2][]float64, open float64) (out [][]float64, exact int) {
	type sums struct {
		total float64
		acc   []float64
	}
	all := make([]sums, len(x))
	add := func(weight func(x []float64) float64, v []float64) {
		for g := range x {
			w := weight(x[g])
			all[g].total += w
			for l, y := range v {
				all[g].acc[l] += w * y
			}
		}
	}
	for g := range all {
		all[g].acc = make([]float64, len(near[0][1]))
	}
	for _, n := range near {
		add(func(x []float64) float64 { return math.Exp(dense.Dot(x, n[0])) }, n[1])
	}
	of := func(x []float64, n *naiveNode) float64 { return n.n * math.Exp(dense.Dot(x, n.centroid)) }
	// closed adds the nodes that are not opened. Shares are those of all weights at this level.
	closed := func(nodes []naiveNode) (opened []naiveNode) {
		total := make([]float64, len(x))
		for g := range x {
			total[g] = all[g].total
			for i := range nodes {
				total[g] += of(x[g], &nodes[i])
			}
		}
		for i := range nodes {
			n, e := &nodes[i], 0.0
			for g := range x {
				s2 := 0.0
				for i, y := range x[g] {
					s2 += y * y * n.variance[i]
				}
				y := math.Exp(min(s2, mostVariance))
				e += math.Pow(of(x[g], n)/total[g], 2) * y * (y - 1) * n.hazard
			}
			if e >= open*open {
				opened = append(opened, *n)
			} else {
				add(func(x []float64) float64 { return of(x, n) }, n.mean)
			}
		}
		return opened
	}
	var leaves []naiveNode
	for _, b := range closed(branches) {
		leaves = append(leaves, b.kids...)
	}
	for _, leaf := range closed(leaves) {
		exact += len(leaf.k)
		for j, k := range leaf.k {
			add(func(x []float64) float64 { return math.Exp(dense.Dot(x, k)) }, leaf.v[j])
		}
	}
	for _, s := range all {
		for l := range s.acc {
			s.acc[l] /= s.total
		}
		out = append(out, s.acc)
	}
	return out, exact
}

// Outputs and counts are those of the definition, with both levels of the tree and two query heads that judge together.
func TestOpenNaive(t *testing.T) {
	const length, dim = 500, 16
	q, k, v := grouped[float64](1, length, dim, 3)
	for _, open := range []float64{1e-3, 1e-2, 3e-2, 1e-1} {
		s := Spec{Clusters: 24, Chunk: 48, Together: 1, Window: 10, Sinks: 3, Open: open}
		a := &Attention[float64]{Visibility: attention.Visibility{Causal: true}, Specs: []Spec{s}}
		all, err := openings(a, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		exact, rows := 0, 0
		for l := 5; l < length; l += 9 {
			far := farChunks(&s, l)
			var near [][2][]float64
			for j := 0; j <= l; j++ {
				if j >= far*s.Chunk || j < s.Sinks {
					near = append(near, [2][]float64{k.Head(0, 0).Row(j), v.Head(0, 0).Row(j)})
				}
			}
			x := make([][]float64, 2)
			for g := range x {
				for _, y := range q.Head(0, g).Row(l) {
					x[g] = append(x[g], y/math.Sqrt(dim))
				}
			}
			got := attention.NewSeq[float64](1, 2, 1, dim)
			r, err := forwardOpen(a, all, []int{l}, got)
			if err != nil {
				t.Fatal(err)
			}
			var branches []naiveNode
			if far > 0 {
				branches = naiveBranches(t, all[0].parts[:far])
			}
			want, n := naiveOpen(x, branches, near, open)
			if exact += n; r.Exact != int64(2*(n+len(near))) {
				t.Errorf("open %v, row %d: %d exact keys, want %d", open, l, r.Exact, 2*(n+len(near)))
			}
			for g := range x {
				for i, y := range want[g] {
					if math.Abs(got.Head(0, g).Row(0)[i]-y) > 1e-9 {
						t.Fatalf("open %v, row %d, head %d: %v, want %v", open, l, g, got.Head(0, g).Row(0)[i], y)
					}
				}
			}
			rows++
		}
		if exact == 0 && open < 1e-1 || exact > rows*length/2 {
			t.Errorf("open %v: %d exact keys of %d rows", open, exact, rows)
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

// Open has no unit: values of any size open the same clusters, and states that hold them can be read. Where variances
// of keys are beyond the range of float32, clusters are opened rather than trusted.
func TestOpenUnit(t *testing.T) {
	const length, dim, chunk = 200, 16, 32
	q, k, v := grouped[float32](1, length, dim, 3)
	scaled := func(s attention.Seq[float32], from int, f float32) attention.Seq[float32] {
		out := attention.NewSeq[float32](1, s.Heads, s.Len, s.Dim)
		for h := range s.Heads {
			for l := range s.Len {
				for i, x := range s.Head(0, h).Row(l) {
					if l >= from {
						x *= f
					}
					out.Head(0, h).Row(l)[i] = x
				}
			}
		}
		return out
	}
	for _, sinks := range []int{0, chunk} {
		a := &Attention[float32]{Visibility: attention.Visibility{Causal: true},
			Specs: []Spec{{Clusters: 8, Chunk: chunk, Together: 1, Open: 0.02, Sinks: sinks}}}
		run := func(q, k, v attention.Seq[float32]) (attention.Seq[float32], int64) {
			out := attention.NewSeq[float32](1, 2, length, dim)
			c, err := NewChunks(a, 1, 2, 1, dim, dim)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Step(out, q, k, v); err != nil {
				t.Fatal(err)
			}
			b, err := c.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.UnmarshalBinary(b); err != nil {
				t.Error(err)
			}
			return out, c.Report().Exact
		}
		want, exact := run(q, k, v)
		for _, f := range []float32{1e-25, 1e25} {
			got, n := run(q, k, scaled(v, 0, f))
			if e := errorOf(scaled(got, 0, 1/f), want); n != exact || e > 1e-5 {
				t.Errorf("values times %v: %d exact keys, want %d; an error of %v", f, n, exact, e)
			}
			run(q, k, scaled(v, 2*chunk, f)) // the values of later chunks alone
		}
		if _, n := run(scaled(q, 0, 1e-20), scaled(k, 0, 1e20), v); n < exact {
			t.Errorf("keys times 1e20: %d exact keys, want at least %d", n, exact)
		}
	}
}

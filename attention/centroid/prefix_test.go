package centroid

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
)

// chunkRows are the scaled queries of the rows of a chunk.
func chunkRows(q attention.Seq[float32], x *prefixChunk, rows []int32) (out [][]float64) {
	n := x.q1 - x.q0
	for _, r := range rows {
		row := wide(q.Head(x.b, 2*x.h+int(r)/n).Row(x.q0 + int(r)%n))
		for l := range row {
			row[l] /= math.Sqrt(float64(q.Dim))
		}
		out = append(out, row)
	}
	return out
}

// blockCovariance is that of queries inside of blocks.
func blockCovariance(x [][]float64, size int) [][]float64 {
	d := len(x[0])
	out := make([][]float64, d)
	for i := range out {
		out[i] = make([]float64, d)
	}
	for lo := 0; lo < len(x); lo += size {
		part := x[lo:min(lo+size, len(x))]
		mean := make([]float64, d)
		for _, r := range part {
			for i, a := range r {
				mean[i] += a / float64(len(part))
			}
		}
		for _, r := range part {
			for i := range d {
				for j := range d {
					out[i][j] += (r[i] - mean[i]) * (r[j] - mean[j]) / float64(len(x))
				}
			}
		}
	}
	return out
}

// Causal blocks that weigh the prefix are what their definition says, with masks, segments, more keys than queries and
// grouped heads.
func TestPrefixNaive(t *testing.T) {
	const length, dim = 300, 16
	q, k, v := grouped(2, length, dim, 1)
	mask := make([]bool, length)
	ids := make([]int32, length)
	for i := range mask {
		mask[i], ids[i] = i%7 != 3 && (i < 150 || i > 180), int32(i/150)
	}
	late := q
	late.Data, late.Len = q.Data[90*q.StrideL:], length-90
	for i, c := range []struct {
		vis   attention.Visibility
		q     attention.Seq[float32]
		empty int64
	}{{attention.Visibility{}, q, 0}, {attention.Visibility{}, late, 0}, {attention.Visibility{KeyMask: mask}, q, 0},
		{attention.Visibility{KeyMask: mask, Segments: ids}, q, 4 * 31}} {
		for _, specs := range [][]Spec{{Prefix{Clusters: 6, Chunk: 32, Queries: 16, Keys: 10}},
			{Prefix{Clusters: 6, Chunk: 32, Queries: 16, Keys: 10, Window: 9, Start: 70}},
			{Prefix{Clusters: 32, Chunk: 32, Queries: 500, Keys: 4}},
			{Prefix{Clusters: 5, Chunk: 20, Queries: 24, Keys: 30, Window: 20},
				Prefix{Clusters: 8, Chunk: 50, Queries: 32, Keys: 1000}}} {
			name := fmt.Sprintf("case %d, %+v", i, specs)
			c.vis.Causal = true
			a := &Attention{Visibility: c.vis, Specs: specs}
			out := attention.NewSeq[float32](1, 4, c.q.Len, dim)
			report, err := a.Forward(out, c.q, k, v)
			if err != nil {
				t.Fatal(name, err)
			}
			if report.Rows != int64(4*c.q.Len) || report.Empty != c.empty {
				t.Errorf("%s: %+v", name, report)
			}
			p := new(prefixCall)
			if err := p.start(a, c.q, k, v); err != nil {
				t.Fatal(err)
			}
			checked := 0
			for n := range p.chunks {
				checked += checkChunk(t, name, p, n, a, out, c.q, k, v)
			}
			if checked < 4*c.q.Len/3 {
				t.Errorf("%s: %d rows have a prefix", name, checked)
			}
		}
	}
}

// checkChunk compares the rows of chunk n with their definition and returns how many there are.
func checkChunk(t *testing.T, name string, c *prefixCall, n int, a *Attention,
	out, q, k, v attention.Seq[float32]) int {
	t.Helper()
	x := &c.chunks[n]
	p, level := c.keys.problems[x.level], &c.levels[x.level]
	spec, dim := (*specOf(a.Specs, x.h)).(Prefix), q.Dim
	key := func(j int) []float64 { return wide(k.Head(0, x.h).Row(j)) }
	first := &c.chunks[level.first]
	cov := blockCovariance(chunkRows(q, first, first.order), spec.Queries)
	mean, train := make([]float64, dim), 0
	for j := p.span.K0; j < p.span.K0+level.known; j++ {
		if a.KeyMask == nil || a.KeyMask[j] {
			train++
			for l, y := range key(j) {
				mean[l] += y
			}
		}
	}
	// Keys before x.begin are in clusters. The chunk begins Window keys later.
	start, known := max(spec.Start, spec.Chunk), level.known+spec.Window
	begin := x.begin + spec.Window
	if known%start != 0 || known/start&(known/start-1) != 0 || known > begin || 2*known <= begin || begin < start ||
		begin%spec.Chunk != 0 {
		t.Fatalf("%s: a chunk at %d has clusters of %d keys", name, begin, level.known)
	}
	// The keys before a position, by cluster.
	before := func(end int) (keys, values [][]float64, clusters [][2]int) {
		for y := range p.clusters {
			from := len(keys)
			for _, j := range p.order[p.start[y]:p.start[y+1]] {
				if at := int(p.keys[j]); at < p.span.K0+end {
					keys, values = append(keys, key(at)), append(values, wide(v.Head(0, x.h).Row(at)))
				}
			}
			clusters = append(clusters, [2]int{from, len(keys)})
		}
		return keys, values, clusters
	}
	keys, values, clusters := before(x.begin)
	extra := make([]float64, len(keys))
	for n, y := range keys {
		for i := range y {
			for j := range y {
				if train > 0 {
					extra[n] += cov[i][j] * (y[i] - mean[i]/float64(train)) * (y[j] - mean[j]/float64(train))
				}
			}
		}
		if s := math.Sqrt(extra[n]); s > 3 {
			extra[n] = 6*s - 9
		}
	}
	slopes := naiveSlopes(nil, nil, nil, dim, v.Dim)
	if train > 0 {
		k, v, c := before(first.begin)
		slopes = naiveSlopes(k, v, c, dim, len(v[0]))
	}
	if got := slices.Sorted(slices.Values(x.order)); len(slices.Compact(got)) != 2*(x.q1-x.q0) || got[0] != 0 {
		t.Fatalf("%s: rows are %v", name, x.order)
	}
	for lo := 0; lo < len(x.order); lo += spec.Queries {
		rows := x.order[lo:min(lo+spec.Queries, len(x.order))]
		var nearK, nearV [][][]float64
		for _, r := range rows {
			var ys, us [][]float64
			at := x.q0 + int(r)%(x.q1-x.q0)
			_, end, _ := a.Keys(0, at, q.Len, k.Len)
			for j := p.span.K0 + x.begin; j < end; j++ {
				if a.KeyMask == nil || a.KeyMask[j] {
					ys, us = append(ys, key(j)), append(us, wide(v.Head(0, x.h).Row(j)))
				}
			}
			nearK, nearV = append(nearK, ys), append(nearV, us)
		}
		want := naiveTilt(chunkRows(q, x, rows), keys, values, clusters, extra, spec.Keys, v.Dim, slopes, nearK, nearV)
		for i, r := range rows {
			at := x.q0 + int(r)%(x.q1-x.q0)
			if len(keys) == 0 && len(nearK[i]) == 0 { // it sees nothing
				clear(want[i])
			}
			near1(t, fmt.Sprintf("%s, row %d", name, at), out.Head(0, 2*x.h+int(r)/(x.q1-x.q0)).Row(at), want[i], 1e-4)
		}
	}
	return len(x.order)
}

// Outputs have the same bits with any number of threads, and At and Trials have those of Forward. Specs that differ in
// Keys alone share their clusters. Errors fall with the number of keys, to those of rounding.
func TestPrefixBits(t *testing.T) {
	const length, dim = 700, 32
	q, k, v := grouped(2, length, dim, 3)
	vis := attention.Visibility{Causal: true}
	rows := []int{0, 5, 63, 64, 65, 299, 300, 511, 698, 699}
	want := attention.NewSeq[float32](1, 4, length, dim)
	if _, err := (&attention.Exact[float32]{Visibility: vis}).Forward(want, q, k, v); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []Prefix{{Clusters: 24, Chunk: 64, Queries: 32},
		{Clusters: 24, Chunk: 64, Queries: 32, Window: 48, Start: 150}} {
		trials, err := NewTrials(vis, 0, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		last := 0.2
		for _, keys := range []int{8, 64, 1000} {
			spec.Keys = keys
			a := &Attention{Visibility: vis, Specs: []Spec{spec}}
			first := sameBits(t, a, q, k, v)
			sameRows(t, a, trials, first, rows, q, k, v)
			e := errorOf(first, want)
			if !(e < 0.7*last) {
				t.Errorf("%+v: error %v", spec, e)
			}
			last = e
		}
		if trials.prefix.made != 1 || last > 1e-6 {
			t.Errorf("%d clusterings for specs that differ in keys alone; an error of %v with all keys",
				trials.prefix.made, last)
		}
	}
}

// The rows of At have the bits of Forward, whether or not a row without keys in its chunk is computed with them.
func TestPrefixMaskedRows(t *testing.T) {
	const length, dim, chunk = 200, 16, 40
	q, k, v := grouped(1, length, dim, 4)
	mask := make([]bool, length)
	var rows []int
	for i := range mask {
		if mask[i] = i%chunk > 3; mask[i] {
			rows = append(rows, i)
		}
	}
	for _, keys := range []int{10, length} { // with centroids, and without
		a := &Attention{Visibility: attention.Visibility{Causal: true, KeyMask: mask},
			Specs: []Spec{Prefix{Clusters: 6, Chunk: chunk, Queries: 30, Keys: keys}}}
		trials, err := NewTrials(a.Visibility, 0, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		sameRows(t, a, trials, sameBits(t, a, q, k, v), rows, q, k, v)
	}
}

// No bit of a row depends on a later key or value, on a query of a later chunk, or on a masked key.
func TestPrefixCausal(t *testing.T) {
	const length, dim, chunk, window = 400, 16, 32, 11
	q, k, v := grouped(1, length, dim, 5)
	mask := make([]bool, length)
	for i := range mask {
		mask[i] = i != 33 && i != 250
	}
	run := func() attention.Seq[float32] {
		a := &Attention{Visibility: attention.Visibility{Causal: true, KeyMask: mask},
			Specs: []Spec{Prefix{Clusters: 6, Chunk: chunk, Queries: 16, Keys: 20, Window: window, Start: 2 * chunk}}}
		out := attention.NewSeq[float32](1, 2, length, dim)
		if _, err := a.Forward(out, q, k, v); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := run()
	r := rand.New(rand.NewPCG(1, 2))
	change := func(m attention.Seq[float32], from int) {
		for h := range m.Heads {
			for l := from; l < length; l++ {
				for c := range m.Head(0, h).Row(l) {
					m.Head(0, h).Row(l)[c] = float32(r.NormFloat64())
				}
			}
		}
	}
	same := func(what string, from int) {
		got := run()
		for h := range 2 {
			for l := range from {
				if !slices.Equal(got.Head(0, h).Row(l), want.Head(0, h).Row(l)) {
					t.Fatalf("%s: row %d of head %d has changed", what, l, h)
				}
			}
			if l := length - 1; slices.Equal(got.Head(0, h).Row(l), want.Head(0, h).Row(l)) {
				t.Errorf("%s: the last row is the same", what)
			}
		}
	}
	const from = 9*chunk + 13
	change(k, from)
	change(v, from)
	same("later keys and values", from)
	for _, l := range []int{33, 250} {
		k.Head(0, 0).Row(l)[3], v.Head(0, 0).Row(l)[1] = float32(math.NaN()), float32(math.Inf(1))
	}
	change(q, 9*chunk)
	same("queries of later chunks, masked keys", 9*chunk)
}

// A cluster whose keys weigh nothing for the mean query keeps its plain centroid: a row far from the mean may need it.
func TestPrefixLight(t *testing.T) {
	// Rows of the second chunk have opposite queries: their mean is 10, and weights span e^±200.
	q, k := attention.NewSeq[float32](1, 1, 8, 1), attention.NewSeq[float32](1, 1, 8, 1)
	v := attention.NewSeq[float32](1, 1, 8, 1)
	copy(q.Data, []float32{0, 0, 0, 0, -10, 30, 10, 10})
	copy(k.Data, []float32{-20, -20, 20, 20, 0, 0, 0, 0})
	copy(v.Data, []float32{1, 1, 3, 3, 7, 7, 7, 7})
	a := &Attention{Scale: 1, Specs: []Spec{Prefix{Clusters: 2, Chunk: 4, Queries: 4, Keys: 1}}}
	a.Causal = true
	out := attention.NewSeq[float32](1, 1, 8, 1)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{1, 3, 3, 3} {
		if got := out.Data[4+i]; math.Abs(float64(got-want)) > 1e-3 {
			t.Errorf("row %d is %v, want %v", 4+i, got, want)
		}
	}
}

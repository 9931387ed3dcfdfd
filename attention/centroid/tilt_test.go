package centroid

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// naiveTilt is the definition for a block of scaled queries: the keys of the largest rank for their mean are exact, the
// others of every cluster are one centroid. lo to hi−1 are the keys of a cluster. The covariances of keys and values
// inside of clusters move the values and raise the masses of all centroids. near are further exact keys of a row.
func naiveTilt(x, k, v [][]float64, clusters [][2]int, extra []float64, keys, dv int, slopes naiveSlope,
	nearK, nearV [][][]float64) [][]float64 {
	mean := make([]float64, len(x[0]))
	for _, r := range x {
		for i, a := range r {
			mean[i] += a / float64(len(x))
		}
	}
	w, rank, order := make([]float64, len(k)), make([]float64, len(k)), make([]int, len(k))
	for j := range k {
		rank[j] = dense.Dot(mean, k[j])
		w[j], order[j] = math.Exp(rank[j]), j
		if extra != nil {
			rank[j] += extra[j]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[b], rank[a]) })
	exact := map[int]bool{}
	for _, j := range order[:min(keys, len(order))] {
		exact[j] = true
	}
	out := make([][]float64, len(x))
	for r := range x {
		row := naiveRow{num: make([]float64, dv)}
		for j, y := range nearK[r] {
			row.add(math.Exp(dense.Dot(x[r], y)), nearV[r][j])
		}
		delta, spread := make([]float64, len(mean)), 0.0
		for i := range delta {
			delta[i] = x[r][i] - mean[i]
		}
		for i := range delta {
			spread += delta[i] * dense.Dot(slopes.cov[i], delta)
		}
		for _, c := range clusters {
			n, y, u := 0.0, make([]float64, len(mean)), make([]float64, dv)
			for j := c[0]; j < c[1]; j++ {
				if exact[j] {
					row.add(math.Exp(dense.Dot(x[r], k[j])), v[j])
					continue
				}
				n += w[j]
				for i := range y {
					y[i] += w[j] * k[j][i]
				}
				for i := range u {
					u[i] += w[j] * v[j][i]
				}
			}
			if n == 0 {
				continue
			}
			for i := range u {
				u[i] = u[i]/n + dense.Dot(slopes.values[i], delta)*min(1, 2/math.Sqrt(max(spread, 1e-30)))
			}
			row.add(n*math.Exp(dense.Dot(delta, y)/n+min(spread/4, 2)), u)
		}
		for i := range row.num {
			row.num[i] /= row.den
		}
		out[r] = row.num
	}
	return out
}

// naiveSlope is Cov(v, y) and Cov(y) inside of clusters.
type naiveSlope struct{ values, cov [][]float64 }

// naiveSlopes computes the covariances over all keys; zeros if every key is a cluster, or without keys.
func naiveSlopes(k, v [][]float64, clusters [][2]int, d, dv int) naiveSlope {
	slope, cov := make([][]float64, dv), make([][]float64, d)
	for i := range slope {
		slope[i] = make([]float64, d)
	}
	for i := range cov {
		cov[i] = make([]float64, d)
	}
	means := func(rows [][]float64) []float64 {
		m := make([]float64, len(rows[0]))
		for _, r := range rows {
			for i, a := range r {
				m[i] += a / float64(len(rows))
			}
		}
		return m
	}
	free := float64(len(k))
	for _, c := range clusters {
		if c[0] < c[1] {
			free--
		}
	}
	for _, c := range clusters {
		if c[0] == c[1] || free == 0 {
			continue
		}
		y, u := means(k[c[0]:c[1]]), means(v[c[0]:c[1]])
		for j := c[0]; j < c[1]; j++ {
			for l := range d {
				dy := (k[j][l] - y[l]) / free
				for i := range u {
					slope[i][l] += (v[j][i] - u[i]) * dy
				}
				for i := range y {
					cov[i][l] += (k[j][i] - y[i]) * dy
				}
			}
		}
	}
	return naiveSlope{slope, cov}
}

// Blocks that weigh the keys are what their definition says, with masks, segments, sinks and grouped heads.
func TestTiltNaive(t *testing.T) {
	const length, dim = 230, 16
	q, k, v := grouped(2, length, dim, 1)
	mask := make([]bool, length)
	ids := make([]int32, length)
	for i := range mask {
		mask[i], ids[i] = i%7 != 3, int32(i/150)
	}
	for i, vis := range []attention.Visibility{{}, {KeyMask: mask}, {KeyMask: mask, Segments: ids}} {
		for _, s := range []Blocks{{Clusters: 12, Queries: 32, Keys: 20}, {Clusters: 5, Queries: 1, Keys: 3},
			{Clusters: 150, Queries: 64, Keys: 1}, {Clusters: 9, Queries: 500, Keys: 40},
			{Clusters: 3, Queries: 48, Keys: 1000}, {Clusters: 1000, Queries: 48, Keys: 7}} {
			name := fmt.Sprintf("visibility %d, %+v", i, s)
			a := &Attention{Visibility: vis, Specs: []Spec{s}}
			out := attention.NewSeq[float32](1, 4, length, dim)
			report, err := a.Forward(out, q, k, v)
			if err != nil {
				t.Fatal(name, err)
			}
			if report.Rows != 4*length || report.Empty != 0 {
				t.Errorf("%s: %+v", name, report)
			}
			c := new(call)
			if err := c.start(a, out, q, k, v); err != nil {
				t.Fatal(err)
			}
			c.run(true, false)
			for _, p := range c.problems[:c.used] {
				var keys, values [][]float64
				var clusters [][2]int
				for x := range p.clusters {
					clusters = append(clusters, [2]int{int(p.start[x]), int(p.start[x+1])})
				}
				for _, j := range p.order {
					keys = append(keys, wide(k.Head(0, p.h).Row(int(p.keys[j]))))
					values = append(values, wide(v.Head(0, p.h).Row(int(p.keys[j]))))
				}
				slopes := naiveSlopes(keys, values, clusters, dim, dim)
				n := p.span.Q1 - p.span.Q0
				if got := slices.Sorted(slices.Values(p.rows.order)); len(slices.Compact(got)) != 2*n || got[0] != 0 {
					t.Fatalf("%s: rows are %v", name, p.rows.order)
				}
				for lo := 0; lo < 2*n; lo += s.Queries {
					rows := p.rows.order[lo:min(lo+s.Queries, 2*n)]
					x := make([][]float64, len(rows))
					for i, r := range rows {
						x[i] = wide(q.Head(0, 2*p.h+int(r)/n).Row(p.span.Q0 + int(r)%n))
						for l := range x[i] {
							x[i][l] /= math.Sqrt(dim)
						}
					}
					want := naiveTilt(x, keys, values, clusters, nil, s.Keys, dim, slopes,
						make([][][]float64, len(x)), make([][][]float64, len(x)))
					for i, r := range rows {
						near1(t, fmt.Sprintf("%s, row %d", name, r),
							out.Head(0, 2*p.h+int(r)/n).Row(p.span.Q0+int(r)%n), want[i], 1e-4)
					}
				}
			}
		}
	}
}

// Outputs have the same bits with any number of threads, and At and Trials have those of Forward. Specs that differ in
// Keys alone share their clusters.
func TestTiltBits(t *testing.T) {
	const length, dim = 700, 32
	q, k, v := grouped(2, length, dim, 3)
	rows := []int{0, 5, 63, 64, 65, 299, 300, 511, 698, 699}
	trials, err := NewTrials(attention.Visibility{}, 0, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	var errors []float64
	want := attention.NewSeq[float32](1, 4, length, dim)
	if _, err := new(attention.Exact[float32]).Forward(want, q, k, v); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []int{8, 64, 256} {
		a := &Attention{Specs: []Spec{Blocks{Clusters: 24, Queries: 32, Keys: keys}}}
		first := sameBits(t, a, q, k, v)
		sameRows(t, a, trials, first, rows, q, k, v)
		errors = append(errors, errorOf(first, want))
	}
	if trials.calls.made != 1 {
		t.Errorf("%d clusterings for specs that differ in keys alone", trials.calls.made)
	}
	if !(errors[0] > errors[1] && errors[1] > errors[2] && errors[2] < 0.05) {
		t.Errorf("errors %v with more and more keys", errors)
	}
}

// A cluster whose keys weigh nothing for the mean query keeps its plain centroid: a row far from the mean may need it.
func TestTiltLight(t *testing.T) {
	// Two rows in one block, with opposite queries: their mean is 10, and weights span e^±200.
	q, k := attention.NewSeq[float32](1, 1, 2, 1), attention.NewSeq[float32](1, 1, 6, 1)
	v := attention.NewSeq[float32](1, 1, 6, 1)
	copy(q.Data, []float32{-10, 30})
	copy(k.Data, []float32{-20, -20, -20, 20, 20, 20})
	copy(v.Data, []float32{1, 1, 1, 3, 3, 3})
	a := &Attention{Scale: 1, Specs: []Spec{Blocks{Clusters: 2, Queries: 2, Keys: 1}}}
	out := attention.NewSeq[float32](1, 1, 2, 1)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	if math.Abs(float64(out.Data[0])-1) > 1e-3 || math.Abs(float64(out.Data[1])-3) > 1e-3 {
		t.Errorf("outputs %v, want 1 and 3", out.Data)
	}
}

// Logits and keys of any size give outputs in the range of the values, and those of exact attention if all keys are
// exact.
func TestTiltLargeLogits(t *testing.T) {
	const length, dim = 300, 16
	q, k, v := grouped(1, length, dim, 3)
	largest := 0.0
	for _, x := range v.Data[:length*dim] {
		largest = max(largest, math.Abs(float64(x)))
	}
	times := func(s attention.Seq[float32], f float32) attention.Seq[float32] {
		out := attention.NewSeq[float32](1, s.Heads, s.Len, s.Dim)
		for i := range out.Data {
			out.Data[i] = f * s.Data[i]
		}
		return out
	}
	for _, f := range [][2]float32{{30, 1}, {100, 1}, {1000, 1}, {1e9, 1}, {1, 1e36}} {
		q, k := times(q, f[0]), times(k, f[1])
		for _, s := range []Spec{Prefix{Clusters: 6, Chunk: 32, Queries: 30, Keys: 8, Window: 9},
			Blocks{Clusters: 16, Queries: 16, Keys: 8}, Prefix{Clusters: 6, Chunk: 32, Queries: 30, Keys: length}} {
			a := &Attention{Visibility: attention.Visibility{Causal: s.Causal()}, Specs: []Spec{s}}
			out, want := attention.NewSeq[float32](1, 2, length, dim), attention.NewSeq[float32](1, 2, length, dim)
			r, err := a.Forward(out, q, k, v)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&attention.Exact[float32]{Visibility: a.Visibility}).Forward(want, q, k, v); err != nil {
				t.Fatal(err)
			}
			for i, x := range out.Data {
				if !(math.Abs(float64(x)) < 1.5*largest) {
					t.Errorf("inputs times %v, %+v: number %d is %v", f, s, i, x)
					break
				}
			}
			if e := errorOf(out, want); r.Empty > 0 || keysOf(s) == length && e > 1e-6 {
				t.Errorf("inputs times %v, %+v: %d empty rows, an error of %v", f, s, r.Empty, e)
			}
		}
	}
}

// keysOf is the number of exact keys of a block.
func keysOf(s Spec) int {
	set := s.settings()
	return set.keys
}

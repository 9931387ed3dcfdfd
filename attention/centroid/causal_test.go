package centroid

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// queryView is what one query knows of the clusters.
type queryView struct {
	x, a            []float64
	raw, gain, rank []float64
	logZ            float64
}

// residual is the score of a key of cluster c by its residual numbers and their means.
func (w *queryView) residual(c int, q, mean []float64) float64 {
	s := w.raw[c]
	for i, a := range w.a {
		s += a * (q[i] - mean[i])
	}
	return s
}

// naiveCausal is causal centroid attention of one packed sequence and one key/value head by its definition, in float64
// and without any state: what a query sees is collected from the first key on. q has one matrix per query head of the
// group; mask may be nil. Centres nil: all keys are exact.
func naiveCausal(s Spec, scale float64, c *Centres, q []dense.Matrix[float64], k, v dense.Matrix[float64],
	mask []bool, mutant string, rep *attention.Report) []dense.Matrix[float64] {
	n, d := k.Rows, k.Cols
	off := n - q[0].Rows
	cluster, res := make([]int32, n), [][]float64(nil)
	kc := 0
	if c != nil {
		kc = c.Clusters()
		if err := Assign(cluster, c, k, v); err != nil {
			panic(err)
		}
		px, py := c.Projections()
		r := 0
		if s.filters() {
			r = min(s.residual(d), px.Cols)
		}
		steps, limit := quantum(s.bits())
		for j := range n {
			row := make([]float64, r)
			for i := range row {
				step := c.Deviation()[i] / steps
				for l := range d {
					row[i] += py.At(l, i) * (k.At(j, l) - c.Centre(int(cluster[j]))[l])
				}
				row[i] = step * min(max(math.Round(row[i]/step), -limit), limit)
			}
			res = append(res, row)
		}
	}
	out := make([]dense.Matrix[float64], len(q))
	for h := range q {
		out[h] = dense.New[float64](q[h].Rows, v.Cols)
	}
	block := s.block(true)
	type key struct {
		j     int
		score []float64
	}
	for i := range q[0].Rows {
		p := i + off
		if p < 0 {
			continue
		}
		b0 := p / block * block
		far := b0 - s.Window
		if c == nil {
			far = 0
		}
		exact := map[int]bool{}
		n1, mean, vmean, pmean, pvar := make([]float64, kc), make([][]float64, kc), make([][]float64, kc),
			make([][]float64, kc), make([][]float64, kc)
		list := make([][]int, kc)
		for j := 0; j <= p; j++ {
			if mask != nil && !mask[j] {
				continue
			}
			if exact[j] = j < s.Sinks || j >= far; !exact[j] || mutant == "means include the window" && j >= s.Sinks {
				list[cluster[j]] = append(list[cluster[j]], j)
			}
		}
		average := func(js []int, f func(j int) float64) (m float64) {
			for _, j := range js {
				m += f(j) / float64(len(js))
			}
			return m
		}
		for c, js := range list {
			for l := range d {
				mean[c] = append(mean[c], average(js, func(j int) float64 { return k.At(j, l) }))
			}
			for l := range v.Cols {
				vmean[c] = append(vmean[c], average(js, func(j int) float64 { return v.At(j, l) }))
			}
			if len(js) > 0 && len(res) > 0 {
				for r := range res[0] {
					m := average(js, func(j int) float64 { return res[j][r] })
					pmean[c] = append(pmean[c], m)
					square := func(j int) float64 { return (res[j][r] - m) * (res[j][r] - m) }
					pvar[c] = append(pvar[c], average(js, square))
				}
			}
			n1[c] = float64(len(js))
		}
		views := make([]queryView, len(q)) // of all heads
		for h := range q {
			w := &views[h]
			for _, x := range q[h].Row(i) {
				w.x = append(w.x, x*scale)
			}
			if len(res) > 0 {
				px, _ := c.Projections()
				for r := range res[0] {
					var a float64
					for l, x := range w.x {
						a += x * px.At(l, r)
					}
					w.a = append(w.a, a)
				}
			}
			z := 0.0
			for c := range kc {
				raw := dense.Dot(w.x, mean[c])
				var s2 float64
				if s.Spread && n1[c] > 0 {
					for r, a := range w.a {
						s2 += a * a * pvar[c][r]
					}
				}
				w.raw = append(w.raw, raw)
				w.gain = append(w.gain, raw+min(s2, 6)/2)
				w.rank = append(w.rank, math.Inf(-1))
				if n1[c] > 0 {
					w.rank[c] = math.Log(n1[c]) + raw + s2/2
					z += math.Exp(w.rank[c])
				}
			}
			for j, e := range exact {
				if e {
					z += math.Exp(dense.Dot(w.x, k.Row(j)))
				}
			}
			w.logZ = math.Log(z)
		}
		for h := range q {
			members := []int{h}
			if s.Shared {
				members = members[:0]
				for g := range q {
					members = append(members, g)
				}
			}
			best := func(f func(w *queryView) float64) float64 {
				m := math.Inf(-1)
				for _, g := range members {
					m = max(m, f(&views[g])-views[g].logZ)
				}
				return m
			}
			var order []int
			for c := range kc {
				if n1[c] > 0 {
					order = append(order, c)
				}
			}
			slices.SortStableFunc(order, func(a, b int) int {
				return cmp.Compare(best(func(w *queryView) float64 { return w.rank[b] }),
					best(func(w *queryView) float64 { return w.rank[a] }))
			})
			open := order[:min(s.Top, len(order))]
			slices.Sort(open)
			var cand []key
			for _, c := range open {
				for _, j := range list[c] {
					sc := 0.0
					if s.Keys > 0 {
						sc = best(func(w *queryView) float64 { return w.residual(c, res[j], pmean[c]) })
					}
					cand = append(cand, key{j, []float64{sc}})
				}
			}
			slices.SortStableFunc(cand, func(a, b key) int { return -cmp.Compare(a.score[0], b.score[0]) })
			if s.Keys > 0 && len(cand) > s.Keys {
				rep.Scored += int64(len(cand))
				cand = cand[:s.Keys]
			}
			mine := map[int]bool{}
			for j, e := range exact {
				if e {
					mine[j] = true
				}
			}
			left := slices.Clone(n1)
			gain := slices.Clone(views[h].gain)
			if len(cand) > 0 && len(cand) == s.Keys {
				for _, c := range open {
					var rest []int
					for _, j := range list[c] {
						if !slices.ContainsFunc(cand, func(x key) bool { return x.j == j }) {
							rest = append(rest, j)
						}
					}
					tail := average(rest, func(j int) float64 {
						return math.Exp(views[h].residual(c, res[j], pmean[c]))
					})
					if len(rest) > 0 && mutant != "tails of whole clusters" {
						gain[c] = math.Log(tail)
					}
				}
			}
			for _, x := range cand {
				mine[x.j] = true
				if mutant != "exact keys count twice" {
					left[cluster[x.j]]--
				}
			}
			if mutant == "window counts twice" {
				for j := max(s.Sinks, far); j <= p && kc > 0; j++ {
					left[cluster[j]]++
				}
			}
			rep.Exact += int64(len(mine))
			w := &views[h]
			m := math.Inf(-1)
			for j := range mine {
				m = max(m, dense.Dot(w.x, k.Row(j)))
			}
			for c := range kc {
				if left[c] > 0 {
					m = max(m, gain[c])
				}
			}
			dst := out[h].Row(i)
			var sum float64
			for j := range n {
				if mine[j] {
					e := math.Exp(dense.Dot(w.x, k.Row(j)) - m)
					sum += e
					for l, x := range v.Row(j) {
						dst[l] += e * x
					}
				}
			}
			for c := range kc {
				if left[c] <= 0 {
					continue
				}
				e := math.Exp(gain[c] - m)
				sum += e * left[c]
				rest := make([]float64, v.Cols)
				for l := range rest {
					rest[l] = n1[c] * vmean[c][l]
				}
				for _, x := range cand {
					if int(cluster[x.j]) == c {
						for l := range rest {
							rest[l] -= v.At(x.j, l)
						}
					}
				}
				for l := range rest {
					dst[l] += e * rest[l]
				}
			}
			for l := range dst {
				if sum > 0 {
					dst[l] /= sum
				}
			}
		}
	}
	return out
}

// input is q, k, v of clustered keys, as real heads have them.
type input[T dense.Float] struct{ q, k, v attention.Seq[T] }

func makeInput[T dense.Float](seed uint64, batch, qHeads, kvHeads, lenQ, lenK, d, dv int, spread float64) input[T] {
	r := rand.New(rand.NewPCG(seed, 7))
	in := input[T]{attention.NewSeqBLHD[T](batch, lenQ, qHeads, d), attention.NewSeqBLHD[T](batch, lenK, kvHeads, d),
		attention.NewSeq[T](batch, kvHeads, lenK, dv)}
	topics := dense.New[float64](6, d)
	for i := range topics.Data {
		topics.Data[i] = r.NormFloat64()
	}
	for _, s := range []attention.Seq[T]{in.q, in.k} {
		for b := range s.Batch {
			for h := range s.Heads {
				m := s.Head(b, h)
				for l := range m.Rows {
					t := topics.Row(r.IntN(6))
					for i := range m.Row(l) {
						m.Row(l)[i] = T(1.5*t[i] + spread*r.NormFloat64())
					}
				}
			}
		}
	}
	for i := range in.v.Data {
		in.v.Data[i] = T(r.NormFloat64())
	}
	return in
}

// centresOf are calibrated on other data of the same kind.
func centresOf[T dense.Float](t testing.TB, s Spec, qHeads, kvHeads, d, dv int) []*Centres {
	t.Helper()
	in := makeInput[T](99, 1, qHeads, kvHeads, 300, 300, d, dv, 0.7)
	c, err := Fit([]Spec{s}, 0, attention.Visibility{Causal: true}, in.q, in.k, in.v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func forward[T dense.Float](t testing.TB, a *Attention[T], in input[T]) attention.Seq[T] {
	t.Helper()
	out := attention.NewSeq[T](in.q.Batch, in.q.Heads, in.q.Len, in.v.Dim)
	r, err := a.Forward(out, in.q, in.k, in.v)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(in.q.Batch * in.q.Heads * in.q.Len); r.Rows != want {
		t.Errorf("%d rows reported, want %d", r.Rows, want)
	}
	return out
}

// naiveAll is naiveCausal of every head, and of every packed sequence.
func naiveAll(a *Attention[float64], in input[float64], mutant string) (attention.Seq[float64], attention.Report) {
	var rep attention.Report
	out := attention.NewSeq[float64](in.q.Batch, in.q.Heads, in.q.Len, in.v.Dim)
	group := in.q.Heads / in.k.Heads
	scale, _ := logitScale(a.Scale, in.q.Dim)
	for b := range in.q.Batch {
		for h := range in.k.Heads {
			for _, sp := range a.Spans(nil, b, in.q.Len, in.k.Len) {
				var q []dense.Matrix[float64]
				for g := range group {
					q = append(q, in.q.Head(b, h*group+g).RowRange(sp.Q0, sp.Q1))
				}
				var mask []bool
				if a.KeyMask != nil {
					mask = a.KeyMask[b*in.k.Len+sp.K0 : b*in.k.Len+sp.K1]
				}
				var c *Centres
				s := *specOf(a.Specs, h)
				if s.Clusters > 0 {
					c = a.Centres[h]
				}
				k, v := in.k.Head(b, h).RowRange(sp.K0, sp.K1), in.v.Head(b, h).RowRange(sp.K0, sp.K1)
				for g, m := range naiveCausal(s, scale, c, q, k, v, mask, mutant, &rep) {
					for i := range m.Rows {
						copy(out.Head(b, h*group+g).Row(sp.Q0+i), m.Row(i))
					}
				}
			}
		}
	}
	return out, rep
}

// worst is the largest distance of two rows, relative to the root mean square of the values.
func worst[T dense.Float](got, want attention.Seq[T]) float64 {
	var top float64
	for b := range got.Batch {
		for h := range got.Heads {
			g, w := got.Head(b, h), want.Head(b, h)
			for i := range g.Rows {
				var e float64
				for l, x := range g.Row(i) {
					e += math.Pow(float64(x-w.At(i, l)), 2)
				}
				if e = math.Sqrt(e / float64(got.Dim)); !(e <= top) {
					top = e
				}
			}
		}
	}
	return top
}

var causalSpecs = []Spec{
	{Clusters: 8, Sinks: 2, Window: 8, Block: 8},
	{Clusters: 8, Sinks: 2, Window: 8, Block: 8, Spread: true},
	{Clusters: 8, Sinks: 3, Window: 5, Block: 7, Spread: true, Top: 2},
	{Clusters: 8, Top: 3, Block: 16, Shared: true},
	{Clusters: 8, Sinks: 4, Window: 8, Block: 8, Spread: true, Top: 3, Keys: 5, Residual: 4},
	{Clusters: 8, Sinks: 4, Window: 16, Block: 1, Top: 3, Keys: 7},
	{Clusters: 8, Sinks: 4, Window: 8, Block: 8, Spread: true, Top: 3, Keys: 9, Shared: true},
	{Clusters: 8, Sinks: 4, Window: 8, Block: 8, Spread: true, Top: 4, Keys: 12, Bits: 4},
	{Clusters: 8, Sinks: 1, Window: 8, Block: 8, Spread: true, Top: 8, Keys: 40, Values: 0.5},
}

func TestCausalIsItsDefinition(t *testing.T) {
	for i, s := range causalSpecs {
		for _, shape := range []struct {
			name                            string
			batch, q, kv, lenQ, lenK, d, dv int
		}{{"plain", 1, 2, 1, 90, 90, 6, 5}, {"fewer queries", 2, 2, 2, 37, 101, 5, 3},
			{"more queries", 1, 1, 1, 60, 44, 4, 7}} {
			t.Run(fmt.Sprintf("%d/%s", i, shape.name), func(t *testing.T) {
				in := makeInput[float64](uint64(i), shape.batch, shape.q, shape.kv, shape.lenQ, shape.lenK, shape.d,
					shape.dv, 0.7)
				a := &Attention[float64]{Specs: []Spec{s}}
				a.Centres = centresOf[float64](t, s, shape.q, shape.kv, shape.d, shape.dv)
				a.Causal = true
				got := attention.NewSeq[float64](shape.batch, shape.q, shape.lenQ, shape.dv)
				rep, err := a.Forward(got, in.q, in.k, in.v)
				if err != nil {
					t.Fatal(err)
				}
				want, count := naiveAll(a, in, "")
				if e := worst(got, want); !(e < 1e-11) {
					t.Errorf("%+v: error %.3g", s, e)
				}
				if rep.Exact != count.Exact || rep.Scored != count.Scored {
					t.Errorf("%+v: %d exact and %d scored keys, want %d and %d", s, rep.Exact, rep.Scored, count.Exact,
						count.Scored)
				}
				mutants := []string{"window counts twice", "means include the window", "exact keys count twice",
					"tails of whole clusters"}
				for _, mutant := range mutants {
					if s.Top == 0 && mutant == "exact keys count twice" ||
						s.Keys%40 == 0 && mutant == "tails of whole clusters" { // nothing is left with 40
						continue
					}
					bad, _ := naiveAll(a, in, mutant)
					if e := worst(got, bad); !(e > 1e-3) {
						t.Errorf("%+v: the mutant %q passes: %.3g", s, mutant, e)
					}
				}
			})
		}
	}
}

// visibilities are masks and packed sequences for two batches of n positions.
func visibilities(n int) map[string]attention.Visibility {
	mask, ids := make([]bool, 2*n), make([]int32, 2*n)
	for i := range mask {
		mask[i] = (i*i)%5 != 1
		ids[i] = int32(i % n * 3 / (n + 17))
		if i >= n {
			ids[i] = int32(i % n * 5 / n)
		}
	}
	return map[string]attention.Visibility{"mask": {Causal: true, KeyMask: mask},
		"packed": {Causal: true, Segments: ids}, "both": {Causal: true, KeyMask: mask, Segments: ids}}
}

func TestCausalMasksAndPackedSequences(t *testing.T) {
	const n = 96
	in := makeInput[float64](5, 2, 4, 2, n, n, 6, 5, 0.7)
	for name, vis := range visibilities(n) {
		for _, i := range []int{2, 4, 6} {
			s := causalSpecs[i]
			c := centresOf[float64](t, s, 4, 2, 6, 5)
			a := &Attention[float64]{Visibility: vis, Specs: []Spec{s, s}, Centres: c}
			want, _ := naiveAll(a, in, "")
			if e := worst(forward(t, a, in), want); !(e < 1e-11) {
				t.Errorf("%s, %+v: error %.3g", name, s, e)
			}
			// What nobody sees may hold anything.
			bad := input[float64]{in.q, in.k, in.v}
			bad.k.Data, bad.v.Data = slices.Clone(in.k.Data), slices.Clone(in.v.Data)
			for b := range 2 {
				for h := range 2 {
					for j := range n {
						if vis.KeyMask != nil && !vis.KeyMask[b*n+j] {
							bad.k.Head(b, h).Row(j)[0], bad.v.Head(b, h).Row(j)[1] = math.NaN(), math.Inf(1)
						}
					}
				}
			}
			if e := worst(forward(t, a, bad), want); !(e < 1e-11) {
				t.Errorf("%s, %+v: masked keys that are not finite: error %.3g", name, s, e)
			}
		}
	}
}

// Enough centroids, clusters or neighbours make it exact.
func TestCausalExactLimits(t *testing.T) {
	const n = 120
	in := makeInput[float64](6, 1, 4, 2, n, n, 6, 5, 0.7)
	want := attention.NewSeq[float64](1, 4, n, 5)
	exact := attention.Exact[float64]{Visibility: attention.Visibility{Causal: true}}
	if _, err := exact.Forward(want, in.q, in.k, in.v); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Spec{
		"a centroid per key": {Clusters: n, Window: 4, Block: 4, Sinks: 1, Passes: 1},
		"all clusters open":  {Clusters: 7, Top: 7, Block: 8},
		"all keys open":      {Clusters: 7, Top: 7, Keys: n, Block: 8, Spread: true, Shared: true},
		"a wide window":      {Clusters: 7, Window: n, Block: 8, Spread: true},
		"a wide block":       {Clusters: 7, Block: n},
		"all are sinks":      {Clusters: 7, Sinks: n},
	} {
		c, err := Fit([]Spec{s}, 0, exact.Visibility, in.q, in.k, in.v)
		if err != nil {
			t.Fatal(err)
		}
		a := &Attention[float64]{Visibility: exact.Visibility, Specs: []Spec{s}, Centres: c}
		if e := worst(forward(t, a, in), want); !(e < 1e-12) {
			t.Errorf("%s: error %.3g", name, e)
		}
	}
	s := Spec{Clusters: 7, Top: 2, Block: 8}
	c, _ := Fit([]Spec{s}, 0, exact.Visibility, in.q, in.k, in.v)
	a := &Attention[float64]{Visibility: exact.Visibility, Specs: []Spec{s}, Centres: c}
	if e := worst(forward(t, a, in), want); !(e > 1e-4) {
		t.Errorf("two of seven clusters open are exact: %.3g", e)
	}
}

// Bits neither depend on the number of processors nor on anything a query does not see: later keys, however large, and
// the queries after it. Without centres the fit sees no later key either.
func TestCausalBits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const n = 2700
	cuts := []int{1, 150, 2049, 2600}
	if testing.Short() {
		cuts = []int{2100}
	}
	in := makeInput[float32](8, 1, 2, 1, n, n, 8, 8, 0.7)
	for _, fitted := range []bool{true, false} {
		s := Spec{Clusters: 8, Sinks: 4, Window: 16, Block: 16, Spread: true, Top: 3, Keys: 12}
		a := &Attention[float32]{Specs: []Spec{s}}
		if a.Causal = true; fitted {
			a.Centres = centresOf[float32](t, s, 2, 1, 8, 8)
		}
		runtime.GOMAXPROCS(1)
		want := forward(t, a, in)
		runtime.GOMAXPROCS(3)
		if !slices.Equal(forward(t, a, in).Data, want.Data) {
			t.Error("other bits on three processors")
		}
		for _, cut := range cuts {
			bad := input[float32]{in.q, in.k, in.v}
			bad.q.Data, bad.k.Data = slices.Clone(in.q.Data), slices.Clone(in.k.Data)
			bad.v.Data = slices.Clone(in.v.Data)
			for j := cut; j < n; j++ {
				for l := range 8 {
					bad.q.Head(0, 0).Row(j)[l], bad.q.Head(0, 1).Row(j)[l] = 1e9, -1e8
					bad.k.Head(0, 0).Row(j)[l], bad.v.Head(0, 0).Row(j)[l] = -1e9, 1e15
				}
			}
			got := forward(t, a, bad)
			for h := range 2 {
				if !slices.Equal(got.Head(0, h).RowRange(0, cut).Data, want.Head(0, h).RowRange(0, cut).Data) {
					t.Errorf("centres %v: what comes from %d on changes the outputs before", fitted, cut)
				}
			}
		}
		if !fitted {
			continue
		}
		// A suffix of the queries: the same blocks.
		for _, from := range []int{5, 1024, 2100} {
			part := in
			part.q.Data, part.q.Len = in.q.Data[from*in.q.StrideL:], n-from
			got := forward(t, a, part)
			for h := range 2 {
				if !slices.Equal(got.Head(0, h).Data, want.Head(0, h).RowRange(from, n).Data) {
					t.Errorf("queries from %d on have other bits alone", from)
				}
			}
		}
	}
}

// Without centres the first positions are exact, and what follows is that of centres fitted to them.
func TestCausalFitsItsPrefix(t *testing.T) {
	const n = 200
	in := makeInput[float64](9, 1, 2, 1, n, n, 6, 5, 0.7)
	s := Spec{Clusters: 8, Sinks: 2, Window: 8, Block: 16, Spread: true, Top: 2, Keys: 9}
	a := &Attention[float64]{Specs: []Spec{s}}
	a.Causal = true
	got := forward(t, a, in)
	first := prefix(&s)
	if first != 80 {
		t.Fatalf("a prefix of %d positions", first)
	}
	cut := func(x attention.Seq[float64], n int) attention.Seq[float64] {
		x.Len = n
		return x
	}
	vis := attention.Visibility{Causal: true}
	c, err := Fit([]Spec{s}, 0, vis, cut(in.q, first), cut(in.k, first), cut(in.v, first))
	if err != nil {
		t.Fatal(err)
	}
	want := forward(t, &Attention[float64]{Visibility: vis, Specs: []Spec{s}, Centres: c}, in)
	exact := attention.NewSeq[float64](1, 2, n, 5)
	if _, err := (&attention.Exact[float64]{Visibility: vis}).Forward(exact, in.q, in.k, in.v); err != nil {
		t.Fatal(err)
	}
	for h := range 2 {
		copy(want.Head(0, h).Data[:first*5], exact.Head(0, h).Data)
	}
	if e := worst(got, want); !(e < 1e-12) {
		t.Errorf("error %.3g", e)
	}
	in.q.Data, in.q.Len = in.q.Data[100*in.q.StrideL:], n-100
	if _, err := a.Forward(attention.NewSeq[float64](1, 2, n-100, 5), in.q, in.k, in.v); !errors.Is(err, ErrSpec) {
		t.Errorf("a fit without queries: error %v", err)
	}
}

// Keys and queries of any size: nothing overflows, single precision stays near double.
func TestCausalExtremes(t *testing.T) {
	const n = 150
	for _, f := range []float64{1e-30, 1, 30, 1e5, 1e15} {
		in := makeInput[float64](10, 1, 2, 1, n, n, 8, 8, 0.7)
		for i := range in.k.Data {
			in.k.Data[i] *= f
			in.v.Data[i%len(in.v.Data)] = max(-1e30, min(1e30, in.v.Data[i%len(in.v.Data)]*1e28))
		}
		s := Spec{Clusters: 8, Sinks: 2, Window: 8, Block: 8, Spread: true, Top: 3, Keys: 9}
		c, err := Fit([]Spec{s}, 0, attention.Visibility{Causal: true}, in.q, in.k, in.v)
		if err != nil {
			t.Fatal(err)
		}
		small := input[float32]{to32(in.q), to32(in.k), to32(in.v)}
		a32 := &Attention[float32]{Specs: []Spec{s}, Centres: c}
		a32.Causal = true
		for i, x := range forward(t, a32, small).Data {
			if !dense.IsFinite(float64(x)) {
				t.Fatalf("keys times %g: output %d is %v", f, i, x)
			}
		}
	}
	in := makeInput[float64](11, 1, 2, 1, n, n, 8, 8, 0.7)
	for _, s := range causalSpecs[:4] { // nothing that rounding decides, but ties of ranks
		c := centresOf[float64](t, s, 2, 1, 8, 8)
		a64, a32 := &Attention[float64]{Specs: []Spec{s}, Centres: c}, &Attention[float32]{Specs: []Spec{s}, Centres: c}
		a64.Causal, a32.Causal = true, true
		got := forward(t, a32, input[float32]{to32(in.q), to32(in.k), to32(in.v)})
		if e := worst(got, to32(forward(t, a64, in))); !(e < 1e-5) {
			t.Errorf("%+v: single precision is off by %.3g", s, e)
		}
	}
}

func to32(s attention.Seq[float64]) attention.Seq[float32] {
	out := attention.Seq[float32]{Shape: s.Shape, StrideB: s.StrideB, StrideH: s.StrideH, StrideL: s.StrideL}
	for _, x := range s.Data {
		out.Data = append(out.Data, float32(x))
	}
	return out
}

// A warm causal Forward allocates nothing, and forgets what it has worked on.
func TestCausalForwardDoesNotAllocate(t *testing.T) {
	in := makeInput[float32](12, 2, 4, 2, 150, 150, 6, 5, 0.7)
	out := attention.NewSeq[float32](2, 4, 150, 5)
	for _, s := range causalSpecs {
		a := &Attention[float32]{Specs: []Spec{s}, Centres: centresOf[float32](t, s, 4, 2, 6, 5)}
		a.Causal = true
		first := forward(t, a, in)
		if n := testing.AllocsPerRun(3, func() {
			if _, err := a.Forward(out, in.q, in.k, in.v); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%+v: %v allocations", s, n)
		}
		if !slices.Equal(out.Data, first.Data) {
			t.Errorf("%+v: other bits in used memory", s)
		}
	}
}

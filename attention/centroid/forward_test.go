package centroid

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// mutant is a way to be wrong that the comparison with the naive reference must notice.
type mutant int

const (
	faithful       mutant = iota
	windowTwice           // exact neighbours stay in their centroids
	membersTwice          // neighbours in an exact cluster count once more
	meanOfTheRest         // centroids leave the exact keys out of their means
	plainMean             // centroids without the weights of the landmarks
	topByMass             // clusters ranked by mass
	sinksClustered        // sinks are in clusters too
)

// naive computes one head of one packed sequence in O(L²) and float64, from the clusters and weights of p. It returns
// outputs of all queries of the span, the smallest gap between the ranks of chosen and other
// clusters, and the number of exact keys.
func naive(c *call, p *problem, q dense.Matrix[float32], how mutant) (out [][]float64, gap []float64,
	exactKeys int) {
	s, spec := p.span, p.spec
	k, v := c.k.Head(p.b, p.h), c.v.Head(p.b, p.h)
	n, d, dv := s.K1-s.K0, k.Cols, v.Cols
	type group struct {
		members []int
		weight  []float64
		mean    []float64
		rank    float64
	}
	groups := make([]group, p.clusters)
	for i, x := range p.found {
		g := &groups[x]
		g.members = append(g.members, int(p.keys[i])-s.K0)
		w := 1.0
		if !p.single && how != plainMean {
			w = float64(p.weights[i])
		}
		g.weight = append(g.weight, w)
	}
	key := func(j, l int) float64 { return float64(k.At(s.K0+j, l)) }
	value := func(j, l int) float64 { return float64(v.At(s.K0+j, l)) }
	meanOf := func(members []int, weight []float64) []float64 {
		m := make([]float64, d)
		var total float64
		for i, j := range members {
			total += weight[i]
			for l := range m {
				m[l] += weight[i] * key(j, l)
			}
		}
		for l := range m {
			m[l] /= total
		}
		return m
	}
	vbar := make([]float64, dv)
	for _, j := range p.keys {
		for l := range vbar {
			vbar[l] += value(int(j)-s.K0, l) / float64(len(p.keys))
		}
	}
	for x := range groups {
		g := &groups[x]
		g.mean = meanOf(g.members, g.weight)
		size := len(g.members)
		m := min(size, 16)
		var rho, nu float64
		for i := range m {
			j := g.members[(2*i+1)*size/(2*m)]
			for col := range d {
				var z float64
				for l := range d {
					z += (key(j, l) - g.mean[l]) * float64(p.factor.Data[l*d+col])
				}
				rho += z * z / float64(m)
			}
			for l := range vbar {
				nu += (value(j, l) - vbar[l]) * (value(j, l) - vbar[l]) / float64(m)
			}
		}
		g.rank = math.Log(math.Sqrt(float64(size)) * math.Sqrt(rho*nu))
		if size == 1 {
			g.rank = math.Inf(-1)
		}
		if how == topByMass {
			g.rank = math.Log(float64(size))
		}
	}
	for i := s.Q0; i < s.Q1; i++ {
		x := make([]float64, d)
		for l := range x {
			x[l] = c.scale * float64(q.At(i, l))
		}
		dot := func(y []float64) (sum float64) {
			for l := range x {
				sum += x[l] * y[l]
			}
			return sum
		}
		logit := func(j int) (sum float64) {
			for l := range x {
				sum += x[l] * key(j, l)
			}
			return sum
		}
		near := map[int]bool{}
		at := i - s.Q1 + n
		for j := range n {
			if p.cluster[j] == hidden {
				continue
			}
			b0 := int(math.Floor(float64(at)/float64(max(1, spec.block)))) * spec.block
			if j < spec.sinks || spec.block > 0 && j >= b0-spec.window && j < b0+spec.block+spec.window {
				near[j] = true
			}
		}
		order, ranks := make([]int, p.clusters), make([]float64, p.clusters)
		for x := range order {
			order[x], ranks[x] = x, dot(groups[x].mean)+groups[x].rank
		}
		rank := func(x int) float64 { return ranks[x] }
		sort.SliceStable(order, func(a, b int) bool { return rank(order[a]) > rank(order[b]) })
		top := map[int]bool{}
		for _, x := range order[:p.top] {
			if !math.IsInf(rank(x), -1) {
				top[x] = true
			}
		}
		g := math.Inf(1)
		if p.top > 0 && p.top < p.clusters {
			if g = rank(order[p.top-1]) - rank(order[p.top]); math.IsNaN(g) {
				g = math.Inf(1)
			}
		}
		gap = append(gap, g)
		exact := map[int]float64{} // how often
		for j := range near {
			exact[j] = 1
		}
		for x := range top {
			for _, j := range groups[x].members {
				if how == membersTwice {
					exact[j]++
				} else {
					exact[j] = 1
				}
			}
		}
		exactKeys += len(exact)
		type term struct {
			logit, times float64
			values       []int
		}
		var terms []term
		for j, times := range exact {
			terms = append(terms, term{logit(j), times, []int{j}})
		}
		for x, g := range groups {
			var rest []int
			var weight []float64
			for m, j := range g.members {
				if exact[j] == 0 || how == windowTwice && !top[x] {
					rest, weight = append(rest, j), append(weight, g.weight[m])
				}
			}
			if len(rest) == 0 {
				continue
			}
			mean := g.mean
			if how == meanOfTheRest {
				mean = meanOf(rest, weight)
			}
			terms = append(terms, term{dot(mean), 1, rest})
		}
		if how == sinksClustered && len(groups) > 0 {
			for j := range near {
				if j < spec.sinks {
					terms = append(terms, term{dot(groups[0].mean), 1, []int{j}})
				}
			}
		}
		shift := math.Inf(-1)
		for _, t := range terms {
			shift = max(shift, t.logit)
		}
		row := make([]float64, dv)
		var sum float64
		for _, t := range terms {
			e := t.times * math.Exp(t.logit-shift)
			for _, j := range t.values {
				sum += e
				for l := range row {
					row[l] += e * value(j, l)
				}
			}
		}
		for l := range row {
			if sum > 0 {
				row[l] /= sum
			}
		}
		out = append(out, row)
	}
	return out, gap, exactKeys
}

// fromNaive is the largest difference between Forward and the naive reference, over rows whose choice of clusters is
// clear.
func fromNaive(t testing.TB, a *Attention, q, k, v attention.Seq[float32], how mutant,
	clear float64) float64 {
	t.Helper()
	out := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
	for i := range out.Data {
		out.Data[i] = float32(math.NaN())
	}
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	var c call
	if err := c.start(a, out, q, k, v); err != nil {
		t.Fatal(err)
	}
	c.prepare()
	var most float64
	for _, p := range c.problems[:c.used] {
		for g := range c.group {
			h := p.h*c.group + g
			want, gap, _ := naive(&c, p, q.Head(p.b, h), how)
			for i, row := range want {
				if gap[i] < clear {
					continue
				}
				for l, x := range row {
					diff := math.Abs(float64(out.Head(p.b, h).At(p.span.Q0+i, l)) - x)
					if math.IsNaN(diff) {
						return math.NaN()
					}
					most = max(most, diff)
				}
			}
		}
	}
	return most
}

type shapeCase struct {
	name                     string
	batch, heads, kv, lq, lk int
	d, dv                    int
	spec                     PerQuery
	mask, packed, other      bool
}

var shapeCases = []shapeCase{
	{name: "plain", batch: 1, heads: 1, kv: 1, lq: 90, lk: 90, d: 8, dv: 5, spec: PerQuery{Clusters: 12}},
	{name: "window", batch: 1, heads: 2, kv: 2, lq: 130, lk: 130, d: 8, dv: 8, spec: PerQuery{Clusters: 9, Window: 5,
		Block: 8}},
	{name: "sliding", batch: 1, heads: 2, kv: 1, lq: 70, lk: 90, d: 4, dv: 3, spec: PerQuery{Clusters: 9, Window: 6,
		Block: 1, Sinks: 2}},
	{name: "top", batch: 2, heads: 4, kv: 2, lq: 100, lk: 100, d: 6, dv: 7, spec: PerQuery{Clusters: 11, Top: 3}},
	{name: "all", batch: 2, heads: 4, kv: 2, lq: 150, lk: 150, d: 16, dv: 9, spec: PerQuery{Clusters: 13, Top: 3,
		Window: 8, Sinks: 3}},
	{name: "masked", batch: 2, heads: 2, kv: 1, lq: 120, lk: 140, d: 5, dv: 4, mask: true,
		spec: PerQuery{Clusters: 10, Top: 2, Window: 8, Sinks: 3}},
	{name: "packed", batch: 2, heads: 2, kv: 2, lq: 150, lk: 150, d: 5, dv: 4, packed: true, mask: true,
		spec: PerQuery{Clusters: 6, Top: 2, Window: 4, Block: 4, Sinks: 1}},
	{name: "packed keys", batch: 1, heads: 2, kv: 1, lq: 60, lk: 130, d: 5, dv: 4, packed: true, other: true,
		spec: PerQuery{Clusters: 6, Top: 2, Window: 4, Block: 4, Sinks: 1}},
	{name: "more queries", batch: 1, heads: 1, kv: 1, lq: 90, lk: 40, d: 3, dv: 2, spec: PerQuery{Clusters: 5, Top: 1,
		Window: 3}},
	{name: "d = 1", batch: 1, heads: 1, kv: 1, lq: 60, lk: 60, d: 1, dv: 1,
		spec: PerQuery{Clusters: 7, Top: 2, Window: 3, Block: 4}},
	{name: "n < d", batch: 1, heads: 1, kv: 1, lq: 12, lk: 12, d: 40, dv: 33, spec: PerQuery{Clusters: 3, Top: 1}},
	{name: "sampled", batch: 1, heads: 1, kv: 1, lq: 700, lk: 700, d: 6, dv: 3, spec: PerQuery{Clusters: 20, Top: 3,
		Window: 16, Sample: 100}},
}

// make returns attention of the case and random arguments; packed sequences and masks have odd ends.
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

func TestForwardIsTheNaiveSum(t *testing.T) {
	for _, c := range shapeCases {
		t.Run(c.name, func(t *testing.T) {
			a, q, k, v := makeCase(t, c)
			if e := fromNaive(t, a, q, k, v, faithful, 1e-4); !(e <= 3e-5) {
				t.Errorf("differs by %.2g", e)
			}
		})
	}
}

// Mutants of the reference differ from Forward by far more than rounding: the comparison has power.
func TestMutantsDiffer(t *testing.T) {
	c := shapeCases[slices.IndexFunc(shapeCases, func(c shapeCase) bool { return c.name == "all" })]
	a, q, k, v := makeCase(t, c)
	for how := windowTwice; how <= sinksClustered; how++ {
		if e := fromNaive(t, a, q, k, v, how, 1e-4); !(e >= 1e-3) {
			t.Errorf("mutant %d differs by %.2g only", how, e)
		}
	}
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
		for name, change := range map[string]func(*PerQuery){
			"k = L":      func(s *PerQuery) { s.Clusters = c.lk },
			"k > L":      func(s *PerQuery) { s.Clusters = 5 * c.lk },
			"s = k":      func(s *PerQuery) { s.Clusters = max(s.Clusters, 2); s.Top = s.Clusters },
			"s > k":      func(s *PerQuery) { s.Clusters = max(s.Clusters, 2); s.Top = 1000 },
			"window ≥ L": func(s *PerQuery) { s.Window = max(c.lq, c.lk) },
			"block ≥ L":  func(s *PerQuery) { s.Block = 2 * max(c.lq, c.lk); s.Window = c.lq },
			"sinks ≥ L":  func(s *PerQuery) { s.Sinks = c.lk },
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
	c := shapeCases[4]
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

func TestSameBitsOnAnyNumberOfCores(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	q, k, v := random(r, 1, 1, 2, 3000, 16), random(r, 1, 1, 1, 3000, 16), random(r, 1, 1,
		1, 3000, 8)
	a := Attention{Specs: []Spec{PerQuery{Clusters: 40, Top: 3, Window: 16, Sinks: 2}}}
	var first []float32
	for _, n := range []int{1, 2, 5} {
		old := runtime.GOMAXPROCS(n)
		out := attention.NewSeq[float32](1, 2, 3000, 8)
		_, err := a.Forward(out, q, k, v)
		runtime.GOMAXPROCS(old)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out.Data
		} else if !slices.Equal(first, out.Data) {
			t.Errorf("other bits on %d cores", n)
		}
	}
	rows := []int{2999, 0, 17, 1500, 18}
	some := attention.NewSeqBLHD[float32](1, len(rows), 2, 8)
	if err := a.At(some, rows, q, k, v); err != nil {
		t.Fatal(err)
	}
	for h := range 2 {
		for i, l := range rows {
			if !slices.Equal(some.Head(0, h).Row(i), first[(h*3000+l)*8:(h*3000+l+1)*8]) {
				t.Errorf("At differs from Forward in row %d", l)
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
		for _, spec := range []PerQuery{{Clusters: 10}, {Clusters: 10, Top: 3, Window: 8, Sinks: 2}, {Clusters: 10,
			Top: 10}} {
			a := Attention{Specs: []Spec{spec}}
			out := attention.NewSeq[float32](1, 1, n, 4)
			if _, err := a.Forward(out, q, k, v); err != nil {
				t.Fatal(err)
			}
			lo, hi := slices.Min(v.Data), slices.Max(v.Data)
			slack := 1e-4 * (hi - lo)
			for i, x := range out.Data {
				if !(x >= lo-slack && x <= hi+slack) {
					t.Fatalf("%s, %+v: output %v at %d, values are %v to %v", name, spec, x, i, lo, hi)
				}
			}
			if spec.Top == 10 && name != "far keys" {
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

// The count of exact keys is that of a search over all pairs.
func TestExactKeysAreCounted(t *testing.T) {
	for _, c := range shapeCases {
		a, q, k, v := makeCase(t, c)
		out := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
		rep, err := a.Forward(out, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		var x call
		if err := x.start(a, out, q, k, v); err != nil {
			t.Fatal(err)
		}
		x.prepare()
		var want int64
		for _, p := range x.problems[:x.used] {
			for g := range x.group {
				_, _, exact := naive(&x, p, q.Head(p.b, p.h*x.group+g), faithful)
				want += int64(exact)
			}
		}
		if rep.Exact != want {
			t.Errorf("%s: %d exact keys, want %d", c.name, rep.Exact, want)
		}
	}
}

// Equal keys need no exact cluster, however many there are: their centroid is exact.
func TestEqualKeysAreNotChosen(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	const n, d = 400, 8
	q, k, v := random(r, 1, 1, 1, n, d), random(r, 1, 1, 1, n, d), random(r, 1, 1, 1, n, 4)
	for j := range n / 2 {
		copy(k.Head(0, 0).Row(j), k.Head(0, 0).Row(n-1))
	}
	a := Attention{Specs: []Spec{PerQuery{Clusters: 20, Top: 20}}}
	exactly(t, "half the keys equal", &a, q, k, v, 1e-4)
	var c call
	if err := c.start(&a, q, q, k, v); err != nil {
		t.Fatal(err)
	}
	c.prepare()
	p := c.problems[0]
	if x := p.cluster[0]; p.start[x+1]-p.start[x] == n/2+1 && !math.IsInf(float64(p.risk[x]), -1) {
		t.Errorf("the cluster of equal keys has risk %v", p.risk[x])
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
		"spec":    func(a *Attention, _, _, _, _ *attention.Seq[float32]) { a.Specs = []Spec{PerQuery{}} },
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
		"per query": PerQuery{Clusters: 8, Top: 2},
		"blocks":    Blocks{Clusters: 6, Queries: 16, Keys: 10},
		"prefix":    Prefix{Clusters: 6, Chunk: 32, Queries: 16, Keys: 10},
		"sketch":    Sketch{Clusters: 6, Chunk: 32, Share: 0.1},
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

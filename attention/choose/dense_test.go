package choose

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/internal/heads"
)

// With a rate of dense tiles Choose picks plans whose queries choose together, bidirectional and causal; they keep the
// tolerance on all rows, are saved and read again, and rates of earlier versions choose as before.
func TestChooseDense(t *testing.T) {
	for _, c := range []struct {
		causal bool
		length int
		tol    float64
	}{{false, 1024, 0.2}, {false, 2560, 0.2}, {true, 1500, 0.2}} {
		q, k, v := heads.Generate[float32](2, c.length, 32, 1)
		vis := attention.Visibility{Causal: c.causal}
		rates := &Rates{Exact: 1e-9, Features: 1, Dense: 1e-9, Group: 1e-9}
		o := Options{Tol: c.tol, Rates: rates}
		got, err := Choose(o, vis, 0, q, k, v)
		must(t, err)
		some := false
		for h, p := range got.Heads {
			if p.Method == Centroid {
				some = true
				if p.Centroid.Causal() != c.causal {
					t.Errorf("causal %t, head %d: %v", c.causal, h, p.Plan)
				}
				exact := rates.Seconds(Plan{Method: Exact}, c.causal, c.length, 32, 32)
				if p.Expected.High > c.tol || p.Expected.Error <= 0 || p.Seconds >= exact {
					t.Errorf("causal %t, head %d: %+v, %v s", c.causal, h, p.Expected, p.Seconds)
				}
			}
		}
		if !some {
			t.Fatalf("causal %t: all heads are exact", c.causal)
		}
		b, err := json.Marshal(got)
		must(t, err)
		saved := new(Choice)
		must(t, json.Unmarshal(b, saved))
		if !reflect.DeepEqual(got, saved) {
			t.Errorf("causal %t: another choice after saving", c.causal)
		}
		a, err := New(saved)
		must(t, err)
		out, want := attention.NewSeq[float32](1, 2, c.length, 32), attention.NewSeq[float32](1, 2, c.length, 32)
		_, err = a.Forward(out, q, k, v)
		must(t, err)
		_, err = (&attention.Exact[float32]{Visibility: vis}).Forward(want, q, k, v)
		must(t, err)
		for h := range 2 {
			var diff, size float64
			for l := range c.length {
				for i, w := range want.Head(0, h).Row(l) {
					d := float64(out.Head(0, h).Row(l)[i] - w)
					diff, size = diff+d*d, size+float64(w*w)
				}
			}
			// The trials have seen a sample of the rows, and of the queries.
			if e := math.Sqrt(diff / size); e > c.tol {
				t.Errorf("causal %t, %d tokens, head %d: error %v, expected %+v", c.causal, c.length, h, e,
					got.Heads[h].Expected)
			}
		}
		old := *rates
		old.Dense, old.Group = 0, 0
		o.Rates = &old
		before, err := Choose(o, vis, 0, cut(q, 0, 512), cut(k, 0, 512), cut(v, 0, 512))
		must(t, err)
		for h, p := range before.Heads {
			if _, ok := p.Centroid.(centroid.Blocks); ok {
				t.Errorf("head %d: %v by rates without dense tiles", h, p.Plan)
			}
		}
	}
}

// Predicted times are those of dense tiles, and heads with and without chunks run side by side.
func TestDenseRates(t *testing.T) {
	r := Rates{Exact: 2, Dense: 0.25, Group: 4.5}
	p := Plan{Method: Centroid, Centroid: centroid.Blocks{Clusters: 16, Queries: 64, Keys: 2}}
	if got, want := r.Seconds(p, false, 512, 32, 32), 4.5+0.25*p.Cost(false, 512, 32, 32); got != want {
		t.Errorf("%v s, want %v", got, want)
	}
	if !strings.Contains(p.String(), "blocks of 64") {
		t.Error(p.String())
	}
	chunks := centroid.Prefix{Clusters: 16, Queries: 32, Chunk: 128, Keys: 8, Window: 32}
	// The mean position sees half of the keys: twice its cost is compared with that of exact attention at the end.
	chunk := 128. / 4096
	if a, b := denseCost(Plan{Method: Centroid, Centroid: chunks}, 4096, 32, 32),
		chunk*exactCost(128)+2*(1-chunk)*chunks.Cost((4096+128)/2, 32, 32); a != b {
		t.Errorf("%v, want %v", a, b)
	}
	q, k, v := heads.Generate[float32](2, 600, 32, 1)
	choice := &Choice{Causal: true, Length: 600, Dim: 32, ValueDim: 32, Heads: []Head{
		{Plan: Plan{Method: Centroid, Centroid: chunks}},
		{Plan: Plan{Method: Centroid, Centroid: centroid.Sketch{Clusters: 16, Chunk: 64, Share: 0.1}}}}}
	a, err := New(choice)
	must(t, err)
	out := attention.NewSeq[float32](1, 2, 600, 32)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Error(err)
	}
}

// A choice that turns out to be slower than exact attention is given up; one that is faster stays.
func TestProve(t *testing.T) {
	for _, slow := range []bool{true, false} {
		length, spec := 4096, centroid.Blocks{Clusters: 16, Keys: 1, Queries: 128, Sample: 128, Passes: 1}
		if slow {
			length, spec = 256, centroid.Blocks{Clusters: 128, Keys: 100, Queries: 2}
		}
		q, k, v := heads.Generate[float32](1, length, 16, 1)
		c, err := newChooser(Options{Tol: 0.1, ByCost: true}, 0, sample{q: q, k: k, v: v})
		must(t, err)
		c.Rates = &Rates{Exact: 1}
		out, err := Use(Plan{Method: Centroid, Centroid: spec}, attention.Visibility{}, 0, q, k, v)
		must(t, err)
		must(t, c.prove(out))
		if got := out.Heads[0].Method == Exact; got != slow {
			t.Errorf("%d tokens, %v: exact is %t", length, spec, got)
		}
	}
}

// Rows that judge a plan together with others, or again, have the errors that they have alone.
func TestJudgedTogether(t *testing.T) {
	for _, causal := range []bool{false, true} {
		q, k, v := heads.Generate[float32](2, 1500, 32, 1)
		rates := &Rates{Exact: 1e-9, Features: 1, Dense: 1e-9, Group: 1e-9}
		c, err := newChooser(Options{Tol: 0.2, Rates: rates}, 0, sample{attention.Visibility{Causal: causal}, q, k, v})
		must(t, err)
		must(t, c.divide())
		plan := c.Plans[slices.IndexFunc(c.Plans, func(p Plan) bool { return p.Method == Centroid })]
		alone, together := c.judge(1), c.judge(1)
		for _, rows := range []int{allRows, checkRows, freshRows, allRows} {
			got, err := together.measure(plan, 1, rows)
			must(t, err)
			var want errorSums
			if rows != freshRows {
				want, err = alone.measure(plan, 1, checkRows)
				must(t, err)
			}
			if rows != checkRows {
				fresh, err := c.judge(1).measure(plan, 1, freshRows)
				must(t, err)
				want.merge(fresh)
			}
			if !reflect.DeepEqual(got, want) || want.error() == 0 {
				t.Errorf("causal %t, rows %d: error %v, alone %v", causal, rows, got.error(), want.error())
			}
		}
	}
}

// The texts that judge bidirectional plans of long texts keep their masks and segments.
func TestJudgedVisibility(t *testing.T) {
	const batch, length = lawTexts + 2, budgetLength
	seq := attention.NewSeq[float32](batch, 1, length, 1)
	vis := attention.Visibility{KeyMask: make([]bool, batch*length), Segments: make([]int32, batch*length)}
	for i := range vis.KeyMask {
		vis.KeyMask[i], vis.Segments[i] = i%length >= i/length, int32(i%length/2000)
	}
	vis.KeySegments = vis.Segments
	c := &chooser{dense: true, all: sample{vis, seq, seq, seq}}
	s := c.judged()
	check, err := newCheck(s.vis, s.q, s.k, s.v, 1, 0, length, 1, nil)
	must(t, err)
	must(t, check.answer(0))
	if n := s.q.Batch; n != lawTexts || !slices.Equal(s.vis.KeyMask, vis.KeyMask[:n*length]) {
		t.Errorf("%d texts with masks of %d keys", n, len(s.vis.KeyMask))
	}
}

// Predicted times are finite at every length, and a query before Start costs as much as with exact attention.
func TestSecondsOfNoKeys(t *testing.T) {
	r := &Rates{Exact: 1, Dense: 1}
	for _, p := range denseGrid(true, 1, 4096, 3) {
		start := p.Centroid.(centroid.Prefix).Start
		if c := p.Cost(true, start, 16, 16); c != exactCost(start) {
			t.Errorf("%v: cost %v", p, c)
		}
		if s := r.Seconds(p, true, 0, 16, 16); !(s >= 0) {
			t.Errorf("%v: %v s", p, s)
		}
	}
}

// Lean plans are in the grid for the chunks that are most often the best, and no other plan counts as lean.
func TestLean(t *testing.T) {
	for _, length := range []int{512, 2048, 4096, 8192, 32768} {
		for _, group := range []int{1, 3, 8} {
			count := 0
			for _, p := range denseGrid(true, 1, length, group) {
				s := p.Centroid.(centroid.Prefix)
				must(t, s.Validate())
				spec := prefixSpec(length, s.Chunk, group, 1)
				if lean(p) {
					spec = leanSpec(length, s.Chunk, group, 1)
					count++
				}
				if s.Queries != spec.Queries || s.Window != spec.Window {
					t.Errorf("%d tokens, group %d: %+v, want %+v", length, group, s, spec)
				}
				if lean(p) && (s.Keys > leanKeys || s.Chunk != prefixChunk(length)) {
					t.Errorf("%d tokens, group %d: lean %+v", length, group, s)
				}
			}
			if want := either(length < 6*96, 1, 3); count != want {
				t.Errorf("%d tokens, group %d: %d lean plans, want %d", length, group, count, want)
			}
		}
	}
	bidirectional := Plan{Method: Centroid, Centroid: centroid.Blocks{Clusters: 64, Queries: 64, Keys: 64}}
	if lean(bidirectional) || lean(Plan{Method: Exact}) {
		t.Error("a plan without chunks is lean")
	}
}

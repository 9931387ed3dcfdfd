package decoder_test

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/decoder"
)

func share(n int) func(int, int) int { return func(int, int) int { return n } }

// reading is a session that keeps its queries and has read ids, some at a time.
func reading(t *testing.T, m *decoder.Model, ids []int32, step int) *decoder.Session {
	t.Helper()
	s, err := m.NewSession(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.KeepQueries()
	for lo := 0; lo < len(ids); lo += step {
		next(t, s, ids[lo:min(lo+step, len(ids))]...)
	}
	return s
}

func load(t *testing.T, name string, opt decoder.Options) (*decoder.Model, reference) {
	t.Helper()
	f, r := open(t, name)
	m, err := decoder.New(f, opt)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

// With slots for all tokens logits are those of the exact cache to 1e-5; quantised models round later keys and values
// of the exact cache to half precision, and differ by that. Forks go on with equal bits.
func TestCompact(t *testing.T) {
	for _, c := range []struct {
		name      string
		quantised bool
		most      float64
	}{{"llama", false, 1e-5}, {"qwen2", false, 1e-5}, {"llama", true, 1e-2}} {
		m, r := load(t, c.name, decoder.Options{Quantised: c.quantised})
		n := len(r.IDs) - 10
		s := reading(t, m, r.IDs[:n], 7)
		want := s.Fork()
		if err := s.Compact(share(n)); err != nil {
			t.Fatal(err)
		}
		if d := furthest(next(t, s, r.IDs[n:]...), next(t, want, r.IDs[n:]...)); !(d <= c.most) {
			t.Errorf("%s, quantised %v: logits move by %v with slots for all tokens", c.name, c.quantised, d)
		}
		if s.Len() != len(r.IDs) {
			t.Errorf("%d tokens, want %d", s.Len(), len(r.IDs))
		}
		s = reading(t, m, r.IDs[:n], n)
		if err := s.Compact(share(5)); err != nil {
			t.Fatal(err)
		}
		for l, st := range s.States() {
			for _, slots := range st.(*centroid.Compacted).Slots() {
				if slots != 5 {
					t.Errorf("layer %d has %d slots, want 5", l, slots)
				}
			}
		}
		f := s.Fork()
		a := next(t, s, r.IDs[n:]...)
		if !slices.Equal(a, next(t, f, r.IDs[n:]...)) {
			t.Error("a fork of a compacted session goes on with other bits")
		}
	}
}

// The compacted states have the same bits at any number of processors, and however the text is divided among calls the
// same examples.
func TestCompactIsDeterministic(t *testing.T) {
	m, r := load(t, "llama", decoder.Options{})
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want []byte
	for _, procs := range []int{1, 5} {
		runtime.GOMAXPROCS(procs)
		s := reading(t, m, r.IDs, 16)
		if err := s.Compact(share(6)); err != nil {
			t.Fatal(err)
		}
		var b []byte
		for _, st := range s.States() {
			var err error
			if b, err = st.AppendBinary(b); err != nil {
				t.Fatal(err)
			}
		}
		if want != nil && !bytes.Equal(b, want) {
			t.Errorf("other bits on %d processors", procs)
		}
		want = b
	}
	long := make([]int32, 1000)
	for i := range long {
		long[i] = r.IDs[i%len(r.IDs)]
	}
	long = long[:min(len(long), m.Config().MaxPositions)]
	a, _ := decoder.FutureQueries(reading(t, m, long, len(long)), 1, 0)
	b, _ := decoder.FutureQueries(reading(t, m, long, 11), 1, 0)
	if d := furthest(a.Data, b.Data); a.Rows != b.Rows || !(d < 1e-4) {
		t.Errorf("%d and %d examples, %v apart", a.Rows, b.Rows, d)
	}
}

// In the first layer a token that repeats has one query, turned to its position: the examples are that query, turned to
// one of the 512 positions after the context.
func TestExamplesAreFuture(t *testing.T) {
	m, _ := load(t, "llama", decoder.Options{})
	c := m.Config()
	ids := make([]int32, min(300, c.MaxPositions))
	for i := range ids {
		ids[i] = 7
	}
	base := slices.Clone(decoder.Kept(reading(t, m, ids[:1], 1), 0, 0)[:c.HeadDim])
	q, recent := decoder.FutureQueries(reading(t, m, ids, 64), 0, 0)
	group := c.Heads / c.KVHeads
	want := min(256, (768+group-1)/group, len(ids))
	if recent != want || q.Rows != 2*group*want {
		t.Errorf("%d examples, %d recent positions", q.Rows, recent)
	}
	offsets := map[int]bool{}
	for i := 0; i < q.Rows; i += group {
		best, at := math.Inf(1), 0
		for to := range len(ids) + 600 {
			var d float64
			for j, f := range c.RopeFreqs {
				sin, cos := math.Sincos(float64(to) * f)
				x, y := float64(base[j]), float64(base[j+c.HeadDim/2])
				d = max(d, math.Abs(x*cos-y*sin-float64(q.At(i, j))),
					math.Abs(x*sin+y*cos-float64(q.At(i, j+c.HeadDim/2))))
			}
			if d < best {
				best, at = d, to
			}
		}
		if !(best < 1e-4) || at < len(ids) || at >= len(ids)+512 {
			t.Fatalf("example %d is turned to position %d of a text of %d (%v)", i, at, len(ids), best)
		}
		offsets[at] = true
	}
	if len(offsets) < q.Rows/group/4 {
		t.Errorf("only %d different positions", len(offsets))
	}
}

// Heads that keep all keys stay exact beside heads with slots, and the session goes on from its bytes with equal bits.
func TestCompactSomeHeads(t *testing.T) {
	for _, quantised := range []bool{false, true} {
		m, r := load(t, "llama", decoder.Options{Quantised: quantised})
		n := len(r.IDs) - 10
		s := reading(t, m, r.IDs[:n], n)
		full := s.Fork()
		kv := m.Config().KVHeads
		if kv < 2 {
			t.Fatal("one key/value head")
		}
		budget := func(l, h int) int {
			if h == l%kv {
				return n
			}
			return 6
		}
		if err := s.Compact(budget); err != nil {
			t.Fatal(err)
		}
		saved := s.Fork()
		states := saved.States()
		for l, st := range states {
			b, err := st.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !decoder.IsCompacted(b) {
				t.Fatalf("layer %d is not told from others", l)
			}
			if states[l], err = m.ReadCompacted(b); err != nil {
				t.Fatal(err)
			}
			for _, bad := range [][]byte{b[:10], b[:len(b)-1], append(slices.Clone(b), 0), b[:len(b)/2]} {
				if _, err := m.ReadCompacted(bad); err == nil {
					t.Errorf("layer %d: %d of %d bytes were accepted", l, len(bad), len(b))
				}
			}
		}
		if err := saved.Restore(n, states); err != nil {
			t.Fatal(err)
		}
		fork := s.Fork()
		a, want := slices.Clone(next(t, s, r.IDs[n:]...)), next(t, full, r.IDs[n:]...)
		if !slices.Equal(a, next(t, saved, r.IDs[n:]...)) || !slices.Equal(a, next(t, fork, r.IDs[n:]...)) {
			t.Error("a fork or a saved session goes on with other bits")
		}
		if slices.Equal(a, want) {
			t.Error("nothing was compacted")
		}
	}
}

// Budgets have the wanted mean, the heads with the largest errors keep all keys, and more slots lose less.
func TestBudgets(t *testing.T) {
	c := &decoder.Curves{Context: 2048, After: 512, Texts: 1, Slots: []int{16, 64, 256},
		Weight: []float64{1, 0.5}}
	for l := range 2 {
		var few [][]float64
		for h := range 8 {
			e := 1e-4
			if l == 0 && h == 3 {
				e = 1
			}
			few = append(few, []float64{e, e / 3, e / 9})
		}
		c.Compact = append(c.Compact, few)
	}
	if err := c.Check(2, 8); err != nil {
		t.Fatal(err)
	}
	loss := math.Inf(1)
	for _, factor := range []int{32, 16, 8} {
		const n = 4096
		b := c.Compacted(n, n/float64(factor))
		sum := 0
		for l := range 2 {
			for h := range 8 {
				sum += b.At(l, h)
			}
		}
		if mean := float64(sum) / 16; mean > n/float64(factor) || mean < 0.9*n/float64(factor) {
			t.Errorf("1/%d: %v slots per head", factor, mean)
		}
		if factor <= 8 && b.At(0, 3) != n || b.At(1, 3) >= n/2 {
			t.Errorf("1/%d: budgets %v", factor, b.Slots)
		}
		if !(b.Loss < loss) || !(b.Loss > 0) {
			t.Errorf("1/%d: loss %v, with fewer slots %v", factor, b.Loss, loss)
		}
		loss = b.Loss
	}
	if all := c.Compacted(100, 100); all.Loss != 0 || all.At(1, 1) != 100 {
		t.Errorf("slots for all tokens: %+v", all)
	}
	c.Weight = c.Weight[:1]
	if c.Check(2, 8) == nil {
		t.Error("curves of another model were accepted")
	}
}

// Heads whose errors are powers of their slots: the loss is that of the curves at the budgets, for a context of
// another length, and budgets minimise it: t ∝ √(κ·a) for E = a/t.
func TestBudgetsMinimiseTheLoss(t *testing.T) {
	const layers, heads, tokens, mean = 2, 3, 8192, 512
	c := &decoder.Curves{Context: 2048, After: 512, Texts: 1, Slots: []int{16, 64, 256},
		Weight: []float64{3, 0.25}}
	a := [layers][heads]float64{{1, 2, 4}, {3, 20, 0.5}}
	var total float64
	for l := range layers {
		c.Compact = append(c.Compact, make([][]float64, heads))
		for h := range heads {
			for _, n := range c.Slots {
				c.Compact[l][h] = append(c.Compact[l][h], a[l][h]/float64(n))
			}
			total += math.Sqrt(c.Weight[l] * a[l][h])
		}
	}
	b := c.Compacted(tokens, mean)
	var loss float64
	for l := range layers {
		for h := range heads {
			n := float64(b.At(l, h))
			loss += c.Weight[l] * a[l][h] / (n * 2048 / tokens)
			want := math.Sqrt(c.Weight[l]*a[l][h]) / total * mean * layers * heads
			if math.Abs(math.Log(n/want)) > math.Log(tokens)/60 { // one step of the grid of budgets
				t.Errorf("layer %d, head %d: %v, want about %.0f", l, h, n, want)
			}
		}
	}
	if math.Abs(b.Loss/loss-1) > 1e-6 {
		t.Errorf("expected loss %v, by the curves %v", b.Loss, loss)
	}
}

// The divergence is the mean over rows of Σ p log(p/q), unlikely tokens included.
func TestDivergence(t *testing.T) {
	p, q := dense.New[float32](2, 3), dense.New[float32](2, 3)
	var want float64
	for i, rare := range []float64{1e-3, 1e-6} {
		for j, x := range []float64{0.25, 0.75 - rare, rare} {
			y := []float64{0.5, 0.5 - rare*rare*rare, rare * rare * rare}[j]
			p.Row(i)[j], q.Row(i)[j] = float32(math.Log(x)), float32(math.Log(y))
			want += x * math.Log(x/y) / 2
		}
	}
	if got := decoder.Divergence(p, q); math.Abs(got-want) > 1e-6 {
		t.Errorf("divergence %v, want %v", got, want)
	}
}

// A share of the context loses the same at any length: four times the tokens and slots have four times the budgets,
// also where errors bend.
func TestBudgetsFollowTheContext(t *testing.T) {
	c := &decoder.Curves{Context: 2048, After: 512, Texts: 1, Slots: []int{16, 64, 256},
		Weight: []float64{1}, Compact: [][][]float64{{{1, 0.9, 0.001}, {1, 0.02, 0.01}, {0.5, 0.1, 0.02}}}}
	one, four := c.Compacted(2048, 100), c.Compacted(4*2048, 400)
	for h := range 3 {
		if r := float64(four.At(0, h)) / float64(4*one.At(0, h)); math.Abs(math.Log(r)) > math.Log(8192)/60 {
			t.Errorf("head %d: %d slots of 2,048 tokens, %d of 8,192", h, one.At(0, h), four.At(0, h))
		}
	}
	if math.Abs(four.Loss/one.Loss-1) > 0.1 {
		t.Errorf("loss %v of 2,048 tokens, %v of 8,192", one.Loss, four.Loss)
	}
}

// Recent examples are the queries of the last 256 positions with the smallest hashes, none from before the session kept
// queries.
func TestRecentExamples(t *testing.T) {
	for _, c := range []struct{ first, n, step, sample int }{{0, 1000, 1000, 100}, {0, 1000, 37, 100},
		{0, 300, 299, 256}, {900, 1000, 64, 150}, {900, 1000, 64, 20}, {0, 30, 7, 100}} {
		var want []int
		for p := max(c.first, c.n-256); p < c.n; p++ {
			want = append(want, p)
		}
		slices.SortFunc(want, func(a, b int) int { return cmp.Compare(decoder.Hash(a), decoder.Hash(b)) })
		want = want[:min(len(want), c.sample)]
		if got := decoder.RecentExamples(c.first, c.n, c.step, c.sample); !slices.Equal(got, want) {
			t.Errorf("%+v: examples of %v, want %v", c, got, want)
		}
	}
}

// The sample of positions has the smallest hashes of all, however the text is divided among calls.
func TestSampleIsUniform(t *testing.T) {
	const n, size = 5000, 100
	got := decoder.SamplePositions(n, n, size)
	if !slices.Equal(got, decoder.SamplePositions(n, 17, size)) {
		t.Error("another sample in steps of 17")
	}
	slices.Sort(got)
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	slices.SortFunc(want, func(a, b int) int { return cmp.Compare(decoder.Hash(a), decoder.Hash(b)) })
	want = want[:size]
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("sample %v, want %v", got, want)
	}
	var mean float64
	for _, p := range got {
		mean += float64(p) / size
	}
	if z := (mean - n/2) / (n / math.Sqrt(12*size)); math.Abs(z) > 4 {
		t.Errorf("mean position %v of %d: z = %.1f", mean, n, z)
	}
}

// A fork that reads on does not change the examples of its origin.
func TestForkKeepsExamples(t *testing.T) {
	m, r := load(t, "llama", decoder.Options{})
	s := reading(t, m, r.IDs[:20], 20)
	want, _ := decoder.FutureQueries(s, 1, 0)
	next(t, s.Fork(), r.IDs[20:]...)
	got, _ := decoder.FutureQueries(s, 1, 0)
	if !slices.Equal(got.Data, want.Data) {
		t.Error("a fork changes the examples")
	}
}

// Sessions that cannot be compacted say why and stay as they are.
func TestCompactRefuses(t *testing.T) {
	m, r := load(t, "llama", decoder.Options{})
	for name, make := range map[string]func() *decoder.Session{
		"empty": func() *decoder.Session { return reading(t, m, nil, 1) },
		"no queries": func() *decoder.Session {
			s, _ := m.NewSession(nil)
			next(t, s, r.IDs...)
			return s
		},
		"twice": func() *decoder.Session {
			s := reading(t, m, r.IDs, 8)
			if err := s.Compact(share(4)); err != nil {
				t.Fatal(err)
			}
			s.KeepQueries()
			next(t, s, 1)
			return s
		},
		"budget": func() *decoder.Session { return reading(t, m, r.IDs, 8) },
	} {
		s := make()
		n := s.Len()
		err := s.Compact(share(0))
		if !errors.Is(err, decoder.ErrCompact) && !(name == "budget" && errors.Is(err, centroid.ErrSpec)) {
			t.Errorf("%s: %v", name, err)
		}
		next(t, s, 3)
		if s.Len() != n+1 {
			t.Errorf("%s: %d tokens after one more than %d", name, s.Len(), n)
		}
	}
	f, _ := open(t, "llama")
	f.config.SlidingWindow = 8
	w, err := decoder.New(f, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := reading(t, w, r.IDs, 8).Compact(share(4)); !errors.Is(err, decoder.ErrCompact) {
		t.Errorf("a sliding window: %v", err)
	}
}

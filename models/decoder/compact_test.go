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
			for _, slots := range st.(*centroid.Compacted[float32]).Slots() {
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

package decoder_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/safetensors"
	"github.com/randfeat/randfeat/models/weights"
)

// reference is a text, logits at some positions and the loss of every token but the first by PyTorch (peers/tiny.py).
type reference struct {
	IDs       []int32
	Positions []int
	Logits    [][]float32
	Loss      []float64
}

type file struct {
	weights.File
	config weights.Config
}

func (f file) Config() weights.Config { return f.config }

func open(t *testing.T, name string) (file, reference) {
	t.Helper()
	f, err := safetensors.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	b, err := os.ReadFile("testdata/" + name + "/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return file{f, f.Config()}, r
}

func session(t *testing.T, f weights.File, opt decoder.Options,
	memory func(int) (decoder.State, error)) *decoder.Session {
	t.Helper()
	m, err := decoder.New(f, opt)
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSession(memory)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func next(t *testing.T, s *decoder.Session, ids ...int32) []float32 {
	t.Helper()
	l, err := s.Append(ids...)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(l)
}

func furthest(x, y []float32) float64 {
	var d float64
	for i, v := range x {
		d = max(d, math.Abs(float64(v-y[i])))
	}
	return d
}

// Logits equal those of PyTorch to 1e-4, however the text is divided among calls.
func TestEqualsPyTorch(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "qwen3", "llama-biases", "llama-yarn"} {
		f, r := open(t, name)
		for _, step := range []int{1, 7, 40} {
			s := session(t, f, decoder.Options{}, nil)
			for lo := 0; lo < len(r.IDs); lo += step {
				hi := min(lo+step, len(r.IDs))
				got := next(t, s, r.IDs[lo:hi]...)
				if i := slices.Index(r.Positions, hi-1); i >= 0 {
					if d := furthest(got, r.Logits[i]); !(d <= 1e-4) {
						t.Errorf("%s, %d tokens a call: logits at %d are %v from PyTorch", name, step, hi-1, d)
					}
				}
			}
			if s.Len() != len(r.IDs) {
				t.Errorf("%s: %d tokens read, want %d", name, s.Len(), len(r.IDs))
			}
		}
		s := session(t, f, decoder.Options{}, nil)
		last := next(t, s, r.IDs[0])
		loss := make([]float64, len(r.IDs)-1)
		if err := s.Score(loss, r.IDs[1:], last); err != nil {
			t.Fatal(err)
		}
		for i, v := range loss {
			if !(math.Abs(v-r.Loss[i]) <= 1e-4) {
				t.Errorf("%s: loss of token %d is %v, want %v", name, i+1, v, r.Loss[i])
			}
		}
	}
}

// Weights and activations of 8 bits move the mean loss by little.
func TestQuantised(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "qwen3", "llama-biases", "llama-yarn"} {
		f, r := open(t, name)
		s := session(t, f, decoder.Options{Quantised: true}, nil)
		loss := make([]float64, len(r.IDs))
		if err := s.Score(loss, r.IDs, nil); err != nil {
			t.Fatal(err)
		}
		if loss[0] == loss[0] {
			t.Errorf("%s: the first token has the loss %v", name, loss[0])
		}
		var got, want float64
		for i, v := range r.Loss {
			got += loss[i+1] / float64(len(r.Loss))
			want += v / float64(len(r.Loss))
		}
		if !(math.Abs(got-want) < 0.05) {
			t.Errorf("%s: mean loss %v, in float32 %v", name, got, want)
		}
	}
}

// A fork and its origin go on by themselves, and both as one text would.
func TestFork(t *testing.T) {
	f, r := open(t, "llama")
	a := session(t, f, decoder.Options{}, nil)
	next(t, a, r.IDs[:20]...)
	b := a.Fork()
	other := next(t, b, 1, 2, 3)
	got := next(t, a, r.IDs[20:]...)
	if d := furthest(got, r.Logits[3]); !(d <= 1e-4) {
		t.Errorf("the origin is %v from PyTorch after a fork went on", d)
	}
	c := session(t, f, decoder.Options{}, nil)
	next(t, c, r.IDs[:20]...)
	if d := furthest(other, next(t, c, 1, 2, 3)); !(d <= 1e-5) {
		t.Errorf("the fork is %v from a text of its own", d)
	}
	if d := furthest(next(t, b, 4), next(t, c, 4)); !(d <= 1e-5) {
		t.Errorf("the fork is %v from a text of its own after its origin went on", d)
	}
	if a.Len() != 40 || b.Len() != 24 || a.Bytes() == 0 {
		t.Errorf("%d and %d tokens, %d bytes", a.Len(), b.Len(), a.Bytes())
	}
}

// A session that is saved and restored goes on bit by bit.
func TestSave(t *testing.T) {
	for _, quantised := range []bool{false, true} {
		save(t, decoder.Options{Quantised: quantised})
	}
}

func save(t *testing.T, opt decoder.Options) {
	f, r := open(t, "llama")
	a := session(t, f, opt, nil)
	next(t, a, r.IDs[:20]...)
	b := session(t, f, opt, nil)
	for i, st := range a.States() {
		data, err := st.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		u := b.States()[i].(interface{ UnmarshalBinary([]byte) error })
		if err := u.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{nil, data[:23], data[:len(data)-1], append(data, 0)} {
			if u.UnmarshalBinary(bad) == nil {
				t.Errorf("%d of %d bytes were accepted", len(bad), len(data))
			}
		}
	}
	if err := b.Restore(a.Len(), b.States()); err != nil {
		t.Fatal(err)
	}
	x, y := next(t, a, r.IDs[20:]...), next(t, b, r.IDs[20:]...)
	if !slices.Equal(x, y) {
		t.Error("a restored session goes on differently")
	}
}

// Heads may remember by centroids or in slots. With a window over the whole text both are exact.
func TestMemoryIsPluggable(t *testing.T) {
	f, r := open(t, "llama")
	c := f.Config()
	q, v := attention.Shape{Batch: 1, Heads: c.Heads, Dim: c.HeadDim},
		attention.Shape{Batch: 1, Heads: c.KVHeads, Dim: c.HeadDim}
	for name, memory := range map[string]func(int) (decoder.State, error){
		"chunks": func(int) (decoder.State, error) {
			a := centroid.Attention{Specs: []centroid.Spec{centroid.Sketch{Clusters: 4, Chunk: 16, Share: 0.1, Sinks: 2,
				Window: 64}}}
			return centroid.NewChunks(&a, q, v)
		},
		"slots": func(int) (decoder.State, error) {
			return centroid.NewSlots([]centroid.SlotSpec{{Budget: 128, Window: 64, Block: 8}}, 0, q, v)
		},
	} {
		s := session(t, f, decoder.Options{}, memory)
		next(t, s, r.IDs[:30]...)
		if d := furthest(next(t, s, r.IDs[30:]...), r.Logits[3]); !(d <= 1e-4) {
			t.Errorf("%s: %v from PyTorch", name, d)
		}
	}
	if _, err := must(t, f).NewSession(func(l int) (decoder.State, error) {
		return nil, fmt.Errorf("no memory")
	}); err == nil {
		t.Error("a failing memory was accepted")
	}
}

func must(t *testing.T, f weights.File) *decoder.Model {
	m, err := decoder.New(f, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Keys and values in half precision give the attention of float32 to their rounding: for single tokens and many, across
// the borders of blocks and parts, with groups of one to six queries, a sliding window and forks.
func TestHalfState(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ heads, kv, dim, window int }{{3, 3, 8, 0}, {6, 2, 64, 0}, {6, 1, 32, 0},
		{4, 2, 16, 40}} {
		half := decoder.HalfState(c.heads, c.kv, c.dim, c.window)
		full := decoder.ExactState(c.heads, c.kv, c.dim, c.window)
		for step, n := range []int{1, 1, 40, 3, 500, 4, 1, 90, 1, 2} {
			random := func(heads int) attention.Seq[float32] {
				x := attention.NewSeq[float32](1, heads, n, c.dim)
				for i := range x.Data {
					x.Data[i] = float32(r.NormFloat64())
				}
				return x
			}
			q, k, v := random(c.heads), random(c.kv), random(c.kv)
			got, want := random(c.heads), random(c.heads)
			origin := half
			if step == 6 {
				half = half.Fork()
			}
			if err := half.Step(got, q, k, v); err != nil {
				t.Fatal(err)
			}
			if step == 6 { // what the origin of a fork reads afterwards does not matter to the fork
				if err := origin.Step(random(c.heads), q, v, k); err != nil {
					t.Fatal(err)
				}
			}
			if err := full.Step(want, q, k, v); err != nil {
				t.Fatal(err)
			}
			if d := furthest(got.Data, want.Data); !(d <= 4e-3) {
				t.Errorf("%+v, step %d of %d tokens: %v from float32", c, step, n, d)
			}
		}
		if half.Len() != full.Len() || half.Bytes() == 0 {
			t.Errorf("%+v: %d tokens, want %d", c, half.Len(), full.Len())
		}
	}
}

// A token allocates nothing once the session is warm and has room.
func TestNoAllocation(t *testing.T) {
	f, r := open(t, "llama")
	for _, quantised := range []bool{false, true} {
		s := session(t, f, decoder.Options{Quantised: quantised}, nil)
		next(t, s, r.IDs[:33]...) // keys grow by doubling: room for 64 is there after a few more
		next(t, s, 1)
		if n := testing.AllocsPerRun(5, func() {
			if _, err := s.Append(3); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("quantised %v: %v allocations per token", quantised, n)
		}
	}
}

// What a caller or a file gets wrong is an error that says where.
func TestErrors(t *testing.T) {
	f, _ := open(t, "llama")
	s := session(t, f, decoder.Options{}, nil)
	for _, ids := range [][]int32{{}, {60}, {-1}, make([]int32, 65)} {
		if _, err := s.Append(ids...); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%d tokens: %v", len(ids), err)
		}
	}
	if s.Len() != 0 {
		t.Error("a wrong call read tokens")
	}
	for _, change := range []func(*weights.Config){
		func(c *weights.Config) { c.Layers = 3 },
		func(c *weights.Config) { c.Vocab = 61 },
		func(c *weights.Config) { c.FFN = 41 },
		func(c *weights.Config) { c.KVHeads = 4 },
		func(c *weights.Config) { c.Architecture = "qwen3" }, // it has norms of queries and keys
		func(c *weights.Config) { c.Architecture = "bert" },
	} {
		g := f
		change(&g.config)
		if _, err := decoder.New(g, decoder.Options{}); !errors.Is(err, weights.ErrFormat) {
			t.Errorf("%+v: %v", g.config, err)
		}
	}
}

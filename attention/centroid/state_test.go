package centroid

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// stateCase makes states of one kind, all with the same arguments, for 2 batches of 4 query and 2 key/value heads with
// dimensions 6 and 5.
type stateCase[T dense.Float] struct {
	name string
	make func() State[T]
	load func(b []byte) (State[T], error)
}

func stateCases[T dense.Float](t testing.TB) []stateCase[T] {
	var cases []stateCase[T]
	for _, s := range slotSpecs {
		all := newSlots[T](t, s, 2, 4, 2, 6, 5)
		name := "merging slots"
		if s.Evict {
			name = "evicting slots"
		}
		cases = append(cases, stateCase[T]{name, func() State[T] {
			c := all.Clone()
			c.Reset()
			return c
		}, func(b []byte) (State[T], error) {
			c := all.Clone()
			return c, c.UnmarshalBinary(b)
		}})
	}
	for _, s := range append([]Spec{{Sinks: 2, Window: 8, Block: 8}}, causalSpecs...) {
		for _, own := range []bool{false, true} {
			a := &Attention[T]{Specs: []Spec{s}}
			name := "cache that fits"
			if s.Residual = 4; !own {
				a.Centres, name = centresOf[T](t, s, 4, 2, 6, 5), "cache"
			}
			all := newCache(t, a, 2, 4, 2, 6, 5)
			cases = append(cases, stateCase[T]{name, func() State[T] {
				return all.Clone()
			}, func(b []byte) (State[T], error) {
				c := all.Clone()
				return c, c.UnmarshalBinary(b)
			}})
		}
	}
	for _, s := range []Spec{{Clusters: 3, Chunk: 16, Together: 8, Window: 8, Sinks: 2, Top: 2},
		{Clusters: 4, Chunk: 8, Together: 1, Top: 1},
		{Clusters: 5, Chunk: 10, Together: 1, Window: 3, Sinks: 2, Share: 0.05}} {
		a := &Attention[T]{Specs: []Spec{s}}
		all, err := NewChunks(a, 2, 4, 2, 6, 5)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, stateCase[T]{"chunks", func() State[T] {
			return all.Clone()
		}, func(b []byte) (State[T], error) {
			c := all.Clone()
			return c, c.UnmarshalBinary(b)
		}})
	}
	return cases
}

func newCache[T dense.Float](t testing.TB, a *Attention[T], batch, q, kv, d, dv int) *Cache[T] {
	t.Helper()
	c, err := NewCache(a, batch, q, kv, d, dv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The bits of outputs depend neither on how tokens are divided among steps nor on the number of processors.
func TestStepsOfAnySize(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	in := makeInput[float32](3, 2, 4, 2, 131, 131, 6, 5, 0.7)
	for _, c := range stateCases[float32](t) {
		runtime.GOMAXPROCS(1)
		want := steps(t, c.make(), in, 131)
		for _, sizes := range [][]int{{1}, {3, 1, 40}, {64}, {0, 7}} {
			runtime.GOMAXPROCS(3)
			if !slices.Equal(steps(t, c.make(), in, sizes...).Data, want.Data) {
				t.Errorf("%s: steps of %v have other bits", c.name, sizes)
			}
		}
	}
}

// A fork goes on as the original would have, and neither disturbs the other; so does what was saved.
func TestForkAndSave(t *testing.T) {
	in := makeInput[float32](4, 2, 4, 2, 120, 120, 6, 5, 0.7)
	other := makeInput[float32](5, 2, 4, 2, 30, 30, 6, 5, 0.7)
	tail := input[float32]{piece(in.q, 77, 43), piece(in.k, 77, 43), piece(in.v, 77, 43)}
	head := input[float32]{piece(in.q, 0, 77), piece(in.k, 0, 77), piece(in.v, 0, 77)}
	for _, c := range stateCases[float32](t) {
		s := c.make()
		steps(t, s, head, 10)
		b, err := s.AppendBinary([]byte("front"))
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := c.load(b[len("front"):])
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fork := s.Fork()
		want := steps(t, s, tail, 5)
		steps(t, fork, other, 7) // elsewhere
		again := s.Fork()
		if !slices.Equal(steps(t, loaded, tail, 43).Data, want.Data) {
			t.Errorf("%s: a saved state goes on differently", c.name)
		}
		if loaded.Len() != s.Len() || loaded.Report() != s.Report() {
			t.Errorf("%s: %d tokens and %+v after loading, want %d and %+v", c.name, loaded.Len(), loaded.Report(),
				s.Len(), s.Report())
		}
		x, _ := again.AppendBinary(nil)
		y, _ := loaded.AppendBinary(nil)
		if !slices.Equal(x, y) {
			t.Errorf("%s: equal states have other bytes", c.name)
		}
		s.Reset()
		if !slices.Equal(steps(t, s, in, 120).Data, steps(t, c.make(), in, 120).Data) {
			t.Errorf("%s: a state that was reset is not a new one", c.name)
		}
	}
}

// Saved states that are damaged or belong to another are errors.
func TestSavedStatesAreChecked(t *testing.T) {
	in := makeInput[float32](4, 2, 4, 2, 50, 50, 6, 5, 0.7)
	var before []byte
	for _, c := range stateCases[float32](t) {
		s := c.make()
		steps(t, s, in, 50)
		b, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 10, len(b) / 2, len(b) - 1} {
			if _, err := c.load(b[:n]); !errors.Is(err, attention.ErrCorrupt) {
				t.Errorf("%s cut to %d of %d bytes: %v", c.name, n, len(b), err)
			}
		}
		if before != nil {
			_, err := c.load(before)
			if !errors.Is(err, attention.ErrMismatch) && !errors.Is(err, attention.ErrCorrupt) {
				t.Errorf("%s from another state: %v", c.name, err)
			}
		}
		before = b
	}
}

func TestStepsAreChecked(t *testing.T) {
	in := makeInput[float32](4, 2, 4, 2, 20, 20, 6, 5, 0.7)
	for _, c := range stateCases[float32](t) {
		s := c.make()
		steps(t, s, in, 20)
		b, _ := s.AppendBinary(nil)
		out := attention.NewSeq[float32](2, 4, 20, 5)
		bad := input[float32]{in.q, in.k, in.v}
		bad.v.Data = slices.Clone(in.v.Data)
		bad.v.Data[7] = float32(math.Inf(1))
		if err := s.Step(out, bad.q, bad.k, bad.v); !errors.Is(err, dense.ErrNotFinite) {
			t.Errorf("%s: an infinite value: %v", c.name, err)
		}
		if err := s.Step(out, in.q, in.k, piece(in.v, 0, 19)); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s: one value less: %v", c.name, err)
		}
		if after, _ := s.AppendBinary(nil); !slices.Equal(b, after) {
			t.Errorf("%s: a step that failed has changed the state", c.name)
		}
	}
}

// A warm state allocates nothing per step.
func TestStepsDoNotAllocate(t *testing.T) {
	in := makeInput[float32](4, 2, 4, 2, 200, 200, 6, 5, 0.7)
	out := attention.NewSeq[float32](2, 4, 1, 5)
	long := &Attention[float32]{Specs: []Spec{{Clusters: 8, Chunk: 50, Together: 1, Top: 2}}}
	waiting, err := NewChunks(long, 2, 4, 2, 6, 5) // for the next chunk
	if err != nil {
		t.Fatal(err)
	}
	cases := append(stateCases[float32](t),
		stateCase[float32]{"waiting", func() State[float32] { return waiting }, nil})
	for i, c := range cases {
		if c.name == "chunks" { // every few tokens a chunk is clustered, whose memory stays
			continue
		}
		s := c.make()
		steps(t, s, in, 1)
		p := 0
		runs := 100
		if c.name == "waiting" {
			runs = 40
		}
		grown := testing.AllocsPerRun(runs, func() {
			if err := s.Step(out, piece(in.q, p, 1), piece(in.k, p, 1), piece(in.v, p, 1)); err != nil {
				t.Fatal(err)
			}
			p++
		})
		if grown >= 1 {
			t.Errorf("%s %d: %v allocations per step", c.name, i, grown)
		}
	}
}

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
type stateCase struct {
	name string
	make func() State
	load func(b []byte) (State, error)
}

func stateCases(t testing.TB) []stateCase {
	var cases []stateCase
	for _, spec := range slotSpecs {
		fresh := func() *Slots { return newSlots(t, []SlotSpec{spec}, 2, 4, 2, 6, 5) }
		cases = append(cases, stateCase{"slots", func() State { return fresh() }, func(b []byte) (State, error) {
			s := fresh()
			return s, s.UnmarshalBinary(b)
		}})
	}
	for _, spec := range []Sketch{{Clusters: 5, Chunk: 10, Window: 3, Sinks: 2, Share: 0.05},
		{Clusters: 4, Chunk: 16, Share: 0.01}} {
		fresh := func() *Chunks {
			c, err := NewChunks(&Attention{Specs: []Spec{spec}}, attention.Shape{Batch: 2, Heads: 4, Dim: 6},
				attention.Shape{Batch: 2, Heads: 2, Dim: 5})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		cases = append(cases, stateCase{"chunks", func() State { return fresh() }, func(b []byte) (State, error) {
			c := fresh()
			return c, c.UnmarshalBinary(b)
		}})
	}
	return cases
}

// The bits of outputs depend neither on how tokens are divided among steps nor on the number of processors.
func TestStepsOfAnySize(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	in := makeInput(3, 2, 4, 2, 131, 6, 5)
	for _, c := range stateCases(t) {
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
	in := makeInput(4, 2, 4, 2, 120, 6, 5)
	other := makeInput(5, 2, 4, 2, 30, 6, 5)
	tail := in.part(77, 43)
	head := in.part(0, 77)
	for _, c := range stateCases(t) {
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
	in := makeInput(4, 2, 4, 2, 50, 6, 5)
	var before []byte
	for _, c := range stateCases(t) {
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
	in := makeInput(4, 2, 4, 2, 20, 6, 5)
	for _, c := range stateCases(t) {
		s := c.make()
		steps(t, s, in, 20)
		b, _ := s.AppendBinary(nil)
		out := attention.NewSeq[float32](2, 4, 20, 5)
		bad := input{in.q, in.k, in.v}
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
	in := makeInput(4, 2, 4, 2, 200, 6, 5)
	out := attention.NewSeq[float32](2, 4, 1, 5)
	long := &Attention{Specs: []Spec{Sketch{Clusters: 8, Chunk: 50, Share: 0.01}}}
	waiting, err := NewChunks(long, in.q.Shape, in.v.Shape) // for the next chunk
	if err != nil {
		t.Fatal(err)
	}
	cases := append(stateCases(t),
		stateCase{"waiting", func() State { return waiting }, nil})
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

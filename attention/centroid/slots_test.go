package centroid

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// input is the arguments of a sequence of steps.
type input struct{ q, k, v attention.Seq[float32] }

// makeInput draws queries and keys around six topics.
func makeInput(seed uint64, batch, qHeads, kvHeads, length, d, dv int) input {
	r := rand.New(rand.NewPCG(seed, 7))
	in := input{attention.NewSeqBLHD[float32](batch, length, qHeads, d),
		attention.NewSeqBLHD[float32](batch, length, kvHeads, d),
		attention.NewSeq[float32](batch, kvHeads, length, dv)}
	topics := dense.New[float64](6, d)
	for i := range topics.Data {
		topics.Data[i] = r.NormFloat64()
	}
	for _, s := range []attention.Seq[float32]{in.q, in.k} {
		for b := range s.Batch {
			for h := range s.Heads {
				m := s.Head(b, h)
				for l := range m.Rows {
					t := topics.Row(r.IntN(6))
					for i := range m.Row(l) {
						m.Row(l)[i] = float32(1.5*t[i] + 0.7*r.NormFloat64())
					}
				}
			}
		}
	}
	for i := range in.v.Data {
		in.v.Data[i] = float32(r.NormFloat64())
	}
	return in
}

// part is n positions from p on.
func (in input) part(p, n int) input {
	return input{piece(in.q, p, n), piece(in.k, p, n), piece(in.v, p, n)}
}

// piece is n positions from p on.
func piece(s attention.Seq[float32], p, n int) attention.Seq[float32] {
	s.Data, s.Len = s.Data[p*s.StrideL:], n
	return s
}

// steps feeds a state and returns all outputs; sizes are those of the steps, again and again.
func steps(t testing.TB, s State, in input, sizes ...int) attention.Seq[float32] {
	t.Helper()
	out := attention.NewSeq[float32](in.q.Batch, in.q.Heads, in.q.Len, in.v.Dim)
	for p, i := 0, 0; p < in.q.Len; i++ {
		n := min(sizes[i%len(sizes)], in.q.Len-p)
		if err := s.Step(piece(out, p, n), piece(in.q, p, n), piece(in.k, p, n), piece(in.v, p, n)); err != nil {
			t.Fatal(err)
		}
		p += n
	}
	return out
}

// naiveSlots is the definition in float64, for one head.
func naiveSlots(s SlotSpec, x, k, v [][]float64) [][]float64 {
	f := s.full()
	var kept []int
	got := make([]float64, len(k))
	var out [][]float64
	for p := range x {
		if p > 0 && p%f.Block == 0 {
			var free []int // keys that may go
			for _, j := range kept {
				if j >= f.Sinks && j < p-f.Window {
					free = append(free, j)
				}
			}
			slices.SortStableFunc(free, func(i, j int) int {
				switch {
				case got[i] < got[j]:
					return -1
				case got[i] > got[j]:
					return 1
				}
				return 0
			})
			for _, j := range free[:max(0, len(free)-f.slots())] {
				kept = slices.DeleteFunc(kept, func(i int) bool { return i == j })
			}
			for j := range got {
				got[j] *= f.Decay
			}
		}
		kept = append(kept, p)
		row := naiveRow{num: make([]float64, len(v[0]))}
		for _, j := range kept {
			row.add(math.Exp(dense.Dot(x[p], k[j])), v[j])
		}
		for _, j := range kept {
			got[j] += math.Exp(dense.Dot(x[p], k[j])) / row.den
		}
		for i := range row.num {
			row.num[i] /= row.den
		}
		out = append(out, row.num)
	}
	return out
}

var slotSpecs = []SlotSpec{{Budget: 30, Sinks: 2, Window: 8, Block: 8},
	{Budget: 24, Sinks: -1, Window: 5, Block: 4, Decay: 1},
	{Budget: 20, Sinks: 4, Window: 12, Block: 4, Decay: 0.9}}

func newSlots(t testing.TB, specs []SlotSpec, batch, q, kv, d, dv int) *Slots {
	t.Helper()
	s, err := NewSlots(specs, 0, attention.Shape{Batch: batch, Heads: q, Dim: d},
		attention.Shape{Batch: batch, Heads: kv, Dim: dv})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSlotsAreTheirDefinition(t *testing.T) {
	for i, spec := range slotSpecs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			in := makeInput(uint64(i), 1, 1, 1, 130, 6, 5)
			s := newSlots(t, []SlotSpec{spec}, 1, 1, 1, 6, 5)
			got := steps(t, s, in, 130)
			var x, k, v [][]float64
			for l := range 130 {
				row := wide(in.q.Head(0, 0).Row(l))
				for c := range row {
					row[c] /= math.Sqrt(6)
				}
				x, k, v = append(x, row), append(k, wide(in.k.Head(0, 0).Row(l))),
					append(v, wide(in.v.Head(0, 0).Row(l)))
			}
			for l, want := range naiveSlots(spec, x, k, v) {
				near1(t, fmt.Sprintf("token %d", l), got.Head(0, 0).Row(l), want, 1e-5)
			}
			if s.Len() != 130 || s.Report().Rows != 130 {
				t.Errorf("%d tokens, %+v", s.Len(), s.Report())
			}
		})
	}
}

// A budget that holds all keys is exact.
func TestSlotsWithRoomAreExact(t *testing.T) {
	const n = 100
	in := makeInput(6, 1, 4, 2, n, 6, 5)
	want := attention.NewSeq[float32](1, 4, n, 5)
	exact := attention.Exact[float32]{Visibility: attention.Visibility{Causal: true}}
	if _, err := exact.Forward(want, in.q, in.k, in.v); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []SlotSpec{{Budget: n + 16, Window: 8, Block: 8}, {Budget: n + 24, Window: n, Block: 8}} {
		if e := errorOf(steps(t, newSlots(t, []SlotSpec{spec}, 1, 4, 2, 6, 5), in, 9), want); !(e < 1e-6) {
			t.Errorf("%+v: error %.3g", spec, e)
		}
	}
}

// The memory is what the budget says, however many tokens there are.
func TestSlotsMemory(t *testing.T) {
	s := newSlots(t, []SlotSpec{{Budget: 256}}, 1, 2, 1, 64, 64)
	before := s.Bytes()
	if got := float64(before) / float64(256*(64+64)*4); got > 1.05 {
		t.Errorf("%.2f times the memory of so many keys", got)
	}
	steps(t, s, makeInput(1, 1, 2, 1, 600, 64, 64), 100)
	if s.Bytes() != before {
		t.Errorf("%d bytes, %d before the first token", s.Bytes(), before)
	}
}

func TestSlotSpecs(t *testing.T) {
	one := attention.Shape{Batch: 1, Heads: 1, Dim: 4}
	for _, s := range []SlotSpec{{}, {Budget: 60}, {Budget: 100, Decay: 1.5}, {Budget: 100, Decay: -1},
		{Budget: 100, Sinks: -2}, {Budget: 100, Window: -1}, {Budget: math.MaxInt}} {
		if _, err := NewSlots([]SlotSpec{s}, 0, one, one); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, bad := range [][]SlotSpec{nil, {{Budget: 300}, {Budget: 300}}} {
		if _, err := NewSlots(bad, 0, one, one); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%d specs for a head: %v", len(bad), err)
		}
	}
}

// Heads with specs of their own are as if each were alone, also after saving.
func TestSlotsPerHead(t *testing.T) {
	specs := []SlotSpec{{Budget: 30, Window: 8, Block: 8}, {Budget: 70, Window: 16, Block: 4}}
	s := newSlots(t, specs, 1, 4, 2, 5, 3)
	in := makeInput(3, 1, 4, 2, 200, 5, 3)
	got := steps(t, s, in, 7, 60)
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again := newSlots(t, specs, 1, 4, 2, 5, 3)
	if err := again.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if c, _ := again.AppendBinary(nil); !slices.Equal(b, c) {
		t.Error("a saved state changes")
	}
	swapped := newSlots(t, []SlotSpec{specs[1], specs[0]}, 1, 4, 2, 5, 3)
	if err := swapped.UnmarshalBinary(b); !errors.Is(err, attention.ErrMismatch) {
		t.Error(err)
	}
	for h, spec := range specs {
		want := steps(t, newSlots(t, []SlotSpec{spec}, 1, 4, 2, 5, 3), in, 7, 60)
		for g := 2 * h; g < 2*h+2; g++ {
			for l := range 200 {
				if !slices.Equal(got.Head(0, g).Row(l), want.Head(0, g).Row(l)) {
					t.Fatalf("head %d, token %d: %v, alone %v", g, l, got.Head(0, g).Row(l), want.Head(0, g).Row(l))
				}
			}
		}
	}
}

// A saved state with more or fewer slots than its length has is damaged, even if the bytes are consistent.
func TestSavedSlotCount(t *testing.T) {
	const d, dv = 4, 3
	spec := []SlotSpec{{Budget: 24, Sinks: 2, Window: 5, Block: 4}}
	s := newSlots(t, spec, 1, 1, 1, d, dv)
	steps(t, s, makeInput(1, 1, 1, 1, 60, d, dv), 60)
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	head, body, err := slotsFormat.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	n := int(binary.LittleEndian.Uint64(body))
	sinks, window := s.spec(0).kept(60)
	rows := 8 + 4*(sinks+60-window)*(d+dv+1) // where the slots begin
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))
	for _, more := range []int{0, 1} {
		bad := slotsFormat.Begin(nil, head)
		bad = binary.LittleEndian.AppendUint64(bad, uint64(n+more))
		bad = append(bad, body[8:rows+4*n*(d+dv)]...)
		bad = append(bad, make([]byte, 4*more*(d+dv))...)
		bad = append(bad, body[rows+4*n*(d+dv):rows+4*n*(d+dv+1)]...)
		bad = append(bad, one[:4*more]...)
		bad = append(bad, body[rows+4*n*(d+dv+1):]...)
		bad = append(bad, make([]byte, 4*more)...)
		err := newSlots(t, spec, 1, 1, 1, d, dv).UnmarshalBinary(seal.Close(bad, 0))
		if more == 0 && err != nil || more > 0 && !errors.Is(err, attention.ErrCorrupt) {
			t.Errorf("%d slots instead of %d: %v", n+more, n, err)
		}
	}
}

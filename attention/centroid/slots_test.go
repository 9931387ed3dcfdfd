package centroid

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// naiveSlot is a set of keys of which only means are used.
type naiveSlot struct {
	keys []int
	h    float64
}

// naiveSlots is Slots of one head by its definition in float64: slots are lists of keys, and what is known of them is
// computed from the list.
func naiveSlots(s SlotSpec, scale float64, c *Centres, q []dense.Matrix[float64],
	k, v dense.Matrix[float64]) []dense.Matrix[float64] {
	s = s.full()
	n, d := k.Rows, k.Cols
	out := make([]dense.Matrix[float64], len(q))
	for h := range q {
		out[h] = dense.New[float64](n, v.Cols)
	}
	average := func(js []int, f func(j int) float64) (m float64) {
		for _, j := range js {
			m += f(j) / float64(len(js))
		}
		return m
	}
	mean := func(js []int, m dense.Matrix[float64]) []float64 {
		x := make([]float64, m.Cols)
		for l := range x {
			x[l] = average(js, func(j int) float64 { return m.At(j, l) })
		}
		return x
	}
	project := func(m dense.Matrix[float64], x []float64, cols int) []float64 { // mᵀx
		y := make([]float64, cols)
		for i, v := range x {
			for r := range y {
				y[r] += m.At(i, r) * v
			}
		}
		return y
	}
	var px, py dense.Matrix[float64]
	r := 0
	if !s.Evict {
		px, py = c.Projections()
		r = min(s.Residual, px.Cols)
	}
	var slots []naiveSlot
	var near []int
	hNear := map[int]float64{}
	for b0 := 0; b0 < n; b0 += s.Block {
		var stay []int
		for _, j := range near {
			if j >= s.Sinks && j < b0-s.Window {
				slots = append(slots, naiveSlot{[]int{j}, hNear[j]})
			} else {
				stay = append(stay, j)
			}
		}
		near = stay
		for extra := len(slots) - s.slots(); extra > 0; extra = len(slots) - s.slots() {
			cost, next := make([]float64, len(slots)), make([]int, len(slots))
			order := make([]int, len(slots))
			for a := range slots {
				order[a] = a
				cost[a] = slots[a].h
			}
			move := min(extra, len(slots)/2)
			if s.Evict {
				move = extra
			} else {
				var total float64
				for _, x := range slots {
					total += x.h / float64(len(slots))
				}
				w := func(a int) float64 { return slots[a].h/total + 0.2 }
				for a := range slots {
					cost[a] = math.Inf(1)
					for b := range slots {
						diff := mean(slots[a].keys, k)
						for l, x := range mean(slots[b].keys, k) {
							diff[l] -= x
						}
						z := project(c.Metric(), diff, d)
						if x := w(a) * w(b) / (w(a) + w(b)) * dense.Dot(z, z); a != b && x < cost[a] {
							cost[a], next[a] = x, b
						}
					}
				}
				for a := range slots {
					if b := next[a]; next[b] == a && a < b {
						cost[a] = math.Inf(1)
					}
				}
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cost[a], cost[b]) })
			gone := map[int]bool{}
			for _, a := range order[:move] {
				gone[a] = true
			}
			into := make([]naiveSlot, len(slots))
			for a := range slots {
				to := a
				for gone[to] && !s.Evict {
					to = next[to]
				}
				into[to].keys = append(into[to].keys, slots[a].keys...)
				into[to].h += slots[a].h
			}
			slots = nil
			for a := range into {
				if !gone[a] {
					slots = append(slots, into[a])
				}
			}
		}
		for a := range slots {
			slots[a].h *= s.Decay
		}
		for j := range hNear {
			hNear[j] *= s.Decay
		}
		for p := b0; p < min(n, b0+s.Block); p++ {
			near = append(near, p)
			for h := range q {
				x := make([]float64, d)
				for l := range x {
					x[l] = scale * q[h].At(p, l)
				}
				var weights []float64
				var z float64
				for _, j := range near {
					weights = append(weights, math.Exp(dense.Dot(x, k.Row(j))))
				}
				for _, sl := range slots {
					m := mean(sl.keys, k)
					var s2 float64
					if !s.Evict {
						for i, a := range project(px, x, r) {
							p := func(j int) float64 { return project(py, k.Row(j), r)[i] }
							mp := average(sl.keys, p)
							s2 += a * a * average(sl.keys, func(j int) float64 { return (p(j) - mp) * (p(j) - mp) })
						}
					}
					weights = append(weights, float64(len(sl.keys))*math.Exp(dense.Dot(x, m)+min(s2, 6)/2))
				}
				for _, w := range weights {
					z += w
				}
				for i, w := range weights {
					w /= z
					if i < len(near) {
						hNear[near[i]] += w
						for l, x := range v.Row(near[i]) {
							out[h].Row(p)[l] += w * x
						}
						continue
					}
					sl := &slots[i-len(near)]
					sl.h += w
					for l, x := range mean(sl.keys, v) {
						out[h].Row(p)[l] += w * x
					}
				}
			}
		}
	}
	return out
}

var slotSpecs = []SlotSpec{
	{Budget: 30, Sinks: 2, Window: 5, Block: 4, Residual: 3},
	{Budget: 24, Sinks: -1, Window: 8, Block: 8, Residual: -1, Decay: 0.5},
	{Budget: 16, Sinks: 3, Window: 1, Block: 7, Decay: 1},
	{Budget: 30, Sinks: 2, Window: 5, Block: 4, Evict: true},
	{Budget: 11, Sinks: 2, Window: 5, Block: 4, Decay: 1, Evict: true}, // no slots: sinks and window alone
}

func newSlots[T dense.Float](t testing.TB, s SlotSpec, batch, q, kv, d, dv int) *Slots[T] {
	t.Helper()
	var c []*Centres
	if !s.Evict {
		c = centresOf[T](t, Spec{Clusters: 8, Sinks: 2}, q, kv, d, dv)
	}
	out, err := NewSlots[T](s, 0, c, batch, q, kv, d, dv)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// steps feeds a state and returns all outputs; sizes are those of the steps, again and again.
func steps[T dense.Float](t testing.TB, s State[T], in input[T], sizes ...int) attention.Seq[T] {
	t.Helper()
	out := attention.NewSeq[T](in.q.Batch, in.q.Heads, in.q.Len, in.v.Dim)
	for p, i := 0, 0; p < in.q.Len; i++ {
		n := min(sizes[i%len(sizes)], in.q.Len-p)
		if err := s.Step(piece(out, p, n), piece(in.q, p, n), piece(in.k, p, n), piece(in.v, p, n)); err != nil {
			t.Fatal(err)
		}
		p += n
	}
	return out
}

// piece is n positions from p on.
func piece[T dense.Float](s attention.Seq[T], p, n int) attention.Seq[T] {
	s.Data, s.Len = s.Data[p*s.StrideL:], n
	return s
}

func TestSlotsAreTheirDefinition(t *testing.T) {
	for i, spec := range slotSpecs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			in := makeInput[float64](uint64(i), 1, 2, 1, 70, 70, 6, 5, 0.7)
			s := newSlots[float64](t, spec, 1, 2, 1, 6, 5)
			got := steps(t, s, in, 70)
			var c *Centres
			if !spec.Evict {
				c = s.from[0]
			}
			want := attention.NewSeq[float64](1, 2, 70, 5)
			q := []dense.Matrix[float64]{in.q.Head(0, 0), in.q.Head(0, 1)}
			for h, m := range naiveSlots(spec, 1/math.Sqrt(6), c, q, in.k.Head(0, 0), in.v.Head(0, 0)) {
				copy(want.Head(0, h).Data, m.Data)
			}
			if e := worst(got, want); !(e < 1e-10) {
				t.Errorf("error %.3g", e)
			}
			if s.Len() != 70 || s.Report().Rows != 140 {
				t.Errorf("%d tokens, %+v", s.Len(), s.Report())
			}
		})
	}
}

// A budget that holds all keys is exact.
func TestSlotsWithRoomAreExact(t *testing.T) {
	const n = 100
	in := makeInput[float64](6, 1, 4, 2, n, n, 6, 5, 0.7)
	want := attention.NewSeq[float64](1, 4, n, 5)
	exact := attention.Exact[float64]{Visibility: attention.Visibility{Causal: true}}
	if _, err := exact.Forward(want, in.q, in.k, in.v); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []SlotSpec{{Budget: n + 16, Window: 8, Block: 8},
		{Budget: n + 16, Window: 8, Block: 8, Evict: true}, {Budget: n + 24, Window: n, Block: 8, Evict: true}} {
		if e := worst(steps[float64](t, newSlots[float64](t, spec, 1, 4, 2, 6, 5), in, 9), want); !(e < 1e-13) {
			t.Errorf("%+v: error %.3g", spec, e)
		}
	}
}

// Slots of two sequences that merge without a loss hold the keys of both: a query that sees only them has the attention
// over all.
func TestSlotsMerge(t *testing.T) {
	in := makeInput[float64](6, 1, 2, 1, 41, 41, 6, 5, 0.7)
	spec := SlotSpec{Budget: 100, Sinks: -1, Window: 8, Block: 8}
	a, b := newSlots[float64](t, spec, 1, 2, 1, 6, 5), newSlots[float64](t, spec, 1, 2, 1, 6, 5)
	steps[float64](t, a, input[float64]{piece(in.q, 0, 20), piece(in.k, 0, 20), piece(in.v, 0, 20)}, 20)
	steps[float64](t, b, input[float64]{piece(in.q, 20, 20), piece(in.k, 20, 20), piece(in.v, 20, 20)}, 20)
	if err := a.Join(b); err != nil {
		t.Fatal(err)
	}
	if a.Len() != 40 || b.Len() != 20 {
		t.Errorf("%d and %d tokens", a.Len(), b.Len())
	}
	last := input[float64]{piece(in.q, 40, 1), piece(in.k, 40, 1), piece(in.v, 40, 1)}
	got := steps[float64](t, a, last, 1)
	want := attention.NewSeq[float64](1, 2, 1, 5)
	if _, err := new(attention.Exact[float64]).Forward(want, last.q, in.k, in.v); err != nil {
		t.Fatal(err)
	}
	if e := worst(got, want); !(e < 1e-13) {
		t.Errorf("error %.3g", e)
	}
	c := newSlots[float64](t, SlotSpec{Budget: 130}, 1, 2, 1, 6, 5)
	if err := a.Merge(c); !errors.Is(err, attention.ErrMismatch) {
		t.Errorf("slots of another spec: %v", err)
	}
}

// The memory is what the budget says, however many tokens there are, plus the residual numbers and rounding to panels.
func TestSlotsMemory(t *testing.T) {
	s := newSlots[float32](t, SlotSpec{Budget: 256}, 1, 2, 1, 64, 64)
	keys := int64(256 * (64 + 64) * 4)
	before := s.Bytes()
	if got := float64(before) / float64(keys); got > 1.35 {
		t.Errorf("%.2f times the memory of so many keys", got)
	}
	steps[float32](t, s, makeInput[float32](1, 1, 2, 1, 600, 600, 64, 64, 0.7), 100)
	if s.Bytes() != before {
		t.Errorf("%d bytes, %d before the first token", s.Bytes(), before)
	}
}

func TestSlotSpecs(t *testing.T) {
	for _, s := range []SlotSpec{{}, {Budget: 60}, {Budget: 100, Decay: 1.5}, {Budget: 100, Decay: -1},
		{Budget: 100, Sinks: -2}, {Budget: 100, Window: -1}, {Budget: math.MaxInt}} {
		if _, err := NewSlots[float32](s, 0, nil, 1, 1, 1, 4, 4); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := NewSlots[float32](SlotSpec{Budget: 100}, 0, nil, 1, 1, 1, 4, 4); !errors.Is(err, dense.ErrShape) {
		t.Errorf("no centres: %v", err)
	}
}

// Heads with specs of their own are as if each were alone, also after saving.
func TestSlotsPerHead(t *testing.T) {
	specs := []SlotSpec{{Budget: 30, Window: 8, Block: 8, Evict: true}, {Budget: 70, Window: 16, Block: 4, Evict: true}}
	s, err := NewSlotsPerHead[float32](specs, 0, nil, 1, 4, 2, 5, 3)
	if err != nil {
		t.Fatal(err)
	}
	in := makeInput[float32](3, 1, 4, 2, 200, 200, 5, 3, 0.7)
	got := steps(t, s, in, 7, 60)
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	again, _ := NewSlotsPerHead[float32](specs, 0, nil, 1, 4, 2, 5, 3)
	if err := again.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if c, _ := again.MarshalBinary(); !slices.Equal(b, c) {
		t.Error("a saved state changes")
	}
	swapped, _ := NewSlotsPerHead[float32]([]SlotSpec{specs[1], specs[0]}, 0, nil, 1, 4, 2, 5, 3)
	if err := swapped.UnmarshalBinary(b); !errors.Is(err, attention.ErrMismatch) {
		t.Error(err)
	}
	for h, spec := range specs {
		one, err := NewSlots[float32](spec, 0, nil, 1, 4, 2, 5, 3)
		if err != nil {
			t.Fatal(err)
		}
		want := steps(t, one, in, 7, 60)
		for g := 2 * h; g < 2*h+2; g++ {
			for l := range 200 {
				if !slices.Equal(got.Head(0, g).Row(l), want.Head(0, g).Row(l)) {
					t.Fatalf("head %d, token %d: %v, alone %v", g, l, got.Head(0, g).Row(l), want.Head(0, g).Row(l))
				}
			}
		}
	}
	for _, bad := range [][]SlotSpec{nil, {{Budget: 300}, {Budget: 300, Evict: true}}, {{}, {}, {}},
		{{Budget: 3, Evict: true}}} {
		if _, err := NewSlotsPerHead[float32](bad, 0, nil, 1, 4, 2, 5, 3); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

package linear

import (
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/stattest"
)

// Properties that hold for every family, estimator or baseline, whatever the map is worth. The tolerance is that of
// sums in another order, in float64, divided by denominators that signed features make small.
func TestLinearProperties(t *testing.T) {
	stattest.SkipRace(t)
	const d, dv, length, tol = 4, 3, 200, 1e-9
	families := linearFamilies(t, d)
	q, k, v := randomSeq[float64](1, 4, length, d, 0.6, 0.1, 101), randomSeq[float64](1, 2, length, d, 0.6, -0.1, 102),
		randomSeq[float64](1, 2, length, dv, 1, 0, 103)
	for name, f := range families {
		specs := HeadSpecs(randfeat.Spec{Family: f, Dim: d, M: 32, Seed: 3}, 2)
		two, err := NewMaps[float64](specs)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, causal := range []bool{false, true} {
			a := &Attention[float64]{Visibility: attention.Visibility{Causal: causal}, Maps: two, Chunk: 24}
			out, _ := forwardLinear(t, a, q, k, v)

			// Grouped queries are queries of repeated keys, values and maps.
			repeat := func(s attention.Seq[float64]) attention.Seq[float64] {
				r := attention.NewSeq[float64](1, 4, length, s.Dim)
				for h := range 4 {
					copy(r.Head(0, h).Data, s.Head(0, h/2).Data)
				}
				return r
			}
			b := &Attention[float64]{Visibility: a.Visibility, Maps: []randfeat.FeatureMap[float64]{two[0], two[0],
				two[1],
				two[1]}, Chunk: 24}
			repeated, _ := forwardLinear(t, b, q, repeat(k), repeat(v))
			if e := apart(out, repeated, length); e > 1e-12 {
				t.Errorf("%s, causal = %v: grouped and repeated heads differ by %.1g", name, causal, e)
			}

			// Keys in another order, with their values: sums do not care.
			if !causal {
				turn := func(s attention.Seq[float64]) attention.Seq[float64] {
					r := attention.NewSeq[float64](1, 2, length, s.Dim)
					for h := range 2 {
						for j := range length {
							copy(r.Head(0, h).Row(j), s.Head(0, h).Row((j*77+5)%length)) // 77 and 200 are coprime
						}
					}
					return r
				}
				turned, _ := forwardLinear(t, a, q, turn(k), turn(v))
				if e := apart(out, turned, length); e > tol {
					t.Errorf("%s: another order of keys changes outputs by %.1g", name, e)
				}
			}
		}

		// Merging is associative and agrees with appending.
		state := func(lo, hi int) *State[float64] {
			s := stateOf(t, two[0], dv)
			must(t, s.Append(cut(attention.One(k.Head(0, 0)), lo, hi), cut(attention.One(v.Head(0, 0)), lo, hi)))
			return s
		}
		merge := func(a, b *State[float64]) *State[float64] {
			if err := a.Merge(b); err != nil {
				t.Fatal(err)
			}
			return a
		}
		read := func(s *State[float64]) attention.Seq[float64] {
			o := attention.NewSeq[float64](1, 1, length, dv)
			must(t, s.Read(o, attention.One(q.Head(0, 0))))
			return o
		}
		whole := read(state(0, length))
		left := read(merge(merge(state(0, 60), state(60, 61)), state(61, length)))
		right := read(merge(state(0, 60), merge(state(60, 61), state(61, length))))
		swapped := read(merge(state(61, length), merge(state(60, 61), state(0, 60))))
		for i, s := range []attention.Seq[float64]{left, right, swapped} {
			if e := apart(whole, s, length); e > tol {
				t.Errorf("%s: merging in way %d differs from appending by %.1g", name, i, e)
			}
		}
	}
}

package linear

import (
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
)

// A state and its fork go on with different tokens: neither sees the other's keys, whether they are kept as sinks,
// in the window, or summed. The fork is made while sinks and window are still filling.
func TestForksShareNothing(t *testing.T) {
	const d, dv, before, after = 4, 3, 2, 9
	a := linear[float64](t, family.Positive{}, d, 12, true)
	for _, exact := range [][2]int{{0, 0}, {3, 0}, {0, 5}, {3, 5}} { // window and sinks
		a.Window, a.Sinks = exact[0], exact[1]
		// step feeds tokens of a seed and returns the outputs.
		step := func(dec *State[float64], n int, seed uint64) []float64 {
			out := attention.NewSeq[float64](1, 1, n, dv)
			must(t, dec.Step(out, normals[float64](1, 1, n, d, 1, seed), normals[float64](1, 1, n, d, 1, seed+1),
				normals[float64](1, 1, n, dv, 1, seed+2)))
			return out.Data
		}
		begin := func() *State[float64] {
			dec, err := a.NewState(shape(1, 1, d), shape(1, 1, dv))
			must(t, err)
			step(dec, before, 1)
			return dec
		}
		first := begin()
		second := first.Fork()
		// By turns, so that each could overwrite what the other has kept.
		var got [2][]float64
		for i := range uint64(3) {
			got[0] = append(got[0], step(first, after/3, 10+3*i)...)
			got[1] = append(got[1], step(second, after/3, 50+3*i)...)
		}
		for which, seed := range []uint64{10, 50} {
			alone, want := begin(), []float64(nil)
			for i := range uint64(3) {
				want = append(want, step(alone, after/3, seed+3*i)...)
			}
			if !slices.Equal(got[which], want) {
				t.Errorf("window %d, sinks %d: state %d sees tokens of the other", a.Window, a.Sinks, which)
			}
		}
	}
}

// Package narrow converts sequences to float32. Plans are chosen and errors are measured in float32 whatever the inputs
// are: rounding errors of 4e-7 do not count beside the errors of plans, and programs hold the code of the search once.
package narrow

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// Seq returns s in float32, divided by 2^exp. A float32 sequence is returned itself, whatever exp is: its values are
// within the range of float32.
func Seq[T dense.Float](s attention.Seq[T], exp int) attention.Seq[float32] {
	if same, ok := any(s).(attention.Seq[float32]); ok {
		return same
	}
	out := attention.NewSeq[float32](s.Batch, s.Heads, s.Len, s.Dim)
	for b := range s.Batch {
		for h := range s.Heads {
			to, from := out.Head(b, h), s.Head(b, h)
			for i := range s.Len {
				for j, x := range from.Row(i) {
					to.Row(i)[j] = float32(math.Ldexp(float64(x), -exp))
				}
			}
		}
	}
	return out
}

// Exponent returns the binary exponent of a typical value (the median over rows of the largest one), if values of this
// size may be out of the range of float32, else 0. Relative errors of outputs do not depend on the unit of the values.
// It is 0 for float32.
func Exponent[T dense.Float](v attention.Seq[T]) int {
	if _, ok := any(v).(attention.Seq[float32]); ok { // Seq does not look at it, and to read long texts takes time
		return 0
	}
	var all []int
	for b := range v.Batch {
		for h := range v.Heads {
			m := v.Head(b, h)
			for i := range m.Rows {
				most := 0.0
				for _, x := range m.Row(i) {
					most = max(most, math.Abs(float64(x)))
				}
				if most > 0 && !math.IsInf(most, 0) && !math.IsNaN(most) {
					all = append(all, math.Ilogb(most))
				}
			}
		}
	}
	slices.Sort(all)
	if len(all) == 0 || max(all[len(all)/2], -all[len(all)/2]) < 60 {
		return 0
	}
	return all[len(all)/2]
}

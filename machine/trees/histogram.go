package trees

import "math"

// packed holds a sum of gradients in its upper half, a signed number of units, and a sum of Hessians in its lower half.
// The units of a tree are so large that the sums of all its rows fit. Words then add and subtract exactly, in any
// order: a histogram minus that of one child is the histogram of the other.
type packed uint64

func (s packed) g() float64 { return float64(int32(s >> 32)) }
func (s packed) h() float64 { return float64(uint32(s)) }

// unitsFor returns the units in a gradient and a Hessian of 1, for so many rows with these sums. A Hessian of 1 has a
// whole number of units where there is room for one, so counts of rows are exact.
func unitsFor(rows int, total derivative) (u derivative) {
	u = derivative{1, 1}
	if total.g > 0 {
		u.g = (math.MaxInt32 - float64(rows)) / total.g
	}
	if total.h > 0 {
		u.h = (math.MaxUint32 - 2*float64(rows)) / total.h
	}
	if u.h > 1 {
		u.h = math.Floor(u.h)
	}
	return u
}

// pack rounds a derivative to units. A row has at least one unit of Hessian, so 0 means a bin without rows.
func pack(d, unit derivative) packed {
	const round = 0x1.8p52 // adding it leaves the rounded number in the low bits
	h := packed(uint32(math.Float64bits(float64(d.h*unit.h) + round)))
	return packed(math.Float64bits(float64(d.g*unit.g)+round))<<32 + max(1, h)
}

// stripe is the number of columns that one pass over the rows sums: each row's number and gradient are read once for
// all of them, and an addition to one column does not wait for another's.
const stripe = 4

// sums are the histograms of a stripe.
type sums [stripe][256]packed

// fill adds the gradients of rows to the bins of up to stripe columns; gradient i is that of rows[i].
func (s *sums) fill(columns [][]uint8, rows []int32, gradients []packed) {
	gradients = gradients[:len(rows)]
	if len(columns) < stripe {
		for k, bins := range columns {
			for i, r := range rows {
				s[k][bins[r]] += gradients[i]
			}
		}
		return
	}
	b0 := columns[0]
	b1, b2, b3 := columns[1][:len(b0)], columns[2][:len(b0)], columns[3][:len(b0)]
	for i, r := range rows {
		g := gradients[i]
		s[0][b0[r]] += g
		s[1][b1[r]] += g
		s[2][b2[r]] += g
		s[3][b3[r]] += g
	}
}

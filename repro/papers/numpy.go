package papers

import (
	"math"
	"math/bits"

	"github.com/randfeat/randfeat/dense"
)

// The papers' public code draws its splits and points with NumPy and SciPy. This file repeats these draws bit by bit,
// so that printed numbers can be compared on the same rows. The test has the commands that made its values.

// numpyOrder is numpy.random.default_rng(42).permutation(n): PCG64, whose state after seeding with 42 is constant here,
// and a shuffle by masked rejection on halves of its words.
func numpyOrder(n int) []int {
	const (
		incHi, incLo = 0xfa505436c9a8416e, 0x66caf2e28d25abff
		mulHi, mulLo = 0x2360ed051fc65da4, 0x4385df649fccf645
	)
	var hi, lo, word uint64 = 0xcea44f6798798f2a, 0xacbc7c9d68860ac8, 0
	half := false
	next := func() uint32 {
		if half = !half; !half {
			return uint32(word >> 32)
		}
		h, l := bits.Mul64(lo, mulLo)
		h += hi*mulLo + lo*mulHi
		var carry uint64
		lo, carry = bits.Add64(l, incLo, 0)
		hi, _ = bits.Add64(h, incHi, carry)
		word = bits.RotateLeft64(hi^lo, -int(hi>>58))
		return uint32(word)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		mask := uint32(1)<<bits.Len(uint(i)) - 1
		j := next() & mask
		for j > uint32(i) {
			j = next() & mask
		}
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// legacy is NumPy's generator after numpy.random.seed: the Mersenne twister, with normals by the polar method.
type legacy struct {
	state [624]uint32
	at    int
	spare float64 // the second of a pair of normals; 0 if there is none
}

func newLegacy(seed uint32) *legacy {
	r := &legacy{at: 624}
	for i := range r.state {
		r.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return r
}

func (r *legacy) uint32() uint32 {
	if r.at == 624 {
		r.at = 0
		for i := range r.state {
			y := r.state[i]&(1<<31) | r.state[(i+1)%624]&(1<<31-1)
			r.state[i] = r.state[(i+397)%624] ^ y>>1 ^ -(y&1)&0x9908b0df
		}
	}
	y := r.state[r.at]
	r.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// uniform is numpy.random.uniform(low, high).
func (r *legacy) uniform(low, high float64) float64 {
	a, b := r.uint32()>>5, r.uint32()>>6
	return low + (high-low)*(float64(a)*(1<<26)+float64(b))/(1<<53)
}

// normal is numpy.random.normal().
func (r *legacy) normal() float64 {
	if v := r.spare; v != 0 {
		r.spare = 0
		return v
	}
	for {
		a, b := r.uniform(-1, 1), r.uniform(-1, 1)
		if q := a*a + b*b; q < 1 && q != 0 {
			f := math.Sqrt(-2 * math.Log(q) / q)
			r.spare = f * a
			return f * b
		}
	}
}

// normals is numpy.random.normal(size=(rows, cols)).
func (r *legacy) normals(rows, cols int) dense.Matrix[float64] {
	x := dense.New[float64](rows, cols)
	for i := range x.Data {
		x.Data[i] = r.normal()
	}
	return x
}

// orthogonal is scipy.stats.ortho_group.rvs(d) as SciPy drew it before version 1.8: a product of d reflections.
func (r *legacy) orthogonal(d int) dense.Matrix[float64] {
	h := dense.New[float64](d, d)
	for i := range d {
		h.Set(i, i, 1)
	}
	for n := range d {
		x := r.normals(1, d-n).Data
		length2, first := dense.Dot(x, x), x[0]
		sign := math.Copysign(1, first)
		x[0] += sign * math.Sqrt(length2)
		scale := 1 / math.Sqrt((length2-first*first+x[0]*x[0])/2)
		for i := range x {
			x[i] *= scale
		}
		for i := range d {
			row := h.Row(i)[n:]
			along := dense.Dot(row, x)
			for j, v := range x {
				row[j] = -sign * (row[j] - along*v)
			}
		}
	}
	return h
}

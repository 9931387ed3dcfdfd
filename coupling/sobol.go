package coupling

import (
	"math/bits"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// Sobol is a scrambled Sobol sequence (Sobol 1967; random linear scrambling of Matoušek 1998 with a digital shift):
// the base-2 digits y of point i in coordinate l are
//
//	y = L_l C_l i + δ_l  (mod 2),  ω_il = F⁻¹(0.y_1 y_2 … y_52 1)
//
// with C_l the Sobol generator matrix, L_l a random lower triangular matrix with unit diagonal, δ_l uniform. The
// shift makes each row exactly distributed (on a grid of 2^52 midpoints per coordinate); rows depend on each other.
// Any 2^k points starting at a multiple of 2^k are stratified in every coordinate.
//
// Polynomials are the primitive ones over GF(2) by degree, then value. Initial direction numbers follow our own fixed
// rule (see directions), not a published table, so projections are as good as random Sobol matrices rather than
// optimised. Any dimension.
//
// Normal, Poisson, Geometric and Cauchy laws, through their quantile functions; Sphere and Student are ErrLaw.
type Sobol struct{}

// Name is "sobol".
func (Sobol) Name() string { return "sobol" }

// sobolBits is the number of digits: the midpoint of a cell of width 2^-52 is still a float64.
const sobolBits = 52

// Sample draws the first m points in dimension dim.
func (c Sobol) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, quantileLaws()); err != nil {
		return Omega{}, err
	}
	w := dense.New[float64](m, dim)
	var polys primitivePolynomials
	for j := range dim {
		poly := uint64(1) // coordinate 0 is the van der Corput sequence
		if j > 0 {
			poly = polys.next()
		}
		v := directions(j, poly, bits.Len(uint(m-1)))
		scrambleDirections(v, src)
		// Gray-code order: the same points in each block of 2^k, one XOR per point.
		y := src.Uint64() >> (64 - sobolBits)
		for i := range m {
			if i > 0 {
				y ^= v[bits.TrailingZeros(uint(i))]
			}
			w.Set(i, j, l.quantile(rng.OpenFromBits(y)))
		}
	}
	return Omega{Rows: w}, nil
}

// directions are the first count direction integers v_k = m_k 2^{52−k} of coordinate j, whose polynomial is
// x^s + a_1 x^{s−1} + … + 1 (bit s to bit 0; degree 0 stands for the van der Corput sequence, all m_k = 1). For
// k > s
//
//	m_k = 2 a_1 m_{k−1} ⊕ 4 a_2 m_{k−2} ⊕ … ⊕ 2^s m_{k−s} ⊕ m_{k−s}.
//
// The first s are free odd numbers below 2^k. Our rule: k−1 high bits from the mixer of SplitMix64 (Steele et al.
// 2014) at (j, k), then a one.
func directions(j int, poly uint64, count int) []uint64 {
	s := bits.Len64(poly) - 1
	ms := make([]uint64, count)
	for i := range ms {
		k := i + 1
		switch {
		case s == 0:
			ms[i] = 1
		case k <= s:
			ms[i] = rng.Mix64(directionSalt+uint64(j)<<8+uint64(k))&(1<<(k-1)-1)<<1 | 1
		default:
			ms[i] = ms[i-s]
			for t := 1; t <= s; t++ {
				if poly>>(s-t)&1 == 1 {
					ms[i] ^= ms[i-t] << t
				}
			}
		}
	}
	for i := range ms {
		ms[i] <<= sobolBits - (i + 1)
	}
	return ms
}

// directionSalt is the one among the 3000 multiples of 2^40 from 0 that gives the best pairs among the first 12
// coordinates: with it every pair is a (t, k, 2)-net with t ≤ 4 for k = 2, …, 10, and the sum of all these t is
// least. TestSobolPairs recomputes both numbers.
const directionSalt = 1373 << 40

// scrambleDirections multiplies every v by one random lower triangular matrix with unit diagonal: digit r of the
// result is digit r of v plus a random combination of the digits above it.
func scrambleDirections(v []uint64, src rand.Source) {
	var rows [sobolBits]uint64 // row r of L as a mask over the digits, digit 0 being the highest bit
	for r := range rows {
		diagonal := uint64(1) << (sobolBits - 1 - r)
		above := (uint64(1)<<sobolBits - 1) &^ (diagonal<<1 - 1)
		rows[r] = src.Uint64()&above | diagonal
	}
	for i, x := range v {
		var y uint64
		for _, row := range rows {
			y = y<<1 | uint64(bits.OnesCount64(x&row)&1)
		}
		v[i] = y
	}
}

// primitivePolynomials enumerates the primitive polynomials over GF(2) by degree, then value. Bit i is the
// coefficient of x^i. The zero value starts at x + 1.
type primitivePolynomials struct {
	last   uint64
	degree int
	primes []uint64 // prime factors of 2^degree − 1
}

// next is the next primitive polynomial.
func (p *primitivePolynomials) next() uint64 {
	for {
		p.last += 2
		if p.degree == 0 || p.last>>(p.degree+1) != 0 {
			p.degree++
			p.last = 1<<p.degree + 1
			p.primes = primeFactors(1<<p.degree - 1)
		}
		if isPrimitive(p.last, p.degree, p.primes) {
			return p.last
		}
	}
}

// isPrimitive reports whether x has the order 2^s − 1 modulo poly. Only then is poly irreducible and x a generator
// of the field: a reducible polynomial of degree s leaves fewer than 2^s − 1 units.
func isPrimitive(poly uint64, s int, factors []uint64) bool {
	order := uint64(1)<<s - 1
	if powX(order, poly, s) != 1 {
		return false
	}
	for _, q := range factors {
		// order/q = 0 never happens; for s = 1 there are no factors.
		if powX(order/q, poly, s) == 1 {
			return false
		}
	}
	return true
}

// powX is x^e modulo poly over GF(2).
func powX(e, poly uint64, s int) uint64 {
	result := uint64(1)
	for i := bits.Len64(e) - 1; i >= 0; i-- {
		result = mulMod(result, result, poly, s)
		if e>>i&1 == 1 {
			result <<= 1
			if result>>s&1 == 1 {
				result ^= poly
			}
		}
	}
	return result
}

// mulMod is a·b modulo poly over GF(2), all of degree ≤ s.
func mulMod(a, b, poly uint64, s int) uint64 {
	var r uint64
	for ; b != 0; b >>= 1 {
		if b&1 == 1 {
			r ^= a
		}
		a <<= 1
		if a>>s&1 == 1 {
			a ^= poly
		}
	}
	return r
}

// primeFactors are the distinct prime factors of n, by trial division; n < 2^32 in any dimension that fits memory.
func primeFactors(n uint64) []uint64 {
	var fs []uint64
	for q := uint64(2); q*q <= n; q++ {
		if n%q == 0 {
			fs = append(fs, q)
			for n%q == 0 {
				n /= q
			}
		}
	}
	if n > 1 {
		fs = append(fs, n)
	}
	return fs
}

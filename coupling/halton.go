package coupling

import (
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
)

// Halton is the randomised Halton sequence (baseline of HRF Table 1; docs/theory.md §4.10): point i = 1, …, m has the
// coordinates
//
//	u_il = frac(φ_b(i) + Δ_l),  b the l-th prime,  Δ_l ~ U[0,1),  ω_il = F⁻¹(u_il)
//
// with φ_b the radical inverse and F the distribution function of a coordinate. The shift makes each row exactly
// distributed; rows depend on each other. For d > 8 every digit of every coordinate first passes through its own
// random permutation: without it coordinates with b > m are strongly correlated.
//
// Normal, Poisson, Geometric and Cauchy laws, through their quantile functions; Sphere and Student are ErrLaw.
type Halton struct{}

// Name is "halton".
func (Halton) Name() string { return "halton" }

// Sample draws the first m points in dimension dim.
func (c Halton) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, quantileLaws()); err != nil {
		return Omega{}, err
	}
	w := dense.New[float64](m, dim)
	rnd := rand.New(src)
	for j, base := range omega.Primes(dim) {
		inverse := func(i int) float64 { return omega.RadicalInverse(i, base) }
		if dim > permuteAbove {
			inverse = newDigitScramble(base, m, rnd).inverse
		}
		shift := rnd.Float64()
		for i := range m {
			w.Set(i, j, l.quantile(omega.OpenUnit(inverse(i+1)+shift))) // index 0 is 0 in every base
		}
	}
	return Omega{Rows: w}, nil
}

// permuteAbove is the largest dimension without digit permutations.
const permuteAbove = 8

// digitScramble is the radical inverse with a random permutation of {0, …, b−1} per digit position.
//
// Only what the m points can see is drawn: whole permutations are needed at the positions where some index has a
// non-zero digit, and of those only the images of digits that occur; at the higher positions all indices have the
// digit 0, whose image is one uniform digit.
type digitScramble struct {
	base   int
	images [][]int // images[k][a] is the image of digit a at position k
	tail   float64 // sum of the digits at the higher positions, which all indices share
}

// digitPositions is the number of scrambled positions; beyond 64 bits nothing is visible in a float64.
func digitPositions(base int) int {
	return min(32, int(math.Ceil(64/math.Log2(float64(base)))))
}

func newDigitScramble(base, m int, rnd *rand.Rand) digitScramble {
	s := digitScramble{base: base}
	b := float64(base)
	f := 1 / b
	left := m // the largest index, shifted down by the positions done
	for range digitPositions(base) {
		if left > 0 {
			s.images = append(s.images, partialPermutation(base, min(base, left+1), rnd))
			left /= base
		} else {
			s.tail += float64(rnd.IntN(base)) * f
		}
		f /= b
	}
	return s
}

// partialPermutation is the first count entries of a uniform permutation of {0, …, n−1} (Fisher–Yates). Of a long
// permutation only the displaced entries are kept, so that time and memory are O(count) for any n; the draws do not
// depend on how it is kept.
func partialPermutation(n, count int, rnd *rand.Rand) []int {
	if count >= n/sparseBelow {
		p := make([]int, n)
		for i := range p {
			p[i] = i
		}
		for i := range count {
			j := i + rnd.IntN(n-i)
			p[i], p[j] = p[j], p[i]
		}
		return p[:count]
	}
	moved := make(map[int]int, count) // moved[j] is the entry at position j, if it is not j
	at := func(j int) int {
		if v, ok := moved[j]; ok {
			return v
		}
		return j
	}
	p := make([]int, count)
	for i := range p {
		j := i + rnd.IntN(n-i)
		p[i] = at(j)
		moved[j] = at(i) // positions up to i are never read again
	}
	return p
}

// sparseBelow is the ratio at which an array of n entries and a map of n/sparseBelow entries are about equally fast.
const sparseBelow = 16

// inverse is the scrambled radical inverse of i ≤ m.
func (s digitScramble) inverse(i int) float64 {
	u, f := s.tail, 1/float64(s.base)
	for _, image := range s.images {
		u += float64(image[i%s.base]) * f
		i /= s.base
		f /= float64(s.base)
	}
	return u
}

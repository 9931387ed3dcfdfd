package omega

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/randfeat/randfeat/dense"
)

// HaltonRows are the first m points of the shifted Halton sequence without digit permutations, mapped to N(0,1):
// row i = 1, …, m is Φ⁻¹(frac(φ_b(i) + shift)), one coordinate per entry of shift (docs/theory.md §4.10).
func HaltonRows(m int, shift []float64) (dense.Matrix[float64], error) {
	if m < 1 || len(shift) < 1 {
		return dense.Matrix[float64]{}, fmt.Errorf("coupling: %d Halton rows of dimension %d: %w", m, len(shift),
			dense.ErrShape)
	}
	w := dense.New[float64](m, len(shift))
	for j, base := range Primes(len(shift)) {
		if !dense.IsFinite(shift[j]) {
			return dense.Matrix[float64]{}, fmt.Errorf("coupling: shift[%d] is %v: %w", j, shift[j], dense.ErrNotFinite)
		}
		for i := range m {
			w.Set(i, j, mathext.NormalQuantile(OpenUnit(RadicalInverse(i+1, base)+shift[j])))
		}
	}
	return w, nil
}

// OpenUnit is u modulo 1, kept inside (0,1), where quantiles are finite.
func OpenUnit(u float64) float64 { return min(max(u-math.Floor(u), 0x1p-53), 1-0x1p-53) }

// RadicalInverse mirrors the base-b digits of i at the radix point: Σ a_k b^k ↦ Σ a_k b^{−k−1}.
func RadicalInverse(i, base int) float64 {
	b := float64(base)
	var u float64
	f := 1 / b
	for ; i > 0; i /= base {
		u += float64(i%base) * f
		f /= b
	}
	return u
}

// Primes are the first count primes.
func Primes(count int) []int {
	// p_n < n (ln n + ln ln n) for n ≥ 6 (Rosser).
	limit := 13
	if n := float64(count); count > 5 {
		limit = int(n*(math.Log(n)+math.Log(math.Log(n)))) + 1
	}
	composite := make([]bool, limit+1)
	ps := make([]int, 0, count)
	for i := 2; len(ps) < count; i++ {
		if composite[i] {
			continue
		}
		ps = append(ps, i)
		for j := i * i; j <= limit; j += i {
			composite[j] = true
		}
	}
	return ps
}

package coupling

import (
	"math"
	"math/bits"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/randfeat/randfeat/internal/rng"
)

// Euler's φ(2^s − 1)/s primitive polynomials exist of degree s; the first are tabulated everywhere.
func TestPrimitivePolynomials(t *testing.T) {
	var p primitivePolynomials
	for _, want := range []uint64{3, 7, 11, 13, 19, 25, 37, 41, 47, 55, 59, 61, 67, 91} {
		if got := p.next(); got != want {
			t.Fatalf("polynomial %b, want %b", got, want)
		}
	}
	p = primitivePolynomials{}
	counts := map[int]int{}
	for {
		s := bits.Len64(p.next()) - 1
		if s > 12 {
			break
		}
		counts[s]++
	}
	for s, want := range []int{0, 1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144} {
		if counts[s] != want {
			t.Errorf("%d polynomials of degree %d, want %d", counts[s], s, want)
		}
	}
}

// Direction matrices are invertible (upper triangular with unit diagonal), in every coordinate up to 4096.
func TestSobolDirections(t *testing.T) {
	var p primitivePolynomials
	seen := map[[4]uint64]int{}
	for j := range 4096 {
		poly := uint64(1)
		if j > 0 {
			poly = p.next()
		}
		v := directions(j, poly, 20)
		for k, x := range v {
			if bits.TrailingZeros64(x) != sobolBits-1-k {
				t.Fatalf("coordinate %d: direction %d is %#x", j, k, x)
			}
		}
		key := [4]uint64{v[19], v[18], v[17], v[16]}
		if o, ok := seen[key]; ok && j < 1000 {
			t.Errorf("coordinates %d and %d share directions", o, j)
		}
		seen[key] = j
	}
}

// netQuality is the least t for which the first 2^k points of two coordinates are a (t, k, 2)-net: the first p rows
// of one generator matrix and q of the other, p+q = k−t, are always independent.
func netQuality(a, b []uint64, k int) int {
	row := func(v []uint64, r int) (mask uint64) {
		for c := range k {
			mask |= v[c] >> (sobolBits - 1 - r) & 1 << c
		}
		return mask
	}
	independent := func(size int) bool {
		for p := range size + 1 {
			var rows []uint64
			for r := range p {
				rows = append(rows, row(a, r))
			}
			for r := range size - p {
				rows = append(rows, row(b, r))
			}
			if rankGF2(rows) < size {
				return false
			}
		}
		return true
	}
	t := 0
	for !independent(k - t) {
		t++
	}
	return t
}

func rankGF2(rows []uint64) int {
	rank := 0
	for i, r := range rows {
		if r == 0 {
			continue
		}
		rank++
		low := bits.TrailingZeros64(r)
		for j := i + 1; j < len(rows); j++ {
			if rows[j]>>low&1 == 1 {
				rows[j] ^= r
			}
		}
	}
	return rank
}

// The numbers quoted at directionSalt.
func TestSobolPairs(t *testing.T) {
	var p primitivePolynomials
	var vs [][]uint64
	for j := range 12 {
		poly := uint64(1)
		if j > 0 {
			poly = p.next()
		}
		vs = append(vs, directions(j, poly, 10))
	}
	worst, sum := 0, 0
	for i := range vs {
		for j := range i {
			for k := 2; k <= 10; k++ {
				q := netQuality(vs[i], vs[j], k)
				worst, sum = max(worst, q), sum+q
			}
		}
	}
	if worst != 4 || sum != 788 {
		t.Errorf("worst t = %d, sum %d; want 4 and 788", worst, sum)
	}
	if q := netQuality(vs[0], vs[1], 10); q != 0 {
		t.Errorf("the first two coordinates are a (%d, 10, 2)-net, want t = 0", q)
	}
}

// After scrambling, 2^k points still put exactly one point into every dyadic cell of every coordinate.
func TestSobolStratified(t *testing.T) {
	const m, d = 256, 200
	o, err := Sobol{}.Sample(m, d, Law{}, rng.Stream(110))
	if err != nil {
		t.Fatal(err)
	}
	for j := range d {
		var cells [m]int
		for i := range m {
			cells[int(m*distuv.UnitNormal.CDF(o.Rows.At(i, j)))]++
		}
		for c, n := range cells {
			if n != 1 {
				t.Fatalf("coordinate %d: %d points in cell %d", j, n, c)
			}
		}
	}
}

// A prefix of a longer sequence is the shorter sequence: rows do not depend on m.
func TestSobolPrefix(t *testing.T) {
	long, err := Sobol{}.Sample(100, 7, Law{}, rng.Stream(111))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []int{1, 2, 33} {
		short, err := Sobol{}.Sample(m, 7, Law{}, rng.Stream(111))
		if err != nil {
			t.Fatal(err)
		}
		for i := range m {
			for j := range 7 {
				if short.Rows.At(i, j) != long.Rows.At(i, j) {
					t.Fatalf("m=%d: row %d differs", m, i)
				}
			}
		}
	}
}

func TestSobolHighDimension(t *testing.T) {
	o, err := Sobol{}.Sample(5, 5000, Law{}, rng.Stream(112))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		var mean, second float64
		for _, v := range o.Rows.Row(i) {
			mean += v / 5000
			second += v * v / 5000
		}
		if math.Abs(mean) > 6/math.Sqrt(5000) || math.Abs(second-1) > 6*math.Sqrt(2./5000) {
			t.Errorf("row %d: mean %.3f, second moment %.3f", i, mean, second)
		}
	}
}

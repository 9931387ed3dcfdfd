package watch

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// chiSquared is P(χ²_k ≥ t); k need not be whole.
func chiSquared(t, k float64) float64 {
	if !(t > 0) || !(k > 0) {
		return 1
	}
	return distuv.ChiSquared{K: k}.Survival(t)
}

// gumbel is the law of the largest of many dependent squares of normal variables, with a tail that is not lighter than
// exponential with the mean Excess above From, the upper quartile.
type gumbel struct{ Mode, Scale, From, Excess float64 }

// heavier multiplies the mean excess of a sample: the tail of products is heavier than 50 values show.
const heavier = 1.3

// gumbelOf has the mean and the variance of v. The tail of a single square falls as e^{−t/2}.
func gumbelOf(v []float64) gumbel {
	v = slices.Sorted(slices.Values(v))
	from, excess := v[len(v)*3/4], 0.0
	for _, x := range v[len(v)*3/4:] {
		excess += (x - from) / float64(len(v)-len(v)*3/4)
	}
	mean, square := sum(v)/float64(len(v)), 0.0
	for _, x := range v {
		square += (x - mean) * (x - mean) / float64(len(v)-1)
	}
	s := math.Sqrt(6*square) / math.Pi
	return gumbel{mean - eulerGamma*s, s, from, max(2, heavier*excess)}
}

const eulerGamma = 0.57721566490153286

// tail is P(max ≥ t).
func (g gumbel) tail(t float64) float64 {
	if !(g.Scale > 0) {
		return 1
	}
	p := -math.Expm1(-math.Exp(-(t - g.Mode) / g.Scale))
	if t > g.From {
		p = max(p, math.Exp(-(t-g.From)/g.Excess)/4)
	}
	return p
}

// moments are the first three cumulants of the law of a quadratic form Σ λ_i χ²_1: Σλ_i, 2Σλ_i², 8Σλ_i³.
type moments struct{ Mean, Variance, Third float64 }

// tail is P(Q ≥ t) for a quadratic form: a shifted and scaled χ² with the same three cumulants (Hall 1983, Buckley &
// Eagleson 1988).
func (m moments) tail(t float64) float64 {
	if !(m.Variance > 0) || !(m.Third > 0) {
		return 1
	}
	k := 8 * m.Variance * m.Variance * m.Variance / (m.Third * m.Third)
	return chiSquared(k+(t-m.Mean)*math.Sqrt(2*k/m.Variance), k)
}

// shares tests whether two counts have the same share: a of n, b of m. It is Fisher's exact test, twice the smaller
// tail.
func shares(a, n, b, m float64) float64 {
	if a+b == 0 || a+b == n+m || n == 0 || m == 0 {
		return 1
	}
	return min(1, 2*min(hypergeometric(b, m, a, n), hypergeometric(m-b, m, n-a, n)))
}

// hypergeometric is the probability that at least b of the a+b marked rows are among m rows, if the others are n.
func hypergeometric(b, m, a, n float64) float64 {
	marked := a + b
	if mean := marked * m / (n + m); b <= mean {
		return 1 // not in the upper tail
	}
	choose := func(n, k float64) float64 { return lgamma(n+1) - lgamma(k+1) - lgamma(n-k+1) }
	total := choose(n+m, marked)
	p := 0.0
	for k := b; k <= min(marked, m); k++ {
		term := math.Exp(choose(m, k) + choose(n, marked-k) - total)
		if p += term; !(term > 1e-12*p) { // all terms may be too small for a number
			break
		}
	}
	return min(1, p)
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// leastExpected is the smallest expected count of a level that is tested by itself.
const leastExpected = 5

// levels tests whether two vectors of counts have the same shares: Pearson's χ², with rare levels pooled.
func levels(a, b []float64) float64 {
	n, m := sum(a), sum(b)
	if n == 0 || m == 0 {
		return 1
	}
	var x, y, restA, restB float64
	x2, cells := 0.0, 0
	add := func(x, y float64) {
		d := y/m - x/n
		x2 += d * d / ((x + y) / (n + m) * (1/n + 1/m))
		cells++
	}
	for k := range a {
		if x, y = a[k], b[k]; (x+y)*min(n, m)/(n+m) < leastExpected {
			restA, restB = restA+x, restB+y
		} else {
			add(x, y)
		}
	}
	if restA+restB > 0 {
		if (restA+restB)*min(n, m)/(n+m) < leastExpected {
			return min(1, 2*min(chiSquared(x2, float64(cells-1)), shares(restA, n, restB, m)))
		}
		add(restA, restB)
	}
	return chiSquared(x2, float64(cells-1))
}

// smoothOrder is the number of components of the test of numbers.
const smoothOrder = 4

// smooth tests whether two vectors of counts in ordered bins come from one law. It is Neyman's smooth test: polynomials
// of the pooled ranks up to degree 4, orthonormal over the pooled counts. They see location, spread, skewness and
// tails; each has a mean of 0 and the variance 1/n + 1/m of the difference, so the sum of squares is χ².
func smooth(a, b []float64) float64 {
	n, m := sum(a), sum(b)
	if n < leastExpected || m < leastExpected {
		return 1
	}
	// Neighbouring bins are pooled until the smaller table expects leastExpected rows in each.
	var rank, weight, diff []float64
	below, x, y := 0.0, 0.0, 0.0
	rest := n + m
	for k := range a {
		x, y = x+a[k], y+b[k]
		enough := leastExpected * (n + m) / min(n, m)
		if c := x + y; c > 0 && (c == rest || c >= enough && rest-c >= enough) {
			rank = append(rank, 2*(below+c/2)/(n+m)-1)
			weight = append(weight, c/(n+m))
			diff = append(diff, y/m-x/n)
			below, rest, x, y = below+c, rest-c, 0, 0
		}
	}
	order := min(smoothOrder, len(rank)-1)
	basis := [][]float64{slices.Repeat([]float64{1}, len(rank))}
	x2 := 0.0
	for range order {
		// Multiply the last polynomial by the rank and remove the others, twice for rounding.
		p := slices.Clone(basis[len(basis)-1])
		for k := range p {
			p[k] *= rank[k]
		}
		for range 2 {
			for _, q := range basis {
				dot := 0.0
				for k := range p {
					dot += weight[k] * p[k] * q[k]
				}
				for k := range p {
					p[k] -= dot * q[k]
				}
			}
		}
		norm, mean := 0.0, 0.0
		for k := range p {
			norm += weight[k] * p[k] * p[k]
		}
		norm = math.Sqrt(norm)
		for k := range p {
			p[k] /= norm
			mean += diff[k] * p[k]
		}
		basis = append(basis, p)
		x2 += mean * mean
	}
	return chiSquared(x2/(1/n+1/m), float64(order))
}

// holm returns p-values adjusted for their number (Holm 1979): the share of false rejections among all columns is
// controlled whatever their dependence.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out := make([]float64, len(p))
	most := 0.0
	for k, i := range order {
		most = max(most, min(1, p[i]*float64(len(p)-k)))
		out[i] = most
	}
	return out
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

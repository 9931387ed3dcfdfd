// Landmarks are rows that represent all rows for a kernel: the landmarks of Nyström's approximation κ(x, y)
// ≈ k_m(x)ᵀ K_mm⁻¹ k_m(y) (Williams & Seeger 2001). The residual of a row is the part of κ(x, x) that the landmarks do
// not explain, κ(x,x) − k_m(x)ᵀK_mm⁻¹k_m(x).
//
// [Pivots] is the default. [Greedy] needs no seed and prefers the rim of the data. [Leverage] samples by ridge leverage
// scores. All results are determined by their arguments.

package krr

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// tolerance is the residual, relative to the largest κ(x, x), below which a row is not chosen: its features would
// consist of rounding errors.
const tolerance = 1e-8

// drawnRows is the largest number of rows chosen at a time. The draws of a block do not account for each other, so the
// first blocks are smaller.
const drawnRows = 64

const (
	pivotLabel    = 0x6c616e646d61726b // "landmark"
	leverageLabel = 0x6c65766572616765 // "leverage"
)

// Pivots chooses at most m rows of x by randomly pivoted Cholesky: rows are drawn with probabilities proportional to
// their residuals, in blocks (Chen, Epperly, Tropp & Webber 2023, arXiv:2207.06503, Algorithms 1 and 3). It chooses
// fewer than m rows if these explain all. It takes n·m²/2 multiply-adds and 8nm bytes. The result is in the order of
// the draw.
func Pivots(k kernel.Kernel, x dense.Matrix[float64], m int, seed uint64) ([]int, error) {
	src := rng.Stream(seed, pivotLabel)
	return pivots(k, x, m, func(left []float64, least float64, chosen int) []int {
		return draw(left, least, min(drawnRows, max(4, chosen/2), m-chosen), src)
	})
}

// Greedy is Pivots with the row of the largest residual as the next one. It needs no seed and takes rows at the rim of
// the data first (Fine & Scheinberg 2001, JMLR 2).
func Greedy(k kernel.Kernel, x dense.Matrix[float64], m int) ([]int, error) {
	return pivots(k, x, m, func(left []float64, least float64, _ int) []int {
		if i := largest(left); left[i] > least {
			return []int{i}
		}
		return nil
	})
}

// pivots extends a partial Cholesky factor f, K ≈ f·fᵀ, by the rows that next proposes. Proposed rows that other rows
// of the same block explain are dropped. left holds the residuals.
func pivots(k kernel.Kernel, x dense.Matrix[float64], m int,
	next func(left []float64, least float64, chosen int) []int) ([]int, error) {
	n := x.Rows
	m = min(m, n)
	tab := kern.Best[float64]()
	f := dense.New[float64](n, m) // K ≈ f·fᵀ
	left := diagonal(k, x)
	least := tolerance * left[largest(left)]
	var chosen []int
	for len(chosen) < m {
		at := next(left, least, len(chosen))
		if len(at) == 0 {
			break
		}
		// Columns of K minus the part that the previous landmarks explain.
		c := dense.New[float64](n, len(at))
		if err := kernel.Gram(k, c, x, x.Pick(at)); err != nil {
			return nil, err
		}
		old := len(chosen)
		if old > 0 {
			minus := dense.New[float64](old, len(at))
			for j, r := range at {
				for i, v := range f.Row(r)[:old] {
					minus.Set(i, j, -v)
				}
			}
			par.For(n, 64, func(lo, hi int) {
				tab.Product(c.RowRange(lo, hi), f.RowRange(lo, hi).ColRange(0, old), minus, true)
			})
		}
		// Cholesky of the block, column by column.
		for j, r := range at {
			p := c.At(r, j)
			if !(p > least) || slices.Contains(chosen, r) {
				continue
			}
			col, root := len(chosen), math.Sqrt(p)
			chosen = append(chosen, r)
			row := append([]float64(nil), c.Row(r)...)
			par.For(n, 256, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					v := c.At(i, j) / root
					f.Set(i, col, v)
					left[i] = max(0, left[i]-float64(v*v))
					ci := c.Row(i)
					for l := j + 1; l < len(ci); l++ {
						ci[l] -= v * row[l] / root
					}
				}
			})
		}
		for _, r := range at {
			left[r] = 0 // chosen, or explained by others of the block
		}
	}
	return chosen, nil
}

// Leverage chooses at most m rows of x with probabilities proportional to their ridge leverage l_i = [K(K + λI)⁻¹]_ii.
// It approximates the leverage from m uniform rows S as (κ_ii − k_S(x_i)ᵀ(K_SS + λI)⁻¹k_S(x_i))/λ, with λ = tr(K − K_nS
// K_SS⁻¹ K_Sn)/m, the part of the trace that S leaves per landmark (Musco & Musco 2017, arXiv:1605.07583, Lemma 6 and
// Algorithm 2, one level of it). It takes n·m² multiply-adds and 8nm bytes. Rows that other chosen rows explain are
// dropped, and the order is that of Greedy.
func Leverage(k kernel.Kernel, x dense.Matrix[float64], m int, seed uint64) ([]int, error) {
	n := x.Rows
	m = min(m, n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	hash := func(i int) uint64 { return rng.Mix64(seed ^ leverageLabel ^ rng.Mix64(uint64(i))) }
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(hash(a), hash(b)) })
	s := x.Pick(order[:m])
	diag := diagonal(k, x)
	left, err := residuals(k, s, x, diag, 0)
	if err != nil {
		return nil, err
	}
	lambda := 0.0
	for _, v := range left {
		lambda += v
	}
	if lambda /= float64(m); lambda > tolerance*diag[largest(diag)] {
		if left, err = residuals(k, s, x, diag, lambda); err != nil {
			return nil, err
		}
	} else { // the uniform rows explain all
		return apart(k, x, order[:m])
	}
	src := rng.Stream(seed, leverageLabel)
	var chosen []int
	for len(chosen) < m {
		at := draw(left, 0, m-len(chosen), src)
		if len(at) == 0 {
			break
		}
		for _, r := range at {
			left[r] = 0
		}
		chosen = append(chosen, at...)
	}
	return apart(k, x, chosen)
}

// apart drops the rows of a choice that its other rows explain.
func apart(k kernel.Kernel, x dense.Matrix[float64], chosen []int) ([]int, error) {
	at, err := Greedy(k, x.Pick(chosen), len(chosen))
	if err != nil {
		return nil, err
	}
	for i, r := range at {
		at[i] = chosen[r]
	}
	return at, nil
}

// residuals are κ(x_i, x_i) − k_S(x_i)ᵀ(K_SS + λI)⁻¹k_S(x_i).
func residuals(k kernel.Kernel, s, x dense.Matrix[float64], diag []float64, lambda float64) ([]float64, error) {
	u, err := Root(k, s, lambda)
	if err != nil {
		return nil, err
	}
	b := dense.New[float64](s.Rows, x.Rows)
	if err := errors.Join(kernel.Gram(k, b, s, x), linalg.SolveT(u, b)); err != nil {
		return nil, err
	}
	left := slices.Clone(diag)
	for i := range b.Rows {
		for j, v := range b.Row(i) {
			left[j] -= float64(v * v)
		}
	}
	for j, v := range left {
		left[j] = max(v, 0)
	}
	return left, nil
}

// Root is the upper triangle R with RᵀR = K_zz + λI. At least 10⁻¹¹ of the largest κ(z, z) is added to the diagonal, a
// thousandth of the smallest pivot of Pivots. If the factorisation fails, ten times more is added, up to five times:
// nearly equal rows then share their weight.
func Root(k kernel.Kernel, z dense.Matrix[float64], lambda float64) (dense.Matrix[float64], error) {
	gram := dense.New[float64](z.Rows, z.Rows)
	if err := kernel.Gram(k, gram, z, z); err != nil {
		return gram, err
	}
	diag := diagonal(k, z)
	r := dense.New[float64](z.Rows, z.Rows)
	add := 1e-11 * diag[largest(diag)]
	var err error
	for range 6 {
		copy(r.Data, gram.Data)
		for i := range z.Rows {
			r.Row(i)[i] += max(lambda, add)
		}
		if err = linalg.Cholesky(r); !errors.Is(err, linalg.ErrNotPositive) {
			break
		}
		add *= 10
	}
	return r, err
}

// diagonal is κ(x, x) of every row.
func diagonal(k kernel.Kernel, x dense.Matrix[float64]) []float64 {
	d := make([]float64, x.Rows)
	for i := range d {
		d[i] = 1
		if k.Kind == kernel.Softmax {
			d[i] = k.Eval(x.Row(i), x.Row(i))
		}
	}
	return d
}

func largest(v []float64) int {
	top := 0
	for i, a := range v {
		if a > v[top] {
			top = i
		}
	}
	return top
}

// draw returns at most k different rows with probabilities proportional to left, in the order of the draw. Rows with at
// most least left are never drawn.
func draw(left []float64, least float64, k int, src rand.Source) []int {
	sums := make([]float64, len(left)+1)
	for i, v := range left {
		if v <= least {
			v = 0
		}
		sums[i+1] = sums[i] + v
	}
	total := sums[len(left)]
	var at []int
	for range k {
		if !(total > 0) {
			break
		}
		i, _ := slices.BinarySearch(sums, float64(src.Uint64()>>11)*0x1p-53*total)
		i = min(max(i-1, 0), len(left)-1)
		if left[i] > least && !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	if len(at) == 0 && total > 0 { // all draws missed by rounding: take the row with the most left
		at = append(at, largest(left))
	}
	return at
}

package metric

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// blockRows is the number of points whose gradients are computed and summed together. Neither the blocks nor the order
// of their sums depends on the number of goroutines.
const blockRows = 64

// AGOP returns the average gradient outer product of f_c(x) = Σ_i α_ic κ(x_i, x): the mean over the points at of Σ_c
// ∇f_c ∇f_cᵀ. The result is d×d, or its diagonal as one row if full is false. The rows of x are the x_i, and the rows
// of alpha their α. The kernel is Gaussian, Laplace or Matérn with any bandwidth and matrix; at a kink its gradient
// counts as 0. The cost is points·n·outputs·d multiply-adds.
//
// With u = Mx/s the gradient is Mᵀ∇_u f/s. For kernels of a distance, ∇_u κ(u, v) = −h(|u−v|)·(u−v), so all gradients
// are two matrix products:
//
//	∇_u f_c(u_j) = Σ_i H_ji α_ic u_i − u_j Σ_i H_ji α_ic,   H_ji = h(|u_j−u_i|)
//
// The Laplace kernel is a product over coordinates and has ∂κ/∂u_l = −sign(u_l−v_l)·κ.
func AGOP[T dense.Float](k kernel.Kernel, x, alpha, at dense.Matrix[T], full bool) (dense.Matrix[float64], error) {
	var none dense.Matrix[float64]
	if err := check(k, x, alpha, at); err != nil {
		return none, err
	}
	g := &gradients[T]{tab: kern.Best[T](), kind: k.Kind, u: embed(k, x), v: embed(k, at), alpha: alpha, full: full}
	g.prepare()
	r := g.u.Cols
	blocks := make([]dense.Matrix[float64], (at.Rows+blockRows-1)/blockRows)
	keep := full || !k.M.IsEmpty() // with a matrix, the diagonal of the result needs all of the sum
	par.For(len(blocks), 1, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			blocks[b] = g.block(b*blockRows, min((b+1)*blockRows, at.Rows), keep)
		}
	})
	sum := blocks[0]
	for _, b := range blocks[1:] {
		for i, v := range b.Data {
			sum.Data[i] += v
		}
	}
	scale := k.Gain() * k.Gain() / float64(at.Rows)
	for i := range sum.Data {
		sum.Data[i] *= scale
	}
	if !k.M.IsEmpty() { // Mᵀ·sum·M
		tab := kern.Best[float64]()
		half, out := dense.New[float64](r, x.Cols), dense.New[float64](x.Cols, x.Cols)
		tab.Product(half, sum, k.M, false)
		tab.TMul(out, k.M, half)
		sum = out
	}
	if !full && keep {
		diagonal := dense.New[float64](1, sum.Rows)
		for i := range sum.Rows {
			diagonal.Data[i] = sum.At(i, i)
		}
		sum = diagonal
	}
	for i := 0; full && i < sum.Rows; i++ { // make it symmetric: both halves are equal except for rounding
		for j := range i {
			v := (sum.At(i, j) + sum.At(j, i)) / 2
			sum.Set(i, j, v)
			sum.Set(j, i, v)
		}
	}
	if err := sum.CheckFinite(); err != nil {
		return none, fmt.Errorf("gradient outer product: %w", err)
	}
	return sum, nil
}

func check[T dense.Float](k kernel.Kernel, x, alpha, at dense.Matrix[T]) error {
	for i, m := range []dense.Matrix[T]{x, alpha, at} {
		if err := kernel.CheckSet([]string{"x", "alpha", "at"}[i], m); err != nil {
			return err
		}
	}
	switch {
	case x.Rows != alpha.Rows || x.Cols != at.Cols:
		return fmt.Errorf("%d×%d rows, %d×%d coefficients, %d×%d points: %w", x.Rows, x.Cols, alpha.Rows, alpha.Cols,
			at.Rows, at.Cols, dense.ErrShape)
	case k.Kind == kernel.Softmax || k.Kind.Signed():
		return fmt.Errorf("gradients of the %v kernel, want Gaussian, Laplace or Matérn: %w", k.Kind, kernel.ErrKernel)
	}
	return k.Validate(x.Cols)
}

// embed is u = Mx/s for every row.
func embed[T dense.Float](k kernel.Kernel, x dense.Matrix[T]) dense.Matrix[T] {
	u := dense.New[T](x.Rows, k.Dim(x.Cols))
	if k.M.IsEmpty() {
		g := T(k.Gain())
		for i := range x.Rows {
			for j, v := range x.Row(i) {
				u.Row(i)[j] = g * v
			}
		}
		return u
	}
	scaled := dense.Convert[T](k.M)
	for i := range scaled.Data {
		scaled.Data[i] *= T(k.Gain())
	}
	Apply(u, x, scaled)
	return u
}

// Apply sets dst = x·mᵀ, the rows of x in the coordinates of the metric m.
func Apply[T dense.Float](dst, x, m dense.Matrix[T]) {
	tab := kern.Best[T]()
	var packed kern.Panel[T]
	tab.Pack(&packed, m)
	par.For(x.Rows, 1+tab.Grain/(m.Rows*m.Cols), func(lo, hi int) {
		tab.MulT(dst.RowRange(lo, hi), x.RowRange(lo, hi), &packed, nil)
	})
}

// gradients computes the gradients ∇_u f_c at the rows of v. It is read-only after prepare, so blocks can run in
// parallel.
type gradients[T dense.Float] struct {
	tab         *kern.Table[T]
	kind        kernel.Kind
	u, v, alpha dense.Matrix[T]
	full        bool
	packed      kern.Panel[T]   // u, packed
	norms       []float64       // |u_i|²
	targets     dense.Matrix[T] // per row i and output c: [α_ic u_i | α_ic], the right-hand sides of the product with H
	columns     dense.Matrix[T] // uᵀ, for the Laplace kernel
}

func (g *gradients[T]) prepare() {
	n, r, outs := g.u.Rows, g.u.Cols, g.alpha.Cols
	if g.kind == kernel.Laplace {
		g.columns = dense.New[T](r, n)
		for i := range n {
			for l, v := range g.u.Row(i) {
				g.columns.Set(l, i, v)
			}
		}
		return
	}
	g.tab.Pack(&g.packed, g.u)
	g.norms = make([]float64, n)
	g.tab.Norms(g.norms, g.u)
	g.targets = dense.New[T](n, outs*(r+1))
	par.For(n, 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := g.targets.Row(i)
			for c, a := range g.alpha.Row(i) {
				to := row[c*(r+1):]
				for l, v := range g.u.Row(i) {
					to[l] = a * v
				}
				to[r] = a
			}
		}
	})
}

// block is the sum of the outer products at the points lo to hi−1, or its diagonal.
func (g *gradients[T]) block(lo, hi int, full bool) dense.Matrix[float64] {
	r, outs := g.u.Cols, g.alpha.Cols
	grads := dense.New[T]((hi-lo)*outs, r)
	if g.kind == kernel.Laplace {
		g.laplace(grads, lo, hi)
	} else {
		g.radial(grads, lo, hi)
	}
	if !full {
		out := dense.New[float64](1, r)
		for i := range grads.Rows {
			for l, v := range grads.Row(i) {
				out.Data[l] += float64(v * v)
			}
		}
		return out
	}
	out := dense.New[T](r, r)
	g.tab.TMul(out, grads, grads)
	return dense.Convert[float64](out)
}

// radial computes the gradients of kernels of a distance, with the two matrix products of AGOP.
func (g *gradients[T]) radial(grads dense.Matrix[T], lo, hi int) {
	r, outs, v := g.u.Cols, g.alpha.Cols, g.v.RowRange(lo, hi)
	h := dense.New[T](v.Rows, g.u.Rows)
	g.tab.MulT(h, v, &g.packed, nil)
	slope := make([]T, g.u.Rows)
	for j := range v.Rows {
		row, norm := h.Row(j), g.tab.Norm2(v.Row(j))
		g.slopes(row, slope, norm)
		g.tab.Exp(row, 0)
		if g.kind != kernel.Gaussian {
			g.tab.Mul(row, slope)
		}
	}
	sums := dense.New[T](v.Rows, g.targets.Cols)
	g.tab.Product(sums, h, g.targets, false)
	for j := range v.Rows {
		for c := range outs {
			from, to := sums.Row(j)[c*(r+1):(c+1)*(r+1)], grads.Row(j*outs+c)
			for l, x := range v.Row(j) {
				to[l] = from[l] - T(x*from[r])
			}
		}
	}
}

// slopes turns inner products with a point of squared norm norm into the exponents of H (row) and the factors before
// them (slope).
func (g *gradients[T]) slopes(row, slope []T, norm float64) {
	// Squared distances below lost·(|u|²+|v|²) are rounding errors of the product form; such pairs count as equal
	// points.
	lost := 0x1p-52
	if _, single := any(slope).([]float32); single {
		lost = 0x1p-23
	}
	for i, p := range row {
		all := norm + g.norms[i]
		sq := max(all-2*float64(p), 0)
		if g.kind == kernel.Gaussian {
			row[i] = T(-sq / 2)
			continue
		}
		dist := math.Sqrt(sq)
		if sq <= lost*all {
			row[i], slope[i] = 0, 0
			continue
		}
		_, a := g.kind.Decay(dist)
		row[i], slope[i] = T(-a), T(g.kind.Slope(dist))
	}
}

// laplace computes the gradients of the product kernel, coordinate by coordinate.
func (g *gradients[T]) laplace(grads dense.Matrix[T], lo, hi int) {
	n, r, outs := g.u.Rows, g.u.Cols, g.alpha.Cols
	k, signed := make([]T, n), dense.New[T](r, n)
	sums := dense.New[T](r, outs)
	column := make([]T, r)
	var one []T
	if outs == 1 {
		one = make([]T, n)
		for i := range one {
			one[i] = g.alpha.At(i, 0)
		}
	}
	for j := lo; j < hi; j++ {
		v := g.v.Row(j)
		g.tab.AbsSums(k, g.columns, v)
		g.tab.Scale(k, -1)
		g.tab.Exp(k, 0)
		for l, a := range v {
			row := signed.Row(l)
			for i, b := range g.columns.Row(l) {
				row[i] = signOf(b-a, k[i])
			}
		}
		if outs == 1 {
			g.tab.MulV(column, signed, one)
			copy(grads.Row(j-lo), column)
			continue
		}
		g.tab.Product(sums, signed, g.alpha, false)
		for c := range outs {
			to := grads.Row((j-lo)*outs + c)
			for l := range to {
				to[l] = sums.At(l, c)
			}
		}
	}
}

// signOf is k with the sign of d, or 0 if d is 0. It has no branch; differences must be 0 or larger than 2⁻¹⁰⁰.
func signOf[T dense.Float](d, k T) T { return k * max(min(d*0x1p100, 1), -1) }

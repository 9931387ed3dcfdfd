package krr

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// Fit is the function f(x) = Σ_i α_i κ(x_i, x) + b for several targets.
type Fit struct {
	Alpha     dense.Matrix[float64] // n×targets
	Intercept []float64
	ones      []float64 // (K + λI)⁻¹·1, for a later start of [Solve]; nil in a fit of [Margins]
}

// side is the number of rows and of columns of a tile: 1 MiB of float32, which stays in the second-level cache between
// the two products that use it, with the tile and with its transpose.
const side = 512

// rows holds rows in the form in which the float32 kernels need them: embedded, centred, and packed by blocks of side
// rows. Centring does not change distances, and inner products lose fewer digits to it.
type rows struct {
	kind    kernel.Kind
	u       dense.Matrix[float32]
	half    []float32 // |u|²/2
	minus   []float32 // −|u|²/2
	panels  []kern.Panel[float32]
	columns []dense.Matrix[float32] // the transpose of each block, for the Laplace kernel, which has no product form
}

func (r *rows) blocks() int { return (r.u.Rows + side - 1) / side }

func (r *rows) span(b int) (lo, hi int) { return b * side, min((b+1)*side, r.u.Rows) }

// frame is common to rows that meet in one kernel: the kernel, the embedded mean, and the embedded columns that can
// change a kernel in float32.
type frame struct {
	k       kernel.Kernel
	centre  []float64
	columns []int
}

// negligible is the largest distance from the mean of an embedded column that is left out. Kernels are functions of
// distances in these units, so even hundreds of such columns change them by less than the rounding of float32. Columns
// of nearly no weight are left out, which saves most of the time of a Laplace kernel.
const negligible = 0x1p-32

// newFrame returns the frame of the rows of x.
func newFrame(k kernel.Kernel, x dense.Matrix[float64]) frame {
	f := frame{k: k, centre: centreOf(k, x)}
	e, most := make([]float64, len(f.centre)), make([]float64, len(f.centre))
	for i := range x.Rows {
		k.Embed(e, x.Row(i))
		for l, v := range e {
			most[l] = max(most[l], math.Abs(v-f.centre[l]))
		}
	}
	for l, v := range most {
		if v > negligible || l == len(most)-1 && len(f.columns) == 0 {
			f.columns = append(f.columns, l)
		}
	}
	return f
}

// embed embeds the rows of x and subtracts the mean of f.
func (f frame) embed(x dense.Matrix[float64]) *rows {
	k := f.k
	r := &rows{kind: k.Kind, u: dense.New[float32](x.Rows, len(f.columns)), half: make([]float32, x.Rows),
		minus: make([]float32, x.Rows)}
	tab := kern.Best[float32]()
	r.panels = make([]kern.Panel[float32], r.blocks())
	if k.Kind == kernel.Laplace {
		r.columns = make([]dense.Matrix[float32], r.blocks())
	}
	par.For(r.blocks(), 1, func(from, to int) {
		e := make([]float64, len(f.centre))
		for b := from; b < to; b++ {
			lo, hi := r.span(b)
			for i := lo; i < hi; i++ {
				k.Embed(e, x.Row(i))
				ui := r.u.Row(i)
				for to, l := range f.columns {
					ui[to] = float32(e[l] - f.centre[l])
				}
				r.half[i] = float32(tab.Norm2(ui) / 2)
				r.minus[i] = -r.half[i]
			}
			if k.Kind != kernel.Laplace {
				tab.Pack(&r.panels[b], r.u.RowRange(lo, hi))
				continue
			}
			c := dense.New[float32](r.u.Cols, hi-lo)
			for i := lo; i < hi; i++ {
				for l, v := range r.u.Row(i) {
					c.Set(l, i-lo, v)
				}
			}
			r.columns[b] = c
		}
	})
	return r
}

// centreOf returns the embedded mean of the rows of x. Embed is linear, so this is the mean of the embedded rows.
func centreOf(k kernel.Kernel, x dense.Matrix[float64]) []float64 {
	mean := make([]float64, x.Cols)
	for i := range x.Rows {
		for l, v := range x.Row(i) {
			mean[l] += v
		}
	}
	for l := range mean {
		mean[l] /= float64(x.Rows)
	}
	return k.Embed(make([]float64, k.Dim(x.Cols)), mean)
}

// block writes the kernels between rows lo to hi−1 of a and block b of z to dst. Gaussian: exp(⟨u,v⟩ − |u|²/2 − |v|²/2)
// in one fused product. Laplace: sums of absolute differences. Matérn: distances from the same product form, then the
// polynomial times the exponential.
func block(dst dense.Matrix[float32], a *rows, lo, hi int, z *rows, b int) {
	tab := kern.Best[float32]()
	u := a.u.RowRange(lo, hi)
	from, to := z.span(b)
	switch a.kind {
	case kernel.Gaussian:
		tab.MulTExp(dst, u, &z.panels[b], z.minus[from:to], a.half[lo:hi])
		return
	case kernel.Laplace:
		for i := range u.Rows {
			row := dst.Row(i)
			tab.AbsSums(row, z.columns[b], u.Row(i))
			tab.Scale(row, -1)
			tab.Exp(row, 0)
		}
		return
	}
	tab.MulT(dst, u, &z.panels[b], z.minus[from:to])
	var value [side]float32
	root := float32(math.Sqrt(float64(a.kind.Matern())))
	for i := range u.Rows {
		row, h := dst.Row(i), a.half[lo+i]
		values := value[:len(row)]
		for j, d := range row {
			half := h - d // half the squared distance
			if half < cancels*(h+z.half[from+j]) {
				half = halfSquare(u.Row(i), z.u.Row(from+j))
			}
			e := root * float32(math.Sqrt(float64(2*half)))
			row[j] = -e
			switch a.kind {
			case kernel.Matern12:
				values[j] = 1
			case kernel.Matern32:
				values[j] = 1 + e
			default:
				values[j] = 1 + e + e*e/3
			}
		}
		tab.Exp(row, 0)
		tab.Mul(row, values)
	}
}

// cancels is the fraction of |u|²+|v|² below which a squared distance is computed from the difference: the product form
// has lost most of its digits there, and the square root in Matérn kernels would magnify the error.
const cancels = 1e-3

func halfSquare(u, v []float32) float32 {
	var s float32
	for l, a := range u {
		d := a - v[l]
		s += d * d
	}
	return s / 2
}

// Kernels is the kernel matrix K of a set of rows, in tiles of side×side that are stored or recomputed. Only tiles on
// one side of the diagonal exist, since K is symmetric. It refers to x. Methods run on all processors; do not call them
// concurrently, because the first [Kernels.Product] stores the tiles.
type Kernels struct {
	k     kernel.Kernel
	x     dense.Matrix[float64]
	f     frame
	r     *rows
	tiles [][]float32 // the stored tiles, by their number in Product; the later ones are recomputed
	full  bool        // a product has filled tiles
}

// NewKernels prepares the kernel matrix of the rows of x, computing no tile yet. The kernel must have κ(x, x) = 1: the
// others are errors that wrap [kernel.ErrKernel]. At most hold bytes of tiles stay in memory; the others are recomputed
// in every product.
func NewKernels(k kernel.Kernel, x dense.Matrix[float64], hold int64) (*Kernels, error) {
	if err := k.Validate(x.Cols); err != nil {
		return nil, err
	}
	if k.Kind == kernel.Softmax || k.Kind.Signed() {
		return nil, fmt.Errorf("kernels %v by tiles: %w", k.Kind, kernel.ErrKernel)
	}
	s := &Kernels{k: k, x: x, f: newFrame(k, x)}
	s.r = s.f.embed(x)
	n := s.r.blocks()
	s.tiles = make([][]float32, min(int64(n*(n+1)/2), max(0, hold/(4*side*side))))
	return s, nil
}

// Bytes returns the memory of the stored tiles and of the embedded rows.
func (s *Kernels) Bytes() int64 {
	return 4*int64(len(s.tiles))*side*side + 8*int64(len(s.r.u.Data))
}

// tile returns the kernels of rows of block i with rows of block j. The tile is number at of a product: it has memory
// of its own if it is to be stored, and uses scratch otherwise. Each number is asked for once per product, so
// goroutines of one product do not compete for a tile.
func (s *Kernels) tile(at, i, j int, scratch *[]float32) dense.Matrix[float32] {
	lo, hi := s.r.span(i)
	from, to := s.r.span(j)
	n := (hi - lo) * (to - from)
	t := dense.Matrix[float32]{Rows: hi - lo, Cols: to - from, Stride: to - from}
	switch {
	case at < len(s.tiles) && s.full:
		t.Data = s.tiles[at]
		return t
	case at < len(s.tiles):
		s.tiles[at] = make([]float32, n)
		t.Data = s.tiles[at]
	default:
		if cap(*scratch) < n {
			*scratch = make([]float32, side*side)
		}
		t.Data = (*scratch)[:n]
	}
	block(t, s.r, lo, hi, s.r, j)
	if i == j {
		for d := range t.Rows { // κ(x, x) is 1; block rounds it
			t.Row(d)[d] = 1
		}
	}
	return t
}

// fewColumns is the number of columns up to which Product computes vᵀT instead of Tᵀv for a tile T, with the same bits:
// the rows of T fill whole vectors. 18 columns take 0.84 of the time, 32 columns 1.07 of it.
const fewColumns = 24

// Product sets dst = K·v. Kernels, v and the products of tiles are in float32; the sums over tiles are in float64.
//
// The tiles (i, i+d mod n) of one d have disjoint rows and disjoint columns. Each tile adds its product to the rows i
// of dst, and the product of its transpose to the rows i+d of a second matrix. So goroutines share no memory, and the
// order of every sum is fixed: by d.
func (s *Kernels) Product(dst, v dense.Matrix[float64]) {
	n := s.r.blocks()
	narrow := dense.New[float32](v.Rows, v.Cols)
	for i := range v.Rows {
		to := narrow.Row(i)
		for c, a := range v.Row(i) {
			to[c] = float32(a)
		}
	}
	clear(dst.Data)
	other := dense.New[float64](v.Rows, v.Cols)
	tab := kern.Best[float32]()
	first := 0 // number of the first tile with this d
	for d := 0; d <= n/2; d++ {
		count := n
		if d > 0 && 2*d == n {
			count = n / 2 // (i, i+d) and (i+d, i) are one tile
		}
		par.For(count, 1, func(from, to int) {
			var scratch []float32
			out := dense.New[float32](side, v.Cols)
			var turned dense.Matrix[float32] // the product of a tile's transpose, itself transposed
			if v.Cols <= fewColumns {
				turned = dense.New[float32](v.Cols, side)
			}
			for i := from; i < to; i++ {
				j := (i + d) % n
				t := s.tile(first+i, i, j, &scratch)
				lo, hi := s.r.span(i)
				jLo, jHi := s.r.span(j)
				part := out.RowRange(0, hi-lo)
				tab.Product(part, t, narrow.RowRange(jLo, jHi), false)
				addWide(dst.RowRange(lo, hi), part)
				switch {
				case d > 0 && v.Cols <= fewColumns:
					part = turned.ColRange(0, jHi-jLo)
					clear(turned.Data)
					tab.TMul(part, narrow.RowRange(lo, hi), t)
					addTurned(other.RowRange(jLo, jHi), part)
				case d > 0:
					part = out.RowRange(0, jHi-jLo)
					clear(part.Data)
					tab.TMul(part, t, narrow.RowRange(lo, hi))
					addWide(other.RowRange(jLo, jHi), part)
				}
			}
		})
		first += count
	}
	s.full = true
	for i, a := range other.Data {
		dst.Data[i] += a
	}
}

// addWide adds a to dst.
func addWide(dst dense.Matrix[float64], a dense.Matrix[float32]) {
	for i := range a.Rows {
		di := dst.Row(i)
		for c, v := range a.Row(i) {
			di[c] += float64(v)
		}
	}
}

// addTurned adds the transpose of a to dst.
func addTurned(dst dense.Matrix[float64], a dense.Matrix[float32]) {
	for c := range a.Rows {
		for i, v := range a.Row(c) {
			dst.Row(i)[c] += float64(v)
		}
	}
}

// Exact sets dst = K·v in float64, recomputing every kernel.
func (s *Kernels) Exact(dst, v dense.Matrix[float64]) error {
	tab := kern.Best[float64]()
	return kernel.EachBlock(s.k, s.x, s.x, func(first int, b dense.Matrix[float64]) error {
		par.For(b.Rows, 16, func(lo, hi int) {
			tab.Product(dst.RowRange(first+lo, first+hi), b.RowRange(lo, hi), v, false)
		})
		return nil
	})
}

// Predict sets dst = K(z, x)α + b for the rows of z, in float32 except for the sums over blocks. Each row is summed in
// the order of the blocks, whatever the number of goroutines.
func (s *Kernels) Predict(dst, z dense.Matrix[float64], f *Fit) {
	tab := kern.Best[float32]()
	narrow := dense.New[float32](f.Alpha.Rows, f.Alpha.Cols)
	for i := range narrow.Rows {
		to := narrow.Row(i)
		for c, a := range f.Alpha.Row(i) {
			to[c] = float32(a)
		}
	}
	a := s.f.embed(z)
	const rows = 64
	par.For((z.Rows+rows-1)/rows, 1, func(from, to int) {
		k, out := dense.New[float32](rows, side), dense.New[float32](rows, f.Alpha.Cols)
		for p := from; p < to; p++ {
			lo, hi := p*rows, min((p+1)*rows, z.Rows)
			for i := lo; i < hi; i++ {
				copy(dst.Row(i), f.Intercept)
			}
			for b := range s.r.blocks() {
				first, end := s.r.span(b)
				kb, part := k.RowRange(0, hi-lo).ColRange(0, end-first), out.RowRange(0, hi-lo)
				block(kb, a, lo, hi, s.r, b)
				tab.Product(part, kb, narrow.RowRange(first, end), false)
				addWide(dst.RowRange(lo, hi), part)
			}
		}
	})
}

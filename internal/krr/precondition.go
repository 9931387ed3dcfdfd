package krr

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
)

// Sketch is a landmark approximation of a kernel matrix: K ≈ FFᵀ + diag(left) with F = K_nm R⁻¹ and K_mm = RᵀR. It does
// not depend on λ. It needs 4nm bytes. It is read-only after [NewSketch].
type Sketch struct {
	f    dense.Matrix[float32]
	left []float64 // 1 − |F_i|²: the part of the diagonal that FFᵀ misses
}

const (
	sketchLabel = 0x6b7272 // "krr"
	// Landmarks are drawn from a pool of pivotRows rows per landmark, by randomly pivoted Cholesky.
	pivotRows = 4
	// One goroutine sums blockRows rows of F, converted to float64 in pieces of widened rows. Both are constants, so
	// the order of the sums does not depend on the number of goroutines.
	blockRows, widened = 1024, 64
	// F is computed in stripes of columns: R⁻¹ is triangular, and a stripe skips the rows below its triangle.
	stripe = 256
)

// NewSketch draws at most m landmarks and computes F. There are fewer than m landmarks if the rows have a lower
// numerical rank.
func NewSketch(s *Kernels, m int, seed uint64) (*Sketch, error) {
	n := s.x.Rows
	take := min(n, pivotRows*m)
	pool := dense.New[float64](take, s.x.Cols)
	for i := range take { // evenly spaced rows from a random start
		at := (int(rng.Mix64(seed^sketchLabel)%uint64(n)) + i*n/take) % n
		copy(pool.Row(i), s.x.Row(at))
	}
	pivots, err := Pivots(s.k, pool, m, seed)
	if err != nil {
		return nil, err
	}
	z := dense.New[float64](len(pivots), s.x.Cols)
	for i, p := range pivots {
		copy(z.Row(i), pool.Row(p))
	}
	m = z.Rows
	root, err := Root(s.k, z, 0)
	if err != nil {
		return nil, err
	}
	inverse := dense.New[float64](m, m)
	if err := linalg.Inverse(inverse, root); err != nil {
		return nil, err
	}
	tab := kern.Best[float32]()
	panels := make([]kern.Panel[float32], (m+stripe-1)/stripe)
	par.For(len(panels), 1, func(from, to int) {
		for p := from; p < to; p++ {
			end := min((p+1)*stripe, m)
			w := dense.New[float32](end, end-p*stripe)
			for i := range end {
				for j, v := range inverse.Row(i)[p*stripe : end] {
					if p*stripe+j >= i { // the upper triangle
						w.Set(i, j, float32(v))
					}
				}
			}
			tab.PackT(&panels[p], w)
		}
	})
	marks := s.f.embed(z)
	out := &Sketch{f: dense.New[float32](n, m), left: make([]float64, n)}
	par.For((n+side-1)/side, 1, func(from, to int) {
		k := dense.New[float32](side, m)
		for b := from; b < to; b++ {
			lo, hi := b*side, min((b+1)*side, n)
			kb := k.RowRange(0, hi-lo)
			for c := range marks.blocks() {
				first, end := marks.span(c)
				block(kb.ColRange(first, end), s.r, lo, hi, marks, c)
			}
			for p := range panels {
				first, end := p*stripe, min((p+1)*stripe, m)
				tab.MulT(out.f.RowRange(lo, hi).ColRange(first, end), kb.ColRange(0, end), &panels[p], nil)
			}
			for i := lo; i < hi; i++ {
				out.left[i] = max(0, 1-tab.Norm2(out.f.Row(i)))
			}
		}
	})
	return out, nil
}

// Landmarks returns the number of landmarks.
func (s *Sketch) Landmarks() int { return s.f.Cols }

// Bytes returns the memory of the sketch and of one preconditioner.
func (s *Sketch) Bytes() int64 { return 4*int64(len(s.f.Data)) + 12*int64(s.f.Cols)*int64(s.f.Cols) }

// preconditioner applies P⁻¹ for P = D + FFᵀ with D = diag(left) + λI. P equals K + λI on the diagonal and approximates
// it elsewhere (the FITC approximation, Snelson & Ghahramani 2006; as a preconditioner: Cutajar et al. 2016,
// arXiv:1602.06693). By the Woodbury identity, P⁻¹ = D⁻¹ − D⁻¹F(I + FᵀD⁻¹F)⁻¹FᵀD⁻¹.
type preconditioner struct {
	s *Sketch
	d []float64             // the diagonal of D⁻¹
	u dense.Matrix[float64] // upper triangle with UᵀU = I + FᵀD⁻¹F
}

// least is the smallest entry of D. The scale is κ(x, x) = 1; below least, the rounding of F in float32 would dominate.
const least = 1e-4

// with returns the preconditioner for λ. It costs O(nm²) for the Gram matrix and O(m³) for its factor, without any
// kernels.
func (s *Sketch) with(lambda float64) (*preconditioner, error) {
	n, m := s.f.Rows, s.f.Cols
	p := &preconditioner{s: s, d: make([]float64, n), u: dense.New[float64](m, m)}
	for i, v := range s.left {
		p.d[i] = 1 / max(v+lambda, least)
	}
	var (
		gram   linalg.Gram[float64]
		tab    = kern.Best[float64]()
		scaled = dense.New[float64](blockRows, m)
	)
	for lo := 0; lo < n; lo += blockRows {
		hi := min(lo+blockRows, n)
		part := scaled.RowRange(0, hi-lo)
		par.For(hi-lo, 64, func(from, to int) {
			for i := from; i < to; i++ {
				s.widen(part.Row(i), lo+i, math.Sqrt(p.d[lo+i]))
			}
		})
		gram.Add(tab, p.u, part)
	}
	for i := range m {
		p.u.Row(i)[i]++
	}
	return p, linalg.Cholesky(p.u)
}

// widen sets dst to f times row i of F, in float64.
func (s *Sketch) widen(dst []float64, i int, f float64) {
	clear(dst)
	kern.Best[float32]().Widen(dst, s.f.Row(i), f)
}

// apply sets z = P⁻¹·r, column by column. z and r must not overlap. It computes in float64: in the directions of large
// eigenvalues the result is a small difference of large numbers, and with the rounding of float32 P⁻¹ would not be
// positive definite (TestPreconditionerIsAnInverse).
func (p *preconditioner) apply(z, r dense.Matrix[float64]) error {
	n, m, cols := r.Rows, p.u.Rows, r.Cols
	tab := kern.Best[float64]()
	blocks := (n + blockRows - 1) / blockRows
	parts := make([]dense.Matrix[float64], blocks)
	// each passes block b of F to work, in pieces of rows lo to hi−1 as float64.
	each := func(b int, work func(lo, hi int, f dense.Matrix[float64])) {
		wide := dense.New[float64](widened, m)
		for lo := b * blockRows; lo < min((b+1)*blockRows, n); lo += widened {
			hi := min(lo+widened, (b+1)*blockRows, n)
			for i := lo; i < hi; i++ {
				p.s.widen(wide.Row(i-lo), i, 1)
			}
			work(lo, hi, wide.RowRange(0, hi-lo))
		}
	}
	par.For(blocks, 1, func(from, to int) {
		v := dense.New[float64](widened, cols)
		for b := from; b < to; b++ {
			parts[b] = dense.New[float64](m, cols)
			each(b, func(lo, hi int, f dense.Matrix[float64]) {
				for i := lo; i < hi; i++ {
					for c, a := range r.Row(i) {
						v.Row(i - lo)[c] = a * p.d[i]
					}
				}
				tab.TMul(parts[b], f, v.RowRange(0, hi-lo))
			})
		}
	})
	t := parts[0]
	for _, part := range parts[1:] {
		for i, a := range part.Data {
			t.Data[i] += a
		}
	}
	if err := errors.Join(linalg.SolveT(p.u, t), linalg.Solve(p.u, t)); err != nil {
		return err
	}
	par.For(blocks, 1, func(from, to int) {
		v := dense.New[float64](widened, cols)
		for b := from; b < to; b++ {
			each(b, func(lo, hi int, f dense.Matrix[float64]) {
				tab.Product(v.RowRange(0, hi-lo), f, t, false)
				for i := lo; i < hi; i++ {
					zi, vi := z.Row(i), v.Row(i-lo)
					for c, a := range r.Row(i) {
						zi[c] = (a - vi[c]) * p.d[i]
					}
				}
			})
		}
	})
	return nil
}

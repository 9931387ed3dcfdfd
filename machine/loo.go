package machine

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
)

// LeaveOneOut predicts each row by the ridge fit of all other rows, in closed form: y_i − ŷ_i^{(−i)} = (y_i − ŷ_i)/(1 −
// h_i). The leverage is h_i = 1/n + (φ_i−μ)ᵀ(C+λI)⁻¹(φ_i−μ), times the weight of the row (Golub, Heath & Wahba 1979).
// rows must be the rows that were added. visit, which may be nil, gets the targets (one column per output, 0 or 1 for
// classes) and the predictions. The result is the mean squared error of every output. It takes n·F² multiply-adds.
func (r *Ridge) LeaveOneOut(rows Rows, lambda float64, visit func(first int64, y,
	loo dense.Matrix[float64]) error) ([]float64, error) {
	if err := r.setup.checkRows(rows); err != nil {
		return nil, err
	}
	l, err := r.leaving(lambda)
	if err != nil {
		return nil, err
	}
	first, mse := int64(0), make([]float64, r.setup.Outputs)
	err = rows.Each(r.setup.Block, func(x, yRaw dense.Matrix[float64]) error {
		if err := l.predict(x, yRaw, first); err != nil {
			return err
		}
		for i := range x.Rows {
			weight := r.setup.weight(yRaw, i)
			for k, v := range l.out.Row(i) {
				e := l.y.At(i, k) - v
				mse[k] += float64(weight * float64(e*e))
			}
		}
		if visit != nil {
			if err := visit(first, l.y.ColRange(0, r.setup.Outputs), l.out); err != nil {
				return err
			}
		}
		first += int64(x.Rows)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if first != r.sums.N {
		return nil, fmt.Errorf("%d rows, the fit has %d: leave-one-out needs the same rows: %w", first, r.sums.N, ErrMismatch)
	}
	for k := range mse {
		mse[k] /= r.sums.Weight
	}
	return mse, nil
}

// LeftOut predicts rows x with targets y, each by the ridge fit of all other rows. x and y must be some of the rows
// that were added. spread_i is the variance of prediction i in units of the noise: a new observation has variance
// noise·(1 + spread_i). It takes F² multiply-adds per row.
func (r *Ridge) LeftOut(x, y dense.Matrix[float64], lambda float64) (pred dense.Matrix[float64], spread []float64,
	err error) {
	l, err := r.leaving(lambda)
	if err != nil {
		return pred, nil, err
	}
	pred = dense.New[float64](x.Rows, r.setup.Outputs)
	for lo := 0; lo < x.Rows; lo += r.setup.Block {
		hi := min(lo+r.setup.Block, x.Rows)
		if err := l.predict(x.RowRange(lo, hi), y.RowRange(lo, hi), int64(lo)); err != nil {
			return pred, nil, err
		}
		for i := lo; i < hi; i++ {
			copy(pred.Row(i), l.out.Row(i-lo))
			h := 1/r.sums.Weight + l.h[i-lo]
			spread = append(spread, h/(1-r.setup.weight(y, i)*h))
		}
	}
	return pred, spread, nil
}

// leaver predicts rows of a ridge fit, each without itself. Its matrices hold the last block.
type leaver struct {
	r             *Ridge
	s             *linalg.Solution
	inverse       dense.Matrix[float64] // U⁻¹ of the solution
	wide, centred dense.Matrix[float64]
	y, out        dense.Matrix[float64]
	h             []float64 // leverages without 1/n
}

// leaving factors the normal equations for λ and inverts the factor.
func (r *Ridge) leaving(lambda float64) (*leaver, error) {
	if r.sums.N < 2 {
		return nil, fmt.Errorf("%d rows, leaving one out needs at least 2: %w", r.sums.N, ErrNoRows)
	}
	s, err := r.solve(lambda, dense.Matrix[float64]{})
	if err != nil {
		return nil, err
	}
	l := &leaver{r: r, s: s, inverse: dense.New[float64](r.features, r.features)}
	return l, linalg.Inverse(l.inverse, s.U)
}

// predict sets y, out and h for a block of rows. first is the number of its first row, for errors.
func (l *leaver) predict(x, yRaw dense.Matrix[float64], first int64) error {
	r, n := l.r, x.Rows
	if err := r.setup.checkBlock(x, yRaw, first); err != nil {
		return err
	}
	phi, err := r.features64(x, &l.wide)
	if err != nil {
		return err
	}
	l.y = buf.Shaped(l.y, n, r.setup.Outputs+1)
	r.setup.targets(l.y, yRaw)
	l.centred, l.out = buf.Shaped(l.centred, n, r.features), buf.Shaped(l.out, n, r.setup.Outputs)
	l.h = buf.Sized(l.h, n)
	tab := kern.Best[float64]()
	par.For(n, 16, func(lo, hi int) {
		var z []float64
		for i := lo; i < hi; i++ {
			c := l.centred.Row(i)
			for j, v := range phi.Row(i) {
				c[j] = v - l.s.Mu[j]
			}
		}
		leverages(tab, l.h[lo:hi], l.centred.RowRange(lo, hi), l.inverse, &z)
		tab.Product(l.out.RowRange(lo, hi), l.centred.RowRange(lo, hi), l.s.W, false)
	})
	for i := range n {
		p := l.out.Row(i)
		weight := r.setup.weight(yRaw, i)
		for k, v := range l.y.Row(i)[:len(p)] {
			// l.s.Mean is the intercept of centred features.
			p[k] = v - (v-p[k]-l.s.Mean[k])/(1-weight*(1/r.sums.Weight+l.h[i]))
		}
	}
	return nil
}

// features64 returns the features of x in float64; wide is the memory for them if the map computes in float32.
func (r *Ridge) features64(x dense.Matrix[float64], wide *dense.Matrix[float64]) (dense.Matrix[float64], error) {
	if !r.setup.Float32 {
		return r.f64.queries(x)
	}
	phi, err := r.f32.queries(x)
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	*wide = buf.Shaped(*wide, x.Rows, r.features)
	convert(*wide, phi)
	return *wide, nil
}

// leverageCols is the number of columns of the triangle multiplied at a time.
const leverageCols = 128

// leverages sets h_i = |wᵀφ_i|² for the upper triangular w. The bits of a row do not depend on the other rows.
func leverages[T dense.Float](tab *kern.Table[T], h []float64, phi, w dense.Matrix[T], scratch *[]T) {
	clear(h)
	*scratch = buf.Sized(*scratch, phi.Rows*leverageCols)
	for j := 0; j < w.Cols; j += leverageCols {
		end := min(j+leverageCols, w.Cols)
		z := dense.Matrix[T]{Rows: phi.Rows, Cols: end - j, Stride: end - j, Data: (*scratch)[:phi.Rows*(end-j)]}
		tab.Product(z, phi.ColRange(0, end), w.RowRange(0, end).ColRange(j, end), false)
		for i := range h {
			h[i] += tab.Norm2(z.Row(i))
		}
	}
}

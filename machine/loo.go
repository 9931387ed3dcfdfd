package machine

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
)

// LeaveOneOut predicts every row by the ridge of all others, in closed form: y_i − ŷ_i^{(−i)} = (y_i − ŷ_i)/(1 − h_i)
// with the leverage h_i = 1/n + (φ_i−μ)ᵀ(C+λI)⁻¹(φ_i−μ), times the weight of the row (Golub, Heath & Wahba 1979). rows
// must be those that were added. visit gets the targets, one column per output, 0 or 1 for classes, and the
// predictions; nil is allowed. The result is the mean squared error of every output. It takes n·F² multiply-adds.
func (r *Ridge) LeaveOneOut(rows Rows, lambda float64, visit func(first int64, y,
	loo dense.Matrix[float64]) error) ([]float64, error) {
	if err := r.setup.checkRows(rows); err != nil {
		return nil, err
	}
	if r.sums.N < 2 {
		return nil, fmt.Errorf("%d rows, leaving one out needs at least 2: %w", r.sums.N, ErrNoRows)
	}
	s, err := r.solve(lambda, dense.Matrix[float64]{})
	if err != nil {
		return nil, err
	}
	inverse := dense.New[float64](r.features, r.features)
	if err := linalg.Inverse(inverse, s.U); err != nil {
		return nil, err
	}
	tab := kern.Best[float64]()
	var (
		first         int64
		wide, centred dense.Matrix[float64]
		y, out        dense.Matrix[float64]
		h             []float64
		intercept     = s.Mean // of centred features
		mse           = make([]float64, r.setup.Outputs)
	)
	err = rows.Each(r.setup.Block, func(x, yRaw dense.Matrix[float64]) error {
		if err := r.setup.checkBlock(x, yRaw, first); err != nil {
			return err
		}
		phi, err := r.features64(x, &wide)
		if err != nil {
			return err
		}
		n := x.Rows
		y = buf.Shaped(y, n, r.setup.Outputs+1)
		r.setup.targets(y, yRaw)
		centred, out = buf.Shaped(centred, n, r.features), buf.Shaped(out, n, r.setup.Outputs)
		h = buf.Sized(h, n)
		par.For(n, 16, func(lo, hi int) {
			var z []float64
			for i := lo; i < hi; i++ {
				c := centred.Row(i)
				for j, v := range phi.Row(i) {
					c[j] = v - s.Mu[j]
				}
			}
			leverages(tab, h[lo:hi], centred.RowRange(lo, hi), inverse, &z)
			tab.Product(out.RowRange(lo, hi), centred.RowRange(lo, hi), s.W, false)
		})
		for i := range n {
			p := out.Row(i)
			weight := r.setup.weight(yRaw, i)
			for k, v := range y.Row(i)[:len(p)] {
				e := (v - p[k] - intercept[k]) / (1 - weight*(1/r.sums.Weight+h[i]))
				p[k] = v - e
				mse[k] += float64(weight * float64(e*e))
			}
		}
		if visit != nil {
			if err := visit(first, y.ColRange(0, r.setup.Outputs), out); err != nil {
				return err
			}
		}
		first += int64(n)
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

// features64 is the features of x in float64, in wide where they are computed in float32.
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

// leverageCols columns of the triangle are multiplied at a time.
const leverageCols = 128

// leverages sets h_i = |wᵀφ_i|² for the upper triangular w. The bits of a row do not depend on the others.
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

package decoder

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/internal/nn"
)

// logSoftmax returns log p of the next token for every weightEvery-th row of x, the output of the last layer.
func (s *Session) logSoftmax(x nn.Matrix) nn.Matrix {
	w, c, t := s.work, &s.model.config, s.model.kernels.Table
	n := (x.Rows + weightEvery - 1) / weightEvery
	h, out := dense.New[float32](n, c.Hidden), dense.New[float32](n, c.Vocab)
	for i := range n {
		w.k.Model.RMSNorm(h.Row(i), x.Row(i*weightEvery), s.model.norm, w.eps)
	}
	w.mul.Do(w.k, out, h, s.model.output)
	nn.Rows(n, 1, func(lo, hi int) {
		row := make([]float32, c.Vocab)
		for i := lo; i < hi; i++ {
			copy(row, out.Row(i))
			top := t.Max(row)
			shift := top + float32(math.Log(float64(t.ExpSum(row, top))))
			for j := range row {
				out.Row(i)[j] -= shift
			}
		}
	})
	return out
}

// divergence returns the mean of KL(p‖q) over rows of log-probabilities. Terms with p < e⁻²⁵ are left out.
func divergence(p, q nn.Matrix) float64 {
	sums := make([]float64, p.Rows)
	nn.Rows(p.Rows, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for j, x := range p.Row(i) {
				if x > -25 {
					sums[i] += math.Exp(float64(x)) * float64(x-q.Row(i)[j])
				}
			}
		}
	})
	var mean float64
	for _, x := range sums {
		mean += x / float64(p.Rows)
	}
	return max(0, mean)
}

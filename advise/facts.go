package advise

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// factRows bounds the rows that facts are computed from.
const factRows = 4096

// facts describes the rows: lengths, spectra, and the distribution of the kernel. The explanations use it.
func (s *study) facts(q, k dense.Matrix[float64]) (Facts, error) {
	var f Facts
	var err error
	if f.Query, err = s.side(q); err != nil {
		return f, err
	}
	if f.Key = f.Query; !s.oneSet {
		if f.Key, err = s.side(k); err != nil {
			return f, err
		}
	}
	var logs []float64
	for _, fold := range s.folds {
		for i, l := range fold.logKernel.Data {
			if fold.meets(i) {
				logs = append(logs, l)
			}
		}
		u, v := embed(s.Kernel, fold.x), embed(s.Kernel, fold.y)
		n := min(u.Rows, v.Rows)
		for i := range n {
			var sum, diff float64
			for c, a := range u.Row(i) {
				b := v.At((i+1)%v.Rows, c)
				sum += (a + b) * (a + b)
				diff += (a - b) * (a - b)
			}
			f.Sum2 += sum / float64(n*len(s.folds))
			f.Diff2 += diff / float64(n*len(s.folds))
		}
	}
	f.Sum2, f.Diff2 = finite(f.Sum2), finite(f.Diff2)
	slices.Sort(logs)
	for i, p := range []float64{0.05, 0.5, 0.95} {
		f.LogKernel[i] = finite(logs[int(p*float64(len(logs)-1))])
	}
	return f, nil
}

// embed applies the kernel's matrix and bandwidth to rows.
func embed(k kernel.Kernel, x dense.Matrix[float64]) dense.Matrix[float64] {
	out := dense.New[float64](x.Rows, k.Dim(x.Cols))
	for i := range x.Rows {
		k.Embed(out.Row(i), x.Row(i))
	}
	return out
}

// side describes one set of rows.
func (s *study) side(x dense.Matrix[float64]) (Side, error) {
	out := Side{Rows: x.Rows, NoNeg: true}
	step := max(1, x.Rows/factRows)
	n := 0
	d := s.Kernel.Dim(x.Cols)
	mean, cov := make([]float64, d), mat.NewSymDense(d, nil)
	var norms []float64
	row := make([]float64, d)
	for i := 0; i < x.Rows; i += step {
		s.Kernel.Embed(row, x.Row(i))
		for c, v := range row {
			mean[c] += v
			out.NoNeg = out.NoNeg && v >= 0
		}
		norms = append(norms, dense.Norm2(row))
		cov.SymRankOne(cov, 1, mat.NewVecDense(d, row))
		n++
	}
	var square float64
	for _, v := range norms {
		square += v / float64(n)
	}
	slices.Sort(norms)
	for c := range mean {
		mean[c] /= float64(n)
	}
	cov.ScaleSym(1/float64(n), cov)
	cov.SymRankOne(cov, -1, mat.NewVecDense(d, mean))
	out.Norm = finite(math.Sqrt(square))
	if mid := norms[len(norms)/2]; mid > 0 {
		out.Far = finite(norms[len(norms)-1] / mid)
	}
	if square > 0 {
		out.Mean = min(1, finite(dense.Norm2(mean)/square))
	}
	var eig mat.EigenSym
	if eig.Factorize(cov, false) {
		out.Spectrum = eig.Values(nil)
	} else { // the diagonal is better than nothing
		for i := range d {
			out.Spectrum = append(out.Spectrum, cov.At(i, i))
		}
	}
	slices.Sort(out.Spectrum)
	slices.Reverse(out.Spectrum)
	var total, squares, sum float64
	for i, v := range out.Spectrum {
		v = finite(max(v, 0))
		out.Spectrum[i] = v
		total += v
		squares += v * v
	}
	for _, v := range out.Spectrum {
		if sum >= 0.8*total {
			break
		}
		sum += v
		out.In80++
	}
	if squares > 0 {
		out.Rank = finite(total * total / squares)
	}
	return out, nil
}

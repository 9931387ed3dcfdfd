package advise

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Facts describe the rows after the embedding of the kernel (bandwidth, matrix).
type Facts struct {
	Query Side `json:"query"`
	Key   Side `json:"key"`
	// Log kernel values over pairs: 5 %, 50 % and 95 % quantiles.
	LogKernel [3]float64 `json:"log_kernel"`
	Sum2      float64    `json:"sum2"`  // mean of |x+y|², which positive features suffer from
	Diff2     float64    `json:"diff2"` // mean of |x−y|², which trigonometric ones suffer from
}

// Side describes queries or keys.
type Side struct {
	Rows  int     `json:"rows"`
	Norm  float64 `json:"norm"`   // root mean square length
	Far   float64 `json:"far"`    // the largest squared length over the median
	Mean  float64 `json:"mean"`   // share of the mean in the squared lengths
	In80  int     `json:"in80"`   // directions that hold 80 % of the variance
	Rank  float64 `json:"rank"`   // effective rank, (Σλ)²/Σλ²
	NoNeg bool    `json:"no_neg"` // no entry is negative
	// Spectrum is the eigenvalues of the covariance, largest first.
	Spectrum []float64 `json:"spectrum"`
}

// factRows bounds the rows that facts are taken from.
const factRows = 4096

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

func embed(k kernel.Kernel, x dense.Matrix[float64]) dense.Matrix[float64] {
	out := dense.New[float64](x.Rows, k.Dim(x.Cols))
	for i := range x.Rows {
		k.Embed(out.Row(i), x.Row(i))
	}
	return out
}

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

package linalg

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Normal holds the sums over n rows with F features φ and K targets y that least squares with a penalty and a free
// intercept b needs. The fit minimises Σ|y − φ·w − b|² + λ|w|². With the means μ and ȳ and C = Σ(φ−μ)(φ−μ)ᵀ it solves
// (C + λI) w = Σ(φ−μ)(y−ȳ), b = ȳ − μ·w (Hastie, Tibshirani & Friedman, The Elements of Statistical Learning, §3.4.1).
// Sums of parts add up, and cross-validation subtracts a part again.
//
// A row of weight v enters as √v·φ and √v·y, with √v in place of the 1 that belongs to b. N still counts rows; all
// other sums and means are then weighted.
type Normal struct {
	N       int64
	Weight  float64               // Σv: N without weights
	Gram    dense.Matrix[float64] // F×F: ΦᵀΦ, upper triangle
	Cross   dense.Matrix[float64] // F×(K+1): ΦᵀY and, last, Σφ
	Sum     []float64             // Σy
	Squares []float64             // Σy²

	// Part, if not empty, is the upper triangle of the products of the last PartRows rows, which have not been added to
	// Gram yet. Summing in float32 for at most FlushRows rows bounds the rounding error.
	Part     dense.Matrix[float32]
	PartRows int
}

// Reset removes all rows and sets the sizes, reusing memory.
func (n *Normal) Reset(features, outputs int) {
	n.N, n.Weight, n.PartRows = 0, 0, 0
	n.Gram, n.Cross = zeroed(n.Gram, features, features), zeroed(n.Cross, features, outputs+1)
	n.Sum, n.Squares = buf.Zeroed(n.Sum, outputs), buf.Zeroed(n.Squares, outputs)
}

// zeroed is a matrix of rows×cols zeros, in the memory of m if that suffices. Freshly allocated memory is already zero.
func zeroed(m dense.Matrix[float64], rows, cols int) dense.Matrix[float64] {
	if cap(m.Data) < rows*cols {
		return dense.New[float64](rows, cols)
	}
	m = buf.Shaped(m, rows, cols)
	par.For(len(m.Data), 1<<18, func(lo, hi int) { clear(m.Data[lo:hi]) })
	return m
}

// AddTargets adds the targets of some rows to Weight, Sum and Squares. The K targets of a row are followed by 1, or √v.
func (n *Normal) AddTargets(y dense.Matrix[float64]) {
	for i := range y.Rows {
		row := y.Row(i)
		one := row[len(n.Sum)]
		n.Weight += float64(one * one)
		for k, v := range row[:len(n.Sum)] {
			n.Sum[k] += float64(one * v)
			n.Squares[k] += float64(v * v)
		}
	}
}

// Add adds c times the sums of o, c being 1 or −1. The part of o goes to the totals of n.
func (n *Normal) Add(o *Normal, c float64) {
	n.N += int64(c) * o.N
	n.Weight += c * o.Weight
	par.For(n.Gram.Rows, 32, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			d := n.Gram.Row(i)[i:]
			for j, v := range o.Gram.Row(i)[i:] {
				d[j] += c * v
			}
			if o.Part.Rows > 0 {
				for j, v := range o.Part.Row(i)[i:] {
					d[j] += c * float64(v)
				}
			}
		}
	})
	for _, x := range [][2][]float64{{n.Cross.Data, o.Cross.Data}, {n.Sum, o.Sum}, {n.Squares, o.Squares}} {
		for i, v := range x[1] {
			x[0][i] += c * v
		}
	}
}

// Copy sets n to the sums of o, reusing memory.
func (n *Normal) Copy(o *Normal) {
	n.Reset(o.Cross.Rows, len(o.Sum))
	n.Add(o, 1)
}

// Solution is the least-squares fit for one λ.
type Solution struct {
	Lambda  float64
	N       int64
	Weight  float64               // Σv; equals N without weights
	U       dense.Matrix[float64] // UᵀU = C + λI
	W, B    dense.Matrix[float64] // F×K: weights and right-hand side
	Mu      []float64             // mean features
	Mean    []float64             // mean targets
	Squares []float64             // Σ(y−ȳ)²
}

// Solve returns the fit with penalty λ ≥ 0 of at least one row. It uses the memory of u if that is large enough.
// Features that are singular up to rounding are ErrNotPositive.
func (n *Normal) Solve(lambda float64, u dense.Matrix[float64]) (*Solution, error) {
	rows, f, k := n.Weight, n.Cross.Rows, len(n.Sum)
	s := &Solution{Lambda: lambda, N: n.N, Weight: n.Weight, U: buf.Shaped(u, f, f), W: dense.New[float64](f, k),
		Mu:   make([]float64, f),
		Mean: make([]float64, k), Squares: make([]float64, k)}
	for j := range s.Mean {
		s.Mean[j] = n.Sum[j] / rows
		s.Squares[j] = max(0, n.Squares[j]-float64(n.Sum[j]*s.Mean[j]))
	}
	for i := range f {
		s.Mu[i] = n.Cross.At(i, k) / rows
		for j := range k {
			s.W.Set(i, j, n.Cross.At(i, j)-float64(n.Cross.At(i, k)*s.Mean[j]))
		}
	}
	// U starts as −(C + λI), the input of choleskyMinus. Rounding may make a diagonal element of −C positive; min keeps
	// the pivot at −λ then.
	par.For(f, 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			d, sum := s.U.Row(i)[i:], n.Cross.At(i, k)
			gram, mu := n.Gram.Row(i)[i:], s.Mu[i:]
			gram, mu = gram[:len(d)], mu[:len(d)]
			if n.Part.Rows > 0 {
				for j, v := range n.Part.Row(i)[i:] {
					d[j] = float64(sum*mu[j]) - (gram[j] + float64(v))
				}
			} else {
				for j, v := range gram {
					d[j] = float64(sum*mu[j]) - v
				}
			}
			d[0] = min(d[0], 0) - lambda
		}
	})
	s.B = s.W.Clone()
	if err := choleskyMinus(kern.Best[float64](), s.U); err != nil {
		return nil, err
	}
	if err := errors.Join(SolveT(s.U, s.W), Solve(s.U, s.W)); err != nil {
		return nil, err
	}
	if s.W.CheckFinite() != nil {
		return nil, ErrNotPositive
	}
	return s, nil
}

// Quadratic is Q = Σ(y−ȳ)² − b·w of output k: the squared residuals plus λ|w|².
func (s *Solution) Quadratic(k int) float64 {
	q := s.Squares[k]
	for i := range s.W.Rows {
		q -= float64(s.W.At(i, k) * s.B.At(i, k))
	}
	return max(q, 0)
}

// RSS is the sum of squared residuals of output k.
func (s *Solution) RSS(k int) float64 {
	norm := 0.0
	for i := range s.W.Rows {
		norm += float64(s.W.At(i, k) * s.W.At(i, k))
	}
	return max(s.Quadratic(k)-s.Lambda*norm, 0)
}

// Intercept is b = ȳ − μ·w.
func (s *Solution) Intercept() []float64 {
	b := append([]float64(nil), s.Mean...)
	for i, m := range s.Mu {
		for k := range b {
			b[k] -= float64(m * s.W.At(i, k))
		}
	}
	return b
}

// LogEvidence is the log marginal likelihood of output k with noise variance v, for w ~ N(0, (v/λ) I) and a flat prior
// on b: the density of all contrasts of y (Rasmussen & Williams, Gaussian Processes for Machine Learning, eq. 2.45). A
// row of weight u counts as u rows.
func (s *Solution) LogEvidence(k int, v float64) float64 {
	f := float64(s.W.Rows)
	return -((s.Weight-1)*math.Log(2*math.Pi*v) + math.Log(s.Weight) + LogDet(s.U) - f*math.Log(s.Lambda) +
		s.Quadratic(k)/v) / 2
}

// Noise is the variance that maximises the evidence of output k.
func (s *Solution) Noise(k int) float64 { return s.Quadratic(k) / (s.Weight - 1) }

package attention

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// RoPE rotates pairs of columns by angles proportional to the position, so that q_i·k_j depends on positions only
// through i − j (Su et al. 2021, arXiv:2104.09864): pair c of n pairs turns by position · Base^(−c/n). The zero value
// rotates all columns, with the usual base.
type RoPE[T dense.Float] struct {
	// Base of the frequencies; 0 means 10000.
	Base float64
	// Dim is the number of leading columns that are rotated; it must be even. 0 means all columns.
	Dim int
	// Interleaved pairs column 2c with 2c+1; otherwise column c is paired with c + Dim/2.
	Interleaved bool
}

// Apply rotates x in place. offset is the position of the first row of x: the number of tokens before it.
func (r RoPE[T]) Apply(x Seq[T], offset int) error { return r.rotate(x, offset, 1) }

// Inverse undoes Apply. Rotations are orthogonal, so Inverse also maps the gradient of the rotated x to the gradient of
// x.
func (r RoPE[T]) Inverse(x Seq[T], offset int) error { return r.rotate(x, offset, -1) }

// rotate turns by sign times the angles. Angles and rotations are float64: at position 10⁶ a float32 angle would be off
// by a visible fraction of a turn.
func (r RoPE[T]) rotate(x Seq[T], offset int, sign float64) error {
	if err := x.Check("x"); err != nil {
		return err
	}
	dim, base := r.Dim, r.Base
	if dim == 0 {
		dim = x.Dim
	}
	if base == 0 {
		base = 10000
	}
	switch {
	case dim < 0 || dim > x.Dim || dim%2 != 0:
		return fmt.Errorf("rotation of %d of %d columns, want an even number of them: %w", dim, x.Dim, dense.ErrShape)
	case !(base > 0) || math.IsInf(base, 1):
		return fmt.Errorf("base %v of the frequencies, want a positive number: %w", base, dense.ErrNotFinite)
	}
	n := dim / 2
	freq := make([]float64, n)
	for c := range freq {
		freq[c] = math.Pow(base, -float64(c)/float64(n))
	}
	step, other := 1, n
	if r.Interleaved {
		step, other = 2, 1
	}
	// Sines and cosines depend on the position only, so all batches and heads of a position share them.
	par.For(x.Len, 256, func(lo, hi int) {
		sin, cos := make([]float64, n), make([]float64, n)
		for l := lo; l < hi; l++ {
			for c, f := range freq {
				sin[c], cos[c] = math.Sincos((float64(offset) + float64(l)) * f)
				sin[c] *= sign
			}
			for b := range x.Batch {
				for h := range x.Heads {
					row := x.Head(b, h).Row(l)
					for c := range n {
						u, v := float64(row[c*step]), float64(row[c*step+other])
						row[c*step] = T(u*cos[c] - v*sin[c])
						row[c*step+other] = T(u*sin[c] + v*cos[c])
					}
				}
			}
		}
	})
	return nil
}

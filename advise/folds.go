package advise

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// fold is a part of the rows that errors are measured on, with the statistics of all other rows for fits.
type fold struct {
	stats *randfeat.Stats
	x, y  dense.Matrix[float64] // rows that errors are measured on
	same  bool                  // x and y are the same rows; a row is not paired with itself
	// The error of a pair is e^{shift_ij}·κ̂_ij − target_ij; the mean of its square is reported. The target is
	// 1 for relative errors, and κ over its root mean square for absolute errors.
	logKernel, target dense.Matrix[float64]
	shift             dense.Matrix[float64]
	squares           rowSums // target² summed over the pairs of every row
}

// A fit to half of the rows is worse than a fit to all, much worse if there are few rows. Few rows are
// therefore divided into more folds, with larger training parts.
const (
	fewRows  = 1024
	fewFolds = 4
)

// divide splits the rows into folds: two halves, or more parts if there are few rows.
func (s *study) divide(q, k dense.Matrix[float64]) error {
	least := min(q.Rows, k.Rows)
	if least < minRows {
		return fmt.Errorf("%d queries and %d keys, want at least %d of each: %w", q.Rows, k.Rows, minRows, errRows)
	}
	n := 2
	if least < fewRows {
		n = fewFolds
	}
	n = max(2, min(n, least/2))
	px := parts(q.Rows, n, s.Seed, 0)
	py := px
	if !s.oneSet {
		py = parts(k.Rows, n, s.Seed, 1)
	}
	for i := range n {
		f := &fold{}
		var err error
		if f.stats, err = randfeat.NewStats(randfeat.Spec{Kernel: s.Kernel, Dim: q.Cols}, needs); err != nil {
			return err
		}
		for j := range n {
			if j == i {
				continue
			}
			if err := f.stats.AddQueries(q.Pick(px[j])); err != nil {
				return err
			}
			if err := f.stats.AddKeys(k.Pick(py[j])); err != nil {
				return err
			}
		}
		f.x, f.y, f.same = q.Pick(px[i][:min(len(px[i]), s.Rows)]), k.Pick(py[i][:min(len(py[i]), s.Rows)]), s.oneSet
		s.folds = append(s.folds, f)
	}
	return s.exact()
}

// needs are the statistics that any family may ask for.
var needs = family.Options{Covariance: true, Sample: 2048}

// parts splits n rows into equal parts at random.
func parts(n, count int, seed, side uint64) [][]int {
	order := rand.New(rng.Stream(seed, 0xadf, side, uint64(n))).Perm(n)
	out := make([][]int, count)
	for i := range out {
		out[i] = order[i*n/count : (i+1)*n/count]
	}
	return out
}

// exact computes the kernel of all pairs, the targets and the sums of their squares. One scale for all folds keeps the
// bias of a ratio of means small: a mean of few rows in the denominator makes the ratio too large.
func (s *study) exact() error {
	most := math.Inf(-1)
	for _, f := range s.folds {
		f.logKernel = dense.New[float64](f.x.Rows, f.y.Rows)
		if err := kernel.LogGram(s.Kernel, f.logKernel, f.x, f.y); err != nil {
			return err
		}
		for i, l := range f.logKernel.Data {
			if f.meets(i) {
				most = max(most, l)
			}
		}
	}
	// Sum in units of the largest kernel value, so that nothing overflows.
	var squares, n float64
	for _, f := range s.folds {
		for i, l := range f.logKernel.Data {
			if f.meets(i) {
				squares += math.Exp(2 * (l - most))
				n++
			}
		}
	}
	scale := most + math.Log(squares/n)/2
	for _, f := range s.folds {
		f.target, f.shift = dense.New[float64](f.x.Rows, f.y.Rows), dense.New[float64](f.x.Rows, f.y.Rows)
		for i, l := range f.logKernel.Data {
			if f.target.Data[i], f.shift.Data[i] = 1, -l; s.Loss == lossAbsolute {
				f.target.Data[i], f.shift.Data[i] = math.Exp(l-scale), -scale
			}
		}
		f.squares = f.newSums()
		for i, t := range f.target.Data {
			if f.meets(i) {
				f.squares.pair(f, i, t*t)
			}
		}
	}
	return nil
}

// newSums returns sums of zero for the rows of a fold.
func (f *fold) newSums() rowSums {
	s := rowSums{x: make([]float64, f.x.Rows)}
	if s.y = s.x; !f.same {
		s.y = make([]float64, f.y.Rows)
	}
	return s
}

// meets reports whether pair number i, counted row by row, has two different rows.
func (f *fold) meets(i int) bool { return !f.same || i%f.y.Rows != i/f.y.Rows }

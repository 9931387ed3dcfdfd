package machine

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
)

// Ridge holds the [Sums] of kernel ridge regression: ΦᵀΦ, ΦᵀY, Σφ, Σy and Σy². It needs 8F² bytes (12F² in float32)
// however many rows there are, another 8F² while solving, and four times Block·F features. A Ridge must not be used by
// two calls at the same time.
//
// The bits of the sums do not depend on how rows are divided among calls of Add.
type Ridge struct {
	setup       Setup
	fingerprint [32]byte
	features    int

	sums linalg.Normal

	// One of f64 and f32 is set, by Setup.Float32.
	f64      *mapper[float64]
	f32      *mapper[float32]
	blocks64 *linalg.Blocks[float64] // memory for features and targets of blocks, in the precision of the map
	blocks32 *linalg.Blocks[float32]
}

// NewRidge returns the sums of no rows. The map must be symmetric: the kernel of a ridge is φ·φ.
func NewRidge(s Setup) (*Ridge, error) {
	s, err := s.prepared()
	if err != nil {
		return nil, err
	}
	if s.Task == Unsupervised {
		return nil, fmt.Errorf("ridge without targets: %w", ErrSetup)
	}
	r := &Ridge{setup: s, blocks64: new(linalg.Blocks[float64]), blocks32: new(linalg.Blocks[float32])}
	var symmetric bool
	if s.Float32 {
		if r.f32, err = newMapper[float32](s); err != nil {
			return nil, err
		}
		r.features, r.fingerprint, symmetric = r.f32.m.OutDim(), r.f32.m.Fingerprint(), r.f32.m.Symmetric()
		r.sums.Part = dense.New[float32](r.features, r.features)
	} else {
		if r.f64, err = newMapper[float64](s); err != nil {
			return nil, err
		}
		r.features, r.fingerprint, symmetric = r.f64.m.OutDim(), r.f64.m.Fingerprint(), r.f64.m.Symmetric()
	}
	if !symmetric {
		return nil, fmt.Errorf("family %s maps queries and keys differently, ridge needs φ·φ: use a smoother or another "+
			"family: %w", s.Spec.Family.Name(), ErrSetup)
	}
	r.sums.Reset(r.features, s.Outputs)
	return r, nil
}

// white returns the whitening of landmarks, nil for other families.
func (r *Ridge) white() *whitening {
	if r.f32 != nil {
		return r.f32.white
	}
	return r.f64.white
}

// another returns an empty Ridge that shares the map and the feature buffers with r. The two must not be used at the
// same time.
func (r *Ridge) another() *Ridge {
	o := *r
	o.sums = linalg.Normal{Part: dense.New[float32](r.sums.Part.Rows, r.sums.Part.Cols)}
	o.sums.Reset(r.features, r.setup.Outputs)
	return &o
}

// Reset removes all rows but keeps the memory.
func (r *Ridge) Reset() {
	r.sums.Reset(r.features, r.setup.Outputs)
	clear(r.sums.Part.Data)
}

// Len is the number of rows added.
func (r *Ridge) Len() int64 { return r.sums.N }

// Features is F.
func (r *Ridge) Features() int { return r.features }

// AddRows adds all rows, block by block.
func (r *Ridge) AddRows(rows Rows) error {
	if err := r.setup.checkRows(rows); err != nil {
		return err
	}
	// Read several blocks at a time: the features of one block are computed while the products of the block before run.
	return rows.Each(r.setup.Block*min(ridgeBlocks, 1+r.features/max(1, r.setup.Spec.Dim)), r.Add)
}

// ridgeBlocks is the number of blocks that AddRows reads together, if their rows take less memory than features.
const ridgeBlocks = 8

// Add adds rows x with targets y: numbers, or one column of class indices. After an error the sums contain the complete
// blocks before the failed one and nothing else. Errors count rows from the first row ever added.
func (r *Ridge) Add(x, y dense.Matrix[float64]) error {
	if err := r.setup.checkBlock(x, y, r.sums.N); err != nil {
		return err
	}
	if r.setup.Float32 {
		return r.blocks32.Add(&r.sums, newRidgeRows(r.setup, r.f32, x, y, r.sums.N), x.Rows, r.setup.Block)
	}
	return r.blocks64.Add(&r.sums, newRidgeRows(r.setup, r.f64, x, y, r.sums.N), x.Rows, r.setup.Block)
}

// ridgeRows computes features and targets of rows x, y for linalg.Blocks, which calls Rows from several goroutines for
// disjoint ranges.
type ridgeRows[T dense.Float] struct {
	setup Setup
	m     *mapper[T]
	tab   *kern.Table[T]
	x, y  dense.Matrix[float64]
	first int64 // number of the first row, for errors
}

func newRidgeRows[T dense.Float](s Setup, m *mapper[T], x, y dense.Matrix[float64], first int64) *ridgeRows[T] {
	return &ridgeRows[T]{setup: s, m: m, tab: kern.Best[T](), x: x, y: y, first: first}
}

// largestProduct bounds a feature times a target, so that no sum over any possible number of rows overflows.
const largestProduct = 1e280

// Rows writes the features phi and the targets t of the rows that begin at first, both multiplied by the roots of their
// weights.
func (r *ridgeRows[T]) Rows(first int, phi dense.Matrix[T], t dense.Matrix[float64]) error {
	x, y := r.x.RowRange(first, first+phi.Rows), r.y.RowRange(first, first+phi.Rows)
	r.setup.targets(t, y)
	roots := r.setup.roots(y)
	scaleRows(t, roots)
	if err := r.m.part(phi, x); err != nil {
		return err
	}
	scaleRows(phi, roots)
	for i := range phi.Rows {
		largest := 1.0
		for _, v := range t.Row(i) {
			largest = max(largest, math.Abs(v))
		}
		// The norm is finite only if all features are.
		if n := math.Sqrt(r.tab.Norm2(phi.Row(i))); !(n*largest <= largestProduct) {
			return fmt.Errorf("row %d: features or their products with targets overflow; scale the inputs, or use a "+
				"bounded family such as trig: %w", r.first+int64(first+i), dense.ErrNotFinite)
		}
	}
	return nil
}

// roots are the square roots of the weights of rows, nil without weights: ordinary least squares of rows scaled by them
// is weighted least squares.
func (s Setup) roots(y dense.Matrix[float64]) []float64 {
	if !s.Weighted {
		return nil
	}
	out := make([]float64, y.Rows)
	for i := range out {
		out[i] = math.Sqrt(s.weight(y, i))
	}
	return out
}

// scaleRows multiplies row i of m by by[i]; nil means 1.
func scaleRows[T dense.Float](m dense.Matrix[T], by []float64) {
	for i, v := range by {
		row := m.Row(i)
		for j := range row {
			row[j] *= T(v)
		}
	}
}

// Merge adds the rows of o, a Ridge. Merging the same shards in the same order always gives the same bits; other
// groupings agree up to rounding.
func (r *Ridge) Merge(o Sums) error {
	other, ok := o.(*Ridge)
	if !ok {
		return otherSums(r, o)
	}
	if err := r.matches(other.setup, other.fingerprint); err != nil {
		return err
	}
	// The float32 part of o goes to the float64 totals: the part of r is flushed on a grid of its own rows, which must
	// not move.
	r.sums.Add(&other.sums, 1)
	return nil
}

func addTo(dst, src []float64) {
	for i, v := range src {
		dst[i] += v
	}
}

// matches returns ErrMismatch if sums of setup s and a map with this fingerprint cannot be added to r.
func (r *Ridge) matches(s Setup, fingerprint [32]byte) error {
	switch {
	case fingerprint != r.fingerprint:
		return fmt.Errorf("fingerprint %x…, this map has %x…: %w", fingerprint[:4], r.fingerprint[:4], ErrMismatch)
	case s.Task != r.setup.Task || s.Outputs != r.setup.Outputs:
		return fmt.Errorf("%s with %d outputs, want %s with %d: %w", s.Task, s.Outputs, r.setup.Task, r.setup.Outputs,
			ErrMismatch)
	case s.Weighted != r.setup.Weighted:
		return fmt.Errorf("rows with and without weights: %w", ErrMismatch)
	case s.Float32 != r.setup.Float32:
		return fmt.Errorf("features of another precision: %w", ErrMismatch)
	}
	return nil
}

package machine

import (
	"fmt"
	"math"
	"runtime"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
)

// Ridge are the [Sums] of kernel ridge regression: what least squares on features needs, ΦᵀΦ, ΦᵀY, Σφ, Σy, Σy². Memory
// is 8F² bytes (12F² in float32), however many rows there are, 8F² more while solving, and three times Block·F
// features. A Ridge serves one call at a time.
//
// The bits of the sums do not depend on how rows are divided among calls of Add.
type Ridge struct {
	setup       Setup
	fingerprint [32]byte
	features    int

	sums     linalg.Normal // its Part: products of the last partRows rows in float32, on the grid of flushRows rows
	partRows int

	f64    *mapper[float64]
	f32    *mapper[float32]
	tab64  *kern.Table[float64]
	tab32  *kern.Table[float32]
	gram64 linalg.Gram[float64]
	gram32 linalg.Gram[float32]
	y      dense.Matrix[float64]
	next   dense.Matrix[float64] // cross of the block under way
}

// flushRows bounds the rows summed in float32: the error stays that of a short sum, however many rows there are.
const flushRows = 4096

// ridgeBlock is the default of Setup.Block: with many threads more rows than for others, since all threads wait for
// each other a few times in a block, and no more than whose features are 2²² numbers. The bits of the sums are the
// same.
func ridgeBlock(features int) int {
	return max(defaultBlock, min(128*runtime.GOMAXPROCS(0), 1<<22/features))
}

// NewRidge returns the sums of no rows. The map must be symmetric: the kernel of a ridge is φ·φ.
func NewRidge(s Setup) (*Ridge, error) {
	given := s.Block > 0
	s, err := s.prepared()
	if err != nil {
		return nil, err
	}
	if s.Task == Unsupervised {
		return nil, fmt.Errorf("ridge without targets: %w", ErrSetup)
	}
	r := &Ridge{setup: s}
	var symmetric bool
	if s.Float32 {
		if r.f32, err = newMapper[float32](s); err != nil {
			return nil, err
		}
		r.features, r.fingerprint, symmetric = r.f32.m.OutDim(), r.f32.m.Fingerprint(), r.f32.m.Symmetric()
		r.sums.Part = dense.New[float32](r.features, r.features)
		r.tab32 = kern.Best[float32]()
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
	if !given {
		r.setup.Block = ridgeBlock(r.features)
	}
	r.tab64 = kern.Best[float64]()
	r.sums.Reset(r.features, s.Outputs)
	r.next = r.sums.Cross.Clone()
	return r, nil
}

// Reset takes all rows out again, and keeps the memory.
func (r *Ridge) Reset() {
	r.sums.Reset(r.features, r.setup.Outputs)
	clear(r.sums.Part.Data)
	r.partRows = 0
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
	return rows.Each(r.setup.Block, r.Add)
}

// Add adds rows x with targets y: numbers, or one column of class indices. After an error the sums are as before, but
// for blocks before the one that failed. Rows in errors are counted from the first row ever added.
func (r *Ridge) Add(x, y dense.Matrix[float64]) error {
	if err := r.setup.checkBlock(x, y, r.sums.N); err != nil {
		return err
	}
	for lo := 0; lo < x.Rows; lo += r.setup.Block {
		hi := min(lo+r.setup.Block, x.Rows)
		if err := r.add(x.RowRange(lo, hi), y.RowRange(lo, hi)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Ridge) add(x, y dense.Matrix[float64]) error {
	if x.Rows == 0 {
		return nil
	}
	r.y = buf.Shaped(r.y, x.Rows, r.setup.Outputs+1)
	r.setup.targets(r.y, y)
	roots := r.setup.roots(y)
	scaleRows(r.y, roots)
	copy(r.next.Data, r.sums.Cross.Data)
	var (
		phi    dense.Matrix[float64]
		single dense.Matrix[float32]
		err    error
	)
	if r.setup.Float32 {
		if single, err = r.f32.queries(x); err != nil {
			return err
		}
		scaleRows(single, roots)
		linalg.AddWide(r.tab64, r.next, single, r.y)
	} else {
		if phi, err = r.f64.queries(x); err != nil {
			return err
		}
		scaleRows(phi, roots)
		linalg.AddProduct(r.tab64, r.next, phi, r.y)
	}
	// Every feature and target is in these sums, so they are finite only if all are.
	if err := r.next.CheckFinite(); err != nil {
		return fmt.Errorf("rows %d to %d: features or their products with targets overflow; scale the inputs, or use a "+
			"bounded family such as trig: %w", r.sums.N, r.sums.N+int64(x.Rows)-1, dense.ErrNotFinite)
	}
	r.sums.Cross, r.next = r.next, r.sums.Cross
	r.sums.AddTargets(r.y)
	if r.setup.Float32 {
		r.addSingle(single)
	} else {
		r.gram64.Add(r.tab64, r.sums.Gram, phi)
	}
	r.sums.N += int64(x.Rows)
	return nil
}

// roots are the square roots of the weights of rows: least squares of rows that are scaled by them is weighted.
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

// scaleRows multiplies row i by by[i]; nil: by 1.
func scaleRows[T dense.Float](m dense.Matrix[T], by []float64) {
	for i, v := range by {
		row := m.Row(i)
		for j := range row {
			row[j] *= T(v)
		}
	}
}

func (r *Ridge) addSingle(phi dense.Matrix[float32]) {
	for lo := 0; lo < phi.Rows; {
		hi := min(phi.Rows, lo+flushRows-r.partRows)
		r.gram32.Add(r.tab32, r.sums.Part, phi.RowRange(lo, hi))
		if r.partRows += hi - lo; r.partRows == flushRows {
			addPart(r.sums.Gram, r.sums.Part)
			r.partRows = 0
		}
		lo = hi
	}
}

// addPart adds the upper triangle of part and clears it.
func addPart(dst dense.Matrix[float64], part dense.Matrix[float32]) {
	par.For(part.Rows, 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			d := dst.Row(i)[i:]
			row := part.Row(i)
			for j, v := range row[i:] {
				d[j] += float64(v)
			}
			clear(row)
		}
	})
}

// Merge adds the rows of o, a Ridge. Sums of floating-point numbers depend on their grouping: merging the same shards
// in the same order always gives the same bits, other groupings agree up to rounding.
func (r *Ridge) Merge(o Sums) error {
	other, ok := o.(*Ridge)
	if !ok {
		return otherSums(r, o)
	}
	if err := r.matches(other.setup, other.fingerprint); err != nil {
		return err
	}
	// The part of o goes to the totals: the grid of r is that of its own rows.
	r.sums.Add(&other.sums, 1)
	return nil
}

func addTo(dst, src []float64) {
	for i, v := range src {
		dst[i] += v
	}
}

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

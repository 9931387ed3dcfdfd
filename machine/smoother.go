package machine

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
)

// smoother holds the [Sums] of the Nadaraya–Watson estimate,
//
//	ŷ(x) = Σ_j φ1(x)·φ2(x_j) y_j / Σ_j φ1(x)·φ2(x_j)
//
// for any map, including asymmetric ones. Features of keys are stored relative to the largest so far, feature by
// feature, so that positive maps neither overflow nor divide by zero (docs/theory.md §6). Classes get one column each;
// the estimates are probabilities if the map is positive. Sums are float64; Setup.Float32 has no effect on them.
//
// The same block size gives the same bits. A smoother must not be used by two calls at the same time.
type smoother struct {
	setup Setup
	keys  *mapper[float64]
	tab   *kern.Table[float64]
	n     int64
	total float64               // sum of the weights of rows
	t     []float64             // references: largest log feature so far, −Inf before the first
	sums  dense.Matrix[float64] // F×(K+1): Σ φ2 y e^{−t} and, last, Σ φ2 e^{−t}
	ySum  []float64             // Σ y, weighted

	// Scratch: factors of signed features, targets and row terms of a block.
	value, y dense.Matrix[float64]
	row      []float64
}

// newSmoother returns the sums of no rows.
func newSmoother(s Setup) (*smoother, error) {
	s, err := s.prepared()
	if err != nil {
		return nil, err
	}
	if s.Task == Unsupervised {
		return nil, fmt.Errorf("smoother without targets: %w", ErrSetup)
	}
	return newSums(s)
}

// newSums returns empty sums for any task, also for Density.
func newSums(s Setup) (*smoother, error) {
	if family.InfoOf(s.Spec.Family).KernelColumns {
		return nil, fmt.Errorf("family %s in averages, which need φ·φ to be a kernel: use a positive family, such as "+
			"oprf: %w", s.Spec.Family.Name(), ErrSetup)
	}
	keys, err := newMapper[float64](s)
	if err != nil {
		return nil, err
	}
	a := &smoother{setup: s, keys: keys, tab: kern.Best[float64](), t: make([]float64, keys.m.OutDim()),
		ySum: make([]float64, s.Outputs)}
	for f := range a.t {
		a.t[f] = math.Inf(-1)
	}
	a.sums = dense.New[float64](len(a.t), s.Outputs+1)
	return a, nil
}

// Len is the number of rows added.
func (a *smoother) Len() int64 { return a.n }

// AddRows adds all rows, block by block.
func (a *smoother) AddRows(rows Rows) error {
	if err := a.setup.checkRows(rows); err != nil {
		return err
	}
	return rows.Each(a.setup.Block, a.Add)
}

// Add adds rows x with targets y: numbers, or one column of class indices. After an error the sums contain the complete
// blocks before the failed one and nothing else. Errors count rows from the first row ever added.
func (a *smoother) Add(x, y dense.Matrix[float64]) error {
	if err := a.setup.checkBlock(x, y, a.n); err != nil {
		return err
	}
	for lo := 0; lo < x.Rows; lo += a.setup.Block {
		hi := min(lo+a.setup.Block, x.Rows)
		part := dense.Matrix[float64]{Rows: hi - lo}
		if a.setup.TargetColumns() > 0 {
			part = y.RowRange(lo, hi)
		}
		if err := a.add(x.RowRange(lo, hi), part); err != nil {
			return err
		}
	}
	return nil
}

// add adds one block in three steps: log features, references raised to the maximum of the block, and the product of
// the scaled features with the targets. Every element of the product is summed in the order of rows.
func (a *smoother) add(x, y dense.Matrix[float64]) error {
	p := a.keys
	p.phi = buf.Shaped(p.phi, x.Rows, p.m.OutDim())
	e := p.phi
	if p.m.Signed() {
		a.value = buf.Shaped(a.value, x.Rows, p.m.OutDim())
	}
	a.row = buf.Sized(a.row, x.Rows)
	if err := p.m.LogKeys(e, a.value, a.row, x, &p.ws); err != nil {
		return err
	}
	a.y = buf.Shaped(a.y, x.Rows, a.setup.Outputs+1)
	a.setup.targets(a.y, y)
	if a.setup.Weighted {
		for i := range a.y.Rows {
			a.tab.Scale(a.y.Row(i), a.setup.weight(y, i))
		}
	}
	par.For(len(a.t), 64, func(lo, hi int) { a.raise(e, lo, hi) })
	par.For(x.Rows, 1+a.tab.Grain/(8*len(a.t)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			phi, r := e.Row(i), a.row[i]
			for f, t := range a.t {
				if math.IsInf(t, -1) {
					phi[f] = math.Inf(-1)
				} else {
					phi[f] += r - t
				}
			}
			a.tab.Exp(phi, 0)
			if p.m.Signed() {
				a.tab.Mul(phi, a.value.Row(i))
			}
			a.tab.FlushMax(phi)
		}
	})
	linalg.AddProduct(a.tab, a.sums, e, a.y)
	for i := range a.y.Rows {
		row := a.y.Row(i)
		addTo(a.ySum, row[:a.setup.Outputs])
		a.total += row[a.setup.Outputs]
	}
	a.n += int64(x.Rows)
	return nil
}

// raise lifts the references of features lo to hi−1 to the maximum over a block with log features e + row. The sums so
// far are rescaled, so no exponential ever exceeds 1.
func (a *smoother) raise(e dense.Matrix[float64], lo, hi int) {
	top := slices.Clone(a.t[lo:hi])
	for i := range e.Rows {
		r := a.row[i]
		for f, v := range e.Row(i)[lo:hi] {
			if v += r; v > top[f] {
				top[f] = v
			}
		}
	}
	for f, t := range top {
		a.rescale(lo+f, t)
	}
}

// rescale raises the reference of feature f to t if that is larger, and returns the factor for sums that are relative
// to t.
func (a *smoother) rescale(f int, t float64) float64 {
	old := a.t[f]
	if t <= old {
		return math.Exp(t - old)
	}
	a.t[f] = t
	a.tab.Scale(a.sums.Row(f), math.Exp(old-t))
	return 1
}

// Merge adds the rows of another smoother. The result equals adding its rows here, up to rounding.
func (a *smoother) Merge(sums Sums) error {
	o, ok := sums.(*smoother)
	if !ok {
		return otherSums(a, sums)
	}
	if f, g := a.keys.m.Fingerprint(), o.keys.m.Fingerprint(); f != g {
		return fmt.Errorf("fingerprint %x…, this map has %x…: %w", g[:4], f[:4], ErrMismatch)
	}
	if a.setup.Weighted != o.setup.Weighted {
		return fmt.Errorf("rows with and without weights: %w", ErrMismatch)
	}
	if a.setup.Task != o.setup.Task || a.setup.Outputs != o.setup.Outputs {
		return fmt.Errorf("%s with %d outputs, want %s with %d: %w", o.setup.Task, o.setup.Outputs, a.setup.Task,
			a.setup.Outputs, ErrMismatch)
	}
	for f, t := range o.t {
		if math.IsInf(t, -1) {
			continue
		}
		c := a.rescale(f, t)
		a.tab.MulAdd(a.sums.Row(f), o.sums.Row(f), c)
	}
	addTo(a.ySum, o.ySum)
	a.total += o.total
	a.n += o.n
	return nil
}

// Model is the smoother of the rows so far. It has no penalty, so λ is ignored.
func (a *smoother) Model(float64) (*Model, error) {
	if a.n == 0 || !(a.total > 0) {
		return nil, fmt.Errorf("smoother of no rows, or of none that has a weight: %w", ErrNoRows)
	}
	k := a.setup.Outputs
	m := &Model{Kind: KindSmoother, Task: a.setup.Task, Outputs: k, Spec: a.setup.Spec, Omega: a.setup.Omega, Rows: a.n,
		Weights: a.sums.ColRange(0, k).Clone(), LogScale: slices.Clone(a.t), Mass: make([]float64, len(a.t))}
	for f := range m.Mass {
		m.Mass[f] = a.sums.At(f, k)
	}
	for _, v := range a.ySum {
		m.Intercept = append(m.Intercept, v/a.total)
	}
	return m, nil
}

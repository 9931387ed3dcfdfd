package machine

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/seal"
)

// Errors of this package.
var (
	ErrSetup    = errors.New("invalid setup")                        // settings or a map that a machine cannot use
	ErrNoRows   = errors.New("too few rows")                         // nothing to fit
	ErrMismatch = errors.New("fit of another map, task or shape")    // merging or reading sums of another map
	ErrCorrupt  = seal.ErrCorrupt                                    // bytes that are not a model or sums, or damaged
	ErrSingular = errors.New("features are singular up to rounding") // a larger λ is needed
	ErrClass    = errors.New("no such class")                        // a target that is not a class index
)

// Task is the kind of the predicted quantity.
type Task string

// The tasks.
const (
	Regression     Task = "regression"     // Outputs numbers
	Classification Task = "classification" // one of Outputs classes
	Unsupervised   Task = "density"        // a log density
)

// Setup describes a machine before it has seen rows.
type Setup struct {
	Spec randfeat.Spec
	// Omega holds the projections; nil means that they are drawn from Spec.
	Omega []coupling.Omega
	Task  Task
	// Outputs is the number of targets of a regression or of classes.
	Outputs int
	// Weighted says that y has an additional last column, the weights of rows. Each row's loss is multiplied by its
	// weight. A row of weight 0 changes nothing.
	Weighted bool
	// Margins replaces the squared errors of classes by squared hinge losses, in FitExact and FitExactIterative only:
	// one support-vector machine per class. Scores above 1 for the true class and below 0 for the others are not
	// errors. It separates classes better where the columns determine them without noise.
	Margins bool
	// Start is where conjugate gradients of a fit with Margins begin; nil means at a fit of every second row, or at 0.
	Start *Start
	// Float32 computes features and their products in float32. Sums over many rows are still float64.
	Float32 bool
	// Block is the number of rows handled together; 0 means 1024. Memory for features is Block·F numbers, four times
	// that for ridge. Smoothers and densities raise their references per block, so Block changes the rounding of their
	// sums.
	Block int
}

// Start holds weights near those of a fit: of the rows of x, and 0 for rows that are new.
type Start struct {
	Weights   dense.Matrix[float64] // one row per row of x, one column per output
	Intercept []float64
	Rows      int // number of rows that were fitted
}

const (
	defaultBlock = 1024
	maxTarget    = 1e140 // its square, summed over any number of rows, does not overflow
)

// prepared returns s with defaults filled in and projections drawn.
func (s Setup) prepared() (Setup, error) {
	switch {
	case s.Task == "":
		s.Task = Regression
	case s.Task != Regression && s.Task != Classification && s.Task != Unsupervised:
		return s, fmt.Errorf("task %q, want %s, %s or %s: %w", s.Task, Regression, Classification, Unsupervised,
			ErrSetup)
	}
	switch {
	case s.Margins:
		return s, fmt.Errorf("margins without the exact kernel of all rows: use FitExact: %w", ErrSetup)
	case s.Task == Unsupervised && s.Outputs > 0:
		return s, fmt.Errorf("%d outputs of a density: %w", s.Outputs, ErrSetup)
	case s.Task == Regression && s.Outputs < 1:
		return s, fmt.Errorf("%d outputs, want at least 1: %w", s.Outputs, ErrSetup)
	case s.Task == Classification && s.Outputs < 2:
		return s, fmt.Errorf("%d classes, want at least 2: %w", s.Outputs, ErrSetup)
	}
	s.Block = cmp.Or(s.Block, defaultBlock)
	if s.Block < 1 {
		return s, fmt.Errorf("blocks of %d rows: %w", s.Block, ErrSetup)
	}
	if s.Omega == nil {
		var err error
		if s.Omega, err = randfeat.Draw(s.Spec); err != nil {
			return s, err
		}
	}
	return s, nil
}

// TargetColumns is the number of columns that y must have: one per output, or one class index, and a last one for
// weights if Weighted is set.
func (s Setup) TargetColumns() int {
	n := s.Outputs
	switch s.Task {
	case Classification:
		n = 1
	case Unsupervised:
		n = 0
	}
	if s.Weighted {
		n++
	}
	return n
}

// weight is the weight of row i of y, 1 without weights.
func (s Setup) weight(y dense.Matrix[float64], i int) float64 {
	if !s.Weighted {
		return 1
	}
	return y.At(i, y.Cols-1)
}

// checkRows checks the shape that rows declare.
func (s Setup) checkRows(r Rows) error {
	if r.Dim() != s.Spec.Dim {
		return fmt.Errorf("rows of %d columns, the map takes %d: %w", r.Dim(), s.Spec.Dim, dense.ErrShape)
	}
	if s.TargetColumns() > 0 && r.Outputs() != s.TargetColumns() {
		return fmt.Errorf("%d target columns, want %d: %w", r.Outputs(), s.TargetColumns(), dense.ErrShape)
	}
	return nil
}

// checkBlock checks shapes and values of a block. first is the number of its first row, so that errors count rows from
// the first row ever added.
func (s Setup) checkBlock(x, y dense.Matrix[float64], first int64) error {
	if x.Cols != s.Spec.Dim {
		return fmt.Errorf("x has %d columns, the map takes %d: %w", x.Cols, s.Spec.Dim, dense.ErrShape)
	}
	if err := finite("x", x, first); err != nil {
		return err
	}
	if s.TargetColumns() == 0 {
		return nil
	}
	if y.Rows != x.Rows || y.Cols != s.TargetColumns() {
		return fmt.Errorf("y is %d×%d, want %d×%d: %w", y.Rows, y.Cols, x.Rows, s.TargetColumns(), dense.ErrShape)
	}
	if err := finite("y", y, first); err != nil {
		return err
	}
	for i := range y.Rows {
		for _, v := range y.Row(i) {
			if !(math.Abs(v) <= maxTarget) {
				return fmt.Errorf("y: row %d is %g, whose square would overflow: %w", first+int64(i), v,
					dense.ErrNotFinite)
			}
		}
	}
	for i := 0; s.Weighted && i < y.Rows; i++ {
		if w := s.weight(y, i); w < 0 {
			return fmt.Errorf("y: the weight of row %d is %g, want a number that is not negative: %w", first+int64(i), w,
				ErrSetup)
		}
	}
	for i := 0; s.Task == Classification && i < y.Rows; i++ {
		if c := y.At(i, 0); c != float64(int(c)) || c < 0 || int(c) >= s.Outputs {
			return fmt.Errorf("y: row %d is %g, want a class from 0 to %d: %w", first+int64(i), c, s.Outputs-1,
				ErrClass)
		}
	}
	return nil
}

// finite checks a matrix and its values; the row in the error counts from first.
func finite(name string, a dense.Matrix[float64], first int64) error {
	if err := a.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err := a.CheckFinite()
	var bad *dense.NotFiniteError
	if errors.As(err, &bad) {
		bad.Row += int(first)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// targets writes y as numbers into dst, rows × (outputs + 1): one column per output, 0 or 1 for classes, and a last
// column of ones, whose products with features give Σφ.
func (s Setup) targets(dst dense.Matrix[float64], y dense.Matrix[float64]) {
	for i := range dst.Rows {
		row := dst.Row(i)
		if s.Task == Classification {
			clear(row)
			row[int(y.At(i, 0))] = 1
		} else if s.Task == Regression {
			copy(row[:s.Outputs], y.Row(i))
		}
		row[len(row)-1] = 1
	}
}

// mapper computes the features of blocks in T. It belongs to one goroutine at a time, except for part.
type mapper[T dense.Float] struct {
	m      *randfeat.Map[T]
	ws     randfeat.Workspace[T]
	x, phi dense.Matrix[T]
	white  *whitening          // for landmarks: turns kernel columns into features; nil otherwise
	spare  par.Pool[mapper[T]] // mappers of the goroutines that call part
}

func newMapper[T dense.Float](s Setup) (*mapper[T], error) {
	m, err := randfeat.NewWithOmega[T](s.Spec, s.Omega)
	if err != nil {
		return nil, err
	}
	white, err := s.whitened()
	return &mapper[T]{m: m, white: white}, err
}

// input returns x in T: x itself if T is float64, a copy otherwise.
func (p *mapper[T]) input(x dense.Matrix[float64]) dense.Matrix[T] {
	if same, ok := any(x).(dense.Matrix[T]); ok {
		return same
	}
	p.x = buf.Shaped(p.x, x.Rows, x.Cols)
	convert(p.x, x)
	return p.x
}

// queries returns the features of x, which has been checked; they are valid until the next call.
func (p *mapper[T]) queries(x dense.Matrix[float64]) (dense.Matrix[T], error) {
	p.phi = buf.Shaped(p.phi, x.Rows, p.m.OutDim())
	return p.phi, p.write(p.phi, x)
}

// write sets phi to the features of x.
func (p *mapper[T]) write(phi dense.Matrix[T], x dense.Matrix[float64]) error {
	err := p.m.Queries(phi, nil, p.input(x), &p.ws)
	if err != nil || p.white == nil {
		return err
	}
	switch phi := any(phi).(type) {
	case dense.Matrix[float64]:
		whiten(phi, p.white.stripes)
	case dense.Matrix[float32]:
		whiten(phi, p.white.narrow)
	}
	return nil
}

// part is write for some of the rows, on one of many goroutines. Each has a mapper of its own, because workspaces must
// not be shared.
func (p *mapper[T]) part(phi dense.Matrix[T], x dense.Matrix[float64]) error {
	k := p.spare.Get()
	defer p.spare.Put(k)
	k.m, k.white, k.ws.Workers = p.m, p.white, 1
	return k.write(phi, x)
}

func convert[U, T dense.Float](dst dense.Matrix[U], src dense.Matrix[T]) {
	for i := range src.Rows {
		d := dst.Row(i)
		for j, v := range src.Row(i) {
			d[j] = U(v)
		}
	}
}

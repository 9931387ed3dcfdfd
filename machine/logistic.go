package machine

import (
	"cmp"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
)

// LogisticOptions are the settings of FitLogistic; the zero value is usable.
type LogisticOptions struct {
	// Lambda is the penalty: the loss is Σ_i c_i·(−log p_i) + (Lambda/2)|W|², with a free intercept; 0 means 1. c_i is
	// the weight of the class times, if Setup.Weighted, the weight of the row. scikit-learn's C is 1/Lambda.
	Lambda float64
	// ClassWeights are the weights of the classes; nil means all 1.
	ClassWeights []float64
	// Memory bounds the bytes of features kept between passes; 0 means 1 GiB. Rows beyond it are mapped again in every
	// pass.
	Memory int64
	// MaxIterations bounds the steps; 0 means 1000.
	MaxIterations int
	// Tolerance is the largest entry of the gradient of the mean loss at which the fit stops; 0 means 1e-5.
	Tolerance float64

	// Start continues a fit from a state that Step received; nil starts at zero. Setup, rows and the other options must
	// be the same.
	Start *LogisticState
	// Step, if set, is called between iterations with the state, which it must not keep; its error ends the fit.
	Step func(*LogisticState) error
}

// logisticReport says how a fit ended.
type logisticReport struct {
	Loss       float64 // mean loss per row, penalty included
	Gradient   float64 // largest entry of its gradient
	Iterations int
	Passes     int // passes over the rows
	Converged  bool
	Cached     int64 // rows whose features were kept in memory
}

// FitLogistic fits multinomial logistic regression on the features of queries by L-BFGS. Features are float32 if
// Setup.Float32; losses and sums over blocks are float64. Classes that no row has are allowed.
func FitLogistic(s Setup, rows Rows, o LogisticOptions) (*Model, logisticReport, error) {
	var rep logisticReport
	s.Task = cmp.Or(s.Task, Classification)
	if s.Task != Classification {
		return nil, rep, fmt.Errorf("logistic regression for task %q, want %s: %w", s.Task, Classification, ErrSetup)
	}
	s, err := s.prepared()
	if err != nil {
		return nil, rep, err
	}
	if err := o.defaults(s.Outputs); err != nil {
		return nil, rep, err
	}
	if err := s.checkRows(rows); err != nil {
		return nil, rep, err
	}
	if s.Float32 {
		return fitLogistic[float32](s, rows, o)
	}
	return fitLogistic[float64](s, rows, o)
}

func (o *LogisticOptions) defaults(classes int) error {
	o.Lambda = cmp.Or(o.Lambda, 1)
	o.Memory = cmp.Or(o.Memory, 1<<30)
	o.MaxIterations = cmp.Or(o.MaxIterations, 1000)
	o.Tolerance = cmp.Or(o.Tolerance, 1e-5)
	if !(o.Lambda > 0) || math.IsInf(o.Lambda, 1) || !(o.Tolerance > 0) || o.MaxIterations < 1 || o.Memory < 0 {
		return fmt.Errorf("logistic regression with λ = %g, tolerance %g, %d iterations, %d bytes: %w", o.Lambda,
			o.Tolerance, o.MaxIterations, o.Memory, ErrSetup)
	}
	if o.ClassWeights == nil {
		return nil
	}
	if len(o.ClassWeights) != classes {
		return fmt.Errorf("%d class weights for %d classes: %w", len(o.ClassWeights), classes, dense.ErrShape)
	}
	for _, w := range o.ClassWeights {
		if !(w > 0) || math.IsInf(w, 1) {
			return fmt.Errorf("class weight %g, want a positive number: %w", w, ErrSetup)
		}
	}
	return nil
}

// logistic computes the mean loss of parameters W (F×K by rows) and b (K), and its gradient, by passes over the rows.
type logistic[T dense.Float] struct {
	setup  Setup
	o      LogisticOptions
	rows   Rows
	phi    *mapper[T]
	tab    *kern.Table[T]
	tab64  *kern.Table[float64]
	n      int64
	cached []cachedBlock[T] // features of the first rows, as many as Memory allows
	kept   int64            // number of rows in cached

	w    dense.Matrix[T] // the weights in T
	p    dense.Matrix[T] // c·(p − e_y) of a block
	part dense.Matrix[T] // gradient of a block
	loss []float64
	sum  []T // column sums of the features of a block, to find overflow
}

// cachedBlock is a block of rows with its features.
type cachedBlock[T dense.Float] struct {
	phi dense.Matrix[T]
	y   []int
	w   []float64 // weights of rows, which multiply their losses
}

func fitLogistic[T dense.Float](s Setup, rows Rows, o LogisticOptions) (*Model, logisticReport, error) {
	var rep logisticReport
	l, err := newLogistic[T](s, rows, o)
	if err != nil {
		return nil, rep, err
	}
	f, k := l.w.Rows, l.w.Cols
	size := (f + 1) * k
	at := &LogisticState{Passes: 1, Points: [][]float64{make([]float64, size)}, Gradients: [][]float64{make([]float64,
		size)}}
	if o.Start != nil {
		if err := o.Start.check(size, o.MaxIterations); err != nil {
			return nil, rep, err
		}
		at = o.Start.clone()
	} else if at.Loss, err = l.eval(at.Gradients[0], at.Points[0]); err != nil {
		return nil, rep, err
	}
	if err := at.minimise(o.Tolerance, o.MaxIterations, l.eval, o.Step); err != nil {
		return nil, rep, err
	}
	x, gradient := at.last()
	rep = logisticReport{Loss: at.Loss, Gradient: largest(gradient), Iterations: at.Iterations, Passes: at.Passes,
		Cached: l.kept}
	rep.Converged = rep.Gradient <= o.Tolerance
	m := &Model{Kind: KindLogistic, Task: Classification, Outputs: k, Spec: s.Spec, Omega: s.Omega, Rows: l.n,
		Lambda:  o.Lambda,
		Weights: dense.Matrix[float64]{Rows: f, Cols: k, Stride: k, Data: x[:f*k]}, Intercept: x[f*k:]}
	if l.phi.white != nil {
		m.Weights = m.Weights.Clone()
		if err := l.phi.white.weights(m.Weights); err != nil {
			return nil, rep, err
		}
	}
	return m, rep, m.validate(f, false)
}

// newLogistic reads the rows once. It counts and checks them and caches as many features as fit into memory.
func newLogistic[T dense.Float](s Setup, rows Rows, o LogisticOptions) (*logistic[T], error) {
	phi, err := newMapper[T](s)
	if err != nil {
		return nil, err
	}
	l := &logistic[T]{setup: s, o: o, rows: rows, phi: phi, tab: kern.Best[T](), tab64: kern.Best[float64]()}
	f := phi.m.OutDim()
	l.w, l.part = dense.New[T](f, s.Outputs), dense.New[T](f, s.Outputs)
	perRow := int64(f) * int64(8)
	if s.Float32 {
		perRow /= 2
	}
	seen := make([]bool, s.Outputs)
	present := 0
	err = rows.Each(s.Block, func(x, y dense.Matrix[float64]) error {
		if err := s.checkBlock(x, y, l.n); err != nil {
			return err
		}
		if l.kept == l.n && (l.kept+int64(x.Rows))*perRow <= o.Memory {
			phi, err := l.features(x, l.n)
			if err != nil {
				return err
			}
			l.cached = append(l.cached, cachedBlock[T]{phi.Clone(), indices(nil, y), l.weights(nil, y)})
			l.kept += int64(x.Rows)
		}
		for _, c := range indices(nil, y) {
			if !seen[c] {
				seen[c] = true
				present++
			}
		}
		l.n += int64(x.Rows)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if l.n == 0 {
		return nil, fmt.Errorf("logistic regression of no rows: %w", ErrNoRows)
	}
	if present < 2 {
		return nil, fmt.Errorf("all %d rows are of one class, want at least two: %w", l.n, ErrClass)
	}
	return l, nil
}

// features returns the features of a block and checks that they are finite; first is the number of its first row.
func (l *logistic[T]) features(x dense.Matrix[float64], first int64) (dense.Matrix[T], error) {
	phi, err := l.phi.queries(x)
	if err != nil {
		return phi, err
	}
	l.sum = buf.Sized(l.sum, phi.Cols)
	clear(l.sum)
	l.tab.ColSum(l.sum, phi)
	for _, v := range l.sum {
		if v-v != 0 {
			return phi, fmt.Errorf("rows %d to %d: features overflow; scale the inputs, or use a bounded family such as "+
				"trig: %w", first, first+int64(x.Rows)-1, dense.ErrNotFinite)
		}
	}
	return phi, nil
}

// indices appends the class indices of y to dst.
func indices(dst []int, y dense.Matrix[float64]) []int {
	for i := range y.Rows {
		dst = append(dst, int(y.At(i, 0)))
	}
	return dst
}

// eval returns the mean loss at x and writes its gradient. Blocks are added in order, so the bits do not depend on the
// number of goroutines.
func (l *logistic[T]) eval(grad, x []float64) (float64, error) {
	f, k := l.w.Rows, l.w.Cols
	for i := range f * k {
		l.w.Data[i] = T(x[i])
	}
	clear(grad)
	sum := 0.0
	for _, b := range l.cached {
		sum += l.block(grad, b.phi, b.y, b.w, x[f*k:])
	}
	if l.kept < l.n {
		first := int64(0)
		var (
			y []int
			w []float64
		)
		err := l.rows.Each(l.setup.Block, func(xb, yb dense.Matrix[float64]) error {
			at := first
			if first += int64(xb.Rows); at < l.kept {
				return nil
			}
			if err := l.setup.checkBlock(xb, yb, at); err != nil {
				return err
			}
			phi, err := l.features(xb, at)
			if err != nil {
				return err
			}
			y, w = indices(y[:0], yb), l.weights(w[:0], yb)
			sum += l.block(grad, phi, y, w, x[f*k:])
			return nil
		})
		if err != nil {
			return 0, err
		}
		if first != l.n {
			return 0, fmt.Errorf("%d rows in this pass, %d in the first: %w", first, l.n, ErrMismatch)
		}
	}
	n := float64(l.n)
	for i, w := range x[:f*k] {
		sum += l.o.Lambda / 2 * float64(w*w)
		grad[i] += l.o.Lambda * w
	}
	l.tab64.Scale(grad, 1/n)
	return sum / n, nil
}

// block returns the loss of the rows phi with classes y and weights w at intercept b, and adds its gradient to grad.
// The product with Φᵀ is in T within the block and is then added to float64 sums.
func (l *logistic[T]) block(grad []float64, phi dense.Matrix[T], y []int, w, b []float64) float64 {
	f, k := l.w.Rows, l.w.Cols
	l.p, l.loss = buf.Shaped(l.p, phi.Rows, k), buf.Sized(l.loss, phi.Rows)
	par.For(phi.Rows, 1+l.tab.Grain/(f*k), func(lo, hi int) {
		l.tab.Product(l.p.RowRange(lo, hi), phi.RowRange(lo, hi), l.w, false)
		for i := lo; i < hi; i++ {
			l.loss[i] = residual(l.p.Row(i), b, y[i], w[i])
		}
	})
	clear(l.part.Data)
	linalg.AddProduct(l.tab, l.part, phi, l.p)
	for i, v := range l.part.Data {
		grad[i] += float64(v)
	}
	sum := 0.0
	for i := range phi.Rows {
		sum += l.loss[i]
		for c, v := range l.p.Row(i) {
			grad[f*k+c] += float64(v)
		}
	}
	return sum
}

// weights appends the weights of rows, times those of their classes, to dst.
func (l *logistic[T]) weights(dst []float64, y dense.Matrix[float64]) []float64 {
	for i := range y.Rows {
		v := l.setup.weight(y, i)
		if l.o.ClassWeights != nil {
			v *= l.o.ClassWeights[int(y.At(i, 0))]
		}
		dst = append(dst, v)
	}
	return dst
}

// residual overwrites z = φ·W with the gradient c·(p − e_y) and returns the loss c·(−log p_y).
func residual[T dense.Float](z []T, b []float64, y int, c float64) float64 {
	top := math.Inf(-1)
	for k, v := range z {
		top = max(top, float64(v)+b[k])
	}
	sum, own := 0.0, 0.0
	for k, v := range z {
		d := float64(v) + b[k] - top
		if k == y {
			own = d
		}
		e := math.Exp(d)
		sum += e
		z[k] = T(e)
	}
	for k := range z {
		z[k] = T(c * float64(z[k]) / sum)
	}
	z[y] -= T(c)
	return c * (math.Log(sum) - own)
}

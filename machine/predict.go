package machine

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Predictor runs a model in float32 or float64. It is immutable; many goroutines may use it, each with its own
// Workspace. The bits of a prediction do not depend on the other rows.
type Predictor[T dense.Float] struct {
	model *Model
	kind  KindInfo
	m     *randfeat.Map[T]
	tab   *kern.Table[T]

	table     dense.Matrix[T] // weights; for kernel averages sums, with a last column for the mass
	intercept []T
	centre    []T             // for a GP: mean feature
	factor    dense.Matrix[T] // for a GP: U⁻¹
	col       []T             // for kernel averages: t_f − top
	top       float64         // largest t_f
}

// NewPredictor validates a model and prepares it. The model must not be changed afterwards.
func NewPredictor[T dense.Float](model *Model) (*Predictor[T], error) {
	m, err := randfeat.NewWithOmega[T](model.Spec, model.Omega)
	if err != nil {
		return nil, err
	}
	if err := model.validate(m.OutDim(), m.Positive()); err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	p := &Predictor[T]{model: model, m: m, tab: tab, intercept: narrow[T](model.Intercept)}
	if p.kind, err = model.Kind.Info(); err != nil {
		return nil, err
	}
	if p.kind.Averages {
		p.prepareSums()
		return p, nil
	}
	p.table = dense.Convert[T](model.Weights)
	if p.kind.Bayesian {
		p.centre, p.factor = narrow[T](model.Centre), dense.Convert[T](model.Factor)
	}
	return p, nil
}

// prepareSums puts S and z side by side and keeps the references relative to their maximum, so that all numbers fit T.
func (p *Predictor[T]) prepareSums() {
	p.top = math.Inf(-1)
	for _, t := range p.model.LogScale {
		p.top = max(p.top, t)
	}
	if math.IsInf(p.top, -1) {
		p.top = 0
	}
	k := p.model.Weights.Cols
	p.table = dense.New[T](len(p.model.LogScale), k+1)
	p.col = make([]T, len(p.model.LogScale))
	for f, t := range p.model.LogScale {
		p.col[f] = T(t - p.top)
		d := p.table.Row(f)
		for j := range k {
			d[j] = T(p.model.Weights.At(f, j))
		}
		d[k] = T(p.model.Mass[f])
	}
}

func narrow[T dense.Float](x []float64) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v)
	}
	return out
}

// Model returns the model, which must not be changed.
func (p *Predictor[T]) Model() *Model { return p.model }

// Workspace is the memory of a Predictor, kept between calls so that they allocate nothing. The zero value is ready; it
// serves one call at a time.
type Workspace[T dense.Float] struct {
	// Workers bounds the goroutines of a call; 0: GOMAXPROCS.
	Workers int

	group   par.Group
	job     predictJob[T]
	workers []*predictWorker[T]
}

// predictJob is one call as its workers see it.
type predictJob[T dense.Float] struct {
	p        *Predictor[T]
	ws       *Workspace[T]
	dst, x   dense.Matrix[T]
	variance bool
}

// predictWorker is the scratch memory of one goroutine, and its first error.
type predictWorker[T dense.Float] struct {
	ws             randfeat.Workspace[T]
	phi, value, uv dense.Matrix[T]
	row, h         []float64
	scores         []float64
	scratch        []T
	err            error
	at             int // row of err
}

// predictRows is the number of rows predicted at a time: their features stay in cache.
const predictRows = 64

// Predict writes one row of dst per row of x: the targets; one score per class, which is a probability for logistic
// models, positive smoothers and calibrated models (Model.Calibration); or the log density. dst is overwritten and must
// not share memory with x. A nil ws allocates one.
func (p *Predictor[T]) Predict(dst, x dense.Matrix[T], ws *Workspace[T]) error {
	return p.run(dst, x, ws, false)
}

// Variance writes the variance of a new observation for every row of x and every output of a GP. The variance of the
// function itself is smaller by Model.Noise.
func (p *Predictor[T]) Variance(dst, x dense.Matrix[T], ws *Workspace[T]) error {
	if !p.kind.Bayesian {
		return fmt.Errorf("variance of a %s model, which has none: %w", p.model.Kind, ErrSetup)
	}
	return p.run(dst, x, ws, true)
}

// run validates the arguments and predicts all rows, or their variances.
func (p *Predictor[T]) run(dst, x dense.Matrix[T], ws *Workspace[T], variance bool) error {
	if x.Cols != p.m.InDim() {
		return fmt.Errorf("x has %d columns, the model takes %d: %w", x.Cols, p.m.InDim(), dense.ErrShape)
	}
	if err := x.Check(); err != nil {
		return fmt.Errorf("x: %w", err)
	}
	if dst.Rows != x.Rows || dst.Cols != p.model.Outputs {
		return fmt.Errorf("dst is %d×%d, want %d×%d: %w", dst.Rows, dst.Cols, x.Rows, p.model.Outputs, dense.ErrShape)
	}
	if err := dst.Check(); err != nil {
		return fmt.Errorf("dst: %w", err)
	}
	if ws == nil {
		ws = new(Workspace[T])
	}
	work := p.m.OutDim() * (x.Cols + p.table.Cols)
	if variance {
		work = p.m.OutDim() * p.m.OutDim()
	}
	workers := par.Workers(x.Rows, 1+p.tab.Grain/work)
	if ws.Workers > 0 {
		workers = min(workers, ws.Workers)
	}
	for len(ws.workers) < workers {
		w := new(predictWorker[T])
		w.ws.Workers = 1
		ws.workers = append(ws.workers, w)
	}
	for _, w := range ws.workers {
		w.err = nil
	}
	ws.job = predictJob[T]{p, ws, dst, x, variance}
	ws.group.Do(x.Rows, workers, &ws.job)
	ws.job = predictJob[T]{}
	// Report the first row in error, whichever goroutine found it: the error does not depend on scheduling.
	var first *predictWorker[T]
	for _, w := range ws.workers {
		if w.err != nil && (first == nil || w.at < first.at) {
			first = w
		}
	}
	if first != nil {
		return first.err
	}
	return nil
}

// Run predicts rows lo to hi−1.
func (j *predictJob[T]) Run(worker, lo, hi int) {
	w := j.ws.workers[worker]
	for ; lo < hi; lo += predictRows {
		end := min(lo+predictRows, hi)
		at, err := j.p.chunk(w, j.dst.RowRange(lo, end), j.x.RowRange(lo, end), j.variance)
		if err != nil && (w.err == nil || lo+at < w.at) {
			w.at = lo + at
			w.err = located(j.x, w.at, err)
		}
	}
}

// located adds the row of x to an error.
func located[T dense.Float](x dense.Matrix[T], at int, err error) error {
	var bad *dense.NotFiniteError
	if errors.As(err, &bad) {
		bad.Row = at
		return fmt.Errorf("x: %w", bad)
	}
	return fmt.Errorf("x: row %d: %w", at, err)
}

var errOverflow = fmt.Errorf("the prediction overflows, the input is too far from the training data: %w",
	dense.ErrNotFinite)

// chunk predicts a few rows. With an error it returns the index of the row that caused it.
func (p *Predictor[T]) chunk(w *predictWorker[T], dst, x dense.Matrix[T], variance bool) (int, error) {
	w.phi = buf.Shaped(w.phi, x.Rows, p.m.OutDim())
	var err error
	switch {
	case p.kind.Averages:
		err = p.kernelSums(w, dst, x)
	default:
		if err = p.m.Queries(w.phi, nil, x, &w.ws); err != nil {
			break
		}
		if variance {
			p.variance(w, dst)
		} else {
			p.linear(w.phi, dst)
		}
	}
	if err != nil {
		var bad *dense.NotFiniteError
		if errors.As(err, &bad) {
			return bad.Row, err
		}
		for i := range x.Rows { // the map refused an input as too large: find the row
			if p.tab.Norm2(x.Row(i)) > 1e30 {
				return i, err
			}
		}
		return 0, err
	}
	for i := range dst.Rows {
		for _, v := range dst.Row(i) {
			if d := v - v; d != d && p.model.Task != Unsupervised {
				return i, errOverflow
			}
		}
	}
	if p.model.Calibrated() {
		p.calibrate(w, dst)
	}
	return 0, nil
}

// calibrate turns scores into probabilities, in float64.
func (p *Predictor[T]) calibrate(w *predictWorker[T], dst dense.Matrix[T]) {
	w.scores = buf.Sized(w.scores, dst.Cols)
	for i := range dst.Rows {
		d := dst.Row(i)
		for k, v := range d {
			w.scores[k] = float64(v)
		}
		p.model.Calibrate(w.scores)
		for k, v := range w.scores {
			d[k] = T(v)
		}
	}
}

// linear writes φ·w + intercept, or its softmax.
func (p *Predictor[T]) linear(phi, dst dense.Matrix[T]) {
	p.tab.Product(dst, phi, p.table, false)
	for i := range dst.Rows {
		d := dst.Row(i)
		for k, b := range p.intercept {
			d[k] += b
		}
		if p.kind.softmax {
			softmax(p.tab, d)
		}
	}
}

// softmax overwrites logits with probabilities.
func softmax[T dense.Float](tab *kern.Table[T], d []T) {
	tab.Scale(d, 1/tab.ExpSum(d, tab.Max(d)))
}

// variance writes v·(1 + 1/n + h) for every row and output, h = (φ−μ)ᵀ(C+λI)⁻¹(φ−μ): noise, uncertainty of the
// intercept, and uncertainty of the weights.
func (p *Predictor[T]) variance(w *predictWorker[T], dst dense.Matrix[T]) {
	for i := range w.phi.Rows {
		d := w.phi.Row(i)
		for j, c := range p.centre {
			d[j] -= c
		}
	}
	rows := float64(p.model.Rows)
	if p.model.Weight > 0 {
		rows = p.model.Weight
	}
	w.h = buf.Sized(w.h, w.phi.Rows)
	leverages(p.tab, w.h, w.phi, p.factor, &w.scratch)
	for i := range dst.Rows {
		for k, v := range p.model.Noise {
			dst.Row(i)[k] = T(v * (1 + 1/rows + w.h[i]))
		}
	}
}

// kernelSums predicts smoothers and densities. The features of a row are scaled so that the largest product with the
// references of the sums is 1: nothing overflows, and whatever underflows is negligible.
func (p *Predictor[T]) kernelSums(w *predictWorker[T], dst, x dense.Matrix[T]) error {
	var value dense.Matrix[T] // not w.value itself: the worker may have served a signed map before
	if p.m.Signed() {
		w.value = buf.Shaped(w.value, x.Rows, p.m.OutDim())
		value = w.value
	}
	w.row = buf.Sized(w.row, x.Rows)
	if err := p.m.LogQueries(w.phi, value, w.row, x, &w.ws); err != nil {
		return err
	}
	for i := range x.Rows {
		e := w.phi.Row(i)
		p.tab.MulAdd(e, p.col, 1)
		r := p.tab.FlushMax(e)
		if math.IsInf(float64(r), -1) {
			clear(e)
		} else {
			p.tab.Exp(e, r)
		}
		if p.m.Signed() {
			p.tab.Mul(e, w.value.Row(i))
		}
		p.tab.FlushMax(e)
		w.row[i] += float64(r)
	}
	k := p.table.Cols - 1
	w.uv = buf.Shaped(w.uv, x.Rows, k+1)
	p.tab.Product(w.uv, w.phi, p.table, false)
	for i := range x.Rows {
		d, s := dst.Row(i), w.uv.Row(i)
		den := s[k]
		if p.model.Task == Unsupervised {
			d[0] = T(math.Log(float64(den)) + w.row[i] + p.top - math.Log(float64(p.model.Rows)))
			continue
		}
		p.average(d, s[:k], den)
	}
	return nil
}

// average turns the sums Σ_j w_j y_j and Σ_j w_j of the kernel weights of a row into the estimate. Features of both
// signs may make weights negative. If their sum is negative, a quotient would turn the largest class into the smallest,
// so classes come from the numerators: negative ones count as 0, and if all are negative, the least negative one wins.
// Either way the largest wins, and the estimates lie between 0 and 1 with sum 1. Targets have no such order: without a
// positive weight the estimate is their mean.
func (p *Predictor[T]) average(d, s []T, den T) {
	if p.model.Task == Classification && !p.m.Positive() {
		above, below := T(0), T(0)
		for _, v := range s {
			above, below = above+max(v, 0), below-min(v, 0)
		}
		for j, v := range s {
			if s[j] = max(v, 0); above == 0 {
				s[j] = below + v
			}
		}
		if den = above; above == 0 {
			den = T(len(s)-1) * below
		}
	}
	for j := range d {
		if d[j] = s[j] / den; !(den > 0) || d[j]-d[j] != 0 {
			copy(d, p.intercept)
			return
		}
	}
}

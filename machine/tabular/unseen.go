package tabular

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// weighted returns the rows of the frame in the columns of the model.
func (f *final) weighted() matrix {
	if f.d.Fields == nil {
		return f.f.s.x
	}
	x := f.f.s.x.Clone()
	weigh(x, f.columnWeights(f.d.Fields))
	return x
}

// leftOut predicts each row of the frame by all rows of the table but itself, in closed form.
func (f *final) leftOut() ([]unseen, error) {
	total, err := f.sums.merged(-1)
	if err != nil {
		return nil, err
	}
	r, ok := total.(leaver)
	if !ok {
		return nil, fmt.Errorf("sums of a %s model leave no rows out: %w", f.kind, machine.ErrSetup)
	}
	pred, spread, err := r.LeftOut(f.weighted(), f.f.s.y, f.model.Lambda)
	if err != nil {
		return nil, err
	}
	u := unseen{rows: seq(pred.Rows), fold: make([]int, pred.Rows), folds: 1, pred: pred}
	if len(f.model.Noise) > 0 {
		u.variance = dense.New[float64](pred.Rows, pred.Cols)
		for i := range pred.Rows {
			for k, v := range f.model.Noise {
				u.variance.Set(i, k, v*(1+spread[i]))
			}
		}
	}
	return []unseen{u}, nil
}

// foldsOut predicts the rows of the frame by the sums of the folds that they are not in.
func (f *final) foldsOut() ([]unseen, error) {
	x, u := f.weighted(), unseen{folds: f.f.folds}
	if len(f.sums.parts) != f.f.folds { // the rows of the sample stand for all
		setup, err := f.d.setup(f.job)
		if err != nil {
			return nil, err
		}
		if f.sums, err = (&featureSearch{frame: f.f, x: x}).foldSums(f.kind, setup); err != nil {
			return nil, err
		}
	}
	err := f.f.outOfFold(f.sums, func(k int, rest machine.Sums, rows []int) error {
		pred, variance, err := predictSums(rest, f.model.Lambda, f.o.Lambda == 0, pick(x, rows))
		if err != nil {
			return fmt.Errorf("model without fold %d: %w", k+1, err)
		}
		for at, i := range rows {
			u.rows, u.fold = append(u.rows, i), append(u.fold, k)
			u.pred = appendRow(u.pred, pred.Row(at))
			if variance.Rows > 0 {
				u.variance = appendRow(u.variance, variance.Row(at))
			}
		}
		return f.ctx.Err()
	})
	if err != nil || len(u.rows) == 0 {
		return nil, err
	}
	return []unseen{u}, nil
}

// learnFrom are the rows that a model which predicts a fold learns from.
type learnFrom struct {
	machine.Rows
	deal        *dealer
	fold, parts int
}

func (r learnFrom) Each(block int, use func(x, y matrix) error) error {
	first := int64(0)
	return r.Rows.Each(block, func(x, y matrix) error {
		var rows []int
		for i := range x.Rows {
			at := first + int64(i)
			if r.deal.learns(r.deal.of(at, r.parts), r.fold) && !(r.deal.ordered() && r.deal.near(at, r.fold,
				r.parts)) {
				rows = append(rows, i)
			}
		}
		first += int64(x.Rows)
		if len(rows) == 0 {
			return nil
		}
		return use(pick(x, rows), pick(y, rows))
	})
}

// restOf returns the rows of the table that a model which predicts a fold learns from, and the rows of the fold in the
// frame.
func (f *final) restOf(of *frame, deal, k int) (rows machine.Rows, held []int, n int64) {
	held, from := of.rows(deal, k)
	if len(held) == 0 || len(from) < 2 || f.deal.horizon > 0 && len(from) < leastBefore {
		return nil, nil, 0
	}
	rest := learnFrom{f.watch(f.rows, stageScore), f.deal, k, of.folds}
	for i := range f.d.Rows {
		if f.deal.learns(f.deal.of(i, of.folds), k) {
			n++
		}
	}
	return rest, held, n
}

// predictBy predicts rows of the frame.
func (f *final) predictBy(m *machine.Model, held []int) (matrix, []int, error) {
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return matrix{}, nil, err
	}
	out := dense.New[float64](len(held), m.Outputs)
	return out, held, p.Predict(out, pick(f.weighted(), held), nil)
}

// logisticWithout predicts a fold by logistic regression on the others.
func (f *final) logisticWithout(of *frame, deal, k int) (matrix, []int, error) {
	rows, held, _ := f.restOf(of, deal, k)
	if held == nil {
		return matrix{}, nil, nil
	}
	m, _, err := machine.FitLogistic(f.setup(f.d.Spec), rows, machine.LogisticOptions{Lambda: f.d.Lambda,
		Tolerance: logisticTol, MaxIterations: logisticSteps,
		Step: func(*machine.LogisticState) error { return f.ctx.Err() }})
	if err != nil {
		return matrix{}, nil, err
	}
	return f.predictBy(m, held)
}

// largeWithout predicts a fold by conjugate gradients on the others.
func (f *final) largeWithout(of *frame, deal, k int) (matrix, []int, error) {
	rows, held, n := f.restOf(of, deal, k)
	if held == nil {
		return matrix{}, nil, nil
	}
	m, _, err := f.solveLarge(rows, n)
	if err != nil {
		return matrix{}, nil, err
	}
	return f.predictBy(m, held)
}

const (
	largeTolerance = 1e-3
	largeSteps     = 50
	// heldCells is the largest number of matrix elements that are kept in memory for the passes of conjugate gradients,
	// 1 GiB. A larger table is read again in every pass.
	heldCells = 1 << 27
)

// largeSketch is the number of rows of the preconditioner; 0 means the default. It is a variable for tests.
var largeSketch = 0

// fitLarge solves by conjugate gradients and notes the number of passes, the residual and the memory.
func (f *final) fitLarge(rows machine.Rows) (*machine.Model, error) {
	if !f.fitsMemory(rows) {
		f.log.note("the table is read again in every pass: it has more than %d numbers", heldCells)
	}
	m, done, err := f.solveLarge(rows, f.d.Rows)
	if err != nil {
		return nil, err
	}
	f.log.note("%d features by conjugate gradients: %d passes over the rows, residual %.1g, a preconditioner of %d rows, %d "+
		"MiB; a factorisation would need %d MiB", m.Weights.Rows, done.Steps+1, done.Residual, done.Sketch,
		done.Bytes>>20, 16*int64(m.Weights.Rows)*int64(m.Weights.Rows)>>20)
	if !done.Converged {
		f.log.note("conjugate gradients have not converged: the weights are between those of this λ and of a larger one; give a "+
			"larger λ than %s", short(f.d.Lambda))
	}
	return m, nil
}

// solveLarge fits n rows by conjugate gradients.
func (f *final) solveLarge(rows machine.Rows, n int64) (*machine.Model, machine.Iterations, error) {
	if f.fitsMemory(rows) {
		var err error
		if rows, err = f.inMemory(rows, int(n)); err != nil {
			return nil, machine.Iterations{}, err
		}
	}
	return machine.FitIterative(f.setup(f.d.Spec), rows, f.d.Lambda, machine.Iterative{
		Tolerance: largeTolerance, Steps: largeSteps, Sketch: largeSketch,
		Progress: func(step int, _ float64) error {
			f.progress("steps", int64(step), 0)
			return f.ctx.Err()
		}})
}

// fitsMemory reports whether all rows are kept in memory for the passes over them.
func (f *final) fitsMemory(rows machine.Rows) bool {
	return f.d.Rows <= heldCells/int64(rows.Dim()+rows.Outputs())
}

// inMemory reads about n rows into memory.
func (f *final) inMemory(rows machine.Rows, n int) (machine.Rows, error) {
	x, y := matrix{Data: make([]float64, 0, n*rows.Dim())}, matrix{Data: make([]float64, 0, n*rows.Outputs())}
	err := rows.Each(f.o.Block, func(bx, by matrix) error {
		for i := range bx.Rows {
			x, y = appendRow(x, bx.Row(i)), appendRow(y, by.Row(i))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return machine.MatrixRows(x, y)
}

// stateDensity sets the quantiles of a density from rows that were predicted without their fold, which make anomalies
// comparable, and returns its score: every row raises the density at its own place.
func (f *frame) stateDensity(m *machine.Model, all []unseen) (out stated, err error) {
	var scores machine.Calibration
	e, err := m.Evaluation()
	if err != nil {
		return out, err
	}
	u := all[0]
	for at := range u.rows {
		scores.Add(u.pred.At(at, 0))
		var w []float64
		if f.s.weighted {
			w = []float64{f.s.weight(u.rows[at])}
		}
		p := matrix{Rows: 1, Cols: 1, Stride: 1, Data: []float64{m.LogDensity(u.pred.At(at, 0))}}
		if err := e.AddWeighted(matrix{Rows: 1}, p, matrix{}, w); err != nil {
			return out, err
		}
	}
	m.Quantiles = scores.Quantiles()
	if f.o.Folds != 1 {
		out.scores = e.Scores()
	}
	return out, nil
}

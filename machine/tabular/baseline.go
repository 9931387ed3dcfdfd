package tabular

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// linearWidth is the largest number of columns of the linear model: its sums are a square matrix of this size.
const linearWidth = 2048

// compare scores simple methods on the rows that state the score of the model, fitted without the same folds.
func (f *frame) compare(m *machine.Model, all []unseen, log *journal) ([]Compared, error) {
	d := &dealt{u: all[0], weights: f.scoreWeights(all[0].rows)}
	d.y, d.pred, d.variance = f.original(all[0])
	plain := *m
	plain.Calibration = nil
	if err := f.calibrate(&plain, []*dealt{d}); err != nil {
		return nil, err
	}
	about := "models without the rows that they are scored on"
	if f.plain() && d.u.folds > 1 {
		about = fmt.Sprintf("models of %.3g %% of the rows, scored on other rows", 100-100/float64(d.u.folds))
	}
	if f.deal.marks != nil && f.deal.marks.Weight != nil {
		about += "; differences ignore the weights of rows"
	}
	parts, err := f.evaluations(m, d)
	if err != nil {
		return nil, err
	}
	_, scores, err := f.scoresOf(parts)
	if err != nil {
		return nil, err
	}
	likely := d.pred
	if d.likely.Rows > 0 {
		likely = d.likely
	}
	kernel, err := f.lossesOf(d.y, likely)
	if err != nil {
		return nil, err
	}
	out := []Compared{{Name: "kernel", About: about, Scores: scores}}
	simple := Compared{Name: "mean", About: "the mean target of the other folds"}
	if f.classes() {
		simple = Compared{Name: "most frequent class",
			About: "the most frequent class of the other folds; probabilities are their frequencies"}
	}
	for i, c := range []Compared{simple, {Name: "linear",
		About: "ridge regression on the encoded columns, penalty by generalised cross-validation"}} {
		pred, ok := f.linear(d.u, i == 1)
		if !ok {
			log.note("no linear model to compare with: more than %d encoded columns", linearWidth)
			continue
		}
		of := unseen{rows: d.u.rows, fold: d.u.fold, folds: d.u.folds, pred: pred}
		e := &dealt{u: of, weights: d.weights}
		e.y, e.pred, _ = f.original(of)
		if c.Scores, err = f.simpleScores(e); err != nil {
			return nil, err
		}
		losses, err := f.lossesOf(e.y, e.pred)
		if err != nil {
			return nil, err
		}
		if c.Kernel, err = losses.Differences(kernel); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func (f *frame) lossesOf(y, pred matrix) (*machine.Losses, error) {
	l, err := machine.NewLosses(f.task, f.outputs)
	if err == nil {
		err = l.Add(y, pred)
	}
	return l, err
}

// simpleScores scores predictions as those of a kind with probabilities, if scores of classes are some.
func (f *frame) simpleScores(d *dealt) ([]machine.Score, error) {
	kinds := machine.KindsOf(f.task)
	kind := kinds[max(0, slices.IndexFunc(kinds, func(k machine.Kind) bool {
		info, err := k.Info()
		return err == nil && info.Probabilities
	}))]
	parts := make([]*machine.Evaluation, d.u.folds)
	for at := range d.u.rows {
		e := &parts[d.u.fold[at]]
		if *e == nil {
			*e = machine.NewEvaluation(kind, f.task, f.outputs)
		}
		var w []float64
		if d.weights != nil {
			w = d.weights[at : at+1]
		}
		if err := (*e).AddWeighted(rowOf(d.y, at), rowOf(d.pred, at), matrix{}, w); err != nil {
			return nil, err
		}
	}
	_, scores, err := f.scoresOf(slices.DeleteFunc(parts, func(e *machine.Evaluation) bool { return e == nil }))
	return scores, err
}

// linear predicts rows by the mean target of the rows outside their fold, and with a linear model of the columns if
// asked. It returns false if there are too many columns.
func (f *frame) linear(u unseen, columns bool) (matrix, bool) {
	out := dense.New[float64](len(u.rows), f.outputs)
	for k := range u.folds {
		if !slices.Contains(u.fold, k) {
			continue
		}
		x := f.base(k)
		sums := newLinearSums(min(x.Cols, linearWidth+1), f.outputs)
		_, from := f.rows(0, k)
		for _, i := range from {
			sums.add(x.Row(i), f.s.t.Row(i), f.s.weight(i))
		}
		model, ok := sums.solve()
		if columns && !ok {
			return out, false
		}
		for at, i := range u.rows {
			if u.fold[at] != k {
				continue
			}
			copy(out.Row(at), sums.mean)
			if columns {
				model.add(out.Row(at), x.Row(i))
			}
		}
	}
	return out, true
}

// linearSums are the sums of least squares, centred at the means of columns and targets.
type linearSums struct {
	n        float64
	dim      int
	x, mean  []float64 // means of columns and of targets
	xx       *mat.SymDense
	xt       *mat.Dense
	tt       []float64
	too      bool // too many columns
	dx, left []float64
}

func newLinearSums(dim, outputs int) *linearSums {
	s := &linearSums{dim: dim, mean: make([]float64, outputs), tt: make([]float64, outputs), too: dim > linearWidth}
	if !s.too {
		s.x, s.dx, s.xx, s.xt = make([]float64, dim), make([]float64, dim), mat.NewSymDense(dim, nil), mat.NewDense(dim,
			outputs, nil)
	}
	return s
}

// add adds a row of weight w (Welford's update, for products).
func (s *linearSums) add(x, t []float64, w float64) {
	if w == 0 {
		return
	}
	s.n += w
	s.left = append(s.left[:0], t...)
	for o, v := range t {
		s.left[o] = v - s.mean[o]
		s.mean[o] += s.left[o] * w / s.n
		s.tt[o] += w * s.left[o] * (v - s.mean[o])
	}
	if s.too {
		return
	}
	for j, v := range x {
		s.dx[j] = v - s.x[j]
		s.x[j] += s.dx[j] * w / s.n
	}
	// Σw(x−x̄)(x−x̄)ᵀ grows by w·(1 − w/n)·δδᵀ, where δ is the difference from the previous mean.
	by := w * (1 - w/s.n)
	raw, stride := s.xx.RawSymmetric().Data, s.xx.RawSymmetric().Stride
	for j, v := range s.dx {
		if v == 0 {
			continue
		}
		row := raw[j*stride+j : j*stride+s.dim]
		for k, u := range s.dx[j:] {
			row[k] += by * v * u
		}
		for o, d := range s.left {
			s.xt.Set(j, o, s.xt.At(j, o)+by*v*d)
		}
	}
}

// linearModel predicts the mean plus a linear function of the columns.
type linearModel struct {
	mean []float64
	w    *mat.Dense
}

func (m *linearModel) add(pred, x []float64) {
	for j, v := range x {
		if d := v - m.mean[j]; d != 0 {
			for o := range pred {
				pred[o] += d * m.w.At(j, o)
			}
		}
	}
}

// solve chooses the λ with the least generalised cross-validation error (Golub, Heath & Wahba 1979, "Generalized
// cross-validation as a method for choosing a good ridge parameter", Technometrics 21), from the eigenvalues of XᵀX.
// It returns false if there are too many columns or no solution.
func (s *linearSums) solve() (*linearModel, bool) {
	if s.too || s.n == 0 {
		return nil, false
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(s.xx, true) {
		return nil, false
	}
	values := eigen.Values(nil)
	var v, c mat.Dense
	eigen.VectorsTo(&v)
	c.Mul(v.T(), s.xt)
	top := max(slices.Max(values), math.SmallestNonzeroFloat64)
	best, at := math.Inf(1), top
	for e := -8.0; e <= 4; e += 0.5 {
		lambda := top * math.Pow(10, e)
		df, rss := 1.0, 0.0
		for _, t := range s.tt {
			rss += t
		}
		for j, d := range values {
			d = max(d, 0)
			df += d / (d + lambda)
			for o := range s.tt {
				rss -= c.At(j, o) * c.At(j, o) * (d + 2*lambda) / ((d + lambda) * (d + lambda))
			}
		}
		if df >= s.n {
			continue
		}
		if g := max(rss, 0) / ((1 - df/s.n) * (1 - df/s.n)); g < best {
			best, at = g, lambda
		}
	}
	for j, d := range values {
		for o := range s.tt {
			c.Set(j, o, c.At(j, o)/(max(d, 0)+at))
		}
	}
	w := new(mat.Dense)
	w.Mul(&v, &c)
	return &linearModel{s.x, w}, true
}

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

// baselines are simple methods, scored fold by fold beside the model.
type baselines struct {
	methods []*baseline
	kernel  *machine.Losses
}

type baseline struct {
	name, about string
	parts       []*machine.Evaluation
	losses      *machine.Losses
	lost        bool // it could not be fitted to a fold
}

func newBaselines(j *job) (*baselines, error) {
	if !j.o.Compare {
		return nil, nil
	}
	simple := &baseline{name: "mean", about: "the mean target of the other folds"}
	if j.task == machine.Classification {
		simple = &baseline{name: "most frequent class",
			about: "the most frequent class of the other folds; probabilities are their frequencies"}
	}
	b := &baselines{methods: []*baseline{simple, {name: "linear",
		about: "ridge regression on the encoded columns, penalty by generalised cross-validation"}}}
	var err error
	if b.kernel, err = machine.NewLosses(j.task, j.outputs); err != nil {
		return nil, err
	}
	for _, m := range b.methods {
		if m.losses, err = machine.NewLosses(j.task, j.outputs); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// fold fits the methods to the rows of sub and scores them on the fold that m is scored on.
func (b *baselines) fold(sub *job, m *machine.Model, fold foldSource, weights shares) error {
	plain := sub.withSchema(unweighted(sub.schema)) // columns in their own units, not in those of a kernel
	rows, err := plain.trainingRows(sub.src)
	if err != nil {
		return err
	}
	sums := newLinearSums(min(plain.schema.Width(), linearWidth+1), sub.outputs)
	first := int64(0)
	err = rows.Each(sub.o.Block, func(x, y dense.Matrix[float64]) error {
		t := indicators(sub.task, sub.outputs, y)
		for i := range x.Rows {
			w := 1.0
			if sub.weights != nil {
				w = sub.weights[first+int64(i)]
			}
			sums.add(x.Row(i), t.Row(i), w)
		}
		first += int64(x.Rows)
		return sub.ctx.Err()
	})
	if err != nil {
		return err
	}
	linear, ok := sums.solve()
	if !ok {
		b.methods[1].lost = true
	}
	reads := *m
	reads.Schema = unweighted(m.Schema)
	held, err := machine.ModelRows(fold, &reads, true, nil)
	if err != nil {
		return err
	}
	// Of a kind with probabilities, scores of classes count as probabilities if they are, as in machine.Losses.
	kinds := machine.KindsOf(sub.task)
	kind := kinds[max(0, slices.IndexFunc(kinds, func(k machine.Kind) bool {
		info, err := k.Info()
		return err == nil && info.Probabilities
	}))]
	evals := make([]*machine.Evaluation, len(b.methods))
	for i := range evals {
		evals[i] = machine.NewEvaluation(kind, sub.task, sub.outputs)
	}
	var pred dense.Matrix[float64]
	err = held.Each(sub.o.Block, func(x, y dense.Matrix[float64]) error {
		w := weights.next(y.Rows)
		for i, one := range b.methods {
			if one.lost {
				continue
			}
			pred = dense.New[float64](x.Rows, sub.outputs)
			for r := range x.Rows {
				copy(pred.Row(r), sums.mean)
				if i == 1 {
					linear.add(pred.Row(r), x.Row(r))
				}
			}
			if err := evals[i].AddWeighted(y, pred, dense.Matrix[float64]{}, w); err != nil {
				return err
			}
			if err := one.losses.Add(y, pred); err != nil {
				return err
			}
		}
		return sub.ctx.Err()
	})
	for i, one := range b.methods {
		one.parts = append(one.parts, evals[i])
	}
	return err
}

// compared returns the scores of the kernel machine and of all methods on the scored rows. parts are those of the
// kernel machine.
func (b *baselines) compared(j *job, parts []*machine.Evaluation, log *journal) ([]Compared, error) {
	about := "models without the rows that they are scored on"
	if n := j.total; !j.deal.grouped() && !j.deal.ordered() && !j.thins(n) && !j.subsamples(n) {
		about = fmt.Sprintf("models of %.3g %% of the rows, scored on other rows", 100-100/float64(j.o.Folds))
	}
	if j.deal.marks != nil && j.deal.marks.Weight != nil {
		about += "; differences ignore the weights of rows"
	}
	_, scores, err := scoresOf(j, parts)
	if err != nil {
		return nil, err
	}
	out := []Compared{{Name: "kernel", About: about, Scores: scores}}
	for _, one := range b.methods {
		if one.lost {
			log.note("no linear model to compare with: more than %d encoded columns", linearWidth)
			continue
		}
		_, scores, err := scoresOf(j, one.parts)
		if err != nil {
			return nil, err
		}
		kernel, err := one.losses.Differences(b.kernel)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		out = append(out, Compared{Name: one.name, About: one.about, Scores: scores, Kernel: kernel})
	}
	return out, nil
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

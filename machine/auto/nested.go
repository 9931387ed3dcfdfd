package auto

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// nestedRows are enough for a score: folds beyond them are not scored, which would take as long as all choices again.
const nestedRows = 1000

// nests reports whether the score is that of the sample, every fold by a model whose choices were made without it:
// where all rows are in the sample and choices were tried on them, and where sums of folds do not exist.
func (f *fit) nests() bool {
	return f.o.Folds > 1 && (!f.info.Summed() || f.decision.Tried && f.decision.Rows == int64(f.decision.Sampled))
}

// nested scores the sample by nested cross-validation. The out-of-fold error of the best of many settings is an
// optimistic one, the more so the fewer rows: with 60 rows the true RMSE was 1.27 times that stated (Cawley & Talbot
// 2010, "On over-fitting in model selection and subsequent selection bias in performance evaluation", JMLR 11, §5). So
// the rows of a fold are predicted by a model all of whose choices were made on the others, by the same procedure. The
// score is that of the procedure on fewer rows.
//
// In the folds: median distance, family with its parameters, s, F, λ and the weights. Not in them: the schema (see
// learn) and the projections' seed. Folds may choose differently; their spread is in the intervals
// (machine.ScoresOfModels). It costs all choices again per fold that is scored.
func (f *fit) nested(s *sample) error {
	var parts []*machine.Evaluation // of the folds
	scored := int64(0)
	for k := range s.folds() {
		lo, hi := s.fold(k)
		if lo == hi {
			continue
		}
		if scored >= nestedRows {
			break
		}
		m, err := f.chosenModel(s.without(k))
		if err != nil {
			return fmt.Errorf("cross-validation without fold %d: %w", k+1, err)
		}
		part, err := m.Evaluation()
		if err != nil {
			return err
		}
		if err := f.judge(part, m, s, lo, hi); err != nil {
			return err
		}
		parts = append(parts, part)
		scored += part.Len()
		f.progress(stageScore, scored, int64(s.len()))
	}
	e, scores, err := machine.ScoresOfModels(parts)
	if err != nil {
		return err
	}
	f.report.Scores, f.report.Confusion = scores, e.Confusion()
	f.report.ScoredOn = fmt.Sprintf("all rows, %d folds, choices made without each", len(parts))
	if scored < f.decision.Rows {
		f.report.ScoredOn = fmt.Sprintf("%d rows of %d of %d folds, choices made without each", scored, len(parts),
			s.folds())
	}
	if f.decision.Rows > int64(s.len()) {
		f.note("the score is of models of %d rows: that of all %d is likely to be better", s.len()-s.len()/s.folds(),
			f.decision.Rows)
	}
	return nil
}

// chosenModel makes all choices on a sample and fits all of it, as if it were the table. Its choices and their notes
// are not reported: those of the model are.
func (f *fit) chosenModel(s *sample) (*machine.Model, error) {
	quiet := *f
	quiet.o.Progress = nil
	d, err := quiet.choose(s, int64(s.len()))
	if err != nil {
		return nil, err
	}
	setup := f.setup(d.Spec)
	if setup.Omega, err = randfeat.Draw(d.Spec); err != nil {
		return nil, err
	}
	if !f.info.Summed() {
		return f.logisticModel(s, setup, d.Lambda)
	}
	sums, err := machine.NewSums(f.kind, setup)
	if err != nil {
		return nil, err
	}
	if err := sums.Add(s.x, s.y); err != nil {
		return nil, err
	}
	if path, ok := sums.(pather); ok && d.Open && f.task == machine.Regression {
		ch, err := pathPenalty(path, f.info.Bayesian, d.Lambda, f.outputs)
		if err != nil {
			return nil, err
		}
		d.Lambda = ch.Number
	}
	return f.solved(sums, d.Lambda)
}

// judge adds rows lo to hi−1 of the sample, predicted by m, to e.
func (f *fit) judge(e *machine.Evaluation, m *machine.Model, s *sample, lo, hi int) error {
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return err
	}
	x, y := s.x.RowRange(lo, hi), s.y.RowRange(lo, hi)
	pred := dense.New[float64](x.Rows, max(f.outputs, 1))
	if err := p.Predict(pred, x, nil); err != nil {
		return err
	}
	var variance dense.Matrix[float64]
	if f.info.Bayesian {
		variance = dense.New[float64](x.Rows, f.outputs)
		if err := p.Variance(variance, x, nil); err != nil {
			return err
		}
	}
	truth := f.original(dense.Matrix[float64]{}, y, pred, variance)
	for i := 0; f.task == machine.Unsupervised && i < pred.Rows; i++ {
		pred.Set(i, 0, m.LogDensity(pred.At(i, 0)))
	}
	return e.Add(truth, pred, variance)
}

package auto

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// decide makes all choices on the sample of n rows.
func (f *fit) decide(s *sample, n int64) error {
	if f.choosesApart(n) {
		if done, err := f.chooseApart(s, n); err != nil || done {
			return err
		}
	}
	scaling, err := f.chooseScaling(s, n)
	if err != nil {
		return err
	}
	f.decision, err = f.choose(s, n)
	if err == nil && scaling != nil {
		f.decision.Choices = slices.Insert(f.decision.Choices, 1, *scaling)
		f.decision.Tried = f.decision.Tried || !scaling.Given
	}
	return err
}

// apartRows are outside a fold whose fit chooses for all: as many as a search looks at. A variable for tests with
// fewer.
var apartRows = int64(lastRows)

// choosesApart reports whether choices are made once, by the fit that is scored, on the rows outside its fold: a search
// of an exact kernel looks at lastRows at most, and there are as many without the fold. What is chosen there has seen
// nothing of the rows that judge it, and is as good for all rows as another choice by as many.
func (f *fit) choosesApart(n int64) bool {
	return !f.inner && f.o.Folds > 1 && !f.deal.grouped() && !f.deal.ordered() &&
		(n <= int64(f.exactLimit()) || f.o.Features > maxFeatures) && n*int64(f.o.Folds-1) >= apartRows*int64(f.o.Folds)
}

// chooseApart takes the choices of the first fit that is scored. Its columns need not be those of all rows; widths go
// by name. It reports whether they could be taken.
func (f *fit) chooseApart(s *sample, n int64) (bool, error) {
	sub, err := f.leaving(f.scoredParts()[0], n)
	if err != nil {
		return false, err
	}
	sub.o.Progress = func(stage string, done, total int64) {
		if stage == stageChoose {
			f.progress(stage, done, total)
		}
	}
	if err := sub.begin(); err != nil {
		return false, fmt.Errorf("choices without fold %d: %w", f.scoredParts()[0]+1, err)
	}
	sub.o.Progress = nil
	d := *sub.decision
	if !(d.Exact || d.Large) || sub.task != f.task {
		return false, nil
	}
	if d.Spec.Dim = s.x.Cols; d.Exact {
		d.Spec.M = s.len()
	}
	d.Rows, d.Sampled, d.Last = n, s.len(), s.last
	d.Choices = slices.Clone(d.Choices)
	d.Notes = append(slices.Clone(d.Notes), fmt.Sprintf("choices were made on the %d rows outside the fold that judges "+
		"them", sub.decision.Rows))
	if f.weighs {
		weights := make([]float64, len(f.schema.Fields))
		for i := range weights {
			weights[i] = weightOf(sub.schema, &f.schema.Fields[i])
		}
		f.setWeights(s, weights)
	}
	f.decision, f.apart = &d, sub
	return true, nil
}

// weightOf is the weight of a field in another schema; 1 if it is not there.
func weightOf(s *data.Schema, field *data.Field) float64 {
	for i := range s.Fields {
		if o := &s.Fields[i]; o.Name == field.Name && o.Kind == field.Kind && o.Weight > 0 {
			return o.Weight
		}
	}
	return 1
}

// leaving is a fit of the rows outside fold k of n rows, as if they were the table.
func (f *fit) leaving(k int, n int64) (*fit, error) {
	rest := foldSource{Source: f.src, deal: f.deal, k: k, parts: f.deal.parts(f.o.Folds)}
	sub := &fit{ctx: f.ctx, src: rest, o: f.o, inner: true, weighs: f.weighs && f.task != machine.Unsupervised,
		deal: newDealer(f.o.Seed, rest.marks(n))}
	sub.o.Folds, sub.o.Checkpoint, sub.o.Progress = 1, "", nil
	var err error
	sub.o.Schema, err = f.learnFold(rest)
	return sub, err
}

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// automatic gives the training lines of the same splits to tabular.Fit, which learns the columns and chooses
// everything.
func automatic(j job, s set, t *table) (answer, error) {
	kinds := []machine.Kind{machine.KindRidge}
	if j.Classes > 0 {
		kinds = append(kinds, machine.KindLogistic)
	}
	if t.lines == nil {
		t.imageLines()
	}
	out := answer{}
	for _, kind := range kinds {
		r := &result{}
		out[string(kind)] = r
		for _, tr := range j.Trials {
			start := time.Now()
			src, err := t.source(s, tr.Train)
			if err != nil {
				return nil, err
			}
			m, _, err := tabular.Fit(context.Background(), src, tabular.Options{Learn: s.learn(), Kind: kind,
				Seed: uint64(tr.Seed), Folds: 1})
			if err != nil {
				return nil, fmt.Errorf("%s, trial %d: %w", kind, tr.Seed, err)
			}
			r.Seconds += time.Since(start).Seconds()
			e, err := t.lossOfLines(s, m, tr.Test)
			if err != nil {
				return nil, err
			}
			r.Scores = append(r.Scores, e.points(t, tr.Test))
			r.Scale, r.Lambda = append(r.Scale, m.Spec.Kernel.Scale), append(r.Lambda, m.Lambda)
			r.Features = append(r.Features, m.Weights.Rows)
		}
	}
	return out, nil
}

// lossOfLines predicts lines of the file with a model that has its own schema, which may know fewer classes.
func (t *table) lossOfLines(s set, m *machine.Model, index []int) (lossSum, error) {
	src, err := t.source(s, index)
	if err != nil {
		return 0, err
	}
	x, _, err := encode(src, m.Schema, len(index), false)
	if err != nil {
		return 0, err
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return 0, err
	}
	out := dense.New[float64](len(index), m.Outputs)
	if err := p.Predict(out, x, nil); err != nil {
		return 0, err
	}
	var sum lossSum
	for i, k := range index {
		y := t.y.At(k, 0)
		switch {
		case t.classes == nil:
			sum += lossSum((out.At(i, 0) - y) * (out.At(i, 0) - y))
		case m.Schema.Targets[0].Classes[largest(out.Row(i))] != t.classes[int(y)]:
			sum++
		}
	}
	return sum, nil
}

// imageLines turns the pixels of images into lines of text, with the digit last.
func (t *table) imageLines() {
	for i := range t.x.Rows {
		var b []byte
		for _, v := range t.x.Row(i) {
			b = append(strconv.AppendFloat(b, v, 'g', 6, 64), ',')
		}
		t.lines = append(t.lines, append(append(b, t.classes[int(t.y.At(i, 0))]...), '\n'))
	}
}

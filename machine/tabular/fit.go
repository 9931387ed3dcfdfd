package tabular

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// Fit fits a model to a table. It reads the table several times: once to learn the columns, once to draw a sample for
// the choices, and, unless an exact kernel keeps all rows, once to fit.
//
// Memory does not grow with the number of rows, with one exception: an exact kernel of at most 12,000 rows (20,000 with
// Marks) needs 8n² bytes. Least squares on features holds 3 matrices of 8F² bytes, or 2K + 3 if folds are kept apart,
// besides the sample with its features and a few blocks (docs/machines.md, "Memory").
//
// The same table, options and seed give the same model at any GOMAXPROCS.
func Fit(ctx context.Context, src data.Source, o Options) (*machine.Model, *Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	in := job{ctx: ctx, src: src, o: o, weighs: o.Schema == nil}
	log, began := new(journal), time.Now()
	file := newCheckpoint(o, log)
	m, r, err := fitTable(in, log, file)
	if err != nil {
		if stop := ctx.Err(); stop != nil && errors.Is(err, stop) {
			err = errors.Join(err, file.write()) // all that was done until now
		}
		return nil, nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	return m, &r, nil
}

// fitTable runs the stages: columns, frame, trials and choice, model, statement.
func fitTable(in job, log *journal, file *checkpoint) (_ *machine.Model, r Report, err error) {
	c, err := begin(in, log, file)
	if err != nil {
		return nil, r, err
	}
	log.notes = append(log.notes, c.d.Notes...)
	f, err := fitAll(c, log, file)
	if err != nil {
		return nil, r, err
	}
	var s stated
	if err := log.stage(c.job, stageScore, func() (int64, error) {
		s, err = f.state()
		return c.d.Rows, err
	}); err != nil {
		return nil, r, err
	}
	f.restore()
	if c.o.Quick {
		log.note("quick: candidates were tried on fewer rows")
	}
	r = c.report(f.choices, s, log)
	c.describeCodes(&r)
	f.model.History = r.history()
	return f.model, r, f.model.Validate()
}

// begin learns the columns, draws the sample and chooses. A checkpoint exists only after all choices are made, so a
// resumed fit draws the same sample again and starts with the fit of all rows.
func begin(in job, log *journal, file *checkpoint) (*chosen, error) {
	j, was, err := learnTable(in, log, file)
	if err != nil {
		return nil, err
	}
	var s *sample
	var n int64
	err = log.stage(j, stageSample, func() (_ int64, err error) {
		s, n, err = j.takeSample(j.src, stageSample)
		return n, err
	})
	if err != nil {
		return nil, err
	}
	var c *chosen
	if was != nil {
		c = chosenOf(newFrame(j, s), was.d)
		c.was = was
	} else {
		err = log.stage(j, stageChoose, func() (int64, error) {
			c, err = decide(j, s, n)
			return int64(s.len()), err
		})
		if err != nil {
			return nil, err
		}
	}
	if c.rows, err = c.trainingRows(c.src); err != nil {
		return nil, err
	}
	file.keep(c)
	if was == nil {
		file.save(true) // at once: a kill would lose all choices
	}
	return c, nil
}

// describeCodes replaces what was noted about columns before they got codes.
func (c *chosen) describeCodes(r *Report) {
	if len(c.codes) == 0 || r.Summary == nil {
		return
	}
	summary := *r.Summary
	summary.Columns = slices.Clone(summary.Columns)
	for i := range summary.Columns {
		column := &summary.Columns[i]
		code := c.codes[column.Name]
		fd, _ := fieldNamed(c.schema, column.Name)
		if code == "" || fd == nil {
			continue
		}
		if code != codeLevels {
			if c.base != nil {
				if was, _ := fieldNamed(c.base, column.Name); was != nil {
					r.Notes = slices.DeleteFunc(slices.Clone(r.Notes),
						func(note string) bool { return note == was.OtherNote() })
				}
			}
			if code == codeAll && fd.Other {
				r.Notes = append(r.Notes, fd.OtherNote())
			}
		}
		if column.Use == string(data.Numeric) && fd.Kind == data.Categorical {
			column.Use, column.Why = string(data.Categorical), "numbers taken as levels for the code "+code
		}
	}
	r.Summary = &summary
}

// report builds the report of a fit from the choices, the scores and the journal.
func (c *chosen) report(choices []Choice, s stated, log *journal) Report {
	return Report{Source: c.src.Name(), Summary: c.summary, Rows: c.d.Rows, Width: c.schema.Width(), Kind: c.kind,
		Task: c.task, Outputs: c.outputs, Choices: choices, Scores: s.scores, ScoredOn: s.on, Confusion: s.confusion,
		Compared: s.compared, Metric: c.d.Metric, Notes: log.notes, Seed: c.o.Seed, Stages: log.stages,
		Resumed: log.resumed}
}

// history returns the part of the report that the model file stores, or nil if there is none.
func (r *Report) history() *machine.History {
	if len(r.Scores) == 0 && r.Metric == nil {
		return nil
	}
	return &machine.History{Scores: r.Scores, ScoredOn: r.ScoredOn, Metric: r.Metric}
}

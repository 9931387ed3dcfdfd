package tabular

import (
	"github.com/randfeat/randfeat/data"
)

// learnTable finds out everything that is known before the first choice: marks, folds, columns, task and weights of
// rows. If the checkpoint belongs to the same fit, the columns come from it; resumed is the rest of the checkpoint,
// nil if there is none.
func learnTable(in job, log *journal, file *checkpoint) (*job, *resumed, error) {
	j := &in
	if j.deal == nil {
		var m *data.Marks
		if len(j.o.Marks.Names()) > 0 {
			src := watchedSource{Source: j.src, ctx: j.ctx, report: func(int64) {}}
			if err := log.timed(stageLearn, 0, func() (err error) {
				m, err = j.o.Marks.Read(src)
				return err
			}); err != nil {
				return nil, nil, err
			}
		}
		m, err := settleRows(j, m, log)
		if err != nil {
			return nil, nil, err
		}
		j.deal = newDealer(j.o.Seed, m)
		j.deal.horizon = j.o.Horizon
	}
	j.weigh()
	if err := j.deal.settle(j.src.Name(), &j.o); err != nil {
		return nil, nil, err
	}
	was, err := file.resume(j)
	if err != nil {
		return nil, nil, err
	}
	if was == nil {
		err := log.stage(j, stageLearn, func() (int64, error) {
			err := learnColumns(j, log)
			return j.total, err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if err := j.settle(); err != nil {
		return nil, nil, err
	}
	if err := checkIntervalBy(j); err != nil {
		return nil, nil, err
	}
	rows, err := j.trainingRows(j.src)
	if err != nil {
		return nil, nil, err
	}
	if j.o.ClassWeights != nil {
		if err := log.timed(stageLearn, 0, func() error { return j.weighClasses(rows) }); err != nil {
			return nil, nil, err
		}
	}
	if was != nil {
		err = resumeCodes(j, was.d)
	}
	return j, was, err
}

// learnColumns learns the schema from all rows. Cross-validation does not repeat it: of the targets, the schema
// holds only the classes, or mean and scale, which are units. Nothing in it is chosen for how well it predicts.
func learnColumns(j *job, log *journal) error {
	if j.o.Schema != nil {
		j.schema = j.o.Schema
		return nil
	}
	src := watchedSource{Source: j.src, ctx: j.ctx, report: func(done int64) { j.progress(stageLearn, done, 0) }}
	var err error
	if j.schema, j.summary, err = data.Learn(src, j.o.LearnOptions()); err != nil {
		return err
	}
	j.total = j.summary.Rows
	for i := range j.summary.Columns {
		c := &j.summary.Columns[i]
		for name, why := range map[string]string{j.o.Marks.Weight: "weights of rows", j.o.Marks.Group: "groups of rows",
			j.o.Marks.Time: "times of rows"} {
			if c.Name == name && c.Use == "ignored" {
				c.Why = why
			}
		}
	}
	log.notes = append(log.notes, j.summary.Notes...)
	return nil
}

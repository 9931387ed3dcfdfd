package tabular

import (
	"context"

	"github.com/randfeat/randfeat/data"
)

// learn finds out what the columns are. It looks at all rows, and nested cross-validation does not repeat it: of
// targets the schema holds only classes, or mean and scale, which are units; nothing in it is chosen for how well it
// predicts.
func (f *fit) learn() (int64, error) {
	if f.o.Schema != nil {
		f.schema = f.o.Schema
		return 0, nil
	}
	src := watchedSource{Source: f.src, ctx: f.ctx, report: func(done int64) { f.progress(stageLearn, done, 0) }}
	var err error
	if f.schema, f.summary, err = data.Learn(src, f.o.LearnOptions()); err != nil {
		return 0, err
	}
	for i := range f.summary.Columns {
		c := &f.summary.Columns[i]
		for name, why := range map[string]string{f.o.Marks.Weight: "weights of rows", f.o.Marks.Group: "groups of rows",
			f.o.Marks.Time: "times of rows"} {
			if c.Name == name && c.Use == "ignored" {
				c.Why = why
			}
		}
	}
	f.report.Notes = append(f.report.Notes, f.summary.Notes...)
	return f.summary.Rows, nil
}

// watchedSource is a table whose reading can be stopped and followed.
type watchedSource struct {
	data.Source
	ctx    context.Context
	report func(done int64)
}

// Unwrap is the table itself.
func (s watchedSource) Unwrap() data.Source { return s.Source }

func (s watchedSource) Open(want []data.Kind) (data.Reader, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	r, err := s.Source.Open(want)
	if err != nil {
		return nil, err
	}
	return &watchedReader{Reader: r, s: s}, nil
}

type watchedReader struct {
	data.Reader
	s    watchedSource
	done int64
}

func (r *watchedReader) Read(b *data.Block, most int) error {
	if err := r.s.ctx.Err(); err != nil {
		return err
	}
	err := r.Reader.Read(b, most)
	if err == nil {
		r.done += int64(b.Rows)
		r.s.report(r.done)
	}
	return err
}

package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/machine"
)

// evaluated is the body of the parts of Evaluate. Evaluations merge in the order of the tree, like sums.
type evaluated struct{ *machine.Evaluation }

func (e *evaluated) rows() int64        { return e.Len() }
func (e *evaluated) merge(o body) error { return e.Merge(o.(*evaluated).Evaluation) }

func (e *evaluated) size() (int64, error) {
	b, err := e.MarshalBinary()
	return int64(len(b)), err
}

func (e *evaluated) write(w io.Writer) error {
	b, err := e.MarshalBinary()
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// Evaluate returns the step that compares predictions of a model with the targets in the files of the run. The model
// must have a schema. Of the run's options only DropMissing matters.
func (r *Run) Evaluate(m *machine.Model) (*Step, error) {
	if m.Schema == nil {
		return nil, fmt.Errorf("the model has no schema, it predicts matrices only: %w", machine.ErrSetup)
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	info, err := m.Kind.Info()
	if err != nil {
		return nil, err
	}
	kernels, err := kernelsHere()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := m.WriteTo(h); err != nil {
		return nil, err
	}
	s := &Step{run: r, name: "evaluate", about: about{Version: partVersion, Step: "evaluate", Run: r.id,
		Plan: hex.EncodeToString(h.Sum(nil)), Kind: m.Kind, Task: m.Task, Outputs: m.Outputs,
		Schema: m.Schema.Digest()}, kernels: kernels}
	s.begin = func() (body, error) {
		e, err := m.Evaluation()
		return &evaluated{e}, err
	}
	s.read = func(in io.Reader, size int64) (body, error) {
		if size > maxLearned {
			return nil, fmt.Errorf("%d bytes of an evaluation: %w", size, machine.ErrCorrupt)
		}
		b, err := io.ReadAll(io.LimitReader(in, size))
		if err != nil {
			return nil, err
		}
		e, err := m.Evaluation()
		if err != nil {
			return nil, err
		}
		return &evaluated{e}, e.UnmarshalBinary(b)
	}
	var (
		ws             machine.Workspace[float64]
		pred, variance dense.Matrix[float64]
	)
	s.add = func(ctx context.Context, b body, unit int) error {
		src, err := r.source(unit)
		if err != nil {
			return err
		}
		rows, err := machine.ModelRows(src, m, m.Task != machine.Unsupervised, nil)
		if err != nil {
			return err
		}
		err = rows.Each(evaluateRows, func(x, y dense.Matrix[float64]) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			pred = buf.Shaped(pred, x.Rows, m.Outputs)
			if err := p.Predict(pred, x, &ws); err != nil {
				return err
			}
			if info.Bayesian {
				variance = buf.Shaped(variance, x.Rows, m.Outputs)
				if err := p.Variance(variance, x, &ws); err != nil {
					return err
				}
			}
			for i := 0; m.Task == machine.Unsupervised && i < pred.Rows; i++ {
				pred.Set(i, 0, m.LogDensity(pred.At(i, 0)))
			}
			return b.(*evaluated).Add(y, pred, variance)
		})
		if err != nil && !errors.Is(err, data.ErrInput) && ctx.Err() == nil {
			err = fmt.Errorf("%s: %w", r.placeOf(unit), err)
		}
		return err
	}
	return s, nil
}

// evaluateRows is the number of rows predicted at a time.
const evaluateRows = 1024

// Evaluation returns the evaluation that a part of Evaluate holds, or nil for a part of another step.
func (p *Part) Evaluation() *machine.Evaluation {
	if e, ok := p.body.(*evaluated); ok {
		return e.Evaluation
	}
	return nil
}

// Predict predicts the rows of a unit, in order. It passes blocks of predictions to f with the names of their columns,
// the id columns of the files first, and returns the number of rows. The units in order give the predictions of the
// table. A block is valid until f returns.
func (r *Run) Predict(ctx context.Context, p *machine.TablePredictor, unit int, f func(columns []string,
	kinds []data.Kind, predictions *data.Block) error) (int64, error) {
	if unit < 0 || unit >= len(r.units) {
		return 0, fmt.Errorf("unit %d of %d: %w", unit, len(r.units), machine.ErrSetup)
	}
	src, err := r.table.Unit(unit)
	if err != nil {
		return 0, err
	}
	run, err := p.Open(src.Columns())
	if err != nil {
		return 0, fmt.Errorf("%s: %w", src.Name(), err)
	}
	columns, kinds := p.Columns()
	ids := run.IDs()
	columns = append(ids, columns...)
	for range ids {
		kinds = append([]data.Kind{data.Text}, kinds...)
	}
	n := int64(0)
	err = run.Each(src, run.Kinds(), predictRows, func(predictions, _ *data.Block) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		n += int64(predictions.Rows)
		return f(columns, kinds, predictions)
	})
	return n, err
}

// predictRows is the largest number of rows of a block of predictions.
const predictRows = 4096

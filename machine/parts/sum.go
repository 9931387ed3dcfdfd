package parts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// summed is the body of the parts of Sum.
type summed struct{ machine.Sums }

func (s *summed) rows() int64             { return s.Len() }
func (s *summed) merge(o body) error      { return s.Merge(o.(*summed).Sums) }
func (s *summed) size() (int64, error)    { return s.Size(), nil }
func (s *summed) write(w io.Writer) error { return s.Write(w) }

// Sum returns the step that sums the rows of the model, without the held-out rows.
func (r *Run) Sum(p *Plan) (*Step, error) {
	if p.run.id != r.id {
		return nil, fmt.Errorf("the plan is of another run: %w", machine.ErrMismatch)
	}
	setup, err := p.Setup()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(p.Spec)
	if err != nil {
		return nil, err
	}
	kernels, err := kernelsHere()
	if err != nil {
		return nil, err
	}
	s := &Step{run: r, name: "sum", kernels: kernels, about: about{Version: partVersion, Step: "sum", Run: r.id,
		Plan: p.digest, Kind: p.Kind, Task: p.Task, Outputs: p.Outputs, Schema: p.Schema.Digest(),
		Spec: spec, Float32: p.Float32}}
	for _, t := range p.Schema.Targets {
		s.about.Targets = append(s.about.Targets, t.Name)
	}
	s.begin = func() (body, error) {
		if like, ok := s.first.(*summed); ok {
			sums, err := like.Like()
			return &summed{sums}, err
		}
		sums, err := machine.NewSums(p.Kind, setup)
		return &summed{sums}, err
	}
	s.reuse = func(b body) bool {
		again, ok := b.(*summed).Sums.(interface{ Reset() })
		if ok {
			again.Reset()
		}
		return ok
	}
	s.read = func(in io.Reader, size int64) (body, error) {
		b, err := s.empty()
		if err != nil {
			return nil, err
		}
		return b, b.(*summed).Read(in, size)
	}
	add := adder{p: p}
	s.add = func(ctx context.Context, b body, unit int) error {
		src, err := r.source(unit)
		if err != nil {
			return err
		}
		if err := p.unchanged(unit); err != nil {
			return err
		}
		rows, err := machine.TableRows(src, p.Schema, p.Task != machine.Unsupervised)
		if err != nil {
			return err
		}
		err = add.unit(ctx, b.(*summed).Sums, rows, keysOf(r.o.Seed, r.units[unit]))
		if err != nil && !errors.Is(err, data.ErrInput) && ctx.Err() == nil {
			err = fmt.Errorf("%s: %w", r.placeOf(unit), err)
		}
		return err
	}
	return s, nil
}

// unchanged refuses a unit whose bytes differ from those that Learn has read. Sizes alone do not show every change.
func (p *Plan) unchanged(unit int) error {
	content, err := p.run.table.Content(unit)
	if err != nil {
		return err
	}
	if at := unit * contentSize; !bytes.Equal(content[:], p.contents[at:at+contentSize]) {
		return &data.InputError{Place: p.run.placeOf(unit), Err: machine.ErrMismatch,
			Detail: "its contents have changed since the columns were learned, at the same size: run learn and choose again"}
	}
	return nil
}

// adder adds rows to sums as the plan prescribes.
type adder struct {
	p    *Plan
	x, y dense.Matrix[float64]
}

// unit adds the rows of a unit that are not held out, with standardised targets.
func (a *adder) unit(ctx context.Context, sums machine.Sums, rows machine.Rows, k keys) error {
	first := int64(0)
	return rows.Each(a.p.Block, func(x, y dense.Matrix[float64]) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := first
		first += int64(x.Rows)
		return sums.Add(a.kept(x, y, k, at))
	})
}

// kept returns the rows of a block that are not held out, with standardised targets. first is the number of the block's
// first row in the unit. The result may share memory with x and y, or with a until the next call.
func (a *adder) kept(x, y dense.Matrix[float64], k keys, first int64) (_, _ dense.Matrix[float64]) {
	out := 0
	for i := range x.Rows {
		if a.p.holds(k.of(first + int64(i))) {
			out++
		}
	}
	regression := a.p.Task == machine.Regression
	if out == 0 && !regression {
		return x, y
	}
	a.y = buf.Shaped(a.y, x.Rows-out, y.Cols)
	if out == 0 {
		a.p.Schema.Standardise(a.y, y)
		return x, a.y
	}
	a.x = buf.Shaped(a.x, x.Rows-out, x.Cols)
	at := 0
	for i := range x.Rows {
		if a.p.holds(k.of(first + int64(i))) {
			continue
		}
		copy(a.x.Row(at), x.Row(i))
		if y.Cols > 0 {
			copy(a.y.Row(at), y.Row(i))
		}
		at++
	}
	if regression {
		a.p.Schema.Standardise(a.y, a.y)
	}
	return a.x, a.y
}

// placeOf names a unit, for messages.
func (r *Run) placeOf(unit int) string {
	u := r.units[unit]
	return fmt.Sprintf("%s, block %d", r.table.ShardName(u.Shard), u.Block+1)
}

// Finish solves for the model from the merged part of Sum and scores it on the held-out rows.
func (r *Run) Finish(ctx context.Context, p *Plan, whole *Part) (*machine.Model, *tabular.Report, error) {
	sums, ok := whole.body.(*summed)
	if !ok || whole.step.about.Plan != p.digest || whole.span != (Span{0, r.Leaves()}) {
		return nil, nil, fmt.Errorf("a model needs the merged part of all leaves of the step sum of this plan: %w",
			machine.ErrMismatch)
	}
	if sums.Len() != p.Rows {
		return nil, nil, fmt.Errorf("%s: %d rows were summed, %d and the %d held out were there when the columns were "+
			"learned: the files changed in between: %w", r.Name(), sums.Len(), p.Rows, p.Held(), machine.ErrMismatch)
	}
	var held machine.Rows
	if p.Held() > 0 {
		var err error
		if held, err = machine.TableRows(p.held.Source(r.Name()+", rows held out"), p.Schema,
			p.Task != machine.Unsupervised); err != nil {
			return nil, nil, err
		}
	}
	kernels, err := kernelsHere()
	if err != nil {
		return nil, nil, err
	}
	m, rep, err := p.Plan.Finish(ctx, sums.Sums, held)
	if err == nil {
		if note := mixed(union(union(p.state.Kernels, whole.kernels), []string{kernels})); note != "" {
			rep.Notes = append(rep.Notes, note)
		}
	}
	return m, rep, err
}

// Fit runs all steps in one process.
func (r *Run) Fit(ctx context.Context) (*machine.Model, *tabular.Report, error) {
	var stages []tabular.Stage
	began := time.Now()
	done := func(name string, rows int64) {
		stages = append(stages, tabular.Stage{Name: name, Seconds: time.Since(began).Seconds(), Rows: rows})
		began = time.Now()
	}
	step, err := r.Learn()
	if err != nil {
		return nil, nil, err
	}
	whole, err := step.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	done("learn", whole.Rows())
	p, err := r.Choose(ctx, whole)
	if err != nil {
		return nil, nil, err
	}
	done("choose", int64(p.Sampled))
	if step, err = r.Sum(p); err != nil {
		return nil, nil, err
	}
	if whole, err = step.All(ctx); err != nil {
		return nil, nil, err
	}
	done("sum", whole.Rows())
	m, rep, err := r.Finish(ctx, p, whole)
	if err != nil {
		return nil, nil, err
	}
	done("finish", 0)
	rep.Stages = stages
	return m, rep, nil
}

// All runs the step for all leaves in this process and returns their merged part.
func (s *Step) All(ctx context.Context) (*Part, error) {
	var out []*Part
	err := s.Do(ctx, Span{0, s.run.Leaves()}, func(p *Part) error {
		out = append(out, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.Whole(out)
}

// Package work is what rfbeam runs: the steps of package machine/parts as the stages of package flow.
package work

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/randfeat/randfeat/beam/internal/flow"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/auto"
	"github.com/randfeat/randfeat/machine/parts"
)

func init() {
	flow.Register("fit", func(config []byte) (flow.Work, error) { return openFit(config) })
}

// The stages of a fit. Learn ends with the choices, sum with the model.
const (
	stageLearn = "learn"
	stageSum   = "sum"
)

// fitConfig is what workers are told of a fit.
type fitConfig struct {
	Run   json.RawMessage `json:"run"` // of parts.Run
	Dir   string          `json:"dir"`
	Model string          `json:"model"` // to be written
	Span  int             `json:"span"`  // leaves of the run that one leaf of a stage takes
}

// fit is the work of a fit, in one worker.
type fit struct {
	fitConfig
	run *parts.Run

	mu    sync.Mutex
	plan  *parts.Plan
	steps map[string]*parts.Step
}

func openFit(config []byte) (*fit, error) {
	f := &fit{steps: map[string]*parts.Step{}}
	if err := json.Unmarshal(config, &f.fitConfig); err != nil {
		return nil, err
	}
	var err error
	f.run, err = parts.ReadRun(f.Run)
	return f, err
}

// Fit fits the model of a run on the runner of Beam's flags and writes it to a file. All workers must see the files of
// the run, dir and the model at the same paths.
func Fit(ctx context.Context, run *parts.Run, dir, model string, o Options) (*auto.Report, error) {
	b, err := run.MarshalJSON()
	if err != nil {
		return nil, err
	}
	c := fitConfig{Run: b, Dir: dir, Model: model, Span: o.span(run.Leaves())}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	n := (run.Leaves() + c.Span - 1) / c.Span
	err = flow.Run(ctx, flow.Job{Kind: "fit", Config: config, Dir: dir, Fan: data.LeafFan},
		[]flow.Stage{{Name: stageLearn, Leaves: n}, {Name: stageSum, Leaves: n}})
	if err != nil {
		return nil, err
	}
	report := new(auto.Report)
	if b, err = os.ReadFile(c.reportFile()); err == nil {
		err = json.Unmarshal(b, report)
	}
	return report, err
}

// Options say how work is divided; results do not depend on them.
type Options struct {
	// Tasks is the number of pieces that a pass over the table is to be cut into, at most: what a piece adds up to lies
	// in a file until the next is merged with it. 0: 64.
	Tasks int
}

// span is the smallest node of the tree of leaves that leaves no more than Tasks.
func (o Options) span(leaves int) int {
	tasks := o.Tasks
	if tasks <= 0 {
		tasks = 64
	}
	span := 1
	for (leaves+span-1)/span > tasks {
		span *= data.LeafFan
	}
	return span
}

func (c *fitConfig) planFile() string   { return filepath.Join(c.Dir, "plan") }
func (c *fitConfig) reportFile() string { return filepath.Join(c.Dir, "report.json") }

// step is that of a stage.
func (f *fit) step(stage string) (*parts.Step, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.steps[stage]; ok {
		return s, nil
	}
	var s *parts.Step
	var err error
	if stage == stageLearn {
		s, err = f.run.Learn()
	} else {
		b, failed := os.ReadFile(f.planFile())
		if failed != nil {
			return nil, failed
		}
		if f.plan, err = f.run.ReadPlan(b); err == nil {
			s, err = f.run.Sum(f.plan)
		}
	}
	if err == nil {
		f.steps[stage] = s
	}
	return s, err
}

// Leaf reads some leaves of the run.
func (f *fit) Leaf(ctx context.Context, stage string, i int, file string) (int64, error) {
	s, err := f.step(stage)
	if err != nil {
		return 0, err
	}
	span := parts.Span{Lo: i * f.Span, Hi: min((i+1)*f.Span, f.run.Leaves())}
	return writeParts(file, func(emit func(*parts.Part) error) error { return s.Do(ctx, span, emit) })
}

// writeParts writes a file of parts.
func writeParts(file string, make func(emit func(*parts.Part) error) error) (rows int64, err error) {
	out, err := data.CreateAtomic(file)
	if err != nil {
		return 0, err
	}
	defer out.Abort()
	w := bufio.NewWriterSize(out, 1<<16)
	err = make(func(p *parts.Part) error {
		rows += p.Rows()
		_, err := p.WriteTo(w)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return rows, out.Commit()
}

// Merge merges the children of a node.
func (f *fit) Merge(ctx context.Context, stage string, _ int, file string, in []flow.Ref) (int64, error) {
	s, err := f.step(stage)
	if err != nil {
		return 0, err
	}
	merged, err := merge(ctx, s, in)
	if err != nil {
		return 0, err
	}
	return writeParts(file, func(emit func(*parts.Part) error) error {
		for _, p := range merged {
			if err := emit(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// merge reads the parts of files one at a time: two are in memory, what the first ones have become and the next.
func merge(ctx context.Context, s *parts.Step, in []flow.Ref) (merged []*parts.Part, err error) {
	for _, r := range in {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		merged, err = mergeFile(s, merged, r.File)
		if err != nil {
			return nil, err
		}
	}
	return merged, nil
}

func mergeFile(s *parts.Step, merged []*parts.Part, file string) ([]*parts.Part, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		p, err := s.Read(r)
		if errors.Is(err, io.EOF) {
			return merged, nil
		}
		if err == nil {
			merged, err = s.Merge(append(merged, p))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
}

// End makes the choices, or the model.
func (f *fit) End(ctx context.Context, stage string, in []flow.Ref) error {
	s, err := f.step(stage)
	if err != nil {
		return err
	}
	merged, err := merge(ctx, s, in)
	if err != nil {
		return err
	}
	whole, err := s.Whole(merged)
	if err != nil {
		return err
	}
	if stage == stageLearn {
		plan, err := f.run.Choose(ctx, whole)
		if err != nil {
			return err
		}
		b, err := plan.MarshalBinary()
		if err != nil {
			return err
		}
		return writeFile(f.planFile(), b)
	}
	m, report, err := f.run.Finish(ctx, f.plan, whole)
	if err != nil {
		return err
	}
	return f.write(m, report)
}

// write writes the report and then the model: if there is a model, all is done.
func (f *fit) write(m *machine.Model, report *auto.Report) error {
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	if err := writeFile(f.reportFile(), b); err != nil {
		return err
	}
	return m.Save(f.Model)
}

// writeFile writes a file in one step.
func writeFile(path string, b []byte) error {
	f, err := data.CreateAtomic(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Commit()
}

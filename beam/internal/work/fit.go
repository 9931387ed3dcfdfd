// Package work is what rfbeam runs: the steps of package machine/parts as the stages of package flow.
package work

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

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
	passes
	fitConfig
	plan *parts.Plan // of the stages behind learn
}

func openFit(config []byte) (*fit, error) {
	f := new(fit)
	if err := json.Unmarshal(config, &f.fitConfig); err != nil {
		return nil, err
	}
	run, err := parts.ReadRun(f.Run)
	f.passes = passes{run: run, span: f.Span, open: f.open}
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

// open is the step of a stage.
func (f *fit) open(stage string) (*parts.Step, error) {
	if stage == stageLearn {
		return f.run.Learn()
	}
	b, err := os.ReadFile(f.planFile())
	if err != nil {
		return nil, err
	}
	if f.plan, err = f.run.ReadPlan(b); err != nil {
		return nil, err
	}
	return f.run.Sum(f.plan)
}

// End makes the choices, or the model.
func (f *fit) End(ctx context.Context, stage string, in []flow.Ref) error {
	whole, err := f.whole(ctx, stage, in)
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

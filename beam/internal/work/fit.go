// Package work implements the commands of rfbeam: the steps of package machine/parts as stages of package flow. [Fit]
// fits a model, [Evaluate] scores it and [Predict] applies it. All workers must see the files at the same paths.
// Results do not depend on the runner or on [Options].
package work

import (
	"context"

	"github.com/randfeat/randfeat/beam/flow"
	"github.com/randfeat/randfeat/beam/internal/store"
	"github.com/randfeat/randfeat/machine/parts"
	"github.com/randfeat/randfeat/machine/tabular"
)

func init() {
	flow.Register("fit", func(config []byte) (flow.Work, error) { return openFit(config) })
}

// The stages of a fit. The end of learn makes the choices, the end of sum the model.
const (
	stageLearn = "learn"
	stageSum   = "sum"
)

// fit is the work of a fit in one worker.
type fit struct {
	passes
	plan *parts.Plan // choices, known after the stage learn
}

func openFit(config []byte) (*fit, error) {
	f := new(fit)
	return f, f.read(config, f.open)
}

// Fit fits the model of a run on the runner of Beam's flags and writes it to a file. All workers must see the files of
// the run, dir and the model at the same paths.
func Fit(ctx context.Context, run *parts.Run, dir, model string, o Options) (*tabular.Report, error) {
	report := new(tabular.Report)
	return report, o.run(ctx, "fit", run, dir, model, report, stageLearn, stageSum)
}

func (f *fit) planFile() string { return store.Join(f.Dir, "plan") }

// open returns the step of a stage. The step of sum needs the plan, which the end of learn has written.
func (f *fit) open(stage string) (*parts.Step, error) {
	if stage == stageLearn {
		return f.run.Learn()
	}
	b, err := store.ReadFile(context.Background(), f.planFile())
	if err != nil {
		return nil, err
	}
	if f.plan, err = f.run.ReadPlan(b); err != nil {
		return nil, err
	}
	return f.run.Sum(f.plan)
}

// End makes the choices after learn, and the model after sum.
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
		return store.WriteFile(ctx, f.planFile(), b)
	}
	m, report, err := f.run.Finish(ctx, f.plan, whole)
	if err != nil {
		return err
	}
	if err := f.report(ctx, report); err != nil { // before the model: once there is a model, everything is done
		return err
	}
	return store.Put(ctx, f.Model, m.Save)
}

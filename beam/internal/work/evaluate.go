package work

import (
	"context"

	"github.com/randfeat/randfeat/beam/flow"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/parts"
)

func init() {
	flow.Register("evaluate", func(config []byte) (flow.Work, error) { return openEvaluate(config) })
}

const stageEvaluate = "evaluate"

type evaluate struct{ passes }

func openEvaluate(config []byte) (*evaluate, error) {
	e := new(evaluate)
	return e, e.read(config, func(string) (*parts.Step, error) {
		m, err := Load(context.Background(), e.Model)
		if err != nil {
			return nil, err
		}
		return e.run.Evaluate(m)
	})
}

// Result is the result of an evaluation.
type Result struct {
	Rows      int64           `json:"rows"`
	Scores    []machine.Score `json:"scores"`
	Confusion [][]int64       `json:"confusion,omitempty"` // [true class][predicted class]
}

// Evaluate compares the predictions of a model with the targets in the files of a run. The scores are bit-identical
// on every runner.
func Evaluate(ctx context.Context, run *parts.Run, dir, model string, o Options) (*Result, error) {
	result := new(Result)
	return result, o.run(ctx, "evaluate", run, dir, model, result, stageEvaluate)
}

// End writes the scores as the report.
func (e *evaluate) End(ctx context.Context, stage string, in []flow.Ref) error {
	whole, err := e.whole(ctx, stage, in)
	if err != nil {
		return err
	}
	scores := whole.Evaluation()
	return e.report(ctx, Result{Rows: scores.Len(), Scores: scores.Scores(), Confusion: scores.Confusion()})
}

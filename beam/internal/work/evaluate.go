package work

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/beam/internal/flow"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/parts"
)

func init() {
	flow.Register("evaluate", func(config []byte) (flow.Work, error) { return openEvaluate(config) })
}

const stageEvaluate = "evaluate"

// evaluateConfig is what workers are told of an evaluation.
type evaluateConfig struct {
	Run   json.RawMessage `json:"run"`
	Dir   string          `json:"dir"`
	Model string          `json:"model"`
	Span  int             `json:"span"`
}

type evaluate struct {
	passes
	evaluateConfig
}

func openEvaluate(config []byte) (*evaluate, error) {
	e := new(evaluate)
	if err := json.Unmarshal(config, &e.evaluateConfig); err != nil {
		return nil, err
	}
	run, err := parts.ReadRun(e.Run)
	if err != nil {
		return nil, err
	}
	e.passes = passes{run: run, span: e.Span, open: func(string) (*parts.Step, error) {
		m, err := machine.Load(e.Model)
		if err != nil {
			return nil, err
		}
		return run.Evaluate(m)
	}}
	return e, nil
}

// Result is an evaluation.
type Result struct {
	Rows      int64           `json:"rows"`
	Scores    []machine.Score `json:"scores"`
	Confusion [][]int64       `json:"confusion,omitempty"` // of classes, by truth and prediction
}

// Evaluate compares the predictions of a model with the targets in the files of a run. The scores have the same bits on
// every runner.
func Evaluate(ctx context.Context, run *parts.Run, dir, model string, o Options) (*Result, error) {
	b, err := run.MarshalJSON()
	if err != nil {
		return nil, err
	}
	c := evaluateConfig{Run: b, Dir: dir, Model: model, Span: o.span(run.Leaves())}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	n := (run.Leaves() + c.Span - 1) / c.Span
	err = flow.Run(ctx, flow.Job{Kind: "evaluate", Config: config, Dir: dir, Fan: data.LeafFan},
		[]flow.Stage{{Name: stageEvaluate, Leaves: n}})
	if err != nil {
		return nil, err
	}
	result := new(Result)
	if b, err = os.ReadFile(c.resultFile()); err == nil {
		err = json.Unmarshal(b, result)
	}
	return result, err
}

func (c *evaluateConfig) resultFile() string { return filepath.Join(c.Dir, "result.json") }

// End writes the scores.
func (e *evaluate) End(ctx context.Context, stage string, in []flow.Ref) error {
	whole, err := e.whole(ctx, stage, in)
	if err != nil {
		return err
	}
	scores := whole.Evaluation()
	b, err := json.Marshal(Result{Rows: scores.Len(), Scores: scores.Scores(), Confusion: scores.Confusion()})
	if err != nil {
		return err
	}
	return writeFile(e.resultFile(), b)
}

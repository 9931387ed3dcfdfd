package tabular

import (
	"fmt"
	"slices"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// Compared holds the scores of a method on the rows that the model is scored on, fitted without the same folds.
type Compared struct {
	Name   string          `json:"name"` // kernel: the kernel machine itself; mean, most frequent class or linear
	About  string          `json:"about"`
	Scores []machine.Score `json:"scores"`
	// Kernel is the score of the kernel machine minus the score of this method, paired row by row: "second" is the
	// kernel machine. Empty for the kernel machine itself.
	Kernel []machine.Difference `json:"kernel,omitempty"`
}

// Report describes a fit: the data, the choices and the scores.
type Report struct {
	Source  string        `json:"source"`
	Summary *data.Summary `json:"summary,omitempty"` // nil if the schema was given
	Rows    int64         `json:"rows"`
	Width   int           `json:"width"` // encoded columns
	Kind    machine.Kind  `json:"kind"`
	Task    machine.Task  `json:"task"`
	Outputs int           `json:"outputs"`
	Choices []Choice      `json:"choices"`
	// Scores are out of fold: models predict rows that they have not seen. The main score comes first. Empty without
	// cross-validation.
	Scores    []machine.Score `json:"scores,omitempty"`
	Compared  []Compared      `json:"compared,omitempty"`  // simpler methods on the same rows, after the kernel
	ScoredOn  string          `json:"scored_on,omitempty"` // "all rows in 5 folds; …"
	Confusion [][]int64       `json:"confusion,omitempty"` // of classes, by truth and prediction
	Metric    *machine.Metric `json:"metric,omitempty"`    // of the kernel, if it was learned
	Notes     []string        `json:"notes,omitempty"`     // what a person should know
	Seed      uint64          `json:"seed"`
	Seconds   float64         `json:"seconds"`
	Stages    []Stage         `json:"stages"`
	Resumed   int64           `json:"resumed,omitempty"` // rows taken from a checkpoint
}

// Choice is one decision. Trials are the alternatives that decided it, not all that were tried: each bandwidth shows
// only its best penalty.
type Choice struct {
	Name   string  `json:"name"`  // model, family, coupling, bandwidth, features, lambda, …
	Value  string  `json:"value"` // for people
	Number float64 `json:"number,omitempty"`
	Given  bool    `json:"given,omitempty"` // by the caller
	Why    string  `json:"why"`
	Trials []Trial `json:"trials,omitempty"`
}

// Trial is an alternative that was tried, with its score.
type Trial struct {
	Value  float64 `json:"value"`
	Label  string  `json:"label,omitempty"`
	Score  float64 `json:"score"` // larger is better
	Metric string  `json:"metric"`
	Error  float64 `json:"error,omitempty"` // standard error of Score
}

// Stage is the time that one part of the work took.
type Stage struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Rows    int64   `json:"rows,omitempty"`
}

// journal records how long stages took, and notes for the report.
type journal struct {
	stages  []Stage
	notes   []string
	resumed int64 // rows taken from a checkpoint
}

func (l *journal) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// stage runs a stage and records its time.
func (l *journal) stage(j *job, name string, work func() (rows int64, err error)) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	if name != stageChoose { // the search counts trials instead
		j.progress(name, 0, j.total)
	}
	began := time.Now()
	rows, err := work()
	l.took(name, rows, began)
	return err
}

// timed runs further work of a stage, which does not report its progress, and adds its time.
func (l *journal) timed(name string, rows int64, work func() error) error {
	defer l.took(name, rows, time.Now())
	return work()
}

// took adds the time since began to a stage.
func (l *journal) took(name string, rows int64, began time.Time) {
	seconds := time.Since(began).Seconds()
	if i := slices.IndexFunc(l.stages, func(s Stage) bool { return s.Name == name }); i >= 0 {
		l.stages[i].Seconds += seconds
		l.stages[i].Rows = max(l.stages[i].Rows, rows)
		return
	}
	l.stages = append(l.stages, Stage{Name: name, Seconds: seconds, Rows: rows})
}

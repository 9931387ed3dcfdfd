package tabular

import (
	"context"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// iterativeRows is the number of rows from which exact kernels are solved by conjugate gradients, because a
// factorisation takes longer. It is a variable so that tests can use fewer rows.
var iterativeRows = 12000

// job holds everything that is known before a choice is made: the table, the options with their defaults, the columns,
// the task, the weights of rows and their folds. learnTable makes it, and nothing changes it afterwards: choices that
// concern columns make a copy. So one job can serve several searches.
type job struct {
	ctx context.Context
	src data.Source
	o   Options // with defaults

	schema  *data.Schema
	summary *data.Summary // nil if the schema was given
	total   int64         // rows of the table; 0: not known yet
	kind    machine.Kind
	info    machine.KindInfo // of kind
	task    machine.Task
	outputs int

	deal    *dealer   // deals rows to folds
	weights []float64 // of rows: table weight times class weight, with mean 1; nil means none
	// weightScale turns a table weight into units of the mean weight.
	weightScale float64

	base    *data.Schema      // the columns before levels got codes; nil: none did
	codes   map[string]string // codes of columns of levels, by name
	crossed *crossed          // codes of training rows that use the target; nil: no code does

	inner  bool // choices are made for some rows of a frame
	summed bool // the rows live elsewhere; only their sums arrive here
	weighs bool // the columns were learned here, so a search may scale them
}

// withSchema returns a copy of the job with other columns.
func (j *job) withSchema(s *data.Schema) *job {
	out := *j
	out.schema = s
	return &out
}

// The stages, in order. Their names are part of the report and of checkpoints.
const (
	stageLearn  = "learn columns"
	stageSample = "draw a sample"
	stageChoose = "choose"
	stageFit    = "fit"
	stageSolve  = "solve" // the sums of all rows, and rows out of fold for probabilities and intervals
	stageScore  = "score"
)

func (j *job) progress(stage string, done, total int64) {
	if j.o.Progress != nil {
		j.o.Progress(stage, done, total)
	}
}

// settle sets task, kind and block from the schema and the options, and from nothing else. So a fit that reads its
// schema from a checkpoint settles on the same values.
func (j *job) settle() error {
	s, o := j.schema, &j.o
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), machine.ErrSetup)
	}
	classes := 0
	for _, t := range s.Targets {
		if len(t.Classes) > 0 {
			classes++
		}
	}
	switch {
	case len(s.Targets) == 0:
		j.task, j.outputs = machine.Unsupervised, 0
	case classes == 0:
		j.task, j.outputs = machine.Regression, len(s.Targets)
	case len(s.Targets) == 1:
		j.task, j.outputs = machine.Classification, len(s.Targets[0].Classes)
	default:
		return bad("%d targets of which %d have classes: a classification has one target; name one, or ask for regression",
			len(s.Targets), classes)
	}
	usual := machine.KindsOf(j.task)
	if j.kind = o.Kind; j.kind == "" {
		j.kind = usual[0]
	}
	var err error
	if j.info, err = j.kind.Info(); err != nil {
		return err
	}
	switch {
	case slices.Contains(usual, j.kind):
	case j.task == machine.Unsupervised:
		return bad("a %s model needs a target: name the column to predict", j.kind)
	case slices.Contains(j.info.Tasks, machine.Unsupervised):
		return bad("a %s has no target, the schema has %d: leave it out, or use another model", j.kind, len(s.Targets))
	default:
		return bad("a %s model is for %s, target %q asks for %s: use another model (%s), or ask for %s", j.kind,
			j.info.Tasks[0],
			s.Targets[0].Name, j.task, joined(usual), j.info.Tasks[0])
	}
	switch {
	case j.info.Bayesian && j.constantTarget() != "":
		return bad("target %q is the same in every row: a %s model has no noise to estimate; use another target, or a "+
			"model without a variance", j.constantTarget(), j.kind)
	case j.task == machine.Unsupervised && o.Lambda > 0:
		return bad("λ = %g for a density, which has no penalty: leave it out", o.Lambda)
	case o.Loss != "" && j.task != machine.Classification:
		return bad("loss %s for a %s, which has no classes: leave it out", o.Loss, j.task)
	case o.ClassWeights != nil && j.task != machine.Classification:
		return bad("class weights for a %s, which has no classes", j.task)
	case o.ClassWeights != nil && len(o.ClassWeights) != j.outputs:
		return fmt.Errorf("%d class weights for the %d classes %v: %w", len(o.ClassWeights), j.outputs,
			s.Targets[0].Classes,
			dense.ErrShape)
	}
	width := s.Width()
	if width > maxWidth {
		return fmt.Errorf("%d encoded columns, the limit is %d: skip columns or keep fewer levels: %w", width, maxWidth,
			data.ErrSchema)
	}
	// Block is part of the result: sums are rounded block by block. So it is set by the width and never by the machine.
	if o.Block == 0 {
		o.Block = min(max(blockCells/width, 16), defaultBlock)
	}
	o.Sample = max(min(o.Sample, j.sampleCells()/width), minSample)
	return nil
}

// constantTarget names a regression target that never changes, as far as the summary tells. Its best noise is 0, where
// the evidence of a Gaussian process has no maximum.
func (j *job) constantTarget() string {
	if j.summary == nil || j.task != machine.Regression {
		return ""
	}
	for _, c := range j.summary.Columns {
		if c.Use == "target" && c.Min == c.Max {
			return c.Name
		}
	}
	return ""
}

// exactRows is the number of rows up to which ridge uses the exact kernel with a factorisation: 3.2 GB, and n³/6 =
// 1.3·10¹² multiply-adds. Random features would need about as many features as rows to be as good, and would cost more.
// It is a variable so that tests can use fewer rows.
var exactRows = 20000

// exactPossible reports whether the fit may have the exact kernel, as far as is known before rows are counted.
func (j *job) exactPossible() bool {
	return j.info.Exact && !j.summed && (j.o.Map == MapExact || j.mapOpen())
}

// mapOpen reports whether the map is to be chosen: neither Map nor an option of random features is set.
func (j *job) mapOpen() bool {
	return j.o.Map == "" && j.o.Family == nil && j.o.Coupling == nil && j.o.Features == 0 &&
		j.o.Budget == defaultBudget && !j.o.Float32
}

// exactLimit returns the largest number of rows of an exact kernel, 0 if there will be none.
func (j *job) exactLimit() int {
	if !j.exactPossible() {
		return 0
	}
	limit := min(exactRows, j.factoredRows())
	if j.iterative() {
		limit = min(iterativeLimit*exactRows, j.iteratedRows())
	}
	return min(limit, j.sampleCells()/j.schema.Width())
}

// subsamples reports whether the model of n rows is the exact kernel of a random part of them.
func (j *job) subsamples(n int64) bool {
	limit := j.exactLimit()
	return limit > j.o.Sample && n > int64(limit) && j.mapOpen() && j.iterative() && j.task != machine.Unsupervised &&
		j.o.Bandwidth == 0 && j.o.Lambda == 0
}

// partRows returns the number of rows of such a part. It is smaller than exactLimit, because a table beyond the limit
// takes more time to read and also fits landmarks.
func (j *job) partRows() int { return j.exactLimit() / 6 * 5 }

// exactOf reports whether choices for n rows are made for the exact kernel, of all rows or of a part of them.
func (j *job) exactOf(n int64) bool { return n <= int64(j.exactLimit()) || j.subsamples(n) }

// shifts reports whether settings of classes with weights are judged by log loss.
func (j *job) shifts() bool { return j.o.ClassWeights != nil && j.weights != nil && j.exactPossible() }

func (j *job) setup(spec randfeat.Spec) machine.Setup {
	return machine.Setup{Spec: spec, Task: j.task, Outputs: j.outputs, Float32: j.o.Float32, Block: j.o.Block,
		Weighted: j.weights != nil}
}

// iterative reports whether conjugate gradients can solve the exact kernel: rows have no weights, groups or times. With
// groups or times every fold is a separate fit.
func (j *job) iterative() bool {
	return j.weights == nil && j.o.ClassWeights == nil && !j.deal.grouped() && !j.deal.ordered()
}

// iterates reports whether conjugate gradients always solve the exact kernel of n rows.
func (j *job) iterates(n int) bool {
	return j.iterative() && n > min(iterativeRows, exactRows, j.factoredRows())
}

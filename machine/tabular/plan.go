package tabular

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/machine"
)

// Table is the information about a table from which [Choose] makes its choices. It comes from one pass over the table,
// as a whole or in parts.
type Table struct {
	Name    string // in messages
	Schema  *data.Schema
	Summary *data.Summary // nil if the schema was given
	Rows    int64         // rows that will be summed
	// X and Y are a sample of the rows, encoded by Schema. Y is empty for a density.
	X, Y dense.Matrix[float64]
}

// Plan holds the choices for a model that is fitted from sums over rows. [Choose] makes it from a sample alone, any
// number of workers sum their rows by it, and [Plan.Finish] turns the total into a model. It is plain data with a file
// form.
type Plan struct {
	Name    string        `json:"name"`   // of the table
	Schema  *data.Schema  `json:"schema"` // with the weights of columns
	Summary *data.Summary `json:"summary,omitempty"`
	Kind    machine.Kind  `json:"kind"`
	Task    machine.Task  `json:"task"`
	Outputs int           `json:"outputs"`
	Spec    randfeat.Spec `json:"spec"`
	Lambda  float64       `json:"lambda"`
	Open    bool          `json:"open,omitempty"`  // the sums of all rows decide on λ, near Lambda
	Given   bool          `json:"given,omitempty"` // the caller set λ: it is not raised
	Float32 bool          `json:"float32,omitempty"`
	Block   int           `json:"block"`
	Rows    int64         `json:"rows"`    // of the table
	Sampled int           `json:"sampled"` // rows of the sample, on which choices were tried
	Seed    uint64        `json:"seed"`
	// ClassWeights weigh the calibrated probabilities of classes.
	ClassWeights []float64 `json:"class_weights,omitempty"`
	Choices      []Choice  `json:"choices"`
	Notes        []string  `json:"notes,omitempty"`
	// Metric describes the metric of the kernel of Spec.
	Metric *machine.Metric `json:"metric,omitempty"`

	omega []coupling.Omega // landmarks; nil: drawn from Spec
}

// Choose makes the choices of [Fit] that need only a sample, for random features or landmarks. The model then follows
// from sums over all rows, in any number of parts ([Plan.Setup], [Plan.Finish]).
//
// Fit does three more things, which need all rows: it considers the exact kernel for few rows, reads the rows again to
// choose λ of classes, and scores by refitting without each fold. Choose refuses options that need the rows: groups,
// times and weights of rows, and exact kernels.
func Choose(ctx context.Context, t Table, o Options) (*Plan, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), machine.ErrSetup)
	}
	switch {
	case len(o.Marks.Names()) > 0:
		return nil, bad("columns of weights, groups or times (%v) are not read by parts: fit the table as one",
			o.Marks.Names())
	case o.Map == MapExact || o.Loss != "":
		return nil, bad("an exact kernel needs all rows in one place: leave map and loss out, or fit the table as one")
	case o.IntervalBy != "":
		return nil, bad("intervals by a column (%s) are made of rows in one place: leave it out, or fit the table as one",
			o.IntervalBy)
	case len(o.Code) > 0:
		return nil, bad("codes of levels are learned from all rows in one place: leave them out, or fit the table as one")
	case o.Features > maxFeatures:
		return nil, bad("%d features, sums have at most %d", o.Features, maxFeatures)
	case t.Schema == nil:
		return nil, bad("no schema")
	}
	f := &job{ctx: ctx, src: namedSource(t.Name), o: o, weighs: o.Schema == nil, summed: true, schema: t.Schema,
		summary: t.Summary, deal: newDealer(o.Seed, nil)}
	if err := f.settle(); err != nil {
		return nil, err
	}
	if !f.info.Summed() {
		return nil, bad("rows of a %s model do not add up, so it cannot be fitted by parts: use another model (%s), whose "+
			"scores of classes become probabilities by the rows held out; or fit the table as one", f.kind,
			joined(slices.DeleteFunc(machine.KindsOf(f.task), func(k machine.Kind) bool { return k == f.kind })))
	}
	s, err := f.given(t)
	if err != nil {
		return nil, err
	}
	d, _, err := choose(newFrame(f, s), t.Rows)
	if err != nil {
		return nil, err
	}
	schema, notes := t.Schema, d.Notes
	if d.Fields != nil {
		schema = weightedFields(schema, d.Fields)
	}
	if t.Summary != nil {
		notes = slices.Concat(t.Summary.Notes, notes)
	}
	return &Plan{Name: t.Name, Schema: schema, Summary: t.Summary, Kind: f.kind, Task: f.task, Outputs: f.outputs,
		Spec: d.Spec, Lambda: d.Lambda, Open: d.Open, Given: o.Lambda > 0, Float32: o.Float32, Block: f.o.Block,
		Rows: t.Rows, Sampled: s.len(), Seed: o.Seed, ClassWeights: o.ClassWeights, Choices: d.Choices, Notes: notes,
		Metric: d.Metric, omega: d.marks}, nil
}

// given turns the sample of a table into a sample of the search. Folds are dealt by the place in the sample.
func (j *job) given(t Table) (*sample, error) {
	targets := machine.Setup{Task: j.task, Outputs: j.outputs}.TargetColumns()
	if t.X.Cols != j.schema.Width() || t.Y.Cols != targets ||
		t.Y.Cols > 0 && t.Y.Rows != t.X.Rows || t.Rows < int64(t.X.Rows) {
		return nil, fmt.Errorf("a sample of %d×%d inputs and %d×%d targets of %d rows: %w", t.X.Rows, t.X.Cols,
			t.Y.Rows, t.Y.Cols, t.Rows, dense.ErrShape)
	}
	counts := make([]int64, j.outputs)
	for i := 0; j.task == machine.Classification && i < t.Y.Rows; i++ {
		c := t.Y.At(i, 0)
		if c != float64(int(c)) || c < 0 || int(c) >= j.outputs {
			return nil, fmt.Errorf("class %g of row %d of the sample: %w", c, i, machine.ErrClass)
		}
		counts[int(c)]++
	}
	if err := j.checkRows(int64(t.X.Rows), counts); err != nil {
		return nil, err
	}
	folds := j.innerFolds(int64(t.X.Rows))
	s := &sample{x: dense.New[float64](t.X.Rows, t.X.Cols), y: dense.New[float64](t.X.Rows, t.Y.Cols),
		rows: make([]int64, t.X.Rows)}
	at := 0
	for k := range folds {
		s.first = append(s.first, at)
		for i := range t.X.Rows {
			if j.deal.of(int64(i), folds) == k {
				copy(s.x.Row(at), t.X.Row(i))
				s.rows[at] = int64(i)
				if t.Y.Cols > 0 {
					copy(s.y.Row(at), t.Y.Row(i))
				}
				at++
			}
		}
	}
	s.first = append(s.first, at)
	if j.task == machine.Regression {
		j.schema.Standardise(s.y, s.y)
	}
	s.t = indicators(j.task, j.outputs, s.y)
	return s, nil
}

// Setup returns the setup for machine.NewSums of p.Kind. Pass regression targets through p.Schema.Standardise before
// adding them.
func (p *Plan) Setup() (machine.Setup, error) {
	s := machine.Setup{Spec: p.Spec, Omega: p.omega, Task: p.Task, Outputs: p.Outputs, Float32: p.Float32,
		Block: p.Block}
	var err error
	if s.Omega == nil {
		s.Omega, err = randfeat.Draw(p.Spec)
	}
	return s, err
}

// Finish makes the model from the total of the sums. held are rows encoded by p.Schema that are neither in the sums nor
// in the sample of the choices. They supply scores, prediction intervals, class probabilities and the quantiles of a
// density. If held is nil, the model has none of these.
func (p *Plan) Finish(ctx context.Context, total machine.Sums, held machine.Rows) (*machine.Model, *Report, error) {
	info, err := p.Kind.Info()
	if err != nil {
		return nil, nil, err
	}
	o := Options{Seed: p.Seed, Block: p.Block, ClassWeights: p.ClassWeights}
	if p.Given {
		o.Lambda = p.Lambda
	}
	c := &chosen{job: &job{ctx: ctx, src: namedSource(p.Name), o: o, schema: p.Schema, summary: p.Summary, kind: p.Kind,
		info: info, task: p.Task, outputs: p.Outputs, deal: newDealer(p.Seed, nil), summed: true},
		d: &decision{Spec: p.Spec, Lambda: p.Lambda, Open: p.Open, Rows: p.Rows, Metric: p.Metric}}
	f := &final{chosen: c, log: &journal{notes: slices.Clone(p.Notes)}, choices: p.Choices}
	lambda := p.Lambda
	if p.Open {
		if lambda, err = f.openPenalty(total); err != nil {
			return nil, nil, err
		}
	}
	if err := f.solve(total, lambda); err != nil {
		return nil, nil, err
	}
	var s stated
	if held != nil {
		if s, err = judge(c.job, f.model, held); err != nil {
			return nil, nil, err
		}
	}
	f.restore()
	r := c.report(f.choices, s, f.log)
	f.model.History = r.history()
	return f.model, &r, f.model.Validate()
}

// judge states the scores of a model of standardised targets from rows that it has not seen.
func judge(j *job, m *machine.Model, rows machine.Rows) (stated, error) {
	f := &frame{job: j, s: new(sample), folds: 1}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return stated{}, err
	}
	u := unseen{folds: 1}
	var ws machine.Workspace[float64]
	err = j.watch(rows, stageScore).Each(j.o.Block, func(x, y matrix) error {
		pred, variance := dense.New[float64](x.Rows, max(m.Outputs, 1)), matrix{}
		if err := p.Predict(pred, x, &ws); err != nil {
			return err
		}
		if j.info.Bayesian {
			variance = dense.New[float64](x.Rows, m.Outputs)
			if err := p.Variance(variance, x, &ws); err != nil {
				return err
			}
		}
		for i := range x.Rows {
			u.rows, u.fold = append(u.rows, len(u.rows)), append(u.fold, 0)
			f.s.rows = append(f.s.rows, int64(len(u.rows)))
			u.pred = appendRow(u.pred, pred.Row(i))
			if y.Cols > 0 {
				f.s.y = appendRow(f.s.y, y.Row(i))
			}
			if variance.Rows > 0 {
				u.variance = appendRow(u.variance, variance.Row(i))
			}
		}
		return nil
	})
	if err != nil || len(u.rows) == 0 {
		return stated{}, err
	}
	f.s.x.Rows, f.fold = len(u.rows), [][]int{u.fold}
	var s stated
	if j.task == machine.Unsupervised {
		s, err = f.stateDensity(m, []unseen{u})
	} else {
		s, err = f.state(m, []unseen{u}, new(journal))
	}
	s.on = fmt.Sprintf("%d rows that were held out of choices and sums", len(u.rows))
	return s, err
}

// namedSource is a table that is elsewhere: only its name is known.
type namedSource string

func (s namedSource) Name() string                          { return string(s) }
func (s namedSource) Columns() []string                     { return nil }
func (s namedSource) Open([]data.Kind) (data.Reader, error) { return nil, errElsewhere }

var errElsewhere = errors.New("the rows of the table are elsewhere")

const (
	planFormat  = "randfeat plan"
	planVersion = 1
)

// AppendBinary appends the file form of the plan to b: a safetensors container with checksums. It holds the plan as
// JSON and landmarks as a tensor.
func (p *Plan) AppendBinary(b []byte) ([]byte, error) {
	state, err := json.Marshal(p)
	if err != nil {
		return b, err
	}
	c := &tensorfile.File{Metadata: map[string]string{"format": planFormat, "version": strconv.Itoa(planVersion),
		"plan": string(state)}}
	if p.omega != nil {
		m := p.omega[0].Rows
		c.Tensors = append(c.Tensors, tensorfile.Floats("landmarks", m.Data, m.Rows, m.Cols))
	}
	c.Seal()
	w := bytes.NewBuffer(b)
	_, err = c.WriteTo(w)
	return w.Bytes(), err
}

// MarshalBinary is AppendBinary to no bytes.
func (p *Plan) MarshalBinary() ([]byte, error) { return p.AppendBinary(nil) }

// UnmarshalPlan reads the form that [Plan.AppendBinary] writes. Any other input is machine.ErrCorrupt.
func UnmarshalPlan(b []byte) (*Plan, error) {
	corrupt := func(format string, args ...any) (*Plan, error) {
		return nil, fmt.Errorf("%w: %w", machine.ErrCorrupt, fmt.Errorf(format, args...))
	}
	c, err := tensorfile.Parse(b)
	if err != nil {
		return corrupt("%w", err)
	}
	if v := c.Metadata["format"]; v != planFormat {
		return corrupt("format %q, want %q", v, planFormat)
	}
	if v := c.Metadata["version"]; v != strconv.Itoa(planVersion) {
		return corrupt("version %q of the format, this program reads %d", v, planVersion)
	}
	if err := c.Verify(); err != nil {
		return corrupt("%w", err)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(c.Metadata["plan"])))
	dec.DisallowUnknownFields()
	p := new(Plan)
	if err := dec.Decode(p); err != nil {
		return corrupt("%w", err)
	}
	if p.Schema == nil {
		return corrupt("no schema")
	}
	if err := p.Schema.Validate(); err != nil {
		return corrupt("%w", err)
	}
	info, err := p.Kind.Info()
	switch {
	case err != nil:
		return corrupt("%w", err)
	case !info.Summed() || !slices.Contains(info.Tasks, p.Task):
		return corrupt("a %s model for task %q", p.Kind, p.Task)
	case p.Spec.Dim != p.Schema.Width() || p.Block < 1 || p.Block > maxBlock || p.Rows < 0 || p.Outputs < 0:
		return corrupt("%d columns of the map, %d of the schema, blocks of %d rows", p.Spec.Dim, p.Schema.Width(),
			p.Block)
	}
	landmarks := family.InfoOf(p.Spec.Family).KernelColumns
	t, ok := c.Tensor("landmarks")
	if ok != landmarks {
		return corrupt("landmarks are missing, or too many")
	}
	if ok {
		if p.Spec.M < 1 || !slices.Equal(t.Shape, []int{p.Spec.M, p.Spec.Kernel.Dim(p.Spec.Dim)}) {
			return corrupt("landmarks of shape %v", t.Shape)
		}
		marks := dense.New[float64](t.Shape[0], t.Shape[1])
		if err := fill(c, "landmarks", marks); err != nil {
			return nil, err
		}
		p.omega = []coupling.Omega{{Rows: marks}}
	}
	return p, nil
}

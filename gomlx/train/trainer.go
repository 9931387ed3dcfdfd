package train

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/dense"
)

// Batch has the inputs of a model, see Task.Outcome.
type Batch []*tensors.Tensor

// Source makes batches of one shape. A batch depends only on its number and the seed, so that a resumed run sees the
// same batches.
type Source interface {
	Train(seed uint64, i int) Batch
	Held() int // number of held-out batches
	HeldOut(i int) Batch
	Items() int // tokens of a batch, or another unit if the source has a method Unit() string
}

// Follower is a source whose training batches need the model's own output, such as draws from its softmax. Train
// returns batches of the full shape; Complete fills them in.
type Follower interface {
	Source
	Complete(b Batch, seed uint64, i int, v View) (Batch, error)
}

// View is the part of a model with QueryRows that a Follower sees: the rows that are multiplied with the token
// table, and the table.
type View struct{ Queries, Table dense.Matrix[float32] }

// ErrDiverged means that a number is not finite. It is wrapped with the step and the layer. The parameters are those
// before the step.
var ErrDiverged = errors.New("diverged")

// Result is the result of a step or an evaluation.
type Result struct {
	Loss     float64 // mean −log p, nats
	Accuracy float64
	Norm     float64 // norm of the gradient before clipping
	Count    float64
}

// Trainer trains one model. It must not be used by concurrent calls.
type Trainer struct {
	Model  Task
	Config Config
	Source Source

	backend compute.Backend
	store   *model.Store
	step    *model.Exec
	eval    *model.Exec
	hidden  *model.Exec          // rows for a Follower
	begin   map[string][]float32 // initial values that layers give their variables
	done    int                  // steps taken

	parallel *parallel // nil on one device
}

// New builds and compiles the training step and initialises the parameters.
func New(b compute.Backend, m Task, c Config, s Source) (*Trainer, error) {
	c = c.normal()
	if err := errors.Join(m.Validate(), c.Validate()); err != nil {
		return nil, err
	}
	t := &Trainer{Model: m, Config: c, Source: s, backend: b, store: model.NewStore()}
	var err error
	t.step, err = model.NewExec(b, t.store, func(scope *model.Scope, in []*Node) *Node {
		return stepGraph(c, m, scope, in)
	})
	if err != nil {
		return nil, err
	}
	t.eval, err = model.NewExec(b, t.store, func(scope *model.Scope, in []*Node) *Node {
		return evalGraph(m, scope, in)
	})
	if err != nil {
		return nil, err
	}
	var at []shapes.Shape
	for _, x := range s.Train(c.Seed, 0) {
		at = append(at, x.Shape())
	}
	if err := guard(func() error {
		_, err := t.step.Compile(append(at, shapes.Make(dtypes.Float32, inNumbers))...)
		return err
	}); err != nil {
		return nil, err
	}
	t.begin = map[string][]float32{}
	for _, v := range t.variables() {
		if !v.HasValue() {
			continue
		}
		value, err := v.Value()
		if err != nil {
			return nil, err
		}
		if t.begin[v.Path()], err = tensors.CopyFlatData[float32](value); err != nil {
			return nil, err
		}
	}
	return t, t.Reset(c.Seed)
}

// guard turns the panics with which GoMLX reports errors in a graph into errors, and strips its account of where
// they happened.
func guard(f func() error) (err error) {
	defer func() {
		if err != nil {
			if _, why, ok := strings.Cut(err.Error(), " panicked: "); ok {
				err = &graphError{why, err}
			}
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); ok {
				err = e
				return
			}
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}

type graphError struct {
	why string
	error
}

func (e *graphError) Error() string { return e.why }
func (e *graphError) Unwrap() error { return e.error }

// Close frees the memory of the backend.
func (t *Trainer) Close() {
	t.parallel.close()
	t.step.Finalize()
	t.eval.Finalize()
	if t.hidden != nil {
		t.hidden.Finalize()
	}
	t.store.Finalize()
}

// Reset starts again with the parameters, batches and projections of a seed, without compiling.
func (t *Trainer) Reset(seed uint64) error {
	t.Config.Seed, t.done = seed, 0
	for _, v := range t.variables() {
		x := make([]float32, v.Shape().Size())
		switch {
		case strings.HasPrefix(v.Path(), "/"+optimizer+"/"):
		case t.begin[v.Path()] != nil:
			copy(x, t.begin[v.Path()])
		default:
			x = t.Model.Initial(v.Path(), v.Shape().Dimensions, seed)
		}
		if err := v.SetValue(tensors.FromFlatDataAndDimensions(x, v.Shape().Dimensions...)); err != nil {
			return err
		}
	}
	return t.refresh(0, false)
}

// variables returns all variables of the store in the order of their paths.
func (t *Trainer) variables() []*model.Variable {
	all := slices.Collect(t.store.IterVariables())
	slices.SortFunc(all, func(a, b *model.Variable) int { return strings.Compare(a.Path(), b.Path()) })
	return all
}

// refresh draws the projections for a step.
func (t *Trainer) refresh(step int, fit bool) error {
	draw := t.Config.Seed + 1
	if t.Config.Redraw > 0 {
		draw += uint64(step/t.Config.Redraw) << 32
	}
	err := t.Model.Refresh(t.backend, t.store.RootScope(), draw, fit)
	if err != nil {
		return fmt.Errorf("step %d: %w", step, err)
	}
	return nil
}

// Done returns the number of steps taken.
func (t *Trainer) Done() int { return t.done }

// Step takes the next step. Redraws and fits that are due come first.
func (t *Trainer) Step() (Result, error) {
	c := t.Config
	redraw := c.Redraw > 0 && t.done > 0 && t.done%c.Redraw == 0
	if fitted := c.Fit > 0 && t.done >= c.Fit; redraw || fitted && t.done == c.Fit {
		if err := t.refresh(t.done, fitted); err != nil {
			return Result{}, err
		}
	}
	if t.parallel != nil {
		return t.parallel.step(t)
	}
	var total Result
	for i := range c.Accumulate {
		batch, err := t.batch(t.done*c.Accumulate + i)
		if err != nil {
			return Result{}, fmt.Errorf("step %d: %w", t.done, err)
		}
		numbers := c.numbers(t.done, i)
		args := make([]any, 0, len(batch)+1)
		for _, x := range batch {
			args = append(args, x)
		}
		out, err := call(t.step, append(args, tensors.FromFlatDataAndDimensions(numbers, len(numbers))))
		if err != nil {
			return Result{}, fmt.Errorf("step %d: %w", t.done, err)
		}
		if err := t.check(out, args); err != nil {
			return Result{}, err
		}
		r := result(out)
		r.Norm = float64(out[outNorm])
		total.add(r)
	}
	t.done++
	return total, nil
}

// batch returns a training batch; a Follower completes it.
func (t *Trainer) batch(i int) (Batch, error) {
	b := t.Source.Train(t.Config.Seed, i)
	f, ok := t.Source.(Follower)
	if !ok {
		return b, nil
	}
	v, err := t.View(b[0])
	if err != nil {
		return nil, err
	}
	return f.Complete(b, t.Config.Seed, i, v)
}

// View returns the output of the model that a Follower gets for tokens [batch, length].
func (t *Trainer) View(tokens *tensors.Tensor) (v View, err error) {
	m, ok := t.Model.(interface {
		QueryRows(scope *model.Scope, tokens *Node) *Node
		TablePath() string // of the variable that has one row per token
	})
	if !ok {
		return v, fmt.Errorf("%w: the model has no hidden rows to draw by", ErrConfig)
	}
	if t.hidden == nil {
		t.hidden, err = model.NewExec(t.backend, t.store, func(scope *model.Scope, in []*Node) *Node {
			scope.Store().SetTraining(in[0].Graph(), false)
			return m.QueryRows(scope, in[0])
		})
		if err != nil {
			return v, err
		}
	}
	rows, err := call(t.hidden, []any{tokens})
	if err != nil {
		return v, err
	}
	table := t.store.GetVariable(m.TablePath())
	if table == nil {
		return v, fmt.Errorf("%w: the model has no %s", ErrConfig, m.TablePath())
	}
	value, err := table.Value()
	if err != nil {
		return v, err
	}
	flat, err := tensors.CopyFlatData[float32](value)
	if err != nil {
		return v, err
	}
	d := table.Shape().Dimensions
	v.Table = dense.Matrix[float32]{Rows: d[0], Cols: d[1], Stride: d[1], Data: flat}
	v.Queries = dense.Matrix[float32]{Rows: len(rows) / d[1], Cols: d[1], Stride: d[1], Data: rows}
	return v, nil
}

func result(out []float32) Result {
	n := max(1, float64(out[outCount]))
	return Result{Loss: float64(out[outLoss]) / n, Accuracy: float64(out[outRight]) / n, Count: n}
}

// add combines the results of two batches. The norm is that of the last.
func (r *Result) add(o Result) {
	n := r.Count + o.Count
	r.Loss = (r.Loss*r.Count + o.Loss*o.Count) / n
	r.Accuracy = (r.Accuracy*r.Count + o.Accuracy*o.Count) / n
	r.Norm, r.Count = o.Norm, n
}

// call runs a graph with one output.
func call(e *model.Exec, args []any) (flat []float32, err error) {
	err = guard(func() error {
		out, err := e.Call(args...)
		if err != nil {
			return err
		}
		flat, err = tensors.CopyFlatData[float32](out[0])
		out[0].MustFinalizeAll()
		return err
	})
	return flat, err
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// check returns an error if a batch gave numbers that are not finite. It names the first layer, or else the last
// parameter, where they occur. The step was not applied, so the batch can be computed again.
func (t *Trainer) check(out []float32, batch []any) error {
	if finite(out[outLoss]) && finite(out[outNorm]) {
		return nil
	}
	where := "the loss"
	var found []string
	look, err := model.NewExec(t.backend, t.store, func(scope *model.Scope, in []*Node) *Node {
		return faultGraph(t.Model, scope, in, &found)
	})
	if err == nil {
		defer look.Finalize()
		var all []float32
		if all, err = call(look, batch); err == nil {
			if i := slices.IndexFunc(all, func(x float32) bool { return !finite(x) }); i >= 0 {
				where = found[i]
			}
		}
	}
	return errors.Join(fmt.Errorf("step %d: %s is not finite: %w (lower the learning rate, or clip)", t.done, where,
		ErrDiverged), err)
}

// Evaluate returns the loss on all held-out batches.
func (t *Trainer) Evaluate() (Result, error) {
	var total Result
	for i := range t.Source.Held() {
		var args []any
		for _, x := range t.Source.HeldOut(i) {
			args = append(args, x)
		}
		exec := t.eval
		if t.Config.OneGraph {
			still := make([]float32, inNumbers) // inApply is 0: the step changes nothing
			exec, args = t.step, append(args, tensors.FromFlatDataAndDimensions(still, inNumbers))
		}
		out, err := call(exec, args)
		if err != nil {
			return Result{}, fmt.Errorf("held-out batch %d: %w", i, err)
		}
		total.add(result(out))
	}
	return total, nil
}

package train

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// replica computes gradients on one device. Only the first shares the store of the trainer.
type replica struct {
	store *model.Store
	exec  *model.Exec
}

// parallel divides the batches of a step among devices.
type parallel struct {
	replicas []replica // the first is on the trainer's own device and store
	apply    *model.Exec
	all      []parameter
	kept     []string // variables in which layers keep rows of the last batch
	built    bool     // whether the graphs have been built
}

// Parallel divides the batches of every step, Config.Accumulate of them, among the device of the trainer and others.
// Gradients are summed on the host in the order of the batches, so on the Go backend the parameters are
// bit-identical to those of one device. The other devices hold the model but no optimizer state.
func (t *Trainer) Parallel(others ...compute.Backend) error {
	if n := len(others) + 1; t.Config.Accumulate%n != 0 {
		return fmt.Errorf("%w: %d batches per step for %d devices: accumulate a multiple", ErrConfig, t.Config.Accumulate,
			n)
	}
	if _, ok := t.Source.(Follower); ok {
		return fmt.Errorf("%w: draws by the model itself are made for one device", ErrConfig)
	}
	c, p := t.Config, &parallel{}
	for i, b := range append([]compute.Backend{t.backend}, others...) {
		r := replica{store: t.store}
		if i > 0 {
			r.store = model.NewStore()
		}
		var err error
		r.exec, err = model.NewExec(b, r.store, func(scope *model.Scope, in []*Node) []*Node {
			o, _, all, grads := gradients(t.Model, scope, in[:len(in)-1])
			p.kept = nil
			for _, v := range kept(scope, in[0].Graph()) {
				p.kept = append(p.kept, v.Path())
			}
			if i == 0 {
				p.all = all
			}
			grad := MulScalar(treat(all, in[len(in)-1]).flat(grads), 1/float64(c.Accumulate))
			norm := Sqrt(ReduceAllSum(Square(grad)))
			return []*Node{Stack([]*Node{o.Loss, o.Count, o.Right, norm}, 0), grad}
		})
		if err != nil {
			return err
		}
		p.replicas = append(p.replicas, r)
	}
	var err error
	p.apply, err = model.NewExec(t.backend, t.store, func(scope *model.Scope, in []*Node) *Node {
		grad, numbers := in[0], in[1]
		norm := Sqrt(ReduceAllSum(Square(grad)))
		treat(p.all, numbers).update(c, scope, grad, norm, isFinite(norm), numbers)
		return Stack([]*Node{norm, ScalarZero(grad.Graph(), dtypes.Float32)}, 0)
	})
	t.parallel = p
	return err
}

func (p *parallel) close() {
	if p == nil {
		return
	}
	p.apply.Finalize()
	for i, r := range p.replicas {
		if r.exec.Finalize(); i > 0 {
			r.store.Finalize()
		}
	}
}

// send copies the variables that pick selects from one store to another.
func send(from, to *model.Store, pick func(path string) bool) error {
	for v := range from.IterVariables() {
		if !pick(v.Path()) || !v.HasValue() {
			continue
		}
		value, err := v.Value()
		if err != nil {
			return err
		}
		local, err := value.LocalClone()
		if err != nil {
			return err
		}
		cut := strings.LastIndexByte(v.Path(), '/')
		at, name := v.Path()[:max(cut, 1)], v.Path()[cut+1:]
		if known := to.Scope(at).GetVariable(name); known != nil {
			err = known.SetValue(local)
		} else {
			to.Scope(at).VariableWithValue(name, local).SetTrainable(v.Trainable)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step is Trainer.Step on several devices: copy the parameters to all of them, compute the gradients of the batches
// in parallel, add them in order, apply the step on the first device, and copy the rows that layers keep of the last
// batch back to it.
func (p *parallel) step(t *Trainer) (Result, error) {
	c := t.Config
	fail := func(err error) (Result, error) { return Result{}, fmt.Errorf("step %d: %w", t.done, err) }
	for _, r := range p.replicas[1:] {
		err := send(t.store, r.store, func(path string) bool {
			return !strings.HasPrefix(path, "/"+optimizer+"/") && !slices.Contains(p.kept, path)
		})
		if err != nil {
			return fail(err)
		}
	}
	args := make([][]any, c.Accumulate)
	outs, grads, errs := make([][]float32, len(args)), make([][]float32, len(args)), make([]error, len(args))
	for i := range args {
		for _, x := range t.Source.Train(c.Seed, t.done*c.Accumulate+i) {
			args[i] = append(args[i], x)
		}
	}
	numbers := c.numbers(t.done, c.Accumulate-1)
	enter := func() *tensors.Tensor { return tensors.FromFlatDataAndDimensions(slices.Clone(numbers), len(numbers)) }
	var wg sync.WaitGroup
	for d, r := range p.replicas {
		wg.Go(func() {
			for i := d; i < len(args); i += len(p.replicas) {
				outs[i], grads[i], errs[i] = r.gradient(append(slices.Clone(args[i]), enter()))
			}
		})
		if !p.built {
			wg.Wait() // build the graphs one after the other
		}
	}
	wg.Wait()
	p.built = true
	var total Result
	var sum []float32
	for i := range args {
		if errs[i] != nil {
			return fail(errs[i])
		}
		if err := t.check(outs[i], args[i]); err != nil {
			return Result{}, err
		}
		total.add(result(outs[i]))
		if sum == nil {
			sum = grads[i]
			continue
		}
		for j, x := range grads[i] {
			sum[j] += x
		}
	}
	out, err := call(p.apply, []any{tensors.FromFlatDataAndDimensions(sum, len(sum)), enter()})
	if err != nil {
		return fail(err)
	}
	last := p.replicas[(c.Accumulate-1)%len(p.replicas)]
	if last.store != t.store {
		rows := func(path string) bool { return slices.Contains(p.kept, path) }
		if err := send(last.store, t.store, rows); err != nil {
			return fail(err)
		}
	}
	total.Norm = float64(out[0])
	t.done++
	return total, nil
}

// gradient returns the sums and the gradient of one batch.
func (r replica) gradient(args []any) (out, grad []float32, err error) {
	err = guard(func() error {
		both, err := r.exec.Call(args...)
		if err != nil {
			return err
		}
		if out, err = tensors.CopyFlatData[float32](both[0]); err != nil {
			return err
		}
		grad, err = tensors.CopyFlatData[float32](both[1])
		for _, x := range both {
			x.MustFinalizeAll()
		}
		return err
	})
	return out, grad, err
}

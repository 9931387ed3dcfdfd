package train

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// Numbers that enter a training step.
const (
	inRate    = iota
	inBias1   // 1/(1 − β₁ᵗ)
	inBias2   // 1/(1 − β₂ᵗ)
	inDecay   // weight decay of matrices
	inClip    // bound on the norm; +Inf for none
	inApply   // 1 in the last batch of a step
	inGroup   // one per Group: 1 if it is trained, else 0
	inNumbers = inGroup + int(Groups)
)

// groups returns the groups that a regime trains.
func (r Regime) groups() []Group {
	switch r {
	case Attention:
		return []Group{Projections, Kernel, Features}
	case Dark:
		return []Group{Kernel}
	}
	return []Group{Body, Projections, Kernel, Features}
}

// Trains reports whether a group is trained.
func (r Regime) Trains(g Group) bool { return slices.Contains(r.groups(), g) }

// numbers returns the numbers that enter a batch of a step.
func (c Config) numbers(step, batch int) []float32 {
	n := make([]float32, inNumbers)
	t := float64(step + 1)
	n[inRate] = float32(c.rate(step))
	n[inBias1] = float32(1 / (1 - math.Pow(c.Beta1, t)))
	n[inBias2] = float32(1 / (1 - math.Pow(c.Beta2, t)))
	n[inDecay] = float32(c.Decay)
	n[inClip] = float32(math.Inf(1))
	if c.Clip > 0 {
		n[inClip] = float32(c.Clip)
	}
	if batch == c.Accumulate-1 {
		n[inApply] = 1
	}
	for _, g := range c.Regime.groups() {
		if !slices.Contains(c.Still, g) {
			n[inGroup+int(g)] = 1
		}
	}
	return n
}

// The numbers that come out.
const (
	outLoss = iota
	outCount
	outRight
	outNorm
)

// parameter is a parameter that a graph trains.
type parameter struct {
	*model.Variable
	group Group
	decay bool // matrices, except those of the attention kernel, whose neutral value is not zero
}

// gradients returns the gradients of the mean loss of a batch by all parameters. Parameters are sorted so that those
// of one treatment (group and decay) are neighbours.
func gradients(task Task, scope *model.Scope, batch []*Node) (o Outcome, loss *Node, all []parameter,
	grads []*Node) {
	g := batch[0].Graph()
	scope.Store().SetTraining(g, true)
	o = task.Outcome(scope, batch)
	loss = Div(o.Loss, MaxScalar(o.Count, 1.0))
	for v := range scope.Store().IterVariables() {
		if v.Trainable && v.InUseByGraph(g) {
			group := task.Group(v.Path())
			all = append(all, parameter{v, group, v.Shape().Rank() > 1 && group < Kernel})
		}
	}
	slices.SortFunc(all, func(a, b parameter) int {
		byDecay := 0
		if a.decay != b.decay {
			if byDecay = 1; a.decay {
				byDecay = -1
			}
		}
		return cmp.Or(cmp.Compare(a.group, b.group), byDecay, strings.Compare(a.Path(), b.Path()))
	})
	var nodes []*Node
	for _, v := range all {
		nodes = append(nodes, v.NodeValue(g))
	}
	return o, loss, all, Gradient(loss, nodes...)
}

// stepGraph is the graph of one batch: the gradient of the mean loss and, with inApply, a step of AdamW. If any
// number is not finite, nothing changes.
func stepGraph(c Config, task Task, scope *model.Scope, in []*Node) *Node {
	batch, numbers := in[:len(in)-1], in[len(in)-1]
	g := numbers.Graph()
	o, loss, all, grads := gradients(task, scope, batch)
	apply := GreaterThan(number(numbers, inApply), ScalarZero(g, dtypes.Float32))
	held := kept(scope, g) // before the optimizer adds variables of its own
	t := treat(all, numbers)
	grad := t.flat(grads)
	if c.Accumulate > 1 {
		sum := private(scope, "sum", t.size)
		grad = Add(sum.NodeValue(g), MulScalar(grad, 1/float64(c.Accumulate)))
		keep := LogicalAnd(LogicalNot(apply), isFinite(ReduceAllSum(grad)))
		sum.SetNodeValue(Where(keep, grad, ZerosLike(grad)))
	}
	norm := Sqrt(ReduceAllSum(Square(grad)))
	do := LogicalAnd(apply, LogicalAnd(isFinite(norm), isFinite(loss)))
	for _, v := range held { // layers only keep rows of batches that were applied
		v.SetNodeValue(Where(do, v.NodeValue(g), g.GetParameterByName(v.Path())))
	}
	t.update(c, scope, grad, norm, do, numbers)
	return Stack([]*Node{o.Loss, o.Count, o.Right, norm}, 0)
}

// number returns one of the numbers that enter a step.
func number(numbers *Node, i int) *Node { return Squeeze(Slice(numbers, AxisElem(i))) }

// private returns a variable of the optimizer.
func private(scope *model.Scope, name string, size int) *model.Variable {
	at := scope.Store().Scope("/" + optimizer).WithInitializer(initializer.Zero)
	return at.VariableWithShape(name, shapes.Make(dtypes.Float32, size)).SetTrainable(false)
}

// treatment has all parameters as one vector, so that the compiler makes a few loops instead of several for every
// parameter.
type treatment struct {
	all            []parameter
	size           int
	trained, decay *Node // 1 where a parameter is trained, else 0; the weight decay
}

func treat(all []parameter, numbers *Node) treatment {
	t := treatment{all: all}
	g := numbers.Graph()
	var mask, decay []*Node
	segment := 0 // numbers of the current treatment so far
	for i, v := range all {
		n := v.Shape().Size()
		t.size += n
		segment += n
		if i+1 < len(all) && all[i+1].group == v.group && all[i+1].decay == v.decay {
			continue
		}
		mask = append(mask, BroadcastToDims(number(numbers, inGroup+int(v.group)), segment))
		shrink := ScalarZero(g, dtypes.Float32)
		if v.decay {
			shrink = number(numbers, inDecay)
		}
		decay = append(decay, BroadcastToDims(shrink, segment))
		segment = 0
	}
	t.trained, t.decay = Concatenate(mask, 0), Concatenate(decay, 0)
	return t
}

// flat concatenates the gradients and sets those of frozen parameters to zero.
func (t treatment) flat(grads []*Node) *Node {
	for i, v := range t.all {
		grads[i] = Reshape(ConvertDType(grads[i], dtypes.Float32), v.Shape().Size())
	}
	grad := Concatenate(grads, 0)
	return Where(IsZero(t.trained), ZerosLike(grad), grad) // a product would let NaN and Inf through
}

// update takes a step of AdamW (Loshchilov and Hutter 2019, Algorithm 2) if do is true. The gradient is clipped by
// its norm over all parameters. GoMLX's own Adam has no groups, does not clip by norm, and decays biases too.
func (t treatment) update(c Config, scope *model.Scope, grad, norm, do, numbers *Node) {
	g := numbers.Graph()
	var values []*Node
	for _, v := range t.all {
		values = append(values, Reshape(ConvertDType(v.NodeValue(g), dtypes.Float32), v.Shape().Size()))
	}
	clip := Min(Div(number(numbers, inClip), MaxScalar(norm, 1e-30)), ScalarOne(g, dtypes.Float32))
	grad = Mul(grad, clip)
	m, s := private(scope, "mean", t.size), private(scope, "square", t.size)
	mean := Add(MulScalar(m.NodeValue(g), c.Beta1), MulScalar(grad, 1-c.Beta1))
	square := Add(MulScalar(s.NodeValue(g), c.Beta2), MulScalar(Square(grad), 1-c.Beta2))
	step := Div(Mul(mean, number(numbers, inBias1)), AddScalar(Sqrt(Mul(square, number(numbers, inBias2))), 1e-8))
	value := Concatenate(values, 0)
	step = Add(step, Mul(value, t.decay))
	// Frozen parameters have no step at all, not even decay.
	next := Where(do, Sub(value, Mul(step, Mul(t.trained, number(numbers, inRate)))), value)
	m.SetNodeValue(Where(do, mean, m.NodeValue(g)))
	s.SetNodeValue(Where(do, square, s.NodeValue(g)))
	at := 0
	for _, v := range t.all {
		n := v.Shape().Size()
		v.SetNodeValue(ConvertDType(Reshape(Slice(next, AxisRange(at, at+n)), v.Shape().Dimensions...), v.DType()))
		at += n
	}
}

// faultGraph finds where the numbers of a batch are not finite. It returns the largest absolute output of each layer
// and the squared norm of each gradient, and stores their names in found. It is compiled only when needed.
func faultGraph(task Task, scope *model.Scope, batch []*Node, found *[]string) *Node {
	o, _, all, grads := gradients(task, scope, batch)
	for _, v := range kept(scope, batch[0].Graph()) {
		v.SetNodeValue(batch[0].Graph().GetParameterByName(v.Path()))
	}
	var out []*Node
	for _, p := range o.Points {
		out = append(out, ReduceAllMax(Abs(ConvertDType(p.Node, dtypes.Float32))))
		*found = append(*found, "the output of "+p.Name)
	}
	for i := len(all) - 1; i >= 0; i-- {
		out = append(out, ReduceAllSum(Square(ConvertDType(grads[i], dtypes.Float32))))
		*found = append(*found, "the gradient of "+strings.TrimPrefix(all[i].Path(), "/"))
	}
	return Stack(out, 0)
}

// optimizer is the scope of variables that are not parameters.
const optimizer = "optimizer"

// kept returns the variables in which layers keep rows of a batch.
func kept(scope *model.Scope, g *Graph) (all []*model.Variable) {
	for v := range scope.Store().IterVariables() {
		if !v.Trainable && v.ChangedInGraph(g) {
			all = append(all, v)
		}
	}
	return all
}

func isFinite(x *Node) *Node { return LessThan(Abs(x), Infinity(x.Graph(), x.DType(), 1)) }

// evalGraph returns the sums of one batch.
func evalGraph(task Task, scope *model.Scope, in []*Node) *Node {
	scope.Store().SetTraining(in[0].Graph(), false)
	o := task.Outcome(scope, in)
	return Stack([]*Node{o.Loss, o.Count, o.Right}, 0)
}

// Task is a model with its loss. Its JSON is saved with the parameters and identifies the
// checkpoints that belong to it.
type Task interface {
	Validate() error
	// Outcome builds the model on the inputs of a Source.
	Outcome(scope *model.Scope, batch []*Node) Outcome
	// Initial returns the initial values of a parameter, unless a layer of the model gives it some.
	Initial(path string, dims []int, seed uint64) []float32
	// Group returns the part of the model that a parameter belongs to.
	Group(path string) Group
	// Refresh draws and fits the projections of random features.
	Refresh(b compute.Backend, scope *model.Scope, draw uint64, fit bool) error
}

package train

import (
	"math"
	"path"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"

	"github.com/randfeat/randfeat/gomlx/models"
)

// The numbers that enter a training step.
const (
	inRate    = iota
	inBias1   // 1/(1 − β₁ᵗ)
	inBias2   // 1/(1 − β₂ᵗ)
	inDecay   // of matrices
	inClip    // of the norm; +Inf for none
	inApply   // 1 in the last batch of a step
	inGroup   // three of what is trained: 1 or 0
	inNumbers = inGroup + 3
)

// groups are what a regime trains, by models.Group.
func (r Regime) groups() [3]float32 {
	switch r {
	case Attention:
		return [3]float32{0, 1, 1}
	case Dark:
		return [3]float32{0, 0, 1}
	}
	return [3]float32{1, 1, 1}
}

// numbers are those of a step and its batch.
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
	g := c.Regime.groups()
	copy(n[inGroup:], g[:])
	return n
}

// The numbers that come out, before one per parameter (the square norm of its gradient) and one per point.
const (
	outLoss = iota
	outCount
	outRight
	outNorm
	outNumbers
)

// names are what the numbers behind outNumbers belong to.
type names struct{ parameters, points []string }

// stepGraph is the graph of one batch: the gradient of the mean loss, and with inApply a step of AdamW (Loshchilov and
// Hutter 2019, Algorithm 2) on the gradient clipped by its norm over all parameters. Where anything is not finite
// nothing changes. GoMLX's own Adam has no groups, no clipping by norm, and decays biases too.
func stepGraph(c Config, task Task, scope *model.Scope, in []*Node, found *names) *Node {
	batch, numbers := in[:len(in)-1], in[len(in)-1]
	g := numbers.Graph()
	scope.Store().SetTraining(g, true)
	o := task.Outcome(scope, batch)
	number := func(i int) *Node { return Squeeze(Slice(numbers, AxisElem(i))) }
	loss := Div(o.Loss, MaxScalar(o.Count, 1.0))

	var all []*model.Variable
	var nodes []*Node
	for v := range scope.Store().IterVariables() {
		if v.Trainable && v.InUseByGraph(g) {
			all, nodes = append(all, v), append(nodes, v.NodeValue(g))
		}
	}
	grads := Gradient(loss, nodes...)
	private := func(v *model.Variable, name string) *model.Variable {
		at := scope.Store().Scope(path.Join("/", optimizer, v.Path())).WithInitializer(initializer.Zero)
		return at.VariableWithShape(name, shapes.Make(dtypes.Float32, v.Shape().Dimensions...)).SetTrainable(false)
	}
	apply := GreaterThan(number(inApply), ScalarZero(g, dtypes.Float32))
	out := []*Node{o.Loss, o.Count, o.Right, nil}
	var squares []*Node
	for i, v := range all {
		grads[i] = Mul(ConvertDType(grads[i], dtypes.Float32), number(inGroup+int(task.Group(v.Path()))))
		if c.Accumulate > 1 {
			sum := private(v, "sum")
			grads[i] = Add(sum.NodeValue(g), MulScalar(grads[i], 1/float64(c.Accumulate)))
			sum.SetNodeValue(Where(apply, ZerosLike(grads[i]), grads[i]))
		}
		squares = append(squares, ReduceAllSum(Square(grads[i])))
		found.parameters = append(found.parameters, v.Path())
	}
	norm := Sqrt(ReduceAllSum(Stack(squares, 0)))
	out[outNorm] = norm
	out = append(out, squares...)
	finite := LogicalAnd(isFinite(norm), isFinite(loss))
	for _, p := range o.Points {
		out = append(out, ReduceAllMax(Abs(p.Node)))
		found.points = append(found.points, p.Name)
	}
	clip := Min(Div(number(inClip), MaxScalar(norm, 1e-30)), ScalarOne(g, dtypes.Float32))
	do := LogicalAnd(apply, finite)
	for i, v := range all {
		grad := Mul(grads[i], clip)
		m, s := private(v, "mean"), private(v, "square")
		mean := Add(MulScalar(m.NodeValue(g), c.Beta1), MulScalar(grad, 1-c.Beta1))
		square := Add(MulScalar(s.NodeValue(g), c.Beta2), MulScalar(Square(grad), 1-c.Beta2))
		step := Div(Mul(mean, number(inBias1)), AddScalar(Sqrt(Mul(square, number(inBias2))), 1e-8))
		value := v.NodeValue(g)
		if v.Shape().Rank() > 1 && task.Group(v.Path()) != models.Kernel { // whose neutral value is not zero
			step = Add(step, Mul(value, number(inDecay)))
		}
		// Without a gradient a group has no step either: not even decay.
		step = Mul(step, Mul(number(inRate), number(inGroup+int(task.Group(v.Path())))))
		v.SetNodeValue(Where(do, Sub(value, step), value))
		m.SetNodeValue(Where(do, mean, m.NodeValue(g)))
		s.SetNodeValue(Where(do, square, s.NodeValue(g)))
	}
	return Stack(out, 0)
}

// optimizer is the scope of what is no parameter.
const optimizer = "optimizer"

func isFinite(x *Node) *Node { return LessThan(Abs(x), Infinity(x.Graph(), x.DType(), 1)) }

// evalGraph is the sums of one batch.
func evalGraph(task Task, scope *model.Scope, in []*Node) *Node {
	scope.Store().SetTraining(in[0].Graph(), false)
	o := task.Outcome(scope, in)
	return Stack([]*Node{o.Loss, o.Count, o.Right}, 0)
}

// Task is a model with its loss, as models.Config is one. Its JSON is saved with the parameters and says whether a
// checkpoint belongs to it.
type Task interface {
	Validate() error
	// Outcome builds the model on the inputs that a Source gives.
	Outcome(scope *model.Scope, batch []*Node) models.Outcome
	// Initial are the first values of a parameter, unless the model itself gives it some.
	Initial(path string, dims []int, seed uint64) []float32
	// Group is the part of the model that a parameter belongs to.
	Group(path string) models.Group
	// Refresh draws and fits the projections of random features.
	Refresh(b compute.Backend, scope *model.Scope, draw uint64, fit bool) error
}

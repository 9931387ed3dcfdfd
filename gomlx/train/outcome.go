package train

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
)

// Point is the named output of a layer, for the search for numbers that are not finite.
type Point struct {
	Name string
	Node *Node
}

// Outcome is the result of a model on a batch: sums over its predictions, float32 scalars, and the outputs of its
// layers in order.
type Outcome struct {
	Loss   *Node // Σ −log p, nats
	Count  *Node // number of predictions
	Right  *Node // number of predictions whose likeliest value is the true one
	Points []Point
}

// Group is a part of a model that is trained or frozen together. The regimes of the DARKFormer paper (§6) differ in
// the groups they train.
type Group int

// The groups.
const (
	Body        Group = iota
	Projections       // of queries, keys and values
	Kernel            // DARK's M
	Features          // learned projections (LFK)
	Groups            // the number of groups
)

// Score returns the outcome of logits [..., classes] for int32 labels [...]. Negative labels do not count.
func Score(logits, labels *Node, points []Point) Outcome {
	g := logits.Graph()
	on := ConvertDType(GreaterOrEqual(labels, ScalarZero(g, labels.DType())), dtypes.Float32)
	safe := Max(labels, ZerosLike(labels))
	top := StopGradient(ReduceAndKeep(logits, ReduceMax, -1))
	shifted := Sub(logits, top)
	d := logits.Shape().Dimensions
	// A mask instead of Gather: its gradient is a dense product instead of a scatter.
	hot := OneHot(safe, d[len(d)-1], dtypes.Float32)
	at := ReduceSum(Mul(shifted, hot), -1)
	nll := Sub(Log(ReduceSum(Exp(shifted), -1)), at)
	right := ConvertDType(Equal(ConvertDType(ArgMax(logits, -1), labels.DType()), labels), dtypes.Float32)
	return Outcome{Loss: ReduceAllSum(Mul(nll, on)), Count: ReduceAllSum(on), Right: ReduceAllSum(Mul(right, on)),
		Points: append(points, Point{"logits", logits})}
}

package models

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Point is the output of a layer, named for whoever looks for numbers that are not finite.
type Point struct {
	Name string
	Node *Node
}

// Outcome is what a model makes of a batch: sums over what it predicts, scalars of float32, and the outputs of its
// layers in their order.
type Outcome struct {
	Loss   *Node // Σ −log p, nats
	Count  *Node // of predictions
	Right  *Node // of those whose likeliest value is the true one
	Points []Point
}

// norm is layer normalisation in float32, whose variables are float32 then.
func normalise(scope *model.Scope, x *Node) *Node { return norm.LayerNorm(scope, x, -1).Done() }

// block is one pre-norm Transformer block on a residual stream of float32; attend is its attention.
func (c Config) block(scope *model.Scope, x *Node, points *[]Point, attend func(*model.Scope, *Node) *Node) *Node {
	at := scope.Scope()[1:]
	h := ConvertDType(normalise(scope.In("norm1"), x), c.dtype())
	h = ConvertDType(attend(scope, h), dtypes.Float32)
	*points = append(*points, Point{at + "/attention", h})
	x = Add(x, h)
	h = ConvertDType(normalise(scope.In("norm2"), x), c.dtype())
	h = activation.GeluApproximate(layer.Dense(scope.In("up"), h, true, c.hidden()))
	h = ConvertDType(layer.Dense(scope.In("down"), h, true, c.Width), dtypes.Float32)
	*points = append(*points, Point{at + "/feed-forward", h})
	return Add(x, h)
}

// hidden is the width of feed-forward layers.
func (c Config) hidden() int {
	if c.Hidden == 0 {
		return 4 * c.Width
	}
	return c.Hidden
}

func blockName(i int) string { return fmt.Sprintf("block%d", i) }

// trunk is all blocks and the last norm.
func (c Config) trunk(scope *model.Scope, x *Node, see rfx.Visible, points *[]Point) *Node {
	for i := range c.Layers {
		x = c.block(scope.In("%s", blockName(i)), x, points, func(s *model.Scope, h *Node) *Node {
			return c.attention().Apply(s, h, see)
		})
	}
	return normalise(scope.In("norm"), x)
}

// Refresh draws new projections for all layers and fits them to the rows of the last training batch on request: see
// layer.SelfAttention.Refresh.
func (c Config) Refresh(b compute.Backend, scope *model.Scope, draw uint64, fit bool) error {
	if c.Kind == LSTM {
		return nil
	}
	c.Set(scope)
	for i := range c.Layers {
		if err := c.attention().Refresh(b, scope.At("%s", blockName(i)), draw, fit); err != nil {
			return err
		}
	}
	return nil
}

// embed is the rows of a table [vocab, width] for tokens [batch, length], plus positions that begin at from; nil: 0.
func (c Config) embed(scope *model.Scope, tokens, from *Node) *Node {
	n := tokens.Shape().Dimensions[1]
	if n > c.Length {
		panic(fmt.Errorf("a sequence of %d tokens, the model has %d positions", n, c.Length))
	}
	x := Gather(c.table(scope, tokens.Graph()), ExpandAxes(tokens, -1))
	if c.Rotary {
		return x
	}
	if from == nil {
		return Add(x, c.learnedPositions(scope, tokens.Graph(), n))
	}
	at := pos.SequentialPositions(tokens.Graph(), from, n)
	return Add(x, ExpandAxes(Gather(c.positions(scope, tokens.Graph()), ExpandAxes(at, -1)), 0))
}

func (c Config) positions(scope *model.Scope, g *Graph) *Node {
	v := scope.In("positions").VariableWithShape("embeddings", shapes.Make(dtypes.Float32, c.Length, c.Width))
	return v.NodeValue(g)
}

// learnedPositions are the first n positions [1, n, width].
func (c Config) learnedPositions(scope *model.Scope, g *Graph, n int) *Node {
	return ExpandAxes(Slice(c.positions(scope, g), AxisRangeFromStart(n)), 0)
}

func (c Config) table(scope *model.Scope, g *Graph) *Node {
	v := scope.At("tokens").VariableWithShape("embeddings", shapes.Make(dtypes.Float32, c.Vocab, c.Width))
	return v.NodeValue(g)
}

// logits are scores of all tokens, by the table that embeds them.
func (c Config) logits(scope *model.Scope, x *Node) *Node {
	table := c.table(scope, x.Graph())
	out := rfx.Product(ConvertDType(x, c.dtype()), ConvertDType(table, c.dtype()), -1, -1, 0)
	return ConvertDType(out, dtypes.Float32)
}

// Score is the outcome of logits [..., classes] for labels [...] of int32; negative labels are no predictions.
func Score(logits, labels *Node, points []Point) Outcome {
	g := logits.Graph()
	on := ConvertDType(GreaterOrEqual(labels, ScalarZero(g, labels.DType())), dtypes.Float32)
	safe := Max(labels, ZerosLike(labels))
	top := StopGradient(ReduceAndKeep(logits, ReduceMax, -1))
	shifted := Sub(logits, top)
	d := logits.Shape().Dimensions
	// By a mask and not by Gather: its gradient is a dense product and no scatter.
	hot := OneHot(safe, d[len(d)-1], dtypes.Float32)
	at := ReduceSum(Mul(shifted, hot), -1)
	nll := Sub(Log(ReduceSum(Exp(shifted), -1)), at)
	right := ConvertDType(Equal(ConvertDType(ArgMax(logits, -1), labels.DType()), labels), dtypes.Float32)
	return Outcome{Loss: ReduceAllSum(Mul(nll, on)), Count: ReduceAllSum(on), Right: ReduceAllSum(Mul(right, on)),
		Points: append(points, Point{"logits", logits})}
}

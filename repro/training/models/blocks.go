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
	"github.com/randfeat/randfeat/gomlx/train"
)

// normalise is layer normalisation in float32, so that its variables are float32.
func normalise(scope *model.Scope, x *Node) *Node { return norm.LayerNorm(scope, x, -1).Done() }

// block is one pre-norm Transformer block on a residual stream in float32. attend is its attention.
func (c Config) block(scope *model.Scope, x *Node, points *[]train.Point,
	attend func(*model.Scope, *Node) *Node) *Node {
	at := scope.Scope()[1:]
	h := ConvertDType(normalise(scope.In("norm1"), x), c.dtype())
	h = ConvertDType(attend(scope, h), dtypes.Float32)
	*points = append(*points, train.Point{Name: at + "/attention", Node: h})
	x = Add(x, h)
	h = ConvertDType(normalise(scope.In("norm2"), x), c.dtype())
	h = activation.GeluApproximate(layer.Dense(scope.In("up"), h, true, c.hidden()))
	h = ConvertDType(layer.Dense(scope.In("down"), h, true, c.Width), dtypes.Float32)
	*points = append(*points, train.Point{Name: at + "/feed-forward", Node: h})
	return Add(x, h)
}

// hidden returns the width of the feed-forward layers.
func (c Config) hidden() int {
	if c.Hidden == 0 {
		return 4 * c.Width
	}
	return c.Hidden
}

func blockName(i int) string { return fmt.Sprintf("block%d", i) }

// trunk applies all blocks and the last norm.
func (c Config) trunk(scope *model.Scope, x *Node, see rfx.Visible, points *[]train.Point) *Node {
	for i := range c.Layers {
		x = c.block(scope.In("%s", blockName(i)), x, points, func(s *model.Scope, h *Node) *Node {
			return c.attention().Apply(s, h, see)
		})
	}
	return normalise(scope.In("norm"), x)
}

// Refresh draws new projections for all layers and, with fit, fits them to the rows of the last training batch; see
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

// embed returns the rows of the token table [vocab, width] for tokens [batch, length], plus positions from from on;
// nil means 0.
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

// learnedPositions returns the first n positions [1, n, width].
func (c Config) learnedPositions(scope *model.Scope, g *Graph, n int) *Node {
	return ExpandAxes(Slice(c.positions(scope, g), AxisRangeFromStart(n)), 0)
}

func (c Config) table(scope *model.Scope, g *Graph) *Node {
	v := scope.At("tokens").VariableWithShape("embeddings", shapes.Make(dtypes.Float32, c.Vocab, c.Width))
	return v.NodeValue(g)
}

// logits scores all tokens with the table that embeds them.
func (c Config) logits(scope *model.Scope, x *Node) *Node {
	table := c.table(scope, x.Graph())
	out := rfx.Product(ConvertDType(x, c.dtype()), ConvertDType(table, c.dtype()), -1, -1, 0)
	return ConvertDType(out, dtypes.Float32)
}

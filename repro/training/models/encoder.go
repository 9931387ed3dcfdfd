package models

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/gomlx/train"
)

// encode returns the rows of tokens, each of which sees all valid tokens.
func (c Config) encode(scope *model.Scope, tokens, valid *Node, points *[]train.Point) *Node {
	x := c.embed(scope, tokens, nil)
	*points = append(*points, train.Point{Name: "embedding", Node: x})
	return c.trunk(scope, x, rfx.Visible{Mask: valid}, points)
}

// classify returns the logits of classes, from the mean row of the valid tokens.
func (c Config) classify(scope *model.Scope, tokens, valid *Node, points *[]train.Point) *Node {
	x := c.encode(scope, tokens, valid, points)
	on := ExpandAxes(ConvertDType(valid, dtypes.Float32), -1)
	x = Div(ReduceSum(Mul(x, on), 1), MaxScalar(ReduceSum(on, 1), 1.0))
	return layer.Dense(scope.In("classes"), x, true, c.Classes)
}

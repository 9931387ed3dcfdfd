package models

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/gomlx/train"
)

// see cuts images [batch, side, side] into patches and returns the logits, from the mean row of all patches.
func (c Config) see(scope *model.Scope, images *Node, points *[]train.Point) *Node {
	d := images.Shape().Dimensions
	if len(d) != 3 || d[1] != c.Side || d[2] != c.Side {
		panic(fmt.Errorf("images %s, the model has %d×%d pixels", images.Shape(), c.Side, c.Side))
	}
	n := c.Side / c.Patch
	x := Reshape(images, d[0], n, c.Patch, n, c.Patch)
	x = Reshape(TransposeAllAxes(x, 0, 1, 3, 2, 4), d[0], n*n, c.Patch*c.Patch)
	x = layer.Dense(scope.In("patches"), x, true, c.Width)
	p := scope.In("positions").VariableWithShape("embeddings", shapes.Make(dtypes.Float32, n*n, c.Width))
	x = Add(x, ExpandAxes(p.NodeValue(x.Graph()), 0))
	*points = append(*points, train.Point{Name: "embedding", Node: x})
	x = ReduceMean(c.trunk(scope, x, rfx.Visible{}, points), 1)
	return layer.Dense(scope.In("classes"), x, true, c.Classes)
}

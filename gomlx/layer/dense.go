package layer

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/nn"

	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Dense is layers.Dense of GoMLX with the same variables. For inputs of half precision, however, the variables stay
// float32: the steps of an optimiser are smaller than the distance between two bfloat16 numbers.
func Dense(scope *model.Scope, x *Node, bias bool, dims ...int) *Node {
	scope = scope.In("dense")
	d := x.Shape().Dimensions
	size := 1
	for _, n := range dims {
		size *= n
	}
	weights := Variable(scope, "weights", x, d[len(d)-1], size)
	var offset *Node
	if bias {
		offset = Variable(scope, "biases", x, size)
	}
	var out *Node
	if x.DType().IsHalfPrecision() { // the fused product of the Go backend does not support it
		if out = rfx.Product(x, weights, -1, 0, 0); bias {
			out = Add(out, ExpandLeftToRank(offset, out.Rank()))
		}
	} else {
		out = nn.Dense(x, weights, offset, compute.DenseLayoutInputOutputs)
	}
	if len(dims) > 1 {
		out = Reshape(out, append(append([]int{}, d[:len(d)-1]...), dims...)...)
	}
	return out
}

// Variable returns the value of a variable in the precision of like. The variable itself is at least float32.
func Variable(scope *model.Scope, name string, like *Node, dims ...int) *Node {
	dtype := like.DType()
	if dtype.IsHalfPrecision() {
		dtype = dtypes.Float32
	}
	v := scope.VariableWithShape(name, shapes.Make(dtype, dims...))
	return ConvertDType(v.NodeValue(like.Graph()), like.DType())
}

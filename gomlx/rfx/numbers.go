package rfx

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// Numbers returns the node for one of the numbers of a map: the projections and everything that depends on its
// parameters. value is the number of the map itself. A node of the same shape with the values of another map of the
// same family (another seed or other parameters) gives the features of that map. name is the same in every graph and
// may be requested more than once per graph.
type Numbers func(name string, value *tensors.Tensor) *Node

// With returns the map with its numbers supplied from outside the graph, as variables or parameters. They can then
// change without recompiling.
func (m *Map) With(n Numbers) *Map {
	o := *m
	o.numbers = n
	return &o
}

// Fixed returns the map without gradients of the numbers that With supplies. Kernels then compute attention on GPUs;
// they have no such gradients.
func (m *Map) Fixed() *Map {
	o := *m
	o.fixed = true
	if n := m.numbers; n != nil {
		o.numbers = func(name string, value *tensors.Tensor) *Node { return StopGradient(n(name, value)) }
	}
	return &o
}

// Values returns all numbers that a Numbers function is asked for, by name, in graphs of a precision with kvHeads
// key/value heads. Graphs of half precision compute them in float32.
func (m *Map) Values(b compute.Backend, dtype dtypes.DType, kvHeads int) (map[string]*tensors.Tensor, error) {
	all := make(map[string]*tensors.Tensor)
	if dtype.IsHalfPrecision() {
		dtype = dtypes.Float32
	}
	if kvHeads < 1 || kvHeads%len(m.pairs) != 0 {
		return nil, fmt.Errorf("rfx: %d maps for %d key/value heads", len(m.pairs), kvHeads)
	}
	g := NewGraph(b, "numbers")
	defer g.Finalize()
	asked := m.With(func(name string, value *tensors.Tensor) *Node {
		all[name] = value
		return Zeros(g, value.Shape())
	})
	x := Parameter(g, "x", shapes.Make(dtype, 1, kvHeads, 1, m.dim))
	asked.Queries(x)
	asked.Keys(x)
	if m.exactWeights() == nil {
		asked.embed(x)
	}
	return all, nil
}

func numberTensor(data []float64, dtype dtypes.DType, dims []int) *tensors.Tensor {
	if dtype == dtypes.Float64 {
		return tensors.FromFlatDataAndDimensions(data, dims...)
	}
	y := make([]float32, len(data))
	for i, v := range data {
		y[i] = float32(v)
	}
	return tensors.FromFlatDataAndDimensions(y, dims...)
}

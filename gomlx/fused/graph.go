package fused

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
)

// Graph adds a call to a graph, whose backend is a Device. The gradients of its first output by rows, values and terms
// of rows are further calls.
func (c Call) Graph(in []*Node) []*Node {
	g := in[0].Graph()
	f := NewFunction(g, g.UniqueName(c.Name()), func(g *Graph) []*Node {
		var all []*Node
		for i, x := range in {
			all = append(all, Parameter(g, fmt.Sprint("x", i), x.Shape()))
		}
		return all[:1] // the device has the body
	})
	out := f.Call(in...)
	known, _ := g.State(outputs{}).(map[NodeId][]*Node)
	if known == nil {
		known = map[NodeId][]*Node{}
		g.AttachState(outputs{}, known)
	}
	known[out[0].Inputs()[0].Id()] = out
	return out
}

// outputs is the key of the outputs of all calls of kernels in a graph, by the id of the call.
type outputs struct{}

// Calls have no gradients in GoMLX: those of kernels are further kernels.
func init() {
	before := VJPRegistration[NodeTypeCall]
	VJPRegistration[NodeTypeCall] = func(node *Node, v []*Node, shape shapes.Shape) []*Node {
		_, name, _ := strings.Cut(node.String(), "Call(")
		if c, ok := ParseCall(name); ok {
			return backward(c, node, v[0])
		}
		if before == nil {
			panic(fmt.Errorf("fused: %s has no gradient", node))
		}
		return before(node, v, shape)
	}
}

// backward returns the gradients of a call of kernels by its inputs; only rows, values and terms of rows have any.
func backward(c Call, node, dout *Node) []*Node {
	known, _ := node.Graph().State(outputs{}).(map[NodeId][]*Node)
	out, ok := known[node.Id()]
	if !ok { // computed again to save memory
		out = c.Graph(node.Inputs())
	}
	c.Backward = true
	in := append(append(append([]*Node{}, node.Inputs()...), out...), dout)
	byName := map[string]*Node{}
	out = c.Graph(in)
	for i, t := range c.Program().Outputs {
		byName[t.Name] = out[i]
	}
	gradients := make([]*Node, len(node.Inputs()))
	for i, t := range c.Shape.Inputs() {
		if d := byName["d"+t.Name]; d != nil && d.Shape().Equal(node.Inputs()[i].Shape()) {
			gradients[i] = d
		}
	}
	return gradients
}

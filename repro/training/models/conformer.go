package models

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/gomlx/train"
)

// reach is the number of frames on either side that the convolution of a Conformer block sees.
const reach = 4

// Hear returns the logits of classes [batch, frames/Pool, classes], class 0 the blank, for sound [batch, frames,
// features] with valid frames [batch, frames].
func (c Config) Hear(scope *model.Scope, sound, valid *Node) *Node {
	c.Set(scope)
	var points []train.Point
	logits, _ := c.hear(scope, sound, valid, &points)
	return logits
}

// pool returns the number of frames that are averaged.
func (c Config) pool() int { return max(1, c.Pool) }

// hear returns the logits of letters [batch, frames/Pool, classes] for frames [batch, frames, features], and which
// of their rows contain a valid frame.
func (c Config) hear(scope *model.Scope, sound, valid *Node, points *[]train.Point) (logits, heard *Node) {
	d := sound.Shape().Dimensions
	if len(d) != 3 || d[1] > c.Length || d[2] != c.Frame || d[1]%c.pool() != 0 {
		panic(fmt.Errorf("sound %s, the model has %d frames of %d features", sound.Shape(), c.Length, c.Frame))
	}
	x := layer.Dense(scope.In("frames"), sound, true, c.Width)
	x = Add(x, c.learnedPositions(scope, x.Graph(), d[1]))
	*points = append(*points, train.Point{Name: "embedding", Node: x})
	on := ExpandAxes(ConvertDType(valid, dtypes.Float32), -1)
	for i := range c.Layers {
		x = c.conformer(scope.In("%s", blockName(i)), x, on, rfx.Visible{Mask: valid}, points)
	}
	if pool := c.pool(); pool > 1 {
		rows := d[1] / pool // sources return whole multiples
		count := ReduceSum(Reshape(on, d[0], rows, pool, 1), 2)
		x = Div(ReduceSum(Reshape(Mul(x, on), d[0], rows, pool, c.Width), 2), MaxScalar(count, 1.0))
		valid = Squeeze(GreaterThan(count, ZerosLike(count)), -1)
	}
	return layer.Dense(scope.In("classes"), x, true, c.Classes), valid
}

// conformer is one block (Gulati et al. 2020, eq 1): half a feed-forward layer, attention, convolution, the other
// half. The convolution uses layer norm instead of batch norm, which would be noisy for small batches.
func (c Config) conformer(scope *model.Scope, x, on *Node, see rfx.Visible, points *[]train.Point) *Node {
	at := scope.Scope()[1:]
	half := func(name string) {
		s := scope.In("%s", name)
		h := layer.Dense(s.In("up"), normalise(s.In("norm"), x), true, c.hidden())
		h = layer.Dense(s.In("down"), activation.Swish(h), true, c.Width)
		*points = append(*points, train.Point{Name: at + "/" + name, Node: h})
		x = Add(x, MulScalar(h, 0.5))
	}
	half("feed1")
	h := c.attention().Apply(scope, normalise(scope.In("norm"), x), see)
	*points = append(*points, train.Point{Name: at + "/attention", Node: h})
	x = Add(x, h)

	s := scope.In("convolution")
	h = layer.Dense(s.In("gate"), normalise(s.In("norm"), x), true, 2*c.Width)
	h = Mul(SliceAxis(h, -1, AxisRangeFromStart(c.Width)), Sigmoid(SliceAxis(h, -1, AxisRangeToEnd(c.Width))))
	h = depthwise(s, Mul(h, on))
	h = activation.Swish(normalise(s.In("inner"), h))
	h = layer.Dense(s.In("down"), h, true, c.Width)
	*points = append(*points, train.Point{Name: at + "/convolution", Node: h})
	x = Add(x, h)
	half("feed2")
	return normalise(scope.In("last"), x)
}

// depthwise convolves every column along the frames, as a sum of shifted rows: every backend has its gradient.
func depthwise(scope *model.Scope, x *Node) *Node {
	d := x.Shape().Dimensions
	w := layer.Variable(scope.In("depthwise"), "weights", x, 2*reach+1, d[2])
	wide := Pad(x, ScalarZero(x.Graph(), x.DType()), compute.PadAxis{}, compute.PadAxis{Start: reach, End: reach},
		compute.PadAxis{})
	var sum *Node
	for i := range 2*reach + 1 {
		row := Mul(SliceAxis(wide, 1, AxisRange(i, i+d[1])), Reshape(SliceAxis(w, 0, AxisElem(i)), 1, 1, d[2]))
		if sum == nil {
			sum = row
		} else {
			sum = Add(sum, row)
		}
	}
	return sum
}

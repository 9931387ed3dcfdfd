package models

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/layers/lstm"
	"github.com/gomlx/gomlx/ml/model"
)

// recurrent is the hidden rows of tokens [batch, length, width] of layers of LSTM.
func (c Config) recurrent(scope *model.Scope, tokens *Node, points *[]Point) *Node {
	x := Gather(c.table(scope, tokens.Graph()), ExpandAxes(tokens, -1))
	*points = append(*points, Point{"embedding", x})
	for i := range c.Layers {
		all, _, _ := lstm.New(scope.In("%s", blockName(i)), x, c.Width).Done() // [length, 1, batch, width]
		x = TransposeAllAxes(Squeeze(all, 1), 1, 0, 2)
		*points = append(*points, Point{blockName(i), x})
	}
	return x
}

// sampled is the loss of softmax over the true token and some drawn ones alone (Bengio and Senécal 2008): logits are
// corrected by the logarithms of the expected numbers of draws, of the drawn tokens [samples] and of the true ones
// [batch, length]. A drawn token that is the true one does not count.
func (c Config) sampled(scope *model.Scope, x, labels, drawn, drawnLog, trueLog *Node, points []Point) Outcome {
	table := c.table(scope, x.Graph())
	rows := func(ids *Node) *Node { return Gather(table, ExpandAxes(ids, -1)) }
	own := Sub(ReduceSum(Mul(x, rows(labels)), -1), trueLog)
	others := Einsum("bld,sd->bls", x, rows(drawn))
	d := others.Shape().Dimensions
	others = Sub(others, Reshape(drawnLog, 1, 1, d[2]))
	hit := Equal(BroadcastToDims(ExpandAxes(labels, -1), d...), BroadcastToDims(Reshape(drawn, 1, 1, d[2]), d...))
	others = Where(hit, FillScalar(x.Graph(), others.Shape(), -1e9), others)
	logits := Concatenate([]*Node{ExpandAxes(own, -1), others}, -1)
	return Score(logits, ZerosLike(labels), points)
}

// words is the outcome of an LSTM; batches with draws are for training, those without use all tokens.
func (c Config) words(scope *model.Scope, batch []*Node) Outcome {
	var points []Point
	x := c.recurrent(scope, batch[0], &points)
	if len(batch) == 2 {
		return Score(c.logits(scope, x), batch[1], points)
	}
	return c.sampled(scope, x, batch[1], batch[2], batch[3], batch[4], points)
}

// recurrentScale is the first size of the LSTM's matrices, 0 for other parameters.
func recurrentScale(last string, dims []int) float64 {
	if last == "inputsW" || last == "recurrentW" {
		return 1 / math.Sqrt(float64(dims[len(dims)-1]))
	}
	return 0
}

package models

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/layers/lstm"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/train"
)

// recurrent returns the hidden rows of tokens [batch, length, width] of an LSTM.
func (c Config) recurrent(scope *model.Scope, tokens *Node, points *[]train.Point) *Node {
	x := Gather(c.table(scope, tokens.Graph()), ExpandAxes(tokens, -1))
	*points = append(*points, train.Point{Name: "embedding", Node: x})
	for i := range c.Layers {
		all, _, _ := lstm.New(scope.In("%s", blockName(i)), x, c.Width).Done() // [length, 1, batch, width]
		x = TransposeAllAxes(Squeeze(all, 1), 1, 0, 2)
		*points = append(*points, train.Point{Name: blockName(i), Node: x})
	}
	return x
}

// QueryRows returns the rows [batch, length, width] that an LSTM multiplies with the token table in its softmax.
// They are the queries of a sampler whose classes are the rows of the table.
func (c Config) QueryRows(scope *model.Scope, tokens *Node) *Node {
	c.Set(scope)
	return c.recurrent(scope, tokens, new([]train.Point))
}

// TablePath is the path of the token table [vocab, width].
func (c Config) TablePath() string { return "/tokens/embeddings" }

// gain returns the factor of the logits.
func (c Config) gain() float64 {
	if c.Gain > 0 {
		return c.Gain
	}
	return 1
}

// sampled is the loss of a softmax over the true token and some drawn ones (Bengio and Senécal 2008). Logits are
// corrected by the logarithms of the expected numbers of draws, for drawn tokens and for the true ones [batch,
// length]. Draws are [samples], shared by the batch, or [batch, length, samples]. A drawn token that equals the true
// one does not count.
func (c Config) sampled(scope *model.Scope, x, labels, drawn, drawnLog, trueLog *Node,
	points []train.Point) train.Outcome {
	table := c.table(scope, x.Graph())
	rows := func(ids *Node) *Node { return Gather(table, ExpandAxes(ids, -1)) }
	own := Sub(MulScalar(ReduceSum(Mul(x, rows(labels)), -1), c.gain()), trueLog)
	var others *Node
	if drawn.Rank() == 1 {
		others = Einsum("bld,sd->bls", x, rows(drawn))
		drawn, drawnLog = ExpandAxes(drawn, 0, 1), ExpandAxes(drawnLog, 0, 1)
	} else {
		others = Einsum("bld,blsd->bls", x, rows(drawn))
	}
	d := others.Shape().Dimensions
	others = Sub(MulScalar(others, c.gain()), BroadcastToDims(drawnLog, d...))
	hit := Equal(BroadcastToDims(ExpandAxes(labels, -1), d...), BroadcastToDims(drawn, d...))
	others = Where(hit, FillScalar(x.Graph(), others.Shape(), -1e9), others)
	logits := Concatenate([]*Node{ExpandAxes(own, -1), others}, -1)
	return train.Score(logits, ZerosLike(labels), points)
}

// words is the outcome of an LSTM. Training batches with draws use the sampled softmax, all others the full one.
func (c Config) words(scope *model.Scope, batch []*Node) train.Outcome {
	var points []train.Point
	x := c.recurrent(scope, batch[0], &points)
	var o train.Outcome
	if len(batch) == 2 {
		o = train.Score(MulScalar(c.logits(scope, x), c.gain()), batch[1], points)
	} else {
		o = c.sampled(scope, x, batch[1], batch[2], batch[3], batch[4], points)
	}
	if c.Unit > 0 && scope.IsTraining(x.Graph()) {
		o.Loss = Add(o.Loss, Mul(o.Count, MulScalar(Add(unit(x), unit(c.table(scope, x.Graph()))), c.Unit)))
	}
	return o
}

// unit returns the mean of (|x| − 1)² over rows (Hybrid random features, eq 105).
func unit(x *Node) *Node {
	norm := Sqrt(AddScalar(ReduceSum(Square(x), -1), 1e-12))
	return ReduceAllMean(Square(AddScalar(norm, -1)))
}

// recurrentScale returns the initial scale of the LSTM's matrices, or 0 for other parameters.
func recurrentScale(last string, dims []int) float64 {
	if last == "inputsW" || last == "recurrentW" {
		return 1 / math.Sqrt(float64(dims[len(dims)-1]))
	}
	return 0
}

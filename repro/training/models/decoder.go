package models

import (
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/gomlx/train"
)

// Outcome applies the model to one batch. Its nodes depend on the kind:
//
//	decoder     tokens [batch, length], next tokens [batch, length]
//	masked      tokens with some hidden, the hidden ones and −1 elsewhere, valid [batch, length] bool
//	classifier  tokens, labels [batch], valid
//	vit         images [batch, side, side] in [0, 1], labels [batch]
//	conformer   sound [batch, frames, features], letters [batch, letters] padded by −1, where class 0 is no letter,
//	            valid [batch, frames] bool
//	lstm        as decoder; for a sampled softmax also drawn tokens [samples], and the logarithms of the expected
//	            numbers of draws of these and of the next tokens [batch, length]
//
// Tokens and labels are int32. A negative label is not predicted.
func (c Config) Outcome(scope *model.Scope, batch []*Node) train.Outcome {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c.Set(scope)
	var points []train.Point
	switch c.Kind {
	case Decoder:
		return train.Score(c.next(scope, batch[0], &points), batch[1], points)
	case Masked:
		return train.Score(c.logits(scope, c.encode(scope, batch[0], batch[2], &points)), batch[1], points)
	case Conformer:
		logits, heard := c.hear(scope, batch[0], batch[2], &points)
		return spell(logits, heard, batch[1], points)
	case LSTM:
		return c.words(scope, batch)
	case Classifier:
		return train.Score(c.classify(scope, batch[0], batch[2], &points), batch[1], points)
	}
	return train.Score(c.see(scope, batch[0], &points), batch[1], points)
}

// Next returns the logits of the next token after every token [batch, length, vocab].
func (c Config) Next(scope *model.Scope, tokens *Node) *Node {
	c.Set(scope)
	var points []train.Point
	return c.next(scope, tokens, &points)
}

func (c Config) next(scope *model.Scope, tokens *Node, points *[]train.Point) *Node {
	x := c.embed(scope, tokens, nil)
	*points = append(*points, train.Point{Name: "embedding", Node: x})
	return c.logits(scope, c.trunk(scope, x, rfx.Visible{}, points))
}

// Empty returns the states of all layers before the first token.
func (c Config) Empty(scope *model.Scope, g *Graph, batch int) []*Node {
	c.Set(scope)
	like := Scalar(g, c.dtype(), 0)
	var all []*Node
	for i := range c.Layers {
		all = append(all, c.attention().Empty(scope.At("%s", blockName(i)), like, batch)...)
	}
	return all
}

// Extend reads tokens [batch, n], the first of which stands at position from. It returns the logits after the last
// one, and the new states, whose size does not depend on how much was read. The decoder must be Stateful.
func (c Config) Extend(scope *model.Scope, tokens, from *Node, states []*Node) (*Node, []*Node) {
	c.Set(scope)
	var points []train.Point
	x := c.embed(scope, tokens, from)
	var after []*Node
	for i := range c.Layers {
		x = c.block(scope.In("%s", blockName(i)), x, &points, func(s *model.Scope, h *Node) *Node {
			var own []*Node
			h, own, states = c.attention().Extend(s, h, from, states)
			after = append(after, own...)
			return h
		})
	}
	x = normalise(scope.In("norm"), x)
	last := SliceAxis(x, 1, AxisElem(-1)) // [batch, 1, width]
	return Squeeze(c.logits(scope, last), 1), after
}

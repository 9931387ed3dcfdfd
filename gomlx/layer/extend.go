package layer

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Empty is the state of a sequence that has not begun, of the precision of like.
func (l SelfAttention) Empty(scope *model.Scope, like *Node, batch int) rfx.State {
	l, scope = l.normal(), scope.At("MultiHeadAttention")
	return l.stateful(scope, like).Empty(like, batch, l.KVHeads, l.HeadDim)
}

// Extend is Apply, causal, on rows that go on from a state at position from (a scalar): outputs and the state behind
// them. The state is of constant size; exact attention, windows and sinks have none and are refused.
func (l SelfAttention) Extend(scope *model.Scope, x, from *Node, s rfx.State) (*Node, rfx.State) {
	l, scope = l.normal(), scope.In("MultiHeadAttention")
	q, k, v := l.heads(scope, x, from)
	q, k = l.embed(scope, q, k)
	out, s := l.stateful(scope, q).Extend(s, q, k, v)
	return l.output(scope, out, x.Shape().Dimensions[2]), s
}

func (l SelfAttention) stateful(scope *model.Scope, like *Node) rfx.Attention {
	if kind := model.GetParamOr(scope, ParamAttention, "exact"); !drawn(kind) {
		panic(fmt.Errorf("%s %q has no state of constant size: choose a family", ParamAttention, kind))
	}
	a, err := l.linear(scope, like)
	if err != nil {
		panic(err)
	}
	return a
}

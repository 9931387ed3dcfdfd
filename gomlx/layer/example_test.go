package layer_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// A parameter of the scope replaces exact attention by random features. The variables stay the same.
func ExampleSelfAttention() {
	store := model.NewStore()
	attend := func(s *model.Scope, x *graph.Node) *graph.Node {
		return layer.SelfAttention{Heads: 4, HeadDim: 6, Causal: true}.Apply(s, x, rfx.Visible{})
	}
	exact, err := model.CallOnce(open(), store, attend, rows(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	variables := store.NumVariables()
	store.RootScope().SetParam(layer.ParamAttention, "oprf:simplex:64")
	features, err := model.CallOnce(open(), store, attend, rows(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(features.Shape(), differ(exact, features) < 0.2, store.NumVariables() == variables)
	// Output: (Float64)[2, 21, 12] true true
}

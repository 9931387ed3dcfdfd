package choose_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// A choice may also be written by hand, head by head. A document that cannot run is refused when it is read, not in the
// middle of a text.
func ExampleNew() {
	const d, length = 8, 64
	positive := &choose.FeatureSpec{Window: 8,
		Spec: randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Positive{}, Dim: d, M: 64, Seed: 1}}
	choice := &choose.Choice{Causal: true, Length: length, Dim: d, ValueDim: d, Heads: []choose.Head{
		{Plan: choose.Plan{Method: choose.Exact}},
		{Plan: choose.Plan{Method: choose.Features, Features: positive}},
	}}
	a, err := choose.New(choice)
	if err != nil {
		panic(err)
	}
	q, k, v := normals(2, length, d, 0.7, 1), normals(2, length, d, 0.7, 2), normals(2, length, d, 1, 3)
	report, err := a.Forward(attention.NewSeq[float32](1, 2, length, d), q, k, v)
	fmt.Println(report.Rows, "rows by", choice.Heads[0].Plan, "and", choice.Heads[1].Plan, err)

	choice.Heads[0].Method = "sparse"
	saved, err := json.Marshal(choice)
	if err != nil {
		panic(err)
	}
	err = json.Unmarshal(saved, new(choose.Choice))
	fmt.Println(errors.Is(err, choose.ErrChoice), err)
	// Output:
	// 128 rows by exact and 64 positive features, window 8 <nil>
	// true head 0: method "sparse", want exact, centroid or features: invalid choice of attention
}

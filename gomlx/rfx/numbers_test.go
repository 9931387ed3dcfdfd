package rfx_test

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// A graph built with the numbers of one draw gives the result of another draw once it gets the numbers of that draw: of
// every family that has a graph.
func TestNumbersOfAnotherDraw(t *testing.T) {
	for _, e := range families(t) {
		t.Run(e.Name, func(t *testing.T) {
			first, second := newMap(t, spec(e.Family, 6, 1)), newMap(t, spec(e.Family, 6, 2))
			values, err := second.Values(open(t), dtypes.Float64, 1)
			if err != nil {
				t.Fatal(err)
			}
			x := sequence[float64](1, 1, 20, dim, 0.5, 0.3, 3)
			got := run(t, func(in []*graph.Node) []*graph.Node {
				m := first.With(func(name string, value *tensors.Tensor) *graph.Node {
					v, ok := values[name]
					if !ok || !v.Shape().Equal(value.Shape()) {
						panic(fmt.Errorf("no number %s of shape %s", name, value.Shape()))
					}
					return graph.ConstTensor(in[0].Graph(), v)
				})
				return []*graph.Node{m.Queries(in[0]).Plain(), m.Keys(in[0]).Plain()}
			}, x)
			want := run(t, func(in []*graph.Node) []*graph.Node {
				return []*graph.Node{second.Queries(in[0]).Plain(), second.Keys(in[0]).Plain()}
			}, x)
			for i := range want {
				if d := differ(got[i], want[i]); d > 1e-12 {
					t.Errorf("side %d differs by %.1e", i, d)
				}
			}
		})
	}
}

package layer_test

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// The parameter of the scope reaches the graph: attention of float32 rows is then that of the same rows in float64,
// rounded once.
func TestDouble(t *testing.T) {
	for _, kind := range []string{"positive:iid:16", "centroid:4"} {
		// apart is the largest difference between the attention of float32 rows and that of the same rows in float64.
		apart := func(double bool) float64 {
			store := model.NewStore()
			store.RootScope().SetParams(map[string]any{layer.ParamAttention: kind, layer.ParamDouble: double})
			l := layer.SelfAttention{Heads: 2, HeadDim: width / 2}
			out, err := model.CallOnce(open(), store, func(s *model.Scope, x *graph.Node) *graph.Node {
				x = graph.ConvertDType(graph.MulScalar(x, 5), dtypes.Float32)
				x = graph.TransposeAllAxes(graph.Reshape(x, batch, length, 2, width/2), 0, 2, 1, 3)
				attend := func(dtype dtypes.DType) *graph.Node {
					y := graph.ConvertDType(x, dtype)
					out := l.Attend(s, y, y, y, rfx.Visible{})
					if out.DType() != dtype {
						t.Errorf("%s: %s becomes %s", kind, dtype, out.DType())
					}
					return graph.ConvertDType(out, dtypes.Float64)
				}
				return graph.Sub(attend(dtypes.Float32), attend(dtypes.Float64))
			}, rows(1))
			if err != nil {
				t.Fatal(err)
			}
			return differ(out, tensors.FromShape(out.Shape()))
		}
		if single, double := apart(false), apart(true); !(double <= 6e-8) || !(single > 2*double) {
			t.Errorf("%s: float32 is off by %.1e, computed in float64 by %.1e", kind, single, double)
		}
	}
	store := model.NewStore()
	store.RootScope().SetParams(map[string]any{layer.ParamAttention: "positive:iid:8", layer.ParamDouble: true,
		layer.ParamVariable: true})
	if _, err := model.CallOnce(open(), store, ours(layer.SelfAttention{Heads: 2, HeadDim: 4}), rows(1)); err == nil ||
		!strings.Contains(err.Error(), layer.ParamDouble) {
		t.Errorf("variables in float64: %v", err)
	}
}

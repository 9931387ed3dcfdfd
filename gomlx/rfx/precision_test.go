package rfx_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// tf32Bound is the error that tests allow where products are TF32. Operands are rounded by 2⁻¹¹ = 5e-4; 1e-4 to 2e-3
// was seen on an H200.
const tf32Bound = 0.02

// doubled are attentions of both kinds, to be computed in float64 or not: by Forward, or by Extend of an empty state.
func doubled(t *testing.T, on bool) map[string]func(q, k, v *graph.Node) *graph.Node {
	a := rfx.Attention{Map: newMap(t, spec(family.Positive{}, 16, 3)), Causal: true, Double: on}
	near := a
	near.Window, near.Sinks = 5, 2
	s := causalSpecs[2]
	c := rfx.Centroids{Spec: s, Causal: true, Centres: causalCentres(t, s, 1), Double: on}
	same := func(nodes []*graph.Node, dtype dtypes.DType) {
		for _, x := range nodes {
			if x.DType() != dtype {
				t.Errorf("a state of %s holds %s", dtype, x.DType())
			}
		}
	}
	return map[string]func(q, k, v *graph.Node) *graph.Node{
		"linear": func(q, k, v *graph.Node) *graph.Node { return a.Forward(q, k, v, rfx.Visible{}) },
		"near":   func(q, k, v *graph.Node) *graph.Node { return near.Forward(q, k, v, rfx.Visible{}) },
		"linear, state": func(q, k, v *graph.Node) *graph.Node {
			from := graph.Scalar(q.Graph(), dtypes.Int32, 0)
			out, state := near.Extend(near.Empty(q, 1, 1, v.Shape().Dimensions[3]), from, q, k, v)
			same(state.Nodes(), q.DType())
			return out
		},
		"centroids": func(q, k, v *graph.Node) *graph.Node { return c.Forward(q, k, v, rfx.Visible{}) },
		"centroids, state": func(q, k, v *graph.Node) *graph.Node {
			from := graph.Scalar(q.Graph(), dtypes.Int32, 0)
			out, state := c.Extend(c.Empty(q, 1, 1, dim, v.Shape().Dimensions[3]), from, q, k, v)
			same(state.Nodes(), q.DType())
			return out
		},
	}
}

// off is how far results in float32 on a backend are from those in float64 on pure Go: the output and its gradients.
func off(t *testing.T, b compute.Backend, scale float64, double bool, name string) (all []float64) {
	t.Helper()
	const length = 75
	in := []attention.Seq[float64]{sequence[float64](1, 2, length, dim, scale, 0, 81),
		sequence[float64](1, 1, length, dim, scale, 0, 82), sequence[float64](1, 1, length, 4, 1, 0, 83)}
	results := func(b compute.Backend, dtype dtypes.DType, double bool) [][]float64 {
		args := make([]any, len(in))
		for i, s := range in {
			args[i] = tensor(s)
		}
		forward := doubled(t, double)[name]
		out, err := graph.CallOnceN(b, func(in []*graph.Node) []*graph.Node {
			x := make([]*graph.Node, len(in))
			for i := range in { // all precisions begin with numbers that float32 has
				x[i] = graph.ConvertDType(graph.ConvertDType(in[i], dtypes.Float32), dtype)
			}
			y := forward(x[0], x[1], x[2])
			if y.DType() != dtype {
				t.Errorf("%s: the output is %s", name, y.DType())
			}
			loss := graph.ReduceAllSum(graph.Square(graph.ConvertDType(y, dtypes.Float64)))
			all := append([]*graph.Node{y}, graph.Gradient(loss, x...)...)
			for i := range all {
				all[i] = graph.ConvertDType(all[i], dtypes.Float64)
			}
			return all
		}, args...)
		if err != nil {
			t.Fatal(err)
		}
		data := make([][]float64, len(out))
		for i, o := range out {
			data[i] = tensors.MustCopyFlatData[float64](o)
		}
		return data
	}
	truth, _, err := backend.Open("go")
	if err != nil {
		t.Fatal(err)
	}
	defer truth.Finalize()
	want := results(truth, dtypes.Float64, false)
	for i, x := range results(b, dtypes.Float32, double) {
		all = append(all, differ(x, want[i]))
	}
	return all
}

// Double has the precision of float32 numbers whatever happens in between: an exponent of 500 rounds by 3e-5. What is
// left are the roundings to float32 of the output, of the gradient that arrives at it, and of the results: 8 of at most
// 2⁻²⁴ each. Float32 alone is compared where it is coarse: plain Go rounds every step, TF32 rounds operands to 11 bits.
// A GPU with float32 products fuses steps and comes close to the same bound.
func TestDouble(t *testing.T) {
	coarse := tf32() || !strings.Contains(os.Getenv(compute.ConfigEnvVar), "cuda")
	for name := range doubled(t, false) {
		single, double := off(t, open(t), 4, false, name), off(t, open(t), 4, true, name)
		for i := range double {
			if !(double[i] <= 8*0x1p-24) {
				t.Errorf("%s: result %d (output, dq, dk, dv) in float64 is off by %.1e, in float32 by %.1e", name, i,
					double[i], single[i])
			}
		}
		if coarse && !(single[0] > 2*double[0]) {
			t.Errorf("%s: float64 is off by %.1e, float32 by %.1e: the option has no effect", name, double[0], single[0])
		}
	}
}

// On a GPU the precision of products is that of the backend: both are opened, and float64 helps on both.
func TestProducts(t *testing.T) {
	config := os.Getenv(compute.ConfigEnvVar)
	if !strings.Contains(config, "cuda") {
		t.Skip("no GPU: name its backend in $" + compute.ConfigEnvVar)
	}
	config, _, _ = strings.Cut(config, ",tf32=")
	worst := func(p backend.Products, double bool, name string) (e float64) {
		b, _, err := backend.Flags{Name: config, Products: p}.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer b.Finalize()
		for _, x := range off(t, b, 1, double, name) {
			e = max(e, x)
		}
		return e
	}
	for _, name := range []string{"linear", "near", "centroids"} {
		full, fast := worst(backend.Float32, false, name), worst(backend.TF32, false, name)
		double := worst(backend.TF32, true, name)
		t.Logf("%s: off by %.1e with float32 products, %.1e with TF32, %.1e in float64 on the TF32 backend", name, full,
			fast, double)
		if !(full <= 2e-5) || !(fast <= tf32Bound) || !(fast > 3*full) || !(double <= 1e-6) {
			t.Errorf("%s: float32 products are off by %.1e (at most 2e-5), TF32 by %.1e (at most %g, more than 3 times "+
				"float32), float64 by %.1e (at most 1e-6)", name, full, fast, tf32Bound, double)
		}
	}
}

package layer_test

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/internal/rng"
)

const batch, length, width = 2, 21, 12

// A store belongs to one backend.
var open = sync.OnceValue(func() compute.Backend {
	b, _, err := backend.Open("go")
	if err != nil {
		panic(err)
	}
	return b
})

func rows(seed uint64) *tensors.Tensor {
	x := make([]float64, batch*length*width)
	rng.Normals(x, rng.Stream(seed))
	for i := range x {
		x[i] *= 0.2 // scores of a few units, which features can follow
	}
	return tensors.FromFlatDataAndDimensions(x, batch, length, width)
}

func differ(a, b *tensors.Tensor) float64 {
	x, y := tensors.MustCopyFlatData[float64](a), tensors.MustCopyFlatData[float64](b)
	var d float64
	for i := range x {
		d = max(d, math.Abs(x[i]-y[i]))
	}
	return d
}

func apply(t testing.TB, store *model.Store, fn func(*model.Scope, *graph.Node) *graph.Node) *tensors.Tensor {
	t.Helper()
	out, err := model.CallOnce(open(), store, fn, rows(1))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func ours(l layer.SelfAttention) func(*model.Scope, *graph.Node) *graph.Node {
	return func(s *model.Scope, x *graph.Node) *graph.Node { return l.Apply(s, x, rfx.Visible{}) }
}

// On the variables that GoMLX's layer has made, exact attention is that layer, and features come near it as they grow.
func TestDropIn(t *testing.T) {
	for _, causal := range []bool{false, true} {
		store := model.NewStore()
		l := layer.SelfAttention{Heads: 4, KVHeads: 2, HeadDim: 6, Causal: causal, Position: pos.NewRoPE(10000)}
		want := apply(t, store, func(s *model.Scope, x *graph.Node) *graph.Node {
			return attention.SelfAttention(s, x, 4, 6).WithNumKVHeads(2).WithCausalMask(causal).
				WithPositionalEncoder(pos.NewRoPE(10000)).Done()
		})
		n := store.NumVariables()
		if d := differ(apply(t, store, ours(l)), want); d > 1e-12 {
			t.Errorf("causal %v: exact attention differs by %.1e", causal, d)
		}
		if store.NumVariables() != n {
			t.Errorf("%d variables, GoMLX has %d", store.NumVariables(), n)
		}
		var errors []float64
		for _, kind := range []string{"mean", "positive:orthogonal:16", "positive:orthogonal:4096"} {
			store.RootScope().SetParam(layer.ParamAttention, kind)
			errors = append(errors, differ(apply(t, store, ours(l)), want))
		}
		if !(errors[2] < errors[1]/4 && errors[2] < errors[0]/4) {
			t.Errorf("causal %v: mean, 16 and 4096 features are off by %v", causal, errors)
		}
		store.RootScope().SetParam(layer.ParamAttention, "positive:iid:8")
		store.RootScope().SetParam(layer.ParamWindow, length)
		if d := differ(apply(t, store, ours(l)), want); d > 1e-10 {
			t.Errorf("causal %v: a window of everything differs from exact by %.1e", causal, d)
		}
	}
}

// DARK's matrix begins as the identity, which changes nothing, is a variable, and has a gradient.
func TestDark(t *testing.T) {
	store := model.NewStore()
	l := layer.SelfAttention{Heads: 2, HeadDim: 6, Causal: true}
	store.RootScope().SetParam(layer.ParamAttention, "positive:iid:32")
	plain := apply(t, store, ours(l))
	store.RootScope().SetParam(layer.ParamDark, 6)
	if d := differ(apply(t, store, ours(l)), plain); d > 1e-12 {
		t.Errorf("the identity changes outputs by %.1e", d)
	}
	grad := apply(t, store, func(s *model.Scope, x *graph.Node) *graph.Node {
		loss := graph.ReduceAllSum(graph.Square(ours(l)(s, x)))
		v := store.GetVariable("/MultiHeadAttention/dark")
		if v == nil {
			t.Fatal("no variable of M")
		}
		return graph.ReduceAllSum(graph.Abs(graph.Gradient(loss, v.NodeValue(x.Graph()))[0]))
	})
	if g := tensors.ToScalar[float64](grad); !(g > 1e-6) {
		t.Errorf("gradient of M is %v", g)
	}
}

func TestUnknownAttention(t *testing.T) {
	for _, kind := range []string{"nosuch", "positive:nosuch", "positive:iid:x", "positive:iid:8:9"} {
		store := model.NewStore()
		store.RootScope().SetParam(layer.ParamAttention, kind)
		_, err := model.CallOnce(open(), store, ours(layer.SelfAttention{Heads: 2, HeadDim: 4}), rows(1))
		if err == nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

package layer_test

import (
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

func single(seed uint64) *tensors.Tensor {
	wide := tensors.MustCopyFlatData[float64](rows(seed))
	x := make([]float32, len(wide))
	for i, v := range wide {
		x[i] = 5 * float32(v)
	}
	return tensors.FromFlatDataAndDimensions(x, batch, length, width)
}

// fixed is a store whose variables begin the same in every run.
func fixed(t *testing.T) *model.Store {
	t.Helper()
	store := model.NewStore()
	if err := store.SetRNGStateFromSeed(1); err != nil {
		t.Fatal(err)
	}
	return store
}

// New projections and fitted parameters take effect in a graph that is compiled once, the same for the same draw, and
// the fit brings the features nearer to exact attention.
func TestRefresh(t *testing.T) {
	for _, kind := range []string{"positive:orthogonal:32", "oprf:simplex:32", "adaptive:orthogonal:32"} {
		store := fixed(t)
		scope := store.RootScope()
		scope.SetParams(map[string]any{layer.ParamAttention: kind, layer.ParamVariable: true})
		l := layer.SelfAttention{Heads: 2, HeadDim: 6}
		built := 0
		var train bool
		exec, err := model.NewExec(open(), store, func(s *model.Scope, x *graph.Node) *graph.Node {
			built++
			store.SetTraining(x.Graph(), train)
			return l.Apply(s, x, rfx.Visible{})
		})
		if err != nil {
			t.Fatal(err)
		}
		run := func() []float32 {
			t.Helper()
			out, err := exec.Call(single(1))
			if err != nil {
				t.Fatal(err)
			}
			return tensors.MustCopyFlatData[float32](out[0])
		}
		off := func(a, b []float32) (d float64) {
			for i := range a {
				d += float64(a[i]-b[i]) * float64(a[i]-b[i])
			}
			return d
		}
		train = true
		first := run()
		refresh := func(draw uint64, fit bool) []float32 {
			t.Helper()
			if err := l.Refresh(open(), scope, draw, fit); err != nil {
				t.Fatal(err)
			}
			return run()
		}
		if d := off(refresh(0, false), first); d != 0 {
			t.Errorf("%s: draw 0 is not the first one: %g", kind, d)
		}
		if d := off(refresh(1, false), first); d == 0 {
			t.Errorf("%s: another draw changes nothing", kind)
		}
		store.RootScope().SetParam(layer.ParamAttention, "exact")
		want, err := model.CallOnce(open(), store, func(s *model.Scope, x *graph.Node) *graph.Node {
			return l.Apply(s, x, rfx.Visible{})
		}, single(1))
		if err != nil {
			t.Fatal(err)
		}
		exact := tensors.MustCopyFlatData[float32](want)
		store.RootScope().SetParam(layer.ParamAttention, kind)
		var plain, fitted float64
		for draw := range uint64(40) {
			plain += off(refresh(draw, false), exact)
			fitted += off(refresh(draw, true), exact)
		}
		if kind != "positive:orthogonal:32" && !(fitted < plain) {
			t.Errorf("%s: squared error %.3g before the fit, %.3g after", kind, plain, fitted)
		}
		if built != 1 {
			t.Errorf("%s: compiled %d times", kind, built)
		}
	}
}

func TestRefreshAskedTooEarly(t *testing.T) {
	store := model.NewStore()
	scope := store.RootScope()
	scope.SetParams(map[string]any{layer.ParamAttention: "oprf:iid:8"})
	l := layer.SelfAttention{Heads: 2, HeadDim: 6}
	if err := l.Refresh(open(), scope, 1, false); err == nil {
		t.Error("constants are redrawn")
	}
	scope.SetParam(layer.ParamVariable, true)
	if err := l.Refresh(open(), scope, 1, true); err == nil {
		t.Error("fitted to nothing")
	}
}

// Centres that are fitted to the rows of a batch bring attention over clusters nearer to exact attention than those of
// any rows, in a graph that is compiled once.
func TestRefreshCentres(t *testing.T) {
	for _, causal := range []bool{false, true} {
		refreshCentres(t, causal)
	}
}

func refreshCentres(t *testing.T, causal bool) {
	store := fixed(t)
	scope := store.RootScope()
	scope.SetParams(map[string]any{layer.ParamAttention: "exact", layer.ParamVariable: true})
	if causal {
		scope.SetParam(layer.ParamBlock, 2)
	}
	l := layer.SelfAttention{Heads: 2, HeadDim: 6, Causal: causal}
	apply := func(s *model.Scope, x *graph.Node) *graph.Node {
		store.SetTraining(x.Graph(), true)
		return l.Apply(s, x, rfx.Visible{})
	}
	const batches = 4
	var want [batches][]float32
	for i := range want {
		exact, err := model.CallOnce(open(), store, apply, single(uint64(i)))
		if err != nil {
			t.Fatal(err)
		}
		want[i] = tensors.MustCopyFlatData[float32](exact)
	}
	scope.SetParam(layer.ParamAttention, "centroid:8")
	built := 0
	exec, err := model.NewExec(open(), store, func(s *model.Scope, x *graph.Node) *graph.Node {
		built++
		return apply(s, x)
	})
	if err != nil {
		t.Fatal(err)
	}
	off := func(i int) (d float64) {
		t.Helper()
		out, err := exec.Call(single(uint64(i)))
		if err != nil {
			t.Fatal(err)
		}
		for j, x := range tensors.MustCopyFlatData[float32](out[0]) {
			d += float64(x-want[i][j]) * float64(x-want[i][j])
		}
		return d
	}
	refresh := func(fit bool) {
		t.Helper()
		if err := l.Refresh(open(), scope, 1, fit); err != nil {
			t.Fatal(err)
		}
	}
	var plain, fitted float64
	for i := range want {
		plain += off(i)
	}
	before := off(0)
	if refresh(false); off(0) != before {
		t.Error("centres change without a fit")
	}
	for i := range want {
		off(i) // shows the rows
		refresh(true)
		fitted += off(i)
	}
	if !(fitted < 0.9*plain) || built != 1 {
		t.Errorf("squared error %.3g before the fit, %.3g after; compiled %d times", plain, fitted, built)
	}
}

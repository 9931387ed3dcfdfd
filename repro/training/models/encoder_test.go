package models_test

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/repro/training/models"
)

// outcome is the loss, the count and the number of right predictions of a model with random parameters.
func outcome(t *testing.T, c models.Config, batch ...any) []float32 {
	t.Helper()
	store := model.NewStore()
	exec, err := model.NewExec(open(), store, func(s *model.Scope, in []*graph.Node) *graph.Node {
		o := c.Outcome(s, in)
		return graph.Stack([]*graph.Node{o.Loss, o.Count, o.Right}, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := compileAndFill(exec, store, c, batch); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call(batch...)
	if err != nil {
		t.Fatal(err)
	}
	return tensors.MustCopyFlatData[float32](out[0])
}

// Neither padding nor rows without a label change the result.
func TestPaddingIsNotSeen(t *testing.T) {
	for _, kind := range []models.Kind{models.Classifier, models.Masked} {
		for _, attention := range []string{"exact", "mean", "random", "oprf:simplex:8", "centroid:3"} {
			c := models.Config{Kind: kind, Vocab: 13, Length: 12, Layers: 2, Width: 16, Heads: 2, Hidden: 16,
				Classes: 3, Attention: attention}
			run := func(filler int32) []float32 {
				x, valid := tokens(24), make([]bool, 24)
				y, dims := []int32{2, 1}, []int{2}
				if kind == models.Masked {
					y, dims = make([]int32, 24), []int{2, 12}
				}
				for i := range x {
					if valid[i] = i%12 < 7; !valid[i] {
						x[i] = filler
						if kind == models.Masked {
							y[i] = -1
						}
					}
				}
				return outcome(t, c, tensors.FromFlatDataAndDimensions(x, 2, 12),
					tensors.FromFlatDataAndDimensions(y, dims...), tensors.FromFlatDataAndDimensions(valid, 2, 12))
			}
			a, b := run(0), run(9)
			if math.Abs(float64(a[0]-b[0])) > 1e-5*float64(a[0]) {
				t.Errorf("%s, %s: loss %g and %g", kind, attention, a[0], b[0])
			}
			if want := map[models.Kind]float32{models.Classifier: 2, models.Masked: 14}[kind]; a[1] != want {
				t.Errorf("%s: %g predictions, want %g", kind, a[1], want)
			}
		}
	}
}

// An image is cut into patches row by row; every patch is seen.
func TestPatches(t *testing.T) {
	c := models.Config{Kind: models.ViT, Side: 6, Patch: 2, Layers: 1, Width: 8, Heads: 2, Classes: 4,
		Attention: "positive:iid:8"}
	run := func(change int) float32 {
		x := make([]float32, 36)
		for i := range x {
			x[i] = float32(i%7) / 7
		}
		if change >= 0 {
			x[change] += 0.5
		}
		label := tensors.FromFlatDataAndDimensions([]int32{1}, 1)
		return outcome(t, c, tensors.FromFlatDataAndDimensions(x, 1, 6, 6), label)[0]
	}
	plain := run(-1)
	for _, i := range []int{0, 5, 14, 30, 35} {
		if run(i) == plain {
			t.Errorf("pixel %d is not seen", i)
		}
	}
}

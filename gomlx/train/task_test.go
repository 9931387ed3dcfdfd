package train_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/train"
)

// root is (m − 1)² + √a at a = 0, where the gradient by a is infinite; m alone is DARK's.
type root struct{}

func (root) Validate() error { return nil }

func (root) Initial(string, []int, uint64) []float32 { return make([]float32, 1) }

func (root) Refresh(compute.Backend, *model.Scope, uint64, bool) error { return nil }

func (root) Group(name string) train.Group {
	if name == "/m" {
		return train.Kernel
	}
	return train.Body
}

func (root) Outcome(scope *model.Scope, batch []*graph.Node) train.Outcome {
	value := func(name string) *graph.Node {
		return scope.VariableWithShape(name, shapes.Make(dtypes.Float32, 1)).NodeValue(batch[0])
	}
	off := graph.Square(graph.AddScalar(value("m"), -1))
	loss := graph.ReduceAllSum(graph.Add(off, graph.Sqrt(value("a"))))
	one := graph.ScalarOne(loss.Graph(), dtypes.Float32)
	return train.Outcome{Loss: loss, Count: one, Right: one, Points: []train.Point{{Name: "sum", Node: loss}}}
}

type one struct{}

func (one) Train(uint64, int) train.Batch {
	return train.Batch{tensors.FromFlatDataAndDimensions([]float32{1}, 1)}
}
func (o one) HeldOut(i int) train.Batch { return o.Train(0, i) }
func (one) Held() int                   { return 1 }
func (one) Items() int                  { return 1 }

// A gradient that is not finite stops a run that trains its parameter, by name, and no other.
func TestStillGradientsDoNotStop(t *testing.T) {
	b, _, err := backend.Open("go")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	for _, regime := range []train.Regime{train.Dark, train.Full} {
		r, err := train.New(b, root{}, train.Config{Steps: 5, Rate: 0.1, Regime: regime}, one{})
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Step()
		p, failed := r.Get()
		if failed != nil {
			t.Fatal(failed)
		}
		if regime == train.Full {
			if !errors.Is(err, train.ErrDiverged) || !strings.Contains(err.Error(), "gradient of a ") {
				t.Errorf("it says %v", err)
			}
		} else if err != nil || res.Norm != 2 || p["/m"][0] <= 0 {
			t.Errorf("norm %g, %v", res.Norm, err)
		}
		r.Close()
	}
}

package train_test

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/train"
)

// parabola is a model with one parameter w and the loss (w − 3)².
type parabola struct{}

func (parabola) Validate() error                                           { return nil }
func (parabola) Initial(string, []int, uint64) []float32                   { return []float32{0} }
func (parabola) Refresh(compute.Backend, *model.Scope, uint64, bool) error { return nil }
func (parabola) Group(string) train.Group                                  { return train.Body }

func (parabola) Outcome(scope *model.Scope, batch []*graph.Node) train.Outcome {
	w := scope.VariableWithShape("w", shapes.Make(dtypes.Float32, 1)).NodeValue(batch[0])
	loss := graph.ReduceAllSum(graph.Square(graph.AddScalar(w, -3)))
	one := graph.ScalarOne(loss.Graph(), dtypes.Float32)
	return train.Outcome{Loss: loss, Count: one, Right: one}
}

// A trainer needs a model with its loss and a source of batches.
func ExampleTrainer_Step() {
	b, _, err := backend.Open("go")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Finalize()
	t, err := train.New(b, parabola{}, train.Config{Steps: 100, Rate: 0.2}, one{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	for t.Done() < t.Config.Steps {
		if _, err := t.Step(); err != nil {
			fmt.Println(err)
			return
		}
	}
	values, err := t.Get()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("w = %.1f\n", values["/w"][0])
	// Output: w = 3.0
}

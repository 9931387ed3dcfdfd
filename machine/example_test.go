package machine_test

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// Kernel ridge regression of a sine: sums over the rows, the penalty by generalised cross-validation, a prediction.
func Example() {
	x, y := dense.New[float64](200, 1), dense.New[float64](200, 1)
	for i := range 200 {
		t := float64(i) / 20
		x.Set(i, 0, t)
		y.Set(i, 0, math.Sin(t)+0.1*math.Cos(37*t))
	}
	ridge, err := machine.NewRidge(machine.Setup{
		Spec: randfeat.Spec{Kernel: kernel.Kernel{}, Family: family.Trig{}, Coupling: coupling.Orthogonal{}, Dim: 1,
			M: 100, Seed: 1},
		Outputs: 1,
	})
	if err != nil {
		panic(err)
	}
	if err := ridge.Add(x, y); err != nil { // call it again for more rows
		panic(err)
	}
	path, err := ridge.Path([]float64{1e-4, 1e-3, 1e-2, 0.1, 1, 10})
	if err != nil {
		panic(err)
	}
	best := path[0]
	for _, p := range path {
		if p.GCV < best.GCV {
			best = p
		}
	}
	model, err := ridge.Model(best.Lambda)
	if err != nil {
		panic(err)
	}
	predictor, err := machine.NewPredictor[float64](model)
	if err != nil {
		panic(err)
	}
	out := dense.New[float64](1, 1)
	if err := predictor.Predict(out, dense.MustFromRows([][]float64{{math.Pi / 2}}), nil); err != nil {
		panic(err)
	}
	fmt.Printf("λ = %g, prediction %.1f\n", best.Lambda, out.At(0, 0))
	// Output: λ = 0.01, prediction 1.0
}

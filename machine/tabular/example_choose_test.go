package tabular_test

import (
	"context"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// Choices from a sample, then sums of all rows wherever they are: for data that do not come as files. Package
// machine/parts does this for files, with checks of every step.
func ExampleChoose() {
	ctx := context.Background()
	schema := &data.Schema{Fields: []data.Field{{Name: "x", Kind: data.Numeric, Mean: 5, Scale: 3}},
		Targets: []data.Target{{Name: "y", Mean: 0, Scale: 0.7}}}
	rows := func(lo, hi int) (x, y dense.Matrix[float64]) { // encoded rows of a stream
		x, y = dense.New[float64](hi-lo, 1), dense.New[float64](hi-lo, 1)
		for i := range hi - lo {
			t := 10 * math.Mod(float64(lo+i)*math.Phi, 1)
			x.Set(i, 0, (t-5)/3)
			y.Set(i, 0, math.Sin(t))
		}
		return x, y
	}
	sample, targets := rows(0, 100)
	plan, err := tabular.Choose(ctx, tabular.Table{Name: "stream", Schema: schema, Rows: 2000, X: sample, Y: targets},
		tabular.Options{Features: 64, Bandwidth: 0.5, Lambda: 1e-3, Seed: 1})
	if err != nil {
		panic(err)
	}
	saved, err := plan.MarshalBinary()
	if err != nil {
		panic(err)
	}

	// On other machines:
	if plan, err = tabular.UnmarshalPlan(saved); err != nil {
		panic(err)
	}
	setup, err := plan.Setup()
	if err != nil {
		panic(err)
	}
	sums, err := machine.NewSums(plan.Kind, setup)
	if err != nil {
		panic(err)
	}
	for lo := 0; lo < 2000; lo += 500 {
		x, y := rows(lo, lo+500)
		plan.Schema.Standardise(y, y)
		if err := sums.Add(x, y); err != nil {
			panic(err)
		}
	}

	x, y := rows(2000, 2100) // neither in the sums nor in the sample
	held, err := machine.MatrixRows(x, y)
	if err != nil {
		panic(err)
	}
	model, report, err := plan.Finish(ctx, sums, held)
	if err != nil {
		panic(err)
	}
	fmt.Println(model.Kind, "of", model.Rows, "rows")
	fmt.Printf("%s below 0.01: %v\n", report.Scores[0].Name, report.Scores[0].High < 0.01)
	// Output:
	// ridge of 2000 rows
	// RMSE below 0.01: true
}

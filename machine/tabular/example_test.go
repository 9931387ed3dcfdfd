package tabular_test

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// A table in, a model with its choices and its cross-validated score out.
func ExampleFit() {
	var b strings.Builder
	b.WriteString("hour,day,load\n")
	for i := range 336 {
		hour, day := i%24, []string{"work", "free"}[i/24%7/5]
		load := 50 + 20*math.Sin(float64(hour)*math.Pi/12)
		if day == "free" {
			load /= 2
		}
		fmt.Fprintf(&b, "%d,%s,%.2f\n", hour, day, load+math.Sin(float64(i*i)))
	}
	src, err := text.OpenBytes("load.csv", []byte(b.String()), data.Options{})
	if err != nil {
		panic(err)
	}
	m, report, err := tabular.Fit(context.Background(), src,
		tabular.Options{Learn: data.LearnOptions{Targets: []string{"load"}}, Seed: 1})
	if err != nil {
		panic(err)
	}
	for _, c := range report.Choices[:3] {
		fmt.Printf("%s: %s\n", c.Name, c.Value)
	}
	fmt.Printf("%s below 1.5: %v\n", report.Scores[0].Name, report.Scores[0].High < 1.5)

	// New rows need no target.
	next, err := text.OpenBytes("next.csv", []byte("hour,day\n6,work\n6,free\n18,work\n"), data.Options{})
	if err != nil {
		panic(err)
	}
	rows, err := machine.TableRows(next, m.Schema, false)
	if err != nil {
		panic(err)
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		panic(err)
	}
	err = rows.Each(100, func(x, _ dense.Matrix[float64]) error {
		out := dense.New[float64](x.Rows, 1)
		if err := p.Predict(out, x, nil); err != nil {
			return err
		}
		for _, v := range out.Data {
			fmt.Printf("%.0f\n", v)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// model: ridge
	// map: exact
	// kernel: gaussian
	// RMSE below 1.5: true
	// 70
	// 35
	// 30
}

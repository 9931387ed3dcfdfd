package trees_test

import (
	"context"
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine/trees"
)

// A price with a rule: 10 until 20 pieces, then 7; colour 2 costs 1 more. Column 1 has codes of colours.
func Example() {
	x, y := dense.New[float64](400, 2), dense.New[float64](400, 1)
	for i := range x.Rows {
		pieces, colour := float64(i%40), float64(i/40%5)
		price := 10.0
		if pieces > 20 {
			price = 7
		}
		if colour == 2 {
			price++
		}
		x.Set(i, 0, pieces)
		x.Set(i, 1, colour)
		y.Set(i, 0, price)
	}
	bins, err := trees.Bin(x, []bool{false, true})
	if err != nil {
		fmt.Println(err)
		return
	}
	forest, err := trees.Fit(context.Background(), bins, nil, trees.Target{Values: y}, trees.Options{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows := dense.MustFromRows([][]float64{{3, 0}, {30, 0}, {30, 2}})
	prices := dense.New[float64](rows.Rows, forest.Outputs())
	if err := forest.Predict(prices, rows); err != nil {
		fmt.Println(err)
		return
	}
	for _, price := range prices.Data {
		fmt.Printf("%.1f\n", price)
	}
	// Output:
	// 10.0
	// 7.0
	// 8.0
}

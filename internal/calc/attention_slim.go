//go:build slim

package calc

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
)

// A slim program computes attention by its definition, in time and memory proportional to the number of pairs. Nothing
// else in it needs attention in float64, and that instance of package attention would add 250 KB.

func exactAttention(out, q, k, v dense.Matrix[float64], causal bool) error {
	scores := dense.New[float64](q.Rows, k.Rows)
	for i := range q.Rows {
		row := scores.Row(i)
		most := math.Inf(-1)
		for j := range row {
			row[j] = dot(q.Row(i), k.Row(j)) / math.Sqrt(float64(q.Cols))
			if !causal || j <= i {
				most = max(most, row[j])
			}
		}
		for j := range row {
			row[j] = math.Exp(row[j] - most)
		}
	}
	return average(out, scores, v, causal)
}

func linearAttention(out dense.Matrix[float64], m *randfeat.Map[float64], q, k, v dense.Matrix[float64],
	causal bool) error {
	fq, fk := dense.New[float64](q.Rows, m.OutDim()), dense.New[float64](k.Rows, m.OutDim())
	sq, sk := make([]float64, q.Rows), make([]float64, k.Rows)
	if err := errors.Join(m.Queries(fq, sq, q, nil), m.Keys(fk, sk, k, nil)); err != nil {
		return err
	}
	// The average divides by the sum of a query's weights, so a factor common to them cancels. Leave out the query's
	// own scale, and divide by the scale of the largest visible key, which keeps the exponential finite.
	scores := dense.New[float64](q.Rows, k.Rows)
	for i := range q.Rows {
		row, most := scores.Row(i), math.Inf(-1)
		for j := range row {
			if !causal || j <= i {
				most = max(most, sk[j])
			}
		}
		for j := range row {
			row[j] = dot(fq.Row(i), fk.Row(j)) * math.Exp(sk[j]-most)
		}
	}
	return average(out, scores, v, causal)
}

// average sets each row of out, which is zero, to the weighted mean of the rows of v.
func average(out, weights, v dense.Matrix[float64], causal bool) error {
	if causal && weights.Rows != weights.Cols {
		return fmt.Errorf("%d queries and %d keys with a causal mask: %w", weights.Rows, weights.Cols, dense.ErrShape)
	}
	for i := range out.Rows {
		to, sum := out.Row(i), 0.0
		for j, w := range weights.Row(i) {
			if causal && j > i {
				break
			}
			sum += w
			for c, x := range v.Row(j) {
				to[c] += w * x
			}
		}
		for c := range to {
			to[c] /= sum
		}
	}
	return nil
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

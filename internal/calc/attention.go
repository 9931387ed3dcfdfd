package calc

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// attentionEntries are exact attention, and linear attention with given projections, both with one head.
func attentionEntries() []Entry {
	return []Entry{
		{
			Name: "attention.linear", Reference: "docs/theory.md §6: linear attention, x = d^{-1/4} q; A is used by oprf only",
			Inputs: []Input{matrix("omega"), matrix("Q"), matrix("K_"), matrix("V_"),
				choice("family", "positive", "oprf", "trig", "hyperbolic"), number("A"), flag("causal")},
			eval: evalLinearAttention,
		},
		{
			Name: "attention.exact", Reference: "softmax(QKᵀ/√d) V",
			Inputs: []Input{matrix("Q"), matrix("K_"), matrix("V_"), flag("causal")},
			eval: func(in values) (any, error) {
				out, err := attentionOutput(in)
				if err != nil {
					return nil, err
				}
				return out, exactAttention(out, in.mat("Q"), in.mat("K_"), in.mat("V_"), in.b("causal"))
			},
		},
	}
}

// attentionOutput checks the shapes of the inputs and returns a zero matrix for the result.
func attentionOutput(in values) (dense.Matrix[float64], error) {
	q, k, v := in.mat("Q"), in.mat("K_"), in.mat("V_")
	if err := checkLengths(in, "Q", "K_"); err != nil {
		return q, err
	}
	if k.Rows != v.Rows {
		return q, fmt.Errorf("inputs \"K_\" and \"V_\" have %d and %d rows: %w", k.Rows, v.Rows, ErrInput)
	}
	return dense.New[float64](q.Rows, v.Cols), nil
}

func evalLinearAttention(in values) (any, error) {
	out, err := attentionOutput(in)
	if err != nil {
		return nil, err
	}
	if err := checkLengths(in, "Q", "omega"); err != nil {
		return nil, err
	}
	d := in.mat("Q").Cols
	spec := randfeat.Spec{Kernel: kernel.Attention(d), Dim: d, Family: map[string]family.Family{
		"positive": family.Positive{}, "oprf": family.OPRF{A: in.f("A")}, "trig": family.Trig{},
		"hyperbolic": family.Hyperbolic{},
	}[in.s("family")]}
	m, err := randfeat.NewWithOmega[float64](spec, []coupling.Omega{{Rows: in.mat("omega")}})
	if err != nil {
		return nil, err
	}
	return out, linearAttention(out, m, in.mat("Q"), in.mat("K_"), in.mat("V_"), in.b("causal"))
}

// Attention is computed by its definition in float64, in time and memory proportional to the number of pairs.

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

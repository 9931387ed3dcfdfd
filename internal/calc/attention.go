package calc

import (
	"fmt"

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

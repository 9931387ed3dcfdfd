//go:build !slim

package calc

import (
	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
)

func exactAttention(out, q, k, v dense.Matrix[float64], causal bool) error {
	a := attention.Exact[float64]{Visibility: attention.Visibility{Causal: causal}}
	_, err := a.Forward(attention.One(out), attention.One(q), attention.One(k), attention.One(v))
	return err
}

func linearAttention(out dense.Matrix[float64], m *randfeat.Map[float64], q, k, v dense.Matrix[float64],
	causal bool) error {
	a := linear.Attention[float64]{Visibility: attention.Visibility{Causal: causal},
		Maps: []randfeat.FeatureMap[float64]{m}}
	_, err := a.Forward(attention.One(out), attention.One(q), attention.One(k), attention.One(v))
	return err
}

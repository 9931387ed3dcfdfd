package rfx

import (
	"github.com/gomlx/gomlx/core/graph"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/gomlx/fused"
)

// Cluster returns the cluster of a key.
func (c *Centres) Cluster(y []float64) int { return c.cluster(y) }

// Centre returns the centre of a cluster.
func (c *Centres) Centre(i int) []float64 { return c.w.Centres.Row(i) }

// Weights returns the weights of the keys of head 0 in a fit, first those of the first passage.
func Weights(s Clusters, causal bool, scale float64, q, k attention.Seq[float32]) []float64 {
	f := fit{Clusters: s, causal: causal, scale: scale, d: q.Dim}
	f.read(q, k, 0)
	return f.weight
}

// Sampled returns the keys that a fit trains on, and their masses.
func Sampled(s Clusters, weights []float64) (sample []int, mass []float64) {
	f := fit{Clusters: s, keys: make([][]float64, len(weights)), weight: weights}
	f.draw()
	return f.sample, f.mass
}

// KernelInputs returns the call of kernels for an attention, and its inputs.
func (a Attention) KernelInputs(q, k, v *graph.Node, see Visible) (fused.Call, []*graph.Node, error) {
	s, err := a.check(q, k, v, see)
	if err != nil {
		return fused.Call{}, nil, err
	}
	return a.inputs(q, k, v, see, s)
}

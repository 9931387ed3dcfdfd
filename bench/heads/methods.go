package main

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	lin "github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// method is one way to compute bidirectional attention.
type method struct {
	name   string // identifies the method in the results file
	series string // series in the figure of error against cost; empty means none
	// forward computes all heads of a layer.
	forward func(layer int, out, q, k, v seq) (attention.Report, error)
	// cost returns the cost of a token (one query and one key), given the report of a call. The unit is one random
	// feature, 2(d+d_v) multiply-adds; exact attention over n keys costs n/2. The training of k centroids is not
	// included. It costs k/4 for seeding and k/4 for every pass, per key of the training sample.
	cost func(r attention.Report, keys int) float64
}

// spec is a short name for the centroids of a head.
type spec = centroid.Blocks

// centroidCost returns the cost function of centroid attention, with the exact keys that the call reported.
func centroidCost(s spec, dim, valueDim int) func(r attention.Report, keys int) float64 {
	return func(r attention.Report, keys int) float64 {
		asked := min(s.Keys, keys)
		return s.Cost(keys, dim, valueDim) + (float64(r.Exact)/float64(max(1, r.Rows))-float64(asked))/2
	}
}

// specName describes a spec. Records are found by this name: a change of its wording orphans the results so far.
func specName(s spec) string {
	return fmt.Sprintf("blocks of %d, %d centroids + %d exact keys", s.Queries, s.Clusters, s.Keys)
}

// fitted is centroid attention that fits its centroids to the keys of every call.
func fitted(series string, s spec, dim int) method {
	a := &centroid.Attention{Specs: []centroid.Spec{s}}
	return method{name: specName(s), series: series, cost: centroidCost(s, dim, dim),
		forward: func(_ int, out, q, k, v seq) (attention.Report, error) { return a.Forward(out, q, k, v) }}
}

func exact(causal bool) method {
	a := &attention.Exact[float32]{Visibility: attention.Visibility{Causal: causal}}
	return method{name: "exact", series: "exact",
		cost:    func(_ attention.Report, keys int) float64 { return float64(keys) / 2 },
		forward: func(_ int, out, q, k, v seq) (attention.Report, error) { return a.Forward(out, q, k, v) }}
}

func uniform() method {
	a := &attention.Constant[float32]{}
	return method{name: "uniform: the mean of the values", series: "uniform",
		cost:    func(attention.Report, int) float64 { return 0.25 },
		forward: func(_ int, out, q, k, v seq) (attention.Report, error) { return a.Forward(out, q, k, v) }}
}

// window is exact attention to the keys fewer than w positions away.
func window(w int) method {
	a := &attention.Exact[float32]{Window: w}
	return method{name: fmt.Sprintf("window of %d keys", 2*w-1), series: "window",
		cost:    func(attention.Report, int) float64 { return float64(2*w-1) / 2 },
		forward: func(_ int, out, q, k, v seq) (attention.Report, error) { return a.Forward(out, q, k, v) }}
}

// features is linear attention with m orthogonal random features of a family, and with exact sinks and an exact window
// if these are not 0. Families with parameters are fitted to the queries and keys of every call.
func features(name string, f family.Family, m, w, sinks, dim int) method {
	full := fmt.Sprintf("%d features, %s", m, name)
	if w > 0 {
		full += fmt.Sprintf(", window of %d keys", 2*w-1)
	}
	if sinks > 0 {
		full += fmt.Sprintf(", %d sinks", sinks)
	}
	cost := float64(m) + float64(sinks)/2
	if w > 0 {
		cost += float64(2*w-1) / 2
	}
	series := ""
	if _, best := f.(family.Adaptive); best && w == 0 {
		series = "features"
	} else if best && sinks > 0 {
		series = "features, window and sinks"
	}
	return method{name: full, series: series,
		cost: func(attention.Report, int) float64 { return cost },
		forward: func(_ int, out, q, k, v seq) (attention.Report, error) {
			s := randfeat.Spec{Kernel: kernel.Attention(dim), Family: f, Coupling: coupling.Orthogonal{}, Dim: dim,
				M: m, Seed: 1}
			stats, err := lin.NewHeadStats[float32](s, k.Heads)
			if err != nil {
				return attention.Report{}, err
			}
			if err := stats.Add(q, k, nil, nil); err != nil {
				return attention.Report{}, err
			}
			specs, err := stats.Fit()
			if err != nil {
				return attention.Report{}, err
			}
			a := &lin.Attention[float32]{Window: w, Sinks: sinks}
			for _, s := range specs {
				mp, err := randfeat.New[float32](s)
				if err != nil {
					return attention.Report{}, err
				}
				a.Maps = append(a.Maps, mp)
			}
			return a.Forward(out, q, k, v)
		}}
}

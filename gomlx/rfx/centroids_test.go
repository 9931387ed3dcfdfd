package rfx_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Outputs and gradients of centroids with windows, sinks and padding equal those of package centroid.
func TestCentroidsEqualTheLibrary(t *testing.T) {
	const batch, heads, kvHeads, length = 2, 4, 2, 75
	q := sequence[float64](batch, heads, length, dim, 2, 0.1, 61)
	k := sequence[float64](batch, kvHeads, length, dim, 2, -0.1, 62)
	v := sequence[float64](batch, kvHeads, length, 5, 1, 0, 63)
	dout := sequence[float64](batch, heads, length, 5, 1, 0, 64)
	mask := make([]bool, batch*length)
	for i := range mask {
		mask[i] = i%length != 9 && i%length < 70-i/length*20
	}
	for i, spec := range []centroid.Spec{
		{Clusters: 8},
		{Clusters: 8, Landmarks: 5, Sinks: 2},
		{Clusters: 5, Window: 3},
		{Clusters: 6, Block: 7},
		{Clusters: 4, Window: 20, Block: 8, Sinks: 3},
		{Window: 4, Block: 4, Sinks: 1},
		{Clusters: length, Window: 4},
	} {
		for _, masked := range []bool{false, true} {
			if masked && spec.Clusters == length { // without padding every key is a cluster
				continue
			}
			t.Run(fmt.Sprintf("%d, masked %v", i, masked), func(t *testing.T) {
				var see attention.Visibility
				args := []any{tensor(q), tensor(k), tensor(v), tensor(dout)}
				if masked {
					see.KeyMask = mask
					args = append(args, tensors.FromFlatDataAndDimensions(mask, batch, length))
				}
				centres, err := centroid.Fit([]centroid.Spec{spec}, 0, see, q, k, v)
				if err != nil {
					t.Fatal(err)
				}
				core := &centroid.Attention[float64]{Visibility: see, Specs: []centroid.Spec{spec}}
				a := rfx.Centroids{Spec: spec}
				if spec.Clusters > 0 {
					core.Centres, a.Centres = centres, centres
				}
				got := call[float64](t, func(in []*graph.Node) []*graph.Node {
					var visible rfx.Visible
					if masked {
						visible.Mask = in[4]
					}
					out := a.Forward(in[0], in[1], in[2], visible)
					loss := graph.ReduceAllSum(graph.Mul(out, in[3]))
					return append([]*graph.Node{out}, graph.Gradient(loss, in[0], in[1], in[2])...)
				}, args...)
				for i, want := range clustersOfLibrary(t, core, q, k, v, dout) {
					if d := differ(got[i], want); d > 1e-8 {
						t.Errorf("result %d (output, dq, dk, dv) differs by %.1e", i, d)
					}
				}
			})
		}
	}
}

// clustersOfLibrary are output, dq, dk and dv of package centroid.
func clustersOfLibrary(t *testing.T, core *centroid.Attention[float64],
	q, k, v, dout attention.Seq[float64]) [][]float64 {
	t.Helper()
	like := func(s attention.Seq[float64]) attention.Seq[float64] {
		return attention.NewSeq[float64](s.Batch, s.Heads, s.Len, s.Dim)
	}
	out, dq, dk, dv := like(dout), like(q), like(k), like(v)
	if _, err := core.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	if err := core.Backward(dq, dk, dv, dout, out, q, k, v); err != nil {
		t.Fatal(err)
	}
	return [][]float64{out.Data, dq.Data, dk.Data, dv.Data}
}

// Options without a graph are refused.
func TestCentroidsRefuse(t *testing.T) {
	q := sequence[float64](1, 1, 20, dim, 1, 0, 71)
	centres, err := centroid.Fit([]centroid.Spec{{Clusters: 4}}, 0, attention.Visibility{}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]rfx.Centroids{
		"top":         {Spec: centroid.Spec{Clusters: 4, Top: 1}, Centres: centres},
		"no centres":  {Spec: centroid.Spec{Clusters: 4}},
		"fewer":       {Spec: centroid.Spec{Clusters: 3}, Centres: centres},
		"no clusters": {},
	} {
		if err := c.Check(1, dim); err == nil {
			t.Errorf("%s: no error", name)
		} else if name == "top" && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

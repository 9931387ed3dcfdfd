package rfx_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Outputs of centroids with windows, sinks and padding equal their definition; gradients are its differences with the
// shares of keys held constant.
func TestCentroidsAreTheirDefinition(t *testing.T) {
	const batch, heads, kvHeads, length = 2, 4, 2, 75
	q := sequence[float64](batch, heads, length, dim, 2, 0.1, 61)
	k := sequence[float64](batch, kvHeads, length, dim, 2, -0.1, 62)
	v := sequence[float64](batch, kvHeads, length, 5, 1, 0, 63)
	dout := sequence[float64](batch, heads, length, 5, 1, 0, 64)
	mask := make([]bool, batch*length)
	for i := range mask {
		mask[i] = i%length != 9 && i%length < 70-i/length*20
	}
	for i, spec := range []rfx.Clusters{
		{Clusters: 8},
		{Clusters: 8, Landmarks: 5, Sinks: 2},
		{Clusters: 5, Window: 3},
		{Clusters: 6, Block: 7},
		{Clusters: 4, Window: 20, Block: 8, Sinks: 3},
		{Window: 4, Block: 4, Sinks: 1},
		{Clusters: length, Window: 4},
	} {
		masked := i%2 == 1
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			args := []any{tensor(q), tensor(k), tensor(v), tensor(dout)}
			var visible []bool
			if masked {
				visible = mask
				args = append(args, tensors.FromFlatDataAndDimensions(mask, batch, length))
			}
			a := rfx.Centroids{Spec: spec}
			if spec.Clusters > 0 {
				a.Centres = causalCentres(t, spec, kvHeads)
			}
			got := call[float64](t, func(in []*graph.Node) []*graph.Node {
				var see rfx.Visible
				if masked {
					see.Mask = in[4]
				}
				out := a.Forward(in[0], in[1], in[2], see)
				loss := graph.ReduceAllSum(graph.Mul(out, in[3]))
				return append([]*graph.Node{out}, graph.Gradient(loss, in[0], in[1], in[2])...)
			}, args...)
			n := newDefinition(a, q, k, visible)
			if d := differ(got[0], n.forward(q, k, v).Data); d > 1e-8 {
				t.Errorf("the output differs by %.1e", d)
			}
			const eps = 1e-5
			for i, x := range []*attention.Seq[float64]{&q, &k, &v} {
				to := sequence[float64](x.Batch, x.Heads, x.Len, x.Dim, 1, 0, uint64(70+i)) // a direction
				own := x.Data
				loss := func(step float64) (sum float64) {
					x.Data = make([]float64, len(own))
					for j := range own {
						x.Data[j] = own[j] + step*to.Data[j]
					}
					for j, y := range n.forward(q, k, v).Data {
						sum += y * dout.Data[j]
					}
					return sum
				}
				want, along := (loss(eps)-loss(-eps))/(2*eps), 0.0
				x.Data = own
				for j, g := range got[i+1] {
					along += g * to.Data[j]
				}
				if d := math.Abs(along - want); !(d < 1e-6*(1+math.Abs(want))) {
					t.Errorf("argument %d: the gradient is %v, differences say %v", i, along, want)
				}
			}
		})
	}
}

// definition is bidirectional attention over clusters, with the clusters and the shares of some keys.
type definition struct {
	rfx.Centroids
	mask    []bool
	cluster [][]int // of every batch and head: −1 for sinks and padding
	share   [][]float64
}

func newDefinition(a rfx.Centroids, q, k attention.Seq[float64], mask []bool) *definition {
	n := &definition{Centroids: a, mask: mask}
	group, scale := q.Heads/k.Heads, 1/math.Sqrt(float64(q.Dim))
	for bh := range k.Batch * k.Heads {
		b, h := bh/k.Heads, bh%k.Heads
		key, cluster, share := k.Head(b, h), make([]int, k.Len), make([]float64, k.Len)
		count, marks := 0.0, min(cmp.Or(a.Spec.Landmarks, 32), q.Len)
		for j := range cluster {
			if cluster[j] = -1; a.Spec.Clusters > 0 && j >= a.Spec.Sinks && (mask == nil || mask[b*k.Len+j]) {
				cluster[j] = a.Centres[h].Cluster(key.Row(j))
				count++
			}
		}
		for t := range marks * group {
			x := q.Head(b, h*group+t/marks).Row((2*(t%marks) + 1) * q.Len / (2 * marks))
			e, sum := make([]float64, k.Len), 0.0
			for j, c := range cluster {
				if c >= 0 {
					e[j] = math.Exp(scale * dense.Dot(x, key.Row(j)))
					sum += e[j]
				}
			}
			for j := range e {
				share[j] += e[j] / max(sum, 1e-300) / float64(marks*group)
			}
		}
		total := map[int]float64{}
		for j, c := range cluster {
			share[j] += 0.1 / max(count, 1)
			total[c] += share[j]
		}
		for j, c := range cluster {
			share[j] /= total[c]
		}
		n.cluster, n.share = append(n.cluster, cluster), append(n.share, share)
	}
	return n
}

func (n *definition) forward(q, k, v attention.Seq[float64]) attention.Seq[float64] {
	out := attention.NewSeq[float64](q.Batch, q.Heads, q.Len, v.Dim)
	group, scale, s := q.Heads/k.Heads, 1/math.Sqrt(float64(q.Dim)), n.Spec
	block := s.Block
	if block == 0 && s.Window > 0 {
		block = 16
	}
	all := k.Len-s.Sinks <= s.Clusters // every key would be a cluster
	for b := range q.Batch {
		for h := range q.Heads {
			key, value := k.Head(b, h/group), v.Head(b, h/group)
			cluster, share := n.cluster[b*k.Heads+h/group], n.share[b*k.Heads+h/group]
			for p := range q.Len {
				x, o, sum := q.Head(b, h).Row(p), out.Head(b, h).Row(p), 0.0
				add := func(logit float64, y []float64) {
					sum += math.Exp(logit)
					for l, v := range y {
						o[l] += math.Exp(logit) * v
					}
				}
				begin := 0
				if block > 0 {
					begin = p - p%block
				}
				logit := make([]float64, s.Clusters) // of centroids
				for j, c := range cluster {
					if c >= 0 && !all {
						logit[c] += share[j] * scale * dense.Dot(x, key.Row(j))
					}
				}
				for j, c := range cluster {
					near := j < s.Sinks || all || block > 0 && j >= begin-s.Window && j < begin+block+s.Window
					switch {
					case n.mask != nil && !n.mask[b*k.Len+j]:
					case near:
						add(scale*dense.Dot(x, key.Row(j)), value.Row(j))
					case c >= 0:
						add(logit[c], value.Row(j))
					}
				}
				for l := range o {
					if sum > 0 {
						o[l] /= sum
					}
				}
			}
		}
	}
	return out
}

// Options without a graph are refused.
func TestCentroidsRefuse(t *testing.T) {
	q := sequence[float32](1, 1, 20, dim, 1, 0, 71)
	centres, err := rfx.FitCentres(rfx.Clusters{Clusters: 4}, false, 0, q, q)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]rfx.Centroids{
		"spread":      {Spec: rfx.Clusters{Clusters: 4, Spread: true}, Centres: centres},
		"no centres":  {Spec: rfx.Clusters{Clusters: 4}},
		"fewer":       {Spec: rfx.Clusters{Clusters: 3}, Centres: centres},
		"no clusters": {},
	} {
		if err := c.Check(1, dim); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A key weighs its mean attention from the landmarks, which stand in the middles of equal parts, and 0.1/L. Causal
// landmarks see no key from their window on.
func TestWeightsOfKeys(t *testing.T) {
	const n, landmarks, sinks, window, block, scale = 48, 6, 3, 5, 4, 0.8
	q, k := sequence[float32](1, 2, n, dim, 1, 0, 6), sequence[float32](1, 1, n, dim, 1, 0, 7)
	for _, causal := range []bool{false, true} {
		want, count := make([]float64, n-sinks), 0.0
		for h := range 2 {
			for r := range landmarks {
				at, seen := (2*r+1)*n/(2*landmarks), n
				if causal {
					seen = at/block*block - window
				}
				e, sum := make([]float64, n), 0.0
				for j := sinks; j < seen; j++ {
					var s float64
					for l, x := range q.Head(0, h).Row(at) {
						s += scale * float64(x) * float64(k.Head(0, 0).Row(j)[l])
					}
					e[j] = math.Exp(s)
					sum += e[j]
				}
				if sum > 0 {
					count++
					for j := range want {
						want[j] += e[sinks+j] / sum
					}
				}
			}
		}
		s := rfx.Clusters{Clusters: 4, Landmarks: landmarks, Sinks: sinks, Window: window, Block: block}
		got := rfx.Weights(s, causal, scale, q, k)
		for j, w := range want {
			if w = w/count + 0.1/(n-sinks); len(got) != len(want) || math.Abs(got[j]-w) > 1e-12 {
				t.Fatalf("causal %v: weight of key %d is %v, want %v", causal, sinks+j, got[j], w)
			}
		}
	}
}

// A systematic sample has every key as often as its weight says, up to one draw.
func TestSampleOfKeys(t *testing.T) {
	const draws = 15
	weights := []float64{8, 0.5, 0.5, 3, 1, 1, 1, 2, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 0.25, 0.1, 0.1, 0.1, 0.1, 0.1}
	var total float64
	for _, w := range weights {
		total += w
	}
	for seed := range uint64(20) {
		sample, mass := rfx.Sampled(rfx.Clusters{Clusters: 2, Sample: draws, Seed: seed}, weights)
		got, sum := make([]float64, len(weights)), 0.0
		for i, j := range sample {
			got[j] += mass[i]
			sum += mass[i]
		}
		for j, w := range weights {
			if math.Abs(got[j]-w/total) >= 1.0/draws {
				t.Errorf("seed %d: key %d has the mass %v, its weight is %v", seed, j, got[j], w/total)
			}
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("seed %d: masses add up to %v", seed, sum)
		}
	}
}

// A fit separates keys that lie far apart, in the metric of the queries: differences that no query sees do not count.
func TestFitCentres(t *testing.T) {
	const n, kinds, clusters = 400, 5, 16
	q, k := sequence[float32](2, 2, n, dim, 1, 0, 1), sequence[float32](2, 1, n, dim, 0.05, 0, 2)
	noise := sequence[float32](2, 1, n, 1, 50, 0, 3)
	of := func(b, j int) int { return (j*7 + b) % kinds }
	for b := range 2 {
		for j := range n {
			y := k.Head(b, 0).Row(j)
			y[of(b, j)] += 4
			y[dim-1] = noise.Head(b, 0).Row(j)[0]
			for h := range 2 {
				q.Head(b, h).Row(j)[dim-1] = 0
			}
		}
	}
	for _, sample := range []int{0, 200} {
		list, err := rfx.FitCentres(rfx.Clusters{Clusters: clusters, Seed: 5, Sample: sample}, false, 0, q, k)
		if err != nil {
			t.Fatal(err)
		}
		c := list[0]
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again := new(rfx.Centres)
		if err := json.Unmarshal(b, again); err != nil {
			t.Fatal(err)
		}
		kind := map[int]int{} // of the keys of a cluster
		for b := range 2 {
			for j := range n {
				y := make([]float64, dim)
				for l, x := range k.Head(b, 0).Row(j) {
					y[l] = float64(x)
				}
				got := c.Cluster(y)
				if want, ok := kind[got]; ok && want != of(b, j) || again.Cluster(y) != got {
					t.Fatalf("sample %d: key %d of text %d, of kind %d, is in a cluster of kind %d, after saving in cluster %d",
						sample, j, b, of(b, j), want, again.Cluster(y))
				}
				kind[got] = of(b, j)
			}
		}
		if len(kind) < kinds || c.Clusters() > clusters {
			t.Errorf("sample %d: %d clusters with keys of %d", sample, len(kind), c.Clusters())
		}
	}
}

package rfx_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// causalSpecs have one block and many, windows that are not multiples of blocks, more groups of blocks than one product
// takes, all kinds of residuals, and near keys alone.
var causalSpecs = []rfx.Clusters{
	{Clusters: 6},
	{Clusters: 8, Block: 2, Sinks: 3},
	{Clusters: 5, Window: 7, Block: 8, Spread: true},
	{Clusters: 6, Window: 5, Block: 16, Sinks: 2, Spread: true, Residual: 3},
	{Clusters: 7, Block: 1, Spread: true},
	{Clusters: 3, Window: 90, Sinks: 1, Spread: true},
	{Window: 6, Block: 4, Sinks: 2},
}

// causalCentres are centres of another sequence.
func causalCentres(t testing.TB, s rfx.Clusters, kvHeads int) []*rfx.Centres {
	t.Helper()
	if s.Clusters == 0 {
		return nil
	}
	q, k := sequence[float32](1, 2*kvHeads, 100, dim, 2, 0.1, 65), sequence[float32](1, kvHeads, 100, dim, 2, -0.1, 66)
	centres, err := rfx.FitCentres(s, true, 0, q, k)
	if err != nil {
		t.Fatal(err)
	}
	return centres
}

// Outputs of causal centroids equal their definition, and gradients are differences.
func TestCausalCentroidsAreTheirDefinition(t *testing.T) {
	const batch, heads, kvHeads, length = 2, 4, 2, 75
	q := sequence[float64](batch, heads, length, dim, 2, 0.1, 61)
	k := sequence[float64](batch, kvHeads, length, dim, 2, -0.1, 62)
	v := sequence[float64](batch, kvHeads, length, 5, 1, 0, 63)
	dout := sequence[float64](batch, heads, length, 5, 1, 0, 64)
	mask := make([]bool, batch*length)
	for i := range mask {
		mask[i] = i%length != 0 && i%length != 9 && i%length < 70-i/length*20
	}
	for i, spec := range causalSpecs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			masked := i%2 == 1
			args := []any{tensor(q), tensor(k), tensor(v), tensor(dout)}
			var visible []bool
			if masked {
				visible = mask
				args = append(args, tensors.FromFlatDataAndDimensions(mask, batch, length))
			}
			a := rfx.Centroids{Spec: spec, Causal: true, Centres: causalCentres(t, spec, kvHeads)}
			const eps = 1e-6
			got := call[float64](t, func(in []*graph.Node) []*graph.Node {
				var see rfx.Visible
				if masked {
					see.Mask = in[4]
				}
				loss := func(f float64) (out, sum *graph.Node) {
					out = a.Forward(graph.MulScalar(in[0], f), graph.MulScalar(in[1], f),
						graph.MulScalar(in[2], f), see)
					return out, graph.ReduceAllSum(graph.Mul(out, in[3]))
				}
				out, sum := loss(1)
				_, more := loss(1 + eps)
				_, less := loss(1 - eps)
				return append([]*graph.Node{out, graph.MulScalar(graph.Sub(more, less), 1/(2*eps))},
					graph.Gradient(sum, in[:3]...)...)
			}, args...)
			if d := differ(got[0], chosenKeys(t, a, q, k, v, visible).Data); d > 1e-8 {
				t.Errorf("the output differs by %.1e", d)
			}
			var along float64
			for i, x := range [][]float64{q.Data, k.Data, v.Data} {
				for j, g := range got[i+2] {
					along += g * x[j]
				}
			}
			if d := math.Abs(along - got[1][0]); !(d < 1e-5*math.Abs(along)) {
				t.Errorf("the gradient along the arguments is %v, differences say %v", along, got[1][0])
			}
		})
	}
}

// Later keys and values change nothing, to the last bit.
func TestCausalCentroidsSeeNoFuture(t *testing.T) {
	const length, at = 90, 47
	for i, spec := range causalSpecs {
		q := sequence[float32](1, 4, length, dim, 2, 0, 41)
		k := sequence[float32](1, 2, length, dim, 2, 0, 42)
		v := sequence[float32](1, 2, length, 4, 1, 0, 43)
		a := rfx.Centroids{Spec: spec, Causal: true, Centres: causalCentres(t, spec, 2)}
		fn := func(in []*graph.Node) []*graph.Node {
			return []*graph.Node{a.Forward(in[0], in[1], in[2], rfx.Visible{})}
		}
		before := run(t, fn, q, k, v)[0]
		for h := range 2 {
			for p := at; p < length; p++ {
				for c := range dim {
					k.Head(0, h).Row(p)[c] *= 3
				}
				for c := range 4 {
					v.Head(0, h).Row(p)[c] = 1e6
				}
			}
		}
		after := run(t, fn, q, k, v)[0]
		for h := range 4 {
			for j := h * length * 4; j < (h*length+at)*4; j++ {
				if before[j] != after[j] {
					t.Fatalf("spec %d: the future changes %v to %v", i, before[j], after[j])
				}
			}
		}
	}
}

// Prompt and tokens from states of constant size equal one call.
func TestCausalCentroidsExtend(t *testing.T) {
	const batch, heads, kvHeads, length = 2, 4, 2, 60
	q := sequence[float64](batch, heads, length, dim, 2, 0, 51)
	k := sequence[float64](batch, kvHeads, length, dim, 2, 0, 52)
	v := sequence[float64](batch, kvHeads, length, 3, 1, 0, 53)
	for i, spec := range causalSpecs {
		for _, steps := range [][]int{{1}, {2, 1, 33, 4}} {
			a := rfx.Centroids{Spec: spec, Causal: true, Centres: causalCentres(t, spec, kvHeads)}
			if steps[0] == 1 && i%2 == 1 { // a graph of 60 steps takes its time
				continue
			}
			got := run(t, func(in []*graph.Node) []*graph.Node {
				s := a.Empty(in[0], batch, kvHeads, dim, 3)
				numbers := 0
				for _, x := range s.Nodes() {
					numbers += x.Shape().Size()
				}
				if want := batch * kvHeads * a.StateNumbers(dim, 3); numbers != want {
					t.Errorf("a state of %d numbers, not %d", numbers, want)
				}
				return stepwise(t, a, s, in, steps)
			}, q, k, v)
			if d := differ(got[0], got[1]); d > 1e-10 {
				t.Errorf("spec %d, steps %v: differs by %.1e", i, steps, d)
			}
		}
	}
}

// Float32 has the outputs of float64, and bfloat16 those of float32 but for the rounding of arguments.
func TestCausalCentroidsPrecision(t *testing.T) {
	for _, exact := range []int{0, 3} {
		spec := causalSpecs[2]
		precision(t, rfx.Centroids{Spec: spec, Causal: true, Centres: causalCentres(t, spec, 1), Exact: exact})
	}
}

func precision(t *testing.T, a rfx.Centroids) {
	const length = 75
	q := sequence[float64](1, 2, length, dim, 1, 0, 81)
	k := sequence[float64](1, 1, length, dim, 1, 0, 82)
	v := sequence[float64](1, 1, length, 4, 1, 0, 83)
	// All precisions begin with numbers that bfloat16 has. They are rounded here and not in the graph: XLA leaves out
	// the rounding of a conversion to bfloat16 and back.
	for _, s := range []attention.Seq[float64]{q, k, v} {
		for i, x := range s.Data {
			s.Data[i] = float64(math.Float32frombits((math.Float32bits(float32(x)) + 1<<15) &^ (1<<16 - 1)))
		}
	}
	results := func(dtype dtypes.DType) [][]float64 {
		return run(t, func(in []*graph.Node) []*graph.Node {
			low := make([]*graph.Node, len(in))
			for i, x := range in {
				low[i] = graph.ConvertDType(x, dtype)
			}
			out := a.Forward(low[0], low[1], low[2], rfx.Visible{})
			if out.DType() != dtype {
				t.Errorf("the output is %s", out.DType())
			}
			loss := graph.ReduceAllSum(graph.Square(graph.ConvertDType(out, dtypes.Float64)))
			all := append([]*graph.Node{out}, graph.Gradient(loss, low...)...)
			for i := range all {
				all[i] = graph.ConvertDType(all[i], dtypes.Float64)
			}
			return all
		}, q, k, v)
	}
	full, single := results(dtypes.Float64), 1e-5
	if tf32() {
		single = tf32Bound
	}
	for _, c := range []struct {
		dtype dtypes.DType
		bound float64
	}{{dtypes.Float32, single}, {dtypes.BFloat16, 0.02}} {
		for i, x := range results(c.dtype) {
			if d := differ(x, full[i]); !(d < c.bound) || d == 0 {
				t.Errorf("%s, %d exact keys: result %d (output, dq, dk, dv) is off by %.1e", c.dtype, a.Exact, i, d)
			}
		}
	}
}

// chosenKeys defines exact keys of clusters, one query after the other. It returns the output of every head.
func chosenKeys(t *testing.T, a rfx.Centroids, q, k, v attention.Seq[float64], mask []bool) attention.Seq[float64] {
	t.Helper()
	out := attention.NewSeq[float64](q.Batch, q.Heads, q.Len, v.Dim)
	spec, group, scale := a.Spec, q.Heads/k.Heads, 1/math.Sqrt(float64(q.Dim))
	for bh := range q.Batch * k.Heads {
		b, h := bh/k.Heads, bh%k.Heads
		key, value := k.Head(b, h), v.Head(b, h)
		cluster := make([]int, k.Len)
		var centres *rfx.Centres
		var px, py dense.Matrix[float64]
		var deviation []float64
		if spec.Clusters > 0 {
			centres = a.Centres[h]
			px, py, deviation = centres.Projections()
		}
		for j := range cluster {
			if centres != nil {
				cluster[j] = centres.Cluster(key.Row(j))
			}
		}
		dot := func(x, y []float64) (s float64) {
			for i := range x {
				s += x[i] * y[i]
			}
			return s
		}
		along := func(m dense.Matrix[float64], r int, y []float64) (s float64) {
			for i, x := range y {
				s += m.At(i, r) * x
			}
			return s
		}
		residual := func(j, r int) float64 {
			x := (along(py, r, key.Row(j)) - along(py, r, centres.Centre(cluster[j]))) / (deviation[r] / 16)
			return max(-127, min(127, math.Round(x)))
		}
		named := map[int]bool{}
		for p := range q.Len {
			begin := p - p%cmp.Or(spec.Block, 64)
			if p == begin {
				clear(named)
			}
			var far, near []int
			for j := range p + 1 {
				switch {
				case mask != nil && !mask[b*k.Len+j]:
				case j < spec.Sinks || j >= begin-spec.Window:
					near = append(near, j)
				case spec.Clusters > 0:
					far = append(far, j)
				}
			}
			for g := range group {
				x := q.Head(b, h*group+g).Row(p)
				order := slices.Clone(far)
				slices.SortStableFunc(order, func(i, j int) int {
					return cmp.Compare(dot(x, key.Row(j)), dot(x, key.Row(i)))
				})
				for _, j := range order[:min(a.Exact, len(order))] {
					named[j] = true
				}
			}
			for g := range group {
				x, sum, o := q.Head(b, h*group+g).Row(p), 0.0, out.Head(b, h*group+g).Row(p)
				add := func(j int, s float64) {
					sum += math.Exp(s)
					for i, y := range value.Row(j) {
						o[i] += math.Exp(s) * y
					}
				}
				for _, j := range near {
					add(j, scale*dot(x, key.Row(j)))
				}
				for _, j := range far {
					if named[j] {
						add(j, scale*dot(x, key.Row(j)))
						continue
					}
					var n, s, spread float64
					for _, i := range far {
						if cluster[i] == cluster[j] {
							n++
							s += scale * dot(x, key.Row(i))
						}
					}
					for r := 0; r < min(q.Dim, cmp.Or(spec.Residual, 16)) && spec.Spread; r++ {
						var one, two float64
						for _, i := range far {
							if cluster[i] == cluster[j] {
								one, two = one+residual(i, r), two+residual(i, r)*residual(i, r)
							}
						}
						a := scale * along(px, r, x) * deviation[r] / 16
						spread += a * a * (two/n - one/n*one/n)
					}
					add(j, s/n+min(spread, 6)/2)
				}
				for i := range o {
					if sum > 0 {
						o[i] /= sum
					}
				}
			}
		}
	}
	return out
}

// Exact keys of clusters are those of their definition, later keys and queries change nothing, and gradients are
// differences.
func TestChosenKeys(t *testing.T) {
	const batch, heads, kvHeads, length, at = 2, 4, 2, 40, 21
	q := sequence[float64](batch, heads, length, dim, 2, 0.1, 61)
	k := sequence[float64](batch, kvHeads, length, dim, 2, -0.1, 62)
	v := sequence[float64](batch, kvHeads, length, 5, 1, 0, 63)
	dout := sequence[float64](batch, heads, length, 5, 1, 0, 64)
	mask := make([]bool, batch*length)
	for i := range mask {
		mask[i] = i%length != 0 && i%length != 9 && i%length < 38-i/length*9
	}
	for i, c := range []struct {
		spec   rfx.Clusters
		exact  int
		masked bool
	}{
		{rfx.Clusters{Clusters: 4, Block: 4, Window: 3, Sinks: 1}, 1, false},
		{rfx.Clusters{Clusters: 3, Block: 8, Sinks: 2, Spread: true}, 2, true},
		{rfx.Clusters{Clusters: 5, Block: 3, Window: 2, Spread: true}, 3, false},
		{rfx.Clusters{Clusters: 2, Block: 10, Window: 2}, 50, false}, // all keys
	} {
		a := rfx.Centroids{Spec: c.spec, Causal: true, Centres: causalCentres(t, c.spec, kvHeads), Exact: c.exact}
		const eps = 1e-6
		fn := func(in []*graph.Node) []*graph.Node {
			var see rfx.Visible
			if c.masked {
				see.Mask = in[4]
			}
			loss := func(f float64) (out, sum *graph.Node) {
				out = a.Forward(graph.MulScalar(in[0], f), graph.MulScalar(in[1], f), graph.MulScalar(in[2], f), see)
				return out, graph.ReduceAllSum(graph.Mul(out, in[3]))
			}
			out, sum := loss(1)
			_, more := loss(1 + eps)
			_, less := loss(1 - eps)
			return append([]*graph.Node{out, graph.MulScalar(graph.Sub(more, less), 1/(2*eps))},
				graph.Gradient(sum, in[:3]...)...)
		}
		args := []any{tensor(q), tensor(k), tensor(v), tensor(dout)}
		var visible []bool
		if c.masked {
			visible = mask
			args = append(args, tensors.FromFlatDataAndDimensions(mask, batch, length))
		}
		got := call[float64](t, fn, args...)
		if d := differ(got[0], chosenKeys(t, a, q, k, v, visible).Data); d > 1e-8 {
			t.Errorf("case %d: the output differs by %.1e", i, d)
		}
		var along float64
		for j, x := range [][]float64{q.Data, k.Data, v.Data} {
			for l, g := range got[j+2] {
				along += g * x[l]
			}
		}
		if d := math.Abs(along - got[1][0]); !(d < 1e-5*math.Abs(along)) {
			t.Errorf("case %d: the gradient along the arguments is %v, differences say %v", i, along, got[1][0])
		}
		later := func(s attention.Seq[float64]) *tensors.Tensor {
			n := attention.NewSeq[float64](s.Batch, s.Heads, s.Len, s.Dim)
			for j, x := range s.Data {
				if n.Data[j] = x; j/s.Dim%s.Len >= at {
					n.Data[j] = 3*x + 1
				}
			}
			return tensor(n)
		}
		args[0], args[1], args[2] = later(q), later(k), later(v)
		for j, x := range call[float64](t, fn, args...)[0] {
			if j/5%length < at && x != got[0][j] {
				t.Fatalf("case %d: the future changes %v to %v", i, got[0][j], x)
			}
		}
	}
}

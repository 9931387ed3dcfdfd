package rfx_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Windows, sinks, packed sequences and padding in all combinations that package attention has, with gradients.
func TestOptionsEqualTheLibrary(t *testing.T) {
	const batch, heads, kvHeads = 2, 2, 1
	type options struct {
		causal, segments, mask       bool
		window, sinks, chunk, length int
	}
	var all []options
	for i := range 48 {
		o := options{causal: i&1 != 0, segments: i&2 != 0, mask: i&4 != 0, window: []int{0, 5, 20}[i%3],
			chunk: []int{16, 64}[i/8%2], length: []int{1, 33, 70, 130}[i/4%4]}
		if !o.segments && i&8 != 0 {
			o.sinks = 3
		}
		all = append(all, o)
	}
	// Prefixes of more chunks than one product takes.
	all = append(all, options{causal: true, chunk: 16, length: 2100},
		options{causal: true, segments: true, mask: true, chunk: 16, length: 2075},
		options{segments: true, window: 5, chunk: 16, length: 2100})
	for i, o := range all {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			seed := uint64(100 + 10*i)
			q := sequence[float64](batch, heads, o.length, dim, 0.8, 0, seed)
			k := sequence[float64](batch, kvHeads, o.length, dim, 0.8, 0, seed+1)
			v := sequence[float64](batch, kvHeads, o.length, 3, 1, 0, seed+2)
			dout := sequence[float64](batch, heads, o.length, 3, 1, 0, seed+3)
			var see attention.Visibility
			see.Causal = o.causal
			args := []any{tensor(q), tensor(k), tensor(v), tensor(dout)}
			if o.mask {
				for p := range batch * o.length {
					see.KeyMask = append(see.KeyMask, p%o.length < 3 || p%7 != 0)
				}
				args = append(args, tensors.FromFlatDataAndDimensions(see.KeyMask, batch, o.length))
			}
			if o.segments {
				for p := range batch * o.length {
					see.Segments = append(see.Segments, int32((p%o.length+5*(p/o.length))/max(23, o.length/3)))
				}
				args = append(args, tensors.FromFlatDataAndDimensions(see.Segments, batch, o.length))
			}
			var f family.Family = family.Positive{}
			if i%2 == 0 {
				f = family.OPRF{}
			}
			s := spec(f, 6, seed)
			a := rfx.Attention{Map: newMap(t, s), Causal: o.causal, Window: o.window, Sinks: o.sinks, Chunk: o.chunk}
			got := call[float64](t, func(in []*graph.Node) []*graph.Node {
				var visible rfx.Visible
				rest := in[4:]
				if o.mask {
					visible.Mask, rest = rest[0], rest[1:]
				}
				if o.segments {
					visible.Segments = rest[0]
				}
				out := a.Forward(in[0], in[1], in[2], visible)
				loss := graph.ReduceAllSum(graph.Mul(out, in[3]))
				return append([]*graph.Node{out}, graph.Gradient(loss, in[0], in[1], in[2])...)
			}, args...)

			core := onHost[float64](t, see, s)
			core.Window, core.Sinks = o.window, o.sinks
			for i, want := range library(t, core, q, k, v, dout) {
				if o.length == 1 && (i == 1 || i == 2) { // the one weight is 1, whatever the key
					for _, g := range got[i] {
						if math.Abs(g) > 1e-12 {
							t.Errorf("gradient %d of a single key is %v", i, g)
						}
					}
					continue
				}
				if d := differ(got[i], want); d > 1e-8 {
					t.Errorf("result %d (output, dq, dk, dv) differs by %.1e", i, d)
				}
			}
		})
	}
}

// In float32, with rows of norm up to 100, where a plain feature would be e^±5000: outputs and gradients are those of
// float64 up to the rounding of scores that large.
func TestLargeNormsInFloat32(t *testing.T) {
	const length = 100
	for _, scale := range []float64{0.5, 4, 12} {
		for _, chunk := range []int{0, 16, 128} {
			causal := chunk != 0
			q := sequence[float32](1, 1, length, dim, scale, 0, 31)
			k := sequence[float32](1, 1, length, dim, scale, 0, 32)
			v := sequence[float32](1, 1, length, 4, 1, 0, 33)
			a := rfx.Attention{Map: newMap(t, spec(family.Positive{}, 16, 3)), Causal: causal, Chunk: chunk}
			got := run(t, func(in []*graph.Node) []*graph.Node {
				out := a.Forward(in[0], in[1], in[2], rfx.Visible{})
				return append([]*graph.Node{out}, graph.Gradient(graph.ReduceAllSum(graph.Square(out)), in...)...)
			}, q, k, v)
			core := onHost[float64](t, attention.Visibility{Causal: causal}, spec(family.Positive{}, 16, 3))
			wide := func(s attention.Seq[float32]) attention.Seq[float64] {
				w := attention.NewSeq[float64](1, 1, s.Len, s.Dim)
				for i, x := range s.Data {
					w.Data[i] = float64(x)
				}
				return w
			}
			want := library(t, core, wide(q), wide(k), wide(v), attention.Seq[float64]{})
			for i, want := range want {
				narrow := make([]float64, len(got[i]))
				for j, x := range got[i] {
					narrow[j] = float64(x)
				}
				// An exponent of size e is rounded by e·2⁻²⁴; those here are up to |x|²·2 ≈ 16·scale².
				bound := 1e-5 + 16*scale*scale*float64(dim)*6e-8
				if tf32() {
					bound = max(bound, tf32Bound)
				}
				if d := differ(narrow, want); !(d <= bound) {
					t.Errorf("scale %v, chunk %v: result %d differs by %.1e, allowed %.1e", scale, chunk, i, d, bound)
				}
			}
		}
	}
}

// Rows so large that queries and keys of a chunk share no feature: training that goes astray has finite gradients.
func TestLostRowsHaveFiniteGradients(t *testing.T) {
	for _, scale := range []float64{20, 64} {
		const length = 128
		q := sequence[float32](1, 1, length, dim, scale, 0, 31)
		k := sequence[float32](1, 1, length, dim, scale, 0, 32)
		v := sequence[float32](1, 1, length, 4, 1, 0, 33)
		a := rfx.Attention{Map: newMap(t, spec(family.Positive{}, 32, 3)), Causal: true, Chunk: 64}
		for i, all := range run(t, func(in []*graph.Node) []*graph.Node {
			out := a.Forward(in[0], in[1], in[2], rfx.Visible{})
			return append([]*graph.Node{out}, graph.Gradient(graph.ReduceAllSum(graph.Square(out)), in...)...)
		}, q, k, v) {
			for at, x := range all {
				if !(math.Abs(float64(x)) < 1e6) {
					t.Fatalf("scale %v: number %d of result %d (output, dq, dk, dv) is %v", scale, at, i, x)
				}
			}
		}
	}
}

// A later key, however large, changes no earlier output but by rounding, and values not at all.
func TestCausal(t *testing.T) {
	const length, at = 90, 47
	for _, window := range []int{0, 7} {
		q := sequence[float32](1, 2, length, dim, 1, 0, 41)
		k := sequence[float32](1, 2, length, dim, 1, 0, 42)
		v := sequence[float32](1, 2, length, 4, 1, 0, 43)
		a := rfx.Attention{Map: newMap(t, spec(family.Positive{}, 16, 3)), Causal: true, Window: window}
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
		var worst float64
		for h := range 2 {
			for i := h * length * 4; i < (h*length+at)*4; i++ {
				worst = max(worst, math.Abs(float64(before[i]-after[i])))
			}
		}
		if worst > 2e-6 {
			t.Errorf("window %d: the future changes the past by %v", window, worst)
		}
	}
}

// stepwise is the attention of tokens read in steps, from states of constant size, beside that of one call.
func stepwise[S interface{ Nodes() []*graph.Node }](t *testing.T, a interface {
	State(nodes []*graph.Node) (S, []*graph.Node)
	Extend(s S, from, q, k, v *graph.Node) (*graph.Node, S)
	Forward(q, k, v *graph.Node, see rfx.Visible) *graph.Node
}, s S, in []*graph.Node, steps []int) []*graph.Node {
	length := in[0].Shape().Dimensions[2]
	var out []*graph.Node
	from := 0
	for i := 0; from < length; i++ {
		to := min(length, from+steps[min(i, len(steps)-1)])
		part := func(x *graph.Node) *graph.Node { return graph.SliceAxis(x, 2, graph.AxisRange(from, to)) }
		var o *graph.Node
		o, s = a.Extend(s, graph.Const(in[0].Graph(), int32(from)), part(in[0]), part(in[1]), part(in[2]))
		back, rest := a.State(s.Nodes())
		if s, from = back, to; len(rest) != 0 {
			t.Errorf("%d nodes left over", len(rest))
		}
		out = append(out, o)
	}
	return []*graph.Node{graph.Concatenate(out, 2), a.Forward(in[0], in[1], in[2], rfx.Visible{})}
}

// Prompt and tokens from states equal one call.
func TestExtendEqualsForward(t *testing.T) {
	const batch, heads, kvHeads, length = 2, 4, 2, 60
	q := sequence[float64](batch, heads, length, dim, 0.8, 0, 51)
	k := sequence[float64](batch, kvHeads, length, dim, 0.8, 0, 52)
	v := sequence[float64](batch, kvHeads, length, 3, 1, 0, 53)
	extend := func(name string, a rfx.Attention, steps []int) {
		t.Run(name, func(t *testing.T) {
			got := run(t, func(in []*graph.Node) []*graph.Node {
				return stepwise(t, a, a.Empty(in[0], batch, kvHeads, 3), in, steps)
			}, q, k, v)
			if d := differ(got[0], got[1]); d > 1e-10 {
				t.Errorf("differs by %.1e", d)
			}
		})
	}
	for _, f := range families(t) {
		extend(f.Name, rfx.Attention{Map: newMap(t, spec(f.Family, 8, 3)), Causal: true}, []int{41, 1})
	}
	m := newMap(t, spec(family.Positive{}, 8, 3), spec(family.Positive{}, 8, 4))
	for _, near := range [][2]int{{1, 0}, {5, 0}, {0, 3}, {5, 3}, {20, 7}, {70, 2}, {3, 70}} {
		a := rfx.Attention{Map: m, Causal: true, Window: near[0], Sinks: near[1]}
		extend(fmt.Sprintf("window %d, sinks %d", near[0], near[1]), a, []int{2, 1, 17, 4})
	}
}

// Wrong shapes give an error that names them, not a panic.
func TestBadShapes(t *testing.T) {
	m := newMap(t, spec(family.Positive{}, 8, 3))
	rows := func(heads, length, dim int) *tensors.Tensor {
		return tensor(sequence[float64](1, heads, length, dim, 1, 0, 1))
	}
	for name, c := range map[string]struct {
		a       rfx.Attention
		q, k, v *tensors.Tensor
	}{
		"another dimension": {rfx.Attention{Map: m}, rows(1, 4, 6), rows(1, 4, 6), rows(1, 4, 3)},
		"no map":            {rfx.Attention{}, rows(1, 4, 8), rows(1, 4, 8), rows(1, 4, 3)},
		"keys and values":   {rfx.Attention{Map: m}, rows(1, 4, 8), rows(1, 5, 8), rows(1, 4, 3)},
		"heads":             {rfx.Attention{Map: m}, rows(3, 4, 8), rows(2, 4, 8), rows(2, 4, 3)},
		"causal lengths":    {rfx.Attention{Map: m, Causal: true}, rows(1, 3, 8), rows(1, 4, 8), rows(1, 4, 3)},
		"chunk":             {rfx.Attention{Map: m, Chunk: 24}, rows(1, 4, 8), rows(1, 4, 8), rows(1, 4, 3)},
	} {
		_, err := graph.CallOnceN(open(t), func(in []*graph.Node) []*graph.Node {
			return []*graph.Node{c.a.Forward(in[0], in[1], in[2], rfx.Visible{})}
		}, c.q, c.k, c.v)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := rfx.NewMap(); err == nil {
		t.Error("a map of nothing")
	}
	if _, err := rfx.NewMap(spec(family.Positive{}, 8, 1), spec(family.Trig{}, 8, 1)); err == nil {
		t.Error("a map of two families")
	}
}

// In half precision outputs and gradients are those of float32 up to a few of its roundings, and stay in its range.
func TestHalfPrecision(t *testing.T) {
	const length = 150
	q := sequence[float32](1, 2, length, dim, 1, 0, 81)
	k := sequence[float32](1, 1, length, dim, 1, 0, 82)
	v := sequence[float32](1, 1, length, 40, 1, 0, 83)
	for _, a := range []rfx.Attention{{}, {Causal: true, Chunk: 32}, {Causal: true, Window: 9, Sinks: 2}} {
		a.Map = newMap(t, spec(family.OPRF{}, 16, 3))
		results := func(dtype dtypes.DType) [][]float32 {
			return run(t, func(in []*graph.Node) []*graph.Node {
				low := make([]*graph.Node, len(in))
				for i, x := range in {
					low[i] = graph.ConvertDType(x, dtype)
				}
				out := a.Forward(low[0], low[1], low[2], rfx.Visible{})
				if out.DType() != dtype {
					t.Errorf("the output is %s", out.DType())
				}
				out = graph.ConvertDType(out, dtypes.Float32)
				return append([]*graph.Node{out}, graph.Gradient(graph.ReduceAllSum(graph.Square(out)), in...)...)
			}, q, k, v)
		}
		full, half := results(dtypes.Float32), results(dtypes.BFloat16)
		for i := range full {
			var off, all float64
			for j, x := range full[i] {
				off += math.Pow(float64(half[i][j]-x), 2)
				all += float64(x) * float64(x)
			}
			if rel := math.Sqrt(off / all); !(rel < 0.02) { // a rounding is 2⁻⁹
				t.Errorf("%+v: result %d (output, dq, dk, dv) is off by %.3f", a, i, rel)
			} else if rel == 0 {
				t.Errorf("%+v: result %d is not of half precision", a, i)
			}
		}
	}
}

// Gradients of products of half precision are products of half precision.
func TestProductsOfGradients(t *testing.T) {
	a := sequence[float32](1, 1, 6, dim, 1, 0, 91)
	b := sequence[float32](1, 1, dim, 5, 1, 0, 92)
	grads := run(t, func(in []*graph.Node) []*graph.Node {
		low, high := rfx.Product(graph.ConvertDType(in[0], dtypes.BFloat16), graph.ConvertDType(in[1], dtypes.BFloat16),
			-1, -2, 2), rfx.Product(in[0], in[1], -1, -2, 2)
		out := graph.Gradient(graph.ReduceAllSum(graph.Square(graph.ConvertDType(low, dtypes.Float32))), in...)
		for _, n := range in[0].Graph().Nodes() {
			if n.Type() == graph.NodeTypeDotGeneral && n != high && n.DType() != dtypes.BFloat16 {
				t.Errorf("a product of %s", n.DType())
			}
		}
		return append(out, graph.Gradient(graph.ReduceAllSum(graph.Square(high)), in...)...)
	}, a, b)
	for i := range 2 {
		for j, want := range grads[i+2] {
			if got := grads[i][j]; math.Abs(float64(got-want)) > 0.05*(1+math.Abs(float64(want))) {
				t.Errorf("gradient %d by number %d is %g, not %g", i, j, got, want)
			}
		}
	}
}

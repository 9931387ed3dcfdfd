package backend

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	stableshapes "github.com/gomlx/go-xla/types/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/fused"
	"github.com/randfeat/randfeat/gomlx/triton"
)

// fake is pure Go with launches that write zeros, and the names of the kernels in order.
func fake(t *testing.T) (*device, *[]string) {
	b, _, err := Open("go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	zeros := func(f compute.Function, l triton.Launch, results []shapes.Shape, operands []compute.Value) (
		[]compute.Value, error) {
		names = append(names, l.Kernel.Name)
		if len(operands)+len(results) != len(l.Kernel.Args()) {
			t.Errorf("kernel %s has arguments %v, not %d", l.Kernel.Name, l.Kernel.Args(), len(operands)+len(results))
		}
		var all []compute.Value
		for _, s := range results {
			zero, err := f.Constant([]float32{0})
			if err != nil {
				return nil, err
			}
			wide, err := f.BroadcastInDim(zero, s, nil)
			if err != nil {
				return nil, err
			}
			all = append(all, wide)
		}
		return all, nil
	}
	return &device{b, triton.TF32, zeros}, &names
}

func call(causal bool) fused.Call {
	s := fused.Shape{Batch: 1, Heads: 2, KVHeads: 1, Queries: 40, Keys: 40, Dim: 8, Value: 8, Features: 16, Maps: 1,
		Causal: causal, Products: triton.TF32}
	return fused.Call{Shape: s, Sizes: s.Sizes()}
}

func inputs(g *Graph, c fused.Call) (all []*Node) {
	for _, t := range c.Shape.Inputs() {
		all = append(all, Ones(g, shapes.Make(dtypes.Float32, t.Dims...)))
	}
	return all
}

// A call becomes launches, its gradient further launches, also inside of closures; tensors go from one call of the
// backend to the next.
func TestCallsBecomeLaunches(t *testing.T) {
	for _, causal := range []bool{false, true} {
		d, names := fake(t)
		e := MustNewExec(d, func(x *Node) []*Node {
			in := inputs(x.Graph(), call(causal))
			in[0] = Mul(in[0], x)
			loss := ReduceAllSum(call(causal).Graph(in)[0])
			return append(Gradient(loss, in[:3]...), x)
		})
		out := e.MustCall(tensors.FromScalar(float32(2)))
		again := e.MustCall(out[3])
		if got := tensors.ToScalar[float32](again[3]); got != 2 {
			t.Errorf("a tensor that went twice through the backend is %v", got)
		}
		for i, want := range call(causal).Shape.Inputs()[:3] {
			if got := out[i].Shape().Dimensions; len(got) != 3 || got[0] != want.Dims[0] || got[2] != want.Dims[2] {
				t.Errorf("gradient of %s: %v", want.Name, got)
			}
		}
		want := "state total query delta state dquery total dkey"
		if causal {
			want = "state prefix causal delta state dcausalQuery prefix dcausalKey"
		}
		if got := strings.Join(*names, " "); got != want {
			t.Errorf("launches %q, want %q", got, want)
		}
		d.Finalize()
	}
}

func TestOtherFunctionsAreForwarded(t *testing.T) {
	d, names := fake(t)
	defer d.Finalize()
	out, err := CallOnce(d, func(x *Node) *Node {
		g := x.Graph()
		cond := NewClosure(g, func(g *Graph) []*Node {
			return []*Node{LessThan(Parameter(g, "x", x.Shape()), Scalar(g, dtypes.Float32, 100))}
		})
		body := NewClosure(g, func(g *Graph) []*Node {
			y := Parameter(g, "x", x.Shape())
			return []*Node{Add(MulScalar(y, 3), ReduceAllSum(call(false).Graph(inputs(g, call(false)))[0]))}
		})
		return While(cond, body, x)[0]
	}, float32(2))
	if err != nil {
		t.Fatal(err)
	}
	if got := tensors.ToScalar[float32](out); got != 162 || len(*names) != 3 {
		t.Errorf("the loop gives %v, with %d launches", got, len(*names))
	}
}

// A tensor of another backend is refused, not misread.
func TestForeignBuffersAreRefused(t *testing.T) {
	d, _ := fake(t)
	defer d.Finalize()
	e := &executable{d: d}
	_, err := e.Execute([]compute.Buffer{nil}, nil, 0)
	if err == nil || !strings.Contains(err.Error(), "another backend") {
		t.Errorf("error %v", err)
	}
}

// The custom call has API version 2 and a plain backend_config. With API version 4 and mhlo.backend_config XLA's plugin
// crashes.
func TestCustomCallIsTheOneThatWorks(t *testing.T) {
	b := stablehlo.New("test")
	main := b.Main()
	shape := stableshapes.Make(dtypes.Float32, 16)
	x, err := main.NamedInput("x", shape)
	if err != nil {
		t.Fatal(err)
	}
	config := call(false).Program().Steps[0].Config()
	out, err := stablehlo.CustomCallV2(triton.Target, config, []*stablehlo.Value{x}, nil,
		[]stableshapes.Shape{shape}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := main.Return(out...); err != nil {
		t.Fatal(err)
	}
	text, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"api_version = 2 : i32", "backend_config = ", "__gpu$xla.gpu.triton"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(string(text), "mhlo.backend_config") || strings.Contains(string(text), "api_version = 4") {
		t.Error("this call crashes the plugin")
	}
}

// customCall is private in go-xla. With another version of it, read its code and run the tests on a GPU before this
// line is changed.
func TestVersionOfCustomCall(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if v := regexp.MustCompile(`go-xla (\S+)`).FindSubmatch(text); v == nil || string(v[1]) != "v0.4.4" {
		t.Errorf("go.mod has go-xla %s", v[1])
	}
}

func TestKernelsFlag(t *testing.T) {
	_, _, err := Flags{Name: "go", Kernels: "maybe"}.Open()
	if err == nil || !strings.Contains(err.Error(), "on or off") {
		t.Errorf("error %v", err)
	}
}

package backend

import (
	"errors"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"

	"github.com/randfeat/randfeat/gomlx/fused"
	"github.com/randfeat/randfeat/gomlx/triton"
)

// launcher adds a launch to a function of a backend.
type launcher func(f compute.Function, l triton.Launch, results []shapes.Shape, operands []compute.Value) (
	[]compute.Value, error)

// device is a backend that runs calls of package fused as kernels. Everything else is forwarded. A graph calls a
// function whose name encodes the call; that function has parameters and no body.
type device struct {
	compute.Backend
	products triton.Precision
	launch   launcher
}

var _ fused.Device = &device{}

// Products implements fused.Device.
func (d *device) Products() triton.Precision { return d.products }

func (d *device) Builder(name string) compute.Builder { return &builder{d.Backend.Builder(name), d} }

func (d *device) BufferFromFlatData(n compute.DeviceNum, flat any, s shapes.Shape) (compute.Buffer, error) {
	x, err := d.Backend.BufferFromFlatData(n, flat, s)
	return d.wrap(x, err)
}

func (d *device) NewSharedBuffer(n compute.DeviceNum, s shapes.Shape) (compute.Buffer, any, error) {
	x, flat, err := d.Backend.NewSharedBuffer(n, s)
	w, err := d.wrap(x, err)
	return w, flat, err
}

func (d *device) wrap(x compute.Buffer, err error) (compute.Buffer, error) {
	if err != nil {
		return nil, err
	}
	return &buffer{x, d}, nil
}

// buffer is a buffer that belongs to the device: GoMLX compares the backends of tensors.
type buffer struct {
	compute.Buffer
	d *device
}

func (x *buffer) Backend() compute.Backend { return x.d }

func (x *buffer) CopyToDevice(n compute.DeviceNum) (compute.Buffer, error) {
	y, err := x.Buffer.CopyToDevice(n)
	return x.d.wrap(y, err)
}

type executable struct {
	compute.Executable
	d *device
}

func (e *executable) Execute(in []compute.Buffer, donate []bool, n compute.DeviceNum) ([]compute.Buffer, error) {
	raw := make([]compute.Buffer, len(in))
	for i, x := range in {
		own, ok := x.(*buffer)
		if !ok {
			return nil, fmt.Errorf("backend: input %d belongs to another backend", i)
		}
		raw[i] = own.Buffer
	}
	out, err := e.Executable.Execute(raw, donate, n)
	if err != nil {
		return nil, err
	}
	for i, x := range out {
		out[i] = &buffer{x, e.d}
	}
	return out, nil
}

type builder struct {
	compute.Builder
	d *device
}

func (b *builder) Compile() (compute.Executable, error) {
	e, err := b.Builder.Compile()
	if err != nil {
		return nil, err
	}
	return &executable{e, b.d}, nil
}

func (b *builder) Main() compute.Function { return &function{b.Builder.Main(), b, nil} }

func (b *builder) NewFunction(name string) (compute.Function, error) {
	if call, ok := fused.ParseCall(name); ok {
		return &called{name: name, call: call, builder: b}, nil
	}
	f, err := b.Builder.NewFunction(name)
	if err != nil {
		return nil, err
	}
	return &function{f, b, nil}, nil
}

func (b *builder) OpShape(v compute.Value) (shapes.Shape, error) {
	if p, ok := v.(parameter); ok {
		return p.shape, nil
	}
	return b.Builder.OpShape(v)
}

// called is the function of a call, parameters without a body.
type called struct {
	notimplemented.Function
	name    string
	call    fused.Call
	builder *builder
}

type parameter struct{ shape shapes.Shape }

func (c *called) Name() string             { return c.name }
func (c *called) Builder() compute.Builder { return c.builder }

func (c *called) Parameter(_ string, s shapes.Shape, _ *compute.ShardingSpec) (compute.Value, error) {
	return parameter{s}, nil
}

func (c *called) Return([]compute.Value, []*compute.ShardingSpec) error { return nil }

// function forwards to a function of the backend, except for calls. Functions that are arguments are unwrapped.
type function struct {
	compute.Function
	b      *builder
	parent compute.Function
}

func inner(f compute.Function) compute.Function {
	if own, ok := f.(*function); ok {
		return own.Function
	}
	return f
}

func (f *function) Builder() compute.Builder { return f.b }
func (f *function) Parent() compute.Function { return f.parent }

func (f *function) Closure() (compute.Function, error) {
	c, err := f.Function.Closure()
	if err != nil {
		return nil, err
	}
	return &function{c, f.b, f}, nil
}

func (f *function) Call(to compute.Function, in ...compute.Value) ([]compute.Value, error) {
	if c, ok := to.(*called); ok {
		return c.run(f, in)
	}
	return f.Function.Call(inner(to), in...)
}

func (f *function) Sort(c compute.Function, axis int, stable bool, in ...compute.Value) ([]compute.Value, error) {
	return f.Function.Sort(inner(c), axis, stable, in...)
}

func (f *function) While(cond, body compute.Function, s ...compute.Value) ([]compute.Value, error) {
	return f.Function.While(inner(cond), inner(body), s...)
}

func (f *function) If(p compute.Value, a, b compute.Function) ([]compute.Value, error) {
	return f.Function.If(p, inner(a), inner(b))
}

var types = map[triton.Elem]dtypes.DType{triton.F32: dtypes.Float32, triton.BF16: dtypes.BFloat16}

// run adds the launches of a call.
func (c *called) run(f *function, in []compute.Value) ([]compute.Value, error) {
	p := c.call.Program()
	if len(in) != len(p.Inputs) {
		return nil, fmt.Errorf("backend: %d inputs of a call with %d", len(in), len(p.Inputs))
	}
	values := map[string]compute.Value{}
	for i, t := range p.Inputs {
		values[t.Name] = in[i]
	}
	for _, step := range p.Steps {
		var operands []compute.Value
		for _, name := range step.Operands() {
			operands = append(operands, values[name])
		}
		var results []shapes.Shape
		for _, t := range step.Results {
			results = append(results, shapes.Make(types[t.Elem], t.Dims...))
		}
		out, err := f.b.d.launch(f.Function, step.Launch, results, operands)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", step.Kernel.Name, err)
		}
		for i, t := range step.Results {
			values[t.Name] = out[i]
		}
	}
	var out []compute.Value
	for _, t := range p.Outputs {
		out = append(out, values[t.Name])
	}
	return out, nil
}

// errNoKernels means that a backend has no kernels, for a reason that is worth saying.
var errNoKernels = errors.New("no kernels")

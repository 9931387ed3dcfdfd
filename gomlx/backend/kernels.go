//go:build cgo && !noxla && ((linux && (amd64 || arm64)) || (darwin && arm64))

package backend

import (
	"fmt"
	_ "unsafe" // for go:linkname

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/compute/xla"

	"github.com/randfeat/randfeat/gomlx/triton"
)

// customCall adds a custom call of API version 2. It is private in go-xla, whose attention ops use it;
// TestVersionOfCustomCall names the version that this was written for.
//
//go:linkname customCall github.com/gomlx/go-xla/compute/xla.(*Function).customCall
func customCall(f *xla.Function, target, config string, operandLayouts [][]int, outputShapes []shapes.Shape,
	outputLayouts [][]int, operands ...compute.Value) ([]compute.Value, error)

func launch(f compute.Function, l triton.Launch, results []shapes.Shape, operands []compute.Value) (
	[]compute.Value, error) {
	return customCall(f.(*xla.Function), triton.Target, l.Config(), nil, results, nil, operands...)
}

// withKernels returns a backend that runs attention as kernels, if a small kernel gives the right numbers there.
func withKernels(b compute.Backend, products triton.Precision) (compute.Backend, error) {
	if err := try(b); err != nil {
		return b, err
	}
	return &device{b, products, launch}, nil
}

// try runs a kernel.
func try(b compute.Backend) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errNoKernels, r)
		}
	}()
	k := triton.New("double")
	x, y, at := k.Arg("x", triton.F32), k.Arg("y", triton.F32), k.Range(128)
	k.Store(y.At(at), k.Load(x.At(at)).Times(2))
	shape := shapes.Make(dtypes.Float32, 128)
	builder := b.Builder("try")
	main := builder.Main()
	in, err := main.Parameter("x", shape, nil)
	if err != nil {
		return err
	}
	out, err := launch(main, triton.Launch{Kernel: k, Grid: [3]int{1, 1, 1}, Warps: 4, Stages: 1},
		[]shapes.Shape{shape}, []compute.Value{in})
	if err != nil {
		return err
	}
	if err := main.Return(out, nil); err != nil {
		return err
	}
	e, err := builder.Compile()
	if err != nil {
		return err
	}
	defer e.Finalize()
	data := make([]float32, 128)
	for i := range data {
		data[i] = float32(i)
	}
	buffer, err := b.BufferFromFlatData(0, data, shape)
	if err != nil {
		return err
	}
	got, err := e.Execute([]compute.Buffer{buffer}, []bool{false}, 0)
	if err != nil {
		return err
	}
	if err := got[0].ToFlatData(data); err != nil {
		return err
	}
	for i, v := range data {
		if v != float32(2*i) {
			return fmt.Errorf("%w: a kernel that doubles %d gives %v", errNoKernels, i, v)
		}
	}
	buffer.Finalize()
	return got[0].Finalize()
}

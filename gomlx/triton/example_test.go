package triton_test

import (
	"fmt"

	"github.com/randfeat/randfeat/gomlx/triton"
)

// A kernel that doubles numbers: two programs of four each, run on the CPU.
func ExampleKernel_Run() {
	k := triton.New("double")
	x, y := k.Arg("x", triton.F32), k.Arg("y", triton.F32)
	at := k.Program(0).Mul(k.Int(4)).Add(k.Range(4))
	k.Store(y.At(at), k.Load(x.At(at)).Times(2))

	in := triton.NewBuffer(triton.F32, 8).Fill([]float64{1, 2, 3, 4, 5, 6, 7, 8})
	out := triton.NewBuffer(triton.F32, 8)
	if err := k.Run([3]int{2, 1, 1}, in, out); err != nil {
		fmt.Println(err)
	}
	fmt.Println(out.Data)
	// Output: [2 4 6 8 10 12 14 16]
}

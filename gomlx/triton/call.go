package triton

import (
	"fmt"
	"strings"
)

// Target is the custom call by which XLA's GPU plugin compiles and launches Triton IR.
const Target = "__gpu$xla.gpu.triton"

// Launch is a kernel with its grid of programs, the warps (of 32 threads) that run one program, and the stages of
// its pipeline of loads.
type Launch struct {
	Kernel        *Kernel
	Grid          [3]int
	Warps, Stages int
}

// Config is the backend configuration of the call: the text of an MLIR dictionary. It belongs to a call of API version
// 2 as its attribute backend_config. The attribute mhlo.backend_config with API version 4 crashes XLA's plugin.
func (l Launch) Config() string {
	ir := strings.NewReplacer("\\", "\\\\", "\"", "\\22", "\n", "\\0A").Replace(l.Kernel.Text())
	return fmt.Sprintf(`{name = "%s", ir = "%s", num_stages = %d : i32, num_warps = %d : i32, `+
		`grid_x = %d : i32, grid_y = %d : i32, grid_z = %d : i32, debug = false}`,
		l.Kernel.Name, ir, l.Stages, l.Warps, l.Grid[0], l.Grid[1], l.Grid[2])
}

package fused

import (
	"encoding/json"
	"os"
	"fmt"
	"testing"

	"github.com/randfeat/randfeat/gomlx/triton"
)

func TestDump(t *testing.T) {
	dir := os.Getenv("DUMP")
	if dir == "" {
		t.Skip()
	}
	var all []map[string]any
	for _, c := range []struct{ L, D, E, M int; half, causal bool }{
		{16384, 64, 64, 128, true, false}, {16384, 64, 64, 128, true, true},
		{16384, 64, 64, 128, false, false}, {16384, 64, 64, 128, false, true},
		{1000, 80, 256, 512, true, false}, {1000, 80, 256, 512, true, true},
	} {
		s := Shape{Batch: 1, Heads: 8, KVHeads: 8, Queries: c.L, Keys: c.L, Dim: c.D, Value: c.E, Features: c.M, Maps: 1, Half: c.half, Causal: c.causal, Products: triton.TF32}
		for _, p := range []Program{s.Forward(s.Sizes()), s.Backward(s.Sizes())} {
			for _, st := range p.Steps {
				n := fmt.Sprintf("%s_%d_%d_%v_%v", st.Kernel.Name, c.L, c.M, c.half, c.causal)
				os.WriteFile(dir+"/"+n+".ttir", []byte(st.Kernel.Text()), 0o644)
				all = append(all, map[string]any{"name": n, "warps": st.Warps, "stages": st.Stages})
			}
		}
	}
	x, _ := json.Marshal(all)
	os.WriteFile(dir+"/all.json", x, 0o644)
}

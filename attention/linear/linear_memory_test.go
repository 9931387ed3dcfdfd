package linear

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
)

// All that Forward allocates is scratch of its workers, which does not depend on the length: far below 64 MiB for 8
// heads of 256 features on 8 threads. Prefix sums of every position would take L·m·d numbers.
func TestLinearMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("memory does not depend on the kernels: run without -short")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const d, m, heads = 64, 256, 8
	for _, c := range []struct {
		causal        bool
		heads, window int // heads in parallel, or segments
	}{{false, heads, 0}, {false, 1, 0}, {true, heads, 0}, {true, 1, 0}, {true, 1, 64}} {
		var used []uint64
		for _, length := range []int{2 * maxSegment, 6 * maxSegment} {
			// The heads share their inputs.
			q, out := normals[float32](1, 1, length, d, 1, 1), attention.NewSeq[float32](1, c.heads, length, d)
			q.Heads, q.StrideH = c.heads, 0
			a := linear[float32](t, family.Positive{}, d, m, c.causal)
			a.Window = c.window
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := a.Forward(out, q, q, q)
			runtime.ReadMemStats(&after)
			must(t, err)
			used = append(used, after.TotalAlloc-before.TotalAlloc)
		}
		label := fmt.Sprintf("%+v", c)
		t.Logf("%s: %.1f and %.1f MiB", label, float64(used[0])/(1<<20), float64(used[1])/(1<<20))
		if used[1] > 32<<20 {
			t.Errorf("%s: %d bytes", label, used[1])
		}
		if c.heads > 1 && used[1] > used[0]+used[0]/4 {
			t.Errorf("%s: three times the length takes %d bytes instead of %d", label, used[1], used[0])
		}
	}
}

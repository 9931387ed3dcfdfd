package tabular

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
)

// peak is the largest heap that a fit of all rows with given settings adds.
func peak(t *testing.T, rows int, memory int64) int64 {
	t.Helper()
	var content strings.Builder
	content.WriteString("a,b,c,y\n")
	for i := range rows {
		x := math.Sin(float64(i)) * 3
		content.WriteString(strings.Join([]string{short(x), short(math.Cos(float64(3 * i))), short(float64(i % 97)),
			short(x * x)}, ",") + "\n")
	}
	src, err := text.OpenBytes("t.csv", []byte(content.String()), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	if memory > 0 { // as the command does
		old := debug.SetMemoryLimit(int64(before.HeapInuse) + memory/10*8)
		defer debug.SetMemoryLimit(old)
	}
	var top uint64
	var watch sync.WaitGroup
	stop := make(chan struct{})
	watch.Go(func() {
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			top = max(top, now.HeapInuse)
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	_, r, err := Fit(context.Background(), src, Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Map: MapExact,
		Scaling: scalingStandard, Kernel: "gaussian", Bandwidth: 1, Lambda: 0.01, Folds: 1, Memory: memory})
	close(stop)
	watch.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows, at most %d MiB: %d MiB, %v", rows, memory>>20, (top-before.HeapInuse)>>20, r.Notes)
	return int64(top - before.HeapInuse)
}

// A fit keeps to its memory, and would not without a bound.
func TestMemory(t *testing.T) {
	const rows, bound = 6500, leastMemory
	if free := peak(t, rows, 0); free <= bound {
		t.Errorf("without a bound %d bytes: the test needs more rows", free)
	}
	if kept := peak(t, rows, bound); kept > bound {
		t.Errorf("%d bytes, want at most %d", kept, bound)
	}
	if _, err := (Options{Memory: 1 << 20}).withDefaults(); err == nil {
		t.Error("1 MiB is accepted")
	}
	for _, memory := range []int64{leastMemory, 1 << 28, 1 << 30, 1 << 33} {
		j := &job{o: Options{Memory: memory, Folds: 5, Sample: defaultSample}}
		f := int64(j.mostFeaturesFor())
		if used := 8*13*f*f + 16*defaultSample*f; used > memory || f < 2 {
			t.Errorf("%d features take %d bytes of %d", f, used, memory)
		}
		n := int64(j.trialRows())
		if 40*n*n > memory {
			t.Errorf("trials of %d rows", n)
		}
	}
}

package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// scaling compares one thread with several on the same batch, from microseconds of work to tens of milliseconds.
func scaling(w io.Writer, threads, rounds int) {
	fmt.Fprintf(w, "### positive map, d = 64, m = 256, float32: one thread against %d\n\n| rows | one thread, ms | %d threads, ms | speed-up |\n|---:|---:|---:|---:|\n", threads, threads)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	mp := givenMap(kernel.Kernel{Kind: kernel.Softmax}, family.Positive{}, random[float32](256, 64, 1, 2))
	for _, n := range []int{1, 16, 128, 512, 2048, 8192, 32768} {
		x, dst := random[float32](n, 64, 0.1, 1), dense.New[float32](n, 256)
		var ws randfeat.Workspace[float32]
		repeat := max(1, 4096/n) // short calls are timed in groups
		median := func(procs int, times *[]float64) {
			runtime.GOMAXPROCS(procs)
			check(mp.Queries(dst, nil, x, &ws))
			start := time.Now()
			for range repeat {
				check(mp.Queries(dst, nil, x, &ws))
			}
			*times = append(*times, time.Since(start).Seconds()/float64(repeat))
		}
		var one, many []float64
		for range rounds {
			median(1, &one)
			median(threads, &many)
		}
		slices.Sort(one)
		slices.Sort(many)
		a, b := one[len(one)/2], many[len(many)/2]
		fmt.Fprintf(w, "| %d | %.4f | %.4f | %.2f |\n", n, a*1e3, b*1e3, a/b)
	}
	fmt.Fprintln(w)
}

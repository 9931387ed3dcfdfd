package main

import (
	"sync"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// measureMachine runs multiply-add loops and the triad on all threads and takes the best of several runs.
func measureMachine(threads int) limits {
	return limits{gflops32: peak[float32](threads), gflops64: peak[float64](threads), bandwidth: bandwidth(threads)}
}

// together runs f on n goroutines and returns the sum of their results per second of the whole.
func together(n int, f func(i int) float64) float64 {
	results := make([]float64, n)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		wg.Go(func() { results[i] = f(i) })
	}
	wg.Wait()
	elapsed := time.Since(start).Seconds()
	var sum float64
	for _, r := range results {
		sum += r
	}
	return sum / elapsed
}

func peak[T dense.Float](threads int) float64 {
	tab := kern.Best[T]()
	best := 0.0
	for range 5 {
		best = max(best, together(threads, func(int) float64 {
			var ops int
			for range 200 {
				ops += kern.Peak(tab, 50_000)
			}
			return float64(ops)
		}))
	}
	return best / 1e9
}

func bandwidth(threads int) float64 {
	const n = 1 << 22 // 96 MiB for three arrays
	arrays := make([][3][]float64, threads)
	for i := range arrays {
		for j := range 3 {
			arrays[i][j] = make([]float64, n)
			for k := range arrays[i][j] {
				arrays[i][j][k] = 1
			}
		}
	}
	best := 0.0
	for range 5 {
		best = max(best, together(threads, func(i int) float64 {
			return float64(kern.Triad(arrays[i][0], arrays[i][1], arrays[i][2], 1.5))
		}))
	}
	return best / 1e9
}

package main

import (
	"runtime"
	"sync"
)

// threads are the claims of the calls under way that limit their threads.
var threads struct {
	mu     sync.Mutex
	all    int // GOMAXPROCS without claims; set by the first
	calls  int
	wanted int // the sum of the claims
}

// useThreads limits a call to n threads until the function that it returns is called; 0 means no limit. The limit is
// GOMAXPROCS, which belongs to the process: calls at the same time together have the sum of what they claim.
func useThreads(n int) (done func()) {
	if n <= 0 {
		return func() {}
	}
	claimThreads(n, 1)
	return func() { claimThreads(-n, -1) }
}

func claimThreads(n, calls int) {
	threads.mu.Lock()
	defer threads.mu.Unlock()
	if threads.calls == 0 {
		threads.all = runtime.GOMAXPROCS(0)
	}
	threads.calls += calls
	threads.wanted += n
	now := threads.all
	if threads.calls > 0 {
		now = min(now, threads.wanted)
	}
	if now != runtime.GOMAXPROCS(0) { // setting it stops all goroutines for a moment
		runtime.GOMAXPROCS(now)
	}
}

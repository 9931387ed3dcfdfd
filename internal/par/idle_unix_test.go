//go:build unix

package par

import (
	"math"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Workers look around for linger after a call, and then cost nothing: pauses between calls take no time of any core.
// The limit is CPU time, not wall time, which other processes would lengthen.
func TestIdleWorkersSleep(t *testing.T) {
	if testing.Short() {
		t.Skip("time of cores, which the race detector multiplies")
	}
	const workers, calls, pause = 8, 20, 10 * time.Millisecond
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	var g Group
	g.Do(100, workers, nopJob{})
	// Each of the workers, and the caller once, may look around; as much again is for waking and ending goroutines. Who
	// would stay awake takes all cores that there are for all pauses.
	const most = 2 * calls * workers * linger
	// Other work in the process can only add time, so the smallest of some rounds counts.
	least := time.Duration(math.MaxInt64)
	for round := 0; round < 20 && least > most; round++ {
		before := cpuTime()
		for range calls {
			g.Do(100, workers, nopJob{})
			time.Sleep(pause)
		}
		least = min(least, cpuTime()-before)
	}
	if least > most {
		t.Errorf("%v of time of cores in %d calls and pauses, want at most %v", least, calls, most)
	}
}

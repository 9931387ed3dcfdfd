package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// sleep wakes up about 60 µs late.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal may end it early
}

// runDelay returns how long the threads of a process have waited on a run queue for a processor, or 0 if that is
// unknown.
func runDelay(pid int) time.Duration {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	var sum time.Duration
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		var ran, waited int64
		if err != nil {
			continue // the thread has ended
		}
		if n, _ := fmt.Sscan(string(b), &ran, &waited); n == 2 {
			sum += time.Duration(waited)
		}
	}
	return sum
}

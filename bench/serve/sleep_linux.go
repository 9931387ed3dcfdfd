package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// sleep is late by some 60 µs.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal may end it early
}

// runDelay is how long the threads of a process have waited on a run queue for a processor; 0 where that is not known.
func runDelay(pid int) time.Duration {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	var sum time.Duration
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		var ran, waited int64
		if err != nil {
			continue // a thread that has ended
		}
		if n, _ := fmt.Sscan(string(b), &ran, &waited); n == 2 {
			sum += time.Duration(waited)
		}
	}
	return sum
}

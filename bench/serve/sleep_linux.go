package main

import (
	"syscall"
	"time"
)

// sleep is late by some 60 µs.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal may end it early
}

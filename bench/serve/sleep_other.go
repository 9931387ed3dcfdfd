//go:build !linux

package main

import "time"

func sleep(d time.Duration) { time.Sleep(d) }

// runDelay is not known.
func runDelay(int) time.Duration { return 0 }

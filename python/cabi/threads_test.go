package main

import (
	"runtime"
	"testing"
)

// Calls at the same time have the sum of their threads, and all threads come back at the end.
func TestUseThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	at := func(what string, want int) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%s: %d threads, want %d", what, got, want)
		}
	}
	one := useThreads(2)
	at("one call of 2", 2)
	two := useThreads(3)
	at("and one of 3", 5)
	three := useThreads(30)
	at("and one of 30", 8)
	three()
	one()
	at("the call of 3 alone", 3)
	all := useThreads(0)
	at("a call without a limit", 3)
	all()
	two()
	at("no call", 8)
}

package stattest

import (
	"flag"
	"testing"
)

// The flag exists in tests alone: programs that use this package have flags of their own.
var full = func() *bool {
	if !testing.Testing() {
		return new(bool)
	}
	return flag.Bool("full", false, "statistical tests take all sizes, cases and draws: minutes instead of seconds")
}()

// Full reports whether tests run with -full. Without it a statistical test takes fewer sizes, cases or draws, and its
// mutants are farther from the truth. .ci/run runs with -full the tests that call Full, themselves or in a function of
// the same package.
func Full() bool { return *full }

// SkipRace skips a test under the race detector, which slows tests ten times: one that is long for the sake of its
// numbers, while others let the same goroutines meet.
func SkipRace(t testing.TB) {
	t.Helper()
	if race {
		t.Skip("long for the sake of numbers")
	}
}

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
// mutants are farther from the truth. .ci/run runs with -full the packages whose tests call Full.
func Full() bool { return *full }

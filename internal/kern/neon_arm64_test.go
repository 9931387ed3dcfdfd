//go:build arm64 && !noasm

package kern

import "testing"

// The suites over Available test the NEON table with all others. On another machine run them with arm64_test.sh.
//
// The default on this architecture is NEON.
func TestNEONIsFirst(t *testing.T) {
	if a, b := Available[float32]()[0].Name, Available[float64]()[0].Name; a != "neon" || b != "neon" {
		t.Errorf("first tables are %s and %s", a, b)
	}
}

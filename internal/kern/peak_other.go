//go:build noasm || !amd64

package kern

// peak knows no table here: Peak falls back on plain Go.
func peak(string, bool, int) int { return 0 }

package localfile

import (
	"os"
	"path/filepath"
)

// Same reports whether two paths name the same file, through hard links, symbolic links or different spellings. If
// a file does not exist yet, the absolute paths are compared. Commands call it before they write, so that an output
// never replaces an input. Pipes and devices are never the same: writing to them replaces nothing.
func Same(a, b string) bool {
	if Scheme(a) != "" || Scheme(b) != "" {
		return a == b
	}
	if x, err := os.Stat(a); err == nil {
		y, err := os.Stat(b)
		return err == nil && x.Mode().IsRegular() && os.SameFile(x, y)
	}
	x, errX := filepath.Abs(a)
	y, errY := filepath.Abs(b)
	return errX == nil && errY == nil && x == y
}

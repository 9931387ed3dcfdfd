package data

import (
	"os"
	"path/filepath"
)

// SameFile reports whether two paths name one file: links of both kinds and other spellings of a path count, and where
// there is no file yet the absolute paths do. Commands ask it before they write, so that an output never replaces an
// input. Pipes and devices are never the same: writing to one replaces nothing.
func SameFile(a, b string) bool {
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

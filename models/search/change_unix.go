//go:build linux || darwin

package search

import "golang.org/x/sys/unix"

// changed is when the file system last changed a file, 0 if it does not say.
func changed(path string) int64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Ctim.Nano()
}

package localfile

import (
	"os"
	"syscall"
)

// LeadsNowhere reports whether f is /dev/null opened for reading and writing, as the Go runtime opens it in place of a
// stdout that was closed when the process began. A shell's >/dev/null opens it for
// writing only, so that is a wish and not a mistake.
func LeadsNowhere(f *os.File) bool {
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, null) {
		return false
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFL, 0)
	return errno == 0 && flags&syscall.O_ACCMODE == syscall.O_RDWR
}

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package localfile

import (
	"os"
	"syscall"
)

// haveLocks: the system has locks that end with the process, and renames and removes open files.
const haveLocks = true

// lock waits for the lock of f; it ends when f is closed or the process dies. File systems may have none.
func lock(f *os.File) { flock(f, syscall.LOCK_EX) }

// tryLock reports whether f is locked now, and by no one else.
func tryLock(f *os.File) bool { return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil }

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

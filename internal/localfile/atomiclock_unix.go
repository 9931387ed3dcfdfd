//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package localfile

import (
	"os"
	"syscall"
)

// haveLocks says that the system has locks that end with the process, and that open files can be renamed and
// removed.
const haveLocks = true

// lock waits for the lock of f. The lock ends when f is closed or the process dies. Some file systems have no
// locks, so errors are ignored.
func lock(f *os.File) { flock(f, syscall.LOCK_EX) }

// tryLock locks f if nobody else has, and reports whether it did.
func tryLock(f *os.File) bool { return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil }

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

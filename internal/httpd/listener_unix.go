//go:build unix

package httpd

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// endIfEmpty stops listening if no connection waits to be accepted, and reports whether there was none.
func endIfEmpty(c syscall.RawConn) (empty bool) {
	_ = c.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(p, 0); err == nil && n == 0 {
			empty = true
			_ = unix.Shutdown(int(fd), unix.SHUT_RD) // only Linux knows this; the caller closes the socket anyway
		}
	})
	return empty
}

package httpd

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dropSYN is a packet filter (classic BPF, on data that begin with the TCP header) that drops the first packet of a new
// connection. Those that finish a handshake pass. Accepted connections inherit the filter, which does nothing there.
var dropSYN = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},           // flags
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},        // SYN, ACK
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x02, Jf: 1}, // SYN alone?
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},                          // yes: drop
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},                 // no: pass
}

// holdNew makes the system establish no new connections on a listener. It reports whether that worked.
func holdNew(c syscall.RawConn) bool {
	var err error
	failed := c.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(dropSYN)), Filter: &dropSYN[0]})
	})
	return failed == nil && err == nil
}

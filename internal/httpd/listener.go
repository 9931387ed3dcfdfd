package httpd

import (
	"net"
	"syscall"
	"time"
)

// Times of closeWhenEmpty.
const (
	handshake = 50 * time.Millisecond // for clients whose connection is being established
	pause     = 200 * time.Microsecond
	mostWait  = time.Second
)

// closeWhenEmpty closes a listener at a moment when nobody waits to be accepted, because the system resets connections
// that it has established and that were not accepted. Where it can (holdNew), the system establishes no new ones
// meanwhile: clients that connect wait, and are refused when the listener has closed. Elsewhere a client that connects
// within the microsecond between look and close is reset.
func closeWhenEmpty(ln net.Listener) {
	defer ln.Close()
	c, ok := ln.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	if holdNew(raw) {
		time.Sleep(handshake)
	}
	for end := time.Now().Add(mostWait); !endIfEmpty(raw) && time.Now().Before(end); {
		time.Sleep(pause)
	}
}

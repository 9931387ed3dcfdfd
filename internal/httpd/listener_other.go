//go:build !linux

package httpd

import "syscall"

func holdNew(syscall.RawConn) bool { return false }

//go:build !unix

package main

import "os"

// notifyReload does nothing: there is no SIGHUP here.
func notifyReload(chan<- os.Signal) {}

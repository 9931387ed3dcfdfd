//go:build !unix

package serving

import "os"

// notifyReload does nothing: there is no SIGHUP on this system.
func notifyReload(chan<- os.Signal) {}

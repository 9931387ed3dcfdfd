//go:build !unix

package serving

import "os"

// notifyReload does nothing: there is no SIGHUP here.
func notifyReload(chan<- os.Signal) {}

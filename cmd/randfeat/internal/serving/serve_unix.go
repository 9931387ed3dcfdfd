//go:build unix

package serving

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReload delivers the signal that means: read the model file again.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }

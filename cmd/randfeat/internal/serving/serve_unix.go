//go:build unix

package serving

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReload asks for the signals that mean: read the model file again.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }

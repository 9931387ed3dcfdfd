// Command randfeat fits, evaluates and serves kernel machines, computes attention in linear time, and random features
// with the error to expect from them.
//
// Results go to stdout, everything else to stderr. The exit status is 0 when the work is done, 1 when it failed or
// a check found a miss, 2 when the command was misused. With --json every command prints one object per line; the
// objects are the exported structs of this package's source.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

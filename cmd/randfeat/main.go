// Command randfeat fits, evaluates and serves kernel machines, computes attention in linear time, and computes
// random features with the error to expect from them.
//
// Results go to stdout, everything else to stderr. The exit status is 0 when the work is done, 1 when it failed
// or a check found a miss, 2 when the command line is wrong, 3 when watch --fail found a change, 130 after an
// interrupt. With --json every command prints one object per line; the objects are the exported structs of the packages
// in internal.
//
// main parses the command line and reports errors. The groups of commands (internal/advising, attend, catalog,
// kernels, samples, serving, tables) parse their flags, call the library and print. They share flags
// (internal/mapflags, qkv, tableflags) and the environment (internal/cli); imports go in this order only.
//
// A command never calls os.Exit and never writes to os.Stdout: it returns an error and writes to the [cli.Env],
// so tests run whole command lines in one process.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	code := run(ctx, cli.ProcessEnv(), os.Args[1:])
	stop()
	os.Exit(code)
}

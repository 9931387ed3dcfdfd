// Package cli is the environment of every command of randfeat. It has
//
//   - streams and the flag --json (env.go, output.go, stdout.go),
//   - errors with their exit statuses (env.go) and interrupts (interrupt.go),
//   - files that appear complete or not at all (outputs.go),
//   - flags, flag groups in help, and completion (flags.go, flaggroups.go, completion.go),
//   - limits on sizes, checked before anything is allocated (limits.go, memory_*.go),
//   - progress on a terminal (progress.go) and versions (version.go).
//
// A command gets an [Env], returns errors marked by [Misused] or not, and wraps its work in [Do].
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitMisuse      = 2
	ExitChanged     = 3   // watch --fail found a change
	ExitInterrupted = 130 // what a shell reports for a process that SIGINT ended
)

// Env is the environment of one command line: where to read and write, and the flags common to all commands. It
// belongs to the goroutine of the command; Progress and Note must not be called from others.
type Env struct {
	Stdin  io.Reader
	Stdout *bufio.Writer // buffered; run flushes it and checks the error
	Stderr io.Writer
	JSON   bool
	lost   bool            // what is written to stdout leads nowhere
	ctx    context.Context // ends with the command line; nil before Until
	// OnObject, if set, receives every object that is printed: tests check them against their schemas.
	OnObject func(v any, line []byte)
}

// NewEnv returns the environment of one command line.
func NewEnv(stdin io.Reader, stdout, stderr io.Writer) *Env {
	return &Env{Stdin: stdin, Stdout: bufio.NewWriter(stdout), Stderr: stderr}
}

// ErrMiss ends a command whose findings are already printed: exit status 1 without a message.
var ErrMiss = errors.New("a check failed")

// ErrChanged ends a command that has printed that its input changed: exit status 3 without a message.
var ErrChanged = errors.New("the rows changed")

// Failure marks errors of the work itself, exit status 1. An error that reaches run without the mark comes from
// parsing arguments, exit status 2.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }

func (f Failure) Unwrap() error { return f.Err }

// Misuse marks an error in how a command was called that is found only after parsing: exit status 2.
type Misuse struct{ Err error }

func (m Misuse) Error() string { return m.Err.Error() }

func (m Misuse) Unwrap() error { return m.Err }

// Misused returns a Misuse with a formatted message. Messages name the flag, its value, and the accepted values.
func Misused(format string, args ...any) error { return Misuse{fmt.Errorf(format, args...)} }

// Do adapts the work of a command to cobra and marks its errors as failures.
func Do(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := work(cmd, args); err != nil {
			return Failure{err}
		}
		return nil
	}
}

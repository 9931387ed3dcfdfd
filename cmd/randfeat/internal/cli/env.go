// Package cli is the environment that every command of randfeat gets: streams, the flag --json, messages, progress,
// errors with their exit statuses, files that appear complete or not at all, limits, and what completion offers.
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
	ExitDone   = 0
	ExitFailed = 1
	ExitMisuse = 2
)

// Env is what every command needs: where to read and write, and the flags common to all.
type Env struct {
	Stdin  io.Reader
	Stdout *bufio.Writer
	Stderr io.Writer
	JSON   bool
	ctx    context.Context // of the command line; nil before Until
	// onObject, if set, receives every object that is printed: tests check them against their schemas.
	OnObject func(v any, line []byte)
}

// NewEnv is the environment of one command line.
func NewEnv(stdin io.Reader, stdout, stderr io.Writer) *Env {
	return &Env{Stdin: stdin, Stdout: bufio.NewWriter(stdout), Stderr: stderr}
}

// errMiss ends a command whose findings are already printed.
var ErrMiss = errors.New("a check failed")

// Failure marks errors of the work itself. What reaches run without the mark came from the parsing of arguments.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }

func (f Failure) Unwrap() error { return f.Err }

// Misuse is an error in how a command was called, found only after parsing.
type Misuse struct{ Err error }

func (m Misuse) Error() string { return m.Err.Error() }

func (m Misuse) Unwrap() error { return m.Err }

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

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/similar"
	"github.com/randfeat/randfeat/machine"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitMisuse = 2
)

// app is what every command needs: where to read and write, and the flags common to all.
type app struct {
	stdin  io.Reader
	stdout *bufio.Writer
	stderr io.Writer
	json   bool
}

// errMiss ends a command whose findings are already printed.
var errMiss = errors.New("a check failed")

// failure marks errors of the work itself. What reaches run without the mark came from the parsing of arguments.
type failure struct{ err error }

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// misuse is an error in how a command was called, found only after parsing.
type misuse struct{ err error }

func (m misuse) Error() string { return m.err.Error() }
func (m misuse) Unwrap() error { return m.err }

func misused(format string, args ...any) error { return misuse{fmt.Errorf(format, args...)} }

// run executes the command line and returns the exit status. It is main without the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: bufio.NewWriter(stdout), stderr: stderr}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.stdout)
	root.SetErr(stderr)
	strictCompletion(root)
	cmd, err := root.ExecuteContextC(ctx)
	if flushErr := a.stdout.Flush(); err == nil && flushErr != nil {
		err = failure{fmt.Errorf("cannot write to stdout: %w", flushErr)}
	}
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errMiss) {
		return exitFailed
	}
	hint := ""
	for _, r := range remedies {
		if cmd.Flags().Lookup(r.flag) != nil && errors.Is(err, r.err) {
			hint += ", --" + r.flag
		}
	}
	if hint != "" {
		hint = " (" + hint[2:] + ")"
	}
	if errors.Is(err, fs.ErrNotExist) {
		hint = missingFile(err)
	}
	fmt.Fprintf(stderr, "randfeat: %s%s\n", errorText(err), hint)
	var failed failure
	var wrong misuse
	if errors.As(err, &failed) && !errors.As(err, &wrong) {
		return exitFailed
	}
	fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return exitMisuse
}

// remedies are the flags that may cure an error.
var remedies = []struct {
	err  error
	flag string
}{{data.ErrQuotes, "no-quotes"}, {data.ErrUnits, "unit-bytes"}, {data.ErrMissingTarget, "drop-missing-target"},
	{data.ErrNested, "skip"}, {data.ErrEncoding, "encoding"}}

// missingFile says what may have been meant by a file that is not there.
func missingFile(err error) string {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return ""
	}
	dir, name := filepath.Split(path.Path)
	entries, failed := os.ReadDir(cmp.Or(dir, "."))
	if failed != nil {
		return fmt.Sprintf(": there is no directory %s either, check the path", printableText(dir))
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if near := similar.Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %s?", printableText(filepath.Join(dir, near)))
	}
	where := dir
	if !filepath.IsAbs(dir) {
		if wd, failed := os.Getwd(); failed == nil {
			where = filepath.Join(wd, dir)
		}
	}
	return fmt.Sprintf(": check the name, the file was looked for in %s", printableText(where))
}

// do adapts the work of a command to cobra and marks its errors as failures.
func do(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := work(cmd, args); err != nil {
			return failure{err}
		}
		return nil
	}
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "randfeat",
		Short: "Random features for Gaussian and softmax kernels",
		Long: `randfeat fits kernel machines to tables and predicts with them (fit, evaluate, predict, inspect, serve), computes
attention in linear time (attend, crossover), and random feature maps φ with φ(x)·φ(y) ≈ exp(-|x-y|²/2) or exp(x·y),
Gram matrices and the error to expect (features, gram, theory, eval).

Results go to stdout, everything else to stderr.
Exit status: 0 done, 1 failed or a check missed, 2 misused.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	showVersion := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *showVersion {
			return a.version()
		}
		return cmd.Help()
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object per line")
	root.AddCommand(a.evalCommand(), a.theoryCommand(), a.familiesCommand(), a.couplingsCommand(), a.featuresCommand(),
		a.gramCommand(), a.adviseCommand(),
		a.attendCommand(), a.crossoverCommand(),
		a.fitCommand(), a.partsCommand(), a.evaluateCommand(), a.predictCommand(), a.inspectCommand(), a.serveCommand(),
		a.dataCommand(), a.exploreCommand(), a.schemaCommand(), a.versionCommand())
	return root
}

// errorText is an error without the sentinels that Go programs tell it by: the text before them says it all.
func errorText(err error) string {
	text := err.Error()
	for _, sentinel := range []error{machine.ErrSetup, machine.ErrNoRows, randfeat.ErrSpec, dense.ErrShape,
		dense.ErrNotFinite, data.ErrSchema} {
		text = strings.TrimSuffix(text, ": "+sentinel.Error())
	}
	return printableText(text)
}

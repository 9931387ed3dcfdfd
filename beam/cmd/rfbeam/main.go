// Command rfbeam fits, evaluates and applies kernel machines on Apache Beam: to tables of many files, on as many
// machines as a runner has. The model is byte-identical to that of 'randfeat parts'.
//
// Without Beam's flags it runs on prism, the runner inside this program, and needs nothing else.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/beam/flow"
	"github.com/randfeat/randfeat/internal/suggest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	// A runner starts this same program as a worker.
	if worker, err := flow.Worker(ctx, os.Args[1:]); worker {
		if err != nil {
			fmt.Fprintln(os.Stderr, "rfbeam:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// misuse is an error in how a command was called.
type misuse struct{ error }

func misused(format string, args ...any) error { return misuse{fmt.Errorf(format, args...)} }

// failure marks errors of the work itself. Other errors come from parsing the arguments and count as misuse.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// do adapts the work of a command to cobra.
func do(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := work(cmd, args)
		var wrong misuse
		if err == nil || errors.As(err, &wrong) {
			return err
		}
		return failure{err}
	}
}

// errInterrupted ends a command whose context ended.
var errInterrupted = errors.New("interrupted")

// run is main without the process, for tests. Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := bufio.NewWriter(stdout) // it remembers its first error, which commands need not check
	root := command(out, stderr)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if unwritten := out.Flush(); unwritten != nil && (err == nil || errors.Is(err, unwritten)) {
		err = failure{fmt.Errorf("cannot write to stdout: %w", unwritten)}
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "rfbeam: %v\n", err)
	if errors.Is(err, errInterrupted) {
		return 130
	}
	var failed failure
	if errors.As(err, &failed) {
		return 1
	}
	fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return 2
}

// runnerFlags are the Beam flags that help shows, with texts that fit rfbeam. All others work too.
var runnerFlags = []struct{ name, usage string }{
	{"runner", "prism runs inside this program, universal on a job server (default prism)"},
	{"endpoint", "`address` of the job server, such as localhost:8099"},
	{"environment_type", "how the runner starts workers: PROCESS, DOCKER, EXTERNAL or LOOPBACK"},
	{"environment_config", "PROCESS: `JSON` with the command of a worker (default: this program); DOCKER: image; " +
		"EXTERNAL: address"},
	{"parallelism", "largest number of parallel tasks on Flink; -1 leaves it to Flink"},
}

func command(stdout, stderr io.Writer) *cobra.Command {
	var verbose bool
	root := &cobra.Command{
		Use:   "rfbeam",
		Short: "Kernel machines on Apache Beam",
		Long: `rfbeam fits, evaluates and applies kernel machines to tables of many files on Apache Beam. The model is byte-identical to
that of one machine ('randfeat parts fit') on every runner, with any number of workers, even if some of them are lost.

Tables are files, folders or quoted patterns ('part-*.parquet'), also in buckets (s3://bucket/folder and
gs://bucket/folder); so are models and predictions. All workers must see them under the same paths: in a bucket, or in a
file system that every worker mounts.

Without Beam's flags it runs inside this program (prism). On Flink, Spark and other runners with a job server:
  rfbeam fit … --runner=universal --endpoint=HOST:8099 --environment_type=PROCESS`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          suggest.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			if !beam.Initialized() {
				flag.CommandLine.Parse(nil) // cobra has set the values, but Beam insists on a parsed flag set
				beam.Init()
			}
			if !verbose {
				flow.Quiet()
			}
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.BoolVar(&verbose, "verbose", false, "print the log of the runner")
	flag.VisitAll(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "test.") || flags.Lookup(f.Name) != nil {
			return
		}
		flags.AddGoFlag(f)
		flags.Lookup(f.Name).Hidden = true
	})
	for _, f := range runnerFlags {
		shown := flags.Lookup(f.name)
		shown.Hidden, shown.Usage = false, f.usage
	}
	root.AddCommand(fitCommand(stdout), evaluateCommand(stdout), predictCommand(stdout))
	suggest.Flags(root)
	return root
}

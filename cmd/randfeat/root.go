package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/advising"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/attend"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/catalog"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/kernels"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/samples"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/serving"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/machine"
)

// run executes the command line and returns the exit status. It is main without the process, for tests.
func run(ctx context.Context, env *cli.Env, args []string) int {
	env.Until(ctx)
	root := command(env)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	strictCompletion(root)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		cli.RegisterCompletions(root)
	}
	cmd, err := root.ExecuteContextC(ctx)
	// Writers to stdout may return the error or drop it, as cobra does. The bufio.Writer remembers its first
	// error, so Flush reports it in any case. It replaces err only if err is the same failure or a mere miss.
	if failed := env.Stdout.Flush(); failed != nil &&
		(err == nil || errors.Is(err, failed) || errors.Is(err, cli.ErrMiss) || errors.Is(err, cli.ErrChanged)) {
		err = cli.Failure{Err: fmt.Errorf("cannot write to stdout: %w", failed)}
	}
	if err == nil {
		return cli.ExitDone
	}
	switch {
	case errors.Is(err, cli.ErrMiss):
		return cli.ExitFailed
	case errors.Is(err, cli.ErrChanged):
		return cli.ExitChanged
	}
	// Name the flag that avoids this error, if the command has it. The library does not know flags.
	has := func(flag string) bool { return cmd.Flags().Lookup(flag) != nil }
	hints := tables.FlagHints(err.Error(), has)
	for _, r := range remedies {
		if has(r.flag) && errors.Is(err, r.err) && !slices.Contains(hints, "--"+r.flag) {
			hints = append(hints, "--"+r.flag)
		}
	}
	hint := ""
	if len(hints) > 0 {
		hint = " (" + strings.Join(hints, ", ") + ")"
	}
	text := errorText(err)
	text = strings.ReplaceAll(text, context.Canceled.Error(), cli.ErrInterrupted.Error())
	if errors.Is(err, fs.ErrNotExist) {
		hint = ""
		text = missingFile(err, text)
	}
	fmt.Fprintf(env.Stderr, "randfeat: %s%s\n", text, hint)
	var failed cli.Failure
	var wrong cli.Misuse
	if errors.Is(err, cli.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return cli.ExitInterrupted
	}
	// Failures of the work exit with 1, without usage. Everything else is a wrong command line, also if cobra
	// found it.
	if errors.As(err, &failed) && !errors.As(err, &wrong) {
		return cli.ExitFailed
	}
	fmt.Fprintf(env.Stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return cli.ExitMisuse
}

// remedies maps errors of package data to the flag that may avoid them.
var remedies = []struct {
	err  error
	flag string
}{{text.ErrQuotes, "no-quotes"}, {text.ErrUnits, "unit-bytes"}, {data.ErrMissingTarget, "drop-missing-target"},
	{data.ErrNested, "skip"}, {data.ErrEncoding, "encoding"}}

// missingFile replaces the operating system's words in the text of an error about a file that does not exist: it
// suggests a file with a similar name, or says where the file was looked for.
func missingFile(err error, text string) string {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return text
	}
	dir, name := filepath.Split(filepath.Clean(path.Path))
	var says string
	if entries, failed := os.ReadDir(cmp.Or(dir, ".")); failed != nil {
		says = fmt.Sprintf("%s does not exist, there is no directory %s either", path.Path, dir)
	} else if near := nearFile(name, entries); near != "" {
		says = fmt.Sprintf("%s does not exist, did you mean %s?", path.Path, filepath.Join(dir, near))
	} else {
		where, failed := filepath.Abs(dir)
		if failed != nil {
			where = dir
		}
		says = fmt.Sprintf("%s does not exist in %s", name, where)
	}
	return strings.Replace(text, cli.PrintableText(path.Error()), cli.PrintableText(says), 1)
}

// nearFile returns the entry of a folder whose name was probably meant, or "". Extensions are equal by nature, so they
// do not make names similar.
func nearFile(name string, entries []fs.DirEntry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	near := similar.Nearest(name, names)
	stem := func(s string) string { return strings.TrimSuffix(s, filepath.Ext(s)) }
	if 5*similar.Distance(stem(name), stem(near)) > 2*len(stem(name)) {
		return ""
	}
	return near
}

// Help lists the commands of a group in the order of use, not alphabetically.
func init() { cobra.EnableCommandSorting = false }

// command builds the whole command tree. It builds a new one for each command line, because flags keep their
// values.
func command(env *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "randfeat",
		Short: "Kernel machines, attention and random features",
		Long: `randfeat fits kernel machines to tables, computes attention within a given error, and finds the random features that suit
your data.

Results go to stdout, everything else to stderr. The exit status is 0 if the work is done, 1 if it failed or a check
missed, 2 if the command line is wrong, and 130 after an interrupt (Ctrl-C). If the reader of a pipe ends, randfeat ends
silently by SIGPIPE (shells show 141).`,
		Example: `  randfeat fit --demo -o model.rf      # a model from a table, here a generated one
  randfeat attend --demo               # attention: error against cost of all methods
  randfeat advise --demo               # the best random features for given rows`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          suggest.NoArgs,
	}
	showVersion := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *showVersion {
			return printVersion(env)
		}
		return cmd.Help()
	}
	root.PersistentFlags().BoolVar(&env.JSON, "json", false, "print one JSON object per line")
	attention := attend.AttendCommand(env)
	attention.AddCommand(attend.CrossoverCommand(env))
	crossover := attend.CrossoverCommand(env)
	crossover.Hidden = true // kept as an alias for attend crossover
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Models from tables:", []*cobra.Command{tables.FitCommand(env), tables.EvaluateCommand(env),
			tables.PredictCommand(env), serving.ServeCommand(env), tables.WatchCommand(env), tables.ExplainCommand(env),
			tables.CompareCommand(env), tables.InspectCommand(env), tables.PartsCommand(env)}},
		{"Attention and softmax:", []*cobra.Command{attention, crossover, samples.SampleCommand(env)}},
		{"Random features:", []*cobra.Command{advising.AdviseCommand(env), kernels.FeaturesCommand(env),
			kernels.GramCommand(env), catalog.FamiliesCommand(env), catalog.CouplingsCommand(env)}},
		{"Theory:", []*cobra.Command{serving.ExploreCommand(env), catalog.TheoryCommand(env),
			catalog.EvalCommand(env)}},
		{"Other commands:", []*cobra.Command{tables.DataCommand(env), schemaCommand(env), versionCommand(env)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.SetHelpCommandGroupID("Other commands:")
	root.SetCompletionCommandGroupID("Other commands:")
	addDocsCommand(root)
	// After all commands have been added: it wraps the flag errors of each.
	suggest.Flags(root)
	return root
}

// errorText removes the sentinels at the end of an error. Go programs test for them; for people the text before
// says it all.
func errorText(err error) string {
	text := err.Error()
	for _, sentinel := range []error{machine.ErrSetup, machine.ErrNoRows, randfeat.ErrSpec, dense.ErrShape,
		dense.ErrNotFinite, data.ErrSchema} {
		text = strings.TrimSuffix(text, ": "+sentinel.Error())
	}
	return cli.PrintableText(text)
}

// strictCompletion makes cobra's completion command refuse an unknown shell, instead of printing its help and
// succeeding. The output of root must be set before, because completion keeps it.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

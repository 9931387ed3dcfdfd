package tables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/parts"
	"github.com/randfeat/randfeat/machine/tabular"
)

// PartsRun is the object of parts init --json and parts status --json.
type PartsRun struct {
	Folder string `json:"folder"` // folder of the run
	Run    string `json:"run"`    // digest of the run
	Files  int    `json:"files"`  // files of the table
	Units  int    `json:"units"`  // pieces of the files
	Leaves int    `json:"leaves"` // units of work for workers: at most 512 groups of units
	// Leaves that no part has, by step; an empty list means that all exist.
	Missing map[string][]parts.Span `json:"missing,omitempty"`
	Plan    bool                    `json:"plan,omitempty"` // the choices have been made
}

// PartsFile is the object of parts learn, sum and evaluate --json: the file of a worker.
type PartsFile struct {
	Step    string     `json:"step"`           // learn, sum or evaluate
	File    string     `json:"file,omitempty"` // empty: there was nothing to do
	Leaves  parts.Span `json:"leaves"`         // leaves that the parts cover
	Rows    int64      `json:"rows"`
	Bytes   int64      `json:"bytes"` // size of the file
	Parts   int        `json:"parts"` // parts in the file
	Seconds float64    `json:"seconds"`
}

// PartsPlan is the object of parts choose --json.
type PartsPlan struct {
	Rows    int64            `json:"rows"`    // rows that the model is fitted to
	Sampled int              `json:"sampled"` // rows on which choices were tried
	Held    int              `json:"held"`    // rows held out for scores
	Kind    machine.Kind     `json:"kind"`
	Choices []tabular.Choice `json:"choices"`
	Notes   []string         `json:"notes,omitempty"` // remarks on the choices
}

// partsFlags are the flags of the parts commands.
type partsFlags struct {
	fit    fitFlags
	held   int
	worker string
}

func PartsCommand(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parts",
		Short: "Fit a model to many files in steps that processes or machines share",
		Long: `Fit a model to a table of many files in steps. Any number of processes can share a step, on one machine or on many
machines that see the same folder. The model is byte-identical for any number of processes, and equals that of 'randfeat
parts fit', which runs all steps in one process. Processors of different kinds may round the last bits differently.

  init      make the folder RUN: list the files, cut them into pieces, record the options
  learn     learn the columns and draw a sample of the rows       shared: --worker I/N
  choose    choose scaling, bandwidth, λ and features from the sample
  sum       sum the features of the rows                          shared: --worker I/N
  finish    solve for the model and score it on held-out rows
  evaluate  evaluate a model on the files of a run                shared: --worker I/N
  score     merge the results of evaluate into scores
  status    show which parts exist and which are missing

A step writes its file only when the step is complete, so any step can be repeated. 'finish' refuses parts that belong
to other files, options or choices, and parts that are missing or duplicated; the message names the file.

Unlike 'randfeat fit', parts has no exact kernel, no logistic regression and no weights, groups or times of rows, since
these need all rows in one place. Its scores come from held-out rows instead of cross-validation.`,
		Args: suggest.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(partsInit(env), partsStep(env, "learn", "Learn the columns and draw a sample of the rows"),
		partsChoose(env), partsStep(env, "sum", "Sum the features of the rows"), partsFinish(env), partsFit(env),
		partsEvaluate(env), partsScore(env), partsStatus(env))
	return cmd
}

// notByParts lists flags of fit that parts refuses, with the reason: they need all rows in one place, or one
// process.
var notByParts = map[string]string{"checkpoint": "a step that was interrupted is repeated",
	"checkpoint-every": "a step that was interrupted is repeated", "demo": "name files", "save-data": "name files",
	"class-weight": "it needs 'randfeat fit'", "weight": "it needs 'randfeat fit'", "group": "it needs 'randfeat fit'",
	"time": "it needs 'randfeat fit'", "horizon": "it needs 'randfeat fit'",
	"keep": "it needs 'randfeat fit'", "loss": "exact kernels need 'randfeat fit'"}

// addFit adds the flags of fit that parts supports, and its own.
func (f *partsFlags) addFit(cmd *cobra.Command, out bool) {
	f.fit.add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.held, "held", 0, "rows to hold out for scores, intervals and probabilities (default 4096, at most a "+
		"fifth; none with --folds 1)")
	for name := range notByParts {
		if err := flags.MarkHidden(name); err != nil {
			panic(err) // a name that fit does not have
		}
	}
	flags.Lookup("model").Usage = "ridge, gp, smoother, density (default ridge)"
	flags.Lookup("map").Usage = "how the kernel is computed: nystrom (with some rows, the landmarks) or random " +
		"(random features) (default: chosen)"
	if !out {
		if err := flags.MarkHidden("out"); err != nil {
			panic(err)
		}
	}
}

// run returns the run that the flags describe.
func (f *partsFlags) run(cmd *cobra.Command, args []string) (*parts.Run, error) {
	for name, why := range notByParts {
		if cmd.Flags().Changed(name) {
			return nil, cli.Misused("--%s is not for parts: %s", name, why)
		}
	}
	if cmd.Flags().Changed("held") && f.held < 1 {
		return nil, cli.Misused("--held is %d, want more than 0, or leave it out", f.held)
	}
	o, err := f.fit.options(cmd)
	if err != nil {
		return nil, err
	}
	reading, err := f.fit.table.Options()
	if err != nil {
		return nil, err
	}
	paths, err := files.Expand(args...)
	if err != nil {
		return nil, err
	}
	t, err := files.Open(paths, reading)
	if err != nil {
		return nil, err
	}
	return parts.NewRun(t.Manifest(), parts.Options{Options: o, DropMissing: f.fit.dropMissing, Held: f.held})
}

// needsTarget refuses a fit without a target.
func needsTarget(r *parts.Run) error {
	o := r.Options()
	if kind, _ := o.Kind.Info(); len(o.Learn.Targets) == 0 && !unsupervised(kind) {
		return cli.Misused("no --target was named: name the column to predict, or ask for --model %s",
			machine.KindsOf(machine.Unsupervised)[0])
	}
	return nil
}

func partsInit(env *cli.Env) *cobra.Command {
	var f partsFlags
	cmd := &cobra.Command{
		Use:   "init RUN DATA... --target COLUMN",
		Short: "Make the folder of a run: list the files, record the options",
		Long: `Make the folder RUN that the other steps share. DATA are files, quoted patterns, or folders of CSV, TSV, NDJSON, npy,
npz or Parquet files with the same columns. Their order is part of the result. A folder named column=value adds a column.
All workers must see the same files under the same names; each step checks that they are unchanged.`,
		Example: `  randfeat parts init run 'data/part-*.parquet' --target price --features 2048
  seq 0 6 | xargs -P 7 -I{} randfeat parts learn run --worker {}/7
  randfeat parts choose run
  seq 0 6 | xargs -P 7 -I{} randfeat parts sum run --worker {}/7
  randfeat parts finish run -o model.rf`,
		Args: atLeast("a folder to make and at least one data file", 2),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("out") {
				return cli.Misused("-o is for 'randfeat parts finish'")
			}
			r, err := f.run(cmd, args[1:])
			if err != nil {
				return err
			}
			folder, err := parts.CreateFolder(args[0], r)
			if err != nil {
				return err
			}
			return partsState(env, args[0], folder, false)
		}),
	}
	f.addFit(cmd, false)
	return cmd
}

// atLeast checks the number of arguments.
func atLeast(what string, n int) cobra.PositionalArgs { return suggest.Args(what, n, math.MaxInt) }

// openRun opens the folder of a run.
func openRun(path string) (*parts.Folder, error) {
	f, err := parts.OpenFolder(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no run: 'randfeat parts init %s DATA...' makes one", path, shellWord(path))
	}
	return f, err
}

func addWorker(cmd *cobra.Command, worker *string) {
	cmd.Flags().StringVar(worker, "worker", "0/1", "which `worker` of how many, counted from 0: 0/7 to 6/7")
}

// leavesOf returns the leaves of a worker such as 3/7. The assignment depends only on the run and on I/N.
func leavesOf(r *parts.Run, worker string) (parts.Span, error) {
	i, n, ok := strings.Cut(worker, "/")
	at, err := strconv.Atoi(i)
	of, err2 := strconv.Atoi(n)
	if !ok || err != nil || err2 != nil || of < 1 || at < 0 || at >= of {
		return parts.Span{}, cli.Misused("--worker is %q, want I/N with I from 0 to N-1, such as 3/7", worker)
	}
	return r.Range(at, of)
}

// partsStep is the command learn or sum.
func partsStep(env *cli.Env, name, short string) *cobra.Command {
	var f partsFlags
	cmd := &cobra.Command{
		Use:     name + " RUN",
		Short:   short,
		Example: fmt.Sprintf("  randfeat parts %s run --worker \"$JOB_COMPLETION_INDEX/20\"", name),
		Args:    cli.ExactArgs("the folder of a run", 1),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			folder, err := openRun(args[0])
			if err != nil {
				return err
			}
			if err := needsTarget(folder.Run()); err != nil {
				return err
			}
			step, err := stepOf(folder, args[0], name)
			if err != nil {
				return err
			}
			return doStep(cmd.Context(), env, folder, step, name, f.worker)
		}),
	}
	addWorker(cmd, &f.worker)
	return cmd
}

func stepOf(folder *parts.Folder, path, name string) (*parts.Step, error) {
	if name == "learn" {
		return folder.Run().Learn()
	}
	p, err := planOf(folder, path)
	if err != nil {
		return nil, err
	}
	return folder.Run().Sum(p)
}

func planOf(folder *parts.Folder, path string) (*parts.Plan, error) {
	p, err := folder.Plan()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no choices: 'randfeat parts choose %s' makes them", path, shellWord(path))
	}
	return p, err
}

// doStep does the part of one worker. The file appears when it is complete, so an interrupted step is simply
// repeated.
func doStep(ctx context.Context, env *cli.Env, folder *parts.Folder, step *parts.Step, name, worker string) error {
	start := time.Now()
	leaves, err := leavesOf(folder.Run(), worker)
	if err != nil {
		return err
	}
	done, err := folder.Do(ctx, step, leaves)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: nothing was written; the same command begins again", cli.ErrInterrupted)
		}
		return err
	}
	r := PartsFile{Step: name, File: done.Path, Leaves: leaves, Rows: done.Rows, Bytes: done.Bytes, Parts: done.Parts,
		Seconds: time.Since(start).Seconds()}
	if env.JSON {
		return env.Object(r)
	}
	if r.File == "" {
		env.Note("worker %s has nothing to do: there are %d leaves", worker, folder.Run().Leaves())
		return nil
	}
	env.Note("%s: %d rows of leaves %d to %d of %d, %s in %s", r.File, r.Rows, leaves.Lo, leaves.Hi-1,
		folder.Run().Leaves(), bytesText(r.Bytes), secondsText(r.Seconds))
	return nil
}

func partsChoose(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "choose RUN",
		Short: "Choose scaling, bandwidth, λ and features from the sample",
		Args:  cli.ExactArgs("the folder of a run", 1),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			folder, err := openRun(args[0])
			if err != nil {
				return err
			}
			step, err := folder.Run().Learn()
			if err != nil {
				return err
			}
			whole, err := folder.Whole(cmd.Context(), step)
			if err != nil {
				return err
			}
			p, err := folder.Run().Choose(cmd.Context(), whole)
			if err != nil {
				return err
			}
			if err := folder.WritePlan(p); err != nil {
				return err
			}
			r := PartsPlan{Rows: p.Rows, Sampled: p.Sampled, Held: p.Held(), Kind: p.Kind, Choices: p.Choices,
				Notes: p.Notes}
			if env.JSON {
				return env.Object(r)
			}
			w := cli.Printable{Writer: env.Stdout}
			for _, c := range r.Choices {
				fmt.Fprintf(w, "%-10s %s: %s\n", c.Name, c.Value, whyOf(c))
			}
			for _, n := range r.Notes {
				fmt.Fprintf(w, "Note: %s\n", n)
			}
			env.Note("%d rows to sum, choices tried on %d of them, %d held out for scores", r.Rows, r.Sampled, r.Held)
			return nil
		}),
	}
}

func partsFinish(env *cli.Env) *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "finish RUN -o MODEL",
		Short: "Solve for the model and score it on held-out rows",
		Args:  cli.ExactArgs("the folder of a run", 1),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			if f.out == "" {
				return cli.Misused("-o is missing: name the model file to write, such as -o model.rf")
			}
			start := time.Now()
			folder, err := openRun(args[0])
			if err != nil {
				return err
			}
			if in, ok := folder.Reads(f.out); ok {
				return cli.Misused("-o names %s, which this command reads: it would be replaced", in)
			}
			if err := checkWritable(f.out); err != nil {
				return fmt.Errorf("-o: %w", err)
			}
			p, err := planOf(folder, args[0])
			if err != nil {
				return err
			}
			step, err := folder.Run().Sum(p)
			if err != nil {
				return err
			}
			whole, err := folder.Whole(cmd.Context(), step)
			if err != nil {
				return err
			}
			m, rep, err := folder.Run().Finish(cmd.Context(), p, whole)
			if err != nil {
				return err
			}
			rep.Seconds = time.Since(start).Seconds()
			rep.Stages = []tabular.Stage{{Name: "finish", Seconds: rep.Seconds}}
			return saveParts(env, &f, m, rep)
		}),
	}
	cmd.Flags().StringVarP(&f.out, "out", "o", "", "model file to write")
	cli.CompleteFiles(cmd, "out", "rf")
	return cmd
}

// saveParts writes and prints a model. It records neither date nor program, so that the bytes are the same for
// every program that runs the steps.
func saveParts(env *cli.Env, f *fitFlags, m *machine.Model, rep *tabular.Report) error {
	if err := m.Save(f.out); err != nil {
		return err
	}
	r := FitReport{Report: rep, Baseline: baselineOf(rep, m), File: f.out}
	if info, err := os.Stat(f.out); err == nil {
		r.Bytes = info.Size()
	}
	if env.JSON {
		return env.Object(r)
	}
	return printFit(env, &r, m, f)
}

func partsFit(env *cli.Env) *cobra.Command {
	var f partsFlags
	cmd := &cobra.Command{
		Use:     "fit DATA... -o MODEL --target COLUMN",
		Short:   "Run all steps in one process, with the same result",
		Example: `  randfeat parts fit 'data/part-*.csv' --target price -o model.rf`,
		Args:    atLeast("at least one data file", 1),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			if f.fit.out == "" {
				return cli.Misused("-o is missing: name the model file to write, such as -o model.rf")
			}
			start := time.Now()
			r, err := f.run(cmd, args)
			if err != nil {
				return err
			}
			if err := needsTarget(r); err != nil {
				return err
			}
			if in, ok := r.Reads(f.fit.out); ok {
				return cli.Misused("-o names the data file %s: it would be replaced", in)
			}
			if err := f.fit.checkFiles(nil); err != nil {
				return err
			}
			m, rep, err := r.Fit(cmd.Context())
			if err != nil {
				return err
			}
			rep.Seconds = time.Since(start).Seconds()
			return saveParts(env, &f.fit, m, rep)
		}),
	}
	f.addFit(cmd, true)
	return cmd
}

func partsEvaluate(env *cli.Env) *cobra.Command {
	var f partsFlags
	cmd := &cobra.Command{
		Use:     "evaluate RUN MODEL",
		Short:   "Evaluate a model on the files of a run",
		Example: "  randfeat parts init test 'test-*.csv'\n  randfeat parts evaluate test model.rf --worker 0/2",
		Args:    cli.ExactArgs("the folder of a run and a model", 2),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			folder, step, _, err := evaluateStep(args)
			if err != nil {
				return err
			}
			return doStep(cmd.Context(), env, folder, step, "evaluate", f.worker)
		}),
	}
	addWorker(cmd, &f.worker)
	return cmd
}

func evaluateStep(args []string) (*parts.Folder, *parts.Step, *machine.Model, error) {
	folder, err := openRun(args[0])
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := machine.Load(args[1])
	if err != nil {
		return nil, nil, nil, err
	}
	step, err := folder.Run().Evaluate(m)
	return folder, step, m, err
}

func partsScore(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "score RUN MODEL",
		Short: "Merge the results of evaluate into scores",
		Args:  cli.ExactArgs("the folder of a run and a model", 2),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			start := time.Now()
			folder, step, m, err := evaluateStep(args)
			if err != nil {
				return err
			}
			whole, err := folder.Whole(cmd.Context(), step)
			if err != nil {
				return err
			}
			e := whole.Evaluation()
			r := EvaluateResult{Model: args[1], Data: folder.Run().Name(), Kind: m.Kind, Task: m.Task,
				Targets: targetNames(m), Rows: e.Len(), Scores: e.Scores()}
			if m.Task == machine.Classification {
				r.classified(m.Schema.Targets[0].Classes, e)
			}
			r.Seconds = time.Since(start).Seconds()
			if env.JSON {
				return env.Object(r)
			}
			return r.print(cli.Printable{Writer: env.Stdout})
		}),
	}
}

func partsStatus(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "status RUN",
		Short: "Show which parts exist and which are missing",
		Args:  cli.ExactArgs("the folder of a run", 1),
		RunE: cli.Do(func(_ *cobra.Command, args []string) error {
			folder, err := openRun(args[0])
			if err != nil {
				return err
			}
			return partsState(env, args[0], folder, true)
		}),
	}
}

// partsState prints the state of a folder.
func partsState(env *cli.Env, path string, folder *parts.Folder, steps bool) error {
	run := folder.Run()
	units := run.Units()
	r := PartsRun{Folder: path, Run: run.ID(), Files: units[len(units)-1].Shard + 1, Units: len(units),
		Leaves: run.Leaves()}
	if steps {
		_, err := folder.Plan()
		if r.Plan = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.Missing = map[string][]parts.Span{}
		for _, name := range []string{"learn", "sum"} {
			if r.Missing[name], err = folder.Missing(name); err != nil {
				return err
			}
			if r.Missing[name] == nil {
				r.Missing[name] = []parts.Span{}
			}
		}
	}
	if env.JSON {
		return env.Object(r)
	}
	w := cli.Printable{Writer: env.Stdout}
	fmt.Fprintf(w, "%s: %d files in %d pieces, %d leaves for workers to share. Run %.16s.\n", path, r.Files, r.Units,
		r.Leaves, r.Run)
	if !steps {
		return nil
	}
	for _, name := range []string{"learn", "sum"} {
		var list []string
		for _, s := range r.Missing[name] {
			list = append(list, fmt.Sprintf("%d-%d", s.Lo, s.Hi-1))
		}
		if len(list) == 0 {
			fmt.Fprintf(w, "%s: all leaves are there\n", name)
		} else {
			fmt.Fprintf(w, "%s: leaves are missing: %s\n", name, strings.Join(list, ", "))
		}
		if name == "learn" {
			fmt.Fprintf(w, "choose: %s\n", map[bool]string{true: "done", false: "to be done"}[r.Plan])
		}
	}
	return nil
}

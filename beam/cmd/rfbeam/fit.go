package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/randfeat/randfeat/beam/internal/store"
	"github.com/randfeat/randfeat/beam/internal/work"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/parts"
	"github.com/randfeat/randfeat/machine/tabular"
)

// runFlags are the flags that all commands share.
type runFlags struct {
	dir   string
	tasks int
	json  bool
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "work", "", "`folder` for intermediate results: kept if the run fails, so that the same command "+
		"continues from there (default: beside the output, always removed)")
	flags.IntVar(&f.tasks, "tasks", 0, "largest number of tasks that a pass over the table is cut into (default 64)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
}

// workDir makes the folder of a run and returns the function that cleans up at the end. A folder named by --work may
// hold the beginning of the same run, which continues; the file "run" in it holds the id that identifies a run.
func (f *runFlags) workDir(ctx context.Context, out, id string) (dir string, clean func(failed bool), err error) {
	store.SweepTemp()
	if f.dir == "" {
		dir, err = store.WorkDir(ctx, out)
		return dir, func(bool) { f.removed(ctx, dir) }, err
	}
	if dir, err = store.Abs(f.dir); err != nil {
		return "", nil, err
	}
	mark := store.Join(dir, "run")
	entries, err := store.Names(ctx, dir)
	switch b, failed := store.ReadFile(ctx, mark); {
	case err != nil:
	case len(entries) == 0:
		err = store.MkdirAll(dir)
	case failed != nil && len(entries) > 0:
		return "", nil, fmt.Errorf("--work %s: the folder holds files that are not of a run: name an empty folder",
			f.dir)
	case failed == nil && string(b) != id:
		return "", nil, fmt.Errorf("--work %s: the folder holds a run with other files or options: remove it or name "+
			"another", f.dir)
	}
	if err == nil {
		err = store.WriteFile(ctx, mark, []byte(id))
	}
	return dir, func(failed bool) {
		if !failed {
			f.removed(ctx, dir)
		}
	}, err
}

// removed removes the work folder, even after an interrupt. Leftovers do no harm, so errors are ignored.
func (f *runFlags) removed(ctx context.Context, dir string) {
	_ = store.RemoveAll(context.WithoutCancel(ctx), dir)
}

type fitFlags struct {
	runFlags
	readFlags
	out, run         string
	demo             bool
	o                parts.Options
	model            string
	family, coupling string
}

func fitCommand(stdout io.Writer) *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit DATA... -o MODEL --target COLUMN",
		Short: "Fit a kernel machine to a table of many files",
		Long: `Fit a kernel machine to a table. DATA names files, folders or patterns of CSV, NDJSON or Parquet files; together they are
one table, in this order.

Options that no flag sets are chosen on a sample of the rows. The scores come from other rows, held out from both the
sample and the fit. The flags mean what they mean in 'randfeat fit'. For options that have no flag here, make a run with
'randfeat parts init' and name its folder with --run.`,
		Example: `  rfbeam fit --demo -o model.rf
  rfbeam fit 'part-*.parquet' --target price --features 2048 -o model.rf
  rfbeam fit --run run -o model.rf --runner=universal --endpoint=localhost:8099 --environment_type=PROCESS`,
		RunE: do(func(cmd *cobra.Command, args []string) error { return f.fit(cmd, args, stdout) }),
	}
	f.add(cmd)
	return cmd
}

func (f *fitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.out, "out", "o", "", "model file to write")
	addColumns(flags, &f.o.Learn)
	flags.BoolVar(&f.o.DropMissing, "drop-missing-target", false, "leave out rows without a target")
	flags.StringVar(&f.model, "model", "", "ridge, gp, smoother or density (default ridge; density without a target)")
	flags.StringVar(&f.o.Kernel, "kernel", "", "kernel (default gaussian)")
	flags.StringVar(&f.o.Scaling, "scaling", "", "scaling of columns (default: by trial)")
	flags.StringVar(&f.family, "family", "", "feature family (default: chosen)")
	flags.StringVar(&f.coupling, "coupling", "", "coupling of the projections (default: chosen)")
	flags.Float64Var(&f.o.Bandwidth, "bandwidth", 0, "bandwidth of the kernel, in units of the scaled columns (default: "+
		"chosen)")
	flags.Float64Var(&f.o.Lambda, "lambda", 0, "penalty on the sum of losses (default: chosen)")
	flags.IntVar(&f.o.Features, "features", 0, "number of random features (default: by a learning curve)")
	flags.IntVar(&f.o.Budget, "budget", 0, "largest number of features of the learning curve (default 2048)")
	flags.Uint64Var(&f.o.Seed, "seed", 1, "seed of the projections and the sample")
	flags.IntVar(&f.o.Folds, "folds", 0, "folds of the choices on the sample (default 5)")
	flags.IntVar(&f.o.Sample, "sample", 0, "rows on which choices are tried (default 8192)")
	flags.IntVar(&f.o.Held, "held", 0, "rows held out for scores (default 4096, at most a fifth)")
	flags.BoolVar(&f.o.Float32, "float32", false, "features and their products in float32")
	f.readFlags.add(cmd)
	flags.StringVar(&f.run, "run", "", "folder of 'randfeat parts init', instead of DATA and the flags above")
	flags.BoolVar(&f.demo, "demo", false, "fit a generated table: needs no files")
	f.runFlags.add(cmd)
}

// addColumns adds the flags for columns of 'randfeat fit'.
func addColumns(flags *pflag.FlagSet, o *data.LearnOptions) {
	flags.StringArrayVar(&o.Targets, "target", nil, "`column` to predict; repeatable")
	flags.StringVar((*string)(&o.Task), "task", "", "regression or classification (default: by the values of the target)")
	flags.StringArrayVar(&o.IDs, "id", nil, "`column` to copy to the predictions but not to predict from; repeatable")
	flags.StringArrayVar(&o.Skip, "skip", nil, "`column` to ignore; repeatable")
	flags.StringArrayVar(&o.Numeric, "numeric", nil, "`column` that must hold numbers; repeatable")
	flags.StringArrayVar(&o.Categorical, "categorical", nil, "`column` of categories; repeatable")
	flags.StringArrayVar(&o.Text, "text", nil, "`column` of short texts; repeatable")
	flags.BoolVar(&o.Strict, "strict", false, "make text in a column of numbers or dates an error")
}

// theRun returns the run that the arguments and flags describe.
func (f *fitFlags) theRun(args []string) (*parts.Run, error) {
	if f.run != "" {
		if len(args) > 0 || f.demo {
			return nil, misused("--run names the files: no arguments and no --demo beside it")
		}
		return readRun(f.run)
	}
	f.o.Kind = machine.Kind(f.model)
	var err error
	if f.family != "" {
		if f.o.Family, err = family.Parse(f.family); err != nil {
			return nil, misused("--family: %w", err)
		}
	}
	if f.coupling != "" {
		if f.o.Coupling, err = coupling.Parse(f.coupling); err != nil {
			return nil, misused("--coupling: %w", err)
		}
	}
	t, err := f.table(args)
	if err != nil {
		return nil, err
	}
	return parts.NewRun(t.Manifest(), f.o)
}

// keepInputs refuses an output that would replace an input, or that would be removed with the work folder.
func (f *fitFlags) keepInputs(run *parts.Run, out string) error {
	in, taken := run.Reads(out)
	if !taken && f.run != "" {
		folder, err := parts.OpenFolder(f.run)
		if err != nil {
			return err
		}
		in, taken = folder.Reads(out)
	}
	if taken {
		return misused("-o names %s, which this command reads: it would be replaced", in)
	}
	if f.dir == "" {
		return nil
	}
	dir, err := store.Abs(f.dir)
	if err != nil {
		return misused("--work %w", err)
	}
	if store.Remote(out) {
		if strings.HasPrefix(out, dir+"/") {
			return misused("-o %s lies in the folder of --work, which is removed at the end: name another", f.out)
		}
		return nil
	}
	if rel, err := filepath.Rel(dir, out); err == nil && filepath.IsLocal(rel) {
		return misused("-o %s lies in the folder of --work, which is removed at the end: name another", f.out)
	}
	return nil
}

// readRun reads the run in a folder of 'randfeat parts init'. It makes the paths of the files absolute, because
// workers have other working directories.
func readRun(dir string) (*parts.Run, error) {
	path := filepath.Join(dir, "run.json")
	b, err := localfile.Read(path, localfile.JSON("a run of parts", 1<<30))
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	m := new(files.Manifest)
	if err = json.Unmarshal(b, &all); err == nil {
		err = json.Unmarshal(all["files"], m)
	}
	if err == nil {
		err = absolute(m)
	}
	if err == nil {
		all["files"], err = json.Marshal(m)
	}
	if err == nil {
		b, err = json.Marshal(all)
	}
	var run *parts.Run
	if err == nil {
		run, err = parts.ReadRun(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}

// FitResult is the object of fit --json.
type FitResult struct {
	*tabular.Report
	File   string `json:"file"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func (f *fitFlags) fit(cmd *cobra.Command, args []string, stdout io.Writer) error {
	if f.demo {
		if len(args) > 0 {
			return misused("%d arguments, want none with --demo", len(args))
		}
		dir, err := writeDemo()
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		args = []string{dir}
		f.o.Learn.Targets, f.o.Learn.IDs = []string{demoTarget}, []string{demoID}
		if f.out == "" {
			f.out = filepath.Join(dir, "model.rf")
		}
	}
	if f.out == "" {
		return misused("-o is missing: name the model file to write, such as -o model.rf")
	}
	out, err := store.Abs(f.out)
	if err != nil {
		return misused("-o %w", err)
	}
	run, err := f.theRun(args)
	if err != nil {
		return err
	}
	if err := f.keepInputs(run, out); err != nil {
		return err
	}
	dir, clean, err := f.workDir(cmd.Context(), out, run.ID())
	if err != nil {
		return err
	}
	report, err := work.Fit(cmd.Context(), run, dir, out, work.Options{Tasks: f.tasks})
	clean(err != nil)
	if err != nil {
		return readable(err)
	}
	b, err := store.ReadFile(cmd.Context(), out)
	if err != nil {
		return err
	}
	result := FitResult{report, f.out, len(b), fmt.Sprintf("%x", sha256.Sum256(b))}
	if f.json {
		return json.NewEncoder(stdout).Encode(result)
	}
	return result.print(stdout)
}

// readable shortens errors that the user caused.
func readable(err error) error {
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return err
}

func (r *FitResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%d rows, %s, %s\n", r.Rows, r.Kind, r.Task)
	for _, c := range r.Choices {
		fmt.Fprintf(w, "  %-10s %s  (%s)\n", c.Name, c.Value, c.Why)
	}
	for _, s := range r.Scores {
		fmt.Fprintf(w, "  %-10s %.4g\n", s.Name, s.Value)
	}
	if r.ScoredOn != "" {
		fmt.Fprintf(w, "Scored on %s.\n", r.ScoredOn)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	_, err := fmt.Fprintf(w, "%s: %d bytes, SHA-256 %s\n", r.File, r.Bytes, r.SHA256)
	return err
}

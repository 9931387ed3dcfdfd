package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/beam/internal/store"
	"github.com/randfeat/randfeat/beam/internal/work"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/parts"
)

// modelAndFiles requires a model and at least one name of data.
func modelAndFiles(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return errors.New("want a model, and files, folders or patterns of data")
	}
	return nil
}

type evaluateFlags struct {
	runFlags
	readFlags
	dropMissing bool
}

func evaluateCommand(stdout io.Writer) *cobra.Command {
	var f evaluateFlags
	cmd := &cobra.Command{
		Use:     "evaluate MODEL DATA...",
		Short:   "Score the predictions of a model on a table of many files",
		Example: `  rfbeam evaluate model.rf 'test-*.parquet'`,
		Args:    modelAndFiles,
		RunE:    do(func(cmd *cobra.Command, args []string) error { return f.evaluate(cmd, args, stdout) }),
	}
	cmd.Flags().BoolVar(&f.dropMissing, "drop-missing-target", false, "leave out rows without a target")
	f.readFlags.add(cmd)
	f.runFlags.add(cmd)
	return cmd
}

// openModel loads the model and makes f read tables in the encoding of the fit.
func (f *readFlags) openModel(ctx context.Context, path string) (abs string, m *machine.Model, err error) {
	if abs, err = store.Abs(path); err != nil {
		return "", nil, err
	}
	if m, err = work.Load(ctx, abs); err != nil {
		return "", nil, err
	}
	if m.Schema == nil {
		return "", nil, fmt.Errorf("%s: the model has no schema, it predicts matrices only", path)
	}
	f.assume = m.Schema.Encoding
	return abs, m, nil
}

func (f *evaluateFlags) evaluate(cmd *cobra.Command, args []string, stdout io.Writer) error {
	model, m, err := f.openModel(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	t, err := f.table(args[1:])
	if err != nil {
		return err
	}
	o := parts.Options{DropMissing: f.dropMissing}
	for _, c := range m.Schema.Targets {
		o.Learn.Targets = append(o.Learn.Targets, c.Name)
	}
	run, err := parts.NewRun(t.Manifest(), o)
	if err != nil {
		return err
	}
	dir, clean, err := f.workDir(cmd.Context(), model, run.ID()+" evaluate "+model)
	if err != nil {
		return err
	}
	result, err := work.Evaluate(cmd.Context(), run, dir, model, work.Options{Tasks: f.tasks})
	clean(err != nil)
	if err != nil {
		return readable(err)
	}
	if f.json {
		return json.NewEncoder(stdout).Encode(result)
	}
	fmt.Fprintf(stdout, "%d rows\n", result.Rows)
	for _, s := range result.Scores {
		fmt.Fprintf(stdout, "  %-10s %.6g\n", s.Name, s.Value)
	}
	return nil
}

type predictFlags struct {
	runFlags
	readFlags
	out, to string
	table   machine.TableOptions
}

func predictCommand(stdout io.Writer) *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:   "predict MODEL DATA... -o FOLDER",
		Short: "Predict the rows of a table of many files",
		Long: `Predict every row of a table. The folder gets one file of predictions for every file of DATA, numbered in the order of
DATA. Each holds the id columns, as far as DATA has them, and the predictions, row by row. predictions.json is written
last: it lists the files of predictions with the file of DATA and the number of rows of each.`,
		Example: `  rfbeam predict model.rf 'part-*.parquet' -o predictions --probabilities`,
		Args:    modelAndFiles,
		RunE:    do(func(cmd *cobra.Command, args []string) error { return f.predict(cmd, args, stdout) }),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "folder to write to; it must be empty or not exist")
	flags.StringVar(&f.to, "to", "csv", "format to write: csv or parquet")
	flags.BoolVar(&f.table.Probabilities, "probabilities", false, "add the probability of every class")
	flags.BoolVar(&f.table.Scores, "scores", false, "add the score of every class")
	flags.BoolVar(&f.table.Variance, "variance", false, "add the variance of a new observation")
	flags.Float64Var(&f.table.Interval, "interval", 0, "add limits that contain this share of new observations, such as 0.9")
	flags.BoolVar(&f.table.Float32, "float32", false, "compute in float32: faster, with two to six right digits (fewest for a wide kernel with a small λ)")
	f.readFlags.add(cmd)
	f.runFlags.add(cmd)
	return cmd
}

func (f *predictFlags) predict(cmd *cobra.Command, args []string, stdout io.Writer) error {
	switch format := data.Format(f.to); {
	case format != data.CSV && format != data.Parquet:
		return misused("--to is %q, want csv or parquet", f.to)
	case f.out == "":
		return misused("-o is missing: name the folder to write to")
	}
	out, err := store.Abs(f.out)
	if err != nil {
		return misused("-o %w", err)
	}
	if there, err := store.Names(cmd.Context(), out); err != nil {
		return fmt.Errorf("-o: %w", err)
	} else if len(there) > 0 {
		return fmt.Errorf("-o %s: the folder is not empty: name another", f.out)
	}
	model, _, err := f.openModel(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	t, err := f.readFlags.table(args[1:])
	if err != nil {
		return err
	}
	m := t.Manifest()
	dir, clean, err := f.workDir(cmd.Context(), out, m.Digest()+" predict "+model)
	if err != nil {
		return err
	}
	result, err := work.Predict(cmd.Context(), m, dir, model, out, data.Format(f.to), f.table)
	clean(err != nil)
	if err != nil {
		return readable(err)
	}
	if f.json {
		return json.NewEncoder(stdout).Encode(result)
	}
	_, err = fmt.Fprintf(stdout, "%s: %d rows in %d files\n", f.out, result.Rows, len(result.Shards))
	return err
}

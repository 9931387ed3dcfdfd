package tables

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tableflags"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// CompareResult is the object of compare --json.
type CompareResult struct {
	Data    string        `json:"data"`
	Task    machine.Task  `json:"task"`
	Rows    int64         `json:"rows"`
	Targets []string      `json:"targets"`
	First   ComparedModel `json:"first"`  // the first model and its scores
	Second  ComparedModel `json:"second"` // the second model and its scores
	// Differences are the scores of the second model minus those of the first, the main one first. Their
	// intervals are paired: they come from differences on the same rows.
	Differences []machine.Difference `json:"differences"`
	Dropped     int64                `json:"dropped,omitempty"` // rows without a target
	Seconds     float64              `json:"seconds"`
}

// ComparedModel is one of the two models of compare.
type ComparedModel struct {
	Model  string          `json:"model"`
	Kind   machine.Kind    `json:"kind"`
	Scores []machine.Score `json:"scores"`
	// Seen counts training rows of the model among the rows that could be compared.
	Seen *machine.SeenRows `json:"seen,omitempty"`
}

type compareFlags struct {
	tableflags.Flags
	skip        []string
	dropMissing bool
}

func CompareCommand(env *cli.Env) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare FIRST SECOND DATA...",
		Short: "Compare two models on the same rows, with paired intervals",
		Long: `Predict every row of DATA with two models of the same target and show how much their scores differ. The 95 % intervals
are paired: they come from the differences row by row, so rows that both models find hard do not widen them. If an
interval contains 0, these rows do not show which model is better.

Use rows that neither model was fitted to: a model knows the answers of its own rows and would win. compare warns if it
recognises such rows. The models may read different columns; DATA needs the columns of both.`,
		Example: `  randfeat compare a.rf b.rf test.csv
  randfeat compare a.rf b.rf test.csv --json`,
		Args: atLeast("two models and a table", 3),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) < 2 {
				return []string{"rf"}, cobra.ShellCompDirectiveFilterFileExt
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			return runCompare(env, cmd, &f, [2]string{args[0], args[1]}, args[2:])
		}),
	}
	f.Add(cmd)
	cli.GroupFlags(cmd, []cli.FlagGroup{{Title: "Flags", Names: []string{"skip", "drop-missing-target"}},
		tableflags.Group})
	cmd.Flags().StringSliceVar(&f.skip, "skip", nil, "`columns` to ignore that neither model knows")
	cmd.Flags().BoolVar(&f.dropMissing, "drop-missing-target", false,
		"leave out rows without a target and report their number")
	return cmd
}

func runCompare(env *cli.Env, cmd *cobra.Command, f *compareFlags, models [2]string, paths []string) error {
	start := time.Now()
	var m [2]*machine.Model
	for i, path := range models {
		var err error
		if m[i], err = machine.Load(path); err != nil {
			return err
		}
		switch {
		case m[i].Schema == nil:
			return fmt.Errorf("%s: the model has no schema, it predicts matrices only: fit it to a table", path)
		case m[i].Task == machine.Unsupervised:
			return cli.Misused("%s is a density: compare is for models with a target", path)
		}
	}
	if err := comparable(m, models); err != nil {
		return err
	}
	f.ReadLike(m[0])
	paths, err := files.Expand(paths...)
	if err != nil {
		return err
	}
	src, format, err := f.Source(env, paths, false) // it is read twice, once per model
	if err != nil {
		return err
	}
	r := CompareResult{Data: src.Name(), Task: m[0].Task, Targets: targetNames(m[0])}
	columns := src.Columns()
	for _, n := range r.Targets {
		if !slices.Contains(columns, n) {
			return noColumn(src.Name(), n, "the target of the models", columns)
		}
	}
	bar := env.Progress("rows", 2*estimateRows(paths, format)).WithRate("rows")
	bar.Approx = true
	defer bar.End()
	var losses [2]*machine.Losses
	for i := range m {
		if err := checkSkipped(f.skip, m[i], src.Name(), columns); err != nil {
			return err
		}
		one := &r.First
		if i == 1 {
			one = &r.Second
		}
		one.Model, one.Kind = models[i], m[i].Kind
		var from data.Source = src
		if f.dropMissing {
			dropping, err := data.DropMissing(src, r.Targets)
			if err != nil {
				return err
			}
			from = dropping
		}
		known := slices.Concat(f.skip, columnsOf(m[1-i]))
		if losses[i], err = one.losses(m[i], m[0], from, known, func(rows int) error {
			bar.At(i*losses0(losses) + rows)
			return interrupted(cmd.Context())
		}); err != nil {
			return explainColumns(err, src.Name(), m[i], columns, "leave them out with --skip")
		}
		if f.dropMissing {
			r.Dropped = from.(interface{ Dropped() int64 }).Dropped()
		}
	}
	bar.End()
	if losses[0].Len() == 0 {
		return &data.InputError{Place: src.Name(), Detail: "the table has columns but no rows"}
	}
	r.Rows = int64(losses[0].Len())
	if r.Differences, err = losses[0].Differences(losses[1]); err != nil {
		return fmt.Errorf("%s: the table changed while it was read: %w", src.Name(), err)
	}
	r.Seconds = time.Since(start).Seconds()
	for i, one := range []*ComparedModel{&r.First, &r.Second} {
		if i == 1 && models[0] == models[1] {
			break
		}
		if s := one.Seen; s != nil && s.Share() >= seenShare {
			env.Note("warning: %.3g %% of the rows are rows that %s was fitted to (%d of %d compared): it knows their answers, "+
				"the comparison is not fair", 100*s.Share(), one.Model, s.Seen, s.Compared)
		}
	}
	if r.Dropped > 0 {
		env.Note("note: %d rows without a target were left out", r.Dropped)
	}
	if env.JSON {
		return env.Object(r)
	}
	return r.print(cli.Printable{Writer: env.Stdout})
}

// losses0 is the number of rows of the first pass.
func losses0(l [2]*machine.Losses) int {
	if l[0] == nil {
		return 0
	}
	return l[0].Len()
}

// comparable refuses models of different targets.
func comparable(m [2]*machine.Model, paths [2]string) error {
	a, b := targetNames(m[0]), targetNames(m[1])
	switch {
	case m[0].Task != m[1].Task:
		return cli.Misused("%s is a %s and %s a %s: their scores do not compare", paths[0], m[0].Task, paths[1],
			m[1].Task)
	case !slices.Equal(a, b):
		return cli.Misused("%s predicts %s and %s predicts %s: compare models of the same target", paths[0], quoted(a),
			paths[1], quoted(b))
	}
	if m[0].Task != machine.Classification {
		return nil
	}
	if x, y := m[0].Schema.Targets[0].Classes, m[1].Schema.Targets[0].Classes; !slices.Equal(x, y) {
		return cli.Misused("%s knows the classes %s and %s the classes %s: compare models of the same classes", paths[0],
			quoted(x), paths[1], quoted(y))
	}
	return nil
}

// columnsOf returns all columns that a model knows.
func columnsOf(m *machine.Model) []string {
	out := slices.Concat(m.Schema.IDs, m.Schema.Ignored)
	for _, f := range m.Schema.Fields {
		out = append(out, f.Name)
	}
	return out
}

// losses predicts all rows. Targets are read as the first model reads them, so that both are compared with the
// same numbers.
func (c *ComparedModel) losses(m, first *machine.Model, src data.Source, known []string,
	seen func(rows int) error) (*machine.Losses, error) {
	reads := allowing(m, known)
	if m != first {
		like := *reads.Schema
		like.Targets = first.Schema.Targets
		copied := *reads
		copied.Schema = &like
		reads = &copied
	}
	rows, err := machine.ModelRows(src, reads, true, nil)
	if err != nil {
		return nil, err
	}
	if m.Sketch != nil {
		c.Seen = new(machine.SeenRows)
		m.CountSeen(rows, c.Seen)
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	e, err := m.Evaluation()
	if err != nil {
		return nil, err
	}
	kind, err := m.Kind.Info()
	if err != nil {
		return nil, err
	}
	l, err := machine.NewLosses(m.Task, m.Outputs)
	if err != nil {
		return nil, err
	}
	var (
		ws             machine.Workspace[float64]
		pred, variance dense.Matrix[float64]
	)
	err = rows.Each(predictRows, func(x, y dense.Matrix[float64]) error {
		pred = fitting(pred, x.Rows, m.Outputs)
		if err := p.Predict(pred, x, &ws); err != nil {
			return fmt.Errorf("%s: after row %d: %w", src.Name(), e.Len(), err)
		}
		if kind.Bayesian {
			variance = fitting(variance, x.Rows, m.Outputs)
			if err := p.Variance(variance, x, &ws); err != nil {
				return err
			}
		}
		if err := e.Add(y, pred, variance); err != nil {
			return err
		}
		if err := l.Add(y, pred); err != nil {
			return err
		}
		return seen(l.Len())
	})
	c.Scores = e.Scores()
	return l, err
}

func (r *CompareResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%d rows of %s, target %s\n", r.Rows, r.Data, quoted(r.Targets))
	fmt.Fprintf(w, "  first   %s (%s)\n  second  %s (%s)\n\n", r.First.Model, r.First.Kind, r.Second.Model,
		r.Second.Kind)
	tie := "cannot be told"
	if !slices.ContainsFunc(r.Differences, func(d machine.Difference) bool { return d.Score.Value != 0 }) {
		tie = "equal"
	}
	if err := cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "score\tfirst\tsecond\tsecond − first\t95 % interval\tbetter")
		for _, d := range r.Differences {
			s := d.Score
			name := s.Name
			if s.Output > 0 {
				name += " of " + r.Targets[s.Output-1]
			}
			better := cmp.Or(d.Better, tie)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s to %s\t%s\n", name, r.First.score(s), r.Second.score(s), digits(s.Value),
				digits(s.Low), digits(s.High), better)
		}
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nIntervals are paired: of differences row by row, for new rows like these.")
	return err
}

// score formats the model's own score of the same name.
func (c *ComparedModel) score(like machine.Score) string {
	for _, s := range c.Scores {
		if s.Name == like.Name && s.Output == like.Output {
			return digits(s.Value)
		}
	}
	return "–"
}

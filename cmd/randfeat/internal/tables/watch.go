package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tableflags"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/watch"
)

// WatchResult is the object of watch --json.
type WatchResult struct {
	*watch.Report
	Data    string `json:"data"`            // the new table
	Model   string `json:"model,omitempty"` // file of the model
	Against string `json:"against"`         // rows that the new ones are compared with
	// Scores on the new rows beside those of the fit, if the table has the targets.
	Scores  []watch.Observed `json:"scores,omitempty"`
	Seconds float64          `json:"seconds"`
}

type watchFlags struct {
	tableflags.Flags
	reference string
	level     float64
	fail      bool
	svg, html string
	skip      []string
}

func WatchCommand(env *cli.Env) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch MODEL NEW... | --reference OLD NEW...",
		Short: "Say whether new rows are still like those that a model was fitted to",
		Long: `Compare the rows of NEW with those that MODEL was fitted to: all columns together, each column by itself (numbers,
levels, missing values, values and levels never seen), and the relations of columns. One sentence says whether they
changed; then come the columns that did, and the score to expect of the model on these rows, without their targets. If
NEW has the targets, its scores are compared with those of the fit.

'randfeat fit' stores the reference in the model file: sums of statistics, no rows. For an older model, or to compare two
tables without a model, name the old table with --reference.

The probability of a false alarm is that of --level. It holds for one run; 'randfeat serve' corrects for repeated looks.
Columns of dates are described, but dates move on by themselves and do not count as a change.`,
		Example: `  randfeat watch model.rf new.csv
  randfeat watch model.rf new.parquet --fail --json
  randfeat watch --reference january.csv february.csv --html changes.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.reference == "" {
				return modelAndTable(cmd, args)
			}
			return atLeast("a table", 1)(cmd, args)
		},
		ValidArgsFunction: modelArgs,
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			return runWatch(env, cmd, &f, args)
		}),
	}
	f.Add(cmd)
	cli.GroupFlags(cmd, []cli.FlagGroup{{Title: "Flags", Names: strings.Fields(`reference level fail svg html skip`)},
		tableflags.Group})
	flags := cmd.Flags()
	flags.StringVar(&f.reference, "reference", "", "old `table` to compare with, instead of the reference in the model")
	flags.Float64Var(&f.level, "level", watch.DefaultLevel, "probability of a false alarm")
	flags.BoolVar(&f.fail, "fail", false, "exit with status 3 if the rows changed")
	flags.StringVar(&f.svg, "svg", "", "SVG `file` to write: the column that changed most, old and new")
	flags.StringVar(&f.html, "html", "", "HTML `file` to write: the report, and the columns that changed, old and new")
	flags.StringSliceVar(&f.skip, "skip", nil, "`columns` to ignore")
	cli.CompleteFiles(cmd, "svg", "svg")
	cli.CompleteFiles(cmd, "html", "html")
	return cmd
}

// addReference stores in a model what its rows look like. A table too small for a reference has none.
func addReference(ctx context.Context, src data.Source, m *machine.Model, seed uint64) error {
	if err := interrupted(ctx); err != nil {
		return err
	}
	r, err := watch.Model(src, m, watch.Options{Seed: seed})
	if errors.Is(err, watch.ErrFew) {
		return nil
	}
	if err != nil {
		return err
	}
	return watch.Attach(m, r)
}

func runWatch(env *cli.Env, cmd *cobra.Command, f *watchFlags, args []string) error {
	start := time.Now()
	if !(f.level > 0 && f.level < 1) {
		return cli.Misused("--level is %g, want a probability between 0 and 1, such as 0.05", f.level)
	}
	r := WatchResult{Against: "the rows of the fit"}
	var m *machine.Model
	// With --reference the first argument may be a model or a table.
	if f.reference == "" || len(args) > 1 && isModel(args[0]) {
		var err error
		if m, err = loadModel(args[0], args[1:]); err != nil {
			return err
		}
		r.Model, args = args[0], args[1:]
	} else if isModel(args[0]) {
		return cli.Misused("%s is a model: name the new table after it", args[0])
	}
	args, err := files.Expand(args...)
	if err != nil {
		return err
	}
	for _, out := range []string{f.svg, f.html} {
		if err := differentFile(out, append([]string{r.Model, f.reference}, args...)...); err != nil {
			return err
		}
	}
	ref, err := f.readReference(env, m, &r)
	if err != nil {
		return err
	}
	if m != nil {
		f.ReadLike(m)
	}
	src, _, err := f.OpenOnce(env, args)
	if err != nil {
		return err
	}
	if r.Data = src.Name(); m != nil {
		if err := checkSkipped(f.skip, m, src.Name(), src.Columns()); err != nil {
			return err
		}
	}
	monitor := ref.Monitor()
	o := watch.TableOptions{Model: m, Ignore: f.skip}
	if m != nil && len(targetNames(m)) > 0 && !slices.ContainsFunc(targetNames(m), func(n string) bool {
		return !slices.Contains(src.Columns(), n)
	}) {
		if o.Evaluation, err = m.Evaluation(); err != nil {
			return err
		}
	}
	if err := monitor.AddTable(src, o); err != nil {
		if m != nil {
			return explainColumns(err, src.Name(), m, src.Columns(), "leave them out with --skip")
		}
		return err
	}
	if r.Report, err = monitor.Report(f.level); err != nil {
		return fmt.Errorf("%s: %w", src.Name(), err)
	}
	if o.Evaluation != nil {
		r.Scores = ref.Observed(o.Evaluation.Scores())
	}
	r.Seconds = time.Since(start).Seconds()
	if err := f.draw(env, monitor, &r); err != nil {
		return err
	}
	if env.JSON {
		err = env.Object(r)
	} else {
		err = r.print(cli.Printable{Writer: env.Stdout})
	}
	if err == nil && f.fail && r.Changed {
		return cli.ErrChanged
	}
	return err
}

// isModel reports whether a file is a model.
func isModel(path string) bool {
	_, err := machine.ReadFile(path)
	return err == nil
}

// readReference returns the reference of the model, or that of --reference.
func (f *watchFlags) readReference(env *cli.Env, m *machine.Model, r *WatchResult) (*watch.Reference, error) {
	if f.reference == "" {
		ref, err := watch.Of(m)
		if errors.Is(err, watch.ErrNone) {
			return nil, fmt.Errorf("%s: %w: fit again, or name the old table with --reference", r.Model, err)
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Model, err)
		}
		return ref, nil
	}
	src, err := f.Open(env, f.reference)
	if err != nil {
		return nil, err
	}
	r.Against = "the rows of " + src.Name()
	if m != nil {
		return watch.Model(src, m, watch.Options{Seed: cli.DefaultSeed})
	}
	s, _, err := data.Learn(src, data.LearnOptions{Skip: f.skip})
	if err != nil {
		return nil, err
	}
	return watch.Table(src, s, watch.Options{Seed: cli.DefaultSeed})
}

// shownColumns is the number of columns that the text and the pictures show.
const shownColumns = 12

// changed returns the columns that changed, at most shownColumns.
func (r *WatchResult) changed() (list []watch.Column, more int) {
	for _, c := range r.Columns {
		switch {
		case !c.Changed:
		case len(list) == shownColumns:
			more++
		default:
			list = append(list, c)
		}
	}
	return list, more
}

// print writes the verdict, the columns, and what to expect of the model.
func (r *WatchResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", r.Text)
	columns, more := r.changed()
	if len(columns) > 0 {
		fmt.Fprintln(w)
		if err := cli.Table(w, func(w io.Writer) {
			fmt.Fprintln(w, "column\tp\tchange")
			for _, c := range columns {
				fmt.Fprintf(w, "%s\t%.1g\t%s\n", shorten(c.Name, 40), c.P, c.Text)
			}
		}); err != nil {
			return err
		}
	}
	if more > 0 {
		fmt.Fprintf(w, "and %s\n", count(more, "further column"))
	}
	lines := r.consequences()
	if len(lines) > 0 {
		fmt.Fprintln(w)
	}
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	return nil
}

// consequences says what the change does to the predictions.
func (r *WatchResult) consequences() (lines []string) {
	if r.Changed && r.Relation != "" {
		lines = append(lines, "Changed: "+r.Relation+".")
	}
	for _, e := range r.Expected {
		lines = append(lines, fmt.Sprintf("Expected %s, without targets: %s (%s to %s), was %s at the fit.", e.Name,
			digits(e.Value), digits(e.Low), digits(e.High), digits(e.AtFit)))
	}
	if len(r.Expected) > 0 && r.Changed {
		if r.Expected[0].Beyond {
			lines = append(lines, "Do not rely on it: many rows are far from all rows of the fit.")
		} else {
			lines = append(lines, "It holds if only the columns changed, and not how the target depends on them.")
		}
	}
	for _, s := range r.Scores {
		lines = append(lines, "With targets: "+s.Text+".")
	}
	if r.Far > 2*r.FarAtFit {
		lines = append(lines, fmt.Sprintf("%.1f %% of the rows are far from all rows of the fit, %.1f %% were.", 100*r.Far,
			100*r.FarAtFit))
	}
	return lines
}

// figures draws the old and the new distribution of columns.
func (r *WatchResult) figures(m *watch.Monitor, columns []watch.Column) (figs []figure.Figure) {
	for _, c := range columns {
		h := m.Histogram(c)
		f := figure.Figure{Title: c.Name, Subtitle: c.Text, Width: 420, Height: 320, X: figure.Axis{Label: c.Name},
			Y: figure.Axis{Label: "share of rows", Over: []float64{0}}}
		old, now := figure.Series{Name: "old"}, figure.Series{Name: "new"}
		for k := range h.Old {
			x, width := float64(k), 1.0
			if h.Edges != nil {
				x, width = (h.Edges[k]+h.Edges[k+1])/2, h.Edges[k+1]-h.Edges[k]
				f.Y.Label = "share of rows per unit"
				if width <= 0 || math.IsInf(width, 0) {
					continue
				}
			}
			old.X, old.Y = append(old.X, x), append(old.Y, h.Old[k]/width)
			now.X, now.Y = append(now.X, x), append(now.Y, h.New[k]/width)
		}
		if h.Names != nil {
			f.X.Ticks, f.X.Names = old.X, h.Names
			old.Loose, now.Loose = true, true
		}
		if f.Series = []figure.Series{old, now}; len(old.X) > 0 {
			figs = append(figs, f)
		}
	}
	return figs
}

// draw writes the files of --svg and --html.
func (f *watchFlags) draw(env *cli.Env, m *watch.Monitor, r *WatchResult) error {
	if f.svg == "" && f.html == "" {
		return nil
	}
	columns, _ := r.changed()
	if len(columns) == 0 {
		columns = r.Columns[:min(len(r.Columns), 4)]
	}
	figs := r.figures(m, columns)
	var out cli.Outputs
	defer out.Abort()
	if f.svg != "" {
		if len(figs) == 0 {
			return fmt.Errorf("--svg: no column has values to draw")
		}
		w, err := out.Create(f.svg, env)
		if err != nil {
			return err
		}
		if err := figs[0].WriteSVG(w); err != nil {
			return err
		}
	}
	if f.html != "" {
		w, err := out.Create(f.html, env)
		if err != nil {
			return err
		}
		b := newPage("Watching "+cmp.Or(r.Model, r.Data), r.Text)
		b.card("Columns", "Each column by itself, compared with "+r.Against+
			". p is corrected for the number of columns.")
		var cells [][]string
		for _, c := range r.Columns[:min(len(r.Columns), 4*shownColumns)] {
			verdict := ""
			if c.Changed {
				verdict = "changed"
			}
			cells = append(cells, []string{c.Name, fmt.Sprintf("%.1g", c.P), verdict, c.Text})
		}
		b.table([]string{"column", "p", "", "change"}, cells)
		b.figures(figs, nil)
		b.end()
		if lines := r.consequences(); len(lines) > 0 {
			b.card("Predictions", "")
			for _, line := range lines {
				b.text("p", line)
			}
			b.end()
		}
		if err := b.write(w); err != nil {
			return err
		}
	}
	return out.Commit()
}

package tables

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tableflags"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/machine"
)

// ExplainResult is the object of explain --json.
type ExplainResult struct {
	Model string       `json:"model"`
	Data  string       `json:"data"`
	Task  machine.Task `json:"task"`
	Rows  int          `json:"rows"` // number of rows used
	// Dependence, with --column, says how predictions depend on each of these columns.
	Dependence []machine.Dependence `json:"dependence,omitempty"`
	Row        int64                `json:"row,omitempty"` // the explained row, from 1
	// Contribution of each column to the prediction of this row.
	Explanation *machine.Explanation `json:"explanation,omitempty"`
	// Nearest training rows, if the model keeps them.
	Neighbours   []machine.Neighbour `json:"neighbours,omitempty"`
	NoNeighbours string              `json:"no_neighbours,omitempty"` // why there are no neighbours
	// Importance of every column, the largest first (with --page, if DATA has the targets).
	Importance []machine.Importance `json:"importance,omitempty"`
	Seed       uint64               `json:"seed"`
	Seconds    float64              `json:"seconds"`
}

type explainFlags struct {
	tableflags.Flags
	columns   []string
	row       int64
	output    string
	svg, page string
	skip      []string
	orders    int
	nearest   int
	seed      uint64
}

// explainRows bounds the rows used: partial dependence predicts all of them for every value of a column.
const explainRows = 1000

func ExplainCommand(env *cli.Env) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain MODEL DATA...",
		Short: "Show how predictions depend on a column, or which columns explain one prediction",
		Long: `Show what a model has learned.

--column shows partial dependence: for each value of the column, the mean prediction of up to 1000 rows of DATA that are
all given this value. The interval is of the mean over rows. If columns are correlated, some of these rows are unlike any
real row. Without --column and --row, all columns are shown.

--row explains the prediction of one row of DATA, counted from 1. It shows what each column contributes to the difference
from the mean prediction (Shapley values, estimated from random orders of the columns, with intervals for that sampling).
It also lists the nearest training rows if the model contains them: a model with the exact kernel contains all rows, one
with Nyström features some, one with random features none.

--output names the class, or one of several targets, to explain. The default is the predicted class of the row, the last
class, or the first target.

An explanation describes the model, not the world: a column may act for another one that it is correlated with.`,
		Example: `  randfeat explain model.rf data.csv --column temperature --svg temperature.svg
  randfeat explain model.rf data.csv --row 17
  randfeat explain model.rf data.csv --page model.html`,
		Args:              modelAndTable,
		ValidArgsFunction: modelArgs,
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			return runExplain(env, cmd, &f, args[0], args[1:])
		}),
	}
	f.Add(cmd)
	cli.GroupFlags(cmd, []cli.FlagGroup{{Title: "Flags",
		Names: strings.Fields("column row output svg page skip orders nearest seed")}, tableflags.Group})
	flags := cmd.Flags()
	flags.StringArrayVar(&f.columns, "column", nil, "`column` to vary; repeatable")
	flags.Int64Var(&f.row, "row", 0, "number of the row to explain, from 1")
	flags.StringVar(&f.output, "output", "", "`class` or target to explain")
	flags.StringVar(&f.svg, "svg", "", "SVG `file` for the figure of one --column")
	flags.StringVar(&f.page, "page", "", "HTML `file` to write: a page with all figures and tables")
	flags.StringSliceVar(&f.skip, "skip", nil, "`columns` to ignore that the model does not know")
	flags.IntVar(&f.orders, "orders", 500, "with --row: random orders of the columns")
	flags.IntVar(&f.nearest, "nearest", 5, "with --row: nearest training rows to show")
	flags.Uint64Var(&f.seed, "seed", cli.DefaultSeed, "seed of the sampled rows and orders")
	cli.CompleteFiles(cmd, "svg", "svg")
	cli.CompleteFiles(cmd, "page", "html")
	return cmd
}

func runExplain(env *cli.Env, cmd *cobra.Command, f *explainFlags, modelPath string, paths []string) error {
	start := time.Now()
	m, err := loadModel(modelPath, paths)
	if err != nil {
		return err
	}
	switch {
	case m.Schema == nil:
		return fmt.Errorf("%s: the model has no schema, it predicts matrices only: fit it to a table", modelPath)
	case cmd.Flags().Changed("row") && f.row < 1:
		return cli.Misused("--row is %d, want 1 or more", f.row)
	case f.svg != "" && len(f.columns) != 1:
		return cli.Misused("--svg draws the dependence on one column: name it with --column, or use --page for several")
	case f.orders < 4 || f.nearest < 1:
		return cli.Misused("--orders is %d and --nearest %d, want at least 4 and 1", f.orders, f.nearest)
	}
	output, err := f.outputOf(m)
	if err != nil {
		return err
	}
	if len(f.columns) == 0 && f.row == 0 {
		for i := range m.Schema.Fields {
			if fd := &m.Schema.Fields[i]; fd.Kind != data.Words {
				f.columns = append(f.columns, fd.Name)
			}
		}
	}
	for _, c := range f.columns {
		if !slices.ContainsFunc(m.Schema.Fields, func(fd data.Field) bool { return fd.Name == c }) {
			return cli.Misused("--column: the model has no column %q%s", c, columnHint(c, fieldNames(m)))
		}
	}
	f.ReadLike(m)
	if paths, err = files.Expand(paths...); err != nil {
		return err
	}
	src, _, err := f.Source(env, paths, true)
	if err != nil {
		return err
	}
	columns := src.Columns()
	if err := checkSkipped(f.skip, m, src.Name(), columns); err != nil {
		return err
	}
	x, row, err := f.read(cmd, m, src)
	if err != nil {
		return explainColumns(err, src.Name(), m, columns, "leave them out with --skip")
	}
	switch {
	case x.Rows == 0:
		return &data.InputError{Place: src.Name(), Detail: "the table has columns but no rows"}
	case f.row > 0 && row == nil:
		return cli.Misused("--row is %d, %s has fewer rows", f.row, src.Name())
	case x.Rows < 2:
		return &data.InputError{Place: src.Name(), Detail: "one row explains nothing: give a table of rows like those of the fit"}
	}
	r := ExplainResult{Model: modelPath, Data: src.Name(), Task: m.Task, Rows: x.Rows, Row: f.row, Seed: f.seed}
	if row != nil {
		if err := r.explainRow(cmd, f, m, row, x, output); err != nil {
			return err
		}
	}
	if output < 0 {
		output = m.Outputs - 1
		if m.Task == machine.Regression {
			output = 0
		}
	}
	for _, c := range f.columns {
		d, err := m.PartialDependence(cmd.Context(), x, c, output)
		if err != nil {
			return err
		}
		r.Dependence = append(r.Dependence, *d)
	}
	if f.page != "" && f.row == 0 && len(r.Dependence) > 1 {
		if err := r.rank(cmd, f, m, src); err != nil {
			return err
		}
	}
	r.Seconds = time.Since(start).Seconds()
	if err := r.draw(env, f, m); err != nil {
		return err
	}
	switch {
	case env.JSON:
		return env.Object(r)
	case f.page != "":
		env.Note("wrote %s", f.page)
		return nil
	}
	return r.print(cli.Printable{Writer: env.Stdout})
}

// rank measures the importance of the columns, if the table has the targets, and puts the figures in this order.
func (r *ExplainResult) rank(cmd *cobra.Command, f *explainFlags, m *machine.Model, src data.Source) error {
	for _, t := range m.Schema.Targets {
		if !slices.Contains(src.Columns(), t.Name) {
			return nil
		}
	}
	if len(m.Schema.Targets) == 0 {
		return nil
	}
	rows, err := machine.ModelRows(src, allowing(m, f.skip), true, nil)
	if err != nil {
		return err
	}
	kept := machine.NewReservoir(explainRows, f.seed)
	err = rows.Each(predictRows, func(x, y dense.Matrix[float64]) error {
		kept.Add(x, y)
		return interrupted(cmd.Context())
	})
	var bad *data.InputError
	if errors.As(err, &bad) {
		return nil // a target is missing or unreadable: nothing is compared
	}
	if err != nil {
		return err
	}
	r.Importance, err = m.Importances(kept.X, kept.Y, machine.ImportanceOptions{Seed: f.seed,
		Progress: func(int, int) error { return interrupted(cmd.Context()) }})
	place := func(d machine.Dependence) int {
		return slices.IndexFunc(r.Importance, func(i machine.Importance) bool { return i.Column == d.Column })
	}
	slices.SortStableFunc(r.Dependence, func(a, b machine.Dependence) int { return cmp.Compare(place(a), place(b)) })
	return err
}

// outputOf returns the number of the requested output; −1 if none was requested.
func (f *explainFlags) outputOf(m *machine.Model) (int, error) {
	if f.output == "" {
		return -1, nil
	}
	var names []string
	for k := range m.Outputs {
		names = append(names, m.OutputName(k))
	}
	k := slices.Index(names, f.output)
	if k < 0 {
		return 0, cli.Misused("--output is %q, the model predicts %s", f.output, quoted(names))
	}
	return k, nil
}

func fieldNames(m *machine.Model) []string {
	var out []string
	for _, f := range m.Schema.Fields {
		out = append(out, f.Name)
	}
	return out
}

// read keeps a random sample of rows, and the row to explain, in one pass.
func (f *explainFlags) read(cmd *cobra.Command, m *machine.Model, src data.Source) (x dense.Matrix[float64],
	row []float64, err error) {
	rows, err := machine.ModelRows(src, allowing(m, f.skip), false, nil)
	if err != nil {
		return x, nil, err
	}
	kept, first := machine.NewReservoir(explainRows, f.seed), int64(0)
	err = rows.Each(predictRows, func(x, _ dense.Matrix[float64]) error {
		kept.Add(x, dense.New[float64](x.Rows, 0))
		if at := f.row - 1 - first; f.row > 0 && at >= 0 && at < int64(x.Rows) {
			row = slices.Clone(x.Row(int(at)))
		}
		first += int64(x.Rows)
		return interrupted(cmd.Context())
	})
	return kept.X, row, err
}

// explainRow explains the prediction of a row, for its predicted class unless output is given.
func (r *ExplainResult) explainRow(cmd *cobra.Command, f *explainFlags, m *machine.Model, row []float64,
	x dense.Matrix[float64], output int) error {
	if output < 0 {
		output = 0
		if m.Task == machine.Classification {
			p, err := machine.NewPredictor[float64](m)
			if err != nil {
				return err
			}
			pred := dense.New[float64](1, m.Outputs)
			one := dense.Matrix[float64]{Rows: 1, Cols: len(row), Stride: len(row), Data: row}
			if err := p.Predict(pred, one, nil); err != nil {
				return err
			}
			output = machine.Class(pred.Row(0))
		}
	}
	var err error
	r.Explanation, err = m.Contributions(cmd.Context(), row, x, output,
		machine.ExplainOptions{Orders: f.orders, Seed: f.seed})
	if err != nil {
		return err
	}
	r.Neighbours, err = m.Neighbours(row, f.nearest)
	if errors.Is(err, machine.ErrSetup) {
		r.NoNeighbours = strings.TrimSuffix(err.Error(), ": "+machine.ErrSetup.Error())
		err = nil
	}
	return err
}

// figureOf draws the dependence on a column, over the shares of rows; levels stand on the axis by name, in their order.
func figureOf(d *machine.Dependence, m *machine.Model) figure.Figure {
	s := figure.Series{Name: d.Output}
	fig := figure.Figure{X: figure.Axis{Label: d.Column}, Y: figure.Axis{Label: d.Output}}
	levels := d.Kind == data.Categorical || d.Kind == data.Boolean
	points := slices.Clone(d.Points)
	if levels {
		var labels []string
		for _, p := range points {
			labels = append(labels, p.Label)
		}
		order := figure.InOrder(labels)
		slices.SortStableFunc(points, func(a, b machine.DependencePoint) int {
			return cmp.Compare(slices.Index(order, a.Label), slices.Index(order, b.Label))
		})
	}
	for i, p := range points {
		at := float64(i + 1)
		if !levels && p.Value == nil {
			continue // missing
		} else if !levels {
			at = *p.Value
		}
		if levels || d.Kind == data.Time && i%3 == 0 {
			fig.X.Ticks, fig.X.Names = append(fig.X.Ticks, at), append(fig.X.Names, p.Label)
		}
		s.X, s.Y, s.Share = append(s.X, at), append(s.Y, p.Mean), append(s.Share, p.Share)
		s.Low, s.High = append(s.Low, p.Low), append(s.High, p.High)
	}
	if s.Loose = levels; levels {
		fig.X.Over = []float64{0.5, float64(len(points)) + 0.5}
	}
	what := "mean prediction of " + d.Output
	if m.Task == machine.Classification {
		what = "mean prediction of class " + d.Output
	}
	fig.Title, fig.Series = fmt.Sprintf("%s by %s", d.Output, d.Column), []figure.Series{s}
	fig.Subtitle = fmt.Sprintf("%s over %d rows, with 95 %% intervals; bars: shares of rows", what, d.Rows)
	return fig
}

// draw writes the requested figure and page.
func (r *ExplainResult) draw(env *cli.Env, f *explainFlags, m *machine.Model) error {
	var out cli.Outputs
	defer out.Abort()
	if f.svg != "" {
		w, err := out.Create(f.svg, env)
		if err != nil {
			return err
		}
		fig := figureOf(&r.Dependence[0], m)
		if err := fig.WriteSVG(w); err != nil {
			return err
		}
	}
	if f.page != "" {
		w, err := out.Create(f.page, env)
		if err != nil {
			return err
		}
		if err := r.writePage(w, m); err != nil {
			return err
		}
	}
	return out.Commit()
}

// writePage writes one self-contained HTML file. All texts from models and tables are escaped.
func (r *ExplainResult) writePage(w io.Writer, m *machine.Model) error {
	b := newPage("What "+r.Model+" has learned",
		fmt.Sprintf("By %d rows of %s. An explanation is of the model, not of the world.", r.Rows, r.Data))
	if x := r.Explanation; x != nil {
		b.card(fmt.Sprintf("Row %d", r.Row), fmt.Sprintf("%s is predicted as %s; the mean prediction is %s. Columns contribute to the "+
			"difference (Shapley values by %d orders of columns, with 95 %% intervals):", x.Output, digits(x.Prediction), digits(x.Mean),
			x.Orders))
		var list []bar
		for _, c := range x.Parts {
			list = append(list, bar{c.Column + " = " + c.Value, c.Part, c.Low, c.High})
		}
		b.bars(list)
		if r.NoNeighbours != "" {
			b.text("p", upperFirst(r.NoNeighbours)+".")
		} else {
			b.neighbours(r.Neighbours, fieldNames(m))
		}
		b.end()
	}
	if len(r.Importance) > 0 {
		d := r.Importance[0].Drop
		b.card("What matters", fmt.Sprintf("%s falls by this if the column is shuffled among %d rows, with 95 %% intervals.", d.Name, d.Rows))
		b.importance(r.Importance)
		b.end()
	}
	var figs []figure.Figure
	var over []float64 // one y axis for all
	for i := range r.Dependence {
		fig := figureOf(&r.Dependence[i], m)
		fig.Title, fig.Subtitle, fig.X.Label, fig.Width, fig.Height = fig.X.Label, "", "", 420, 300
		s := &fig.Series[0]
		s.Name = ""
		over = append(over, slices.Min(s.Low), slices.Max(s.High))
		figs = append(figs, fig)
	}
	if len(figs) > 0 {
		b.card("Mean prediction of "+r.Dependence[0].Output+" by column",
			fmt.Sprintf("Over %d rows that are all given the value, with "+
				"95 %% intervals of the mean. Bars are the shares of rows: where there are none, a curve is a guess.", r.Rows))
		b.figures(figs, over)
		b.end()
	}
	return b.write(w)
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (r *ExplainResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, by %d rows of %s\n", r.Model, r.Rows, r.Data)
	if x := r.Explanation; x != nil {
		fmt.Fprintf(w, "\nRow %d: %s is predicted as %s, the mean prediction is %s. Columns contribute to the difference:\n", r.Row,
			x.Output, digits(x.Prediction), digits(x.Mean))
		if err := cli.Table(w, func(w io.Writer) {
			fmt.Fprintln(w, "column\tvalue\tcontribution\t95 % interval")
			for _, c := range x.Parts[:min(len(x.Parts), maxImportant)] {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s to %s\n", shorten(c.Column, 40), shorten(c.Value, 30), digits(c.Part),
					digits(c.Low), digits(c.High))
			}
		}); err != nil {
			return err
		}
		if r.NoNeighbours != "" {
			fmt.Fprintf(w, "%s.\n", upperFirst(r.NoNeighbours))
		} else {
			fmt.Fprintln(w, "\nNearest rows of the fit, by the kernel:")
			for _, n := range r.Neighbours {
				var cells []string
				for _, c := range x.Parts[:min(len(x.Parts), 8)] {
					if v, ok := n.Values[c.Column]; ok {
						cells = append(cells, c.Column+" "+v)
					}
				}
				fmt.Fprintf(w, "  %.3f  %s\n", n.Similarity, strings.Join(cells, ", "))
			}
		}
	}
	for _, d := range r.Dependence {
		fmt.Fprintf(w, "\nMean prediction of %s by %s:\n", d.Output, d.Column)
		if err := cli.Table(w, func(w io.Writer) {
			fmt.Fprintln(w, "value\tmean\t95 % interval\tshare of rows")
			for _, p := range d.Points {
				fmt.Fprintf(w, "%s\t%s\t%s to %s\t%.0f %%\n", shorten(p.Label, 30), digits(p.Mean), digits(p.Low),
					digits(p.High), 100*p.Share)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

package tables

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tableflags"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/machine"
)

// PredictResult is the object of predict --json with -o.
type PredictResult struct {
	Out     string   `json:"out"`
	Format  string   `json:"format"` // format of the output
	Rows    int64    `json:"rows"`
	Columns []string `json:"columns"` // columns of the output
	Model   string   `json:"model"`
	Seconds float64  `json:"seconds"`
	// Surprises say how the rows differ from the training rows.
	Surprises []data.Surprise `json:"surprises,omitempty"`
}

type predictFlags struct {
	tableflags.Flags
	out, to                         string
	probabilities, scores, variance bool
	single, strict                  bool
	interval                        float64
	ids, keep, skip                 []string
}

func PredictCommand(env *cli.Env) *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:   "predict MODEL DATA... [-o FILE]",
		Short: "Predict the rows of a table with a fitted model",
		Long: `Predict every row of DATA with a model that 'randfeat fit' has written. Columns are found by name; DATA needs no target.
The output has the format of DATA (CSV, TSV, NDJSON, npy, npz, Parquet) unless the name after -o, or --to, asks for
another. Without -o, text formats go to stdout. DATA may be - for stdin, or a named pipe.

` + manyFiles + `
Predictions are one table, in the order of the rows.

The output has the model's id columns (or those of --ids), the columns of --keep, and then
  prediction            the target or the class; prediction_<target> if the model has several targets
  p_<class>             with --probabilities: one column per class; ridge models calibrate them on held-out rows
  score_<class>         with --scores: the class with the largest score is predicted
  variance              with --variance: of a new observation (Gaussian processes)
  lower, upper          with --interval 0.9: 90 % of new observations lie between them, according to the errors on
                        held-out rows (all regressions)
  log_density, anomaly  of a density model; anomaly is the fraction of training rows that were more likely

Unseen categories count as "other". A missing value is replaced by the mean, or has its own indicator if values were
missing in training. Columns that the model does not know are errors: name them in --keep or --skip.
Memory does not grow with the number of rows. The output file appears only when it is complete.`,
		Example: `  randfeat predict model.rf new.csv
  randfeat predict model.rf new.parquet --probabilities -o predictions.parquet
  zcat new.csv.gz | randfeat predict model.rf - --to ndjson --keep name`,
		Args:              modelAndTable,
		ValidArgsFunction: modelArgs,
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			return runPredict(env, cmd, &f, args[0], args[1:])
		}),
	}
	f.Add(cmd)
	cli.GroupFlags(cmd, []cli.FlagGroup{{Title: "Flags", Names: strings.Fields(`out to probabilities scores variance
		interval float32 strict ids keep skip`)}, tableflags.Group})
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "`file` to write; - for stdout")
	flags.StringVar(&f.to, "to", "", "`format` to write: "+strings.Join(tableflags.TableFormats,
		", ")+" (default: by the name of -o, else the format of DATA)")
	flags.BoolVar(&f.probabilities, "probabilities", false, "add the probability of every class")
	flags.BoolVar(&f.scores, "scores", false, "add the score of every class")
	flags.BoolVar(&f.variance, "variance", false, "add the variance of a new observation")
	flags.Float64Var(&f.interval, "interval", 0, "add limits that contain this share of new observations, such as 0.9")
	flags.BoolVar(&f.single, "float32", false, "compute in float32: faster, with two to six right digits (fewest for a wide kernel with a small λ)")
	flags.BoolVar(&f.strict, "strict", false, strictUsage)
	flags.StringSliceVar(&f.ids, "ids", nil, "`columns` to copy to the output instead of the model's id columns; \"\" for none")
	flags.StringSliceVar(&f.keep, "keep", nil, "further `columns` to copy to the output")
	flags.StringSliceVar(&f.skip, "skip", nil, "`columns` to ignore that the model does not know")
	cli.CompleteNames(cmd, "to", func() []string { return tableflags.TableFormats })
	return cmd
}

const strictUsage = "make values unlike those of the training table an error (unseen levels, numbers out of range, " +
	"new missing values, text among numbers or dates, changed constants); otherwise they are counted"

// surprised prints how the rows of a table differ from the training rows.
func surprised(env *cli.Env, list []data.Surprise) {
	for _, s := range list {
		if !s.Usual {
			env.Note("note: %v", s)
		}
	}
}

// modelArgs completes a model file and then any files.
func modelArgs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return []string{"rf"}, cobra.ShellCompDirectiveFilterFileExt
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// modelAndTable checks the arguments of commands that read a table with a model.
var modelAndTable = atLeast("a model and a table", 2)

// loadModel reads the model of a command. An error says so if it is the second argument that is the model.
func loadModel(path string, tables []string) (*machine.Model, error) {
	m, err := machine.Load(path)
	if err != nil && len(tables) > 0 {
		if _, other := machine.Load(tables[0]); other == nil {
			return nil, cli.Misused("%s is no model, but %s is: name the model first, then the table", path, tables[0])
		}
	}
	return m, err
}

// predictRows is the number of rows per block.
const predictRows = 4096

// runPredict streams rows through the model: each block is read, predicted and written before the next. Outputs
// other than stdout appear when complete.
func runPredict(env *cli.Env, cmd *cobra.Command, f *predictFlags, modelPath string, paths []string) error {
	start := time.Now()
	if f.to != "" && !slices.Contains(tableflags.TableFormats, f.to) {
		return cli.Misused("--to is %q, want one of %s", f.to, strings.Join(tableflags.TableFormats, ", "))
	}
	if cmd.Flags().Changed("interval") && !(f.interval > 0 && f.interval < 1) {
		return cli.Misused("--interval is %g, want a share between 0 and 1, such as 0.9", f.interval)
	}
	paths, err := files.Expand(paths...)
	if err != nil {
		return err
	}
	if err := differentFile(f.out, append([]string{modelPath}, paths...)...); err != nil {
		return err
	}
	m, err := loadModel(modelPath, paths)
	if err != nil {
		return err
	}
	f.ReadLike(m)
	src, format, err := f.OpenOnce(env, paths)
	if err != nil {
		return err
	}
	columns := src.Columns()
	carry, err := f.carried(cmd, m, src.Name(), columns)
	if err != nil {
		return err
	}
	p, err := machine.NewTablePredictor(allowing(m, append(slices.Clone(f.skip), pick(columns, carry)...)),
		machine.TableOptions{Probabilities: f.probabilities, Scores: f.scores, Variance: f.variance, NoIDs: true,
			Float32: f.single, Watch: true, Strict: f.strict, Interval: f.interval})
	if err != nil {
		return fmt.Errorf("%s: %w", modelPath, err)
	}
	run, err := p.Open(columns)
	if err != nil {
		return explainColumns(err, src.Name(), m, columns, "carry them along with --keep, or leave them out with --skip")
	}
	out, err := f.output(env, p, format, columns, carry)
	if err != nil {
		return err
	}
	defer out.abort()
	kinds := run.Kinds()
	typed, isTyped := data.As[interface{ Integer(j int) bool }](src)
	for _, j := range carry {
		switch {
		case kinds[j] != data.Skip:
		case isTyped && typed.Integer(j): // float64 may not hold all digits
			kinds[j], out.integer[j] = data.Text, true
		default:
			kinds[j] = data.Infer
		}
	}
	bar := env.Progress("rows", estimateRows(paths, format)).WithRate("rows")
	bar.Approx = true
	defer bar.End()
	err = run.Each(src, kinds, predictRows, func(predictions, cells *data.Block) error {
		if err := interrupted(cmd.Context()); err != nil {
			return err
		}
		if err := out.write(predictions, cells, src.Name()); err != nil {
			return err
		}
		bar.At(int(out.rows))
		return nil
	})
	if err == nil {
		err = out.close()
	}
	if err != nil {
		return err
	}
	bar.End()
	surprised(env, run.Surprises())
	if f.out == "" || f.out == "-" {
		return nil
	}
	seconds := time.Since(start).Seconds()
	if env.JSON {
		return env.Object(PredictResult{Out: f.out, Format: out.format, Rows: out.rows, Columns: out.columns,
			Model:   modelPath,
			Seconds: seconds, Surprises: run.Surprises()})
	}
	env.Note("%s: %d rows in %.2f s", f.out, out.rows, seconds)
	return nil
}

func interrupted(ctx context.Context) error {
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	return nil
}

// differentFile refuses to write over a file that is read.
func differentFile(out string, inputs ...string) error {
	if out == "" || out == "-" {
		return nil
	}
	o, err := os.Stat(out)
	if err != nil || !o.Mode().IsRegular() {
		return nil
	}
	for _, in := range inputs {
		if i, err := os.Stat(in); in != "-" && err == nil && os.SameFile(o, i) {
			return cli.Misused("-o %s would overwrite the input %s", out, in)
		}
	}
	return nil
}

// carried returns the columns of the table that the output begins with: ids, then those of --keep.
func (f *predictFlags) carried(cmd *cobra.Command, m *machine.Model, table string, columns []string) ([]int, error) {
	var carry []int
	find := func(flag string, names []string) error {
		for _, n := range names {
			j := slices.Index(columns, n)
			if j < 0 {
				return noColumn(table, n, flag, columns)
			}
			if !slices.Contains(carry, j) {
				carry = append(carry, j)
			}
		}
		return nil
	}
	if cmd.Flags().Changed("ids") {
		if err := find("--ids", f.ids); err != nil {
			return nil, err
		}
	} else if m.Schema != nil {
		for j, c := range columns {
			if slices.Contains(m.Schema.IDs, c) {
				carry = append(carry, j)
			}
		}
	}
	if err := find("--keep", f.keep); err != nil {
		return nil, err
	}
	return carry, checkSkipped(f.skip, m, table, columns)
}

// checkSkipped refuses to skip columns that the table does not have, or that the model reads.
func checkSkipped(skip []string, m *machine.Model, table string, columns []string) error {
	for _, n := range skip {
		if !slices.Contains(columns, n) {
			return noColumn(table, n, "--skip", columns)
		}
		if m.Schema != nil && slices.ContainsFunc(m.Schema.Fields, func(f data.Field) bool { return f.Name == n }) {
			return cli.Misused("--skip %s: the model predicts from this column; fit without it instead", n)
		}
	}
	return nil
}

func pick(columns []string, at []int) []string {
	var out []string
	for _, j := range at {
		out = append(out, columns[j])
	}
	return out
}

// noColumn is the error for a column that a table does not have; it suggests a similar name. flag says who named the
// column.
func noColumn(table, name, flag string, columns []string) error {
	detail := fmt.Sprintf("no column %q%s", name, columnHint(name, columns))
	if strings.HasPrefix(flag, "--") {
		return fmt.Errorf("%s: %w", flag, &data.InputError{Place: table, Detail: detail, Err: data.ErrSchema})
	}
	detail = fmt.Sprintf("no column %q, %s%s", name, flag, columnHint(name, columns))
	return &data.InputError{Place: table, Detail: detail, Err: data.ErrSchema}
}

// columnHint suggests a similar name, or lists a few columns.
func columnHint(name string, columns []string) string {
	if n := similar.Nearest(name, columns); n != "" {
		return fmt.Sprintf(", did you mean %q?", n)
	} else if len(columns) <= 20 {
		return fmt.Sprintf("; the columns are %s", quoted(columns))
	}
	return ""
}

func quoted(names []string) string {
	var q []string
	for _, n := range names {
		q = append(q, fmt.Sprintf("%q", n))
	}
	return strings.Join(q, ", ")
}

// allowing returns m with further columns that its tables may have. They count as ignored columns.
func allowing(m *machine.Model, names []string) *machine.Model {
	if m.Schema == nil {
		return m
	}
	s := *m.Schema
	known := map[string]bool{}
	for _, f := range s.Fields {
		known[f.Name] = true
	}
	for _, t := range s.Targets {
		known[t.Name] = true
	}
	for _, n := range slices.Concat(s.IDs, s.Ignored) {
		known[n] = true
	}
	s.Ignored = slices.Clone(s.Ignored)
	for _, n := range names {
		if !known[n] {
			known[n] = true
			s.Ignored = append(s.Ignored, n)
		}
	}
	out := *m
	out.Schema = &s
	return &out
}

// explainColumns extends an error about columns: which columns may be meant, and remedy for unknown ones.
func explainColumns(err error, table string, m *machine.Model, columns []string, remedy string) error {
	var wrong *data.SchemaError
	if !errors.As(err, &wrong) || m.Schema == nil {
		return err
	}
	known := slices.Concat(m.Schema.IDs, m.Schema.Ignored)
	var fields []string
	for _, f := range m.Schema.Fields {
		fields = append(fields, f.Name)
	}
	for _, t := range m.Schema.Targets {
		known = append(known, t.Name)
	}
	known = append(known, fields...)
	var unknown, hints []string
	for _, c := range columns {
		if !slices.Contains(known, c) {
			unknown = append(unknown, c)
		}
	}
	missing := 0
	for _, n := range fields {
		if slices.Contains(columns, n) {
			continue
		}
		missing++
		if near := similar.Nearest(n, unknown); near != "" && len(hints) < 5 {
			hints = append(hints, fmt.Sprintf("is %q the column %q?", near, n))
		}
	}
	detail := wrong.Text()
	switch {
	case missing == len(fields) && unnamed(columns):
		hints = []string{fmt.Sprintf("the model was fitted to columns named %s: does the table have a header?",
			quoted(fields[:min(len(fields), 5)]))}
	case missing == 0 && len(unknown) > 0:
		detail = wrong.Detail
		hints = append(hints, remedy)
	}
	if len(hints) > 0 {
		detail += "; " + strings.Join(hints, " ")
	}
	return &data.InputError{Place: table, Detail: detail, Err: err}
}

// unnamed reports whether the columns have no names of their own (c1, c2, …).
func unnamed(columns []string) bool {
	for j, c := range columns {
		if c != fmt.Sprintf("c%d", j+1) {
			return false
		}
	}
	return true
}

// predictOutput is the table that predict writes.
type predictOutput struct {
	format  string
	columns []string
	carry   []int
	kinds   []data.Kind  // kinds of the predictions
	integer map[int]bool // columns of the table that have an integer type
	numbers bool         // the format holds numbers only
	create  func(kinds []data.Kind) (data.Writer, error)
	w       data.Writer
	block   data.Block
	rows    int64
}

// output decides the format and checks everything that can be checked before there are rows.
func (f *predictFlags) output(env *cli.Env, p *machine.TablePredictor, input string, columns []string,
	carry []int) (*predictOutput, error) {
	o := &predictOutput{format: f.to, carry: carry, columns: pick(columns, carry), integer: map[int]bool{}}
	names, kinds := p.Columns()
	o.columns, o.kinds = append(o.columns, names...), kinds
	for _, n := range pick(columns, carry) {
		if slices.Contains(names, n) {
			return nil, cli.Misused("the column %q of the table has the name of a column of predictions: rename it, or do not "+
				"carry it along", n)
		}
	}
	stdout := f.out == "" || f.out == "-"
	switch {
	case o.format != "":
	case stdout && env.JSON:
		o.format = "ndjson"
	case !stdout && data.FormatOf(f.out) != "":
		o.format = tableflags.FormatName(f.out, data.Options{Format: data.FormatOf(f.out)})
	default:
		o.format = input
	}
	o.numbers = o.format == "npy" || o.format == "npz"
	binary := o.numbers || o.format == "parquet"
	ext := tableflags.FormatName(f.out, data.Options{Format: data.FormatOf(f.out)})
	switch {
	case stdout && env.JSON && o.format != "ndjson":
		return nil, cli.Misused("--json prints objects on stdout, --to %s something else: drop one", o.format)
	case binary && f.out == "":
		return nil, cli.Misused("%s is binary: name a file with -o, or choose --to csv", o.format)
	case stdout && (o.format == "parquet" || o.format == "npz"):
		return nil, cli.Misused("%s cannot be written to stdout: name a file with -o", o.format)
	case o.format == "tsv" && !stdout && ext != "tsv":
		return nil, cli.Misused("tab-separated files are named .tsv or .tab, -o is %s", f.out)
	case o.format == "csv" && !stdout && ext == "tsv":
		return nil, cli.Misused("-o %s asks for tabs, --to for csv: drop one", f.out)
	case binary && strings.ToLower(filepath.Ext(f.out)) == ".gz":
		return nil, cli.Misused("a %s file is not compressed by gzip: choose another name than %s", o.format, f.out)
	}
	if m := p.Model(); o.numbers && m.Task == machine.Classification {
		for _, c := range m.Schema.Targets[0].Classes {
			if _, ok := cell.ParseNumber([]byte(c)); !ok {
				return nil, cli.Misused("the class %q is text, and %s files hold numbers only: choose --to csv, ndjson or parquet", c,
					o.format)
			}
		}
	}
	o.create = func(kinds []data.Kind) (data.Writer, error) {
		switch {
		case stdout:
			w, err := env.Results()
			if err != nil {
				return nil, err
			}
			return files.NewWriter(w, data.Format(o.format), o.columns, kinds)
		case o.format == "parquet":
			return parquet.Create(f.out, o.columns, kinds)
		case o.format == "tsv":
			return files.Create(f.out, data.CSV, o.columns, kinds)
		}
		return files.Create(f.out, data.Format(o.format), o.columns, kinds)
	}
	return o, nil
}

// start opens the writer. Carried columns keep their kind in the table; cells is nil if the table has no rows.
func (o *predictOutput) start(cells *data.Block) error {
	var kinds []data.Kind
	for _, j := range o.carry {
		kind := data.Text
		if o.integer[j] {
			kind = data.Integer
		}
		if o.numbers || cells != nil && cells.Cols[j].Num != nil {
			kind = data.Number
		}
		kinds = append(kinds, kind)
	}
	for _, k := range o.kinds {
		if o.numbers {
			k = data.Number
		}
		kinds = append(kinds, k)
	}
	var err error
	o.w, err = o.create(kinds)
	return err
}

func (o *predictOutput) write(predictions, cells *data.Block, table string) error {
	if o.w == nil {
		if err := o.start(cells); err != nil {
			return err
		}
	}
	// The block only borrows the columns of the two others, which are valid until the next block.
	b := &o.block
	b.Rows, b.First, b.Cols = predictions.Rows, predictions.First, b.Cols[:0]
	for _, j := range o.carry {
		b.Cols = append(b.Cols, cells.Cols[j])
	}
	b.Cols = append(b.Cols, predictions.Cols...)
	if o.numbers {
		if err := o.toNumbers(b, table); err != nil {
			return err
		}
	}
	o.rows += int64(b.Rows)
	return o.w.WriteBlock(b)
}

// toNumbers replaces columns of text by numbers, for formats that hold numbers only.
func (o *predictOutput) toNumbers(b *data.Block, table string) error {
	for j := range b.Cols {
		c := &b.Cols[j]
		if c.Num != nil {
			continue
		}
		num := make([]float64, 0, len(c.Text))
		for i, t := range c.Text {
			v, ok := math.NaN(), true
			if t != nil {
				v, ok = cell.ParseNumber(t)
			}
			if !ok {
				return &data.InputError{Place: fmt.Sprintf("%s: row %d", table, b.First+int64(i)+1),
					Detail: fmt.Sprintf("column %q is %.40q, and %s files hold numbers only: choose --to csv, ndjson or parquet, "+
						"or leave the column out with --ids", o.columns[j], t, o.format)}
			}
			num = append(num, v)
		}
		*c = data.Column{Num: num}
	}
	return nil
}

func (o *predictOutput) close() error {
	if o.w == nil { // a table without rows still gets its header
		if err := o.start(nil); err != nil {
			return err
		}
	}
	return o.w.Close()
}

func (o *predictOutput) abort() {
	if o.w != nil {
		o.w.Abort()
	}
}

// estimateRows estimates the rows of text files from the lines at the beginning of the first one, for the
// progress display; 0 if that is impossible.
func estimateRows(paths []string, format string) int {
	if paths[0] == "-" || format != "csv" && format != "tsv" && format != "ndjson" ||
		strings.HasSuffix(paths[0], ".gz") {
		return 0
	}
	bytes := int64(0)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return 0 // opening a pipe a second time would wait for another writer
		}
		bytes += info.Size()
	}
	f, err := os.Open(paths[0])
	if err != nil {
		return 0
	}
	defer f.Close()
	head := make([]byte, 1<<16)
	n, _ := f.Read(head)
	lines := strings.Count(string(head[:n]), "\n")
	if n == 0 {
		return 0
	}
	return int(float64(bytes) / float64(n) * float64(lines))
}

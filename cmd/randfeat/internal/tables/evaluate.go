package tables

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tableflags"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/machine"
)

// EvaluateResult is the object of evaluate --json.
type EvaluateResult struct {
	Model   string          `json:"model"`
	Data    string          `json:"data"`
	Kind    machine.Kind    `json:"kind"`
	Task    machine.Task    `json:"task"`
	Rows    int64           `json:"rows"`
	Targets []string        `json:"targets,omitempty"`
	Scores  []machine.Score `json:"scores"` // the main one first; for several targets, output counts from 1
	// Names of the classes; other members refer to them by index, from 0.
	Classes []string              `json:"classes,omitempty"`
	ByClass []machine.ClassScores `json:"by_class,omitempty"` // scores of each class
	// Probabilities compared with frequencies.
	Reliability *machine.Reliability `json:"reliability,omitempty"`
	// Rows by true and predicted class, for at most 20 classes.
	Confusion [][]int64 `json:"confusion,omitempty"`
	// Most frequent confusions, for more than 12 classes.
	Confusions []machine.Confused `json:"confusions,omitempty"`
	// Groups are the shares of targets inside their 90 % intervals, by level of the column that intervals
	// depend on.
	Groups []machine.GroupScore `json:"groups,omitempty"`
	// Importance of every column, the largest first (with --importance).
	Importance []machine.Importance `json:"importance,omitempty"`
	Label      string               `json:"label,omitempty"`     // density: column that says which rows are normal
	Normal     string               `json:"normal,omitempty"`    // density: value of that column for normal rows
	Anomalies  int64                `json:"anomalies,omitempty"` // density: number of rows with another value
	Weight     string               `json:"weight,omitempty"`    // column of row weights
	Seconds    float64              `json:"seconds"`
	Dropped    int64                `json:"dropped,omitempty"` // rows without a target
	// Seen counts training rows, whose answers the model knows, among the rows that could be compared.
	Seen *machine.SeenRows `json:"seen,omitempty"`
	// Surprises say how the rows differ from the training rows.
	Surprises []data.Surprise `json:"surprises,omitempty"`
}

type evaluateFlags struct {
	tableflags.Flags
	label, normal string
	skip          []string
	single        bool
	strict        bool
	importance    bool
	html          string
	keep          *machine.Reservoir // rows kept for --importance and --html
	dropMissing   bool
	weight        string
}

func EvaluateCommand(env *cli.Env) *cobra.Command {
	var f evaluateFlags
	cmd := &cobra.Command{
		Use:   "evaluate MODEL DATA...",
		Short: "Score a fitted model on a table with known targets",
		Long: `Predict every row of DATA and compare the predictions with the targets. Use rows that the model was not fitted to:
it knows the answers of its own rows. Scores come with 95 % intervals, which assume independent rows.

` + manyFiles + `

  classification  accuracy, balanced accuracy and ROC AUC (one class against the rest, mean over classes); for models
                  with probabilities also log loss, Brier score and calibration; precision, recall and F1 of every
                  class; the confusion matrix, or the most frequent confusions if there are many classes
  regression      RMSE, R² and MAE; for a Gaussian process also the mean log density of the targets and the share that
                  lies inside the 90 % intervals
  density         mean log density; with --label also the ROC AUC

--weight names a column of row weights. A model that was fitted with weights is scored without them unless you name the
column here too.

--importance measures permutation importance: it shuffles one column at a time among 1000 random rows and shows how far
accuracy or R² falls.

--label names a column that marks anomalies, for density models. Rows whose label equals --normal are normal; all others
are anomalies. By default the normal label is 0 if it occurs, else the most frequent label. The ROC AUC is the
probability that an anomaly has a lower density than a normal row; ties count half.`,
		Example: `  randfeat evaluate model.rf test.csv
  randfeat evaluate model.rf test.csv --importance --html scores.html
  randfeat evaluate density.rf test.csv --label is_fraud --json`,
		Args:              modelAndTable,
		ValidArgsFunction: modelArgs,
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			return runEvaluate(env, cmd, &f, args[0], args[1:])
		}),
	}
	f.Add(cmd)
	cli.GroupFlags(cmd, []cli.FlagGroup{{Title: "Flags", Names: strings.Fields(`label normal skip weight strict
		drop-missing-target float32 importance html`)}, tableflags.Group})
	flags := cmd.Flags()
	flags.StringVar(&f.label, "label", "", "for density models: `column` that marks anomalies")
	flags.StringVar(&f.normal, "normal", "", "for density models: the label of normal rows")
	flags.StringSliceVar(&f.skip, "skip", nil, "`columns` to ignore that the model does not know")
	flags.BoolVar(&f.dropMissing, "drop-missing-target", false,
		"leave out rows without a target and report their number")
	flags.StringVar(&f.weight, "weight", "", "`column` of row weights ≥ 0")
	flags.BoolVar(&f.strict, "strict", false, strictUsage)
	flags.BoolVar(&f.single, "float32", false, "compute in float32: faster, with two to six right digits (fewest for a wide kernel with a small λ)")
	flags.StringVar(&f.html, "html", "", "HTML `file` to write: scores, predictions against targets, calibration, residuals")
	cli.CompleteFiles(cmd, "html", "html")
	flags.BoolVar(&f.importance, "importance", false, "show how much the predictions depend on each column")
	return cmd
}

// maxConfusion is the largest number of classes for which --json has the confusion matrix. maxShown is the
// largest number for which it is printed; beyond it, that many classes and confusions are printed.
const (
	maxConfusion = 20
	maxShown     = 12
)

func runEvaluate(env *cli.Env, cmd *cobra.Command, f *evaluateFlags, modelPath string, paths []string) error {
	start := time.Now()
	m, err := loadModel(modelPath, paths)
	if err != nil {
		return err
	}
	switch {
	case m.Schema == nil:
		return fmt.Errorf("%s: the model has no schema, it predicts matrices only: fit it to a table", modelPath)
	case f.label != "" && m.Task != machine.Unsupervised:
		return cli.Misused("--label is for densities, %s is a %s of %s", modelPath, m.Task, quoted(targetNames(m)))
	case f.importance && m.Task == machine.Unsupervised:
		return cli.Misused("--importance is for models with a target, %s is a density", modelPath)
	case f.weight != "" && (f.importance || f.label != ""):
		return cli.Misused("--weight is for scores: --importance and --label take rows as they are, leave one of them out")
	case cmd.Flags().Changed("normal") && f.label == "":
		return cli.Misused("--normal needs --label")
	}
	f.ReadLike(m)
	if paths, err = files.Expand(paths...); err != nil {
		return err
	}
	src, format, err := f.Source(env, paths, f.weight == "") // weights are read in a pass of their own
	if err != nil {
		return err
	}
	columns := src.Columns()
	r := EvaluateResult{Model: modelPath, Data: src.Name(), Kind: m.Kind, Task: m.Task, Targets: targetNames(m),
		Weight: f.weight}
	bar := env.Progress("rows", estimateRows(paths, format)).WithRate("rows")
	bar.Approx = true
	defer bar.End()
	if err := checkSkipped(f.skip, m, src.Name(), columns); err != nil {
		return err
	}
	seen := func(rows int64) error {
		bar.At(int(rows))
		return interrupted(cmd.Context())
	}
	if m.Task == machine.Unsupervised {
		err = f.density(&r, m, src, columns, seen)
	} else {
		err = f.supervised(&r, m, src, columns, seen)
	}
	if err != nil {
		return err
	}
	bar.End()
	if f.importance && r.Rows > 1 {
		if r.Importance, err = f.importances(env, cmd, m); err != nil {
			return err
		}
	}
	if r.Rows == 0 {
		return &data.InputError{Place: src.Name(), Detail: "the table has columns but no rows"}
	}
	r.Seconds = time.Since(start).Seconds()
	surprised(env, r.Surprises)
	recognised(env, r.Seen)
	if r.Dropped > 0 {
		env.Note("note: %d rows without a target were left out", r.Dropped)
	}
	if f.html != "" {
		var out cli.Outputs
		defer out.Abort()
		w, err := out.Create(f.html, env)
		if err != nil {
			return err
		}
		if err := f.writePage(w, &r, m); err != nil {
			return err
		}
		if err := out.Commit(); err != nil {
			return err
		}
	}
	if env.JSON {
		return env.Object(r)
	}
	return r.print(cli.Printable{Writer: env.Stdout})
}

// compare counts training rows among the rows, while they are read.
func (r *EvaluateResult) compare(rows machine.Rows, m *machine.Model) {
	if m.Sketch != nil {
		r.Seen = new(machine.SeenRows)
		m.CountSeen(rows, r.Seen)
	}
}

// seenShare is the share of training rows from which evaluate warns. Tables with few distinct rows repeat some
// by chance.
const seenShare = 0.01

// recognised warns of rows that the model was fitted to.
func recognised(env *cli.Env, s *machine.SeenRows) {
	if s == nil || s.Share() < seenShare {
		return
	}
	env.Note("warning: %.3g %% of the rows are rows that the model was fitted to (%d of %d compared): it knows their answers, "+
		"scores on new rows will be worse", 100*s.Share(), s.Seen, s.Compared)
}

// supervised compares predictions with targets.
func (f *evaluateFlags) supervised(r *EvaluateResult, m *machine.Model, src data.Source, columns []string,
	seen func(int64) error) error {
	for _, n := range targetNames(m) {
		if !slices.Contains(columns, n) {
			return noColumn(src.Name(), n, "the model's target", columns)
		}
	}
	if f.dropMissing {
		dropping, err := data.DropMissing(src, targetNames(m))
		if err != nil {
			return err
		}
		defer func() { r.Dropped = dropping.Dropped() }()
		src = dropping
	}
	weights, err := f.weights(src)
	if err != nil {
		return err
	}
	watch := data.Watch{Strict: f.strict}
	rows, err := machine.ModelRows(src, allowing(m, f.allowed()), true, &watch)
	if err != nil {
		return explainColumns(err, src.Name(), m, columns, "leave them out with --skip")
	}
	r.compare(rows, m)
	predict, err := predictor(m, f.single)
	if err != nil {
		return err
	}
	kind, err := m.Kind.Info()
	if err != nil {
		return err
	}
	e, err := m.Evaluation()
	if err != nil {
		return err
	}
	groups := m.GroupCoverage()
	f.keep = machine.NewReservoir(importanceRows, cli.DefaultSeed)
	var pred, variance dense.Matrix[float64]
	err = rows.Each(predictRows, func(x, y dense.Matrix[float64]) error {
		pred = fitting(pred, x.Rows, m.Outputs)
		if err := predict(pred, x, false); err != nil {
			return fmt.Errorf("%s: after row %d: %w", src.Name(), e.Len(), err)
		}
		if kind.Bayesian {
			variance = fitting(variance, x.Rows, m.Outputs)
			if err := predict(variance, x, true); err != nil {
				return fmt.Errorf("%s: after row %d: %w", src.Name(), e.Len(), err)
			}
		}
		if err := e.AddWeighted(y, pred, variance, weights(x.Rows)); err != nil {
			return err
		}
		if groups != nil {
			if err := groups.Add(x, y, pred, variance); err != nil {
				return err
			}
		}
		if f.importance || f.html != "" {
			f.keep.Add(x, y)
		}
		return seen(e.Len())
	})
	if err != nil {
		return err
	}
	r.Rows, r.Scores, r.Surprises = e.Len(), e.Scores(), watch.Surprises()
	if groups != nil {
		r.Groups = groups.Scores()
	}
	if m.Task == machine.Classification {
		r.classified(m.Schema.Targets[0].Classes, e)
	}
	return nil
}

// weights returns a function that hands out the weights of the next rows; it returns nil without --weight.
func (f *evaluateFlags) weights(src data.Source) (func(rows int) []float64, error) {
	if f.weight == "" {
		return func(int) []float64 { return nil }, nil
	}
	m, err := data.MarkColumns{Weight: f.weight}.Read(src)
	if err != nil {
		return nil, err
	}
	left := m.Weight
	return func(rows int) []float64 {
		rows = min(rows, len(left)) // fewer rows: the table changed while it was read, and AddWeighted reports it
		out := left[:rows]
		left = left[rows:]
		return out
	}, nil
}

// allowed returns columns that the model need not know.
func (f *evaluateFlags) allowed() []string {
	out := slices.Clone(f.skip)
	if f.weight != "" {
		out = append(out, f.weight)
	}
	return out
}

// fitting returns a matrix of the given shape that reuses the memory of m.
func fitting[T dense.Float](m dense.Matrix[T], rows, cols int) dense.Matrix[T] {
	if cap(m.Data) < rows*cols {
		return dense.New[T](rows, cols)
	}
	return dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols, Data: m.Data[:rows*cols]}
}

// predictor returns a function that predicts float64 matrices in either precision.
func predictor(m *machine.Model, single bool) (func(dst, x dense.Matrix[float64], variance bool) error, error) {
	if !single {
		p, err := machine.NewPredictor[float64](m)
		if err != nil {
			return nil, err
		}
		var ws machine.Workspace[float64]
		return func(dst, x dense.Matrix[float64], variance bool) error {
			if variance {
				return p.Variance(dst, x, &ws)
			}
			return p.Predict(dst, x, &ws)
		}, nil
	}
	p, err := machine.NewPredictor[float32](m)
	if err != nil {
		return nil, err
	}
	var ws machine.Workspace[float32]
	return func(dst, x dense.Matrix[float64], variance bool) error {
		out := dense.New[float32](dst.Rows, dst.Cols)
		call := p.Predict
		if variance {
			call = p.Variance
		}
		if err := call(out, dense.Convert[float32](x), &ws); err != nil {
			return err
		}
		for i, v := range out.Data {
			dst.Data[i] = float64(v)
		}
		return nil
	}, nil
}

// density scores a density model and, with a label, how well it separates anomalies from normal rows.
func (f *evaluateFlags) density(r *EvaluateResult, m *machine.Model, src data.Source, columns []string,
	seen func(int64) error) error {
	label := -1
	allowed := f.allowed()
	if f.label != "" {
		if label = slices.Index(columns, f.label); label < 0 {
			return noColumn(src.Name(), f.label, "--label", columns)
		}
		allowed = append(allowed, f.label)
	}
	p, err := machine.NewTablePredictor(allowing(m, allowed), machine.TableOptions{NoIDs: true, Float32: f.single,
		Watch: true, Strict: f.strict})
	if err != nil {
		return err
	}
	run, err := p.Open(columns)
	if err != nil {
		return explainColumns(err, src.Name(), m, columns,
			"name the one that marks anomalies with --label, leave others out with --skip")
	}
	kinds := run.Kinds()
	if label >= 0 && kinds[label] == data.Skip {
		kinds[label] = data.Text
	}
	weights, err := f.weights(src)
	if err != nil {
		return err
	}
	e := machine.NewEvaluation(m.Kind, m.Task, 1)
	var by labelled
	err = run.Each(src, kinds, predictRows, func(predictions, cells *data.Block) error {
		score := predictions.Cols[0].Num
		column := dense.Matrix[float64]{Rows: len(score), Cols: 1, Stride: 1, Data: score}
		var none dense.Matrix[float64]
		if err := e.AddWeighted(none, column, none, weights(len(score))); err != nil {
			return err
		}
		if label >= 0 {
			for i, v := range score {
				if err := by.add(cells.Cols[label], i, v); err != nil {
					return &data.InputError{Place: fmt.Sprintf("%s: row %d", src.Name(), cells.First+int64(i)+1),
						Detail: fmt.Sprintf("label %q %v", f.label, err)}
				}
			}
		}
		return seen(e.Len())
	})
	if err != nil {
		return err
	}
	r.Rows, r.Scores, r.Surprises = e.Len(), e.Scores(), run.Surprises()
	if label < 0 || r.Rows == 0 {
		return nil
	}
	normal, err := by.normal(f.normal)
	if err != nil {
		return &data.InputError{Place: src.Name(), Detail: fmt.Sprintf("label %q %v", f.label, err)}
	}
	r.Label, r.Normal, r.Anomalies = f.label, by.names[normal], e.Len()-by.rows[normal]
	auc, err := by.auc(normal)
	if err != nil {
		return &data.InputError{Place: src.Name(), Detail: fmt.Sprintf("label %q %v", f.label, err)}
	}
	r.Scores = append([]machine.Score{auc}, r.Scores...)
	return nil
}

// labelled collects scores by label. Beyond maxLabelled rows it keeps every 2nd, 4th, … row, so that memory is
// bounded.
type labelled struct {
	names  []string
	index  map[string]int
	rows   []int64
	scores []labelScore
	step   int64
	n      int64
}

type labelScore struct {
	score float64
	label int
}

const (
	maxLabelled = 1 << 22
	maxLabels   = 1000
)

func (l *labelled) add(c data.Column, i int, score float64) error {
	var name string
	switch {
	case c.Num != nil && !math.IsNaN(c.Num[i]):
		name = strconv.FormatFloat(c.Num[i], 'f', -1, 64)
	case c.Num == nil && c.Text[i] != nil:
		name = string(c.Text[i])
		if v, ok := cell.ParseNumber(c.Text[i]); ok { // 0 and 0.0 are one label
			name = strconv.FormatFloat(v, 'f', -1, 64)
		}
	default:
		return fmt.Errorf("is missing: remove the row")
	}
	k, ok := l.index[name]
	if !ok {
		if len(l.names) == maxLabels {
			return fmt.Errorf("has more than %d values: want a column that marks anomalies, such as 0 and 1", maxLabels)
		}
		if l.index == nil {
			l.index, l.step = map[string]int{}, 1
		}
		k = len(l.names)
		l.index[name] = k
		l.names, l.rows = append(l.names, name), append(l.rows, 0)
	}
	l.rows[k]++
	if l.n%l.step == 0 {
		l.scores = append(l.scores, labelScore{score, k})
	}
	l.n++
	if len(l.scores) == maxLabelled {
		for j := range maxLabelled / 2 {
			l.scores[j] = l.scores[2*j]
		}
		l.scores, l.step = l.scores[:maxLabelled/2], 2*l.step
	}
	return nil
}

// normal returns the label of normal rows: the requested one, else 0, else the most frequent one, the first of
// ties.
func (l *labelled) normal(asked string) (int, error) {
	if asked != "" {
		if v, ok := cell.ParseNumber([]byte(asked)); ok {
			asked = strconv.FormatFloat(v, 'f', -1, 64)
		}
		k, ok := l.index[asked]
		if !ok {
			return 0, fmt.Errorf("is never %q, as --normal says; it is %s", asked,
				quoted(l.names[:min(len(l.names), 10)]))
		}
		return k, nil
	}
	if k, ok := l.index["0"]; ok {
		return k, nil
	}
	best := 0
	for k, n := range l.rows {
		if n > l.rows[best] {
			best = k
		}
	}
	return best, nil
}

// auc is the probability that an anomaly has a lower score than a normal row; ties count half.
func (l *labelled) auc(normal int) (machine.Score, error) {
	var anomalies, others []float64
	for _, s := range l.scores {
		if s.label == normal {
			others = append(others, -s.score)
		} else {
			anomalies = append(anomalies, -s.score)
		}
	}
	if len(anomalies) == 0 || len(others) == 0 {
		return machine.Score{}, fmt.Errorf("is always %q: there are no anomalies to tell from normal rows, or the other "+
			"way round", l.names[l.scores[0].label])
	}
	return machine.AUC(anomalies, others), nil
}

func (r *EvaluateResult) print(w io.Writer) error {
	what := string(r.Task)
	if len(r.Targets) > 0 {
		what += " of " + strings.Join(r.Targets, ", ")
	}
	fmt.Fprintf(w, "%s: %d rows, %s model, %s\n\n", r.Data, r.Rows, r.Kind, what)
	err := cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "score\tvalue\t95 % interval")
		for _, s := range r.Scores {
			fmt.Fprintln(w, scoreText(s, r.Targets))
		}
	})
	if err != nil {
		return err
	}
	if len(r.Groups) > 0 {
		fmt.Fprintln(w, "\nTargets in their 90 % intervals, by group:")
		if err := cli.Table(w, func(w io.Writer) {
			fmt.Fprintln(w, "group\trows\tcovered\t95 % interval")
			for _, g := range r.Groups {
				fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f to %.3f\n", shorten(g.Group, 40), g.Covered.Rows,
					g.Covered.Value, g.Covered.Low, g.Covered.High)
			}
		}); err != nil {
			return err
		}
	}
	if r.Label != "" {
		fmt.Fprintf(w, "\n%d rows whose %s is not %s are taken for anomalies.\n", r.Anomalies, r.Label, r.Normal)
	}
	if err := r.printClasses(w); err != nil {
		return err
	}
	return r.printImportance(w)
}

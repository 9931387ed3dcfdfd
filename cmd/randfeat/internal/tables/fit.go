// Package tables has the commands on tables and models: fit, parts, evaluate, compare, predict, explain,
// inspect and data.
//
// fit.go runs a fit, fitsummary.go prints it; parts.go runs the same in steps. evaluate.go, predict.go,
// compare.go and explain.go read a table with a model; predict.go has their shared checks of columns, text.go
// their shared formatting.
package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tableflags"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// FitReport is the object of fit --json.
type FitReport struct {
	*tabular.Report
	Baseline *Baseline `json:"baseline,omitempty"` // first score of a constant prediction
	File     string    `json:"file,omitempty"`     // model file
	Bytes    int64     `json:"bytes,omitempty"`    // size of the model file
}

// fitFlags are the flags of fit, one per choice of tabular.Options.
type fitFlags struct {
	table tableflags.Flags
	out   string

	learn       data.LearnOptions
	dropMissing bool
	marks       data.MarkColumns
	keep        []string
	encode      []string
	compare     bool
	horizon     float64
	intervalBy  string

	model, family, coupling   string
	featureMap, scaling, loss string
	kernel                    string
	bandwidth, lambda         float64
	features, budget          int
	limits                    string // --budget as given
	memory                    int64
	classWeight               string

	seed                 uint64
	folds, sample, block int
	float32, quick       bool
	checkpoint           string
	checkpointEvery      time.Duration

	demo     bool
	saveData string
}

func FitCommand(env *cli.Env) *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit DATA... -o MODEL --target COLUMN",
		Short: "Fit a kernel machine to a table and say how well it predicts",
		Long: `Fit a kernel machine to a table: CSV, TSV, NDJSON, npy, npz, Parquet or xlsx. fit learns what each column holds and
chooses every setting that no flag fixes: scaling, kernel, bandwidth, penalty, loss and features. The summary shows each
choice with its reason, and scores on rows that neither the fit nor the choices have seen. Files are read several times
in blocks and may be larger than memory.

` + manyFiles + `

` + kindTable() + `
With --checkpoint an interrupted fit continues where it stopped, with the same result.
With --json it prints one object; 'randfeat schema fit' describes it.`,
		Example: `  randfeat fit data.csv --target price -o model.rf
  randfeat fit data.parquet --target class --class-weight balanced -o model.rf
  randfeat fit 'part-*.parquet' --target class -o model.rf
  randfeat fit data.csv --model density --id name -o model.rf
  randfeat fit --demo -o model.rf`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.demo && len(args) > 0:
				return cli.ExactArgs("none with --demo", 0)(cmd, args)
			case !f.demo && len(args) == 0:
				return errors.New("name at least one data file, or set --demo for generated data")
			}
			return nil
		},
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			return runFit(env, cmd, &f, args)
		}),
	}
	f.add(cmd)
	cli.GroupFlags(cmd, []cli.FlagGroup{
		{Title: "What to predict, and from what",
			Names: strings.Fields(`out target task id skip numeric categorical text max-levels encode
			drop-missing-target strict`)},
		{Title: "How rows belong together", Names: strings.Fields("weight group time horizon keep")},
		{Title: "The model (settings that no flag fixes are chosen)", Names: strings.Fields(`model family coupling bandwidth scaling loss lambda features budget
			class-weight map kernel`)},
		tableflags.Group,
		{Title: "How it is computed", Names: strings.Fields("quick seed folds compare interval-by sample float32 block checkpoint checkpoint-every")},
		{Title: "To try it", Names: strings.Fields("demo save-data")},
	})
	return cmd
}

// addColumns adds the flags that give the columns of a table their roles. They set fields of o.
func addColumns(flags *pflag.FlagSet, o *data.LearnOptions) {
	flags.StringArrayVar(&o.Targets, "target", nil, "`column` to predict; repeatable")
	flags.StringVar((*string)(&o.Task), "task", "", "regression or classification (default: by the values of the target)")
	flags.StringArrayVar(&o.IDs, "id", nil, "`column` to copy to the predictions but not to predict from; repeatable")
	flags.StringArrayVar(&o.Skip, "skip", nil, "`column` to ignore; repeatable")
	flags.StringArrayVar(&o.Numeric, "numeric", nil, "`column` that must hold numbers; repeatable")
	flags.StringArrayVar(&o.Categorical, "categorical", nil,
		"`column` of categories, even if they look like numbers; repeatable")
	flags.StringArrayVar(&o.Text, "text", nil, "`column` of short texts, encoded by words and parts of words; repeatable")
	flags.BoolVar(&o.Strict, "strict", false, "make text in a column of numbers or dates an error; otherwise up to one "+
		"value in twenty may be text and counts as missing")
}

func (f *fitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.out, "out", "o", "", "model `file` to write")
	addColumns(flags, &f.learn)
	flags.BoolVar(&f.dropMissing, "drop-missing-target", false,
		"leave out rows without a target and report their number")
	flags.StringVar(&f.marks.Weight, "weight", "", "`column` of row weights ≥ 0, which multiply each row's loss and score")
	flags.StringVar(&f.marks.Group, "group", "", "`column` of groups, such as patients: no group is in two folds, so scores "+
		"and intervals hold for new groups")
	flags.StringVar(&f.marks.Time, "time", "", "`column` of times: choices and scores always predict later rows from earlier ones")
	flags.Float64Var(&f.horizon, "horizon", 0, "with --time: how far ahead you will predict, in units of the time column "+
		"or, for dates, in days; scores leave this gap before the rows that they predict")
	flags.StringArrayVar(&f.keep, "keep", nil, "also predict from this `column` of --weight, --group or --time; repeatable")
	flags.IntVar(&f.learn.MaxLevels, "max-levels", 0, "largest number of levels of a categorical column; rarer levels become "+
		"\"other\" (default 64)")
	flags.StringArrayVar(&f.encode, "encode", nil, "how levels of a column become numbers, as `COLUMN=CODE` with a code of "+
		strings.Join(tabular.Values("code"), ", ")+"; repeatable (default: by trial for columns of many levels)")
	flags.StringVar(&f.model, "model", "", kindList(", ")+fmt.Sprintf(" (default %s)", machine.Kinds()[0].Kind))
	flags.StringVar(&f.featureMap, "map", "", "how the kernel is computed: exact (with all rows; ridge only), nystrom "+
		"(with some rows, the landmarks) or random (random features) (default: exact for ridge up to 60,000 rows, "+
		"else chosen)")
	flags.StringVar(&f.kernel, "kernel", "", "kernel: "+strings.Join(tabular.Values("kernel"),
		", ")+" (default: by trial with --map exact and "+
		"nystrom, else gaussian)")
	flags.StringVar(&f.scaling, "scaling", "", "scaling of columns: "+strings.Join(tabular.Values("scaling"),
		", ")+" (default: by trial)")
	flags.StringVar(&f.loss, "loss", "", "loss of a classification with an exact kernel: "+
		strings.Join(tabular.Values("loss"), ", ")+" (default: by trial)")
	flags.StringVar(&f.family, "family", "", "feature family: a name from 'randfeat families' or a JSON object (default: "+
		"chosen)")
	flags.StringVar(&f.coupling, "coupling", "", "coupling of the projections: a name from 'randfeat couplings' or a "+
		"JSON object (default: chosen)")
	flags.Float64Var(&f.bandwidth, "bandwidth", 0, "bandwidth s of the kernel, in units of the scaled columns "+
		"(default: chosen)")
	flags.Float64Var(&f.lambda, "lambda", 0, "penalty λ of the sum of losses (default: chosen)")
	flags.IntVar(&f.features, "features", 0, "number of random features; above 16384 only for ridge, by conjugate "+
		"gradients (default: by a learning curve)")
	flags.StringVar(&f.limits, "budget", "", "largest `amount` of memory, such as 2GB, or number of features, which excludes "+
		"the exact kernel, or both, as in 1024,2GB (default: 2048 features)")
	flags.StringVar(&f.classWeight, "class-weight", "",
		"`weights` of the classes, for ridge and logistic: balanced, or JSON such as '{\"yes\": 5}'")
	flags.Uint64Var(&f.seed, "seed", cli.DefaultSeed, "seed of the projections, the sample and the folds")
	flags.IntVar(&f.folds, "folds", 0, "folds of the cross-validation; 1 skips it (default 5)")
	flags.StringVar(&f.intervalBy, "interval-by", "", "categorical `column`: make prediction intervals for each of its levels")
	flags.BoolVar(&f.compare, "compare", false, "also score a linear model and the mean (or most frequent class) on the same "+
		"folds, to show what the kernel adds")
	flags.IntVar(&f.sample, "sample", 0, "rows on which the choices are tried (default 8192)")
	flags.BoolVar(&f.quick, "quick", false, "try fewer settings on fewer rows and score one fold: a quarter to two fifths of the time")
	flags.BoolVar(&f.float32, "float32", false, "compute features and their products in float32, sums in float64: faster")
	flags.IntVar(&f.block, "block", 0, "rows per block (default 1024)")
	flags.StringVar(&f.checkpoint, "checkpoint", "", "`file` from which the same command continues after an interruption")
	flags.DurationVar(&f.checkpointEvery, "checkpoint-every", 0,
		"time between checkpoints (default 30s)")
	f.table.Add(cmd)
	flags.BoolVar(&f.demo, "demo", false, "fit a generated table: needs no files")
	flags.StringVar(&f.saveData, "save-data", "", "with --demo: write the generated table to a CSV `file`")
	cli.CompleteNames(cmd, "task", func() []string {
		return []string{string(data.Regression),
			string(data.Classification)}
	})
	cli.CompleteNames(cmd, "model", func() []string { return strings.Fields(kindList(" ")) })
	for _, name := range []string{"map", "kernel", "scaling", "loss"} {
		cli.CompleteNames(cmd, name, func() []string { return tabular.Values(name) })
	}
	cli.CompleteNames(cmd, "family", cli.FamilyNames)
	cli.CompleteNames(cmd, "coupling", cli.CouplingNames)
	cli.CompleteNames(cmd, "class-weight", func() []string { return []string{"balanced"} })
	cli.CompleteFiles(cmd, "out", "rf")
	cli.CompleteFiles(cmd, "save-data", "csv")
}

func kindList(sep string) string {
	var names []string
	for _, k := range machine.Kinds() {
		names = append(names, string(k.Kind))
	}
	return strings.Join(names, sep)
}

// kindTable lists the models, one per line.
func kindTable() string {
	var b strings.Builder
	for i, k := range machine.Kinds() {
		usual := ""
		if i == 0 {
			usual = " (the default)"
		}
		fmt.Fprintf(&b, "  %-8s  %s%s\n", k.Kind, k.About, usual)
	}
	return b.String()
}

// options converts the flags to options and checks their combinations; it reads no file.
func (f *fitFlags) options(cmd *cobra.Command) (tabular.Options, error) {
	if err := f.parseBudget(); err != nil {
		return tabular.Options{}, err
	}
	if f.kernel == "rbf" { // the name of scikit-learn
		f.kernel = kernel.Gaussian.String()
	}
	o := tabular.Options{
		Learn: f.learn,
		Kind:  machine.Kind(f.model), Bandwidth: f.bandwidth, Lambda: f.lambda, Features: f.features, Budget: f.budget,
		Memory: f.memory,
		Seed:   f.seed, Folds: f.folds, Sample: f.sample, Float32: f.float32, Block: f.block, Quick: f.quick,
		Marks: f.marks, Keep: f.keep,
		Checkpoint: f.checkpoint, CheckpointEvery: f.checkpointEvery, Map: f.featureMap, Kernel: f.kernel,
		Scaling: f.scaling, Loss: f.loss, Horizon: f.horizon, Compare: f.compare, IntervalBy: f.intervalBy,
	}
	for _, n := range []struct {
		flag  string
		value float64
	}{{"max-levels", float64(f.learn.MaxLevels)}, {"bandwidth", f.bandwidth}, {"lambda", f.lambda}, {"features",
		float64(f.features)},
		{"folds", float64(f.folds)}, {"sample", float64(f.sample)}, {"block",
			float64(f.block)},
		{"horizon", f.horizon}, {"checkpoint-every", f.checkpointEvery.Seconds()}} {
		if cmd.Flags().Changed(n.flag) && (!(n.value > 0) || !dense.IsFinite(n.value)) {
			return o, cli.Misused("--%s is %s, want more than 0, or leave it out", n.flag, cmd.Flag(n.flag).Value)
		}
	}
	switch o.Learn.Task {
	case data.Auto, data.Regression, data.Classification:
	default:
		return o, cli.Misused("--task is %q, want %s or %s", f.learn.Task, data.Regression, data.Classification)
	}
	for _, text := range f.encode {
		at := strings.LastIndexByte(text, '=')
		if at < 1 || !slices.Contains(tabular.Values("code"), text[at+1:]) {
			return o, cli.Misused("--encode is %q, want COLUMN=CODE with a code of %s", text,
				strings.Join(tabular.Values("code"), ", "))
		}
		if o.Code == nil {
			o.Code = map[string]string{}
		}
		o.Code[text[:at]] = text[at+1:]
	}
	for _, option := range []struct{ name, value string }{{"loss", o.Loss}, {"kernel", o.Kernel},
		{"scaling", o.Scaling}, {"map", o.Map}} {
		if want := tabular.Values(option.name); option.value != "" && !slices.Contains(want, option.value) {
			return o, cli.Misused("--%s is %q, want %s", option.name, option.value, strings.Join(want, ", "))
		}
	}
	switch {
	case o.Map == tabular.MapNystrom:
		for _, name := range []string{"family", "coupling", "float32"} {
			if cmd.Flags().Changed(name) {
				return o, cli.Misused("--map %s and --%s exclude each other: Nyström features are not random", o.Map,
					name)
			}
		}
	case o.Map == tabular.MapExact:
		for _, name := range []string{"family", "coupling", "features", "budget", "float32"} {
			if cmd.Flags().Changed(name) && (name != "budget" || f.budget > 0) {
				return o, cli.Misused("--map %s and --%s exclude each other: an exact kernel has no random features", o.Map, name)
			}
		}
	}
	if err := f.checkKind(o); err != nil {
		return o, err
	}
	if f.marks.Group != "" && f.marks.Time != "" {
		return o, cli.Misused("--group and --time exclude each other: folds are of groups, or of stretches of time")
	}
	if f.horizon > 0 && f.marks.Time == "" {
		return o, cli.Misused("--horizon is in the units of a column of times: name the column with --time")
	}
	if f.features > 0 && f.budget > 0 {
		return o, cli.Misused("--features and --budget exclude each other")
	}
	if f.checkpoint == "" && cmd.Flags().Changed("checkpoint-every") {
		return o, cli.Misused("--checkpoint-every needs --checkpoint")
	}
	var err error
	if f.family != "" {
		if o.Family, err = family.Parse(f.family); err != nil {
			return o, cli.Misused("--family: %w", err)
		}
	}
	if f.coupling != "" {
		if o.Coupling, err = coupling.Parse(f.coupling); err != nil {
			return o, cli.Misused("--coupling: %w", err)
		}
	}
	return o, nil
}

// checkKind refuses flags that the model of --model does not support.
func (f *fitFlags) checkKind(o tabular.Options) error {
	if o.Kind == "" {
		return nil
	}
	kind, err := o.Kind.Info()
	if err != nil {
		return cli.Misused("--model is %q, want one of %s", f.model, kindList(", "))
	}
	task := machine.Task(o.Learn.Task)
	switch {
	case o.Map == tabular.MapNystrom && !(kind.LeastSquares && kind.Summed()):
		return cli.Misused("--model %s has no Nyström features: leave --map out", o.Kind)
	case o.Map == tabular.MapExact && !kind.Exact:
		return cli.Misused("--model %s has no exact kernel: leave --map out", o.Kind)
	case unsupervised(kind) && len(f.learn.Targets) > 0:
		return cli.Misused("--model %s has no target: leave --target out, or name the column with --skip", o.Kind)
	case !unsupervised(kind) && o.Learn.Task != data.Auto && !slices.Contains(kind.Tasks, task):
		return cli.Misused("--model %s does not do %s", o.Kind, task)
	case f.classWeight != "" && !kind.ClassWeights:
		return cli.Misused("--class-weight needs --model %s", withClassWeights())
	case f.lambda > 0 && !kind.Penalised:
		return cli.Misused("--model %s has no penalty: leave --lambda out", o.Kind)
	}
	return nil
}

// unsupervised reports whether a kind has no target.
func unsupervised(k machine.KindInfo) bool { return slices.Contains(k.Tasks, machine.Unsupervised) }

func withClassWeights() string {
	var names []string
	for _, k := range machine.Kinds() {
		if k.ClassWeights {
			names = append(names, string(k.Kind))
		}
	}
	return strings.Join(names, " or ")
}

func runFit(env *cli.Env, cmd *cobra.Command, f *fitFlags, args []string) error {
	if f.demo {
		if err := f.setDemo(cmd); err != nil {
			return err
		}
	} else if cmd.Flags().Changed("save-data") {
		return cli.Misused("--save-data needs --demo")
	}
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	if f.out == "" && !f.demo {
		return cli.Misused("-o is missing: add -o model.rf to write a model, or try 'randfeat fit --demo', which needs no files")
	}
	if args, err = files.Expand(args...); err != nil {
		return err
	}
	if err := checkMatrices(o); err != nil {
		return err
	}
	// A fit may take hours, so find out before it begins whether its outputs can be written.
	if err := f.checkFiles(args); err != nil {
		return err
	}
	src, err := f.source(env, args)
	if err != nil {
		return err
	}
	if kind, _ := o.Kind.Info(); len(f.learn.Targets) == 0 && !unsupervised(kind) {
		return cli.Misused("--target is missing: name the column to predict, one of %s; or ask for a density without a target "+
			"by --model %s",
			quoteNames(src.Columns(), 20), machine.KindsOf(machine.Unsupervised)[0])
	}
	var dropping *data.Dropping
	if f.dropMissing {
		if dropping, err = data.DropMissing(src, f.learn.Targets); err != nil {
			return err
		}
		src = dropping
	}
	ctx := cmd.Context()
	summary, err := f.weigh(ctx, src, &o)
	if err != nil {
		return err
	}
	model, report, err := fitWithProgress(ctx, env, src, o)
	if err != nil {
		return f.explain(ctx, err)
	}
	if report.Summary == nil {
		report.Summary = summary
	}
	if n := imbalance(report, model, f.classWeight != ""); n != "" {
		report.Notes = append(report.Notes, n)
	}
	if dropping != nil {
		report.Notes = append(report.Notes, fmt.Sprintf("%d rows without a target were left out", dropping.Dropped()))
	}
	for i, n := range report.Notes {
		if hints := FlagHints(n, nil); len(hints) > 0 {
			report.Notes[i] += " (" + strings.Join(hints, ", ") + ")"
		}
	}
	r := FitReport{Report: report}
	if f.marks.Weight == "" { // the baseline ignores weights
		r.Baseline = baselineOf(report, model)
	}
	if f.out != "" {
		created, err := cli.Creation(os.Getenv)
		if err != nil {
			return err
		}
		if created != "" { // without a date, the bytes depend on the table and the flags alone, like those of parts
			if model.History == nil {
				model.History = new(machine.History)
			}
			model.History.Created, model.History.Program = created, cli.ProgramVersion()
			if model.Sketch, err = machine.SketchTable(src, model.Schema, func(int64) error {
				return interrupted(ctx)
			}); err != nil {
				return f.explain(ctx, err)
			}
			if err := addReference(ctx, src, model, o.Seed); err != nil {
				return f.explain(ctx, err)
			}
		}
		if err := model.Save(f.out); err != nil {
			return err
		}
		r.File = f.out
		if info, err := os.Stat(f.out); err == nil {
			r.Bytes = info.Size()
		}
	}
	if f.checkpoint != "" {
		// Only now, so that a model that could not be written is not lost.
		if err := tabular.RemoveCheckpoint(f.checkpoint); err != nil {
			return err
		}
	}
	if env.JSON {
		return env.Object(r)
	}
	return printFit(env, &r, model, f)
}

// checkMatrices refuses feature counts whose F×F matrices do not fit into memory: the sums and a factor, at the
// same time. Beyond largestMatrix the fit uses none.
func checkMatrices(o tabular.Options) error {
	const largestMatrix = 1 << 14
	kind, err := cmp.Or(o.Kind, machine.Kinds()[0].Kind).Info()
	if o.Features > largestMatrix || err != nil || !kind.LeastSquares || !kind.Summed() {
		return nil
	}
	f := float64(o.Features)
	if err := cli.CheckMemory(2*8*f*f, fmt.Sprintf("--features %d", o.Features)); err != nil {
		return fmt.Errorf("%w: choose fewer", err)
	}
	return nil
}

// source opens the table.
func (f *fitFlags) source(env *cli.Env, args []string) (data.Source, error) {
	if f.demo {
		b := fitDemoData()
		if f.saveData != "" {
			if err := localfile.Write(f.saveData, b); err != nil {
				return nil, err
			}
		}
		return text.OpenBytes(fitDemoName, b, data.Options{})
	}
	return f.table.Open(env, args...)
}

// checkFiles refuses outputs that cannot be written, and outputs that would replace an input.
func (f *fitFlags) checkFiles(args []string) error {
	type output struct{ flag, path string }
	var outs []output
	for _, o := range []output{{"-o", f.out}, {"--checkpoint", f.checkpoint}, {"--save-data", f.saveData}} {
		if o.path == "" {
			continue
		}
		for _, other := range outs {
			if localfile.Same(o.path, other.path) {
				return cli.Misused("%s and %s name the same file, %s", other.flag, o.flag, o.path)
			}
		}
		for _, in := range args {
			if localfile.Same(o.path, in) {
				return cli.Misused("%s names the data file %s: it would be replaced", o.flag, in)
			}
		}
		if err := checkWritable(o.path); err != nil {
			return fmt.Errorf("%s: %w", o.flag, err)
		}
		outs = append(outs, o)
	}
	return nil
}

// checkWritable finds out whether a file can be created at path, by creating a temporary one beside it.
func checkWritable(path string) error {
	if err := localfile.Check(path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil // opening a pipe would wait for its reader
	}
	t, err := localfile.Create(path)
	if err != nil {
		return err
	}
	t.Abort()
	return nil
}

// fitWithProgress runs the fit and shows on a terminal how far each stage is.
func fitWithProgress(ctx context.Context, env *cli.Env, src data.Source, o tabular.Options) (*machine.Model,
	*tabular.Report, error) {
	var bar *cli.Progress
	o.Progress = func(stage string, done, total int64) {
		if bar == nil || stage != bar.What {
			if bar != nil {
				bar.End()
			}
			bar = fitStage(env, stage)
			if bar.On { // some stages have nothing to report for a while
				fmt.Fprintf(env.Stderr, "\r\x1b[K%s …", stage)
			}
		}
		bar.Total = stageTotal(stage, total) // stages learn the total as they go
		bar.At(int(done))
	}
	o.Warn = func(text string) {
		if bar != nil {
			bar.End() // a line of its own
			bar = nil
		}
		env.Warn(text)
	}
	defer func() {
		if bar != nil {
			bar.End()
		}
	}()
	limitMemory(o.Memory)
	return tabular.Fit(ctx, src, o)
}

const stageChoose = "choose"

// fitStage returns the progress display of a stage; most stages count rows.
func fitStage(env *cli.Env, stage string) *cli.Progress {
	unit := "rows"
	switch stage {
	case stageChoose:
		unit = "trials"
	case "steps":
		unit = "steps"
	}
	return env.Progress(stage, 0).WithRate(unit)
}

// stageTotal is the total that is shown of a stage; 0: none. How many trials a search needs shows only at its end.
func stageTotal(stage string, total int64) int {
	if stage == stageChoose {
		return 0
	}
	return int(total)
}

// explain adds the remedy to an error.
func (f *fitFlags) explain(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	hint := "no model was written; with --checkpoint FILE a fit can go on where it was"
	if f.checkpoint != "" {
		hint = "no model was written yet"
		if _, err := os.Stat(f.checkpoint); err == nil {
			hint = fmt.Sprintf("the same command goes on from the checkpoint %s", f.checkpoint)
		}
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok { // the checkpoint could not be written either
		for _, e := range all.Unwrap() {
			if !errors.Is(e, ctx.Err()) {
				hint += "; " + e.Error()
			}
		}
	}
	return fmt.Errorf("%w: %s", cli.ErrInterrupted, hint)
}

// parseBudget reads --budget: a number of features, bytes with a unit, or both separated by a comma.
func (f *fitFlags) parseBudget() error {
	f.budget, f.memory = 0, 0
	if f.limits == "" {
		return nil
	}
	for _, text := range strings.Split(f.limits, ",") {
		text = strings.TrimSpace(text)
		digits := strings.TrimRight(text, "kMGTiBb ")
		unit, ok := memoryUnits[strings.ToLower(strings.TrimSpace(text[len(digits):]))]
		v, err := strconv.ParseFloat(digits, 64)
		switch {
		case err != nil || !ok || !(v > 0) || v*float64(unit) > math.MaxInt64/2 || unit == 1 && v != math.Trunc(v) ||
			unit == 1 && f.budget > 0 || unit > 1 && f.memory > 0:
			return cli.Misused("--budget is %q, want a number of features, memory such as 2GB or 512MB, or both as in 1024,2GB",
				f.limits)
		case unit == 1:
			f.budget = int(min(v, math.MaxInt32))
		default:
			f.memory = int64(v * float64(unit))
		}
	}
	return nil
}

// memoryUnits are units in bytes; no unit means a number of features.
var memoryUnits = map[string]int64{"": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1 << 10, "mib": 1 << 20,
	"gib": 1 << 30, "tib": 1 << 40}

// limitMemory makes the garbage collector keep the heap within 80 % of bytes; 0 means no limit. The rest is for
// the program itself and for memory that the collector does not count.
func limitMemory(bytes int64) {
	if bytes > 0 {
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), bytes/10*8))
	}
}

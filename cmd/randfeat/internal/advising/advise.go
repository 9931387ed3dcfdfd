// Package advising has the command advise, which ranks estimators on the rows given.
package advising

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/kernels"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tableflags"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// AdviseHead is the object of advise --json for each head of queries and keys without values.
type AdviseHead struct {
	Head   int            `json:"head"`   // index of the head, from 0
	Report *advise.Report `json:"report"` // the advice for this head
}

type adviseFlags struct {
	tableflags.Flags
	kernel, scale       string
	features            int
	tol                 float64
	time                time.Duration
	positive, causal    bool
	loss, costs, rank   string
	unbiased            bool
	families, couplings []string
	skip                []string
	rows, draws         int
	seed                uint64
	html, spec          string
	demo                bool
	bar                 *cli.Progress
}

func AdviseCommand(env *cli.Env) *cobra.Command {
	var f adviseFlags
	cmd := &cobra.Command{
		Use:   "advise TABLE | Q K | Q K V | --demo",
		Short: "Find the best estimator for your data, by measured errors",
		Long: `Find the random features, or the attention method, that suit your data. The arguments decide what is compared:

  one table or array     a kernel within one set, as kernel machines use it (default: Gaussian)
  queries and keys       the kernel between them (default: softmax with the scale of attention)
  queries, keys, values  attention: features, exact attention, windows and centroids, and the best method of every head

Arrays are npy or npz (with members q, k and v) of floats, integers or bools, of shape [L, d], [H, L, d] or [B, H, L, d].
Tables are CSV, TSV, NDJSON, Parquet, xlsx, npy or npz. A single table is encoded as 'randfeat fit' does, with
standardised columns. Two tables must be numeric and are not scaled.

Every family is fitted with every coupling to a part of the rows and measured on the rest. The budget is a number of
features (--features), an error (--tol) or a time per row (--time). Candidates are ranked by root mean square error. The
table also shows their tail, their cost, and their error with as many features as fit into the time of the recommended
map. For one set, Nyström features take part; they are biased, and --unbiased leaves them out. "Use exact attention" and
"no estimator reaches this error" are possible answers.`,
		Example: `  randfeat advise --demo
  randfeat advise Q.npy K.npy --features 128 --positive --html report.html
  randfeat advise data.csv --skip price --tol 0.05
  randfeat advise Q.npy K.npy V.npy --tol 0.1 --save-spec heads.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.demo && len(args) > 0:
				return fmt.Errorf("--demo needs no files, got %s", strings.Join(args, ", "))
			case !f.demo && (len(args) < 1 || len(args) > 3):
				return fmt.Errorf("want one table, queries and keys, or queries, keys and values (or --demo), got %d arguments", len(args))
			}
			return nil
		},
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error { return runAdvise(env, cmd, &f, args) }),
	}
	flags := cmd.Flags()
	flags.IntVar(&f.features, "features", cli.DefaultM, "budget: number of features")
	cli.DeprecatedShorthand(cmd, "m", "features")
	flags.Float64Var(&f.tol, "tol", 0, "budget: an error to reach with as few features as possible; for attention the error of each head (default 0.1)")
	flags.DurationVar(&f.time, "time", 0, "budget: time per row on one core, such as 500ns")
	flags.StringVar(&f.kernel, "kernel", "", "gaussian or softmax (default: gaussian for one set, softmax for two)")
	flags.StringVar(&f.scale, "scale", "", "bandwidth, which divides the inputs: a number, attention (d^¼) or median (the median distance of rows) (default: median for gaussian, attention for softmax)")
	flags.BoolVar(&f.positive, "positive", false, "positive features only, as attention needs them")
	flags.StringVar(&f.loss, "loss", "", "error to minimise: relative (to each kernel value) or absolute (default: relative for softmax, absolute for gaussian)")
	flags.StringVar(&f.rank, "rank", "", "rank by rms, the root mean square error, or typical, the median over draws (default rms)")
	flags.BoolVar(&f.unbiased, "unbiased", false, "unbiased estimators only: no Nyström features")
	flags.StringSliceVar(&f.families, "families", nil, "`families` to try (default: all that suit the kernel)")
	flags.StringSliceVar(&f.couplings, "couplings", nil, "`couplings` to try (default: all that suit the family)")
	flags.IntVar(&f.rows, "rows", 0, "rows of each side to measure errors on (default 128)")
	flags.IntVar(&f.draws, "draws", 0, "largest number of draws of the projections per candidate (default 128)")
	flags.StringVar(&f.costs, "costs", "measured", "costs per row: measured on this machine, or model, which is the same on every machine")
	flags.BoolVar(&f.causal, "causal", false, "for attention: each query sees the keys up to its own position")
	flags.StringSliceVar(&f.skip, "skip", nil, "`columns` of a table to ignore, such as the target")
	flags.StringVar(&f.html, "html", "", "HTML `file` to write: the whole report as a page with figures")
	flags.StringVar(&f.spec, "save-spec", "", "JSON `file` for the recommended map, or the method of each head")
	flags.BoolVar(&f.demo, "demo", false, "use generated queries and keys: needs no files")
	flags.Uint64Var(&f.seed, "seed", cli.DefaultSeed, "seed of the measurements and of the recommended map")
	f.Add(cmd)
	cli.CompleteNames(cmd, "families", cli.FamilyNames)
	cli.CompleteNames(cmd, "couplings", cli.CouplingNames)
	cli.CompleteNames(cmd, "kernel", func() []string { return []string{"gaussian", "softmax"} })
	cli.CompleteNames(cmd, "loss", func() []string {
		return []string{"relative", "absolute"}
	})
	cli.CompleteNames(cmd, "costs", func() []string {
		return []string{"measured", "model"}
	})
	cli.CompleteNames(cmd, "rank", func() []string { return []string{"rms", "typical"} })
	cli.CompleteNames(cmd, "scale", func() []string { return []string{"1", "attention", "median"} })
	cli.CompleteFiles(cmd, "html", "html")
	cli.CompleteFiles(cmd, "save-spec", "json")
	return cmd
}

// options converts the flags to the options of the library, except for the kernel, which depends on the data.
func (f *adviseFlags) options(cmd *cobra.Command, env *cli.Env) (advise.Options, error) {
	o := advise.Options{Target: f.tol, PerToken: f.time, Positive: f.positive, Loss: advise.Loss(f.loss),
		Families: f.families, Couplings: f.couplings, Rows: f.rows, Draws: f.draws, Costs: advise.Costs(f.costs),
		Seed: f.seed, Measure: advise.Measure(f.rank), Unbiased: f.unbiased}
	asked := cmd.Flags().Changed("features")
	if asked && f.features < 1 {
		return o, cli.Misused("--features is %d, want at least 1", f.features)
	}
	if f.tol < 0 || f.time < 0 {
		return o, cli.Misused("--tol is %g and --time %v, want positive numbers", f.tol, f.time)
	}
	if asked || f.tol == 0 && f.time == 0 {
		o.Features = f.features
	}
	f.bar = env.Progress("", 0)
	o.Progress = func(stage string, done, total int) {
		f.bar.What, f.bar.Total = stage, total
		f.bar.At(done)
	}
	return o, nil
}

// chosenKernel returns the kernel of the flags for queries q and keys k; an empty k means one set. The default
// scale is the median distance for the Gaussian kernel and d^¼ for softmax.
func (f *adviseFlags) chosenKernel(q, k dense.Matrix[float64]) (kernel.Kernel, error) {
	kind := kernel.Softmax
	if k.IsEmpty() {
		kind = kernel.Gaussian
	}
	if f.kernel != "" {
		var err error
		if kind, err = kernel.ParseKind(f.kernel); err != nil {
			return kernel.Kernel{}, cli.Misused("--kernel: %w", err)
		}
	}
	scale := f.scale
	if scale == "" {
		if scale = "median"; kind == kernel.Softmax {
			scale = "attention"
		}
	}
	if scale == "median" {
		if k.IsEmpty() {
			k = q
		}
		if q.Cols != k.Cols {
			return kernel.Kernel{}, fmt.Errorf("queries have %d columns, keys %d: %w", q.Cols, k.Cols, dense.ErrShape)
		}
		return kernel.Kernel{Kind: kind, Scale: advise.MedianDistance(q, k)}, nil
	}
	m := mapflags.Flags{Kernel: kind.String(), Scale: scale}
	return m.BaseKernel(q.Cols)
}

func runAdvise(env *cli.Env, cmd *cobra.Command, f *adviseFlags, args []string) error {
	o, err := f.options(cmd, env)
	if err != nil {
		return err
	}
	defer f.bar.End()
	ctx, begun := cmd.Context(), time.Now()
	if f.demo {
		return adviseDemo(ctx, env, cmd, f, o, begun)
	}
	in, err := adviseInput(env, f, args)
	if err != nil {
		return err
	}
	if in.values() {
		if err := cli.Conflict(cmd, "values", "kernel", "scale", "loss", "time", "rank", "unbiased"); err != nil {
			return cli.Misused("attention has its own kernel and errors: drop --kernel, --scale, --loss, --rank, --unbiased and --time")
		}
		r, err := in.attention(ctx, attention.Visibility{Causal: f.causal}, o)
		if err != nil {
			return adviseMisuse(err)
		}
		return finishAdvice(env, f, r, begun)
	}
	if f.causal {
		return cli.Misused("--causal needs values: give queries, keys and values")
	}
	if len(in.heads) == 1 {
		h := in.heads[0]
		if o.Kernel, err = f.chosenKernel(h.q, h.k); err != nil {
			return err
		}
		r, err := advise.Kernel(ctx, h.q, h.k, o)
		if err != nil {
			return adviseMisuse(err)
		}
		return finishAdvice(env, f, r, begun)
	}
	if f.html != "" || f.spec != "" {
		return cli.Misused("--html and --save-spec are for one pair of sets or for attention: give one head, or values too")
	}
	return adviseHeads(ctx, env, f, in, o)
}

// adviseMisuse marks an error about options as a wrong command line.
func adviseMisuse(err error) error {
	if errors.Is(err, advise.ErrOptions) {
		return cli.Misuse{Err: errors.New(strings.TrimSuffix(err.Error(), ": "+advise.ErrOptions.Error()))}
	}
	return err
}

// adviseHeads advises on every head of queries and keys separately.
func adviseHeads(ctx context.Context, env *cli.Env, f *adviseFlags, in *adviseData, o advise.Options) error {
	var reports []*advise.Report
	o.Progress, o.Brief = nil, true
	bar := env.Progress("heads", len(in.heads))
	defer bar.End()
	for i, h := range in.heads {
		var err error
		if o.Kernel, err = f.chosenKernel(h.q, h.k); err != nil {
			return err
		}
		r, err := advise.Kernel(ctx, h.q, h.k, o)
		if err != nil {
			return fmt.Errorf("head %d: %w", i, adviseMisuse(err))
		}
		if env.JSON {
			if err := env.Object(AdviseHead{i, r}); err != nil {
				return err
			}
		}
		reports = append(reports, r)
		bar.At(i + 1)
	}
	bar.End()
	if env.JSON {
		return nil
	}
	fmt.Fprintf(env.Stdout, "%d heads, %s\n\n", len(reports), reports[0].About())
	return cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "HEAD\tRECOMMENDED\tFEATURES\tERROR\tMEASURE\tKEYS: 80 % IN")
		for i, r := range reports {
			if len(r.Ranking) == 0 {
				fmt.Fprintf(w, "%d\tnone\t\t\t\t\n", i)
				continue
			}
			c := r.Ranking[r.Best]
			fmt.Fprintf(w, "%d\t%s\t%d\t%.3g\t%s\t%d of %d\n", i, c.Name, c.Features, c.Error, r.Measure,
				r.Facts.Key.In80,
				len(r.Facts.Key.Spectrum))
		}
	})
}

// adviseDemo runs on generated rows, with the distribution of gram --demo.
func adviseDemo(ctx context.Context, env *cli.Env, cmd *cobra.Command, f *adviseFlags, o advise.Options,
	begun time.Time) error {
	if err := cli.Conflict(cmd, "demo", "kernel", "scale", "causal", "skip", "delimiter", "header", "no-header",
		"missing", "format", "encoding"); err != nil {
		return err
	}
	q, k, err := kernels.DemoFitData()
	if err != nil {
		return err
	}
	o.Kernel = kernel.Kernel{Kind: kernel.Softmax}
	if !cmd.Flags().Changed("features") && f.tol == 0 && f.time == 0 {
		o.Features = kernels.DemoM
	}
	if !cmd.Flags().Changed("costs") {
		o.Costs = "model" // the same output on every machine
	}
	r, err := advise.Kernel(ctx, q, k, o)
	if err != nil {
		return adviseMisuse(err)
	}
	return finishAdvice(env, f, r, begun)
}

// finishAdvice writes the files and prints the report.
func finishAdvice(env *cli.Env, f *adviseFlags, r *advise.Report, begun time.Time) error {
	f.bar.End()
	var files cli.Outputs
	defer files.Abort()
	if f.html != "" {
		w, err := files.Create(f.html, env)
		if err != nil {
			return err
		}
		if err := r.WriteHTML(w); err != nil {
			return err
		}
	}
	if f.spec != "" {
		var doc any = r.Spec
		if r.Attention != nil {
			doc = r.Attention.Choice
		} else if r.Spec == nil {
			return fmt.Errorf("--save-spec: no candidate can be used, see why with --json")
		}
		w, err := files.Create(f.spec, env)
		if err != nil {
			return err
		}
		b, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	if err := files.Commit(); err != nil {
		return err
	}
	if env.JSON {
		return env.Object(r)
	}
	if f.html == "-" || f.spec == "-" {
		return nil
	}
	return printAdvice(env, f, r, begun)
}

// printedCandidates bounds the printed ranking; --json has all.
const printedCandidates = 10

func printAdvice(env *cli.Env, f *adviseFlags, r *advise.Report, begun time.Time) error {
	w := cli.Printable{Writer: env.Stdout}
	fmt.Fprintf(w, "%s\n\n", capitalised(r.About()))
	if len(r.Ranking) == 0 {
		fmt.Fprintln(w, "No candidate can be used here:")
		for _, c := range r.Refused {
			fmt.Fprintf(w, "  %s: %s\n", c.Name, c.Refused)
		}
		return nil
	}
	fmt.Fprintf(w, "%s\n\nRanked by %s:\n", r.Verdict, r.ErrorName())
	number := func(v *float64) string {
		if v == nil {
			return "–"
		}
		return adviseNumber(*v)
	}
	err := cli.Table(env.Stdout, func(w io.Writer) {
		if r.Attention == nil {
			fmt.Fprintln(w, "\tCANDIDATE\tFEATURES\tERROR\t90 % INTERVAL\tMEDIAN\t95 %\tPREDICTED\tTAIL\tNS/ROW\tAT EQUAL TIME")
		} else {
			fmt.Fprintln(w, "\tCANDIDATE\tFEATURES\tERROR\tOVER HEADS\tNS/ROW")
		}
		for i, c := range r.Ranking[:min(len(r.Ranking), printedCandidates)] {
			mark := ""
			if i == r.Best && !r.Useless {
				mark = "→"
			}
			name := c.Name
			if c.Biased {
				name += " (biased, fitted to rows)"
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%s", mark, name, c.Features, adviseNumber(c.Error))
			if r.Attention != nil {
				fmt.Fprintf(w, "\t%s to %s\t%.0f\n", adviseNumber(c.Low), adviseNumber(c.High), c.Cost)
				continue
			}
			interval := "–"
			switch {
			case c.High > 0:
				interval = adviseNumber(c.Low) + " to " + adviseNumber(c.High)
			case c.Heavy:
				interval = "heavy tail"
			}
			equal := "–"
			if t := c.EqualTime; t != nil {
				equal = fmt.Sprintf("%s with %d", adviseNumber(t.Error), t.Features)
			}
			fmt.Fprintf(w, "\t%s\t%s\t%s\t%s\t%s\t%.0f\t%s\n", interval, adviseNumber(c.Median), adviseNumber(c.P95),
				number(c.Predicted), number(c.Tail), c.Cost, equal)
		}
	})
	if err != nil {
		return err
	}
	if more := len(r.Ranking) - printedCandidates; more > 0 {
		fmt.Fprintf(w, "and %d more (--json); %d could not take part.\n", more, len(r.Refused))
	}
	if at := r.Attention; at != nil {
		if err := printMethods(env, at); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nWhy:\n")
	for _, s := range r.Reasons {
		for i, line := range wrapped(s, 116) {
			fmt.Fprintf(w, "%s%s\n", []string{"- ", "  "}[min(i, 1)], line)
		}
	}
	if r.Attention != nil || !r.Useless {
		fmt.Fprintf(w, "\nIn Go:\n")
		for line := range strings.Lines(r.Code) {
			fmt.Fprintf(w, "    %s", line)
		}
	}
	fmt.Fprintf(w, "\nTime %.1f s. Seed %d.\n", time.Since(begun).Seconds(), r.Seed)
	for _, path := range []string{f.html, f.spec} {
		if path != "" {
			fmt.Fprintf(w, "Written: %s\n", path)
		}
	}
	return nil
}

// adviseNumber prints a number; the library stores infinity as 1e300 or more, because JSON has none.
func adviseNumber(v float64) string {
	if v >= 1e300 {
		return "∞"
	}
	return fmt.Sprintf("%.2g", v)
}

func printMethods(env *cli.Env, at *advise.AttentionAdvice) error {
	fmt.Fprintln(env.Stdout)
	err := cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "METHOD\tCOST\tMEDIAN ERROR\t90 % OF HEADS")
		for _, m := range at.Rows {
			fmt.Fprintf(w, "%s\t%.0f\t%.2g\t%.2g\n", m.Method, m.Cost, m.Median, m.Most)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout)
	return cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "HEAD\tMETHOD\tCOST\tEXPECTED ERROR\tWHY")
		for _, h := range at.Heads {
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%.2g\t%s\n", h.Head, h.Method, h.Cost, h.Error, h.Why)
		}
	})
}

// wrapped breaks a text into lines between words.
func wrapped(s string, width int) (lines []string) {
	for _, word := range strings.Fields(s) {
		n := len(lines) - 1
		if n < 0 || len([]rune(lines[n]))+1+len([]rune(word)) > width {
			lines = append(lines, word)
		} else {
			lines[n] += " " + word
		}
	}
	return lines
}

func capitalised(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

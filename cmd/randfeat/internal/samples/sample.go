// Package samples has the command sample, which draws classes from a softmax by random features.
package samples

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/sampling"
)

// SampleRow is the classes drawn for one query: an object of sample --json without -o.
type SampleRow struct {
	Query   int   `json:"query"`   // index of the query, from 0
	Classes []int `json:"classes"` // drawn classes
	// LogProb is the log probability of each draw; with --distinct, among the classes that are left. Draws with
	// --exact have none.
	LogProb []float64 `json:"log_prob,omitempty"`
	// LogCount corrects sums: Σ f(class)/exp(log_count) over the draws has the mean Σ f(class) over all
	// classes.
	LogCount []float64 `json:"log_count,omitempty"`
}

// SampleResult is the last object of sample --json: what was drawn, and how.
type SampleResult struct {
	Out      string `json:"out,omitempty"`
	LogProb  string `json:"log_prob,omitempty"` // file
	Queries  int    `json:"queries"`
	Classes  int    `json:"classes"`
	K        int    `json:"k"`                  // draws per query
	Distinct bool   `json:"distinct,omitempty"` // a query draws a class at most once
	Exact    bool   `json:"exact,omitempty"`    // draws follow the softmax exactly
	Tried    int    `json:"tried,omitempty"`    // draws that --exact made, including rejected ones
	Within   string `json:"within"`             // probabilities inside a block: score (exact softmax) or features
	// Counts are the numbers of node estimates, of negative ones that were clipped to zero, and of nodes where
	// all were.
	Counts  sampling.Counts `json:"counts"`
	Memory  int             `json:"memory"`            // bytes of the tree
	Warning string          `json:"warning,omitempty"` // why the combination is a bad choice
	Spec    randfeat.Spec   `json:"spec"`              // with fitted parameters and the seed
}

const (
	withinScore    = "score"
	withinFeatures = "features"
)

type sampleFlags struct {
	mapflags.Flags
	k, block, tries              int
	temperature                  float64
	distinct, exact, normalize   bool
	fit, compare, demo           bool
	within, out, logProb, counts string
}

// SampleCommand draws classes by a softmax.
func SampleCommand(env *cli.Env) *cobra.Command {
	var f sampleFlags
	cmd := &cobra.Command{
		Use:   "sample CLASSES.npy QUERIES.npy -k N --family NAME",
		Short: "Draw classes with softmax probabilities, in logarithmic time",
		Long: `Draw N classes for every row of QUERIES.npy, with probabilities close to exp(q·c/τ)/Σ exp(q·c/τ) over the rows c of
CLASSES.npy. A tree of sums of random features makes a draw cost O(F log n) instead of O(n). Each line of the output is
a query, a class and the exact log probability of the draw; rows are numbered from 0.

--distinct draws without replacement: each draw takes one of the remaining classes in proportion to its probability.
--exact draws from the softmax itself by rejection; it is fast for rows of norm about 1. --normalize scales rows to norm
1. --within features uses features inside a block of classes too, as the papers do; the default is the exact softmax of
the block.

Families with signed features (trig, hybrids) may give negative estimates. They count as zero, and a note says how many.

--compare prints how far the sampler's probabilities are from the softmax instead of draws: KL divergence, Wasserstein and
Kolmogorov–Smirnov distance over classes in the order of their rows, the share of negative estimates, and the effective
sample size of importance weights as a share of the draws. Uniform sampling and, with --counts, sampling by frequency^¾
are listed for comparison.

--demo needs no files: it compares families on generated classes.`,
		Example: `  randfeat sample --demo
  randfeat sample classes.npy queries.npy -k 40 --family oprf --fit
  randfeat sample classes.npy queries.npy -k 40 --family positive --distinct -o ids.npy --log-prob logs.npy
  randfeat sample classes.npy queries.npy --family oprf --fit --compare --counts counts.npy`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return cli.ExactArgs("none with --demo", 0)(cmd, args)
			}
			return cli.ExactArgs("two npy files CLASSES.npy and QUERIES.npy, or --demo", 2)(cmd, args)
		},
		ValidArgsFunction: cli.NPYArgs(2),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return sampleDemo(env, cmd, &f)
			}
			return runSample(env, cmd, &f, args[0], args[1])
		}),
	}
	f.Add(cmd)
	flags := cmd.Flags()
	kind := flags.Lookup("kernel")
	kind.DefValue, f.Kernel = "softmax", "softmax"
	flags.IntVarP(&f.k, "draws", "k", 10, "draws per query")
	flags.Float64Var(&f.temperature, "temperature", 1, "τ of exp(q·c/τ)")
	flags.BoolVar(&f.distinct, "distinct", false, "draw without replacement")
	flags.BoolVar(&f.exact, "exact", false, "draw from the softmax itself by rejection; needs positive features")
	flags.IntVar(&f.tries, "tries", 0, "draws that --exact may reject per accepted draw, on average (default 1000)")
	flags.BoolVar(&f.normalize, "normalize", false, "scale classes and queries to norm 1")
	flags.StringVar(&f.within, "within", withinScore, "probabilities inside a block of classes: score (exact softmax) or features")
	flags.IntVar(&f.block, "block", 0, "classes per leaf of the tree (default 64; 16 with --within features)")
	flags.BoolVar(&f.fit, "fit", false, "fit the family's parameters to the two files")
	flags.BoolVar(&f.compare, "compare", false, "print distances from the softmax instead of draws")
	flags.StringVar(&f.counts, "counts", "", "with --compare: npy `file` with the frequency of each class")
	flags.BoolVar(&f.demo, "demo", false, "compare families on generated classes")
	flags.StringVarP(&f.out, "out", "o", "", "npy `file` for the drawn classes, one row per query")
	flags.StringVar(&f.logProb, "log-prob", "", "npy `file` for the log probabilities of the draws")
	cli.CompleteNames(cmd, "within", func() []string { return []string{withinScore, withinFeatures} })
	for _, name := range []string{"counts", "out", "log-prob"} {
		cli.CompleteFiles(cmd, name, "npy")
	}
	return cmd
}

func (f *sampleFlags) check(cmd *cobra.Command) error {
	for _, other := range []string{"scale", "spec"} {
		if cmd.Flags().Changed("temperature") {
			if err := cli.Conflict(cmd, "temperature", other); err != nil {
				return err
			}
		}
	}
	if f.compare {
		if err := cli.Conflict(cmd, "compare", "draws", "distinct", "exact", "tries", "out", "log-prob"); err != nil {
			return err
		}
	}
	switch {
	case f.k < 1:
		return cli.Misused("--draws is %d, want at least 1", f.k)
	case !(f.temperature > 0) || math.IsInf(f.temperature, 0):
		return cli.Misused("--temperature is %g, want a positive number", f.temperature)
	case f.within != withinScore && f.within != withinFeatures:
		return cli.Misused("--within is %q, want %s or %s", f.within, withinScore, withinFeatures)
	case f.block < 0 || f.tries < 0:
		return cli.Misused("--block is %d and --tries %d, want positive numbers", f.block, f.tries)
	case f.exact && f.distinct:
		return cli.Misused("--exact and --distinct exclude each other")
	case f.tries > 0 && !f.exact:
		return cli.Misused("--tries needs --exact")
	case f.counts != "" && !f.compare:
		return cli.Misused("--counts needs --compare")
	case f.exact && f.logProb != "":
		return cli.Misused("--log-prob: draws of --exact have no log probability, as the sum over all classes is not known")
	case f.logProb != "" && f.out == "":
		return cli.Misused("--log-prob needs --out (-o) for the classes")
	case f.logProb != "" && f.logProb == f.out:
		return cli.Misused("--log-prob and --out are the same file %s", f.out)
	case f.out == "-" || f.logProb == "-":
		return cli.Misused("-o and --log-prob want files; without them draws are printed")
	}
	return f.Flags.Check(cmd)
}

func runSample(env *cli.Env, cmd *cobra.Command, f *sampleFlags, classPath, queryPath string) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if classPath == "-" && queryPath == "-" {
		return cli.Misused("only one of the two sets can come from stdin")
	}
	classes, err := mapflags.ReadSet(env, classPath)
	if err != nil {
		return err
	}
	queries, err := mapflags.ReadSet(env, queryPath)
	if err != nil {
		return err
	}
	if classes.Cols() != queries.Cols() {
		return fmt.Errorf("%s has %d columns, %s has %d: %w", classPath, classes.Cols(), queryPath, queries.Cols(),
			dense.ErrShape)
	}
	var counts []float64
	if f.counts != "" {
		if counts, err = readCounts(env, f.counts, classes.Rows()); err != nil {
			return err
		}
	}
	spec, err := f.Spec(classes.Cols())
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("temperature") {
		spec.Kernel.Scale = math.Sqrt(f.temperature)
	}
	if classes.DType == npy.Float32 && queries.DType == npy.Float32 {
		return sample(cmd.Context(), env, f, spec, classes.Float32(), queries.Float32(), counts)
	}
	return sample(cmd.Context(), env, f, spec, classes.Float64(), queries.Float64(), counts)
}

// readCounts reads one number per class, in a row or in a column.
func readCounts(env *cli.Env, path string, classes int) ([]float64, error) {
	a, err := mapflags.ReadSet(env, path)
	if err != nil {
		return nil, err
	}
	m := a.Float64()
	if m.Rows != 1 && m.Cols != 1 || m.Rows*m.Cols != classes {
		return nil, fmt.Errorf("%s is %d×%d, want one count for each of %d classes: %w", path, m.Rows, m.Cols, classes,
			dense.ErrShape)
	}
	counts := m.Clone().Data
	for i, c := range counts {
		if c < 0 {
			return nil, fmt.Errorf("%s: class %d has the count %g, want at least 0", path, i, c)
		}
	}
	return counts, nil
}

// unitRows scales rows to norm 1; rows of zeros stay.
func unitRows[T dense.Float](x dense.Matrix[T]) dense.Matrix[T] {
	x = x.Clone()
	for i := range x.Rows {
		sum := 0.0
		for _, v := range x.Row(i) {
			sum += float64(v) * float64(v)
		}
		if sum == 0 {
			continue
		}
		for j, v := range x.Row(i) {
			x.Row(i)[j] = T(float64(v) / math.Sqrt(sum))
		}
	}
	return x
}

// sampler fits the family and builds the tree.
func sampler[T dense.Float](env *cli.Env, f *sampleFlags, spec randfeat.Spec, classes,
	queries dense.Matrix[T]) (*sampling.Sampler[T], *randfeat.Map[T], error) {
	var err error
	if f.fit {
		spec, err = mapflags.FitSpec(env, spec, dense.Convert[float64](queries), dense.Convert[float64](classes))
		if err != nil {
			return nil, nil, err
		}
	}
	m, err := mapflags.Build[T](&f.Flags, spec, mapflags.LibraryRows, f.fit)
	if err != nil {
		return nil, nil, err
	}
	o := sampling.Options{Block: f.block}
	if f.within == withinFeatures {
		o.Within = sampling.ByFeatures
	}
	// The tree holds two nodes of OutDim float64 sums per block of classes; the block sizes are the defaults of
	// package sampling.
	per := 64
	switch {
	case f.block > 0:
		per = f.block
	case o.Within == sampling.ByFeatures:
		per = 16
	}
	if err := cli.CheckMemory(16*float64(classes.Rows)/float64(per)*float64(m.OutDim()), "the tree"); err != nil {
		return nil, nil, err
	}
	s, err := sampling.New(m, classes, o)
	return s, m, err
}

func sample[T dense.Float](ctx context.Context, env *cli.Env, f *sampleFlags, spec randfeat.Spec, classes,
	queries dense.Matrix[T], counts []float64) error {
	if f.normalize {
		classes, queries = unitRows(classes), unitRows(queries)
	}
	s, m, err := sampler(env, f, spec, classes, queries)
	if err != nil {
		return err
	}
	spec = m.Spec()
	warn := f.Warning(spec, mapflags.SomeRows(queries), mapflags.SomeRows(classes))
	if f.compare {
		env.Warn(warn)
		return compareSamplers(ctx, env, f, s, m, queries, counts)
	}
	r := SampleResult{Out: f.out, LogProb: f.logProb, Queries: queries.Rows, Classes: s.Len(), K: f.k,
		Distinct: f.distinct, Exact: f.exact, Within: f.within, Memory: s.Memory(), Warning: warn, Spec: spec}
	if err := writeDraws(ctx, env, f, s, queries, &r); err != nil {
		return err
	}
	env.Warn(warn)
	if env.JSON {
		return env.Object(r)
	}
	text := ""
	if f.exact {
		text = fmt.Sprintf(", %d tries", r.Tried)
	} else if r.Counts.Clipped > 0 {
		text = fmt.Sprintf(", %d of %d estimates negative and clipped to zero", r.Counts.Clipped, r.Counts.Estimates)
	}
	env.Note("%d draws for each of %d queries among %d classes, %s features%s, %s", r.K, r.Queries, r.Classes,
		spec.Family.Name(), text, f.Origin(spec))
	return nil
}

// drawRows bounds the queries per call.
const drawRows = 1024

// writeDraws draws block by block, and prints or writes. Request.First makes the random streams depend on the
// query's number and not on the blocks.
func writeDraws[T dense.Float](ctx context.Context, env *cli.Env, f *sampleFlags, s *sampling.Sampler[T],
	queries dense.Matrix[T], r *SampleResult) error {
	var files cli.Outputs
	defer files.Abort()
	var ids, logs *npy.Writer[float64]
	for _, o := range []struct {
		path string
		to   **npy.Writer[float64]
	}{{f.out, &ids}, {f.logProb, &logs}} {
		if o.path == "" {
			continue
		}
		w, err := files.Create(o.path, env)
		if err != nil {
			return err
		}
		if *o.to, err = npy.NewWriter[float64](w, queries.Rows, f.k); err != nil {
			return err
		}
	}
	bar := env.Progress("queries", queries.Rows)
	defer bar.End()
	var draws sampling.Draws
	rows := cli.BlockRows(f.k, drawRows)
	for lo := 0; lo < queries.Rows; lo += rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := queries.RowRange(lo, min(lo+rows, queries.Rows))
		request := sampling.Request{K: f.k, Distinct: f.distinct, Seed: f.Seed, First: lo, Tries: f.tries}
		draw := s.Draw
		if f.exact {
			draw = s.Exact
		}
		if err := draw(&draws, block, request); err != nil {
			return err
		}
		r.Tried += draws.Tried
		r.Counts.Estimates += draws.Counts.Estimates
		r.Counts.Clipped += draws.Counts.Clipped
		r.Counts.Lost += draws.Counts.Lost
		if ids == nil {
			if err := printDraws(env, lo, &draws); err != nil {
				return err
			}
		} else if err := saveDraws(ids, logs, &draws); err != nil {
			return err
		}
		bar.At(lo + block.Rows)
	}
	for _, w := range []*npy.Writer[float64]{ids, logs} {
		if w != nil {
			if err := w.Close(); err != nil {
				return err
			}
		}
	}
	return files.Commit()
}

func printDraws(env *cli.Env, first int, d *sampling.Draws) error {
	var line []byte
	for i := range d.Queries() {
		one := d.Of(i)
		if env.JSON {
			row := SampleRow{Query: first + i, Classes: one.IDs, LogProb: one.LogProb, LogCount: one.LogCount}
			if err := env.Object(row); err != nil {
				return err
			}
			continue
		}
		for j, id := range one.IDs {
			line = strconv.AppendInt(line[:0], int64(first+i), 10)
			line = strconv.AppendInt(append(line, '\t'), int64(id), 10)
			if one.LogProb != nil {
				line = strconv.AppendFloat(append(line, '\t'), one.LogProb[j], 'g', 8, 64)
			}
			if _, err := env.Stdout.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	return nil
}

func saveDraws(ids, logs *npy.Writer[float64], d *sampling.Draws) error {
	m := dense.New[float64](d.Queries(), d.K)
	for i, id := range d.IDs {
		m.Data[i] = float64(id)
	}
	if err := ids.WriteRows(m); err != nil || logs == nil {
		return err
	}
	m.Data = d.LogProb
	return logs.WriteRows(m)
}

// Package attend has the commands attend and crossover.
//
// attend runs in this order: check flags (attend.go, attendmethod.go), read arrays and masks (package qkv,
// attendvisibility.go), decide the plan of every head (attendmethod.go), run it (attend.go), compare with exact
// attention if asked (attendcompare.go), write and report. attenddemo.go is attend --demo. crossover*.go
// measure at which length linear attention becomes faster.
package attend

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/npy"
)

func AttendCommand(env *cli.Env) *cobra.Command {
	var f attendFlags
	cmd := &cobra.Command{
		Use:   "attend Q.npy K.npy V.npy -o OUT.npy",
		Short: "Attention over long sequences, by a method that each head is tested for",
		Long: `Compute softmax(QKᵀ/√d)V by the cheapest method that is accurate enough for each head.

The arrays are of shape [L, d], [H, L, d] or [B, H, L, d], in npy files of float16, float32 or float64, or tensors of
safetensors files, also of bfloat16: model.safetensors:name. - reads one of them from stdin. K and V may have fewer heads
than Q (grouped queries) and another length. With --heads H the arrays are [L, H·d] or [B, L, H·d], as projection layers
write them, and the heads are split off their columns; K and V then have --kv-heads heads. Without --heads, --kv-heads
only checks their number. The output has the layout of Q and the columns of V; its element type is float32 unless one of
the inputs is float64 or --dtype says otherwise.

--method auto, the default, measures the error of each candidate on a sample of query rows, head by head. It takes the
cheapest candidate within --tol, or the best one within --budget; exact attention is among them. It reports its choice,
the cost, the expected error and why a head stays exact. --save-spec keeps the choice, and --spec applies it to other
data of the same model.

--method centroid lets blocks of --block similar queries choose --keys exact keys together, and replaces the others by
--clusters centroids. With --causal, queries also see the keys of their --chunk and the --window before it exactly, and
blocks choose among those before.

--method features uses random features for all keys except sinks and window; --family or --features implies it. The
default family, adaptive, is fitted to the files head by head, and replaced by positive if there is no query or no key to
fit to. A named family is fitted only with --fit. --method exact, or --exact, computes the softmax itself.

With --causal, centroids are made only of keys already seen, so the output is strictly causal. The choice of methods and
the fits of families also use all queries and keys, since they only set parameters. Attention is computed in float32.

--compare prints the error against exact attention for each head, on a sample of query rows, and the times of both. With
features it also prints the error that theory predicts. --demo needs no files: it generates heads with the statistics of
real ones and shows error against cost for all methods.`,
		Example: `  randfeat attend --demo --svg errors.svg
  randfeat attend Q.npy K.npy V.npy -o OUT.npy --tol 0.05 --save-spec model.json
  randfeat attend Q2.npy K2.npy V2.npy -o OUT2.npy --spec model.json --compare
  randfeat attend Q.npy K.npy V.npy -o OUT.npy --method centroid --causal --chunk 256 --keys 128
  randfeat attend Q.npy K.npy V.npy --family oprf --fit --coupling simplex --features 512 --compare`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return cli.ExactArgs("none with --demo", 0)(cmd, args)
			}
			return cli.ExactArgs("three npy files Q.npy, K.npy and V.npy, or --demo", 3)(cmd, args)
		},
		ValidArgsFunction: cli.NPYArgs(3),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return attendDemo(env, cmd, &f)
			}
			return runAttend(env, cmd, &f, args)
		}),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "npy `file` to write; - for stdout")
	flags.BoolVar(&f.causal, "causal", false, "each query sees the keys up to its own position; the last query is aligned with the last key")
	flags.StringVar(&f.method, "method", "auto", "auto, exact, centroid or features")
	flags.BoolVar(&f.exact, "exact", false, "the same as --method exact")
	flags.Float64Var(&f.tol, "tol", defaultTol, "with --method auto: largest relative error of the output of a head")
	flags.Float64Var(&f.budget, "budget", 0, "instead of --tol: mean cost per token and head, in random features; exact attention costs L/2")
	flags.BoolVar(&f.trace, "trace", false, "with --method auto: print the search of each head, every candidate with its error, cost and why it was taken or left")
	flags.StringVar(&f.saveSpec, "save-spec", "", "JSON `file` for the chosen methods and all fitted parameters")
	flags.StringVar(&f.spec, "spec", "", "JSON `file` of --save-spec: use its methods and parameters")
	flags.IntVar(&f.clusters, "clusters", defaultClusters, "number of centroids that replace the keys; 16 by default with --causal")
	flags.IntVar(&f.keys, "keys", defaultKeys, "number of keys that are exact for a block of queries; with --causal, of those before the window")
	flags.IntVar(&f.chunk, "chunk", defaultChunk, "with --causal: number of positions of a chunk")
	flags.IntVar(&f.block, "block", defaultBlock, "number of queries that choose --keys together; 384 by default with --causal")
	flags.IntVar(&f.heads, "heads", 0, "heads in the columns of [L, H·d] or [B, L, H·d] arrays")
	flags.IntVar(&f.kvHeads, "kv-heads", 0, "heads of K and V (default: as in the files, or --heads)")
	flags.StringVar(&f.mask, "mask", "", "npy `file` of bools or integers, [L] or [B, L]: 0 marks padding keys")
	flags.StringVar(&f.segments, "segments", "", "npy `file` of integers, [L] or [B, L]: ids of packed sequences; a query sees only keys with its id")
	flags.StringVar(&f.keySegments, "key-segments", "", "npy `file` like --segments, for the keys, if K has another length than Q")
	flags.IntVar(&f.window, "window", 0, "number of neighbouring keys with exact weights; 0: none, or 128 for centroid with --causal")
	flags.IntVar(&f.sinks, "sinks", 0, "with features: number of first keys with exact weights")
	flags.Float64Var(&f.scale, "scale", 0, "factor of the scores q·k (default 1/√d)")
	flags.StringVar(&f.dtype, "dtype", "", "float32 or float64 (default: as in the files)")
	flags.StringVar(&f.family, "family", defaultAttendFamily,
		"feature family: a name from 'randfeat families' or a JSON object with parameters")
	flags.StringVar(&f.coupling, "coupling", defaultAttendCoupling,
		"joint law of the projections: a name from 'randfeat couplings' or a JSON object")
	flags.IntVar(&f.m, "features", cli.DefaultM, "largest number of random features per head")
	cli.DeprecatedShorthand(cmd, "m", "features")
	flags.BoolVar(&f.fit, "fit", false, "fit the parameters of --family to each head; this is the default without --family")
	flags.Uint64Var(&f.seed, "seed", cli.DefaultSeed, "seed of the projections")
	flags.BoolVar(&f.compare, "compare", false, "print the error against exact attention and the times of both; -o may be left out")
	flags.IntVar(&f.sample, "sample", defaultCompareRows, "query rows per head that --compare uses; fewer by default if the sequence is very long")
	flags.BoolVar(&f.demo, "demo", false, "show error against cost of all methods on generated heads")
	flags.StringVar(&f.svg, "svg", "", "with --demo: SVG `file` for the figure")
	for _, name := range []string{"out", "mask", "segments", "key-segments"} {
		cli.CompleteFiles(cmd, name, "npy")
	}
	cli.CompleteFiles(cmd, "spec", "json")
	cli.CompleteFiles(cmd, "save-spec", "json")
	cli.CompleteFiles(cmd, "svg", "svg")
	cli.CompleteNames(cmd, "method", func() []string { return []string{"auto", "exact", "centroid", "features"} })
	cli.CompleteNames(cmd, "family", cli.FamilyNames)
	cli.CompleteNames(cmd, "coupling", cli.CouplingNames)
	cli.CompleteNames(cmd, "dtype", func() []string { return []string{"float32", "float64"} })
	return cmd
}

// check finds wrong combinations of flags before any file is read.
func (f *attendFlags) check(cmd *cobra.Command, env *cli.Env, paths []string) error {
	stdin := 0
	for _, p := range append(slices.Clone(paths), f.mask, f.segments, f.keySegments) {
		if p == "-" {
			stdin++
		}
	}
	switch {
	case stdin > 1:
		return cli.Misused("only one of the arrays can come from stdin")
	case f.out == "" && !f.compare:
		return cli.Misused("--out (-o) is missing: name the npy file to write, or use --compare")
	case f.out == "-" && (env.JSON || f.compare):
		return cli.Misused("-o - needs stdout for itself: drop --json and --compare")
	case f.heads < 0 || cmd.Flags().Changed("heads") && f.heads == 0:
		return cli.Misused("--heads is %d, want at least 1", f.heads)
	case f.kvHeads < 0 || cmd.Flags().Changed("kv-heads") && f.kvHeads == 0:
		return cli.Misused("--kv-heads is %d, want at least 1", f.kvHeads)
	case f.window < 0:
		return cli.Misused("--window is %d, want a number of keys", f.window)
	case f.sinks < 0:
		return cli.Misused("--sinks is %d, want a number of keys", f.sinks)
	case cmd.Flags().Changed("scale") && (!(f.scale > 0) || math.IsInf(f.scale, 0)):
		return cli.Misused("--scale is %v, want a positive number", f.scale)
	case f.dtype != "" && f.dtype != "float32" && f.dtype != "float64":
		return cli.Misused("--dtype is %q, want float32 or float64", f.dtype)
	case f.keySegments != "" && f.segments == "":
		return cli.Misused("--key-segments needs --segments")
	case cmd.Flags().Changed("sample") && !f.compare:
		return cli.Misused("--sample needs --compare")
	case f.sample < 1:
		return cli.Misused("--sample is %d, want at least 1", f.sample)
	}
	f.sampled = cmd.Flags().Changed("sample")
	if cmd.Flags().Changed("svg") {
		return cli.Misused("--svg needs --demo")
	}
	if err := f.checkMethod(cmd); err != nil || f.method != "features" {
		return err
	}
	f.fitDefault = !cmd.Flags().Changed("family")
	f.fit = f.fit || f.fitDefault
	f.asked = cmd.Flags().Changed("features")
	if f.m < 1 {
		return cli.Misused("--features is %d, want at least 1", f.m)
	}
	_, err := f.spec1(1)
	return err
}

func runAttend(env *cli.Env, cmd *cobra.Command, f *attendFlags, paths []string) error {
	if err := f.check(cmd, env, paths); err != nil {
		return err
	}
	files, err := qkv.ReadFiles(env, paths)
	if err != nil {
		return err
	}
	if f.dtype == "" {
		f.dtype = "float64"
		if files.IsFloat32() {
			f.dtype = "float32"
		}
	}
	return attend(cmd.Context(), env, f, files)
}

// attend does the work, in float32: choose, run, compare, save, write, report. Nothing is written before everything has
// succeeded.
func attend(ctx context.Context, env *cli.Env, f *attendFlags, files qkv.Files) error {
	in, err := qkv.Sequences(files, f.heads, f.kvHeads)
	if err != nil {
		return err
	}
	if in.Vis, err = readVisibility(env, f, in.Q.Batch, in.Q.Len, in.K.Len); err != nil {
		return err
	}
	r := AttendResult{Out: f.out, Shape: in.Shape, DType: f.dtype, Method: f.method,
		Causal: f.causal, Window: f.window, Sinks: f.sinks,
		Heads: in.Q.Heads, KVHeads: in.K.Heads, Rows: int64(in.Q.Batch) * int64(in.Q.Heads) * int64(in.Q.Len)}
	start := time.Now()
	choice, err := attendChoice(env, f, &in, &r)
	if err != nil {
		return files.Name(err)
	}
	r.ChoiceSeconds = time.Since(start).Seconds()
	r.choose(choice)
	if in.Q.Len > 0 && in.K.Len > 0 && len(r.Specs) > 0 {
		r.Warning = mapflags.Both(r.Warning, mapflags.Warning(r.Specs[0], mapflags.SomeRows(in.Q.Head(0, 0)),
			mapflags.SomeRows(in.K.Head(0, 0))))
	}
	var out attention.Seq[float32]
	if f.out != "" || f.compare {
		out = likeQueries(in)
	}
	if f.out != "" || f.compare && f.method != "features" { // features are compared by a call of their own
		if err := forward(ctx, env, &in, out, choice, &r); err != nil {
			return files.Name(err)
		}
	}
	if f.compare {
		if err := compareHeads(ctx, env, f, &in, out, choice, &r); err != nil {
			return files.Name(err)
		}
	}
	if f.saveSpec != "" {
		if err := saveChoice(env, f.saveSpec, choice); err != nil {
			return err
		}
	}
	if f.out != "" {
		if err := writeSequence(env, f.out, in.Shape, out, f.dtype == "float64", in.Unit); err != nil {
			return err
		}
	}
	return reportAttend(env, f, r)
}

// forward runs the choice into out. The estimated work decides how many heads one call gets.
func forward(ctx context.Context, env *cli.Env, in *qkv.Input, out attention.Seq[float32], c *choose.Choice,
	r *AttendResult) error {
	flops := 4 * float64(in.Q.Batch) * float64(in.Q.Len+in.K.Len) * float64(in.Q.Dim+in.V.Dim) / 2 * c.Cost()
	return eachHead(ctx, env, in, out, flops, r, func(lo, hi int) (attention.Attention[attention.Seq[float32]], error) {
		m, err := choose.New(c.Range(lo, hi))
		if err == nil {
			m.Visibility = in.Vis
		}
		return m, err
	})
}

// callFlops is the work of one call into the library: enough to use all threads, and little enough that
// progress is shown and an interrupt is noticed within seconds.
const callFlops = 1e11

// eachHead runs the method for key/value heads [lo, hi) and their query heads, group by group, and adds counts
// and time to r. flops is the work of one query head.
func eachHead(ctx context.Context, env *cli.Env, in *qkv.Input, out attention.Seq[float32], flops float64,
	r *AttendResult, method func(lo, hi int) (attention.Attention[attention.Seq[float32]], error)) error {
	group := in.Q.Heads / in.K.Heads
	step := 1 + int(min(callFlops/max(flops*float64(group), 1), float64(in.K.Heads)))
	bar := env.Progress("heads", in.Q.Heads)
	defer bar.End()
	for lo := 0; lo < in.K.Heads; lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+step, in.K.Heads)
		m, err := method(lo, hi)
		if err != nil {
			return err
		}
		start := time.Now()
		rep, err := m.Forward(headRange(out, lo*group, hi*group), headRange(in.Q, lo*group, hi*group),
			headRange(in.K, lo, hi), headRange(in.V, lo, hi))
		if err != nil {
			return err
		}
		r.Empty, r.Negative, r.Zero = r.Empty+rep.Empty, r.Negative+rep.Negative, r.Zero+rep.Zero
		r.Seconds += time.Since(start).Seconds()
		bar.At(hi * group)
	}
	return nil
}

func reportAttend(env *cli.Env, f *attendFlags, r AttendResult) error {
	env.Warn(r.Warning)
	if env.JSON {
		return env.Object(r)
	}
	var what string
	switch r.Method {
	case "exact":
		what = "exact attention"
	case "features":
		spec := r.Specs[0]
		fitted := ""
		if _, fits := spec.Family.(family.Fitter); fits && f.fit {
			fitted = ", fitted per head"
		}
		what = fmt.Sprintf("linear attention, %d %s features%s, %s, seed %d", r.Features, spec.Family.Name(), fitted,
			mapflags.CouplingName(spec), *r.Seed)
	case "centroid":
		what = fmt.Sprintf("centroid attention, cost %.0f of %.0f", r.Cost, r.ExactCost)
	default:
		what = fmt.Sprintf("methods chosen per head, mean cost %.0f of %.0f", r.Cost, r.ExactCost)
	}
	target := r.Out
	target = cmp.Or(target, "output not kept")
	env.Note("%s: %s %s, %s, %.3g s", target, npy.Dims(r.Shape), r.DType, what, r.Seconds)
	if r.Empty > 0 {
		env.Note("note: %s no key: zeros", outOf(r.Empty, r.Rows, "query row", "sees", "see"))
	}
	if r.Negative > 0 {
		env.Note("note: %s negative (signed features); quotients are taken as they are",
			outOf(r.Negative, r.Rows, "denominator", "is", "are"))
	}
	if r.Zero > 0 {
		env.Note("note: %s zero, or so small that the quotient is not finite in %s: rows of zeros",
			outOf(r.Zero, r.Rows, "denominator", "is", "are"), r.DType)
	}
	if r.Compare != nil {
		return printCompare(env, r)
	}
	if r.Method == "auto" || r.Method == "spec" {
		return printChoice(env.Stderr, r.Choice)
	}
	return nil
}

// outOf is the subject and verb of a sentence: "1 of 12 rows is", "2 of 12 rows are".
func outOf(n, of int64, noun, one, many string) string {
	verb := many
	if n == 1 {
		verb = one
	}
	if of != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d of %d %s %s", n, of, noun, verb)
}

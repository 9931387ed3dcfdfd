package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/auto"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// AttendResult says what attend did.
type AttendResult struct {
	Out      string `json:"out,omitempty"`
	Shape    []int  `json:"shape"`
	DType    string `json:"dtype"`
	Method   string `json:"method"` // auto, exact, features or centroid
	Causal   bool   `json:"causal,omitempty"`
	Window   int    `json:"window,omitempty"`
	Sinks    int    `json:"sinks,omitempty"`
	Heads    int    `json:"heads"`
	KVHeads  int    `json:"kv_heads"`
	Features int    `json:"features,omitempty"` // of one head
	// Cost is that of a token, the mean of all heads, in random features; ExactCost that of exact attention, L/2.
	Cost      float64 `json:"cost"`
	ExactCost float64 `json:"exact_cost"`
	Seconds   float64 `json:"seconds"`
	// ChoiceSeconds is the time that the choice took, or the fit of what is saved.
	ChoiceSeconds float64 `json:"choice_seconds,omitempty"`
	// Choice is what each key/value head does.
	Choice []AttendChoice `json:"choice,omitempty"`
	// Empty rows saw no key and are zeros; denominators that were Negative (signed features only) are used as they are;
	// Zero counts denominators that were zero or so small that the quotient is not finite: zeros.
	Rows     int64 `json:"rows"`
	Empty    int64 `json:"empty,omitempty"`
	Negative int64 `json:"negative,omitempty"`
	Zero     int64 `json:"zero,omitempty"`
	// Compare holds the errors against exact attention, with --compare.
	Compare *AttendCompare `json:"compare,omitempty"`
	Warning string         `json:"warning,omitempty"` // why the combination or the fit is a bad choice
	Seed    *uint64        `json:"seed,omitempty"`
	// Specs are the maps of --method features: one for all heads, or one for each key/value head.
	Specs []randfeat.Spec `json:"specs,omitempty"`
}

// AttendChoice is the method of one key/value head.
type AttendChoice struct {
	Method string  `json:"method"`
	Plan   string  `json:"plan"` // the method with its parameters
	Cost   float64 `json:"cost"`
	// Expected is the relative error of the output to expect, between Low and High in nine of ten cases; absent where
	// nothing was measured. It is that of a sample of Rows query rows.
	Expected *float64 `json:"expected,omitempty"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
	Rows     int      `json:"rows,omitempty"`
}

type attendFlags struct {
	out                         string
	causal, exact               bool
	heads, kvHeads              int
	mask, segments, keySegments string
	method                      string
	tol, budget                 float64
	saveSpec, spec              string
	centroid                    centroid.Spec
	window, sinks               int
	scale                       float64
	dtype                       string
	family, coupling            string
	m                           int
	fit, fitDefault             bool // fitDefault: because no family was named
	asked                       bool // for the number of features
	seed                        uint64
	compare, demo               bool
	svg                         string
	sample                      int
	sampled                     bool // --sample was given
}

// defaultAttendFamily is what attend uses when no family is named, and fits: the smallest error on most data.
const defaultAttendFamily = "adaptive"

const (
	fallbackFamily        = "positive" // where there is nothing to fit to
	defaultAttendCoupling = "orthogonal"
	defaultCompareRows    = 128
)

func (a *app) attendCommand() *cobra.Command {
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

--method auto, the default, measures the error of candidates on a sample of query rows, head by head, and takes the
cheapest within --tol, or the best that --budget pays for; exact attention is one of them. It says what it chose, at which
cost and with which error to expect. --save-spec keeps the choice, and --spec uses it for other data of the same model.

--method centroid summarises the keys by --clusters centroids; the keys of the --top clusters of a query are exact (with
--causal and --keys only the best so many of them), and so are the first --sinks keys and the --window of neighbours.
--method features uses random features for all keys but the sinks and the window; naming a --family or a number of
--features implies it. The adaptive family is fitted to the files, head by head; where there is no query or no key to fit
it to, the positive family is used. A named family is fitted with --fit. --method exact, or --exact, is the softmax itself.

With --causal centres of clusters are fitted to the keys already seen, never to later ones; those that --save-spec keeps
for other data are fitted to all. The choice itself and the fits of families look at all queries and keys: they find
parameters, and the output for these is strictly causal.

--compare prints the error against exact attention for each head, on a sample of query rows, and the times of both; with
features also the error that theory predicts. --demo needs no files: it shows error against cost for all methods on heads
that are generated with the statistics of real ones.`,
		Example: `  randfeat attend --demo --svg errors.svg
  randfeat attend Q.npy K.npy V.npy -o OUT.npy --tol 0.05 --save-spec model.json
  randfeat attend Q2.npy K2.npy V2.npy -o OUT2.npy --spec model.json --compare
  randfeat attend Q.npy K.npy V.npy -o OUT.npy --method centroid --causal --top 8 --keys 96 --window 64
  randfeat attend Q.npy K.npy V.npy --family oprf --fit --coupling simplex -m 512 --compare`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return exactArgs("none with --demo", 0)(cmd, args)
			}
			return exactArgs("three npy files Q.npy, K.npy and V.npy, or --demo", 3)(cmd, args)
		},
		ValidArgsFunction: npyArgs(3),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return a.attendDemo(cmd, &f)
			}
			return a.attend(cmd, &f, args)
		}),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "npy file to write; - for stdout")
	flags.BoolVar(&f.causal, "causal", false, "query i sees the keys up to its own position; the last query is aligned with the last key")
	flags.StringVar(&f.method, "method", "auto", "auto, exact, centroid or features")
	flags.BoolVar(&f.exact, "exact", false, "the same as --method exact")
	flags.Float64Var(&f.tol, "tol", defaultTol, "relative error of the output that --method auto keeps each head within")
	flags.Float64Var(&f.budget, "budget", 0, "instead of --tol: mean cost of a token and head, in random features; exact attention costs L/2")
	flags.StringVar(&f.saveSpec, "save-spec", "", "JSON file to write the choice of methods to, with all that was fitted")
	flags.StringVar(&f.spec, "spec", "", "JSON file of --save-spec: use the choice that it holds")
	flags.IntVar(&f.centroid.Clusters, "clusters", defaultClusters, "centroids that stand for the keys")
	flags.IntVar(&f.centroid.Top, "top", 4, "clusters, the best for a query, whose keys are exact")
	flags.IntVar(&f.centroid.Keys, "keys", 0, "with --causal: how many keys of the --top clusters are exact, those with the best estimated scores; 0: all")
	flags.IntVar(&f.centroid.Block, "block", 0, "queries that share a --window of neighbours; 0: 64 with --causal, else 16")
	flags.IntVar(&f.heads, "heads", 0, "heads in the columns of [L, H·d] or [B, L, H·d] arrays")
	flags.IntVar(&f.kvHeads, "kv-heads", 0, "heads of K and V; default: those of the files, or --heads")
	flags.StringVar(&f.mask, "mask", "", "npy file of bools or integers, [L] or [B, L]: 0 for keys that are padding")
	flags.StringVar(&f.segments, "segments", "", "npy file of integers, [L] or [B, L]: ids of packed sequences; queries see keys of their own id")
	flags.StringVar(&f.keySegments, "key-segments", "", "the same for the keys, where they are not as many as the queries")
	flags.IntVar(&f.window, "window", 0, "exact softmax over the last so many keys; 0: none, or with --method centroid 64 with --causal, else 16")
	flags.IntVar(&f.sinks, "sinks", 0, "exact softmax over the first so many keys; 0: none")
	flags.Float64Var(&f.scale, "scale", 0, "factor of the scores q·k; default: 1/√d")
	flags.StringVar(&f.dtype, "dtype", "", "float32 or float64; default: that of the files")
	flags.StringVar(&f.family, "family", defaultAttendFamily,
		"feature family: a name of 'randfeat families' or a JSON object with parameters")
	flags.StringVar(&f.coupling, "coupling", defaultAttendCoupling,
		"joint law of the projections: a name of 'randfeat couplings' or a JSON object")
	flags.IntVarP(&f.m, "features", "m", defaultM, "random features per head, at most: as many projections as make them")
	flags.BoolVar(&f.fit, "fit", false, "fit the parameters of --family to each head; this is the default without --family")
	flags.Uint64Var(&f.seed, "seed", defaultSeed, "seed of the projections")
	flags.BoolVar(&f.compare, "compare", false, "print the error against exact attention and the times of both; -o may be left out")
	flags.IntVar(&f.sample, "sample", defaultCompareRows, "query rows per head that --compare looks at; by default fewer of very long sequences")
	flags.BoolVar(&f.demo, "demo", false, "error against cost of all methods on generated heads")
	flags.StringVar(&f.svg, "svg", "", "SVG file to draw the figure of --demo into")
	for _, name := range []string{"out", "mask", "segments", "key-segments"} {
		completeFiles(cmd, name, "npy")
	}
	completeFiles(cmd, "spec", "json")
	completeFiles(cmd, "save-spec", "json")
	completeFiles(cmd, "svg", "svg")
	completeNames(cmd, "method", func() []string { return []string{"auto", "exact", "centroid", "features"} })
	completeNames(cmd, "family", familyNames)
	completeNames(cmd, "coupling", couplingNames)
	completeNames(cmd, "dtype", func() []string { return []string{"float32", "float64"} })
	return cmd
}

func (f *attendFlags) check(cmd *cobra.Command, a *app, paths []string) error {
	stdin := 0
	for _, p := range append(slices.Clone(paths), f.mask, f.segments, f.keySegments) {
		if p == "-" {
			stdin++
		}
	}
	switch {
	case stdin > 1:
		return misused("only one of the arrays can come from stdin")
	case f.out == "" && !f.compare:
		return misused("--out (-o) is missing: name the npy file to write, or use --compare")
	case f.out == "-" && (a.json || f.compare):
		return misused("-o - needs stdout for itself: drop --json and --compare")
	case f.heads < 0 || cmd.Flags().Changed("heads") && f.heads == 0:
		return misused("--heads is %d, want at least 1", f.heads)
	case f.kvHeads < 0 || cmd.Flags().Changed("kv-heads") && f.kvHeads == 0:
		return misused("--kv-heads is %d, want at least 1", f.kvHeads)
	case f.window < 0:
		return misused("--window is %d, want a number of keys", f.window)
	case f.sinks < 0:
		return misused("--sinks is %d, want a number of keys", f.sinks)
	case cmd.Flags().Changed("scale") && (!(f.scale > 0) || math.IsInf(f.scale, 0)):
		return misused("--scale is %v, want a positive number", f.scale)
	case f.dtype != "" && f.dtype != "float32" && f.dtype != "float64":
		return misused("--dtype is %q, want float32 or float64", f.dtype)
	case f.keySegments != "" && f.segments == "":
		return misused("--key-segments needs --segments")
	case cmd.Flags().Changed("sample") && !f.compare:
		return misused("--sample needs --compare")
	case f.sample < 1:
		return misused("--sample is %d, want at least 1", f.sample)
	}
	f.sampled = cmd.Flags().Changed("sample")
	if cmd.Flags().Changed("svg") {
		return misused("--svg needs --demo")
	}
	if err := f.checkMethod(cmd); err != nil || f.method != "features" {
		return err
	}
	f.fitDefault = !cmd.Flags().Changed("family")
	f.fit = f.fit || f.fitDefault
	f.asked = cmd.Flags().Changed("features")
	if f.m < 1 {
		return misused("--features (-m) is %d, want at least 1", f.m)
	}
	_, err := f.spec1(1)
	return err
}

// spec1 is the map of one head, for queries of dim columns, before fitting. M is the number of features until then:
// how many projections make them may depend on the parameters.
func (f *attendFlags) spec1(dim int) (randfeat.Spec, error) {
	spec := randfeat.Spec{Kernel: kernel.Attention(dim), Dim: dim, M: f.m, Seed: f.seed}
	if f.scale > 0 {
		spec.Kernel.Scale = 1 / math.Sqrt(f.scale) // of both sides
	}
	var err error
	if spec.Family, err = family.Parse(f.family); err != nil {
		return spec, misused("--family: %w", err)
	}
	if spec.Coupling, err = coupling.Parse(f.coupling); err != nil {
		return spec, misused("--coupling: %w", err)
	}
	return spec, nil
}

func (a *app) attend(cmd *cobra.Command, f *attendFlags, paths []string) error {
	if err := f.check(cmd, a, paths); err != nil {
		return err
	}
	files, err := a.readAttend(paths)
	if err != nil {
		return err
	}
	if f.dtype == "float32" || f.dtype == "" && files.isFloat32() {
		return attendAs[float32](cmd.Context(), a, f, files)
	}
	return attendAs[float64](cmd.Context(), a, f, files)
}

func attendAs[T dense.Float](ctx context.Context, a *app, f *attendFlags, files attendFiles) error {
	in, err := sequences[T](files, f.heads, f.kvHeads)
	if err != nil {
		return err
	}
	if in.vis, err = a.visibility(f, in.q.Batch, in.q.Len, in.k.Len); err != nil {
		return err
	}
	r := AttendResult{Out: f.out, Shape: in.shape, DType: fmt.Sprintf("%T", *new(T)), Method: f.method,
		Causal: f.causal, Window: f.window, Sinks: f.sinks,
		Heads: in.q.Heads, KVHeads: in.k.Heads, Rows: int64(in.q.Batch) * int64(in.q.Heads) * int64(in.q.Len)}
	start := time.Now()
	choice, err := attendChoice(a, f, &in, &r)
	if err != nil {
		return files.name(err)
	}
	r.ChoiceSeconds = time.Since(start).Seconds()
	r.choose(choice)
	run := choice
	if f.causal && f.method != "spec" {
		run = strict(choice)
		if f.saveSpec != "" {
			a.note("note: centres in %s are fitted to all keys, for other data; the output here has centres fitted to keys already seen", f.saveSpec)
		}
	}
	if in.q.Len > 0 && in.k.Len > 0 && len(r.Specs) > 0 {
		r.Warning = both(r.Warning, warning(r.Specs[0], someRows(in.q.Head(0, 0)), someRows(in.k.Head(0, 0))))
	}
	var out attention.Seq[T]
	if f.out != "" || f.compare {
		out = likeQueries(in)
	}
	if f.out != "" || f.compare && f.method != "features" { // which are compared by a call of their own
		if err := forward(ctx, a, &in, out, run, &r); err != nil {
			return files.name(err)
		}
	}
	if f.compare {
		if err := compareHeads(ctx, a, f, &in, out, choice, &r); err != nil {
			return files.name(err)
		}
	}
	if f.saveSpec != "" {
		if err := a.saveChoice(f.saveSpec, choice); err != nil {
			return err
		}
	}
	if f.out != "" {
		if err := writeSequence(a, f.out, in.shape, out); err != nil {
			return err
		}
	}
	return a.reportAttend(f, r)
}

// name puts file names in the place of the library's q, k and v.
func (f attendFiles) name(err error) error {
	for i, s := range []string{"q: ", "k: ", "v: "} {
		if text := err.Error(); len(text) > len(s) && text[:len(s)] == s {
			return fmt.Errorf("%s as %w", f.names[i], err)
		}
	}
	return err
}

// likeQueries is an output in the memory order of the queries.
func likeQueries[T dense.Float](in attendInput[T]) attention.Seq[T] {
	if in.q.StrideH == in.q.Dim && in.q.StrideL == in.q.Heads*in.q.Dim {
		return attention.NewSeqBLHD[T](in.q.Batch, in.q.Len, in.q.Heads, in.v.Dim)
	}
	return attention.NewSeq[T](in.q.Batch, in.q.Heads, in.q.Len, in.v.Dim)
}

// attendSpecs are the maps of --method features: fitted, one per key/value head, or one for all. few warns of a fit to
// few rows.
func attendSpecs[T dense.Float](a *app, f *attendFlags, in *attendInput[T]) (specs []randfeat.Spec, few string,
	err error) {
	if f.fitDefault && !in.canFit() {
		a.note("note: there is no query or no key to fit the family %s to: positive features, not fitted", f.family)
		f.family, f.fit, f.fitDefault = fallbackFamily, false, false
	}
	spec, err := f.spec1(in.q.Dim)
	if err != nil {
		return nil, "", err
	}
	if err := checkSize(spec, "--features (-m)"); err != nil {
		return nil, "", err
	}
	specs = []randfeat.Spec{spec}
	if f.fit {
		if specs, few, err = fitHeads(a, f, spec, in); err != nil {
			return nil, "", err
		}
	}
	var features int
	for i := range specs {
		if specs[i], err = withFeatures(specs[i], f.m, f.asked); err != nil {
			break
		}
		if features, err = specs[i].OutDim(); err != nil {
			break
		}
	}
	if errors.Is(err, family.ErrParam) {
		return nil, "", fmt.Errorf("%w; %s", err, parameterHint(spec.Family, f.fit))
	}
	if err != nil {
		return nil, "", err
	}
	return specs, few, checkFeatures(features, libraryRows, "--features (-m)")
}

// parameterHint says how to give a family the parameters that it lacks.
func parameterHint(f family.Family, fit bool) string {
	parameters := "..."
	if _, ok := f.(family.LFK); ok {
		parameters = `"w": [[...], ...]`
	}
	hint := fmt.Sprintf("set parameters with --family '{\"name\": %q, %s}'", f.Name(), parameters)
	if _, fits := f.(family.Fitter); fits && !fit {
		hint += " or fit them with --fit"
	}
	return hint
}

// canFit reports whether a query and a key count: masks are those of all heads.
func (in *attendInput[T]) canFit() bool {
	queries, keys := in.fitMasks()
	return in.q.Len > 0 && in.k.Len > 0 && (queries == nil || slices.Contains(queries, true)) &&
		(keys == nil || slices.Contains(keys, true))
}

// fitMasks say which queries and keys count in a fit: padding of one sequence is padding on both sides.
func (in *attendInput[T]) fitMasks() (queries, keys []bool) {
	if in.q.Len == in.k.Len {
		queries = in.vis.KeyMask
	}
	return queries, in.vis.KeyMask
}

func fitHeads[T dense.Float](a *app, f *attendFlags, spec randfeat.Spec, in *attendInput[T]) (specs []randfeat.Spec,
	few string, err error) {
	name := spec.Family.Name()
	if _, fits := spec.Family.(family.Fitter); !fits {
		a.note("note: --fit changes nothing: there is no rule that fits the family %s to data", name)
	}
	stats, err := attention.NewHeadStats[T](spec, in.k.Heads)
	if err != nil {
		return nil, "", err
	}
	queries, keys := in.fitMasks()
	if err := stats.Add(in.q, in.k, queries, keys); err != nil {
		return nil, "", err
	}
	specs, err = stats.Fit()
	switch {
	case err != nil && f.fitDefault:
		return nil, "", fmt.Errorf("fitting the family used without --family: %w; name one that needs no fit, such as --family %s", err, fallbackFamily)
	case err != nil:
		return nil, "", fmt.Errorf("--fit: %w; leave --fit out and set parameters of --family %s, or use --family %s", err,
			name, fallbackFamily)
	}
	return specs, stats.Warning(), nil
}

// forward runs the choice into out.
func forward[T dense.Float](ctx context.Context, a *app, in *attendInput[T], out attention.Seq[T], c *auto.Choice,
	r *AttendResult) error {
	flops := 4 * float64(in.q.Batch) * float64(in.q.Len+in.k.Len) * float64(in.q.Dim+in.v.Dim) / 2 * c.Cost()
	return eachHead(ctx, a, in, out, flops, r, func(lo, hi int) (attention.Attention[attention.Seq[T]], error) {
		m, err := auto.New[T](c.Range(lo, hi))
		if err == nil {
			m.Visibility = in.vis
		}
		return m, err
	})
}

// callFlops is the work of one call into the library: enough for all threads, and little enough that progress shows and
// an interrupt is heard.
const callFlops = 1e11

// eachHead runs what method gives for key/value heads [lo, hi) on these and their query heads, group by group, and adds
// up counts and time in r. flops is the work of one query head.
func eachHead[T dense.Float](ctx context.Context, a *app, in *attendInput[T], out attention.Seq[T], flops float64,
	r *AttendResult, method func(lo, hi int) (attention.Attention[attention.Seq[T]], error)) error {
	group := in.q.Heads / in.k.Heads
	step := 1 + int(min(callFlops/max(flops*float64(group), 1), float64(in.k.Heads)))
	bar := a.progress("heads", in.q.Heads)
	defer bar.end()
	for lo := 0; lo < in.k.Heads; lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+step, in.k.Heads)
		m, err := method(lo, hi)
		if err != nil {
			return err
		}
		start := time.Now()
		rep, err := m.Forward(headRange(out, lo*group, hi*group), headRange(in.q, lo*group, hi*group),
			headRange(in.k, lo, hi), headRange(in.v, lo, hi))
		if err != nil {
			return err
		}
		r.Empty, r.Negative, r.Zero = r.Empty+rep.Empty, r.Negative+rep.Negative, r.Zero+rep.Zero
		r.Seconds += time.Since(start).Seconds()
		bar.at(hi * group)
	}
	return nil
}

// headRange is the view of heads lo to hi-1.
func headRange[T dense.Float](s attention.Seq[T], lo, hi int) attention.Seq[T] {
	s.Heads = hi - lo
	s.Data = s.Data[min(lo*s.StrideH, len(s.Data)):]
	return s
}

// writeSequence writes the output in its file layout.
func writeSequence[T dense.Float](a *app, path string, shape []int, out attention.Seq[T]) error {
	var files outputs
	defer files.abort()
	w, err := files.create(path, a.stdout)
	if err != nil {
		return err
	}
	n, err := data.NewNPYTensorWriter[T](w, shape)
	if err != nil {
		return err
	}
	cols := shape[len(shape)-1]
	// the memory order of the file
	rows := dense.Matrix[T]{Rows: len(out.Data) / cols, Cols: cols, Stride: cols, Data: out.Data}
	if err := n.WriteRows(rows); err != nil {
		return err
	}
	if err := n.Close(); err != nil {
		return err
	}
	return files.commit()
}

func (a *app) reportAttend(f *attendFlags, r AttendResult) error {
	a.warn(r.Warning)
	if a.json {
		return a.object(r)
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
			couplingName(spec), *r.Seed)
	case "centroid":
		what = fmt.Sprintf("centroid attention, cost %.0f of %.0f", r.Cost, r.ExactCost)
	default:
		what = fmt.Sprintf("methods chosen per head, mean cost %.0f of %.0f", r.Cost, r.ExactCost)
	}
	target := r.Out
	if target == "" {
		target = "output not kept"
	}
	a.note("%s: %s %s, %s, %.3g s", target, data.Dims(r.Shape), r.DType, what, r.Seconds)
	if r.Empty > 0 {
		a.note("note: %s no key: zeros", outOf(r.Empty, r.Rows, "query row", "sees", "see"))
	}
	if r.Negative > 0 {
		a.note("note: %s negative (signed features); quotients are taken as they are",
			outOf(r.Negative, r.Rows, "denominator", "is", "are"))
	}
	if r.Zero > 0 {
		a.note("note: %s zero, or so small that the quotient is not finite in %s: rows of zeros",
			outOf(r.Zero, r.Rows, "denominator", "is", "are"), r.DType)
	}
	if r.Compare != nil {
		return a.printCompare(r)
	}
	if r.Method == "auto" || r.Method == "spec" {
		return printChoice(a.stderr, r.Choice)
	}
	return nil
}

// outOf is the subject and verb of a sentence: 1 of 12 rows is, 2 of 12 rows are.
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

package attend

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/crossover"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

type crossoverFlags struct {
	dim, m, heads, minLen, maxLen, threads int
	causal                                 bool
	family, coupling, out                  string
	budget                                 time.Duration
	seed                                   uint64
}

func CrossoverCommand(env *cli.Env) *cobra.Command {
	var f crossoverFlags
	cmd := &cobra.Command{
		Use:   "crossover",
		Short: "Measure from which length linear attention beats exact attention on this machine",
		Long: `Time exact and linear attention in float32 at growing lengths and find the length where linear attention becomes faster.
The two take turns. The table shows medians, and the crossing has a 90 % bootstrap interval. The curves are drawn in the
terminal and, with -o, as SVG.

The measurement stops after --budget and skips lengths that do not fit. Other work on the machine widens the interval.`,
		Example: `  randfeat attend crossover
  randfeat attend crossover --dim 128 --features 512 --heads 8 --causal --threads 1 -o crossover.svg`,
		Args: cli.ExactArgs("none", 0),
		RunE: cli.Do(func(cmd *cobra.Command, _ []string) error { return runCrossover(env, cmd, &f) }),
	}
	flags := cmd.Flags()
	flags.IntVar(&f.dim, "dim", 64, "columns of queries, keys and values")
	flags.IntVar(&f.m, "features", cli.DefaultM, "largest number of random features per head")
	cli.DeprecatedShorthand(cmd, "m", "features")
	flags.IntVar(&f.heads, "heads", 1, "number of heads")
	flags.BoolVar(&f.causal, "causal", false, "causal attention")
	flags.IntVar(&f.minLen, "min-len", 128, "shortest length")
	flags.IntVar(&f.maxLen, "max-len", 8192, "longest length")
	flags.IntVar(&f.threads, "threads", 0, "threads of both methods; 0: all")
	flags.StringVar(&f.family, "family", "positive", "feature family: a name from 'randfeat families' or a JSON object with parameters")
	flags.StringVar(&f.coupling, "coupling", defaultAttendCoupling, "joint law of the projections")
	flags.DurationVar(&f.budget, "budget", 20*time.Second, "time for all measurements")
	flags.StringVarP(&f.out, "out", "o", "", "SVG `file` for the figure")
	flags.Uint64Var(&f.seed, "seed", cli.DefaultSeed, "seed of the projections and of the inputs")
	cli.CompleteNames(cmd, "family", cli.FamilyNames)
	cli.CompleteNames(cmd, "coupling", cli.CouplingNames)
	cli.CompleteFiles(cmd, "out", "svg")
	return cmd
}

// maxThreads bounds --threads: more never help, and a slip of a digit should not start them.
const maxThreads = 1024

func (f *crossoverFlags) check(asked bool) (randfeat.Spec, error) {
	spec := randfeat.Spec{Dim: f.dim, M: f.m, Seed: f.seed}
	switch ext := strings.ToLower(filepath.Ext(f.out)); {
	case f.dim < 1 || f.m < 1 || f.heads < 1:
		return spec, cli.Misused("--dim is %d, --features %d and --heads %d, want at least 1", f.dim, f.m, f.heads)
	case f.minLen < 1 || f.maxLen < 2*f.minLen:
		return spec, cli.Misused("--min-len is %d and --max-len %d, want at least 1 and twice as much", f.minLen,
			f.maxLen)
	case f.threads < 0 || f.threads > maxThreads:
		return spec, cli.Misused("--threads is %d, want 0 to %d", f.threads, maxThreads)
	case f.budget < time.Millisecond:
		return spec, cli.Misused("--budget is %v, want at least 1ms", f.budget)
	case f.out != "" && ext != ".svg":
		return spec, cli.Misused("--out (-o) is %q, want a name that ends in .svg: browsers and editors turn that into other formats", f.out)
	case float64(f.heads)*float64(f.maxLen)*float64(f.dim) > cli.MaxElements:
		return spec, cli.Misused("--heads × --max-len × --dim is %.3g, the limit is %d",
			float64(f.heads)*float64(f.maxLen)*float64(f.dim), cli.MaxElements)
	}
	var err error
	if spec.Family, err = family.Parse(f.family); err != nil {
		return spec, cli.Misused("--family: %w", err)
	}
	if spec.Coupling, err = coupling.Parse(f.coupling); err != nil {
		return spec, cli.Misused("--coupling: %w", err)
	}
	spec.Kernel = kernel.Attention(f.dim)
	if err := cli.CheckSize(spec, "--features"); err != nil {
		return spec, err
	}
	return cli.WithFeatures(spec, f.m, asked)
}

func runCrossover(env *cli.Env, cmd *cobra.Command, f *crossoverFlags) error {
	spec, err := f.check(cmd.Flags().Changed("features"))
	if err != nil {
		return err
	}
	m, err := randfeat.New[float32](spec)
	if err != nil {
		return err
	}
	if err := cli.CheckFeatures(m.OutDim(), mapflags.LibraryRows, "--features"); err != nil {
		return err
	}
	if f.threads > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(f.threads))
	}
	r := crossover.CrossoverResult{Dim: f.dim, Features: m.OutDim(), Heads: f.heads, Causal: f.causal,
		Family: spec.Family.Name(), Threads: runtime.GOMAXPROCS(0), Seed: f.seed, Plot: f.out}
	race := newRace(f, m)
	if err := race.run(cmd.Context(), env, &r); err != nil {
		return err
	}
	r.Find(f.seed)
	if f.out != "" {
		if err := savePlot(&r, f.out); err != nil {
			return err
		}
	}
	if env.JSON {
		return env.Object(r)
	}
	return printCrossover(env, f, r)
}

// race times the two kinds of attention on prefixes of the same sequences.
type race struct {
	f             *crossoverFlags
	q, k, v, out  attention.Seq[float32]
	linear, exact attention.Attention[attention.Seq[float32]]
}

func newRace(f *crossoverFlags, m *randfeat.Map[float32]) *race {
	vis := attention.Visibility{Causal: f.causal}
	r := &race{f: f, exact: &attention.Exact[float32]{Visibility: vis},
		linear: &linear.Attention[float32]{Visibility: vis, Maps: []randfeat.FeatureMap[float32]{m}}}
	for i, s := range []*attention.Seq[float32]{&r.q, &r.k, &r.v, &r.out} {
		*s = attention.NewSeq[float32](1, f.heads, f.maxLen, f.dim)
		if s != &r.out {
			fillNormals(s.Data, f.seed, uint64(100+i))
		}
	}
	return r
}

// fillNormals fills dst with a repeated block of random numbers of size ½. Their values do not affect the time.
func fillNormals(dst []float32, seed, stream uint64) {
	block := make([]float64, min(len(dst), 1<<16))
	rng.Normals(block, rng.Stream(seed, stream))
	for i := range dst {
		dst[i] = float32(0.5 * block[i%len(block)])
	}
}

// call times n calls at a length and returns the seconds of one.
func (r *race) call(f attention.Attention[attention.Seq[float32]], length, n int) (float64, error) {
	start := time.Now()
	for range n {
		_, err := f.Forward(firstRows(r.out, length), firstRows(r.q, length), firstRows(r.k, length),
			firstRows(r.v, length))
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds() / float64(n), nil
}

const (
	crossoverRuns = 25     // at a length, if the budget allows
	timedAtLeast  = 0.5e-3 // seconds of a timed group of calls: the clock and a context switch must not matter
)

// run measures. It first measures every length once, upwards until the budget would not last, and then all of
// them again and again, alternating methods and lengths. Slow drifts of the machine thus hit both methods
// alike.
func (r *race) run(ctx context.Context, env *cli.Env, result *crossover.CrossoverResult) error {
	start := time.Now()
	left := func() float64 { return (r.f.budget - time.Since(start)).Seconds() }
	bar := env.Progress("seconds", int(math.Ceil(r.f.budget.Seconds())))
	defer bar.End()
	spent := 0.0
	for _, length := range crossover.Lengths(r.f.minLen, r.f.maxLen) {
		// A length takes two calls here, and exact attention takes up to twice as long as at the last one. Keep
		// half of the budget for the repetitions.
		if len(result.Points) >= 2 && 4*spent > left()-r.f.budget.Seconds()/2 {
			result.Stopped = true
			break
		}
		p := crossover.CrossoverPoint{Length: length}
		if err := r.measure(ctx, &p, 1); err != nil { // fills caches and pools; not counted
			return err
		}
		spent = p.LinearRuns[0] + p.ExactRuns[0]
		p.LinearRuns, p.ExactRuns = nil, nil
		if err := r.measure(ctx, &p, calls(spent)); err != nil {
			return err
		}
		result.Points = append(result.Points, p)
		bar.At(int(time.Since(start).Seconds()))
	}
	for range crossoverRuns - 1 {
		for i := range result.Points {
			p := &result.Points[i]
			cost := p.LinearRuns[0] + p.ExactRuns[0]
			if left() < cost*float64(calls(cost)) {
				continue // shorter lengths may still fit
			}
			if err := r.measure(ctx, p, calls(cost)); err != nil {
				return err
			}
			bar.At(int(time.Since(start).Seconds()))
		}
	}
	for i := range result.Points {
		p := &result.Points[i]
		p.Sum()
	}
	return nil
}

// calls is the number of calls, each of the given seconds, in a timed group.
func calls(seconds float64) int { return max(1, int(math.Ceil(2*timedAtLeast/seconds))) }

func (r *race) measure(ctx context.Context, p *crossover.CrossoverPoint, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l, err := r.call(r.linear, p.Length, n)
	if err != nil {
		return err
	}
	e, err := r.call(r.exact, p.Length, n)
	if err != nil {
		return err
	}
	p.LinearRuns, p.ExactRuns = append(p.LinearRuns, l), append(p.ExactRuns, e)
	return nil
}

func printCrossover(env *cli.Env, f *crossoverFlags, r crossover.CrossoverResult) error {
	direction := "bidirectional"
	if r.Causal {
		direction = "causal"
	}
	fmt.Fprintf(env.Stdout, "%s attention, d = %d, %d %s features, %d head%s, float32, %d thread%s; medians in ms\n\n",
		direction, r.Dim, r.Features, r.Family, r.Heads, cli.Plural(r.Heads), r.Threads, cli.Plural(r.Threads))
	err := cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "LENGTH\tLINEAR\tEXACT\tLINEAR IS\tRUNS")
		for _, p := range r.Points {
			fmt.Fprintf(w, "%d\t%.4g\t%.4g\t%s\t%d\n", p.Length, p.Linear.Median*1e3, p.Exact.Median*1e3,
				cli.Speed(p.Exact.Median/p.Linear.Median), p.Runs)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout)
	r.Draw(env.Stdout)
	fmt.Fprintf(env.Stdout, "\n%s\n", r.Verdict())
	if r.Stopped {
		env.Note("note: longer lengths would not fit into --budget %v", f.budget)
	}
	if f.out != "" {
		env.Note("%s: written", f.out)
	}
	env.Note("seed %d", r.Seed)
	return nil
}

// savePlot writes the figure; the file appears complete or not at all. The path is never -.
func savePlot(r *crossover.CrossoverResult, path string) error {
	var files cli.Outputs
	defer files.Abort()
	w, err := files.Create(path, nil)
	if err != nil {
		return err
	}
	if err := r.WriteSVG(w); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return files.Commit()
}

package attend

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/kernel"
)

// AttendDemoRow is one method on the generated heads: an object of attend --demo --json.
type AttendDemoRow struct {
	Method string `json:"method"` // the curve in the figure that it belongs to
	Plan   string `json:"plan"`   // parameters of the method
	// Cost is the mean work per token and head, in units of one random feature; exact attention costs half the
	// length.
	Cost   float64 `json:"cost"`
	Median float64 `json:"median"` // median of the errors |ô-o|/|o| of the heads
	Low    float64 `json:"low"`    // first quartile of these errors
	High   float64 `json:"high"`   // third quartile of these errors
	Most   float64 `json:"most"`   // 90 % quantile of these errors
	Within float64 `json:"within"` // share of heads with an error of at most 0.1
	// Expected is the median error that a choice expects; the choice was made on other texts.
	Expected *float64 `json:"expected,omitempty"`
	Heads    int      `json:"heads"`
	Length   int      `json:"length"` // tokens of a text
	Causal   bool     `json:"causal,omitempty"`
	Seed     uint64   `json:"seed"`
}

const (
	attendHeads, attendLength, attendDim = 12, 512, 32
	attendTol                            = 0.1
)

// Texts that the demo measures, and other texts on which choices and fits are made: no method sees what it is
// measured on.
var (
	demoTexts  = []uint64{1, 2}
	otherTexts = []uint64{3, 4, 5}
)

// demoPlan is a line of the demo's table: one plan for all heads, or a choice within tol.
type demoPlan struct {
	method string
	plan   choose.Plan
	tol    float64
}

// demoPlans lists the methods, from the first papers to the recommended ones.
func demoPlans(causal bool, seed uint64) []demoPlan {
	var out []demoPlan
	features := func(method string, f family.Family, window int, counts ...int) {
		for _, m := range counts {
			spec := randfeat.Spec{Kernel: kernel.Attention(attendDim), Family: f, Coupling: coupling.Orthogonal{},
				Dim: attendDim, M: m, Seed: seed}
			near := &choose.FeatureSpec{Spec: spec, Window: window}
			if causal && window > 0 {
				near.Sinks = 4
			}
			out = append(out, demoPlan{method: method, plan: choose.Plan{Method: choose.Features, Features: near}})
		}
	}
	features("positive features", family.Positive{}, 0, 16, 64, 256)
	features("adaptive features, fitted", family.Adaptive{}, 0, 16, 64, 256)
	features("adaptive features + window", family.Adaptive{}, 16, 16, 64, 256)
	add := func(method string, s centroid.Spec) {
		out = append(out, demoPlan{method: method, plan: choose.Plan{Method: choose.Centroid, Centroid: s}})
	}
	if causal {
		for _, keys := range []int{16, 32, 64, 128, 256} {
			add("chunks, centroids and exact keys",
				centroid.Prefix{Clusters: 16, Keys: keys, Queries: 32, Chunk: 32, Window: 8,
					Start: attendLength / 8, Sample: 128, Passes: 1, Seed: seed})
		}
	} else {
		for _, keys := range []int{16, 32, 64, 128, 256} {
			add("blocks, centroids and exact keys",
				centroid.Blocks{Clusters: 16, Keys: keys, Queries: 64, Sample: 128, Passes: 1, Seed: seed})
		}
	}
	for _, tol := range []float64{0.3, 0.2, attendTol, 0.05} {
		out = append(out, demoPlan{method: "chosen per head", tol: tol})
	}
	return out
}

func attendDemo(env *cli.Env, cmd *cobra.Command, f *attendFlags) error {
	err := cli.Conflict(cmd, "demo", slices.Concat([]string{"out", "method", "exact", "heads", "kv-heads", "mask",
		"segments", "key-segments", "scale", "dtype", "compare", "sample", "save-spec", "spec"}, featureFlags,
		centroidFlags, nearFlags, choiceFlags)...)
	if err != nil {
		return err
	}
	var in, other qkv.Input
	in.Q, in.K, in.V = heads.Generate[float32](attendHeads, attendLength, attendDim, demoTexts...)
	other.Q, other.K, other.V = heads.Generate[float32](attendHeads, attendLength, attendDim, otherTexts...)
	in.Vis.Causal, other.Vis.Causal = f.causal, f.causal
	exact := likeQueries(in)
	if _, err := (&attention.Exact[float32]{Visibility: in.Vis}).Forward(exact, in.Q, in.K, in.V); err != nil {
		return err
	}
	rows, err := demoEnds(f, &in, exact)
	if err != nil {
		return err
	}
	plans := demoPlans(f.causal, f.seed)
	bar := env.Progress("methods", len(plans))
	defer bar.End()
	for i, p := range plans {
		row, err := demoRow(cmd.Context(), f, p, &in, &other, exact)
		if err != nil {
			return fmt.Errorf("%s: %w", p.method, err)
		}
		rows = append(rows, row)
		bar.At(i + 1)
	}
	bar.End()
	if f.svg != "" {
		if err := drawAttendDemo(env, f, rows); err != nil {
			return err
		}
	}
	if env.JSON {
		for _, r := range rows {
			if err := env.Object(r); err != nil {
				return err
			}
		}
		return nil
	}
	return printAttendDemo(env, f, rows)
}

// demoEnds returns the ends of the scale: exact attention, and the mean of all visible values.
func demoEnds(f *attendFlags, in *qkv.Input, exact attention.Seq[float32]) ([]AttendDemoRow, error) {
	mean := likeQueries(*in)
	if _, err := (&attention.Constant[float32]{Visibility: in.Vis}).Forward(mean, in.Q, in.K, in.V); err != nil {
		return nil, err
	}
	return []AttendDemoRow{newDemoRow(f, "exact", "", attendLength/2, exact, exact),
		newDemoRow(f, "mean of the values", "", 0, mean, exact)}, nil
}

func demoRow(ctx context.Context, f *attendFlags, p demoPlan, in, other *qkv.Input,
	exact attention.Seq[float32]) (AttendDemoRow, error) {
	if err := ctx.Err(); err != nil {
		return AttendDemoRow{}, err
	}
	var c *choose.Choice
	var err error
	if p.tol > 0 {
		// By cost, the axis of the figure: seconds would differ between machines.
		c, err = choose.Choose(choose.Options{Tol: p.tol, Seed: f.seed, ByCost: true}, other.Vis, 0, other.Q, other.K,
			other.V)
	} else {
		c, err = choose.Use(p.plan, other.Vis, 0, other.Q, other.K, other.V)
	}
	if err != nil {
		return AttendDemoRow{}, err
	}
	m, err := choose.New(c)
	if err != nil {
		return AttendDemoRow{}, err
	}
	out := likeQueries(*in)
	if _, err := m.Forward(out, in.Q, in.K, in.V); err != nil {
		return AttendDemoRow{}, err
	}
	if p.tol == 0 {
		return newDemoRow(f, p.method, p.plan.String(), c.Cost(), out, exact), nil
	}
	row := newDemoRow(f, p.method, fmt.Sprintf("--tol %g", p.tol), c.Cost(), out, exact)
	var expected []float64
	for _, h := range c.Heads {
		expected = append(expected, h.Expected.Error)
	}
	slices.Sort(expected)
	row.Expected = cli.Number(quantile(expected, 0.5))
	return row, nil
}

// newDemoRow computes the errors of all heads.
func newDemoRow(f *attendFlags, method, plan string, cost float64, out, exact attention.Seq[float32]) AttendDemoRow {
	r := AttendDemoRow{Method: method, Plan: plan, Cost: cost, Heads: attendHeads, Length: attendLength,
		Causal: f.causal, Seed: f.seed}
	var errs []float64
	for h := range attendHeads {
		e := headError(out, exact, h)
		errs = append(errs, e)
		if e <= attendTol {
			r.Within += 1.0 / attendHeads
		}
	}
	slices.Sort(errs)
	r.Low, r.Median, r.High = quantile(errs, 0.25), quantile(errs, 0.5), quantile(errs, 0.75)
	r.Most = quantile(errs, 0.9)
	return r
}

// quantile interpolates linearly between sorted numbers.
func quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func printAttendDemo(env *cli.Env, f *attendFlags, rows []AttendDemoRow) error {
	direction := "bidirectional"
	if f.causal {
		direction = "causal"
	}
	fmt.Fprintf(env.Stdout, "Error of the output relative to exact attention, %s, L = %d, d = %d: %d generated heads with the statistics of real ones.\n\n",
		direction, attendLength, attendDim, attendHeads)
	err := cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "METHOD\t\tCOST\tMEDIAN\t90 %\tHEADS ≤ 0.1")
		for _, r := range rows {
			plan := r.Plan
			if r.Expected != nil {
				plan += fmt.Sprintf(", expected %.2g", *r.Expected)
			}
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2g\t%.2g\t%s\n", r.Method, plan, r.Cost, r.Median, r.Most,
				cli.Percent(r.Within))
		}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(env.Stdout, "\nCOST is the work of one token in units of one random feature; exact attention costs L/2. Fits and choices were made on\n"+
		"other texts than those measured. This table chooses by cost; attend --tol chooses by seconds on your machine, where exact\n"+
		"attention is usually the fastest up to about 2000 keys.\n")
	return err
}

// leastDrawn is the smallest error that the figure shows.
const leastDrawn = 0.01

// drawAttendDemo writes the figure.
func drawAttendDemo(env *cli.Env, f *attendFlags, rows []AttendDemoRow) error {
	direction := "bidirectional"
	if f.causal {
		direction = "causal"
	}
	fig := figure.Figure{Title: "Error of attention against its cost",
		Subtitle: fmt.Sprintf("%s, %d generated heads with the statistics of real ones, L = %d; medians and quartiles", direction, attendHeads, attendLength),
		X: figure.Axis{Label: "cost of a token in random features (exact attention: 256)", Log: true,
			Ticks: []float64{16, 32, 64, 128, 256}},
		Y: figure.Axis{Label: "relative error of the output", Log: true,
			Ticks: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}},
	}
	for _, r := range rows[2:] {
		n := len(fig.Series)
		if n == 0 || fig.Series[n-1].Name != r.Method {
			fig.Series = append(fig.Series, figure.Series{Name: r.Method})
			n++
		}
		s := &fig.Series[n-1]
		// Heads without an error have no place on a logarithmic axis.
		floor := func(e float64) float64 { return max(e, leastDrawn) }
		s.X, s.Y = append(s.X, r.Cost), append(s.Y, floor(r.Median))
		s.Low, s.High = append(s.Low, floor(r.Low)), append(s.High, floor(r.High))
	}
	var files cli.Outputs
	defer files.Abort()
	w, err := files.Create(f.svg, env)
	if err != nil {
		return err
	}
	if err := fig.WriteSVG(w); err != nil {
		return err
	}
	return files.Commit()
}

// headError is the relative error of a head over all texts.
func headError(out, exact attention.Seq[float32], h int) float64 {
	var got, want []float32
	for b := range out.Batch {
		got, want = append(got, out.Head(b, h).Data...), append(want, exact.Head(b, h).Data...)
	}
	return relativeDistance(got, want)
}

func relativeDistance[T float32 | float64](got, want []T) float64 {
	var diff, norm float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		diff += d * d
		norm += float64(w) * float64(w)
	}
	return math.Sqrt(diff / norm)
}

package attend

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/localfile"
)

const (
	defaultTol = 0.1
	// Defaults of --method centroid, without and with --causal.
	defaultClusters, defaultKeys, defaultBlock = 64, 128, 128
	causalClusters, causalBlock                = 16, 384
	defaultChunk, defaultWindow                = 256, 128
)

// Flags that belong to one method only.
var (
	featureFlags  = []string{"family", "coupling", "features", "fit"}
	centroidFlags = []string{"clusters", "keys", "chunk", "block"}
	choiceFlags   = []string{"tol", "budget"}
	nearFlags     = []string{"window", "sinks"}
)

// checkMethod determines the method that the flags mean, and refuses flags that do not go with it.
func (f *attendFlags) checkMethod(cmd *cobra.Command) error {
	changed := func(names ...string) bool {
		for _, n := range names {
			if cmd.Flags().Changed(n) {
				return true
			}
		}
		return false
	}
	flag := "method " + f.method
	switch {
	case f.spec != "":
		f.method, flag = "spec", "spec"
		if changed("method", "save-spec", "exact", "scale") {
			return cli.Conflict(cmd, "spec", "method", "save-spec", "exact", "scale")
		}
	case f.exact:
		if changed("method") && f.method != "exact" {
			return cli.Misused("--exact and --method %s exclude each other", f.method)
		}
		f.method, flag = "exact", "exact"
	case changed("method"):
	case changed(featureFlags...):
		f.method, flag = "features", "method features (which --family, --coupling, --features and --fit imply)"
	case changed(centroidFlags...):
		f.method, flag = "centroid", "method centroid (which --clusters, --keys, --chunk and --block imply)"
	case changed(nearFlags...):
		return cli.Misused("--window and --sinks need --method centroid or --method features: auto chooses them itself")
	}
	var others [][]string
	switch f.method {
	case "auto":
		others = [][]string{featureFlags, centroidFlags, nearFlags}
	case "exact":
		others = [][]string{featureFlags, centroidFlags, nearFlags, choiceFlags, {"seed", "compare"}}
	case "centroid":
		others = [][]string{featureFlags, choiceFlags}
	case "features":
		others = [][]string{centroidFlags, choiceFlags}
	case "spec":
		others = [][]string{featureFlags, centroidFlags, nearFlags, choiceFlags, {"seed"}}
	default:
		return cli.Misused("--method is %q, want auto, exact, centroid or features", f.method)
	}
	for _, names := range others {
		if err := cli.Conflict(cmd, flag, names...); err != nil {
			return err
		}
	}
	switch {
	case f.trace && f.method != "auto":
		return cli.Misused("--trace shows how --method auto chooses: leave --%s out", flag)
	case changed("tol") && changed("budget"):
		return cli.Misused("--tol and --budget exclude each other")
	case changed("tol") && !(f.tol > 0 && f.tol < math.Inf(1)):
		return cli.Misused("--tol is %v, want a positive number", f.tol)
	case changed("budget") && !(f.budget > 0 && f.budget < math.Inf(1)):
		return cli.Misused("--budget is %v, want a positive number", f.budget)
	}
	if f.method == "centroid" {
		return f.checkCentroid(cmd)
	}
	return nil
}

// checkCentroid makes the spec of --method centroid.
func (f *attendFlags) checkCentroid(cmd *cobra.Command) error {
	given := func(name string, n, otherwise int) int {
		if cmd.Flags().Changed(name) {
			return n
		}
		return otherwise
	}
	if cmd.Flags().Changed("sinks") {
		return cli.Misused("--sinks is for --method features")
	}
	for _, name := range []string{"chunk", "window"} {
		if cmd.Flags().Changed(name) && !f.causal {
			return cli.Misused("--%s needs --causal with --method centroid", name)
		}
	}
	if f.causal {
		f.window = given("window", f.window, min(defaultWindow, f.chunk/2))
		f.centroid = centroid.Prefix{Clusters: given("clusters", f.clusters, causalClusters), Keys: f.keys,
			Queries: given("block", f.block, causalBlock), Chunk: f.chunk, Window: f.window, Seed: f.seed}
	} else {
		f.centroid = centroid.Blocks{Clusters: f.clusters, Keys: f.keys, Queries: f.block, Seed: f.seed}
	}
	if err := f.centroid.Validate(); err != nil {
		return cli.Misused("%w", err)
	}
	return nil
}

// attendChoice returns the plan of every head: from the flags, from a file, or chosen by measurement.
func attendChoice(env *cli.Env, f *attendFlags, in *qkv.Input, r *AttendResult) (*choose.Choice,
	error) {
	c := &choose.Choice{Causal: f.causal, Scale: f.scale, Length: in.K.Len, Dim: in.Q.Dim, ValueDim: in.V.Dim,
		Heads: make([]choose.Head, in.K.Heads)}
	switch f.method {
	case "spec":
		return readChoice(f, in)
	case "auto":
		if !in.CanFit() {
			env.Note("note: there is no query or no key to choose a method by: exact attention")
			break
		}
		r.Seed = &f.seed
		o := choose.Options{Tol: f.tol, Seed: f.seed}
		if f.budget > 0 {
			o.Tol, o.Budget = 0, f.budget
		}
		if f.trace {
			o.Trace = func(head int, t choose.Trace) { fmt.Fprintf(env.Stderr, "head %d\n%s", head, t) }
		}
		bar := env.Progress("choosing methods", 1)
		defer bar.End()
		return choose.Choose(o, in.Vis, f.scale, in.Q, in.K, in.V)
	case "centroid":
		r.Seed = &f.seed
		plan := choose.Plan{Method: choose.Centroid, Centroid: f.centroid}
		for h := range c.Heads {
			c.Heads[h].Plan = plan
		}
	case "features":
		specs, few, err := attendSpecs(env, f, in)
		if err != nil {
			return nil, err
		}
		r.Specs, r.Warning, r.Seed = specs, few, &f.seed
		if r.Features, err = specs[0].OutDim(); err != nil {
			return nil, err
		}
		for h := range c.Heads {
			one := &choose.FeatureSpec{Spec: specs[min(h, len(specs)-1)], Window: f.window, Sinks: f.sinks}
			c.Heads[h].Plan = choose.Plan{Method: choose.Features, Features: one}
		}
	}
	for h := range c.Heads {
		if c.Heads[h].Method == "" {
			c.Heads[h].Method = choose.Exact
		}
		c.Heads[h].Cost = c.Heads[h].Plan.Cost(f.causal, in.K.Len, in.Q.Dim, in.V.Dim)
	}
	return c, nil
}

// readChoice reads the file of --spec and checks that it fits the data.
func readChoice(f *attendFlags, in *qkv.Input) (*choose.Choice, error) {
	b, err := localfile.Read(f.spec, localfile.JSON("a choice of attention", cli.MaxSpec))
	if err != nil {
		return nil, err
	}
	c := new(choose.Choice)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("%s: %w", f.spec, err)
	}
	switch {
	case c.Causal && !f.causal:
		return nil, cli.Misused("%s was made with --causal: add --causal", f.spec)
	case f.causal && !c.Causal:
		return nil, cli.Misused("%s was made without --causal: make another, or leave --causal out", f.spec)
	case len(c.Heads) != in.K.Heads || c.Dim != in.Q.Dim || c.ValueDim != in.V.Dim:
		return nil, fmt.Errorf("%s is for %d key/value heads of %d and %d columns, the files have %d of %d and %d: %w",
			f.spec, len(c.Heads), c.Dim, c.ValueDim, in.K.Heads, in.Q.Dim, in.V.Dim, dense.ErrShape)
	}
	return c, nil
}

// saveChoice writes the file of --save-spec.
func saveChoice(env *cli.Env, path string, c *choose.Choice) error {
	b, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		return err
	}
	var files cli.Outputs
	defer files.Abort()
	w, err := files.Create(path, env)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return err
	}
	return files.Commit()
}

// choose copies the choice into the result.
func (r *AttendResult) choose(c *choose.Choice) {
	r.Cost, r.ExactCost = c.Cost(), float64(c.Length)/2
	for _, h := range c.Heads {
		p := AttendChoice{Method: string(h.Method), Plan: h.Plan.String(), Cost: h.Cost, Seconds: h.Seconds,
			Rows: h.Expected.Rows, Reason: h.Reason}
		if e := h.Expected; e.Rows > 0 {
			p.Expected, p.Low, p.High = cli.Number(e.Error), cli.Number(e.Low), cli.Number(e.High)
		}
		r.Choice = append(r.Choice, p)
	}
}

// printChoice prints the method of each head and its expected error.
func printChoice(w io.Writer, choice []AttendChoice) error {
	return cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "HEAD\tMETHOD\tCOST\tµs/TOKEN\tEXPECTED ERROR")
		for h, c := range choice {
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%s\t%s\n", h, c.method(), c.Cost, microseconds(c.Seconds), expectedText(c))
		}
	})
}

// method is the plan, and why it is exact.
func (c *AttendChoice) method() string {
	if c.Reason == "" {
		return c.Plan
	}
	return c.Plan + ": " + c.Reason
}

// microseconds formats a predicted time; a choice by cost or a given method has none.
func microseconds(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2g", 1e6*seconds)
}

func expectedText(c AttendChoice) string {
	switch {
	case c.Method == string(choose.Exact):
		return "0"
	case c.Expected == nil:
		return "-"
	case c.Low == nil || c.High == nil:
		return fmt.Sprintf("%.2g", *c.Expected)
	}
	return fmt.Sprintf("%.2g (%.2g to %.2g)", *c.Expected, *c.Low, *c.High)
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/attention/auto"
	"github.com/randfeat/randfeat/dense"
)

const (
	defaultTol      = 0.1
	defaultClusters = 64
	// Neighbours and sinks of --method centroid.
	defaultNear, defaultCausalNear, defaultCausalSinks = 16, 64, 4
)

// What tells the methods apart.
var (
	featureFlags  = []string{"family", "coupling", "features", "fit"}
	centroidFlags = []string{"clusters", "top", "keys", "block"}
	choiceFlags   = []string{"tol", "budget"}
	nearFlags     = []string{"window", "sinks"}
)

// checkMethod finds the method that the flags mean, and the flags that do not go with it.
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
			return conflict(cmd, "spec", "method", "save-spec", "exact", "scale")
		}
	case f.exact:
		if changed("method") && f.method != "exact" {
			return misused("--exact and --method %s exclude each other", f.method)
		}
		f.method, flag = "exact", "exact"
	case changed("method"):
	case changed(featureFlags...):
		f.method, flag = "features", "method features (which --family, --coupling, --features and --fit imply)"
	case changed(centroidFlags...):
		f.method, flag = "centroid", "method centroid (which --clusters, --top, --keys and --block imply)"
	case changed(nearFlags...):
		return misused("--window and --sinks need --method centroid or --method features: auto chooses them itself")
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
		return misused("--method is %q, want auto, exact, centroid or features", f.method)
	}
	for _, names := range others {
		if err := conflict(cmd, flag, names...); err != nil {
			return err
		}
	}
	switch {
	case changed("tol") && changed("budget"):
		return misused("--tol and --budget exclude each other")
	case changed("tol") && !(f.tol > 0 && f.tol < math.Inf(1)):
		return misused("--tol is %v, want a positive number", f.tol)
	case changed("budget") && !(f.budget > 0 && f.budget < math.Inf(1)):
		return misused("--budget is %v, want a positive number", f.budget)
	}
	if f.method == "centroid" {
		return f.checkCentroid(cmd)
	}
	return nil
}

// checkCentroid completes the spec of --method centroid.
func (f *attendFlags) checkCentroid(cmd *cobra.Command) error {
	window, sinks := defaultNear, 0
	if f.causal {
		window, sinks = defaultCausalNear, defaultCausalSinks
	}
	if cmd.Flags().Changed("window") {
		window = f.window
	}
	if cmd.Flags().Changed("sinks") {
		sinks = f.sinks
	}
	if f.centroid.Keys > 0 && !f.causal {
		return misused("--keys needs --causal: without it the keys of the --top clusters are all exact, which costs less time")
	}
	f.window, f.sinks = window, sinks
	s := &f.centroid
	s.Window, s.Sinks, s.Spread, s.Seed = window, sinks, f.causal, f.seed
	if err := s.Validate(); err != nil {
		return misused("%w", err)
	}
	return nil
}

// attendChoice is the plan of every head: what the flags say, what a file holds, or what is found to be best.
func attendChoice[T dense.Float](a *app, f *attendFlags, in *attendInput[T], r *AttendResult) (*auto.Choice, error) {
	c := &auto.Choice{Causal: f.causal, Scale: f.scale, Length: in.k.Len, Dim: in.q.Dim, ValueDim: in.v.Dim,
		Heads: make([]auto.Head, in.k.Heads)}
	switch f.method {
	case "spec":
		return readChoice(f, in)
	case "auto":
		if !in.canFit() {
			a.note("note: there is no query or no key to choose a method by: exact attention")
			break
		}
		r.Seed = &f.seed
		o := auto.Options{Tol: f.tol, Seed: f.seed, Online: f.saveSpec == ""}
		if f.budget > 0 {
			o.Tol, o.Budget = 0, f.budget
		}
		bar := a.progress("choosing methods", 1)
		defer bar.end()
		return auto.Choose(o, in.vis, f.scale, in.q, in.k, in.v)
	case "centroid":
		r.Seed = &f.seed
		plan := auto.Plan{Method: auto.Centroid, Centroid: &f.centroid}
		if f.causal && f.saveSpec != "" { // with centres for other data
			return auto.Use(plan, in.vis, f.scale, in.q, in.k, in.v)
		}
		for h := range c.Heads {
			c.Heads[h].Plan = plan
		}
	case "features":
		specs, few, err := attendSpecs(a, f, in)
		if err != nil {
			return nil, err
		}
		r.Specs, r.Warning, r.Seed = specs, few, &f.seed
		if r.Features, err = specs[0].OutDim(); err != nil {
			return nil, err
		}
		for h := range c.Heads {
			one := &auto.FeatureSpec{Spec: specs[min(h, len(specs)-1)], Window: f.window, Sinks: f.sinks}
			c.Heads[h].Plan = auto.Plan{Method: auto.Features, Features: one}
		}
	}
	for h := range c.Heads {
		if c.Heads[h].Method == "" {
			c.Heads[h].Method = auto.Exact
		}
		c.Heads[h].Cost = c.Heads[h].Plan.Cost(f.causal, in.k.Len, in.q.Dim, in.v.Dim)
	}
	return c, nil
}

// strict is the choice to run on the data that it was made of: centres calibrated on these would know later keys, so
// that causal ones are fitted to the keys already seen.
func strict(c *auto.Choice) *auto.Choice {
	out := *c
	out.Heads = slices.Clone(c.Heads)
	for h := range out.Heads {
		out.Heads[h].Centres = nil
	}
	return &out
}

// readChoice reads the file of --spec, which must be one for such data.
func readChoice[T dense.Float](f *attendFlags, in *attendInput[T]) (*auto.Choice, error) {
	b, err := os.ReadFile(f.spec)
	if err != nil {
		return nil, err
	}
	c := new(auto.Choice)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("%s: %w", f.spec, err)
	}
	switch {
	case c.Causal && !f.causal:
		return nil, misused("%s was made with --causal: use it so", f.spec)
	case f.causal && !c.Causal:
		return nil, misused("%s was made without --causal: make another, or leave --causal out", f.spec)
	case len(c.Heads) != in.k.Heads || c.Dim != in.q.Dim || c.ValueDim != in.v.Dim:
		return nil, fmt.Errorf("%s is for %d key/value heads of %d and %d columns, the files have %d of %d and %d: %w",
			f.spec, len(c.Heads), c.Dim, c.ValueDim, in.k.Heads, in.q.Dim, in.v.Dim, dense.ErrShape)
	}
	return c, nil
}

// saveChoice writes the file of --save-spec.
func (a *app) saveChoice(path string, c *auto.Choice) error {
	b, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		return err
	}
	var files outputs
	defer files.abort()
	w, err := files.create(path, a.stdout)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return err
	}
	return files.commit()
}

// choose notes the choice.
func (r *AttendResult) choose(c *auto.Choice) {
	r.Cost, r.ExactCost = c.Cost(), float64(c.Length)/2
	for _, h := range c.Heads {
		p := AttendChoice{Method: string(h.Method), Plan: h.Plan.String(), Cost: h.Cost, Rows: h.Expected.Rows}
		if e := h.Expected; e.Rows > 0 {
			p.Expected, p.Low, p.High = number(e.Error), number(e.Low), number(e.High)
		}
		r.Choice = append(r.Choice, p)
	}
}

// printChoice prints what each head does and what to expect of it.
func printChoice(w io.Writer, choice []AttendChoice) error {
	return table(w, func(w io.Writer) {
		fmt.Fprintln(w, "HEAD\tMETHOD\tCOST\tEXPECTED ERROR")
		for h, c := range choice {
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%s\n", h, c.Plan, c.Cost, expectedText(c))
		}
	})
}

func expectedText(c AttendChoice) string {
	switch {
	case c.Method == string(auto.Exact):
		return "0"
	case c.Expected == nil:
		return "-"
	case c.Low == nil || c.High == nil:
		return fmt.Sprintf("%.2g", *c.Expected)
	}
	return fmt.Sprintf("%.2g (%.2g to %.2g)", *c.Expected, *c.Low, *c.High)
}

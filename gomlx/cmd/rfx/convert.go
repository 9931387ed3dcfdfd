package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/pretrained"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/internal/suggest/similar"
)

type convertFlags struct {
	backend.Flags
	out, family, coupling, text        string
	m, window, sinks, length, passages int
	clusters, block, exact             int
	seed                               uint64
	json                               bool
}

// converted is the output of rfx convert.
type converted struct {
	Model    string      `json:"model"`
	Out      string      `json:"out,omitempty"`
	Passages int         `json:"passages"` // for calibration
	Tested   int         `json:"tested"`   // other passages, for the errors
	Length   int         `json:"length"`
	Errors   [][]float64 `json:"errors"`          // |o − ô|/|o| by layer and head
	Exact    int         `json:"exact,omitempty"` // exact keys per query, which Errors ignore
	Unused   []string    `json:"unused,omitempty"`
}

func convert(args []string) error {
	var f convertFlags
	flags := flag.NewFlagSet("rfx convert", flag.ContinueOnError)
	f.Flags.Set(flags)
	flags.StringVar(&f.out, "out", "", "folder of the converted model; without it errors are printed and nothing is written")
	flags.StringVar(&f.family, "family", "oprf", "feature family; dark is trained by rfx finetune; none keeps only -window and -sinks")
	flags.StringVar(&f.coupling, "coupling", "orthogonal", "coupling of projections")
	flags.IntVar(&f.m, "m", 256, "number of projections")
	flags.IntVar(&f.window, "window", 0, "number of nearest keys with exact weights")
	flags.IntVar(&f.sinks, "sinks", 0, "number of first keys with exact weights")
	flags.IntVar(&f.clusters, "clusters", 0, "use this many clusters of keys instead of features")
	flags.IntVar(&f.block, "block", 0, "with -clusters: block size. Queries have exact weights for the keys of their block up to their own and for -window keys before it; encoders for all keys of the block and -window keys on both sides (default 64, encoders 16)")
	flags.IntVar(&f.exact, "exact", 0, "decoders with -clusters: number of further keys per query with exact weights, by largest score. This scores all pairs and sets the default of -block to 16; rfx generate does not support it")
	flags.StringVar(&f.text, "text", "", "text file to calibrate on and to measure errors with; required")
	flags.IntVar(&f.length, "length", 256, "tokens per passage")
	flags.IntVar(&f.passages, "passages", 8, "largest number of passages; the last quarter, at least one, measures the errors")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the projections")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	dir, err := oneFolder(flags, args, "rfx convert MODEL_DIR -text FILE -out DIR")
	if err != nil {
		return err
	}
	if f.text == "" {
		return fmt.Errorf("name a text to calibrate on: -text FILE")
	}
	given := map[string]bool{}
	flags.Visit(func(x *flag.Flag) { given[x.Name] = true })
	if f.clusters > 0 && (given["family"] || given["coupling"] || given["m"]) {
		return fmt.Errorf("-clusters stands in place of features: leave out -family, -coupling and -m")
	}
	centred := f.clusters > 0 || f.family == "none"
	if f.exact != 0 && f.clusters == 0 {
		return fmt.Errorf("-exact %d needs clusters: set their number with -clusters", f.exact)
	}
	if f.clusters < 0 || f.block < 0 || given["block"] && !centred {
		return fmt.Errorf("-clusters %d, -block %d: want no negative numbers, and -block only with -clusters or -family "+
			"none", f.clusters, f.block)
	}
	if f.out != "" {
		if err := pretrained.Free(f.out); err != nil {
			return err
		}
	}
	spec := randfeat.Spec{M: f.m, Seed: f.seed}
	if !centred {
		if spec.Family, err = family.Parse(f.family); err != nil {
			return fmt.Errorf("-family: %w", err)
		}
	}
	if spec.Coupling, err = coupling.Parse(f.coupling); err != nil {
		return fmt.Errorf("-coupling: %w", err)
	}
	m, err := pretrained.Load(dir)
	if err != nil {
		return err
	}
	passages, err := readPassages(m, f.text, f.length, f.passages)
	if err != nil {
		return err
	}
	if len(passages) < 2 {
		return fmt.Errorf("%s has one passage of %d tokens; take a longer text or -length: errors are measured on others than the fit",
			f.text, f.length)
	}
	b, line, err := f.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	cut := len(passages) - max(1, len(passages)/4)
	plan := pretrained.Plan{Spec: spec, Window: f.window, Sinks: f.sinks}
	if centred {
		c := &rfx.Clusters{Clusters: f.clusters, Block: f.block, Window: f.window, Sinks: f.sinks, Seed: f.seed}
		switch {
		case m.Causal():
			if c.Spread = f.clusters > 0; f.exact > 0 && !given["block"] {
				c.Block = 16
			}
		default:
			// Centres are fitted once for all later texts, so more passes over more keys pay.
			c.Passes, c.Sample = 4, 1<<14
			if !given["block"] {
				c.Block = 16
			}
		}
		plan = pretrained.Plan{Centroids: c, Exact: f.exact}
	}
	a, errs, err := m.Convert(b, plan, passages[:cut], passages[cut:])
	if err != nil {
		return err
	}
	if err := m.SetAttention(a); err != nil {
		return err
	}
	if f.out != "" {
		if err := m.Save(f.out); err != nil {
			return err
		}
	}
	r := converted{Model: dir, Out: f.out, Passages: cut, Tested: len(passages) - cut, Length: f.length, Errors: errs,
		Exact: f.exact, Unused: m.Unused}
	if f.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	r.print(os.Stdout)
	return nil
}

func (r converted) print(w io.Writer) {
	fmt.Fprintf(w, "relative error of attention by layer and head: fitted on %d passages of %d tokens, measured on %d others\n",
		r.Passages, r.Length, r.Tested)
	var all []float64
	for l, row := range r.Errors {
		fmt.Fprintf(w, "layer %2d ", l)
		for _, e := range row {
			fmt.Fprintf(w, " %6.3f", e)
		}
		fmt.Fprintln(w)
		all = append(all, row...)
	}
	slices.Sort(all)
	fmt.Fprintf(w, "median %.3f, worst %.3f\n", all[len(all)/2], all[len(all)-1])
	if r.Exact > 0 {
		fmt.Fprintf(w, "these are errors of the clusters alone: with %d exact keys of every query rfx eval has them\n", r.Exact)
	}
	if len(r.Unused) > 0 {
		fmt.Fprintf(w, "%d tensors of the folder have no place in the model and were left out, e.g. %s\n", len(r.Unused), r.Unused[0])
	}
	if r.Out == "" {
		fmt.Fprintln(w, "nothing was written: name a folder by -out")
		return
	}
	fmt.Fprintf(w, "written to %s; compare with rfx eval %s %s -text FILE\n", r.Out, r.Model, r.Out)
}

// oneFolder parses flags before and after a single argument.
func oneFolder(flags *flag.FlagSet, args []string, usage string) (string, error) {
	all, err := similar.Arguments(flags, args)
	if err != nil {
		return "", err
	}
	if len(all) != 1 {
		return "", fmt.Errorf("usage: %s (-h lists the flags)", usage)
	}
	return all[0], nil
}

// readPassages returns the first n passages of a text file.
func readPassages(m *pretrained.Model, file string, length, n int) ([][]int32, error) {
	if n < 1 {
		return nil, fmt.Errorf("-passages %d: take one at least", n)
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	// Texts have fewer than sixteen bytes per token; the rest of a long file is not read.
	b, err := io.ReadAll(io.LimitReader(in, int64(length)*int64(n)*16))
	if err != nil {
		return nil, err
	}
	all, err := m.Tokens(string(b), length)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all[:min(n, len(all))], nil
}

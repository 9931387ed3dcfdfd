package kernels

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// DemoCell is one family with one coupling: an object of gram --demo --json.
type DemoCell struct {
	Family   string `json:"family"`
	Coupling string `json:"coupling"`
	Features int    `json:"features,omitempty"`
	// OwnTarget marks a family with a kernel of its own (dark): errors are relative to that kernel, not to
	// exp(x·y).
	OwnTarget   bool     `json:"own_target,omitempty"`
	Predicted   *float64 `json:"predicted,omitempty"`   // root mean square relative error by theory
	Approximate bool     `json:"approximate,omitempty"` // the coupling follows the closed form only nearly
	// Root mean square relative error over pairs and draws.
	Measured *float64 `json:"measured,omitempty"`
	Code     string   `json:"code,omitempty"`   // code of the reason, as in the table
	Reason   string   `json:"reason,omitempty"` // why an error is absent
	Warning  string   `json:"warning,omitempty"`
	Seed     uint64   `json:"seed"`
	Draws    int      `json:"draws"` // draws of the projections
}

// marked reports whether the table marks the warning. A cell with a code needs no mark.
func (c DemoCell) marked() bool { return c.Warning != "" && c.Code == "" }

const (
	DemoM     = 64
	demoDraws = 16
)

// Codes for cells without a number.
const (
	codeCoupling  = "c"
	codeFamily    = "f"
	codeFixedNorm = "p"
	codeBaseline  = "b"
	codeUndefined = "x"
	codeNeeds     = "w"
	targetMark    = "*"
)

var codeTexts = [][2]string{
	{codeCoupling, "no closed form for this coupling"},
	{codeFamily, "closed form for independent projections only"},
	{codeFixedNorm, "fixed norms have a closed form for trig only; the other families become biased"},
	{codeBaseline, "a baseline that does not estimate this kernel"},
	{codeUndefined, "not defined: the coupling cannot draw what the family needs"},
	{codeNeeds, "no usable parameters: these data allow no fit"},
}

// runDemo fills a table of all families and couplings on synthetic data.
func runDemo(env *cli.Env, cmd *cobra.Command, f *gramFlags) error {
	if err := cli.Conflict(cmd, "demo", "exact", "error", "out", "fit", "family", "coupling", "kernel", "scale",
		"kernel-matrix", "omega", "spec"); err != nil {
		return err
	}
	m, draws := DemoM, demoDraws
	if cmd.Flags().Changed("projections") {
		m = f.M
	}
	if f.repeat != 0 {
		draws = f.repeat
	}
	if m < 1 || draws < 1 {
		return cli.Misused("--projections is %d and --repeat is %d, want at least 1", m, draws)
	}
	if m > cli.MaxElements/demoDim {
		return cli.Misused("--projections is %d, want at most %d", m, cli.MaxElements/demoDim)
	}
	x, y, err := demoData()
	if err != nil {
		return err
	}
	fitX, fitY, err := DemoFitData()
	if err != nil {
		return err
	}
	families, couplings := family.List(), coupling.List()
	var cells [][]DemoCell
	bar := env.Progress("family × coupling", len(families)*len(couplings))
	defer bar.End()
	for _, info := range families {
		var row []DemoCell
		fitted, fitErr := demoFamily(info, fitX, fitY)
		for _, c := range couplings {
			cell := DemoCell{Family: info.Name, Coupling: c.Name, Seed: f.Seed, Draws: draws}
			if fitErr != nil {
				cell.Code, cell.Reason = codeNeeds, fitErr.Error()
			} else if err := demoCell(cmd.Context(), &cell, fitted, m, x, y); err != nil {
				return err
			}
			row = append(row, cell)
			bar.At(len(cells)*len(couplings) + len(row))
			if env.JSON {
				if err := env.Object(cell); err != nil {
					return err
				}
			}
		}
		cells = append(cells, row)
	}
	bar.End()
	if env.JSON {
		return nil
	}
	return printDemo(env, cells, m, draws, f.Seed)
}

// demoFamily returns a family with parameters fitted to the data, if it has any. A family without usable
// defaults is represented by its first example.
func demoFamily(info family.Info, x, y dense.Matrix[float64]) (family.Family, error) {
	fam, err := family.Parse(info.Name)
	if err != nil {
		return nil, err
	}
	spec, err := randfeat.Fit(demoSpec(fam, nil, 1, 0), x, y)
	if err != nil {
		return nil, err
	}
	if _, err := spec.OutDim(); errors.Is(err, family.ErrParam) {
		return info.Examples(demoDim)[0].Family, nil
	}
	return spec.Family, nil
}

func demoSpec(f family.Family, c coupling.Coupling, m int, seed uint64) randfeat.Spec {
	return randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: f, Coupling: c, Dim: demoDim, M: m,
		Seed: seed}
}

// demoCell predicts and measures one combination. A combination that is not defined is a finding, not an error.
func demoCell(ctx context.Context, cell *DemoCell, f family.Family, m int, x, y dense.Matrix[float64]) error {
	c, err := coupling.Parse(cell.Coupling)
	if err != nil {
		return err
	}
	spec := demoSpec(f, c, m, cell.Seed)
	cell.OwnTarget = hasOwnTarget(f)
	var sums errorSums
	for r := range cell.Draws {
		fm, err := randfeat.New[float64](spec.WithSeed(cell.Seed + uint64(r)))
		if errors.Is(err, coupling.ErrLaw) {
			cell.Code, cell.Reason = codeUndefined, err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		if err := cli.CheckFeatures(fm.OutDim(), 1, "--projections"); err != nil {
			return err
		}
		cell.Features = fm.OutDim()
		if err := measure(ctx, fm, spec.Target(), x, y, &sums); err != nil {
			return err
		}
	}
	cell.Measured, cell.Warning = cli.Number(sums.rms()), mapflags.Warning(spec, x, y)
	p, err := predict(ctx, spec, m, x, y)
	switch {
	case err == nil:
		cell.Predicted, cell.Approximate = cli.Number(p.rms), p.approximate
	case noForm(err):
		cell.Code, cell.Reason = noFormCode(spec, x, y), err.Error()
	default:
		return err
	}
	return nil
}

// noFormCode says which part of a spec lacks the closed form: the family by itself, the coupling, or the
// combination.
func noFormCode(spec randfeat.Spec, x, y dense.Matrix[float64]) string {
	if _, err := theory.Of(spec.Kernel, spec.Family, coupling.IID{}, spec.M, x.Row(0), y.Row(0)); noForm(err) {
		return codeBaseline
	}
	if _, fixed := spec.Coupling.(coupling.ORFPrime); fixed {
		return codeFixedNorm
	}
	if !coupling.Pairs(spec.Coupling, spec.Dim).Kind.Closed() {
		return codeCoupling
	}
	return codeFamily
}

// printDemo prints two lines per family, predicted and measured, with a column per coupling.
func printDemo(env *cli.Env, cells [][]DemoCell, m, draws int, seed uint64) error {
	fmt.Fprintf(env.Stdout,
		"Relative error of exp(x·y), root mean square over %d×%d pairs in dimension %d and %d draws; m = %d, seed %d.\n",
		demoRows, demoRows, demoDim, draws, m, seed)
	fmt.Fprintf(env.Stdout,
		"First line of a family: predicted by theory. Second line: measured; it is lower where most of the error lies in\n"+
			"rare draws (heavy tails).\n\n")
	err := cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprint(w, "FAMILY\tF")
		for _, c := range cells[0] {
			fmt.Fprintf(w, "\t%s", c.Coupling)
		}
		fmt.Fprintln(w)
		for _, row := range cells {
			features := "-"
			if row[0].Features > 0 {
				features = fmt.Sprint(row[0].Features)
			}
			name := row[0].Family
			if row[0].OwnTarget {
				name += targetMark
			}
			fmt.Fprintf(w, "%s\t%s", name, features)
			for _, c := range row {
				fmt.Fprintf(w, "\t%s", demoPredicted(c))
			}
			fmt.Fprint(w, "\n\t")
			for _, c := range row {
				fmt.Fprintf(w, "\t%s", demoNumber(c.Measured, c.Code))
			}
			fmt.Fprintln(w)
		}
	})
	if err != nil {
		return err
	}
	return printDemoNotes(env, cells)
}

// demoNumber formats an error, or a dash with the code of the reason.
func demoNumber(v *float64, code string) string {
	if v == nil {
		return "-" + code
	}
	switch {
	case *v >= 1000:
		return fmt.Sprintf("%.0e", *v)
	case *v >= 10:
		return fmt.Sprintf("%.0f", *v)
	}
	return fmt.Sprintf("%.2g", *v)
}

// demoPredicted marks a prediction: ~ approximate, ! known to hurt.
func demoPredicted(c DemoCell) string {
	s := demoNumber(c.Predicted, c.Code)
	if c.Approximate {
		s = "~" + s
	}
	if c.marked() {
		s += "!"
	}
	return s
}

// printDemoNotes explains the marks that occur and names the best combination.
func printDemoNotes(env *cli.Env, cells [][]DemoCell) error {
	used := map[string]bool{}
	var warnings []string
	var best *DemoCell
	approximate := false
	for _, row := range cells {
		for i, c := range row {
			used[c.Code] = true
			used[targetMark] = used[targetMark] || c.OwnTarget
			approximate = approximate || c.Approximate
			if text := fmt.Sprintf("!   %s with %s: %s", c.Family, c.Coupling, c.Warning); c.marked() &&
				!used[c.Warning] {
				used[c.Warning] = true
				warnings = append(warnings, text)
			}
			if c.Measured != nil && (best == nil || *c.Measured < *best.Measured) {
				best = &row[i]
			}
		}
	}
	fmt.Fprintln(env.Stdout)
	for _, t := range codeTexts {
		if used[t[0]] {
			fmt.Fprintf(env.Stdout, "-%s  %s\n", t[0], t[1])
		}
	}
	if used[targetMark] {
		fmt.Fprintln(env.Stdout, "*   estimates a kernel of its own, fitted to the data; the error is relative to that kernel")
	}
	if approximate {
		fmt.Fprintln(env.Stdout, "~   the coupling follows the law of the closed form only nearly")
	}
	for _, w := range warnings {
		fmt.Fprintln(env.Stdout, w)
	}
	_, err := fmt.Fprintf(env.Stdout, "\nSmallest measured error: %s with %s, %s.\n", best.Family, best.Coupling,
		demoNumber(best.Measured, ""))
	return err
}

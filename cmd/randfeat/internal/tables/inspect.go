package tables

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
	"github.com/randfeat/randfeat/machine/watch"
)

// InspectResult is the object of inspect --json. Its checksums have been verified.
type InspectResult struct {
	File           string               `json:"file"`
	FormatVersion  int                  `json:"format_version"`  // version of the file format
	Bytes          int64                `json:"bytes"`           // size of the file
	TensorsSHA256  string               `json:"sha256_tensors"`  // checksum of the tensors
	MetadataSHA256 string               `json:"sha256_metadata"` // checksum of everything else
	Kind           machine.Kind         `json:"kind"`
	Task           machine.Task         `json:"task"`
	Outputs        int                  `json:"outputs"`
	Rows           int64                `json:"rows"`   // rows of the training table
	Lambda         float64              `json:"lambda"` // ridge penalty
	Features       int                  `json:"features"`
	Map            string               `json:"map"`       // as fit --map: random, nystrom or exact
	Bandwidth      float64              `json:"bandwidth"` // divides the encoded columns
	Spec           randfeat.Spec        `json:"spec"`
	Schema         *data.Schema         `json:"schema,omitempty"`  // columns and their encoding
	Width          int                  `json:"width"`             // encoded columns
	Tensors        []machine.TensorInfo `json:"tensors"`           // name, type and shape of each tensor
	History        *machine.History     `json:"history,omitempty"` // date, program and scores of the fit
	Extra          map[string]string    `json:"extra,omitempty"`   // further strings in the file
	Watched        int64                `json:"watched,omitempty"` // rows of the reference for watch
	Python         string               `json:"python"`            // code that reads the file in Python
}

func InspectCommand(env *cli.Env) *cobra.Command {
	levels := 0
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show what a model file holds",
		Long: `Verify the checksums of a model file and show its contents: the kind of model, the columns and how they are encoded, the
feature map, the penalty, the scores, the date and program of the fit, and the tensors. The file is a safetensors
container, readable from Python.`,
		Example: `  randfeat inspect model.rf
  randfeat inspect model.rf --json`,
		Args:              cli.ExactArgs("a model", 1),
		ValidArgsFunction: modelArgs,
		RunE: cli.Do(func(_ *cobra.Command, args []string) error {
			if levels < 0 {
				return cli.Misused("--levels is %d, want at least 0", levels)
			}
			return runInspect(env, args[0], levels)
		}),
	}
	cmd.Flags().IntVar(&levels, "levels", 8, "levels of a categorical column to list; --json lists all")
	return cmd
}

func runInspect(env *cli.Env, path string, levels int) error {
	m, info, err := machine.LoadInfo(path)
	if err != nil {
		return err
	}
	fm, err := randfeat.NewWithOmega[float64](m.Spec, m.Omega)
	if err != nil {
		return err
	}
	r := InspectResult{
		File: path, FormatVersion: info.Version, Bytes: info.Bytes, TensorsSHA256: info.TensorsSHA256,
		MetadataSHA256: info.MetadataSHA256,
		Kind:           m.Kind, Task: m.Task, Outputs: m.Outputs, Rows: m.Rows, Lambda: m.Lambda, Features: fm.OutDim(),
		Bandwidth: m.Spec.Kernel.Scale, Spec: m.Spec, Schema: m.Schema, Width: m.Spec.Dim, Tensors: info.Tensors,
		Extra: m.Extra, History: m.History,
		Python: fmt.Sprintf("from safetensors import safe_open; f = safe_open(%q, framework=\"np\"); f.metadata(); "+
			"f.get_tensor(%q)", path, info.Tensors[len(info.Tensors)-1].Name),
	}
	if ref, err := watch.Of(m); err == nil {
		r.Watched, r.Extra = ref.Rows(), maps.Clone(m.Extra)
		delete(r.Extra, watch.Key)
	}
	r.Bandwidth = cmp.Or(r.Bandwidth, 1)
	if r.Spec.Coupling == nil {
		r.Spec.Coupling = coupling.IID{}
	}
	r.Map = mapOf(m)
	if env.JSON {
		return env.Object(r)
	}
	return r.print(cli.Printable{Writer: env.Stdout}, levels)
}

// mapOf names the features of a model as fit --map does. Landmarks are data rows; if all rows are landmarks,
// the kernel is exact.
func mapOf(m *machine.Model) string {
	if _, landmarks := m.Spec.Family.(family.Landmarks); !landmarks {
		return tabular.MapRandom
	}
	if int64(m.Spec.M) == m.Rows {
		return tabular.MapExact
	}
	return tabular.MapNystrom
}

func (r *InspectResult) print(w io.Writer, levels int) error {
	err := cli.Table(w, func(w io.Writer) {
		fmt.Fprintf(w, "file\t%s, %s, format version %d\n", r.File, byteSize(r.Bytes), r.FormatVersion)
		fmt.Fprintf(w, "checksums\tverified; sha256 of the tensors %s\n", r.TensorsSHA256)
		what := string(r.Task)
		switch {
		case r.Task == machine.Classification:
			what = fmt.Sprintf("classification, %d classes", r.Outputs)
		case r.Outputs > 1:
			what = fmt.Sprintf("regression of %d targets", r.Outputs)
		}
		fmt.Fprintf(w, "model\t%s (%s), fitted to %d rows\n", r.Kind, what, r.Rows)
		switch r.Map {
		case tabular.MapExact:
			fmt.Fprintf(w, "map\texact kernel with all %d rows\n", r.Spec.M)
		case tabular.MapNystrom:
			fmt.Fprintf(w, "map\t%d Nyström features from as many landmarks, seed %d\n", r.Features, r.Spec.Seed)
		default:
			fmt.Fprintf(w, "map\t%d random features: %s × %s, %d projections, seed %d\n", r.Features,
				r.Spec.Family.Name(), r.Spec.Coupling.Name(), r.Spec.M, r.Spec.Seed)
		}
		fmt.Fprintf(w, "kernel\t%v, bandwidth %.6g, in %d dimensions\n", r.Spec.Kernel.Kind, r.Bandwidth, r.Spec.Dim)
		if list, ok := r.Spec.Family.(family.Landmarks); ok {
			for _, k := range list.Also {
				fmt.Fprintf(w, "and kernel\t%v, bandwidth %.6g\n", k.Kind, r.Bandwidth/k.Gain())
			}
		}
		if kind, err := r.Kind.Info(); err == nil && kind.Penalised {
			fmt.Fprintf(w, "penalty λ\t%.6g\n", r.Lambda)
		}
		if h := r.History; h != nil && h.Created+h.Program != "" {
			fmt.Fprintf(w, "fitted\t%s\n", strings.TrimSpace(h.Created+" by "+cmp.Or(h.Program, "an unknown program")))
		}
		if r.Watched > 0 {
			fmt.Fprintf(w, "watch\treference of %d rows\n", r.Watched)
		}
		for _, k := range slices.Sorted(maps.Keys(r.Extra)) {
			fmt.Fprintf(w, "%s\t%s\n", k, shorten(r.Extra[k], 200))
		}
	})
	if err != nil {
		return err
	}
	if r.History != nil {
		if err := printMetric(w, r.History.Metric); err != nil {
			return err
		}
	}
	if err := r.scores(w); err != nil {
		return err
	}
	if err := r.columns(w, levels); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nIn Python (pip install safetensors numpy):")
	fmt.Fprintf(w, "  from safetensors import safe_open\n  f = safe_open(%q, framework=\"np\")\n  "+
		"f.metadata()[\"spec\"], f.get_tensor(%q)\n", r.File, r.Tensors[len(r.Tensors)-1].Name)
	fmt.Fprintln(w, "  # tensors, all float64:")
	for _, t := range r.Tensors {
		_, err = fmt.Fprintf(w, "  #   %s %s\n", t.Name, npy.Dims(t.Shape))
	}
	return err
}

// scores prints the scores of the fit.
func (r *InspectResult) scores(w io.Writer) error {
	if r.History == nil || len(r.History.Scores) == 0 {
		_, err := fmt.Fprintln(w, "\nNot scored at the fit.")
		return err
	}
	var targets []string
	if r.Schema != nil {
		for _, t := range r.Schema.Targets {
			targets = append(targets, t.Name)
		}
	}
	fmt.Fprintf(w, "\nAt the fit, on rows that the model has not seen (%s):\n", r.History.ScoredOn)
	return cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "score\tvalue\t95 % interval")
		for _, s := range r.History.Scores {
			fmt.Fprintln(w, scoreText(s, targets))
		}
	})
}

// columns prints the schema.
func (r *InspectResult) columns(w io.Writer, levels int) error {
	s := r.Schema
	if s == nil {
		_, err := fmt.Fprintln(w, "\nNo schema: the model predicts matrices, not tables.")
		return err
	}
	fmt.Fprintf(w, "\n%d columns, encoded as %d:\n", len(s.Fields), s.Width())
	return cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "column\tuse\tmean\tscale\tdetails")
		for _, f := range s.Fields {
			var details []string
			switch {
			case f.Kind == data.Categorical:
				if f.Code != "" {
					details = append(details, fmt.Sprintf("%s code of %d columns", f.Code, f.Width()))
				}
				details = append(details, listLevels(f.Levels, levels))
			case f.Range != nil && f.Kind == data.Numeric:
				details = append(details, fmt.Sprintf("from %s to %s", digits(f.Range[0]), digits(f.Range[1])))
			case f.Range != nil:
				details = append(details, fmt.Sprintf("from %s to %s", dayText(f.Range[0]), dayText(f.Range[1])))
			}
			if f.Format != "" {
				details = append(details, f.Format)
			}
			if f.Missing {
				details = append(details, "missing values have an indicator")
			}
			mean, scale := "–", "–"
			if f.Scale > 0 {
				mean, scale = digits(f.Mean), digits(f.Scale)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.Kind, mean, scale, strings.Join(details, "; "))
		}
		for _, t := range s.Targets {
			if len(t.Classes) > 0 {
				fmt.Fprintf(w, "%s\ttarget\t–\t–\t%s\n", t.Name, strings.Replace(listLevels(t.Classes, levels),
					"levels",
					"classes", 1))
			} else {
				fmt.Fprintf(w, "%s\ttarget\t%s\t%s\t\n", t.Name, digits(t.Mean), digits(t.Scale))
			}
		}
		for _, n := range s.IDs {
			fmt.Fprintf(w, "%s\tid\t–\t–\tcarried along\n", n)
		}
		for _, n := range s.Ignored {
			fmt.Fprintf(w, "%s\tignored\t–\t–\t\n", n)
		}
	})
}

// dayText formats a number of days since 1970 as a date.
func dayText(days float64) string { return time.Unix(int64(days*86400), 0).UTC().Format(time.DateOnly) }

func listLevels(levels []string, most int) string {
	out := fmt.Sprintf("%d levels", len(levels))
	if most == 0 || len(levels) == 0 {
		return out
	}
	var names []string
	for _, l := range levels[:min(most, len(levels))] {
		names = append(names, shorten(l, 24))
	}
	if len(levels) > most {
		names = append(names, "…")
	}
	return out + ": " + strings.Join(names, ", ")
}

// byteSize formats a number of bytes.
func byteSize(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

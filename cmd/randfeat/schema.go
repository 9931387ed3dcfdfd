package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/advising"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/attend"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/catalog"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/crossover"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/kernels"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/samples"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/serving"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// printed lists the objects that commands print with --json. Tests compare every object that any test run
// prints with the schema of its type, and refuse one that is not listed.
var printed = []struct {
	command string
	objects []any
}{
	{"advise", []any{advise.Report{}, advising.AdviseHead{}}},
	{"attend", []any{attend.AttendResult{}, attend.AttendDemoRow{}}},
	{"compare", []any{tables.CompareResult{}}},
	{"couplings", []any{catalog.CouplingInfo{}}},
	{"crossover", []any{crossover.CrossoverResult{}}},
	{"data", []any{tables.DataSet{}, tables.DataFile{}}},
	{"eval", []any{catalog.EvalResult{}, catalog.CheckResult{}, catalog.CheckSummary{}}},
	{"evaluate", []any{tables.EvaluateResult{}}},
	{"explain", []any{tables.ExplainResult{}}},
	{"explore", []any{serving.Exploring{}}},
	{"families", []any{family.Info{}}},
	{"features", []any{kernels.FeaturesResult{}}},
	{"fit", []any{tables.FitReport{}}},
	{"gram", []any{kernels.GramResult{}, kernels.GramRow{}, kernels.ErrorResult{}, kernels.DemoCell{}}},
	{"inspect", []any{tables.InspectResult{}}},
	{"parts", []any{tables.PartsRun{}, tables.PartsFile{}, tables.PartsPlan{}, tables.FitReport{},
		tables.EvaluateResult{}}},
	{"predict", []any{tables.PredictResult{}}},
	{"sample", []any{samples.SampleRow{}, samples.SampleResult{}, samples.SampleDistance{}}},
	{"serve", []any{serving.Serving{}}},
	{"theory", []any{catalog.FormulaInfo{}}},
	{"version", []any{cli.VersionInfo{}}},
	{"watch", []any{tables.WatchResult{}}},
}

// comments holds the comments of fields in the source by package.Type and name, and of the type itself by "".
// TestSchemas writes the file from the source; the program does not contain its source. It is compressed: as text it
// takes 25 kB more of the program.
//
//go:embed schema.json
var comments []byte

// common describes the members that mean the same in all objects, unless their fields have comments.
var common = map[string]string{
	"causal": "each query sees the keys up to its own position", "choices": "what was chosen, and why",
	"classes": "number of classes", "coupling": "name of the coupling", "data": "files of the table",
	"dtype": "float32 or float64", "family": "name of the family", "features": "number of features",
	"file": "file that was read", "heads": "number of query heads", "kind": "kind of the model",
	"model": "file of the model",
	"name":  "name on the command line", "omega": "files of given projections; then the seed is not used",
	"out": "file that was written", "outputs": "targets or classes of the model; 1 for a density",
	"queries": "number of queries", "reference": "paper and equation", "rows": "number of rows",
	"seconds": "time that it took", "seed": "seed of the random numbers", "source": "files of the table",
	"spec": "the feature map, with fitted parameters and the seed", "stages": "time of each stage",
	"summary": "description in a line", "targets": "names of the targets",
	"task": "regression, classification or density", "warning": "why the combination is a bad choice",
}

func schemaCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema COMMAND",
		Short: "Print the JSON Schema of what a command prints with --json",
		Long: `Print the JSON Schema (draft 2020-12) of the objects that a command prints with --json, one per line. Members that
are not required are omitted when they are empty. New versions may add members but do not change existing ones.`,
		Example:   "  randfeat schema fit",
		Args:      cli.ExactArgs("one command: "+strings.Join(schemaNames(), ", "), 1),
		ValidArgs: schemaNames(),
		RunE: cli.Do(func(_ *cobra.Command, args []string) error {
			s, err := commandSchema(args[0])
			if err != nil {
				return cli.Misused("%w", err)
			}
			b, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(env.Stdout, "%s\n", b)
			return err
		}),
	}
}

func schemaNames() []string {
	var out []string
	for _, p := range printed {
		out = append(out, p.command)
	}
	return out
}

// node is a part of a JSON Schema.
type node = map[string]any

// commandSchema returns the schema of a command: one definition per struct, and anyOf if the command prints
// several.
func commandSchema(command string) (node, error) {
	for _, p := range printed {
		if p.command != command {
			continue
		}
		g := newSchemas()
		var any []node
		for _, v := range p.objects {
			any = append(any, g.printed(reflect.TypeOf(v)))
		}
		out := node{"$schema": "https://json-schema.org/draft/2020-12/schema",
			"title": "randfeat " + command + " --json",
			"$defs": g.defs}
		if len(any) == 1 {
			out["$ref"] = any[0]["$ref"]
		} else {
			out["anyOf"] = any
		}
		return out, nil
	}
	return nil, fmt.Errorf("no command %q prints objects; those that do are %s", command, strings.Join(schemaNames(),
		", "))
}

// printed is of for an object that a command prints: it adds the common descriptions.
func (g *schemas) printed(t reflect.Type) node {
	out := g.of(t)
	properties, _ := g.defs[t.Name()].(node)["properties"].(node)
	for name, s := range properties {
		if s := s.(node); s["description"] == nil && common[name] != "" {
			s["description"] = common[name]
		}
	}
	return out
}

// schemas builds JSON Schemas of Go types, in the form that encoding/json writes.
type schemas struct {
	defs     node
	comments map[string]map[string]string
}

func newSchemas() *schemas {
	g := &schemas{defs: node{}}
	if err := json.Unmarshal(comments, &g.comments); err != nil {
		panic("randfeat: schema.json: " + err.Error()) // embedded and tested, so only a bug gets here
	}
	return g
}

// Types with a MarshalJSON of their own, whose output reflection cannot tell.
var (
	aNumber    = node{"type": "number"}
	orNull     = node{"type": []string{"number", "null"}}
	ownSchemas = map[reflect.Type]node{
		reflect.TypeFor[time.Time](): {"type": "string", "format": "date-time"},
		reflect.TypeFor[machine.Score](): {"type": "object", "required": []string{"name", "value", "low", "high",
			"rows"},
			"additionalProperties": false, "properties": node{"name": node{"type": "string"},
				"output": node{"type": "integer"},
				"value":  orNull, "low": orNull, "high": orNull, "rows": node{"type": "integer"},
				"note": node{"type": "string"}}},
		reflect.TypeFor[data.ColumnSummary](): {"type": "object", "required": []string{"name", "use", "missing"},
			"additionalProperties": false, "properties": node{"name": node{"type": "string"},
				"use": node{"type": "string"},
				"why": node{"type": "string"}, "missing": node{"type": "integer"}, "distinct": node{"type": "integer"},
				"exact": node{"type": "boolean"}, "mean": aNumber, "scale": aNumber, "min": aNumber, "max": aNumber}},
		reflect.TypeFor[randfeat.Spec](): {"type": "object", "required": []string{"kernel", "family", "dim"}},
		reflect.TypeFor[kernel.Kernel](): {"type": "object"},
	}
	named = []reflect.Type{reflect.TypeFor[family.Family](), reflect.TypeFor[coupling.Coupling]()}
	own   = reflect.TypeFor[json.Marshaler]()
)

// of returns the schema of a type. Structs are defined once under $defs and referred to, so recursive types
// work.
func (g *schemas) of(t reflect.Type) node {
	if s, ok := ownSchemas[t]; ok && t.Name() != "" {
		return g.define(t, func() node { return s })
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]() || slices.Contains(named, t) || t.Kind() == reflect.Interface:
		return node{}
	case t.Kind() != reflect.Pointer && (t.Implements(own) || reflect.PointerTo(t).Implements(own)):
		return node{} // described where it is documented for input: specs of families, choices of attention
	}
	switch t.Kind() {
	case reflect.Pointer:
		return node{"anyOf": []node{g.of(t.Elem()), {"type": "null"}}}
	case reflect.Struct:
		return g.define(t, func() node { return g.object(t) })
	case reflect.Slice, reflect.Array:
		s := node{"type": []string{"array", "null"}, "items": g.of(t.Elem())}
		if t.Kind() == reflect.Array {
			s["type"] = "array"
		}
		return s
	case reflect.Map:
		return node{"type": []string{"object", "null"}, "additionalProperties": g.of(t.Elem())}
	case reflect.String:
		return node{"type": "string"}
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return node{"type": "number"}
	}
	return node{"type": "integer"}
}

// define adds a definition for t, unless there is one, and returns a reference to it.
func (g *schemas) define(t reflect.Type, make func() node) node {
	name := t.Name()
	if _, ok := g.defs[name]; !ok {
		g.defs[name] = node{} // placeholder, so that a type that contains itself ends the recursion
		s := make()
		if c := g.comments[t.String()][""]; c != "" {
			s["description"] = c
		}
		g.defs[name] = s
	}
	return node{"$ref": "#/$defs/" + name}
}

func (g *schemas) object(t reflect.Type) node {
	properties, required := node{}, []string{}
	g.fields(t, properties, &required)
	return node{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// fields adds the fields of a struct, including those of embedded structs, as encoding/json does.
func (g *schemas) fields(t reflect.Type, properties node, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			g.fields(inner, properties, required)
			continue
		}
		if tag == "-" || !f.IsExported() {
			continue
		}
		tag = cmp.Or(tag, f.Name)
		s := g.of(f.Type)
		if c := g.comments[t.String()][f.Name]; c != "" {
			s["description"] = c
		}
		properties[tag] = s
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, tag)
		}
	}
}

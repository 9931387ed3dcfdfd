package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// weigh sets the class weights. They depend on the classes, so the schema is learned here, and again by the
// fit: its folds must not use columns that were learned from all rows. Without --class-weight it does nothing.
func (f *fitFlags) weigh(ctx context.Context, src data.Source, o *tabular.Options) (*data.Summary, error) {
	if f.classWeight == "" {
		return nil, nil
	}
	var named map[string]float64
	if f.classWeight != "balanced" {
		var err error
		if named, err = parseWeights(f.classWeight); err != nil {
			return nil, cli.Misused("--class-weight: %w", err)
		}
	}
	if kind, err := o.Kind.Info(); err == nil && !slices.Contains(kind.Tasks, machine.Regression) {
		o.Learn.Task = data.Classification
	}
	schema, summary, err := data.Learn(src, o.LearnOptions())
	if err != nil {
		return nil, err
	}
	if len(schema.Targets) != 1 {
		return nil, cli.Misused("--class-weight: %d targets, want one", len(schema.Targets))
	}
	if len(schema.Targets[0].Classes) == 0 {
		return nil, cli.Misused("--class-weight: the target %s is a number, not a class: leave the flag out, or ask for "+
			"--task classification", schema.Targets[0].Name)
	}
	classes := schema.Targets[0].Classes
	if named == nil {
		o.ClassWeights, err = balanced(ctx, src, schema)
		return summary, err
	}
	o.ClassWeights = make([]float64, len(classes))
	for k, c := range classes {
		o.ClassWeights[k] = 1
		if w, ok := named[c]; ok {
			o.ClassWeights[k] = w
			delete(named, c)
		}
	}
	for c := range named {
		return nil, cli.Misused("--class-weight: no class %q; the classes of %s are %s", c, schema.Targets[0].Name,
			quoteNames(classes, 20))
	}
	return summary, nil
}

func parseWeights(text string) (map[string]float64, error) {
	var w map[string]float64
	if err := json.Unmarshal([]byte(text), &w); err != nil || len(w) == 0 {
		return nil, fmt.Errorf("%q is neither balanced nor JSON such as {\"yes\": 5}", text)
	}
	for c, v := range w {
		if !(v > 0) {
			return nil, fmt.Errorf("the weight of %q is %g, want more than 0", c, v)
		}
	}
	return w, nil
}

// balanced gives every class the same total weight, n/(K·n_k) per row.
func balanced(ctx context.Context, src data.Source, s *data.Schema) ([]float64, error) {
	rows, err := machine.TableRows(src, s, true)
	if err != nil {
		return nil, err
	}
	weights := make([]float64, len(s.Targets[0].Classes))
	n := 0.0
	err = rows.Each(1024, func(_, y dense.Matrix[float64]) error {
		for i := range y.Rows {
			weights[int(y.At(i, 0))]++
		}
		n += float64(y.Rows)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	for k, count := range weights {
		weights[k] = n / (float64(len(weights)) * count)
	}
	return weights, nil
}

package machine_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// heights is a model of a column of numbers and a column of levels.
func heights(o machine.TableOptions) (*machine.TablePredictor, error) {
	var b strings.Builder
	b.WriteString("age,kind,height\n")
	for i := range 120 {
		kind := []string{"oak", "birch"}[i%2]
		fmt.Fprintf(&b, "%d,%s,%.2f\n", i/2, kind, 3*math.Sqrt(float64(i/2))+4*float64(i%2))
	}
	src, err := text.OpenBytes("trees.csv", []byte(b.String()), data.Options{})
	if err != nil {
		return nil, err
	}
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"height"}})
	if err != nil {
		return nil, err
	}
	rows, err := machine.TableRows(src, schema, true)
	if err != nil {
		return nil, err
	}
	m, _, err := machine.FitIterative(machine.Setup{
		Spec: randfeat.Spec{Kernel: kernel.Kernel{}, Family: family.Trig{}, Coupling: coupling.Orthogonal{},
			Dim: schema.Width(), M: 64, Seed: 1},
		Outputs: 1,
	}, rows, 1e-2, machine.Iterative{})
	if err != nil {
		return nil, err
	}
	m.Schema = schema
	return machine.NewTablePredictor(m, o)
}

// A handler of requests predicts rows as JSON has them.
func ExampleTablePredictor_PredictRow() {
	p, err := heights(machine.TableOptions{})
	if err != nil {
		panic(err)
	}
	for _, kind := range []string{"oak", "birch"} {
		out, err := p.PredictRow(map[string]any{"age": 25.0, "kind": kind})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %.0f\n", kind, out["prediction"])
	}
	// Output:
	// oak: 15
	// birch: 19
}

// TestPredictRow: a row gives the bits of the same row of a table, whatever Go types its values have.
func TestPredictRow(t *testing.T) {
	p, err := heights(machine.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := text.OpenBytes("new.csv", []byte("kind,age\nbirch,31\nbirch,\n,31\n"), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := p.Open(table.Columns())
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	err = run.Each(table, run.Kinds(), 10, func(b, _ *data.Block) error {
		want = append(want, b.Cols[0].Num...)
		return nil
	})
	if err != nil || len(want) != 3 {
		t.Fatalf("%d rows, %v", len(want), err)
	}
	for i, rows := range [][]map[string]any{
		{{"age": 31, "kind": "birch"}, {"age": 31.0, "kind": "birch"},
			{"age": float32(31), "kind": "birch"}, {"age": int64(31), "kind": "birch"}, {"age": "31", "kind": "birch"}},
		{{"age": nil, "kind": "birch"}, {"age": math.NaN(), "kind": "birch"}},
		{{"age": 31, "kind": nil}},
	} {
		for _, row := range rows {
			got, err := p.PredictRow(row)
			if err != nil || got["prediction"] != want[i] {
				t.Errorf("%v: %v, %v, want %v", row, got, err, want[i])
			}
		}
	}
	if _, err := p.PredictRow(map[string]any{"age": 1.0}); !errors.Is(err, data.ErrSchema) ||
		!strings.Contains(err.Error(), "kind") {
		t.Errorf("a row without a column: %v", err)
	}
	if _, err := p.PredictRow(map[string]any{"age": 1, "kind": "oak", "size": 2}); !errors.Is(err, data.ErrSchema) ||
		!strings.Contains(err.Error(), "size") {
		t.Errorf("a row with a column too many: %v", err)
	}
	if _, err := p.PredictRow(map[string]any{"age": []int{1}, "kind": "oak"}); !errors.Is(err, data.ErrInput) ||
		!strings.Contains(err.Error(), `"age"`) {
		t.Errorf("a row with a list: %v", err)
	}
}

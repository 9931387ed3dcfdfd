package calc_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/internal/calc"
)

// goldenFiles hold the reference cases: the given ones, and those of testdata/more_forms.py for the rest.
var goldenFiles = []string{"../../testdata/closed_forms.json", "testdata/more_forms.json"}

// golden reads the reference cases.
func golden(t *testing.T) []calc.Case {
	t.Helper()
	var cases []calc.Case
	for _, path := range goldenFiles {
		cases = append(cases, readCases(t, path)...)
	}
	return cases
}

func readCases(t *testing.T, path string) []calc.Case {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := calc.NewReader(f)
	var cases []calc.Case
	for {
		c, err := r.Next()
		if errors.Is(err, io.EOF) {
			return cases
		}
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
}

// Every reference value is met at its own tolerance.
func TestGolden(t *testing.T) {
	table := calc.NewTable()
	evaluated := 0
	for _, c := range golden(t) {
		t.Run(c.ID, func(t *testing.T) {
			e, err := table.Find(c.Name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Eval(c.Inputs)
			if err != nil {
				t.Fatal(err)
			}
			if err := calc.Compare(got, c.Expected, c.RTol, c.ATol); err != nil {
				t.Error(err)
			}
			evaluated++
		})
	}
	if evaluated < 300 {
		t.Errorf("only %d cases were evaluated", evaluated)
	}
}

// A reference value moved by ten times its tolerance must be a miss: the comparison has power for every case.
func TestGoldenMutantsMiss(t *testing.T) {
	table := calc.NewTable()
	for _, c := range golden(t) {
		e, err := table.Find(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Eval(c.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(c.Expected, &want); err != nil {
			t.Fatal(err)
		}
		for i := range countNumbers(want) {
			n := i
			mutant, err := json.Marshal(mutate(want, &n, c.RTol, c.ATol))
			if err != nil {
				t.Fatal(err)
			}
			var miss *calc.Miss
			if err := calc.Compare(got, mutant, c.RTol, c.ATol); !errors.As(err, &miss) {
				t.Errorf("%s: number %d of %s was moved and passes: %v", c.ID, i, mutant, err)
			}
		}
	}
}

func countNumbers(v any) int {
	n := 0
	switch v := v.(type) {
	case float64:
		return 1
	case []any:
		for _, e := range v {
			n += countNumbers(e)
		}
	case map[string]any:
		for _, e := range v {
			n += countNumbers(e)
		}
	}
	return n
}

// mutate moves the n-th number, counting down.
func mutate(v any, n *int, rtol, atol float64) any {
	switch v := v.(type) {
	case float64:
		*n--
		if *n == -1 {
			return v + 10*(rtol*math.Abs(v)+atol) + 1e-12*math.Abs(v) + math.SmallestNonzeroFloat64
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = mutate(e, n, rtol, atol)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) { // so that every number gets its turn
			out[k] = mutate(v[k], n, rtol, atol)
		}
		return out
	}
	return v
}

// Every name has a case, every case has a name, and the declared inputs are those of the cases.
func TestEntriesMatchGolden(t *testing.T) {
	inputs := map[string]map[string]bool{}
	for _, c := range golden(t) {
		var in map[string]json.RawMessage
		if err := json.Unmarshal(c.Inputs, &in); err != nil {
			t.Fatal(err)
		}
		if inputs[c.Name] == nil {
			inputs[c.Name] = map[string]bool{}
		}
		for k := range in {
			inputs[c.Name][k] = true
		}
	}
	seen := map[string]bool{}
	for _, e := range calc.Entries() {
		if seen[e.Name] {
			t.Errorf("%s is listed twice", e.Name)
		}
		seen[e.Name] = true
		if inputs[e.Name] == nil {
			t.Errorf("%s has no reference case", e.Name)
			continue
		}
		if len(e.Inputs) != len(inputs[e.Name]) {
			t.Errorf("%s declares %d inputs, the cases have %d", e.Name, len(e.Inputs), len(inputs[e.Name]))
		}
		for _, in := range e.Inputs {
			if !inputs[e.Name][in.Key] {
				t.Errorf("%s declares %q, which no case has", e.Name, in.Key)
			}
			if in.Type == "" {
				t.Errorf("%s: input %q has no type in words", e.Name, in.Key)
			}
		}
		if e.Reference == "" {
			t.Errorf("%s has no reference", e.Name)
		}
	}
	for name := range inputs {
		if !seen[name] {
			t.Errorf("%s is not implemented", name)
		}
	}
}

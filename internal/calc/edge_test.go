package calc_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/randfeat/randfeat/internal/calc"
)

// Inputs at the edge of their range give a value or an error: no panic, no endless series, no NaN.
func TestEdges(t *testing.T) {
	if testing.Short() {
		t.Skip("many evaluations")
	}
	edges := []string{"0", "1", "2", "-1", "0.5", "1e-300", "1e300", "-1e300", "5e-324", "1e8", "1000", "1048576",
		"1e4",
		"123.25", "700"}
	table := calc.NewTable()
	done := map[string]bool{}
	for _, c := range golden(t) {
		e, err := table.Find(c.Name)
		if err != nil || done[c.Name] {
			continue
		}
		done[c.Name] = true
		var in map[string]any
		if err := json.Unmarshal(c.Inputs, &in); err != nil {
			t.Fatal(err)
		}
		for key := range in {
			for n := range countNumbers(in[key]) {
				if n > 3 {
					break // one entry of a list is like another
				}
				for _, edge := range edges {
					inputs := replaceNumber(t, in, key, n, edge)
					start := time.Now()
					v, err := e.Eval(inputs)
					if d := time.Since(start); d > time.Minute {
						t.Errorf("%s took %v for %s", c.Name, d, clip(inputs))
					}
					if err != nil {
						continue
					}
					if b := calc.Encode(v); !json.Valid(b) {
						t.Errorf("%s with %s = %s: %s is no JSON", c.Name, key, edge, b)
					}
				}
			}
		}
	}
}

func clip(b []byte) string { return fmt.Sprintf("%.200s", b) }

// replaceNumber sets the n-th number under a key.
func replaceNumber(t *testing.T, in map[string]any, key string, n int, edge string) json.RawMessage {
	t.Helper()
	out := map[string]any{}
	for k, v := range in {
		if k == key {
			v = setNumber(v, &n, json.Number(edge))
		}
		out[k] = v
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func setNumber(v any, n *int, edge json.Number) any {
	switch v := v.(type) {
	case float64:
		*n--
		if *n == -1 {
			return edge
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = setNumber(e, n, edge)
		}
		return out
	}
	return v
}

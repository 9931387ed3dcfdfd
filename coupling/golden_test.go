package coupling_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
)

// goldenCase is one case of testdata/closed_forms.json; the schema is in the README of the golden vectors.
type goldenCase struct {
	ID       string          `json:"id"`
	Formula  string          `json:"formula"`
	Inputs   json.RawMessage `json:"inputs"`
	Expected json.RawMessage `json:"expected"`
	Rtol     float64         `json:"rtol"`
	Atol     float64         `json:"atol"`
}

// goldenInputs has the input keys of all coupling.* formulas.
type goldenInputs struct {
	X      []float64   `json:"x"`
	Norms  []float64   `json:"norms"`
	Passes int         `json:"passes"`
	R      [][]float64 `json:"R"`
	Signs  [][]float64 `json:"signs"`
	N      int         `json:"n"`
	M      int         `json:"m"`
	D      int         `json:"d"`
	Shift  []float64   `json:"shift"`
	G      [][]float64 `json:"G"`
	W      [][]float64 `json:"W"`
	V      float64     `json:"v"`
	Z2     float64     `json:"z2"`
}

func evaluateGolden(name string, in goldenInputs) (any, error) {
	switch name {
	case "coupling.simplex_multiply":
		return omega.SimplexMultiply(in.X), nil
	case "coupling.simplex_plus":
		return omega.SimplexPlusSweeps(in.Norms, in.Passes, dense.MustFromRows(in.R))
	case "coupling.hd_product":
		return hdProduct(in.Signs, append(in.X, make([]float64, in.N-len(in.X))...)), nil
	case "coupling.halton":
		w, err := omega.HaltonRows(in.M, in.Shift)
		return w.ToRows(), err
	case "coupling.haar_from_gaussian":
		q, err := omega.HaarFromGaussian(dense.MustFromRows(in.G))
		return q.ToRows(), err
	case "coupling.conformity_objective":
		return omega.ConformityObjective(dense.MustFromRows(in.W), in.V)
	case "coupling.padded_wrong_norms":
		return paddedWrongNorms(in.D, in.N, in.Z2), nil
	}
	return nil, os.ErrNotExist
}

func TestGolden(t *testing.T) {
	data, err := os.ReadFile("../testdata/closed_forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []goldenCase `json:"cases"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, c := range file.Cases {
		name, _, _ := strings.Cut(c.Formula, " | ")
		if !strings.HasPrefix(name, "coupling.") || name == "coupling.pair_fraction" { // the latter is theory's
			continue
		}
		count++
		var in goldenInputs
		if err := json.Unmarshal(c.Inputs, &in); err != nil {
			t.Fatal(err)
		}
		got, err := evaluateGolden(name, in)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		// Through JSON, which also checks the keys of the result objects.
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var g, w any
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(c.Expected, &w); err != nil {
			t.Fatal(err)
		}
		compareGolden(t, c, g, w)
	}
	if count < 17 {
		t.Errorf("only %d coupling.* cases found", count)
	}
}

func compareGolden(t *testing.T, c goldenCase, got, want any) {
	t.Helper()
	switch w := want.(type) {
	case nil:
	case float64:
		g, ok := got.(float64)
		if !ok || !(math.Abs(g-w) <= c.Rtol*math.Abs(w)+c.Atol) {
			t.Errorf("%s: got %v, want %v", c.ID, got, w)
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			t.Errorf("%s: got %v, want %v", c.ID, got, w)
			return
		}
		for i := range w {
			compareGolden(t, c, g[i], w[i])
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s: got %v, want an object", c.ID, got)
			return
		}
		for k := range w {
			compareGolden(t, c, g[k], w[k])
		}
	default:
		t.Errorf("%s: unexpected %T", c.ID, want)
	}
}

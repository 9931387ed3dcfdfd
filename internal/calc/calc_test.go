package calc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/calc"
)

func find(t *testing.T, name string) calc.Entry {
	t.Helper()
	e, err := calc.NewTable().Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestFindSuggests(t *testing.T) {
	_, err := calc.NewTable().Find("logrv.tirg")
	if !errors.Is(err, calc.ErrUnknown) || !strings.Contains(err.Error(), "logrv.trig") {
		t.Errorf("got %v", err)
	}
	_, err = calc.NewTable().Find("")
	if !errors.Is(err, calc.ErrUnknown) || !strings.Contains(err.Error(), "theory list") {
		t.Errorf("got %v", err)
	}
}

// Bad inputs are errors that name the key.
func TestEvalRefuses(t *testing.T) {
	for _, c := range []struct{ name, inputs, says string }{
		{"logrv.trig", ``, "missing"},
		{"logrv.trig", `[1]`, "want an object"},
		{"logrv.trig", `{}`, `lack "z2"`},
		{"logrv.trig", `{"z2": 1, "z3": 2}`, `unknown input "z3"`},
		{"logrv.trig", `{"z2": 1, "z2": 2}`, `"z2" appears twice`},
		{"logrv.trig", `{"z2": "1"}`, `"z2": got "1", want a finite number`},
		{"logrv.trig", `{"z2": null}`, `"z2": got null`},
		{"logrv.trig", `{"z2": 1e999}`, `want a finite number`},
		{"logrv.trig", `{"z2": [1]}`, `"z2": got [1]`},
		{"logrv.trig", `{"z2": -1}`, `number ≥ 0`},
		{"oprf.rho", `{"d": 1.5, "v2": 1}`, `"d": got 1.5, want an integer ≥ 1`},
		{"oprf.rho", `{"d": 0, "v2": 1}`, `want an integer ≥ 1`},
		{"oprf.rho", `{"d": 1e9, "v2": 1}`, `at most`},
		{"logrv.gerf", `{"d": 2, "A_re": 0, "A_im": 0, "s": 2, "V_": 1}`, `want +1 or -1`},
		{"conformity.simplex_log", `{"d": 1, "v2": 1}`, `outside the domain`},
		{"mse.rff", `{"coupling": "foo", "d": 2, "m": 2, "z2": 1}`, `iid | orthogonal | simplex`},
		{"hrf.angular_mse_log", `{"m": 1, "n": 1, "x": [1], "y": [1], "shared": 1}`, `want true or false`},
		{"logrv.geometric", `{"p": 1, "t": [1], "xy": 0}`, `(0, 1)`},
		{"logrv.geometric", `{"p": 0.5, "t": [], "xy": 0}`, `"t": got an empty list`},
		{"logrv.geometric", `{"p": 0.5, "t": [1, null], "xy": 0}`, `element 1`},
		{"logrv.complex_exponential", `{"a": [[1]], "x": [1], "y": [1]}`, `want [re, im]`},
		{"logrv.complex_exponential", `{"a": [[0,0]], "x": [1], "y": [1]}`, `complex-exp`},
		{"logrv.complex_exponential", `{"a": [[1,0]], "x": [1, 2], "y": [1, 2]}`, `"a" has 1 coordinates`},
		{"kernel.log_mahalanobis", `{"x": [1, 2], "y": [1], "M_": [[1, 2]]}`, `"y" has 1 coordinates, "x" has 2`},
		{"kernel.log_mahalanobis", `{"x": [1, 2], "y": [1, 2], "M_": [[1, 2], [3]]}`, `row 1 has 1 columns`},
		{"kernel.log_mahalanobis", `{"x": [1, 2], "y": [1, 2], "M_": [[]]}`, `empty`},
		{"kernel.log_mahalanobis", `{"x": [1, 2], "y": [1, 2], "M_": 3}`, `want a list`},
		{"logvar.gaussian", `{"kind": "gerf", "x": [1], "y": [1], "par": []}`, `[Re A, Im A, s]`},
		{"logvar.gaussian", `{"kind": "gerf", "x": [1], "y": [1], "par": [0, 0, 3]}`, `s = +1 or -1`},
		{"opt.matched_P", `{"Cx": [[1, 2], [0, 1]], "Cy": [[1, 0], [0, 1]]}`, `symmetric`},
		{"opt.matched_P", `{"Cx": [[1, 2], [2, 1]], "Cy": [[1, 0], [0, 1]]}`, `positive`},
		{"opt.matched_P", `{"Cx": [[1, 0], [0, 1]], "Cy": [[1]]}`, `"Cy": got 1×1`},
		{"dark.sigma_eigs", `{"lam": [0.7]}`, `1/2`},
		{"dark.expected_variance", `{"lam": [-0.1]}`, `lam[0]`},
		{"dark.prop41_log_weight", `{"Sigma": [[0]], "w": [1]}`, `positive definite`},
		{"coupling.hd_product", `{"signs": [[1, 1, 1]], "x": [1], "n": 3}`, `power of two`},
		{"coupling.padded_wrong_norms", `{"d": 5, "n": 4, "z2": 1}`, `at least d`},
		{"coupling.haar_from_gaussian", `{"G": [[1, 2]]}`, `rows ≥ columns`},
		{"coupling.simplex_plus", `{"norms": [1, 2], "passes": 1, "R": [[1]]}`, `1×1`},
		{"features.trig", `{"kernel": "bessel", "omega": [[1]], "x": [1], "y": [1]}`, `gaussian | softmax`},
		{"features.positive", `{"kernel": "softmax", "omega": [[1, 2]], "x": [1], "y": [1]}`, `projection`},
		{"features.poisson", `{"kernel": "softmax", "omega": [[0.5]], "x": [1], "y": [1], "param": 1}`, `0, 1, 2`},
		{"features.importance_prf", `{"g": [[1]], "L": [[0]], "x": [1], "y": [1]}`, `singular`},
		{"features.adaptive", `{"A_": [[1]], "c": [0], "U": [[2]], "rho": [1], "x": [1], "y": [1], "omega": [[1]]}`,
			`orthogonal`},
		{"cluster.diagonal_A", `{"r": [1], "t": [1], "mode": "real", "amax": 0.5}`, `≥ 1`},
	} {
		_, err := find(t, c.name).Eval(json.RawMessage(c.inputs))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: got %v, want an error that says %q", c.name, c.inputs, err, c.says)
		}
	}
}

func TestEncode(t *testing.T) {
	v := calc.Object{
		{Key: "a", Value: math.Inf(1)},
		{Key: "b", Value: []any{math.Inf(-1), 0.1, -2.5e-300}},
		{Key: "c", Value: math.NaN()},
	}
	got := string(calc.Encode(v))
	want := `{"a":"inf","b":["-inf",0.1,-2.5e-300],"c":null}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !json.Valid([]byte(got)) {
		t.Error("not JSON")
	}
}

func TestCompare(t *testing.T) {
	object := calc.Object{{Key: "a", Value: 1.0}, {Key: "b", Value: []any{2.0, math.Inf(1)}}, {Key: "more", Value: 9.0}}
	for _, c := range []struct {
		got  any
		want string
		miss bool
	}{
		{1.0, `1`, false},
		{1.0 + 9e-7, `1`, false},
		{1.0 + 3e-6, `1`, true},
		{3e-9, `0`, false}, // atol
		{-3e-8, `0`, true}, // atol
		{math.NaN(), `1`, true},
		{math.NaN(), `null`, false},
		{math.Inf(1), `"inf"`, false},
		{math.Inf(-1), `"inf"`, true},
		{1e308, `"inf"`, true},
		{math.Inf(1), `1e308`, true},
		{[]any{1.0, 2.0}, `[1, 2]`, false},
		{[]any{1.0, 2.0}, `[2, 1]`, true},
		{[]any{1.0, 2.0}, `[1]`, true},
		{[]any{1.0}, `1`, true},
		{1.0, `[1]`, true},
		{object, `{"a": 1, "b": [2, "inf"]}`, false},
		{object, `{"a": null, "b": [2, null]}`, false},
		{object, `{"a": 1, "b": [2.1, "inf"]}`, true},
		{object, `{"a": 1, "z": 1}`, true},
		{1.0, `{"a": 1}`, true},
	} {
		err := calc.Compare(c.got, json.RawMessage(c.want), 1e-6, 1e-8)
		var miss *calc.Miss
		if errors.As(err, &miss) != c.miss || (err != nil) != c.miss {
			t.Errorf("%s against %s: %v, want a miss: %v", calc.Encode(c.got), c.want, err, c.miss)
		}
	}
	err := calc.Compare(object, json.RawMessage(`{"b": [2, 5]}`), 0, 0)
	if err == nil || !strings.Contains(err.Error(), ".b[1]") {
		t.Errorf("%v does not say where", err)
	}
	for _, bad := range []string{`"infinity"`, `true`, `{`} {
		var miss *calc.Miss
		if err := calc.Compare(1.0, json.RawMessage(bad), 0, 0); err == nil || errors.As(err, &miss) {
			t.Errorf("expected value %s: %v, want an error that is no miss", bad, err)
		}
	}
}

// The three forms of input hold the same cases.
func TestReaderForms(t *testing.T) {
	a := `{"id": "a", "formula": "logrv.trig | HRF Lemma 2.2", "inputs": {"z2": 1}, "expected": 0.5, ` +
		`"rtol": 0.1, "atol": 0.2}`
	b := `{"formula": "oprf.rho", "inputs": {"d": 2, "v2": 1}, "cases": "of no interest"}`
	for name, text := range map[string]string{
		"golden": `{"schema": 1, "title": "t", "count": 2, "cases": [` + a + `,` + b + `]}`,
		"list":   " \n[" + a + "," + b + "] ",
		"ndjson": a + "\n" + b + "\n",
		"concat": a + b,
	} {
		r := calc.NewReader(strings.NewReader(text))
		first, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if first.ID != "a" || first.Name != "logrv.trig" || string(first.Expected) != "0.5" || first.RTol != 0.1 ||
			first.ATol != 0.2 {
			t.Errorf("%s: first case %+v", name, first)
		}
		second, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if second.ID != "#2" || second.Name != "oprf.rho" || second.Expected != nil {
			t.Errorf("%s: second case %+v", name, second)
		}
		for range 2 {
			if _, err := r.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: got %v after the last case", name, err)
			}
		}
	}
}

// A malformed case does not hide the ones after it.
func TestReaderSkipsBadCases(t *testing.T) {
	for _, c := range []struct{ bad, id, says string }{
		{`3`, "#1", "want an object"},
		{`{"id": 7, "formula": "x"}`, "#1", "want a string"},
		{`{"id": "q", "formula": 3}`, "q", `"formula"`},
		{`{"id": "q"}`, "q", `"formula"`},
		{`{"id": "q", "formula": "x", "rtol": "1"}`, "q", `"rtol"`},
		{`{"id": "q", "formula": "x", "atol": -1}`, "q", `"atol"`},
		{`{"id": "q", "formula": "x", "atol": -1, "rtol": -1}`, "q", `"rtol"`}, // always the same of two
	} {
		for _, format := range []string{"[%s, %s]", "%s\n%s\n"} {
			r := calc.NewReader(strings.NewReader(fmt.Sprintf(format, c.bad, `{"formula": "y"}`)))
			_, err := r.Next()
			var bad *calc.CaseError
			if !errors.As(err, &bad) || bad.ID != c.id || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v", c.bad, err)
			}
			if next, err := r.Next(); err != nil || next.Name != "y" {
				t.Errorf("after %s: %+v, %v", c.bad, next, err)
			}
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`{"cases": [{"formula": "x"}]}`, "schema"},
		{`{"schema": 2, "cases": []}`, "schema"},
		{`[{"formula": "x"}`, "not closed"},
		{`[{"formula": "x"}] 3`, "more JSON"},
		{`{"formula": "x"`, "middle of a value"},
		{`hello`, "not JSON"},
		{`[{"formula": "x"}, oops]`, "not JSON"},
	} {
		r := calc.NewReader(strings.NewReader(c.text))
		var err error
		for range 3 {
			if _, err = r.Next(); err != nil {
				break
			}
		}
		if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want an error that says %q", c.text, err, c.says)
		}
	}
	if _, err := calc.NewReader(strings.NewReader(" \n")).Next(); !errors.Is(err, io.EOF) {
		t.Errorf("nothing: %v", err)
	}
}

// FuzzEval: whatever the bytes, the calculator answers or reports an error.
func FuzzEval(f *testing.F) {
	f.Add(`{"formula": "logrv.trig", "inputs": {"z2": 1}}`)
	f.Add(`[{"formula": "features.gerf", "inputs": {"kernel": "softmax", "omega": [[1, 2]], "x": [1, 0], ` +
		`"y": [0, 1], "A_re": 0.1, "A_im": 0.2, "s": -1}}]`)
	f.Add(`{"schema": 1, "cases": [{"formula": "coupling.hd_product", "inputs": {"signs": [[1, -1]], "x": [1], "n": 2}, ` +
		`"expected": [1, null]}]}`)
	f.Add(`{"formula": "opt.matched_P", "inputs": {"Cx": [[2, 1], [1, 2]], "Cy": [[1, 0], [0, 1]]}}`)
	table := calc.NewTable()
	f.Fuzz(func(t *testing.T, text string) {
		r := calc.NewReader(strings.NewReader(text))
		for range 4 {
			c, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			var bad *calc.CaseError
			if errors.As(err, &bad) {
				continue
			}
			if err != nil {
				return
			}
			e, err := table.Find(c.Name)
			if err != nil {
				continue
			}
			v, err := e.Eval(c.Inputs)
			if err != nil {
				continue
			}
			if b := calc.Encode(v); !json.Valid(b) {
				t.Errorf("%s is no JSON", b)
			}
			if c.Expected != nil {
				_ = calc.Compare(v, c.Expected, c.RTol, c.ATol)
			}
		}
	})
}

func TestHDProductErrors(t *testing.T) {
	e := find(t, "coupling.hd_product")
	for _, in := range []string{`{"signs":[[1,1,1]],"x":[1],"n":3}`, `{"signs":[[1,1]],"x":[1,2,3],"n":2}`,
		`{"signs":[[1,1]],"x":[1,1],"n":4}`} {
		if _, err := e.Eval(json.RawMessage(in)); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

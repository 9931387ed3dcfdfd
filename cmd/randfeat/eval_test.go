package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/catalog"
)

const goldenFile = "../../testdata/closed_forms.json"

func TestEvalCheckGolden(t *testing.T) {
	o := ok(t, "eval", "--check", goldenFile)
	if strings.Contains(o.stdout, "MISS") || !strings.Contains(o.stdout, "FORMULA") {
		t.Errorf("%s", o.stdout)
	}
	last := strings.Fields(o.stdout[strings.LastIndex(strings.TrimSpace(o.stdout), "\n"):])
	if len(last) != 3 || last[0] != "total" || last[1] != "262" || last[2] != "0" {
		t.Errorf("the last line is %q", last)
	}
}

// An altered reference value is reported by its id and makes the command fail.
func TestEvalCheckReportsAMiss(t *testing.T) {
	b, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	old := []byte(`-27.631021115928046`) // logrv.positive at v2 = 1e-12
	if bytes.Count(b, old) != 1 {
		t.Fatal("the golden file has changed")
	}
	path := filepath.Join(t.TempDir(), "mutant.json")
	if err := os.WriteFile(path, bytes.Replace(b, old, []byte(`-27.6310212`), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	o := call(t, "", "eval", "--check", path)
	if o.code != exitFailed || strings.Count(o.stdout, "MISS") != 1 ||
		!strings.Contains(o.stdout, "MISS logrv.positive#") {
		t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

func TestEvalAnswersEveryCase(t *testing.T) {
	cases := `{"id": "a", "formula": "oprf.rho | CRT Thm 3.3", "inputs": {"d": 3, "v2": 0}}
{"id": "b", "formula": "no.such", "inputs": {}}
{"id": "c", "formula": "oprf.rho", "inputs": {"d": 3, "v2": 0}}
{"id": "d", "formula": "orf.constants", "inputs": {"d": 2}}
{"id": "e", "formula": "dark.expected_variance", "inputs": {"lam": [0.3]}}
{"id": "f", "formula": "logrv.positive", "inputs": {"v2": -1}}
{"id": "g", "formulae": "logrv.positive"}
`
	o := call(t, cases, "eval")
	if o.code != exitDone {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	want := `{"id":"a","value":1}
{"id":"b","error":"unknown formula \"no.such\": randfeat theory list shows all names"}
{"id":"c","value":1}
`
	if !strings.HasPrefix(o.stdout, want) {
		t.Errorf("got\n%swant\n%s", o.stdout, want)
	}
	results := objects[catalog.EvalResult](t, o.stdout)
	if len(results) != 7 {
		t.Fatalf("%d answers to 7 cases", len(results))
	}
	if !strings.Contains(string(results[3].Value), `"c_d":null,"alpha_d":1,"beta_d":0`) {
		t.Errorf("undefined: %s", results[3].Value)
	}
	if !strings.Contains(string(results[4].Value), `"log_second_iso":"inf"`) {
		t.Errorf("infinity: %s", results[4].Value)
	}
	if !strings.Contains(results[5].Error, `"v2"`) || !strings.Contains(results[6].Error, `"formula"`) {
		t.Errorf("errors %q and %q do not name the key", results[5].Error, results[6].Error)
	}
	if !strings.Contains(o.stderr, "3 of 7") {
		t.Errorf("stderr: %q", o.stderr)
	}
}

func TestEvalCheckCounts(t *testing.T) {
	cases := `[
{"id": "pass", "formula": "oprf.rho", "inputs": {"d": 64, "v2": 0}, "expected": 1},
{"id": "miss", "formula": "oprf.rho", "inputs": {"d": 64, "v2": 0}, "expected": 1.1, "rtol": 0.01},
{"id": "none", "formula": "oprf.rho", "inputs": {"d": 64, "v2": 0}},
{"id": "name", "formula": "oprf.roh", "inputs": {"d": 64, "v2": 0}, "expected": 1},
7]`
	o := call(t, cases, "eval", "--check", "-")
	want := `MISS miss: got 1, want 1.1: off by 0.1, allowed 0.011
MISS none: the case has no expected value
MISS name: unknown formula "oprf.roh": did you mean oprf.rho?
MISS #5: a case: got 7, want an object
FORMULA      PASSED  FAILED
(malformed)  0       1
oprf.rho     1       2
oprf.roh     0       1
total        1       4
`
	if o.code != exitFailed || o.stdout != want {
		t.Errorf("exit %d, got\n%swant\n%s", o.code, o.stdout, want)
	}
	o = call(t, cases, "eval", "--check", "--json")
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if o.code != exitFailed || len(lines) != 9 {
		t.Fatalf("exit %d, %d lines\n%s", o.code, len(lines), o.stdout)
	}
	verdicts := objects[catalog.CheckResult](t, strings.Join(lines[:5], "\n"))
	if verdicts[0].Status != "passed" || string(verdicts[0].Value) != "1" || verdicts[4].Status != "failed" {
		t.Errorf("%+v", verdicts)
	}
	total := objects[catalog.CheckSummary](t, lines[8])[0]
	if total != (catalog.CheckSummary{Summary: "total", Passed: 1, Failed: 4}) {
		t.Errorf("%+v", total)
	}
}

func TestEvalBadInput(t *testing.T) {
	dir := t.TempDir()
	fails(t, exitFailed, "does not exist", "eval", filepath.Join(dir, "no.json"))
	fails(t, exitFailed, "is a directory", "eval", dir)
	fails(t, exitMisuse, "2 arguments, want one file of cases, or none", "eval", "a", "b")
	if o := call(t, "{", "eval"); o.code != exitFailed || !strings.Contains(o.stderr, "stdin: the JSON ends") {
		t.Errorf("%+v", o)
	}
	if o := call(t, `{"cases": []}`, "eval"); o.code != exitFailed || !strings.Contains(o.stderr, `"schema": 1`) {
		t.Errorf("%+v", o)
	}
	if o := call(t, "", "eval", "--check"); o.code != exitFailed || !strings.Contains(o.stderr, "no cases") {
		t.Errorf("%+v", o)
	}
	if o := call(t, "", "eval"); o.code != exitDone || o.stdout != "" {
		t.Errorf("%+v", o)
	}
}

// A program that asks case by case gets each answer before it sends the next.
func TestEvalAnswersThroughAPipe(t *testing.T) {
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan int)
	go func() {
		code := runChecked(context.Background(), []string{"eval"}, in, out, io.Discard)
		out.Close()
		done <- code
	}()
	buf := make([]byte, 1000)
	for range 3 {
		if _, err := io.WriteString(ask, `{"id": "q", "formula": "oprf.rho", "inputs": {"d": 1, "v2": 0}}`+"\n"); err != nil {
			t.Fatal(err)
		}
		n, err := answers.Read(buf)
		if err != nil || string(buf[:n]) != `{"id":"q","value":1}`+"\n" {
			t.Fatalf("%q, %v", buf[:n], err)
		}
	}
	ask.Close()
	if code := <-done; code != exitDone {
		t.Errorf("exit %d", code)
	}
}

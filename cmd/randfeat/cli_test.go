package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/catalog"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/rng"
)

// Exit statuses.
const (
	exitDone        = cli.ExitDone
	exitFailed      = cli.ExitFailed
	exitMisuse      = cli.ExitMisuse
	exitInterrupted = cli.ExitInterrupted
)

// outcome is the result of a command.
type outcome struct {
	code           int
	stdout, stderr string
}

// call runs a command line in memory.
func call(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := runChecked(context.Background(), args, strings.NewReader(stdin), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// ok runs a command line that must succeed.
func ok(t *testing.T, args ...string) outcome {
	t.Helper()
	o := call(t, "", args...)
	if o.code != exitDone {
		t.Fatalf("randfeat %s: exit %d\n%s", strings.Join(args, " "), o.code, o.stderr)
	}
	return o
}

// fails runs a command line that must fail with a status and say something about why.
func fails(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	o := call(t, "", args...)
	if o.code != code {
		t.Errorf("randfeat %s: exit %d, want %d\n%s", strings.Join(args, " "), o.code, code, o.stderr)
	}
	if !strings.Contains(o.stderr, says) {
		t.Errorf("randfeat %s: %q does not say %q", strings.Join(args, " "), o.stderr, says)
	}
	if o.stdout != "" {
		t.Errorf("randfeat %s: printed %q on stdout", strings.Join(args, " "), o.stdout)
	}
}

// objects decodes one JSON object per line.
func objects[T any](t *testing.T, text string) []T {
	t.Helper()
	var out []T
	for line := range strings.Lines(text) {
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		var v T
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		out = append(out, v)
	}
	return out
}

// random is a rows×cols matrix with entries N(0, scale²).
func random(rows, cols int, scale float64, stream uint64) dense.Matrix[float64] {
	m := dense.New[float64](rows, cols)
	rng.Normals(m.Data, rng.Stream(1, stream))
	for i := range m.Data {
		m.Data[i] *= scale
	}
	return m
}

func save[T dense.Float](t *testing.T, dir, name string, m dense.Matrix[T]) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := npy.WriteFile(path, m); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, path string) npy.Array {
	t.Helper()
	a, err := npy.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// names lists a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestHelpAndVersion(t *testing.T) {
	if o := ok(t, "--version"); !strings.HasPrefix(o.stdout, "randfeat ") || o.stderr != "" {
		t.Errorf("--version: %+v", o)
	}
	v := objects[cli.VersionInfo](t, ok(t, "--json", "--version").stdout)
	if len(v) != 1 || v[0].Version == "" || !strings.HasPrefix(v[0].Go, "go") {
		t.Errorf("--json --version: %+v", v)
	}
	for _, args := range [][]string{{}, {"--help"}, {"completion"}, {"theory"}, {"features", "--help"},
		{"gram", "--help"}, {"eval", "--help"},
		{"attend", "--help"}, {"crossover", "--help"}} {
		if o := ok(t, args...); !strings.Contains(o.stdout, "Usage:") {
			t.Errorf("%v: %q", args, o.stdout)
		}
	}
}

// Every flag of fit stands in a group of its help.
func TestFlagGroups(t *testing.T) {
	if _, other, _ := strings.Cut(ok(t, "fit", "--help").stdout, "Other flags:\n"); strings.Count(strings.SplitN(other,
		"\n\n", 2)[0], "--") != 1 {
		t.Errorf("flags of no group:\n%s", other)
	}
}

func TestMisuse(t *testing.T) {
	fails(t, exitMisuse, `unknown command "foo"`, "foo")
	fails(t, exitMisuse, `unknown command "foo"`, "theory", "foo")
	fails(t, exitMisuse, `unknown command "nosh"`, "completion", "nosh")
	fails(t, exitMisuse, `unknown command "fti" for "randfeat", did you mean fit?`, "fti")
	fails(t, exitMisuse, `unknown command "lst" for "randfeat theory", did you mean list?`, "theory", "lst")
	fails(t, exitMisuse, `unknown command "plan" for "randfeat parts", want one of init, learn, choose`, "parts", "plan")
	fails(t, exitMisuse, "1 argument, want none", "families", "positive")
	fails(t, exitMisuse, "--nope", "families", "--nope")
	fails(t, exitMisuse, "unknown flag: --traget, did you mean --target?", "fit", "--traget", "price")
	fails(t, exitMisuse, "Run 'randfeat features --help'", "features")
	fails(t, exitMisuse, "no arguments, want two npy files", "gram")
	fails(t, exitMisuse, "want none with --demo", "gram", "--demo", "x.npy")
	fails(t, exitMisuse, `--projections is "many", want a whole number`, "features", "x.npy", "--projections", "many")
}

// Features and projections have a flag each. -m, which meant either, still works, says so and is in no help.
func TestFeaturesAndProjections(t *testing.T) {
	dir := t.TempDir()
	x, out := save(t, dir, "x.npy", random(16, 2, 1, 1)), filepath.Join(dir, "o.npy")
	for _, c := range []struct {
		command, flag, other string
		args                 []string
	}{
		{"features", "--projections", "--features", []string{x, "-o", out, "--family", "trig"}},
		{"gram", "--projections", "--features", []string{x, x, "-o", out, "--family", "trig"}},
		{"attend", "--features", "--projections", []string{x, x, x, "-o", out, "--family", "trig"}},
		{"advise", "--features", "--projections", []string{x, "--families", "trig", "--couplings", "iid", "--draws",
			"4", "--costs", "model"}},
		{"crossover", "--features", "--projections", []string{"--dim", "4", "--min-len", "8", "--max-len", "32",
			"--budget", "10ms", "--threads", "1"}},
	} {
		help := ok(t, c.command, "--help").stdout
		if !strings.Contains(help, "      "+c.flag+" int") || strings.Contains(help, c.other+" ") ||
			strings.Contains(help, "-m,") || strings.Contains(help, "deprecated") {
			t.Errorf("help of %s:\n%s", c.command, help)
		}
		args := append([]string{c.command}, c.args...)
		note := "note: -m is deprecated, use " + c.flag + "\n"
		if o := ok(t, append(args, c.flag, "4")...); strings.Contains(o.stderr, "deprecated") {
			t.Errorf("%s %s: %s", c.command, c.flag, o.stderr)
		}
		if o := ok(t, append(args, "-m", "4")...); strings.Count(o.stderr, note) != 1 {
			t.Errorf("%s -m: %s", c.command, o.stderr)
		}
		fails(t, exitMisuse, c.flag, append(args, "-m", "0")...)
		fails(t, exitMisuse, "unknown flag: "+c.other, append(args, c.other, "4")...)
	}
}

func TestFamilies(t *testing.T) {
	o := ok(t, "families")
	for _, want := range []string{"FAMILY", "adaptive", "CRT Thm 3.3", "4m(n+1)", "O(md)"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("families does not show %q", want)
		}
	}
	type info struct {
		Name, Summary, Reference, Positive, Size, Cost string
		Fits, Unbiased, Replaces                       bool
	}
	list := objects[info](t, ok(t, "families", "--json").stdout)
	if len(list) < 20 || list[0].Name != "trig" || list[0].Reference == "" {
		t.Errorf("families --json: %+v", list)
	}
}

func TestCouplings(t *testing.T) {
	o := ok(t, "couplings")
	for _, want := range []string{"COUPLING", "simplexplus", "SimRF eqs 15-17", "O(md log d)"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("couplings does not show %q", want)
		}
	}
	list := objects[catalog.CouplingInfo](t, ok(t, "couplings", "--json").stdout)
	named := func(name string) catalog.CouplingInfo {
		i := slices.IndexFunc(list, func(c catalog.CouplingInfo) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("couplings --json: no %s in %+v", name, list)
		}
		return list[i]
	}
	if iid := named("iid"); len(list) != len(coupling.List()) || !iid.Exact || !slices.Contains(iid.Laws, "poisson") ||
		named("orfprime").Fields[0].Name != "sqrtDim" {
		t.Errorf("couplings --json: %+v", list)
	}
}

func TestTheoryList(t *testing.T) {
	o := ok(t, "theory", "list")
	for _, want := range []string{"logrv.trig", "HRF Lemma 2.2", "attention.linear"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("theory list does not show %q", want)
		}
	}
	list := objects[catalog.FormulaInfo](t, ok(t, "theory", "list", "orf.", "--json").stdout)
	if len(list) != 9 || list[0].Name != "orf.var_log" || list[0].Inputs[2].Key != "z" ||
		list[0].Inputs[2].Type != "number ≥ 0" {
		t.Errorf("theory list orf. --json: %+v", list)
	}
	fails(t, exitMisuse, `"zzz"`, "theory", "list", "zzz")
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct{ want, args string }{
		{"oprf\toptimal positive features", "features --family op"},
		{"orthogonal\t", "gram --coupling ort"},
		{"softmax", "gram --kernel s"},
		{"adaptive\t", "attend --family ad"},
		{"svg", "crossover -o "},
		{"query", "features --side "},
		{"npy", "features "},
		{"features", "sample --within "},
		{"features\t", "feat"},
	} {
		args := append([]string{"__complete"}, strings.Split(c.args, " ")...)
		if o := call(t, "", args...); o.code != exitDone || !strings.Contains(o.stdout, c.want) {
			t.Errorf("completion of %q: %q, want %q", c.args, o.stdout, c.want)
		}
	}
	if o := ok(t, "completion", "bash"); !strings.Contains(o.stdout, "randfeat") {
		t.Error("no bash completion")
	}
}

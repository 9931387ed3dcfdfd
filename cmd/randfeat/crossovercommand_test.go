package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/crossover"
)

func TestCrossoverCommand(t *testing.T) {
	dir := t.TempDir()
	svg := filepath.Join(dir, "c.svg")
	args := []string{"crossover", "--dim", "16", "--features", "16", "--min-len", "16", "--max-len", "512", "--budget",
		"300ms", "--threads", "1"}
	r := objects[crossover.CrossoverResult](t, ok(t, append(args, "-o", svg, "--json")...).stdout)[0]
	if r.Threads != 1 || r.Features != 16 || len(r.Points) < 3 || r.Seed != cli.DefaultSeed || r.Plot != svg {
		t.Fatalf("%+v", r)
	}
	if r.Length == nil && !r.Below {
		t.Errorf("no result: %+v", r)
	}
	for _, p := range r.Points {
		if p.Runs < 1 || !(p.Exact.Low > 0) || p.Linear.Low > p.Linear.Median || p.Linear.Median > p.Linear.High {
			t.Errorf("%+v", p)
		}
	}
	b, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	picture := string(b)
	for _, text := range []string{"<svg ", "bidirectional, d = 16, 16 positive features, 1 head, 1 thread", ">linear<",
		">exact<"} {
		if !strings.Contains(picture, text) {
			t.Errorf("no %q in the picture", text)
		}
	}
	if n := strings.Count(picture, `class="bar"`); n != 2*len(r.Points) {
		t.Errorf("%d intervals of %d points", n, len(r.Points))
	}
	args[4] = "17"
	pairs := objects[crossover.CrossoverResult](t, ok(t, append(args, "--family", "trig", "--json")...).stdout)[0]
	if pairs.Features != 16 {
		t.Errorf("%d trigonometric features for --features 17", pairs.Features)
	}
	o := ok(t, append(args, "--causal")...)
	for _, text := range []string{"causal attention, d = 16", "LINEAR IS", "● exact", "inear attention"} {
		if !strings.Contains(o.stdout, text) {
			t.Errorf("no %q in\n%s", text, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "seed 1") {
		t.Errorf("stderr %q", o.stderr)
	}
}

// crossover is a part of attend; its old name still works, but help does not list it.
func TestCrossoverOldName(t *testing.T) {
	if strings.Contains(ok(t, "--help").stdout, "crossover") {
		t.Error("the help lists crossover beside attend")
	}
	if help := ok(t, "attend", "--help").stdout; !strings.Contains(help, "\n  crossover ") {
		t.Errorf("the help of attend does not list crossover:\n%s", help)
	}
	_, now, _ := strings.Cut(ok(t, "attend", "crossover", "--help").stdout, "\n\nFlags:\n")
	_, old, _ := strings.Cut(ok(t, "crossover", "--help").stdout, "\n\nFlags:\n")
	if now == "" || strings.ReplaceAll(now, "attend crossover", "crossover") != old {
		t.Errorf("attend crossover has other flags than crossover:\n%s\n%s", now, old)
	}
}

func TestCrossoverMisuse(t *testing.T) {
	for says, args := range map[string][]string{
		`want a name that ends in .svg`:  {"-o", "x.png"},
		"--dim is 0":                     {"--dim", "0"},
		"--min-len is 512":               {"--min-len", "512", "--max-len", "600"},
		"--threads is -1":                {"--threads", "-1"},
		"--budget is 0s":                 {"--budget", "0"},
		"--heads × --max-len × --dim is": {"--max-len", "1000000000"},
		"--features is 100000000000":     {"--features", "100000000000"},
		"--features is 1: family":        {"--features", "1", "--family", "trig"},
		"--family":                       {"--family", "none"},
		"--coupling":                     {"--coupling", "none"},
		"1 argument, want none":          {"x"},
	} {
		fails(t, exitMisuse, says, append([]string{"crossover"}, args...)...)
		fails(t, exitMisuse, says, append([]string{"attend", "crossover"}, args...)...)
	}
}

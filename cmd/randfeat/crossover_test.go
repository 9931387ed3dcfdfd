package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/internal/rng"
)

func TestCrossoverLengths(t *testing.T) {
	if got := crossoverLengths(128, 1024); !slices.Equal(got, []int{128, 176, 256, 368, 512, 720, 1024}) {
		t.Errorf("%v", got)
	}
	if got := crossoverLengths(1, 4); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("%v", got)
	}
}

// curves are measurements of a·L and b·L² with noise.
func curves(a, b, noise float64) CrossoverResult {
	var r CrossoverResult
	z := make([]float64, 2)
	src := rng.Stream(3, 1)
	for _, l := range crossoverLengths(128, 8192) {
		p := CrossoverPoint{Length: l}
		for range 15 {
			rng.Normals(z, src)
			x := float64(l)
			p.linear, p.exact = append(p.linear, a*x*math.Exp(noise*z[0])), append(p.exact, b*x*x*math.Exp(noise*z[1]))
		}
		p.Runs, p.Linear, p.Exact = 15, quartiles(p.linear), quartiles(p.exact)
		r.Points = append(r.Points, p)
	}
	r.find(1)
	return r
}

func TestCrossoverFind(t *testing.T) {
	r := curves(1e-6, 1e-9, 0)
	if r.Length == nil || math.Abs(*r.Length-1000) > 1e-6 || math.Abs(*r.Low-1000) > 1e-6 ||
		math.Abs(*r.High-1000) > 1e-6 {
		t.Errorf("a/b = 1000, found %v", r.Length)
	}
	// With noise the range holds the truth and is as wide as the noise allows: the medians of 15 runs vary by
	// 1.25·0.1/√15 = 3 % each, their ratio by 5 %, and the slope of the ratio is 1.
	r = curves(1e-6, 1e-9, 0.1)
	if r.Length == nil || *r.Low > 1000 || *r.High < 1000 || *r.High-*r.Low < 20 || *r.High-*r.Low > 300 {
		t.Errorf("found %v in %v to %v", *r.Length, *r.Low, *r.High)
	}
	if r = curves(1e-6, 1e-7, 0); !r.Below || r.Length != nil {
		t.Errorf("crossing at 10, below all lengths: %+v", r)
	}
	if !strings.Contains(r.verdict(), "every length measured, from 128") {
		t.Errorf("%s", r.verdict())
	}
	if r = curves(1e-6, 1e-11, 0); !r.Extrapolated || math.Abs(*r.Length-1e5) > 1 {
		t.Errorf("crossing at 100000, beyond all lengths: %+v", r)
	}
}

func TestCrossoverDrawing(t *testing.T) {
	r := curves(1e-6, 1e-9, 0)
	var b bytes.Buffer
	r.draw(&b)
	lines := strings.Split(b.String(), "\n")
	if len(lines) != drawRows+4 { // axis, labels, legend, end
		t.Fatalf("%d lines:\n%s", len(lines), b.String())
	}
	// Exact attention starts below the linear curve and ends above it.
	if bottom := lines[drawRows-1]; !strings.HasPrefix(bottom, "0.0164 ms ┤●") {
		t.Errorf("bottom line %q", bottom)
	}
	if top := lines[0]; !strings.HasSuffix(top, "●") || !strings.HasPrefix(top, "  67.1 ms") ||
		!strings.Contains(top, "┊") {
		t.Errorf("top line %q", top)
	}
	if !strings.Contains(b.String(), "○") || !strings.Contains(lines[drawRows+1], "8192") {
		t.Errorf("\n%s", b.String())
	}
}

func TestCrossoverCommand(t *testing.T) {
	dir := t.TempDir()
	svg := filepath.Join(dir, "c.svg")
	args := []string{"crossover", "--dim", "16", "-m", "16", "--min-len", "16", "--max-len", "512", "--budget", "300ms",
		"--threads", "1"}
	r := objects[CrossoverResult](t, ok(t, append(args, "-o", svg, "--json")...).stdout)[0]
	if r.Threads != 1 || r.Features != 16 || len(r.Points) < 3 || r.Seed != defaultSeed || r.Plot != svg {
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
	pairs := objects[CrossoverResult](t, ok(t, append(args, "--family", "trig", "--json")...).stdout)[0]
	if pairs.Features != 16 {
		t.Errorf("%d trigonometric features for -m 17", pairs.Features)
	}
	o := ok(t, append(args, "--causal")...)
	for _, text := range []string{"causal attention, d = 16", "EXACT/LINEAR", "● exact", "inear attention"} {
		if !strings.Contains(o.stdout, text) {
			t.Errorf("no %q in\n%s", text, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "seed 1") {
		t.Errorf("stderr %q", o.stderr)
	}
}

func TestCrossoverMisuse(t *testing.T) {
	for says, args := range map[string][]string{
		`want a name that ends in .svg`:   {"-o", "x.png"},
		"--dim is 0":                      {"--dim", "0"},
		"--min-len is 512":                {"--min-len", "512", "--max-len", "600"},
		"--threads is -1":                 {"--threads", "-1"},
		"--budget is 0s":                  {"--budget", "0"},
		"--heads × --max-len × --dim is":  {"--max-len", "1000000000"},
		"--features (-m) is 100000000000": {"-m", "100000000000"},
		"--features (-m) is 1: family":    {"-m", "1", "--family", "trig"},
		"--family":                        {"--family", "none"},
		"--coupling":                      {"--coupling", "none"},
		`unknown command "x" for`:         {"x"},
	} {
		fails(t, exitMisuse, says, append([]string{"crossover"}, args...)...)
	}
}

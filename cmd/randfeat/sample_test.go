package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/samples"
	"github.com/randfeat/randfeat/dense"
)

func TestSample(t *testing.T) {
	dir := t.TempDir()
	mc, mq := random(200, 4, 0.5, 1), random(3, 4, 0.5, 2)
	c, q := save(t, dir, "classes.npy", mc), save(t, dir, "queries.npy", mq)
	base := []string{"sample", c, q, "-k", "7", "--family", "positive", "--projections", "64", "--seed", "3"}
	run := func(more ...string) outcome { return ok(t, append(base[:len(base):len(base)], more...)...) }
	o := run()
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if len(lines) != 21 || len(strings.Split(lines[0], "\t")) != 3 || !strings.Contains(o.stderr, "seed 3") {
		t.Errorf("%d lines, the first %q; %q", len(lines), lines[0], o.stderr)
	}
	text := run("--json").stdout
	at := strings.LastIndex(strings.TrimSpace(text), "\n")
	drawn := objects[samples.SampleRow](t, text[:at])
	result := objects[samples.SampleResult](t, text[at+1:])[0]
	if len(drawn) != 3 || len(drawn[2].Classes) != 7 || drawn[2].Query != 2 || result.Classes != 200 || result.K != 7 ||
		result.Counts.Estimates == 0 || result.Counts.Clipped != 0 || result.Memory == 0 {
		t.Errorf("%+v, %+v", drawn, result)
	}
	if want := math.Log(7) + drawn[0].LogProb[0]; drawn[0].LogCount[0] != want {
		t.Errorf("log count %g, want %g", drawn[0].LogCount[0], want)
	}
	ids, logs := filepath.Join(dir, "ids.npy"), filepath.Join(dir, "logs.npy")
	run("-o", ids, "--log-prob", logs)
	for i, d := range drawn {
		for j, id := range d.Classes {
			if load(t, ids).F64.At(i, j) != float64(id) || load(t, logs).F64.At(i, j) != d.LogProb[j] {
				t.Fatalf("query %d: files differ from what is printed", i)
			}
		}
	}
	seen := map[int]bool{}
	text = run("--distinct", "--json").stdout
	for _, id := range objects[samples.SampleRow](t, strings.SplitN(text, "\n", 2)[0])[0].Classes {
		if seen[id] {
			t.Errorf("class %d twice", id)
		}
		seen[id] = true
	}
	if o := run("--exact"); !strings.Contains(o.stderr, "tries") || len(strings.Fields(o.stdout)) != 2*21 {
		t.Errorf("%q, %q", o.stderr, o.stdout)
	}
	signed := ok(t, "sample", c, q, "-k", "20", "--family", "trig", "--projections", "1", "--scale", "0.3", "--block",
		"1")
	if !strings.Contains(signed.stderr, "clipped to zero") {
		t.Errorf("trig: %q", signed.stderr)
	}
}

func TestSampleCompare(t *testing.T) {
	dir := t.TempDir()
	mc, mq := random(60, 4, 1, 1), random(5, 4, 1, 2)
	c, q := save(t, dir, "classes.npy", mc), save(t, dir, "queries.npy", mq)
	counts := dense.New[float64](60, 1)
	for i := range counts.Data {
		counts.Data[i] = float64(i + 1)
	}
	n := save(t, dir, "counts.npy", counts)
	compare := func(more ...string) []samples.SampleDistance {
		args := append([]string{"sample", c, q, "--compare", "--counts", n, "--family", "positive", "--projections",
			"512", "--json"}, more...)
		return objects[samples.SampleDistance](t, ok(t, args...).stdout)
	}
	rows := compare()
	if len(rows) != 3 || rows[1].Method != "uniform" || rows[2].Method != "unigram^¾" || rows[0].Features != 512 {
		t.Fatalf("%+v", rows)
	}
	if *rows[0].KL >= *rows[1].KL || *rows[0].KL >= *rows[2].KL || rows[0].Effective <= rows[1].Effective {
		t.Errorf("512 features are not nearer to the softmax than uniform draws: %+v", rows)
	}
	// A high temperature and rows of norm 1 make the softmax flat, so that uniform draws are near.
	flat := compare("--temperature", "50", "--normalize")
	if *flat[1].KL > 1e-3 || *rows[1].KL < 10**flat[1].KL {
		t.Errorf("KL of uniform draws is %g at temperature 50, %g at 1", *flat[1].KL, *rows[1].KL)
	}
	text := ok(t, "sample", c, q, "--compare", "--family", "trig", "--projections", "2").stdout
	if !strings.Contains(text, "infinite") || strings.Contains(text, "unigram") {
		t.Errorf("trig: %s", text)
	}
	demo := objects[samples.SampleDistance](t, ok(t, "sample", "--demo", "--json").stdout)
	if len(demo) != 12 || *demo[2].KL > 0.2 {
		t.Errorf("demo: %+v", demo)
	}
}

func TestSampleMisuse(t *testing.T) {
	dir := t.TempDir()
	c := save(t, dir, "classes.npy", random(5, 3, 1, 1))
	other := save(t, dir, "other.npy", random(5, 2, 1, 1))
	few := save(t, dir, "few.npy", random(1, 3, 1, 1))
	fails(t, exitMisuse, "two npy files", "sample")
	fails(t, exitMisuse, "--family is missing", "sample", c, c)
	fails(t, exitMisuse, "--draws is 0", "sample", c, c, "-k", "0", "--family", "positive")
	fails(t, exitMisuse, "--temperature is -1", "sample", c, c, "--temperature", "-1", "--family", "positive")
	fails(t, exitMisuse, "--within", "sample", c, c, "--within", "x", "--family", "positive")
	fails(t, exitMisuse, "exclude each other", "sample", c, c, "--exact", "--distinct", "--family", "positive")
	fails(t, exitMisuse, "needs --compare", "sample", c, c, "--counts", few, "--family", "positive")
	fails(t, exitMisuse, "--temperature", "sample", c, c, "--temperature", "2", "--scale", "3", "--family", "positive")
	fails(t, exitFailed, "has 3 columns", "sample", c, other, "--family", "positive")
	fails(t, exitFailed, "6 distinct draws of 5 classes", "sample", c, c, "-k", "6", "--distinct", "--family",
		"positive")
	fails(t, exitFailed, "want one count for each of 5 classes", "sample", c, c, "--compare", "--counts", few,
		"--family", "positive")
	fails(t, exitFailed, "positive everywhere", "sample", c, c, "--exact", "--family", "trig")
}

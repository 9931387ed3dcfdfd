//go:build unix

package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/samples"
	"github.com/randfeat/randfeat/internal/kern"
)

// commandRun is some command lines that are run with several kernels.
type commandRun struct {
	name string
	// MODEL and OUT in lines stand for files of each table's own; numbers reads the results.
	lines   []string
	numbers func(t *testing.T, stdout, out string) []float64
}

// Every command ends on every table of kernels that the machine has, plain Go included. Results differ by rounding
// only: by 2e-6 at most with AVX-512, AVX2 and plain Go, relative to the largest of a run.
func TestCommandsWithEveryKernel(t *testing.T) {
	const tolerance = 1e-4
	dir := t.TempDir()
	writeTables(t, dir, 220) // enough rows for margins and a learned metric
	for i, name := range []string{"q", "k", "v"} {
		saveTensor[float32](t, dir, name+".npy", uint64(20+i), 1.2, 2, 192, 16)
	}
	save(t, dir, "rows.npy", random(60, 5, 0.4, 3))
	save(t, dir, "classes.npy", random(200, 4, 0.5, 1))
	save(t, dir, "queries.npy", random(20, 4, 0.5, 2))

	fit := func(table, settings, predict string) commandRun {
		return commandRun{name: "fit " + table + " " + settings, numbers: tableNumbers,
			lines: []string{"fit " + table + ".csv --target t --folds 2 -o MODEL " + settings,
				"predict MODEL " + table + ".csv " + predict}}
	}
	attend := func(settings string) commandRun {
		return commandRun{name: "attend " + settings, numbers: array,
			lines: []string{"attend q.npy k.npy v.npy -o OUT " + settings}}
	}
	for _, r := range []commandRun{
		fit("numbers", "", "--interval 0.9"),
		fit("numbers", "--features 64 --bandwidth 2 --lambda 1e-3", ""),
		fit("two", "", "--probabilities"),
		fit("two", "--model logistic --features 64 --quick", "--probabilities"),
		fit("five", "", "--probabilities"),
		attend("--method exact"),
		attend("--tol 0.1"),
		attend("--method centroid --clusters 16 --keys 32"),
		attend("--causal --family oprf --fit --features 64"),
		{"advise", []string{"advise rows.npy --features 16 --json " + strings.Join(cheap, " ")}, ranking},
		{"sample", []string{"sample classes.npy queries.npy -k 7 --family positive --projections 64 --json"}, draws},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			var want []float64
			for i, tab := range kern.Available[float32]() {
				got := r.with(t, dir, tab.Name)
				if i == 0 {
					want = got
				}
				if len(got) != len(want) || len(got) == 0 {
					t.Fatalf("%s: %d results, want %d", tab.Name, len(got), len(want))
				}
				var size, worst float64
				for i, v := range want {
					size, worst = max(size, math.Abs(v)), max(worst, math.Abs(v-got[i]))
				}
				if !(worst <= tolerance*size) {
					t.Errorf("%s: results differ by %.2g of %.2g", tab.Name, worst, size)
				}
			}
		})
	}
}

// with returns the results with the named kernels.
func (r commandRun) with(t *testing.T, dir, kernels string) []float64 {
	t.Helper()
	own := t.TempDir()
	out := filepath.Join(own, "out.npy")
	var stdout bytes.Buffer
	for _, line := range r.lines {
		args := strings.Fields(line)
		for i, a := range args {
			switch {
			case a == "MODEL":
				args[i] = filepath.Join(own, "model.rf")
			case a == "OUT":
				args[i] = out
			}
		}
		cmd, stderr := commandProcess(t, args...)
		stdout.Reset()
		cmd.Dir, cmd.Stdout = dir, &stdout
		cmd.Env = append(cmd.Env, "RANDFEAT_KERNEL="+kernels)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: randfeat %s: %v\n%s", kernels, line, err, stderr)
		}
	}
	return r.numbers(t, stdout.String(), out)
}

// tableNumbers are the numbers of a CSV table. A text counts as its first byte / 256, so that another class is a
// difference.
func tableNumbers(t *testing.T, stdout, _ string) []float64 {
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%d lines: %v", len(rows), err)
	}
	var list []float64
	for _, row := range rows[1:] {
		for _, cell := range row {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				v = float64(cell[0]) / 256
			}
			list = append(list, v)
		}
	}
	return list
}

func array(t *testing.T, _, out string) []float64 {
	var list []float64
	for _, v := range loadTensor(t, out).F32 {
		list = append(list, float64(v))
	}
	return list
}

// ranking are the errors of all candidates, in the order of their names.
func ranking(t *testing.T, stdout, _ string) []float64 {
	r := objects[advise.Report](t, stdout)[0].Ranking
	slices.SortFunc(r, func(a, b advise.Candidate) int { return strings.Compare(a.Name, b.Name) })
	var list []float64
	for _, c := range r {
		list = append(list, c.Error)
	}
	return list
}

func draws(t *testing.T, stdout, _ string) []float64 {
	var list []float64
	lines := strings.SplitAfter(strings.TrimSpace(stdout), "\n")
	for _, d := range objects[samples.SampleRow](t, strings.Join(lines[:len(lines)-1], "")) {
		for i, c := range d.Classes {
			list = append(list, float64(c), d.LogProb[i])
		}
	}
	return list
}

package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The README and the pages of docs show runs of the three demos. Each runs once here and is held against both: a
// page shows all lines of a run, the README some of them, in their order, with … in place of others.
func TestShownRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("whole runs of the demos")
	}
	for _, c := range []struct {
		args   []string
		page   string // shows the whole run; "" if none does
		readme string // the command as the README writes it
	}{
		{[]string{"fit", "--demo", "-o", "model.rf"}, "docs/machines.md",
			"randfeat fit --demo -o model.rf --save-data demo.csv"},
		{[]string{"attend", "--demo"}, "", "randfeat attend --demo --svg attend.svg"},
		{[]string{"advise", "--demo"}, "docs/advise.md", "randfeat advise --demo"},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			args := slices.Clone(c.args)
			model := filepath.Join(t.TempDir(), "model.rf")
			if i := slices.Index(args, "model.rf"); i >= 0 {
				args[i] = model
			}
			got := strings.Split(strings.ReplaceAll(strings.TrimSpace(ok(t, args...).stdout), model, "model.rf"), "\n")
			if c.page != "" {
				want := shownRun(t, c.page, "randfeat "+strings.Join(c.args, " "))
				if slices.Contains(want, "…") {
					t.Errorf("%s shows a shortened run", c.page)
				}
				if at := firstUnlike(want, got); at >= 0 || len(want) != len(got) {
					t.Errorf("%s shows %d lines and differs from line %d on; the command prints\n%s", c.page, len(want), at+1,
						strings.Join(got, "\n"))
				}
			}
			want := shownRun(t, "README.md", c.readme)
			if at := firstUnlike(want, got); at >= 0 {
				t.Errorf("README.md shows %q, which is not in this place of the run:\n%s", want[at], strings.Join(got, "\n"))
			}
		})
	}
}

// shownRun returns the lines that a page shows as the output of a command: the block that follows the command's own.
func shownRun(t *testing.T, page, command string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(strings.ReplaceAll(string(b), "\r\n", "\n"), "```sh\n"+command+"\n```\n\n```\n")
	if !found {
		t.Fatalf("%s does not show a run of %q", page, command)
	}
	block, _, _ := strings.Cut(after, "\n```\n")
	return strings.Split(block, "\n")
}

// firstUnlike returns the first of the wanted lines that the lines of a run do not have after those before it, or
// -1.
func firstUnlike(want, got []string) int {
	for i, w := range want {
		if w == "…" {
			continue
		}
		at := slices.IndexFunc(got, func(g string) bool {
			return sameWords(g, w) || strings.HasPrefix(g, "Time ") && strings.HasPrefix(w, "Time ")
		})
		if at < 0 {
			return i
		}
		got = got[at+1:]
	}
	return -1
}

// sameWords compares lines whose numbers may differ by rounding, which differs between CPUs and is printed with four
// digits.
func sameWords(a, b string) bool {
	return slices.EqualFunc(strings.Fields(a), strings.Fields(b), func(x, y string) bool {
		u, errU := strconv.ParseFloat(x, 64)
		v, errV := strconv.ParseFloat(y, 64)
		return x == y || errU == nil && errV == nil && math.Abs(u-v) <= 2e-3*math.Abs(v)
	})
}

// The README is a front door: short, and with one test command, which CI runs as it is printed.
func TestReadmeIsShort(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > 140 {
		t.Errorf("README.md has %d lines, want at most 140: the rest belongs in docs", len(lines))
	}
	tests := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "go test ") {
			tests++
		}
	}
	if tests != 1 {
		t.Errorf("README.md has %d lines that begin with go test, want 1", tests)
	}
}

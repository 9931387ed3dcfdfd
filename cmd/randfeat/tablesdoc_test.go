package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTablesDoc runs the commands of docs/tables.md on the table that its program writes. Every line that the document
// shows must be a line of the output; numbers may differ by a thousandth.
func TestTablesDoc(t *testing.T) {
	if testing.Short() {
		t.Skip("fits several models")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the table is written by a Python program")
	}
	text := readAll(t, filepath.Join("..", "..", "docs", "tables.md"))
	t.Chdir(t.TempDir())
	program, _, _ := strings.Cut(text[strings.Index(text, "```python\n")+len("```python\n"):], "```")
	if err := os.WriteFile("greenhouse.py", []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "greenhouse.py").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, commands := "", 0
	for i, block := range strings.Split(text, "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "\n$") {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
			if command, found := strings.CutPrefix(line, "$ randfeat "); found {
				if strings.HasPrefix(command, "compare") {
					ok(t, "fit", "train.csv", "--target", "yield", "--skip", "height", "--skip", "day",
						"--skip", "light",
						"-o", "nolight.rf")
				}
				out = ok(t, strings.Fields(command)...).stdout
				commands++
			} else if line != "" && !hasLine(out, line) {
				t.Errorf("docs/tables.md shows\n%s\nwhich is not in\n%s", line, out)
			}
		}
	}
	if commands < 9 {
		t.Errorf("%d commands", commands)
	}
}

// hasLine reports whether a line is in a text, but for spaces and roundings.
func hasLine(text, line string) bool {
	want := tokens(line)
	for _, l := range strings.Split(text, "\n") {
		got := tokens(l)
		if len(got) != len(want) {
			continue
		}
		same := true
		for i := range got {
			a, errA := strconv.ParseFloat(got[i], 64)
			b, errB := strconv.ParseFloat(want[i], 64)
			if errA == nil && errB == nil {
				same = same && math.Abs(a-b) <= 1e-3*math.Abs(b)
			} else {
				same = same && got[i] == want[i]
			}
		}
		if same {
			return true
		}
	}
	return false
}

func tokens(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ,;():", r) })
}

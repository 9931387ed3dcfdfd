package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/internal/rng"
)

// writeTables writes numbers.csv, two.csv and five.csv: rows x,y,z with a number t, and with 2 and 5 classes of it.
func writeTables(t *testing.T, dir string, rows int) {
	t.Helper()
	texts := map[string]string{"numbers": "x,y,z,t\n", "two": "x,y,z,t\n", "five": "x,y,z,t\n"}
	x := make([]float64, 4*rows)
	rng.Normals(x, rng.Stream(11, 1))
	for v := range slices.Chunk(x, 4) {
		row := fmt.Sprintf("%.3f,%.3f,%.3f,", v[0], v[1], v[2])
		sum := v[0]*v[1] + v[2] + 0.1*v[3]
		texts["numbers"] += fmt.Sprintf("%s%.4f\n", row, sum)
		texts["two"] += fmt.Sprintf("%s%t\n", row, sum > 0)
		texts["five"] += fmt.Sprintf("%s%c\n", row, "abcde"[int(min(4, max(0, math.Floor(2.5+1.5*sum))))])
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name+".csv"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// With one table of kernels a fit makes the same choices, scores and bytes at any number of threads.
func TestFitAtAnyThreads(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000") // the same date, the same bytes
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	dir := t.TempDir()
	writeTables(t, dir, 220)
	out := filepath.Join(dir, "model.rf")
	for _, table := range []string{"numbers", "two", "five"} {
		if testing.Short() && table != "five" {
			continue
		}
		var model []byte
		var scores string
		for _, threads := range []int{1, 3, 16} {
			runtime.GOMAXPROCS(threads)
			o := ok(t, "fit", filepath.Join(dir, table+".csv"), "--target", "t", "--folds", "2", "-o", out, "--json")
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			s := fmt.Sprint(objects[tables.FitReport](t, o.stdout)[0].Scores)
			if threads == 1 {
				model, scores = b, s
			}
			if s != scores {
				t.Errorf("%s: scores %s with %d threads, %s with one", table, s, threads, scores)
			}
			if !bytes.Equal(b, model) {
				t.Errorf("%s: other bytes with %d threads", table, threads)
			}
		}
	}
}

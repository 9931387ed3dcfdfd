package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	pq "github.com/parquet-go/parquet-go"
)

// fixedFlags are flags of a fit that tries nothing.
var fixedFlags = []string{"--features", "64", "--bandwidth", "2", "--lambda", "0.1",
	"--family", "trig", "--coupling", "iid"}

// fitTo fits a model to a table and returns its path.
func fitTo(t *testing.T, table string, args ...string) string {
	t.Helper()
	model := filepath.Join(t.TempDir(), "model.rf")
	ok(t, append(append([]string{"fit", table, "-o", model}, fixedFlags...), args...)...)
	return model
}

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// A column that cannot be read is no obstacle once it is left out.
func TestSkipRescuesParquet(t *testing.T) {
	type row struct {
		X    float64  `parquet:"x"`
		Y    float64  `parquet:"y"`
		UUID [16]byte `parquet:"uuid,uuid"`
		List []int32  `parquet:"list"`
	}
	var rows []row
	for i := range 60 {
		rows = append(rows, row{X: float64(i), Y: math.Sin(float64(i) / 9)})
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := pq.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "m.rf")
	fails(t, 1, `column "uuid" is of fixed-length bytes`, "fit", path, "--target", "y", "-o", out)
	model := fitTo(t, path, "--target", "y", "--skip", "uuid", "--skip", "list")
	ok(t, "evaluate", model, path)
}

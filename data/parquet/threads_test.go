package parquet

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/par"
)

// Rows, and of damaged files the error, are the same at any number of threads; columns of numbers are read by several.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	path := filepath.Join(t.TempDir(), "t.parquet")
	names := []string{"a", "b", "c", "d", "e", "f"}
	kinds := []data.Kind{data.Number, data.Text, data.Number, data.Number, data.Number, data.Number}
	w, err := Create(path, names, kinds)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	var b data.Block
	for at := 0; at < 6000; at += 1500 {
		b.Reset(int64(at), kinds)
		for i := range 1500 {
			for j, k := range kinds {
				switch v := r.NormFloat64(); {
				case k == data.Text:
					b.AppendText(j, fmt.Appendf(nil, "t%d", r.IntN(50)))
				case j == 3 && i%7 == 0:
					b.Cols[j].Num = append(b.Cols[j].Num, math.NaN())
				case j == 4:
					b.Cols[j].Num = append(b.Cols[j].Num, float64(r.IntN(5)))
				default:
					b.Cols[j].Num = append(b.Cols[j].Num, v)
				}
			}
		}
		b.Rows = 1500
		if err := w.WriteBlock(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(threads int) string {
		var out strings.Builder
		runtime.GOMAXPROCS(threads)
		most := 0
		observe := func(_, workers int) { most = max(most, workers) }
		par.Observe.Store(&observe)
		defer par.Observe.Store(nil)
		src, err := Open(path, data.Options{})
		if err != nil {
			return err.Error()
		}
		rd, err := src.Open(kinds)
		if err != nil {
			return err.Error()
		}
		defer rd.Close()
		for {
			err := rd.Read(&b, 5000)
			if err == io.EOF {
				break
			}
			if err != nil {
				return out.String() + err.Error()
			}
			for j, k := range kinds {
				fmt.Fprintf(&out, "%d %q", b.Rows, b.Cols[j].Text)
				for i := 0; k == data.Number && i < b.Rows; i++ {
					fmt.Fprintf(&out, " %x", math.Float64bits(b.Cols[j].Num[i]))
				}
			}
		}
		if want := min(threads, 4); most < want {
			t.Errorf("%d threads: %d workers, want %d", threads, most, want)
		}
		return out.String()
	}
	for k := range 12 {
		if k > 0 {
			damaged := append([]byte(nil), whole...)
			for range 3 {
				damaged[r.IntN(len(damaged)*3/4)] ^= byte(1 + r.IntN(255))
			}
			if err := os.WriteFile(path, damaged, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		one := read(1)
		for range 3 {
			if four := read(4); four != one {
				t.Fatalf("file %d: four threads and one differ:\n%.300s\n%.300s", k, four, one)
			}
		}
	}
}

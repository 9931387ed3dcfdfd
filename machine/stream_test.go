package machine

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// repeated is a table of text that has the same lines again and again: as long as one likes, without a disk.
type repeated struct {
	header, lines []byte
	times         int
}

func (t repeated) Name() string      { return "repeated.csv" }
func (t repeated) Columns() []string { return strings.Split(strings.TrimSpace(string(t.header)), ",") }

func (t repeated) Open(want []data.Kind) (data.Reader, error) {
	parts := []io.Reader{bytes.NewReader(t.header)}
	for range t.times {
		parts = append(parts, bytes.NewReader(t.lines))
	}
	src, err := text.OpenReader(t.Name(), io.MultiReader(parts...), data.Options{Format: data.CSV})
	if err != nil {
		return nil, err
	}
	return src.Open(want)
}

// watched looks at the heap after every block.
type watched struct {
	Rows
	peak uint64
}

func (w *watched) Each(block int, f func(x, y dense.Matrix[float64]) error) error {
	return w.Rows.Each(block, func(x, y dense.Matrix[float64]) error {
		err := f(x, y)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.peak = max(w.peak, m.HeapAlloc)
		return err
	})
}

// A fit takes the same memory for a table of 1 MB and one of 50 MB.
func TestMemoryDoesNotGrowWithRows(t *testing.T) {
	if testing.Short() {
		t.Skip("30 MB of text")
	}
	const d, block, repeats = 20, 512, 30
	var table repeated
	var head, lines bytes.Buffer
	for j := range d {
		fmt.Fprintf(&head, "c%d,", j)
	}
	head.WriteString("y\n")
	r := rand.New(rand.NewPCG(1, 1))
	for lines.Len() < 1<<20 {
		sum := 0.0
		for range d {
			v := r.NormFloat64()
			sum += v
			fmt.Fprintf(&lines, "%.5g,", v)
		}
		fmt.Fprintf(&lines, "%.5g\n", math.Sin(sum))
	}
	table.header, table.lines = head.Bytes(), lines.Bytes()

	fit := func(times int) (peak uint64, rows int64) {
		table.times = times
		schema, _, err := data.Learn(table, data.LearnOptions{Targets: []string{"y"}})
		if err != nil {
			t.Fatal(err)
		}
		all, err := TableRows(table, schema, true)
		if err != nil {
			t.Fatal(err)
		}
		ridge, err := NewRidge(Setup{Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 5}, Family: family.Trig{},
			Coupling: coupling.Orthogonal{}, Dim: d, M: 32}, Outputs: 1, Block: block})
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		w := &watched{Rows: all}
		if err := ridge.AddRows(w); err != nil {
			t.Fatal(err)
		}
		return w.peak, ridge.Len()
	}
	fit(1)
	short, few := fit(1)
	long, many := fit(repeats)
	if many != repeats*few {
		t.Fatalf("%d rows, want %d times %d", many, repeats, few)
	}
	// Garbage between collections is the heap once more at most, and at least the 4 MiB where the collector begins.
	if limit := 2*short + 8<<20; long > limit {
		t.Errorf("heap of %d bytes for %d rows, %d for %d", long, many, short, few)
	}
}

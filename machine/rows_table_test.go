package machine

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
)

// tableText is a table with an id, a number with gaps, a category, and targets for regression (y, z) and
// classification.
func tableText(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 5))
	var b strings.Builder
	b.WriteString("id,size,colour,y,z,class\n")
	for i := range n {
		v := r.NormFloat64()
		size := fmt.Sprintf("%.4f", v)
		if r.IntN(10) == 0 {
			size = ""
		}
		colour := []string{"red", "green", "blue"}[r.IntN(3)]
		class := "low"
		if v > 0.3 {
			class = "high"
		}
		fmt.Fprintf(&b, "r%d,%s,%s,%.3f,%.3f,%s\n", i, size, colour, 2*v+float64(len(colour))+0.1*r.NormFloat64(), v*v,
			class)
	}
	return b.String()
}

func openText(t testing.TB, content string) data.Source {
	t.Helper()
	src, err := text.OpenBytes("table.csv", []byte(content), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func learn(t testing.TB, src data.Source, o data.LearnOptions) *data.Schema {
	t.Helper()
	s, _, err := data.Learn(src, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// encodedTable is a whole table in memory.
func encodedTable(t testing.TB, src data.Source, s *data.Schema, targets bool) (x, y dense.Matrix[float64]) {
	t.Helper()
	columns := src.Columns()
	enc, err := s.Encoder(columns, targets)
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.Open(enc.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	if err := r.Read(&b, 1<<20); err != nil {
		t.Fatal(err)
	}
	x, y = dense.New[float64](b.Rows, s.Width()), dense.New[float64](b.Rows, len(s.Targets))
	if err := enc.Encode(x, y, &b, r.Where); err != nil {
		t.Fatal(err)
	}
	return x, y
}

// stingy gives fewer rows than it is asked for, and counts open readers.
type stingy struct {
	data.Source
	open *int
}

func (s stingy) Open(want []data.Kind) (data.Reader, error) {
	r, err := s.Source.Open(want)
	if err == nil {
		*s.open++
	}
	return &stingyReader{Reader: r, open: s.open}, err
}

type stingyReader struct {
	data.Reader
	open  *int
	calls int
}

func (r *stingyReader) Read(b *data.Block, most int) error {
	r.calls++
	return r.Reader.Read(b, min(most, 1+r.calls%7))
}

func (r *stingyReader) Close() error {
	*r.open--
	return r.Reader.Close()
}

// Rows of a table are those of a matrix, in blocks of the same sizes, whatever the reader gives at a time.
func TestTableRows(t *testing.T) {
	src := openText(t, tableText(1, 1000))
	s := learn(t, src, data.LearnOptions{Targets: []string{"y"}, IDs: []string{"id"}, Skip: []string{"z", "class"}})
	x, y := encodedTable(t, src, s, true)
	want, err := MatrixRows(x, y)
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for name, src := range map[string]data.Source{"plain": src, "stingy": stingy{src, &open}} {
		rows, err := TableRows(src, s, true)
		if err != nil {
			t.Fatal(err)
		}
		if rows.Dim() != s.Width() || rows.Outputs() != 1 {
			t.Errorf("%d columns and %d outputs", rows.Dim(), rows.Outputs())
		}
		for _, block := range []int{1, 7, 64, 250, 999, 1000, 1 << 40} {
			type pair struct{ x, y dense.Matrix[float64] }
			var blocks []pair
			if err := want.Each(block, func(x, y dense.Matrix[float64]) error {
				blocks = append(blocks, pair{x, y})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			i := 0
			if err := rows.Each(block, func(x, y dense.Matrix[float64]) error {
				if !slices.Equal(x.Clone().Data, blocks[i].x.Clone().Data) || !slices.Equal(y.Clone().Data,
					blocks[i].y.Clone().Data) {
					t.Errorf("%s: block %d of %d rows differs", name, i, block)
				}
				i++
				return nil
			}); err != nil || i != len(blocks) {
				t.Errorf("%s: %d of %d blocks: %v", name, i, len(blocks), err)
			}
		}
		if err := rows.Each(0, func(x, y dense.Matrix[float64]) error { return nil }); !errors.Is(err, dense.ErrShape) {
			t.Errorf("blocks of no rows: %v", err)
		}
	}
	without, err := TableRows(src, s, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := without.Each(100, func(x, y dense.Matrix[float64]) error {
		if y.Cols != 0 || y.Rows != x.Rows || without.Outputs() != 0 {
			t.Error("targets that were not asked for")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// Fits of the table and of the matrix have the same bits.
	fit := func(rows Rows) *Model {
		r, err := NewRidge(Setup{Spec: trigSpec(s.Width(), 16), Outputs: 1, Block: 96})
		if err == nil {
			err = r.AddRows(rows)
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Model(0.1)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	table, err := TableRows(stingy{src, &open}, s, true)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fit(table).Weights.Data, fit(want).Weights.Data) {
		t.Error("other bits from a table than from a matrix")
	}
	if open != 0 {
		t.Errorf("%d readers left open", open)
	}
}

func TestTableRowsErrors(t *testing.T) {
	content := tableText(1, 1000)
	src := openText(t, content)
	s := learn(t, src, data.LearnOptions{Targets: []string{"class"}, IDs: []string{"id"}, Skip: []string{"y", "z"}})
	goroutines := runtime.NumGoroutine()
	open := 0
	for _, c := range []struct {
		says  string
		table string
	}{
		{"table.csv:502:33: the row has 7 fields", strings.Replace(content, "\nr500,", "\nr500,tall,", 1)},
		{"table.csv:502: target \"class\" is \"medium\"", strings.Replace(content, "\nr500,",
			"\nx,1,red,1,1,medium\nr500,", 1)},
		{"table.csv:502: target \"class\" is missing", strings.Replace(content, "\nr500,", "\nx,1,red,1,1,\nr500,", 1)},
		{"table.csv:502:4: the row has 2 fields", strings.Replace(content, "\nr500,", "\nx,1\nr500,", 1)},
		{"columns missing: \"size\"; unknown: \"sise\"", strings.Replace(content, "size", "sise", 1)},
	} {
		rows, err := TableRows(stingy{openText(t, c.table), &open}, s, true)
		seen := 0
		if err == nil {
			err = rows.Each(100, func(x, y dense.Matrix[float64]) error {
				seen += x.Rows
				return nil
			})
			if seen != 500 {
				t.Errorf("%d rows before the error, want the blocks before it: 500", seen)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want %s: %v", c.says, err)
		}
	}
	rows, err := TableRows(stingy{src, &open}, s, true)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	for _, after := range []int{1, 2, 5} {
		n := 0
		if err := rows.Each(10, func(x, y dense.Matrix[float64]) error {
			if n++; n == after {
				return stop
			}
			return nil
		}); err != stop || n != after {
			t.Errorf("stopped after %d blocks with %v, want %d", n, err, after)
		}
	}
	func() {
		defer func() { recover() }()
		_ = rows.Each(10, func(x, y dense.Matrix[float64]) error { panic("f") })
	}()
	if open != 0 {
		t.Errorf("%d readers left open", open)
	}
	for i := 0; runtime.NumGoroutine() > goroutines; i++ {
		if i == 1000 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := TableRows(src, &data.Schema{Fields: s.Fields, Ignored: []string{"id", "y", "z", "class"}},
		true); !errors.Is(err, ErrSetup) {
		t.Errorf("targets of a schema without: %v", err)
	}
	if _, err := TableRows(src, &data.Schema{}, false); !errors.Is(err, data.ErrSchema) {
		t.Errorf("an empty schema: %v", err)
	}
}

// A stream that can be read once, and a file that is gone.
func TestTableRowsSources(t *testing.T) {
	content := tableText(1, 50)
	s := learn(t, openText(t, content), data.LearnOptions{Targets: []string{"y"}})
	src, err := text.OpenReader("pipe", io.MultiReader(strings.NewReader(content)), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := TableRows(src, s, true)
	if err != nil {
		t.Fatal(err)
	}
	none := func(x, y dense.Matrix[float64]) error { return nil }
	if err := rows.Each(10, none); err != nil {
		t.Error(err)
	}
	if err := rows.Each(10, none); err == nil || !strings.Contains(err.Error(), "only once") {
		t.Errorf("a stream read twice: %v", err)
	}
	path := filepath.Join(t.TempDir(), "table.csv")
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	if src, err = text.Open(path, data.Options{}); err != nil {
		t.Fatal(err)
	}
	if rows, err = TableRows(src, s, true); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := rows.Each(10, none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
}

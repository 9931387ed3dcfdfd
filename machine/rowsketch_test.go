package machine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
)

// A sketch is that of the set of its rows, in any order, by any number of parts, each any number of times. What it
// knows is right, and of a large table it knows about as many rows as it keeps.
func TestRowSketch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	for _, n := range []int{0, 1, sketchRows - 1, sketchRows, sketchRows + 1, 20000} {
		rows := make([]uint64, n)
		for i := range rows {
			rows[i] = r.Uint64()
		}
		var whole, a, b RowSketch
		for i, h := range rows {
			whole.Add(h)
			if i%3 == 0 {
				a.Add(h)
			} else {
				b.Add(h)
			}
		}
		sorted := slices.Clone(rows)
		slices.Sort(sorted)
		if want := sorted[:min(n, sketchRows)]; !slices.Equal(whole.hashes, want) {
			t.Errorf("%d rows: %d hashes that are not the smallest", n, len(whole.hashes))
		}
		b.Merge(&a)
		if b.rows != whole.rows || !slices.Equal(b.hashes, whole.hashes) {
			t.Errorf("%d rows: merged %d rows, %d hashes", n, b.rows, len(b.hashes))
		}
		b.Merge(&a)
		if !slices.Equal(b.hashes, whole.hashes) {
			t.Errorf("%d rows: a part counts twice", n)
		}
		known := 0
		for _, h := range rows {
			seen, ok := whole.Seen(h)
			if ok != seen {
				t.Fatalf("%d rows: row %x is known: %v, seen: %v", n, h, ok, seen)
			}
			if ok {
				known++
			}
			if seen, _ := whole.Seen(h + 1); seen {
				t.Fatalf("%d rows: a row that was not added is seen", n)
			}
		}
		if known != min(n, sketchRows) {
			t.Errorf("%d rows: %d are known", n, known)
		}
		text, err := whole.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back RowSketch
		if err := back.UnmarshalText(text); err != nil || back.rows != whole.rows ||
			!slices.Equal(back.hashes, whole.hashes) {
			t.Errorf("%d rows: read back: %v", n, err)
		}
	}
	for _, text := range []string{"", "AAAA", "AAAAAAAAAAAB", "!", "AAAAAAAAAAABAAAAAAAAAAEAAAAAAAAA",
		strings.Repeat("A", 20000)} {
		if err := new(RowSketch).UnmarshalText([]byte(text)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// rowsCSV is a table whose columns come in a given order; id is not read.
func rowsCSV(t *testing.T, columns []string, from, to int) data.Source {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(strings.Join(columns, ",") + "\n")
	for i := from; i < to; i++ {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		level, a := []string{"red", "green", ""}[r.IntN(3)], r.NormFloat64()
		cells := map[string]string{"id": fmt.Sprint("k", i, columns[0]), "a": fmt.Sprintf("%.5f", a), "c": level,
			"y": fmt.Sprintf("%.9f", a+r.NormFloat64())}
		if i%7 == 0 {
			cells["a"] = ""
		}
		for j, c := range columns {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(cells[c])
		}
		b.WriteByte('\n')
	}
	src, err := text.OpenBytes("rows.csv", b.Bytes(), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// Rows of the fit are recognised in a table with its columns in another order, and others are not: exactly in a small
// table, by a sample of a large one.
func TestSeenRows(t *testing.T) {
	columns, turned := []string{"id", "a", "c", "y"}, []string{"y", "id", "c", "a"}
	for _, n := range []int{400, 9000} {
		src := rowsCSV(t, columns, 0, n)
		schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, IDs: []string{"id"}})
		if err != nil {
			t.Fatal(err)
		}
		all := func(int64) error { return nil }
		sketch, err := SketchTable(src, schema, all)
		if err != nil || sketch.Len() != int64(n) {
			t.Fatalf("%d rows of %d: %v", sketch.Len(), n, err)
		}
		// In two parts, of columns in another order.
		parts := new(RowSketch)
		for _, at := range [][2]int{{n / 3, n}, {0, n / 3}} {
			s, err := SketchTable(rowsCSV(t, turned, at[0], at[1]), schema, all)
			if err != nil {
				t.Fatal(err)
			}
			parts.Merge(s)
		}
		if parts.rows != sketch.rows || !slices.Equal(parts.hashes, sketch.hashes) {
			t.Errorf("%d rows: parts in another order of columns give another sketch", n)
		}
		m := &Model{Schema: schema, Sketch: sketch}
		share := func(from, to int) SeenRows {
			rows, err := TableRows(rowsCSV(t, turned, from, to), schema, true)
			if err != nil {
				t.Fatal(err)
			}
			var s SeenRows
			m.CountSeen(rows, &s)
			read := 0
			if err := rows.Each(333, func(x, _ dense.Matrix[float64]) error {
				read += x.Rows
				return nil
			}); err != nil || read != to-from {
				t.Fatal(read, err)
			}
			return s
		}
		if s := share(0, n); s.Share() != 1 || s.Compared != min(int64(n), sketchRows) {
			t.Errorf("%d rows of the fit: %+v", n, s)
		}
		if s := share(n, 2*n); s.Seen != 0 || s.Compared == 0 {
			t.Errorf("%d new rows: %+v", n, s)
		}
		if s := share(n/2, n+n/2); math.Abs(s.Share()-0.5) > 4*math.Sqrt(0.25/float64(s.Compared)) {
			t.Errorf("%d rows, half of them new: %+v", n, s)
		}
		stop := errors.New("stop")
		if _, err := SketchTable(src, schema, func(int64) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("not stopped: %v", err)
		}
	}
}

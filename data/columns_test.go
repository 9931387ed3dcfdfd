package data_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// mixedTable is one table in memory, in parts of the given rows, and as text.
func mixedTable(t *testing.T, parts ...int) (*data.Columns, data.Source) {
	const n = 3000
	var content strings.Builder
	content.WriteString("a,b,c,d,flag,city,note,day,at,ns,key,y\n")
	matrix := dense.New[float64](n, 2)
	f32, i8, i64 := make([]float32, n), make([]int8, n), make([]int64, n)
	flags, codes, notes := make([]bool, n), make([]uint16, n), make([]string, n)
	bits, valid, lost := make([]byte, n/8+2), make([]byte, n/8+2), make([]bool, n)
	days, secs, nanos, y := make([]int32, n), make([]int64, n), make([]int64, n), make([]float64, n)
	levels := []string{"Oslo", "Köln", "", "New York", "NA"}
	for i := range n {
		a, b := float64(i%97)/8-3, math.Sin(float64(i))
		matrix.Set(i, 0, a)
		matrix.Set(i, 1, b)
		if i%50 == 7 {
			matrix.Set(i, 1, math.NaN())
		}
		f32[i], i8[i], i64[i] = float32(i%31)/4, int8(i%7-3), int64(i%301)*1000-5
		flags[i] = i%3 == 0
		if flags[i] {
			bits[(i+3)/8] |= 1 << ((i + 3) % 8)
		}
		if i%13 != 0 {
			valid[(i+3)/8] |= 1 << ((i + 3) % 8)
		}
		lost[i] = i%11 == 5
		codes[i] = uint16(i * i % 7) // 5 and 6 are none of the levels; the empty one and NA are missing
		if notes[i] = fmt.Sprintf("word%d and \"%d\", more", i%900, i%1100); i%29 == 3 {
			notes[i] = data.DefaultMissing[i%len(data.DefaultMissing)]
		}
		days[i], secs[i], nanos[i] = int32(i%2000-500), int64(i)*7919-86400*400, int64(i)*1e9+int64(i%4)*250e6-1e12
		y[i] = a + b
		num := func(v float64) string {
			if math.IsNaN(v) {
				return ""
			}
			return string(cell.AppendNumber(nil, v))
		}
		city, flag, key := "", fmt.Sprint(flags[i]), ""
		if int(codes[i]) < len(levels) {
			city = levels[codes[i]]
		}
		if i%13 == 0 {
			flag = ""
		}
		if !lost[i] {
			key = fmt.Sprint(i64[i])
		}
		fmt.Fprintf(&content, "%s,%s,%v,%d,%s,%s,\"%s\",%s,%s,%s,%s,%s\n", num(a), num(matrix.At(i, 1)), f32[i], i8[i],
			flag, city, strings.ReplaceAll(notes[i], `"`, `""`),
			time.Unix(int64(days[i])*86400, 0).UTC().Format(time.DateOnly),
			time.Unix(secs[i], 0).UTC().Format("2006-01-02T15:04:05"),
			time.Unix(0, nanos[i]).UTC().Format("2006-01-02T15:04:05.999999999"), key, num(y[i]))
	}
	table := data.NewColumns("memory")
	if len(parts) == 0 {
		parts = []int{n}
	}
	add := func(name string, cells func(lo, hi int) data.Cells) {
		t.Helper()
		var all []data.Cells
		lo := 0
		for _, m := range parts {
			all = append(all, cells(lo, lo+m))
			lo += m
		}
		if err := table.Add(name, all...); err != nil {
			t.Fatal(err)
		}
	}
	for j, name := range []string{"a", "b"} {
		add(name, func(lo, hi int) data.Cells {
			if lo == hi {
				return data.Cells{Values: []float64{}}
			}
			return data.Cells{Values: matrix.Data[2*lo+j : 2*hi-1+j], Stride: 2}
		})
	}
	add("c", func(lo, hi int) data.Cells { return data.Cells{Values: f32[lo:hi]} })
	add("d", func(lo, hi int) data.Cells { return data.Cells{Values: i8[lo:hi]} })
	add("flag", func(lo, hi int) data.Cells {
		return data.Cells{Values: data.Bits{Bytes: bits, Offset: lo + 3, Len: hi - lo},
			Valid: data.Bits{Bytes: valid, Offset: lo + 3, Len: hi - lo}}
	})
	add("city", func(lo, hi int) data.Cells { return data.Cells{Values: codes[lo:hi], Levels: levels} })
	add("note", func(lo, hi int) data.Cells { return data.Cells{Values: notes[lo:hi]} })
	add("day", func(lo, hi int) data.Cells { return data.Cells{Values: days[lo:hi], Unit: 24 * time.Hour} })
	add("at", func(lo, hi int) data.Cells { return data.Cells{Values: secs[lo:hi], Unit: time.Second} })
	add("ns", func(lo, hi int) data.Cells { return data.Cells{Values: nanos[lo:hi], Unit: 1} })
	add("key", func(lo, hi int) data.Cells { return data.Cells{Values: i64[lo:hi], Missing: lost[lo:hi]} })
	add("y", func(lo, hi int) data.Cells { return data.Cells{Values: y[lo:hi]} })
	csv, err := text.OpenBytes("memory", []byte(content.String()), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table, csv
}

// cellsOf reads a table as text, or as numbers.
func cellsOf(t *testing.T, src data.Source, kind data.Kind) (rows [][]string) {
	t.Helper()
	want := make([]data.Kind, len(src.Columns()))
	for j := range want {
		want[j] = kind
	}
	r, err := src.Open(want)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for b := new(data.Block); ; {
		if err := r.Read(b, 777); err == io.EOF {
			return rows
		} else if err != nil {
			t.Fatal(err)
		}
		if int64(len(rows)) != b.First || r.Where(0) == "" {
			t.Fatalf("a block begins at row %d (%s), %d were read", b.First, r.Where(0), len(rows))
		}
		for i := range b.Rows {
			row := make([]string, len(b.Cols))
			for j := range b.Cols {
				if c := &b.Cols[j]; kind == data.Number {
					row[j] = fmt.Sprintf("%x %v", math.Float64bits(c.Num[i]), c.Num[i])
				} else {
					row[j] = fmt.Sprintf("%q %v", c.Text[i], c.Text[i] == nil)
				}
			}
			rows = append(rows, row)
		}
	}
}

// A table in memory is the table of its CSV: every cell, as text and as number, the schema and the encoded rows.
func TestColumnsAreTheirCSV(t *testing.T) {
	for _, parts := range [][]int{nil, {1, 0, 998, 1024, 0, 977}, {0, 3000}} {
		table, csv := mixedTable(t, parts...)
		for _, kind := range []data.Kind{data.Text, data.Number} {
			a, b := cellsOf(t, table, kind), cellsOf(t, csv, kind)
			if len(a) != len(b) || table.Rows() != len(b) {
				t.Fatalf("%d rows of %d", len(a), len(b))
			}
			for i := range a {
				for j := range a[i] {
					if kind == data.Number && table.Columns()[j] == "flag" {
						continue // 1 and 0, as those of arrays; texts are no numbers
					}
					if a[i][j] != b[i][j] {
						t.Fatalf("parts %v, %v: row %d, column %s is %s, as CSV %s", parts, kind, i,
							table.Columns()[j], a[i][j], b[i][j])
					}
				}
			}
		}
		var schemas [2][]byte
		var encoded [2]dense.Matrix[float64]
		for k, src := range []data.Source{table, csv} {
			schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Text: []string{"note"}})
			if err != nil {
				t.Fatal(err)
			}
			if schemas[k], err = json.Marshal(schema); err != nil {
				t.Fatal(err)
			}
			e, err := schema.Encoder(src.Columns(), false)
			if err != nil {
				t.Fatal(err)
			}
			r, err := src.Open(e.Kinds())
			if err != nil {
				t.Fatal(err)
			}
			for b := new(data.Block); r.Read(b, 1000) == nil; {
				x := dense.New[float64](b.Rows, schema.Width())
				if err := e.Encode(x, dense.Matrix[float64]{}, b, r.Where); err != nil {
					t.Fatal(err)
				}
				encoded[k].Data = append(encoded[k].Data, x.Data...)
			}
			r.Close()
		}
		if !bytes.Equal(schemas[0], schemas[1]) {
			t.Errorf("parts %v: schema\n%s\nas CSV\n%s", parts, schemas[0], schemas[1])
		}
		if !slices.Equal(encoded[0].Data, encoded[1].Data) || len(encoded[0].Data) == 0 {
			t.Errorf("parts %v: encoded rows differ from those of the CSV", parts)
		}
	}
}

func TestColumnsRefuse(t *testing.T) {
	f := []float64{1, 2, 3}
	for want, cells := range map[string][]data.Cells{
		"no cells":             {},
		"type []complex128":    {{Values: []complex128{1, 2, 3}}},
		"type <nil>":           {{}},
		"has 2 rows":           {{Values: f[:2]}},
		"want one type":        {{Values: f[:1]}, {Values: []string{"a", "b"}}},
		"stride of -1":         {{Values: f, Stride: -1}},
		"want integers":        {{Values: f, Levels: []string{"a"}}},
		"[]string with Levels": {{Values: []string{"a", "b", "c"}, Levels: []string{"a"}}},
		"both Levels":          {{Values: []int{1, 2, 3}, Levels: []string{"a"}, Unit: time.Second}},
		"units of 1h":          {{Values: []int{1, 2, 3}, Unit: time.Hour}},
		"units of 7ns":         {{Values: []int{1, 2, 3}, Unit: 7}},
		"2 values of Missing":  {{Values: f, Missing: make([]bool, 2)}},
		"both Valid and":       {{Values: f, Missing: make([]bool, 3), Valid: data.Bits{Bytes: []byte{1}, Len: 3}}},
		"Valid: 3 bits":        {{Values: f, Valid: data.Bits{Bytes: []byte{1}, Offset: 6, Len: 3}}},
		"Valid: 2 bits":        {{Values: f, Valid: data.Bits{Bytes: []byte{1}, Len: 2}}},
		"Values: 3 bits":       {{Values: data.Bits{Bytes: []byte{}, Len: 3}}},
		"Values: -1 bits":      {{Values: data.Bits{Bytes: []byte{1}, Len: -1}}},
		"are named":            nil,
		"not UTF-8":            {{Values: []string{"a", "b\xff", "c"}}},
	} {
		table := data.NewColumns("t")
		if err := table.Add("a", data.Cells{Values: f}); err != nil {
			t.Fatal(err)
		}
		name := "b"
		if cells == nil {
			name, cells = "a", []data.Cells{{Values: f}}
		}
		err := table.Add(name, cells...)
		if want == "not UTF-8" && err == nil {
			r, _ := table.Open(nil)
			err = r.Read(new(data.Block), 10)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, data.ErrInput) ||
			!strings.HasPrefix(err.Error(), "t:") {
			t.Errorf("%s: error %v", want, err)
		}
		if len(table.Columns()) > 1 && want != "not UTF-8" {
			t.Errorf("%s: the column was added", want)
		}
	}
	if _, err := data.NewColumns("t").Open(nil); err == nil {
		t.Error("a table without columns was opened")
	}
}

// Long texts end a block early, as the contract of readers has it.
func TestColumnsBoundBlocks(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	values := make([]string, 100)
	for i := range values {
		values[i] = long
	}
	table := data.NewColumns("t")
	if err := table.Add("a", data.Cells{Values: values}); err != nil {
		t.Fatal(err)
	}
	r, err := table.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for b := new(data.Block); r.Read(b, 1000) == nil; rows += b.Rows {
		if b.Rows > 32 {
			t.Fatalf("a block of %d MiB of text", b.Rows)
		}
	}
	if rows != 100 {
		t.Errorf("%d rows of 100", rows)
	}
}

// Nothing is copied when a table is handed over, and blocks are read without allocations.
func TestColumnsCopyNothing(t *testing.T) {
	const rows, cols = 500_000, 20
	values := make([]float64, rows*cols)
	var table *data.Columns
	if n := testing.AllocsPerRun(3, func() {
		table = data.NewColumns("t")
		for j := range cols {
			if err := table.Add(fmt.Sprint("c", j), data.Cells{Values: values[j:], Stride: cols}); err != nil {
				t.Fatal(err)
			}
		}
	}); n > 15*cols {
		t.Errorf("%v allocations for %d columns", n, cols)
	}
	r, err := table.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := new(data.Block)
	read := func() {
		if err := r.Read(b, 1024); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("%v allocations for a block", n)
	}
}

func BenchmarkColumns(b *testing.B) {
	const rows, cols = 500_000, 20
	for name, stride := range map[string]int{"columns": 1, "rows": cols} {
		b.Run("order="+name, func(b *testing.B) {
			values := make([]float64, rows*cols)
			block := new(data.Block)
			b.SetBytes(8 * rows * cols)
			for b.Loop() {
				table := data.NewColumns("t")
				for j := range cols {
					cells := data.Cells{Values: values[j:], Stride: cols}
					if stride == 1 {
						cells = data.Cells{Values: values[j*rows : (j+1)*rows]}
					}
					if err := table.Add(fmt.Sprint("c", j), cells); err != nil {
						b.Fatal(err)
					}
				}
				r, err := table.Open(nil)
				if err != nil {
					b.Fatal(err)
				}
				for r.Read(block, 1024) == nil {
				}
			}
		})
	}
}

// A table that a program already has: the columns of a row-major matrix, codes of categories, dates, some missing.
func ExampleColumns() {
	matrix := []float64{20.5, 3, 18, 4, 22, 5} // three rows of temperature and wind
	table := data.NewColumns("weather")
	for j, name := range []string{"temperature", "wind"} {
		if err := table.Add(name, data.Cells{Values: matrix[j:], Stride: 2}); err != nil {
			panic(err)
		}
	}
	if err := table.Add("sky", data.Cells{Values: []int8{1, 0, -1}, Levels: []string{"clear", "cloudy"}}); err != nil {
		panic(err)
	}
	err := table.Add("day", data.Cells{Values: []int32{20000, 20001, 20002}, Unit: 24 * time.Hour,
		Missing: []bool{false, true, false}})
	if err != nil {
		panic(err)
	}
	r, err := table.Open([]data.Kind{data.Number, data.Number, data.Text, data.Text})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	var b data.Block
	for r.Read(&b, 100) == nil {
		for i := range b.Rows {
			fmt.Printf("%v %v %q %q\n", b.Cols[0].Num[i], b.Cols[1].Num[i], b.Cols[2].Text[i], b.Cols[3].Text[i])
		}
	}
	// Output:
	// 20.5 3 "cloudy" "2024-10-04"
	// 18 4 "clear" ""
	// 22 5 "" "2024-10-06"
}

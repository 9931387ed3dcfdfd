// Package datatest reads tables in tests and packs them.
package datatest

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
)

// Each passes the blocks of a table to f, of at most so many rows, and checks their places.
func Each(src data.Source, want []data.Kind, most int, f func(*data.Block)) (columns []string, err error) {
	r, err := src.Open(want)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	rows := 0
	for b := new(data.Block); ; f(b) {
		if err := r.Read(b, most); err == io.EOF {
			return r.Columns(), nil
		} else if err != nil {
			return nil, err
		}
		if b.First != int64(rows) || b.Rows < 1 || b.Rows > most {
			return nil, fmt.Errorf("block of %d rows from %d after %d rows, at most %d", b.Rows, b.First, rows, most)
		}
		rows += b.Rows
	}
}

// All reads all rows of a table as texts.
func All(src data.Source) error {
	_, err := Each(src, slices.Repeat([]data.Kind{data.Text}, len(src.Columns())), 100, func(*data.Block) {})
	return err
}

// Table returns the cells of a table: numbers as fmt prints them, missing texts as ∅.
func Table(src data.Source, want []data.Kind, most int) (columns []string, rows [][]string, err error) {
	columns, err = Each(src, want, most, func(b *data.Block) {
		for i := range b.Rows {
			row := make([]string, len(b.Cols))
			for j, c := range b.Cols {
				switch {
				case c.Num != nil:
					row[j] = fmt.Sprint(c.Num[i])
				case c.Text == nil:
					row[j] = "skipped"
				case c.Text[i] == nil:
					row[j] = "∅"
				default:
					row[j] = string(c.Text[i])
				}
			}
			rows = append(rows, row)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return columns, rows, nil
}

// Zip is an archive of the given members, in pairs of name and text.
func Zip(t testing.TB, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		w, err := z.Create(members[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(members[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Gzip compresses b.
func Gzip(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	w.Close()
	return z.Bytes()
}

// Random is a table of numbers, texts, quotes and line ends.
func Random(r *rand.Rand, rows int) string {
	var b strings.Builder
	b.WriteString("x,y,z\n")
	cells := []string{"1", "-2.5e3", "", "NA", "abc", `"q"`, `"a,b"`, "\"l1\nl2\"", `"say ""hi"""`, " pad ",
		"0.1234567890123456789", "\"\r\n\""}
	for range rows {
		for j := range 3 {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(cells[r.IntN(len(cells))])
		}
		b.WriteString([]string{"\n", "\r\n", "\n\n"}[r.IntN(3)])
	}
	return b.String()
}

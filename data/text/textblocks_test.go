package text

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
)

// blockRows reads a source; rows begin with unit, row in the unit and place.
func blockRows(src data.Source, units bool) (out []string, err error) {
	r, err := src.Open(nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b data.Block
	for {
		err := r.Read(&b, 2)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		for i := range b.Rows {
			line := r.Where(i) + ": "
			if units {
				line += fmt.Sprintf("block %d row %d: ", b.Unit.Block, b.Row+int64(i))
			}
			for j := range b.Cols {
				line += fmt.Sprintf("%q,", b.Cols[j].Text[i])
			}
			out = append(out, line)
		}
	}
}

// cutRows reads a text in blocks of some size: in one go, and block by block in any order. Both must agree.
func cutRows(t *testing.T, text string, size int64, workers int) ([]string, error) {
	t.Helper()
	o := data.Options{UnitBytes: size, Workers: workers}
	src, err := OpenBytes("t.csv", []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := blockRows(src, true)
	if err != nil {
		return all, err
	}
	n := src.(data.Splitter).Blocks()
	if want := (len(text) + int(size) - 1) / int(size); n != want {
		t.Fatalf("%d blocks of %d bytes, want %d", n, size, want)
	}
	parts := make([][]string, n)
	for i := n - 1; i >= 0; i-- {
		b, err := src.(data.Splitter).Block(i)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := blockRows(b, true)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			parts[i] = append(parts[i], strings.Replace(row, "block 0", fmt.Sprintf("block %d", i), 1))
		}
	}
	if got := slices.Concat(parts...); !slices.Equal(got, all) {
		t.Fatalf("blocks of %d bytes, one by one:\n%s\nin one go:\n%s", size, strings.Join(got, "\n"),
			strings.Join(all, "\n"))
	}
	return all, nil
}

var trickyTexts = map[string]string{
	"plain":       "a,b,c\n1,2,3\n4,5,6\n7,8,9\n10,11,12\n",
	"no end":      "a,b,c\r\n1,2,3\r\n4,5,6\r\n\r\n7,8,9",
	"quoted":      "a,b,c\n1,\"x,y\",3\n4,\"p\nq\nr\",6\n7,\"s \"\"t\"\"\n,u\",9\n\"10\",\"\",12\n",
	"quoted rows": "a,b,c\n1,\"2,3,4\n5,6,7\n8,9,10\",3\n4,5,6\n7,8,9\n",
	"quotes in":   "a,b,c\n1,x\"y,3\n4,\"5\n\",6\n7,z\",\"9\n9\"\n1,2,3\n",
	"header":      "\"a\nx\",\"b\",c\n1,2,3\n4,5,6\n",
	"mark":        "\xef\xbb\xbfa,b,c\n1,\xc3\xa4,3\n4,5,\"\xe2\x82\xac\n\"\n7,8,9\n",
	"one column":  "a\n1\n\"2\n3\"\n4\n\"5\"\n",
	"blanks":      "a b c\n1  2 3\n4 \"5\n 5\" 6\n7 8 9\n",
	"long field":  "a,b\n1,\"" + strings.Repeat("word word\n", 40) + "\"\n2,x\n3,y\n",
}

// A text cut at every byte has the rows, at the places, that it has as a whole; or an error about quotes, never others.
func TestCutsAtEveryByte(t *testing.T) {
	for name, text := range trickyTexts {
		src, err := OpenBytes("t.csv", []byte(text), data.Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		want, err := blockRows(src, false)
		if err != nil {
			t.Fatal(name, err)
		}
		refused := 0
		for size := 1; size < len(text); size++ {
			if size > 24 && size%11 != 0 {
				continue
			}
			got, err := cutRows(t, text, int64(size), 1+size%2)
			if errors.Is(err, ErrQuotes) {
				refused++
				continue
			}
			if err != nil {
				t.Fatalf("%s cut at %d: %v", name, size, err)
			}
			for i := range got {
				place, row, _ := strings.Cut(got[i], ": ")
				_, row, _ = strings.Cut(row, ": ")
				got[i] = place + ": " + row
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s cut at %d:\n%s\nwant\n%s", name, size, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		// Rows inside of quotes look just like rows, and are taken for such at some cuts.
		if refused > 0 && name != "quoted rows" {
			t.Errorf("%s: refused at %d cuts", name, refused)
		}
	}
}

// Random tables of quoted texts with line ends, quotes and delimiters in them are cut rightly nearly everywhere, and
// never wrongly.
func TestCutsRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	cells := []string{"1", "-2.5", "x", `"a,b"`, "\"line\nline\"", `"say ""so"", he"`, `""`, "\"\n\"", "\",\n\"", `"x"`}
	for round := range 20 {
		var b strings.Builder
		b.WriteString("c1,c2,c3,c4\n")
		for range 60 {
			for j := range 4 {
				if j > 0 {
					b.WriteByte(',')
				}
				b.WriteString(cells[rng.IntN(len(cells))])
			}
			b.WriteString([]string{"\n", "\r\n"}[round%2])
		}
		src, err := OpenBytes("t.csv", []byte(b.String()), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := blockRows(src, false)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			size := int64(20 + rng.IntN(b.Len()))
			if size >= int64(b.Len()) {
				continue
			}
			got, err := cutRows(t, b.String(), size, 2)
			if err != nil {
				t.Errorf("round %d cut at %d: %v", round, size, err)
				continue
			}
			if len(got) != len(want) {
				t.Errorf("round %d cut at %d: %d rows, want %d", round, size, len(got), len(want))
			}
		}
	}
}

// An error in a block of the middle names its line in the file.
func TestCutErrorsNameLines(t *testing.T) {
	text := "a,b\n" + strings.Repeat("1,2\n", 100) + "3,x\n" + strings.Repeat("5,6\n", 10)
	src, err := OpenBytes("t.csv", []byte(text), data.Options{UnitBytes: 100, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := src.(data.Splitter).Block(4)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Open([]data.Kind{data.Number, data.Number})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var block data.Block
	err = nil
	for err == nil {
		err = r.Read(&block, 5)
	}
	if !strings.Contains(err.Error(), "t.csv:102:3") {
		t.Error(err)
	}
}

// A file that becomes shorter after it was opened is an error, not a shorter table.
func TestCutFileIsNoTable(t *testing.T) {
	text := "a,b\n" + strings.Repeat("1,2\n", 1000)
	for _, size := range []int64{0, 1000} {
		path := filepath.Join(t.TempDir(), "t.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		src, err := Open(path, data.Options{UnitBytes: size})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 2500); err != nil {
			t.Fatal(err)
		}
		if rows, err := blockRows(src, false); err == nil || !strings.Contains(err.Error(), "t.csv") {
			t.Errorf("units of %d bytes: %d rows, %v", size, len(rows), err)
		}
	}
}

package data_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/datatest"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/data/text"
)

var update = flag.Bool("update", false, "write the texts of DefaultMissing into the documents")

// The documents list the texts of DefaultMissing, and the program in docs/modelfile.md reads them so.
func TestDefaultMissingIsDocumented(t *testing.T) {
	code := strings.Join(data.DefaultMissing[1:len(data.DefaultMissing)-1], "`, `")
	last := data.DefaultMissing[len(data.DefaultMissing)-1]
	python := fmt.Sprintf("%q", data.DefaultMissing)
	for _, doc := range []struct{ file, old, want string }{
		{"../docs/machines.md", "Empty cells, `[^.]*` mean a missing value",
			"Empty cells, `" + code + "` and `" + last + "` mean a missing value"},
		{"../docs/modelfile.md", `text in \([^\n]*\)`,
			"text in (" + strings.ReplaceAll(python[1:len(python)-1], "\" ", "\", ") + ")"},
	} {
		b, err := os.ReadFile(doc.file)
		if err != nil {
			t.Fatal(err)
		}
		if content := strings.Join(strings.Fields(string(b)), " "); strings.Contains(content, doc.want) {
			continue
		}
		if !*update {
			t.Errorf("%s does not list data.DefaultMissing. Run this test with -update, or write: %s", doc.file, doc.want)
			continue
		}
		written := regexp.MustCompile(doc.old).ReplaceAllLiteralString(string(b), doc.want)
		if written == string(b) {
			t.Fatalf("%s does not say %s", doc.file, doc.old)
		}
		if err := os.WriteFile(doc.file, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A text that means a missing value does so in every format, and in columns of numbers as in columns of texts.
func TestMissingInEveryFormat(t *testing.T) {
	type row struct {
		A string `parquet:"a"`
	}
	texts := append([]string{"x"}, data.DefaultMissing...)
	csv, ndjson := "a\n", ""
	var rows []row
	var codes []int8
	for i, s := range texts {
		csv += fmt.Sprintf("%q\n", s)
		ndjson += fmt.Sprintf("{\"a\":%q}\n", s)
		rows, codes = append(rows, row{s}), append(codes, int8(i))
	}
	path := t.TempDir() + "/x.parquet"
	if err := pq.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	open := map[string]func() (data.Source, error){
		"csv":     func() (data.Source, error) { return text.OpenBytes("x.csv", []byte(csv), data.Options{}) },
		"ndjson":  func() (data.Source, error) { return text.OpenBytes("x.ndjson", []byte(ndjson), data.Options{}) },
		"parquet": func() (data.Source, error) { return parquet.Open(path, data.Options{}) },
	}
	for name, cells := range map[string]data.Cells{"strings": {Values: texts},
		"levels": {Values: codes, Levels: texts}} {
		open[name] = func() (data.Source, error) {
			c := data.NewColumns("memory")
			return c, c.Add("a", cells)
		}
	}
	for name, open := range open {
		src, err := open()
		if err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[data.Kind]string{data.Text: "x" + strings.Repeat(" ∅", len(texts)-1),
			data.Number: "unreadable" + strings.Repeat(" ∅", len(texts)-1)} {
			var got []string
			_, err := datatest.Each(src, []data.Kind{kind}, 100, func(b *data.Block) {
				for i := range b.Rows {
					switch c := b.Cols[0]; {
					case kind == data.Text && c.Text[i] != nil:
						got = append(got, string(c.Text[i]))
					case kind == data.Number && c.Unreadable(i):
						got = append(got, "unreadable")
					default:
						got = append(got, "∅")
					}
				}
			})
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("%s: %q, %v, want %s", name, got, err, want)
			}
		}
	}
}

// Numbers that mean a missing value do so in columns of numbers and of text alike.
func TestMissingNumbers(t *testing.T) {
	for name, content := range map[string]string{"t.csv": "x\n1\n-999\n-9990\n \"-999\"\n",
		"t.ndjson": "{\"x\":1}\n{\"x\":-999}\n{\"x\":-9990}\n{\"x\":\"-999\"}\n"} {
		src, err := text.OpenBytes(name, []byte(content), data.Options{Missing: []string{"-999"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []data.Kind{data.Number, data.Text} {
			r, err := src.Open([]data.Kind{kind})
			if err != nil {
				t.Fatal(err)
			}
			var b data.Block
			if err := r.Read(&b, 10); err != nil {
				t.Fatal(err)
			}
			for i, missing := range []bool{false, true, false, true} {
				if c := b.Cols[0]; kind == data.Number && math.IsNaN(c.Num[i]) != missing || kind == data.Text &&
					(c.Text[i] == nil) != missing {
					t.Errorf("%s, %v: row %d is missing: want %v", name, kind, i, missing)
				}
			}
			r.Close()
		}
	}
}

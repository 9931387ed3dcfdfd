package parquet_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/parquet"
)

// Two rows are written to a file and read back.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "table.parquet")
	if err := writeTable(path); err != nil {
		log.Fatal(err)
	}
	src, err := parquet.Open(path, data.Options{})
	if err != nil {
		log.Fatal(err)
	}
	r, err := src.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	err = r.Read(&b, 10)
	fmt.Println(r.Columns(), b.Cols[0].Num, err)
	// Output: [x] [1 2] <nil>
}

// writeTable writes one column of two numbers.
func writeTable(path string) error {
	w, err := parquet.Create(path, []string{"x"}, []data.Kind{data.Number})
	if err != nil {
		return err
	}
	if err := w.WriteBlock(&data.Block{Rows: 2, Cols: []data.Column{{Num: []float64{1, 2}}}}); err != nil {
		return err
	}
	return w.Close()
}

// object is a file in memory. That of a store would fetch ranges of bytes.
type object struct{ *bytes.Reader }

func (object) Close() error { return nil }

// An upload in memory or an object of a store is read without a copy on disk.
func ExampleOpenFile() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "table.parquet")
	if err := writeTable(path); err != nil {
		log.Fatal(err)
	}
	upload, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	src, err := parquet.OpenFile("upload.parquet", int64(len(upload)),
		func() (data.File, error) { return object{bytes.NewReader(upload)}, nil }, data.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, summary, err := data.Learn(src, data.LearnOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(src.Columns(), summary.Rows, "rows")
	// Output: [x] 2 rows
}

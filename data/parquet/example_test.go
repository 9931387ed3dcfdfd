package parquet_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/parquet"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "table.parquet")
	w, err := parquet.Create(path, []string{"x"}, []data.Kind{data.Number})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.WriteBlock(&data.Block{Rows: 2, Cols: []data.Column{{Num: []float64{1, 2}}}}); err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}
	src, err := parquet.Open(path, data.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := src.Open(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	var b data.Block
	err = r.Read(&b, 10)
	fmt.Println(r.Columns(), b.Cols[0].Num, err)
	// Output: [x] [1 2] <nil>
}

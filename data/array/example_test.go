package array_test

import (
	"bytes"
	"fmt"
	"io"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/array"
)

// A vector of a program that writes npy files is a table of one column.
func ExampleOpenNPY() {
	var file bytes.Buffer
	w := array.NewWriter(&file, nil, []data.Kind{data.Number})
	if err := w.WriteBlock(&data.Block{Rows: 3, Cols: []data.Column{{Num: []float64{1, 4, 9}}}}); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }
	src, err := array.OpenNPY("squares.npy", int64(file.Len()), open, data.Options{})
	if err != nil {
		panic(err)
	}
	r, err := src.Open(nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	var b data.Block
	if err := r.Read(&b, 10); err != nil {
		panic(err)
	}
	fmt.Println(r.Columns(), b.Cols[0].Num)
	// Output: [c1] [1 4 9]
}

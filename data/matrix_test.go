package data_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

func ExampleReadMatrix() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "x.npy")
	if err := data.WriteMatrix(path, dense.MustFromRows([][]float64{{1, 2, 3}, {4, 5, 6}})); err != nil {
		log.Fatal(err)
	}
	m, err := data.ReadMatrix(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Rows, m.Cols, m.Row(1))
	// Output:
	// 2 3 [4 5 6]
}

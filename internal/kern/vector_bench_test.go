package kern

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// Sums over a block of features, 128×256 unless said, which waits in the second-level cache as behind a feature map;
// B/s are the bytes of the matrix.
func BenchmarkSums(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchSums(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchSums(b, "float64", tab)
	}
}

func benchSums[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	a := dense.Matrix[T]{Rows: 128, Cols: 256, Stride: 256, Data: aligned[T](128 * 256)}
	fillNormal(a, rand.New(rand.NewPCG(1, 2)))
	kept := append([]T(nil), a.Data...)
	rows, cols, v, other := make([]T, 128), make([]T, 256), append([]T(nil), a.Row(0)...), append([]T(nil), a.Data...)
	ones := make([]T, 128)
	for i := range ones {
		ones[i] = 1
	}
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"colSum", func() { tab.ColSum(cols, a) }},
		{"mulV", func() { tab.MulV(rows, a, v) }},
		{"mulAdd", func() { tab.MulAdd(a.Data, other, 1e-9) }},
		{"max", func() { tab.Max(a.Data) }},
		{"flushMax", func() { tab.FlushMax(a.Data) }},
		{"rowMax", func() {
			tab.RowMax(rows, a)
		}},
		{"copyExp", func() { copy(a.Data, kept); tab.Exp(a.Data, 1) }},
		{"copyExpRows", func() {
			copy(a.Data, kept)
			tab.ExpRows(rows, a, ones)
		}},
	} {
		b.Run(fmt.Sprintf("table=%s/T=%s/op=%s", tab.Name, typ, c.name), func(b *testing.B) {
			copy(a.Data, kept)
			b.SetBytes(int64(len(a.Data)) * int64(unsafe.Sizeof(T(0))))
			for b.Loop() {
				c.run()
			}
			reportElements(b, len(a.Data))
		})
	}
}

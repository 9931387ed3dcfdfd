package kern

import (
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// Sums without terms are zero: an operand without columns may have any stride and no data.
func TestNoColumns(t *testing.T) { each(t, checkNoColumns[float32], checkNoColumns[float64]) }

func checkNoColumns[T dense.Float](t *testing.T, tab *Table[T]) {
	const rows, cols = 5, 37
	filled := func(v T) dense.Matrix[T] {
		m := dense.New[T](rows, cols)
		for i := range m.Data {
			m.Data[i] = v
		}
		return m
	}
	all := func(what string, x []T, v T) {
		t.Helper()
		if slices.ContainsFunc(x, func(u T) bool { return u != v }) {
			t.Errorf("%s: %v, want %v everywhere", what, x, v)
		}
	}
	shift := make([]T, rows)
	for _, none := range []dense.Matrix[T]{{Rows: rows, Stride: 512}, filled(1).ColRange(3, 3), dense.New[T](rows, 0)} {
		terms := dense.Matrix[T]{Cols: cols, Stride: 512}
		dst := filled(3)
		tab.Product(dst, none, terms, true)
		all("Product that adds", dst.Data, 3)
		tab.Product(dst, none, terms, false)
		all("Product", dst.Data, 0)
		tab.Product(none, filled(1), dense.Matrix[T]{Rows: cols, Stride: 512}, false)

		var p Panel[T]
		bias := filled(2).Row(0)
		tab.Pack(&p, dense.Matrix[T]{Rows: cols, Stride: 512})
		tab.MulT(dst, none, &p, bias)
		all("MulT", dst.Data, 2)
		tab.MulTExp(dst, none, &p, nil, shift)
		all("MulTExp", dst.Data, 1)
		tab.MulTSinCos(dst, filled(0), none, &p, nil, 5)
		all("MulTSinCos", dst.Data, 0)
		tab.PackT(&p, terms)
		tab.MulT(dst, none, &p, nil)
		all("MulT of PackT", dst.Data, 0)
		tab.PackT(&p, none)
		tab.MulT(dense.Matrix[T]{Rows: 3, Stride: 512}, dense.New[T](3, rows), &p, nil)

		tab.TMul(dense.Matrix[T]{Cols: cols, Stride: 512}, none, filled(1))
		tab.TMul(dense.Matrix[T]{Rows: cols, Stride: 512}, filled(1), none)
		tab.ColSum(nil, none)
		tab.MulRows(shift, none, none, none)
		all("MulRows", shift, 0)
		sums := filled(7).Data[:rows]
		tab.MulV(sums, none, nil)
		all("MulV", sums, 0)
		sums = filled(7).Data[:rows]
		tab.AddDots(sums, nil, none, none)
		all("AddDots", sums, 0)
		sums = filled(7).Data[:rows]
		tab.ExpRows(sums, none, shift)
		all("ExpRows", sums, 0)
		tab.RowMax(sums, none)
		all("RowMax", sums, T(math.Inf(-1)))
		tab.AbsSums(nil, none, shift)
		tab.Gather(none, none, []int32{4, 3, 2, 1, 0})
		norms := []float64{1, 1, 1, 1, 1}
		tab.Norms(norms, none)
		if slices.Max(norms) != 0 {
			t.Errorf("Norms: %v", norms)
		}

		var c Columns[T]
		c.Reset(tab, rows, 0)
		c.Pack(0, none)
		tab.AddGram(dense.Matrix[T]{Stride: 512}, &c, 0, 0, 0, 0)
	}
}

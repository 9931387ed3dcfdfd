package kern

import (
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// Nothing is read or written past the last element of any operand, not even under a mask.
func TestSumsStayInMemory(t *testing.T) { each(t, checkSumsMemory[float32], checkSumsMemory[float64]) }

func checkSumsMemory[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(29, 30))
	for range 60 {
		n, d := 1+r.IntN(2*tab.Width), 1+r.IntN(70)
		a := dense.Matrix[T]{Rows: n, Cols: d, Stride: d, Data: fenced[T](t, n*d)}
		tab.ColSum(fenced[T](t, d), a)
		tab.MulV(fenced[T](t, n), a, fenced[T](t, d))
		b := dense.Matrix[T]{Rows: n, Cols: d, Stride: d, Data: fenced[T](t, n*d)}
		tab.MulRows(fenced[T](t, n), dense.Matrix[T]{Rows: n, Cols: d, Stride: d, Data: fenced[T](t, n*d)}, a, b)
		tab.AddDots(fenced[T](t, n), fenced[T](t, d), a, b)
		tab.MulAdd(fenced[T](t, d), fenced[T](t, d), 2)
		tab.AbsSums(fenced[T](t, d), a, fenced[T](t, n))
		tab.Widen(fenced[float64](t, d), fenced[T](t, d), 2)
		tab.Narrow(fenced[T](t, d), fenced[float64](t, d), 2)
		tab.ExpSum(fenced[T](t, d), 1)
		tab.FlushMax(fenced[T](t, d))
		tab.RowMax(fenced[T](t, n), a)
		tab.ExpRows(fenced[T](t, n), a, fenced[T](t, n))
		var p Panel[T]
		p.reset(n, d, tab.Width)
		p.Data = fenced[T](t, len(p.Data))
		tab.Pack(&p, a)
	}
}

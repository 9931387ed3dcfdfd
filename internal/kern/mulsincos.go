package kern

import "github.com/randfeat/randfeat/dense"

// oscillateRows is the number of rows that are multiplied before sine and cosine are taken, while they are in cache.
const oscillateRows = 16

// mulThenSinCos is MulTSinCos from the entries of t.
func mulThenSinCos[T dense.Float](t *Table[T], sin, cos, x dense.Matrix[T], w *Panel[T], bias []T, f T) {
	checkSinCos(sin, cos, x)
	for i := 0; i < x.Rows; i += oscillateRows {
		end := min(i+oscillateRows, x.Rows)
		t.MulT(sin.RowRange(i, end), x.RowRange(i, end), w, bias)
		for r := i; r < end; r++ {
			s, c := sin.Row(r), cos.Row(r)
			t.SinCos(s, c, s)
			if f != 1 {
				t.Scale(s, f)
				t.Scale(c, f)
			}
		}
	}
}

func checkSinCos[T dense.Float](sin, cos, x dense.Matrix[T]) {
	if sin.Rows != x.Rows || cos.Rows != x.Rows || sin.Cols != cos.Cols {
		panic("kern: MulTSinCos of different shapes")
	}
}

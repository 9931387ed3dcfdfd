package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// randomRows are rows of weights or activations with outliers, zeros and an all-zero block.
func randomRows(seed uint64, rows, cols int) dense.Matrix[float32] {
	r := rand.New(rand.NewPCG(seed, uint64(rows*cols)))
	m := dense.New[float32](rows, cols)
	for i := range m.Data {
		m.Data[i] = float32(r.NormFloat64())
		switch r.IntN(40) {
		case 0:
			m.Data[i] *= 20
		case 1:
			m.Data[i] = 0
		}
	}
	if rows > 2 && cols >= BlockCols {
		clear(m.Row(1)[:BlockCols])
	}
	return m
}

func packBlocks(w dense.Matrix[float32], bits int) *Blocks {
	b := NewBlocks(w.Rows, w.Cols, bits)
	for i := range w.Rows {
		b.SetRow(i, w.Row(i))
	}
	return b
}

// Every product must be that of the numbers which the blocks stand for, computed in float64, to the rounding of sums of
// blocks in float32, at row and column counts off the grid and for all numbers of tokens that make tiles.
func TestMulBlocks(t *testing.T) {
	for _, tab := range Models() {
		for _, bits := range []int{8, 4} {
			for _, s := range [][3]int{{1, 1, 1}, {16, 32, 1}, {17, 33, 3}, {48, 64, 8}, {31, 160, 13}, {40, 576, 23}} {
				t.Run(fmt.Sprintf("%s/bits=%d/%v", tab.Name, bits, s), func(t *testing.T) {
					w, x := packBlocks(randomRows(1, s[0], s[1]), bits), randomRows(2, s[2], s[1])
					var a Acts
					a.Resize(x.Rows, x.Cols)
					for i := range x.Rows {
						tab.QuantiseRow(&a, i, x.Row(i))
					}
					const guard = 77
					wide := dense.New[float32](x.Rows+1, w.Rows+3)
					for i := range wide.Data {
						wide.Data[i] = guard
					}
					got := wide.ColRange(0, w.Rows).RowRange(0, x.Rows)
					half := w.Groups() / 2
					tab.MulBlocks(got, &a, w, 0, half)
					tab.MulBlocks(got, &a, w, half, w.Groups())
					row := make([]float32, w.Cols)
					for j := range w.Rows {
						w.Row(row, j)
						for i := range x.Rows {
							var want, size float64
							for c, v := range row {
								b := &a.Data[i*a.Blocks()+c/BlockCols]
								p := float64(v) * float64(b.Scale) * float64(b.Q[c%BlockCols])
								want += p
								size += math.Abs(p)
							}
							// A 4-bit block is a difference of two sums that may be larger than it.
							bound := 4e-6 * size * float64(8/bits)
							if d := math.Abs(float64(got.At(i, j)) - want); !(d <= bound) {
								t.Fatalf("token %d, row %d: %v, want %v (difference %.2g, bound %.2g)", i, j,
									got.At(i, j), want, d, bound)
							}
						}
					}
					for i := range wide.Rows {
						for j, v := range wide.Row(i) {
							if (i >= x.Rows || j >= w.Rows) && v != guard {
								t.Fatalf("element (%d, %d) beside the product was written", i, j)
							}
						}
					}
				})
			}
		}
	}
}

// The bits of a token's products do not depend on the other tokens.
func TestMulBlocksAlone(t *testing.T) {
	for _, tab := range Models() {
		for _, bits := range []int{8, 4} {
			w, x := packBlocks(randomRows(3, 48, 96), bits), randomRows(4, 11, 96)
			var a, one Acts
			a.Resize(x.Rows, x.Cols)
			one.Resize(1, x.Cols)
			for i := range x.Rows {
				tab.QuantiseRow(&a, i, x.Row(i))
			}
			all, row := dense.New[float32](x.Rows, w.Rows), dense.New[float32](1, w.Rows)
			tab.MulBlocks(all, &a, w, 0, w.Groups())
			for i := range x.Rows {
				tab.QuantiseRow(&one, 0, x.Row(i))
				tab.MulBlocks(row, &one, w, 0, w.Groups())
				for j, v := range row.Data {
					if v != all.At(i, j) {
						t.Fatalf("%s, %d bits: token %d alone has %v in row %d, among others %v", tab.Name, bits, i, v,
							j, all.At(i, j))
					}
				}
			}
		}
	}
}

// Quantised activations are equal in every table, to the last bit, and near what they stand for.
func TestQuantise(t *testing.T) {
	x := randomRows(5, 9, 160)
	copy(x.Row(3), []float32{1e-40, -1e-39, 0, 1e-45})
	for i := range x.Row(4) {
		x.Row(4)[i] = 1e-39
	}
	for i := range x.Row(5) {
		x.Row(5)[i] *= 1e36
	}
	var want, got Acts
	ref := ReferenceModel()
	want.Resize(x.Rows, x.Cols)
	got.Resize(x.Rows, x.Cols)
	for _, tab := range Models() {
		for i := range x.Rows {
			ref.QuantiseRow(&want, i, x.Row(i))
			tab.QuantiseRow(&got, i, x.Row(i))
		}
		for i, b := range got.Data {
			w := want.Data[i]
			if b.Q != w.Q || b.Scale != w.Scale || b.Sum != w.Sum || b.Neg != w.Neg {
				t.Fatalf("%s: block %d is %+v, want %+v", tab.Name, i, b, w)
			}
			for c, q := range b.Q {
				v := float64(x.Data[i*BlockCols+c])
				if d := math.Abs(v - float64(q)*float64(b.Scale)); d > 0.501*float64(b.Scale)+0x1p-100 {
					t.Fatalf("%s: %v became %d·%v", tab.Name, v, q, b.Scale)
				}
			}
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for at := range BlockCols {
			row := append([]float32(nil), x.Row(0)...)
			row[at] = float32(bad)
			for _, tab := range Models() {
				tab.QuantiseRow(&got, 0, row)
				if dense.IsFinite(float64(got.Data[0].Scale)) {
					t.Errorf("%s: a block with %v at %d has the scale %v", tab.Name, bad, at, got.Data[0].Scale)
				}
			}
		}
	}
}

func BenchmarkMulBlocks(b *testing.B) {
	for _, tab := range Models() {
		if tab.Name == "go" {
			continue
		}
		for _, bits := range []int{8, 4} {
			for _, tokens := range []int{1, 8, 64} {
				b.Run(fmt.Sprintf("%s/bits=%d/tokens=%d", tab.Name, bits, tokens), func(b *testing.B) {
					w, x := packBlocks(randomRows(6, 1536, 576), bits), randomRows(7, tokens, 576)
					var a Acts
					a.Resize(x.Rows, x.Cols)
					for i := range x.Rows {
						tab.QuantiseRow(&a, i, x.Row(i))
					}
					dst := dense.New[float32](tokens, w.Rows)
					for b.Loop() {
						tab.MulBlocks(dst, &a, w, 0, w.Groups())
					}
					b.ReportMetric(float64(tokens*w.Rows*w.Cols)*2*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOP/s")
				})
			}
		}
	}
}

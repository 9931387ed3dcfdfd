package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// Packing moves bits, whatever they mean: every shape around the blocks of the kernels, strided and misaligned.
func TestPackBits(t *testing.T) { each(t, checkPackBits[float32], checkPackBits[float64]) }

func checkPackBits[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(27, 28))
	for rows := range 2*tab.Width + 3 {
		for _, cols := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33} {
			shift, pad := r.IntN(16), r.IntN(4)
			w := view(rows, cols, shift, pad, T(guard))
			for i := range rows {
				for j := range cols {
					w.Set(i, j, fromBits[T](r.Uint64())) // NaN, infinite, subnormal: all kinds
				}
			}
			var p Panel[T]
			p.reset(rows, cols, tab.Width) // memory used before
			for i := range p.Data {
				p.Data[i] = T(math.NaN())
			}
			if rows%2 == 0 {
				tab.Pack(&p, w)
			} else { // the same by parts
				tab.Room(&p, rows, cols)
				for lo := (rows - 1) / 16 * 16; lo >= 0; lo -= 16 {
					tab.PackRows(&p, w, lo, min(lo+16, rows))
				}
			}
			checkGuards(t, w, shift)
			for at, v := range p.Data {
				i, k := at/(cols*tab.Width)*tab.Width+at%tab.Width, at/tab.Width%cols
				want := T(0)
				if i < rows {
					want = w.At(i, k)
				}
				if bitsOf(v) != bitsOf(want) {
					t.Fatalf("%d×%d: output %d, input %d is %v, want %v", rows, cols, i, k, v, want)
				}
			}
		}
	}
	var p Panel[T]
	w := dense.New[T](2*tab.Width+1, 19)
	tab.Pack(&p, w)
	if n := testing.AllocsPerRun(10, func() { tab.Pack(&p, w) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func bitsOf[T dense.Float](v T) uint64 {
	if w, ok := any(v).(float32); ok {
		return uint64(math.Float32bits(w))
	}
	return math.Float64bits(float64(v))
}

func BenchmarkPackBlocks(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchPack(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchPack(b, "float64", tab)
	}
}

func benchPack[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	for _, s := range [][2]int{{128, 256}, {128, 64}, {256, 64}} {
		w := dense.New[T](s[0], s[1])
		fillNormal(w, rand.New(rand.NewPCG(1, 2)))
		for name, pack := range map[string]func(*Panel[T], dense.Matrix[T]){"pack": tab.Pack, "packT": tab.PackT} {
			b.Run(fmt.Sprintf("table=%s/T=%s/op=%s/rows=%d/cols=%d", tab.Name, typ, name, s[0], s[1]),
				func(b *testing.B) {
					var p Panel[T]
					for b.Loop() {
						pack(&p, w)
					}
					reportElements(b, len(w.Data))
				})
		}
	}
}

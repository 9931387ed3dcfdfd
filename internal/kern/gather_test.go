package kern

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// Gathered rows have the bits of the source, whatever they mean, and nothing beside them is written.
func TestGather(t *testing.T) { each(t, checkGathered[float32], checkGathered[float64]) }

func checkGathered[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(41, 42))
	for _, n := range []int{0, 1, 2, 5, 40} {
		for _, cols := range []int{0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65} {
			src := view(1+r.IntN(30), cols, r.IntN(16), r.IntN(4), T(math.NaN()))
			for i := range src.Rows {
				for j := range cols {
					src.Set(i, j, fromBits[T](r.Uint64()))
				}
			}
			rows := make([]int32, n)
			for i := range rows {
				rows[i] = int32(r.IntN(src.Rows))
			}
			shift := r.IntN(16)
			dst := view(n, cols, shift, r.IntN(4), T(guard))
			tab.Gather(dst, src, rows)
			checkGuards(t, dst, shift)
			for i, row := range rows {
				for j, v := range dst.Row(i) {
					if want := src.At(int(row), j); bitsOf(v) != bitsOf(want) {
						t.Fatalf("%d×%d: row %d, column %d is %v, want %v", n, cols, i, j, v, want)
					}
				}
			}
		}
	}
	for _, bad := range []int32{-1, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("row %d of 3 is no error", bad)
				}
			}()
			tab.Gather(dense.New[T](1, 2), dense.New[T](3, 2), []int32{bad})
		}()
	}
}

// Above lists what a loop lists; NaN is above nothing.
func TestAbove(t *testing.T) { each(t, checkAbove[float32], checkAbove[float64]) }

func checkAbove[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(43, 44))
	for n := range 70 {
		for _, low := range []T{-1, 0, 1.5, T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN())} {
			m := view(1, n, r.IntN(16), 0, T(guard))
			fillNormal(m, r)
			awkward(m, r)
			if n > 3 {
				m.Data[n/2] = low // equal ones count
			}
			var want []int32
			for i, v := range m.Data {
				if v >= low {
					want = append(want, int32(i))
				}
			}
			all := make([]int32, n+1)
			all[n] = -7
			got := tab.Above(all[:n], m.Data, low)
			if !slices.Equal(all[:got], want) || all[n] != -7 {
				t.Fatalf("%d numbers above %v: %v, want %v", n, low, all[:got], want)
			}
		}
	}
	long := make([]T, 100_003) // several calls
	for i := range long {
		long[i] = T(i % 3)
	}
	if got := tab.Above(make([]int32, len(long)), long, 1); got != len(long)-(len(long)+2)/3 {
		t.Errorf("%d of %d are at least 1", got, len(long))
	}
}

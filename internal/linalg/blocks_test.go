package linalg

import (
	"errors"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// givenRows has rows that are there; those from fails on are an error.
type givenRows[T dense.Float] struct {
	phi   dense.Matrix[T]
	y     dense.Matrix[float64]
	fails int
}

var errRows = errors.New("no such row")

func (g givenRows[T]) Rows(first int, phi dense.Matrix[T], y dense.Matrix[float64]) error {
	if first+phi.Rows > g.fails {
		return errRows
	}
	for i := range phi.Rows {
		copy(phi.Row(i), g.phi.Row(first+i))
		copy(y.Row(i), g.y.Row(first+i))
	}
	return nil
}

func TestBlocks(t *testing.T) {
	testBlocks[float32](t)
	testBlocks[float64](t)
}

// Sums have the bits of one product of all rows, products with targets in float64 and those of features in T on the
// grid of FlushRows: with any blocks, calls and number of cores. An error leaves the blocks before.
func testBlocks[T dense.Float](t *testing.T) {
	const n, f, k = FlushRows + 700, 67, 2
	phi, y := dense.Convert[T](random(6, n, f)), random(7, n, k+1)
	for i := range n {
		y.Set(i, k, 1)
	}
	single := T(1<<25)+1 == 1<<25
	rows := givenRows[T]{phi, y, n}
	sums := func() *Normal {
		s := new(Normal)
		s.Reset(f, k)
		if single {
			s.Part = dense.New[float32](f, f)
		}
		return s
	}
	tab, tab64 := kern.Best[T](), kern.Best[float64]()
	cross, gram, part := dense.New[float64](f, k+1), dense.New[float64](f, f), dense.New[T](f, f)
	tab64.TMul(cross, dense.Convert[float64](phi), y)
	if single {
		tab.TMul(part, phi.RowRange(0, FlushRows), phi.RowRange(0, FlushRows))
		for i, v := range part.Data {
			gram.Data[i] = float64(v)
		}
		clear(part.Data)
		tab.TMul(part, phi.RowRange(FlushRows, n), phi.RowRange(FlushRows, n))
	} else {
		tab.TMul(part, phi, phi)
		gram = dense.Convert[float64](part)
	}
	check := func(what string, s *Normal) {
		t.Helper()
		if s.N != n || s.Weight != n {
			t.Fatalf("%T, %s: %d rows of weight %v", single, what, s.N, s.Weight)
		}
		for i, v := range cross.Data {
			if s.Cross.Data[i] != v {
				t.Fatalf("%v, %s: cross %d is %v, want %v", single, what, i, s.Cross.Data[i], v)
			}
		}
		for i := range f {
			for j := i; j < f; j++ {
				if s.Gram.At(i, j) != gram.At(i, j) || single && s.Part.At(i, j) != float32(part.At(i, j)) {
					t.Fatalf("%v, %s: %d,%d is %v, want %v", single, what, i, j, s.Gram.At(i, j), gram.At(i, j))
				}
			}
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, procs := range []int{1, 5} {
		runtime.GOMAXPROCS(procs)
		var b Blocks[T]
		for _, most := range []int{n, 1024, 333} {
			s := sums()
			if err := b.Add(s, rows, n, most); err != nil {
				t.Fatal(err)
			}
			check("one call", s)
		}
		s := sums()
		for lo, hi := 0, 0; lo < n; lo = hi {
			hi = min(lo+1500, n)
			if err := b.Add(s, givenRows[T]{phi.RowRange(lo, hi), y.RowRange(lo, hi), n}, hi-lo, 256); err != nil {
				t.Fatal(err)
			}
		}
		check("calls of 1500 rows", s)

		s, first := sums(), sums()
		if err := b.Add(s, givenRows[T]{phi, y, 2500}, n, 1024); !errors.Is(err, errRows) || s.N != 2048 {
			t.Fatalf("error %v after %d rows, want that of rows after 2048", err, s.N)
		}
		if err := b.Add(first, rows, 2048, 1024); err != nil {
			t.Fatal(err)
		}
		for i, v := range first.Cross.Data {
			if s.Cross.Data[i] != v {
				t.Fatal("an error changes sums")
			}
		}
	}
}

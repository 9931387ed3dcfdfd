package randfeat

import (
	"math"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// rowsFar are rows around the origin and, every third, far from it: maps with exponents lose features of both.
func rowsFar(n, d int) dense.Matrix[float32] {
	x := dense.New[float32](n, d)
	for i := range x.Data {
		x.Data[i] = float32(math.Sin(float64(i * i % 1009)))
		if i/d%3 == 0 {
			x.Data[i] *= 8
		}
	}
	return x
}

// The matrix of a set with itself, of which half is computed, has the bits of the matrix with a copy of the set: for
// every family, on any number of cores and with any number of blocks.
func TestGramOfASetWithItself(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const d = 4
	symmetric := 0
	for _, info := range family.List() {
		for i, e := range info.Examples(d) {
			s := Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: e.Family, Dim: d, M: 8, Seed: 3}
			if some := dense.Convert[float64](rowsFar(64, d)); e.Fit {
				var err error
				if s, err = Fit(s, some, some); err != nil {
					continue
				}
			}
			m, err := New[float32](s)
			if err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
			if !m.Symmetric() {
				continue
			}
			symmetric++
			sizes, cores := []int{gramCols + 1}, []int{3}
			if i == 0 && info.Name == (family.Trig{}).Name() {
				sizes, cores = []int{1, gramCols, 2*gramCols + 100}, []int{1, 3}
			}
			for _, n := range sizes {
				x := rowsFar(n, d)
				for _, procs := range cores {
					runtime.GOMAXPROCS(procs)
					if at := gramsDiffer(t, m, x); at >= 0 {
						t.Fatalf("%s, %d rows, %d cores: entry %d,%d differs", e.Name, n, procs, at/n, at%n)
					}
				}
			}
		}
	}
	if symmetric == 0 {
		t.Error("no family has been tested")
	}
}

// gramsDiffer is the first entry that differs between the matrix of x with itself and with a copy of x, −1: none.
func gramsDiffer(t *testing.T, m *Map[float32], x dense.Matrix[float32]) int {
	n, y := x.Rows, x.Clone()
	var gram [2]dense.Matrix[float32]
	var log, sign [2]dense.Matrix[float64]
	for i, y := range []dense.Matrix[float32]{x, y} {
		gram[i], log[i], sign[i] = dense.New[float32](n, n), dense.New[float64](n, n), dense.New[float64](n, n)
		if err := m.Gram(gram[i], x, y, nil); err != nil {
			t.Fatal(err)
		}
		if n > gramCols+1 {
			continue
		}
		if err := m.LogGram(log[i], sign[i], x, y, nil); err != nil {
			t.Fatal(err)
		}
	}
	return max(firstOther(gram[0].Data, gram[1].Data), firstOther(log[0].Data, log[1].Data),
		firstOther(sign[0].Data, sign[1].Data))
}

// firstOther is the first number that differs, −1: none.
func firstOther[T dense.Float](a, b []T) int {
	for i, v := range a {
		if v != b[i] && !(v != v && b[i] != b[i]) {
			return i
		}
	}
	return -1
}

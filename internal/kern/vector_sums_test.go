package kern

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// sumShapes are the rows and columns at the borders of the loops: all lengths to three vectors and one, the blocks of
// columns of every table, the groups of rows.
func sumShapes[T dense.Float]() (rows, cols []int) {
	for n := range 3*64/int(unsafe.Sizeof(T(0))) + 2 {
		cols = append(cols, n)
	}
	return []int{0, 1, 2, 3, 4, 5, 8, 11}, append(cols, 127, 128, 129, 255, 256, 257, 300)
}

// awkward fills m with numbers, some of them subnormal, infinite, NaN or zero.
func awkward[T dense.Float](m dense.Matrix[T], r *rand.Rand) {
	values := []T{T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), 0, T(math.Copysign(0, -1)), T(tiny[T]()),
		T(-3 * tiny[T]())}
	for i := range m.Rows {
		for j := range m.Row(i) {
			if r.IntN(8) == 0 {
				m.Set(i, j, values[r.IntN(len(values))])
			}
		}
	}
}

func TestColSum(t *testing.T) { each(t, checkColSum[float32], checkColSum[float64]) }

// Sums of columns have the bits of the reference, however the rows are divided into calls.
func checkColSum[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(21, 22))
	rows, cols := sumShapes[T]()
	for _, n := range rows {
		for _, c := range cols {
			shift, pad := r.IntN(16), r.IntN(4)
			a := view(n, c, shift, pad, T(guard))
			fillNormal(a, r)
			if c%3 == 0 {
				awkward(a, r)
			}
			dst, want := view(1, c, r.IntN(16), 0, T(guard)), make([]T, c)
			fillNormal(dst, r)
			copy(want, dst.Data)
			tab.ColSum(dst.Data, a)
			cut := r.IntN(n + 1)
			colSum(want, a.RowRange(0, cut))
			colSum(want, a.RowRange(cut, n))
			for j, v := range dst.Data {
				if !same(v, want[j]) {
					t.Fatalf("%d×%d: column %d is %v, want %v", n, c, j, v, want[j])
				}
			}
			checkGuards(t, a, shift)
		}
	}
	long := dense.New[T](40000, 3) // several calls
	for i := range long.Data {
		long.Data[i] = 1
	}
	dst := make([]T, 3)
	if tab.ColSum(dst, long); dst[0] != 40000 || dst[2] != 40000 {
		t.Errorf("sums of 40000 ones: %v", dst)
	}
	if n := testing.AllocsPerRun(10, func() { tab.ColSum(dst, long) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMulRows(t *testing.T) { each(t, checkProducts[float32], checkProducts[float64]) }

// Products have the bits of Mul; sums of rows, and products with running sums, are within the bound of any order, and
// rows do not know each other. Running sums have the bits of MulAdd.
func checkProducts[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(31, 32))
	rows, cols := sumShapes[T]()
	for _, n := range rows {
		for _, c := range cols {
			a, b := view(n, c, r.IntN(16), r.IntN(4), T(math.NaN())), view(n, c, r.IntN(16), r.IntN(4), T(math.NaN()))
			fillNormal(a, r)
			fillNormal(b, r)
			at, atSum := r.IntN(16), r.IntN(16)
			dst, sum := view(n, c, at, r.IntN(4), T(guard)), view(1, n, atSum, 0, T(guard))
			tab.MulRows(sum.Data, dst, a, b)
			checkGuards(t, dst, at)
			checkGuards(t, sum, atSum)
			atZ := r.IntN(16)
			z, dots := view(1, c, atZ, 0, T(guard)), view(1, n, atSum, 0, T(guard))
			fillNormal(z, r)
			want := append([]T(nil), z.Data...)
			tab.AddDots(dots.Data, z.Data, a, b)
			checkGuards(t, z, atZ)
			checkGuards(t, dots, atSum)
			for i := range n {
				var s, size, d, sizeD float64
				tab.MulAdd(want, a.Row(i), 1)
				for j, x := range a.Row(i) {
					y := b.Row(i)[j]
					if got := dst.Row(i)[j]; !same(got, x*y) {
						t.Fatalf("%d×%d: product %d, %d is %v, want %v", n, c, i, j, got, x*y)
					}
					s, size = s+float64(x)*float64(y), size+math.Abs(float64(x)*float64(y))
					d, sizeD = d+float64(y)*float64(want[j]), sizeD+math.Abs(float64(y)*float64(want[j]))
				}
				if got := float64(sum.Data[i]); !(math.Abs(got-s) <= float64(c+1)*epsilon[T]()*size) {
					t.Fatalf("%d×%d: the sum of row %d is %v, want %v", n, c, i, got, s)
				}
				if got := float64(dots.Data[i]); !(math.Abs(got-d) <= float64(c)*epsilon[T]()*sizeD) {
					t.Fatalf("%d×%d: product %d with the sums so far is %v, want %v", n, c, i, got, d)
				}
				var alone [1]T
				tab.MulRows(alone[:], dst.RowRange(i, i+1), a.RowRange(i, i+1), b.RowRange(i, i+1))
				if !same(alone[0], sum.Data[i]) {
					t.Fatalf("%d×%d: the sum of row %d is %v, alone %v", n, c, i, sum.Data[i], alone[0])
				}
			}
			for j, x := range want {
				if !same(z.Data[j], x) {
					t.Fatalf("%d×%d: running sum %d is %v, want %v", n, c, j, z.Data[j], x)
				}
			}
			tab.MulRows(sum.Data, a, a, b) // in place
			for i := range n {
				if !slices.Equal(a.Row(i), dst.Row(i)) {
					t.Fatalf("%d×%d: row %d in place is %v, want %v", n, c, i, a.Row(i), dst.Row(i))
				}
			}
		}
	}
	a, dst := dense.New[T](300, 256), make([]T, 300)
	if n := testing.AllocsPerRun(10, func() { tab.MulRows(dst, a, a, a); tab.AddDots(dst, a.Row(0), a, a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMulV(t *testing.T) { each(t, checkMulV[float32], checkMulV[float64]) }

// Products with a vector are within the bound of any order of summation, c·ε·Σ|a_j v_j|, and rows do not know each
// other.
func checkMulV[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(23, 24))
	rows, cols := sumShapes[T]()
	for _, n := range rows {
		for _, c := range cols {
			shift := r.IntN(16)
			// reads outside show
			a, v := view(n, c, shift, r.IntN(4), T(math.NaN())), view(1, c, r.IntN(16), 0, T(math.NaN()))
			fillNormal(a, r)
			fillNormal(v, r)
			special := c%3 == 0
			if special {
				awkward(a, r)
			}
			at := r.IntN(16)
			dst := view(1, n, at, 0, T(guard))
			tab.MulV(dst.Data, a, v.Data)
			checkGuards(t, dst, at)
			for i, got := range dst.Data {
				var want, size float64
				for j, x := range a.Row(i) {
					want += float64(x) * float64(v.Data[j])
					size += math.Abs(float64(x) * float64(v.Data[j]))
				}
				switch {
				case special && (math.IsNaN(want) || math.IsInf(want, 0)):
					if !same(got, T(want)) {
						t.Fatalf("%d×%d: row %d is %v, want %v", n, c, i, got, want)
					}
				case !(math.Abs(float64(got)-want) <= float64(c)*epsilon[T]()*size+float64(c)*tiny[T]()):
					t.Fatalf("%d×%d: row %d is %v, want %v", n, c, i, got, want)
				}
				var alone [1]T
				tab.MulV(alone[:], a.RowRange(i, i+1), v.Data)
				if !same(alone[0], got) {
					t.Fatalf("%d×%d: row %d is %v, alone %v", n, c, i, got, alone[0])
				}
			}
		}
	}
	a, dst := dense.New[T](300, 256), make([]T, 300)
	if n := testing.AllocsPerRun(10, func() { tab.MulV(dst, a, a.Row(0)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestExpSum(t *testing.T) { each(t, checkExpSum[float32], checkExpSum[float64]) }

// ExpSum has the bits of Exp and their sum within n·ε·Σ of any order: results are not negative.
func checkExpSum[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(25, 26))
	_, lengths := sumShapes[T]()
	for _, n := range append(lengths, 1<<15+77) {
		for kind := range 4 {
			shift := r.IntN(16)
			x := view(1, n, shift, 0, T(guard))
			for i := range x.Data {
				switch kind {
				case 0:
					x.Data[i] = T(r.NormFloat64())
				case 1:
					x.Data[i] = T(-110 * r.Float64()) // some subnormal in float32
				case 2:
					x.Data[i] = T(-800 * r.Float64()) // and in float64
				case 3:
					x.Data[i] = T(r.NormFloat64())
					if r.IntN(n) == 0 {
						x.Data[i] = []T{T(math.Inf(1)), T(math.NaN()), 1e4}[r.IntN(3)]
					}
				}
			}
			want := append([]T(nil), x.Data...)
			got := tab.ExpSum(x.Data, 0.5)
			checkGuards(t, x, shift)
			tab.Exp(want, 0.5)
			var sum float64
			for i, v := range want {
				if !same(x.Data[i], v) {
					t.Fatalf("n %d: element %d is %v, Exp gives %v", n, i, x.Data[i], v)
				}
				sum += float64(v)
			}
			if math.IsNaN(sum) || math.IsInf(sum, 0) {
				if !same(got, T(sum)) {
					t.Fatalf("n %d: sum %v, want %v", n, got, sum)
				}
			} else if !(math.Abs(float64(got)-sum) <= float64(n)*epsilon[T]()*sum) {
				t.Fatalf("n %d kind %d: sum %v, want %v", n, kind, got, sum)
			}
		}
	}
	x := make([]T, 300)
	if n := testing.AllocsPerRun(10, func() { tab.ExpSum(x, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRowOperations(t *testing.T) { each(t, checkRows[float32], checkRows[float64]) }

// ExpRows and RowMax have the bits of ExpSum and Max of every row.
func checkRows[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(31, 32))
	rows, cols := sumShapes[T]()
	for _, n := range rows {
		for _, c := range cols {
			shift := r.IntN(16)
			a := view(n, c, shift, r.IntN(4), T(guard))
			fillNormal(a, r)
			switch c % 3 {
			case 0:
				awkward(a, r)
			case 1: // all negative, so that zeros and their signs decide
				for i := range n {
					for j := range c {
						a.Set(i, j, -T(math.Abs(float64(a.At(i, j)))))
						if r.IntN(c+1) == 0 {
							a.Set(i, j, T(math.Copysign(0, r.NormFloat64())))
						}
					}
				}
			}
			dst := view(1, n, r.IntN(16), 0, T(guard))
			tab.RowMax(dst.Data, a)
			for i, v := range dst.Data {
				if want := tab.Max(a.Row(i)); !same(v, want) {
					t.Fatalf("%d×%d: maximum of row %d is %v, want %v", n, c, i, v, want)
				}
			}
			by, want := make([]T, n), make([]T, n)
			copyOf := dense.New[T](n, c)
			for i := range n {
				by[i] = T(r.NormFloat64())
				copy(copyOf.Row(i), a.Row(i))
				want[i] = tab.ExpSum(copyOf.Row(i), by[i])
			}
			tab.ExpRows(dst.Data, a, by)
			checkGuards(t, a, shift)
			for i, v := range dst.Data {
				if !same(v, want[i]) {
					t.Fatalf("%d×%d: sum of row %d is %v, want %v", n, c, i, v, want[i])
				}
				for j, e := range a.Row(i) {
					if !same(e, copyOf.At(i, j)) {
						t.Fatalf("%d×%d: element %d, %d is %v, want %v", n, c, i, j, e, copyOf.At(i, j))
					}
				}
			}
		}
	}
	a, dst := dense.New[T](2, 1<<15+5), make([]T, 2) // longer than a call
	if tab.ExpRows(dst, a, make([]T, 2)); dst[1] != 1<<15+5 {
		t.Errorf("sum of %d ones: %v", a.Cols, dst[1])
	}
	if tab.RowMax(dst, a); dst[0] != 1 {
		t.Errorf("maximum of ones: %v", dst[0])
	}
	b := dense.New[T](300, 100)
	dst, by := make([]T, 300), make([]T, 300)
	if n := testing.AllocsPerRun(10, func() { tab.RowMax(dst, b); tab.ExpRows(dst, b, by) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFlushMax(t *testing.T) { each(t, checkFlushMax[float32], checkFlushMax[float64]) }

// FlushMax changes subnormal elements, and nothing else, at every position.
func checkFlushMax[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(33, 34))
	least := T(0x1p-126)
	if unsafe.Sizeof(least) == 8 {
		least *= T(0x1p-448) * T(0x1p-448) // 2^-1022
	}
	neg := T(math.Copysign(0, -1))
	_, lengths := sumShapes[T]()
	for _, n := range append(lengths, 1<<15+33) {
		for kind := range 4 {
			shift := r.IntN(16)
			x := view(1, n, shift, 0, T(guard))
			want := make([]T, n)
			for i := range want {
				want[i] = T(r.NormFloat64())
				x.Data[i] = want[i]
				if kind == 0 || r.IntN(1+n/kind) > 0 {
					continue
				}
				switch v := T(tiny[T]()) * T(1+r.IntN(100)); r.IntN(7) {
				case 0:
					x.Data[i], want[i] = v, 0
				case 1:
					x.Data[i], want[i] = -v, neg
				case 2:
					x.Data[i], want[i] = least-T(tiny[T]()), 0
				case 3:
					x.Data[i], want[i] = -least, -least
				case 4:
					x.Data[i], want[i] = neg, neg
				case 5:
					x.Data[i], want[i] = T(math.Inf(-1)), T(math.Inf(-1))
				case 6:
					if kind == 3 {
						x.Data[i], want[i] = T(math.NaN()), T(math.NaN())
					}
				}
			}
			if got, m := tab.FlushMax(x.Data), tab.Max(want); !same(got, m) {
				t.Fatalf("n %d: maximum %v, want %v", n, got, m)
			}
			checkGuards(t, x, shift)
			for i, v := range x.Data {
				if !same(v, want[i]) {
					t.Fatalf("n %d: element %d is %v, want %v", n, i, v, want[i])
				}
			}
		}
	}
	x := make([]T, 300)
	if n := testing.AllocsPerRun(10, func() { tab.FlushMax(x) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Assembly does not check bounds: wrong shapes must panic before it runs.
func TestSumsPanicOnShapes(t *testing.T) {
	each(t, checkSumShapes[float32], checkSumShapes[float64])
}

func checkSumShapes[T dense.Float](t *testing.T, tab *Table[T]) {
	m := dense.New[T]
	for name, f := range map[string]func(){
		"ColSum":        func() { tab.ColSum(make([]T, 3), m(2, 4)) },
		"MulRows rows":  func() { tab.MulRows(make([]T, 3), m(2, 4), m(2, 4), m(2, 4)) },
		"MulRows dst":   func() { tab.MulRows(make([]T, 2), m(2, 3), m(2, 4), m(2, 4)) },
		"AddDots rows":  func() { tab.AddDots(make([]T, 2), make([]T, 4), m(2, 4), m(3, 4)) },
		"AddDots sums":  func() { tab.AddDots(make([]T, 2), make([]T, 3), m(2, 4), m(2, 4)) },
		"MulV rows":     func() { tab.MulV(make([]T, 3), m(2, 4), make([]T, 4)) },
		"MulV columns":  func() { tab.MulV(make([]T, 2), m(2, 4), make([]T, 5)) },
		"MulAdd length": func() { tab.MulAdd(make([]T, 5), make([]T, 4), 1) },
		"AbsSums cols":  func() { tab.AbsSums(make([]T, 3), m(2, 4), make([]T, 2)) },
		"AbsSums rows":  func() { tab.AbsSums(make([]T, 4), m(2, 4), make([]T, 3)) },
		"RowMax":        func() { tab.RowMax(make([]T, 3), m(2, 4)) },
		"ExpRows sum":   func() { tab.ExpRows(make([]T, 3), m(2, 4), make([]T, 2)) },
		"ExpRows shift": func() { tab.ExpRows(make([]T, 2), m(2, 4), make([]T, 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

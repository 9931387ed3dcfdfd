//go:build arm64 && !noasm

package kern

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// The suites over Available test the NEON table with all others. These tests add the borders of its own blocks, the
// small vector operations and what its wrappers refuse. On another machine run them with arm64_test.sh.

// neonGuard surrounds the memory that kernels may write; a change of it is a write outside.
const neonGuard = 12345.678

// neonFenced returns n elements at any misalignment, with guards before and behind, and a check.
func neonFenced[T dense.Float](t *testing.T, n, off int) ([]T, func()) {
	t.Helper()
	buf := make([]T, off+n+32)
	for i := range buf {
		buf[i] = neonGuard
	}
	return buf[off : off+n : off+n], func() {
		t.Helper()
		for i, v := range buf {
			if (i < off || i >= off+n) && v != neonGuard {
				t.Fatalf("wrote outside: element %d of [%d, %d) is %v", i-off, 0, n, v)
			}
		}
	}
}

// neonBits compares NaNs as equal.
func neonBits[T dense.Float](v T) uint64 {
	if v != v {
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(float64(v))
}

// neonFMA is x·y + z with one rounding. In float32 the product is exact in float64; the sum is rounded to odd there,
// so that the second rounding sees on which side of a tie it fell.
func neonFMA[T dense.Float](x, y, z T) T {
	if !is32[T]() {
		return T(math.FMA(float64(x), float64(y), float64(z)))
	}
	p := float64(x) * float64(y)
	s := p + float64(z)
	v := s - p
	e := (p - (s - v)) + (float64(z) - v) // the error of s, exactly (Knuth)
	if b := math.Float64bits(s); e != 0 && b&1 == 0 && !math.IsInf(s, 0) {
		if (e > 0) == (s > 0) {
			b++
		} else {
			b--
		}
		s = math.Float64frombits(b)
	}
	return T(s)
}

func neonFilled[T dense.Float](r *rand.Rand, rows, cols, pad, off int) dense.Matrix[T] {
	data := make([]T, off+rows*(cols+pad)+1)
	for i := range data {
		data[i] = T(r.NormFloat64())
	}
	return dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols + pad, Data: data[off:]}
}

// neonOutput is a matrix whose padding and surroundings are guarded.
func neonOutput[T dense.Float](t *testing.T, rows, cols, pad, off int) (dense.Matrix[T], func()) {
	t.Helper()
	data, check := neonFenced[T](t, rows*(cols+pad), off)
	return dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols + pad, Data: data}, func() {
		t.Helper()
		check()
		for i := range rows {
			for j := range pad {
				if v := data[i*(cols+pad)+cols+j]; v != neonGuard {
					t.Fatalf("wrote between rows: row %d, column %d of %d is %v", i, cols+j, cols, v)
				}
			}
		}
	}
}

func TestNEONMulT(t *testing.T) {
	t.Run("float32", testNEONMulT[float32])
	t.Run("float64", testNEONMulT[float64])
}

func testNEONMulT[T dense.Float](t *testing.T) {
	tab := neon[T]()
	r := rand.New(rand.NewPCG(1, 2))
	check := func(n, d, m, pad int, withBias bool) {
		t.Helper()
		x := neonFilled[T](r, n, d, pad, pad)
		w := neonFilled[T](r, m, d, pad, 0)
		var bias []T
		if withBias {
			bias = neonFilled[T](r, 1, m, 0, pad).Data[:m]
		}
		var p Panel[T]
		tab.Pack(&p, w)
		dst, intact := neonOutput[T](t, n, m, pad, 5*pad)
		tab.MulT(dst, x, &p, bias)
		intact()
		for i := range n {
			for j := range m {
				var want T
				if bias != nil {
					want = bias[j]
				}
				for k := range d {
					want = neonFMA(x.At(i, k), w.At(j, k), want)
				}
				if got := dst.At(i, j); neonBits(got) != neonBits(want) {
					t.Fatalf("n=%d d=%d m=%d pad=%d bias=%v: (%d, %d) is %v, want %v", n, d, m, pad, withBias, i, j,
						got, want)
				}
			}
		}
	}
	// Every mix of tiles of 8, 4, 2 and 1 rows, single rows with panels in fours, tails of inputs and of columns.
	for _, n := range []int{1, 3, 7, 8, 15} {
		for _, d := range []int{0, 1, 4, 7} {
			for _, m := range []int{1, 3, 4, 9, 16, 31, 33, 40} {
				check(n, d, m, (n+d+m)%4, (n+d+m)%3 > 0)
			}
		}
	}
	// Several passes over the inputs, several groups of panels.
	for _, s := range [][3]int{{1, 512, 9}, {9, 513, 41}, {3, 1025, 17}, {9, 500, 300}, {1, 70, 1500}} {
		check(s[0], s[1], s[2], 1, true)
		check(s[0], s[1], s[2], 0, false)
	}
	// NaN and infinities stay in their row and column.
	x, w := neonFilled[T](r, 9, 5, 0, 0), neonFilled[T](r, 11, 5, 0, 0)
	x.Set(3, 2, T(math.NaN()))
	x.Set(4, 4, T(math.Inf(1)))
	w.Set(9, 1, T(math.NaN()))
	var p Panel[T]
	tab.Pack(&p, w)
	dst := dense.New[T](9, 11)
	tab.MulT(dst, x, &p, nil)
	for i := range 9 {
		for j := range 11 {
			v := float64(dst.At(i, j))
			if math.IsNaN(v) != (i == 3 || j == 9) || (i == 4 && j != 9) != math.IsInf(v, 0) {
				t.Errorf("(%d, %d) is %v", i, j, v)
			}
		}
	}
}

func TestNEONTMul(t *testing.T) {
	t.Run("float32", testNEONTMul[float32])
	t.Run("float64", testNEONTMul[float64])
}

func testNEONTMul[T dense.Float](t *testing.T) {
	tab := neon[T]()
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 3, 64, 65, 130} {
		for _, m := range []int{1, 7, 8, 9, 19} {
			for _, q := range []int{1, 3, 4, 7, 8, 9, 33} {
				pad := (n + m + q) % 3
				a, b := neonFilled[T](r, n, m, pad, pad), neonFilled[T](r, n, q, pad, 1)
				dst, intact := neonOutput[T](t, m, q, pad, 3*pad)
				want := dense.New[T](m, q)
				for k := range m {
					for j := range q {
						v := T(r.NormFloat64())
						dst.Set(k, j, v)
						for i := range n {
							v = neonFMA(a.At(i, k), b.At(i, j), v)
						}
						want.Set(k, j, v)
					}
				}
				tab.TMul(dst, a, b)
				intact()
				for k := range m {
					for j := range q {
						if got := dst.At(k, j); neonBits(got) != neonBits(want.At(k, j)) {
							t.Fatalf("n=%d m=%d q=%d: (%d, %d) is %v, want %v", n, m, q, k, j, got, want.At(k, j))
						}
					}
				}
			}
		}
	}
}

func TestNEONVectors(t *testing.T) {
	t.Run("float32", testNEONVectors[float32])
	t.Run("float64", testNEONVectors[float64])
}

// Mul, Scale and Norm2 have the bits of the reference (compiled for arm64, which fuses v·v + s).
func testNEONVectors[T dense.Float](t *testing.T) {
	ref, tab := Reference[T](), neon[T]()
	r := rand.New(rand.NewPCG(5, 6))
	check := func(n, off int, special bool) {
		t.Helper()
		x, intact := neonFenced[T](t, n, off)
		a := neonFilled[T](r, 1, n, 0, off%3).Data[:n]
		for i := range x {
			x[i] = T(r.NormFloat64())
			if special && r.IntN(4) == 0 {
				x[i] = []T{0, T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), T(math.SmallestNonzeroFloat32)}[r.IntN(5)]
			}
		}
		want := append([]T(nil), x...)
		if got, want := tab.Norm2(x), ref.Norm2(x); neonBits(got) != neonBits(want) {
			t.Fatalf("n=%d: norm2 is %v, want %v", n, got, want)
		}
		tab.Mul(x, a)
		tab.Scale(x, 0.7)
		intact()
		ref.Mul(want, a)
		ref.Scale(want, 0.7)
		for i, v := range x {
			if neonBits(v) != neonBits(want[i]) {
				t.Fatalf("n=%d off=%d: element %d is %v, want %v", n, off, i, v, want[i])
			}
		}
	}
	for n := range 3*4*neonLanes[T]() + 2 {
		for off := range 4 {
			check(n, off, false)
			check(n, off, true)
		}
	}
	check(9*neonVectors*neonLanes[T]()+3, 1, false) // several calls
}

// Assembly does not check bounds: wrong shapes must panic before it runs.
func TestNEONShapes(t *testing.T) {
	tab := neon[float64]()
	var p, other Panel[float64]
	tab.Pack(&p, dense.New[float64](5, 3))
	neon[float64]().Pack(&other, dense.New[float64](5, 3))
	other.Width++
	short := p
	short.Data = short.Data[:len(short.Data)-1]
	m := dense.New[float64]
	cut := m(4, 3)
	cut.Data = cut.Data[:10]
	for name, f := range map[string]func(){
		"x columns":    func() { tab.MulT(m(2, 5), m(2, 4), &p, nil) },
		"dst columns":  func() { tab.MulT(m(2, 6), m(2, 3), &p, nil) },
		"dst rows":     func() { tab.MulT(m(1, 5), m(2, 3), &p, nil) },
		"bias":         func() { tab.MulT(m(2, 5), m(2, 3), &p, make([]float64, 4)) },
		"panel width":  func() { tab.MulT(m(2, 5), m(2, 3), &other, nil) },
		"panel data":   func() { tab.MulT(m(2, 5), m(2, 3), &short, nil) },
		"x data":       func() { tab.MulT(m(4, 5), cut, &p, nil) },
		"rows of a, b": func() { tab.TMul(m(2, 3), m(4, 2), m(5, 3)) },
		"dst of TMul":  func() { tab.TMul(m(3, 3), m(4, 2), m(4, 3)) },
		"a data":       func() { tab.TMul(m(3, 2), cut, m(4, 2)) },
		"shifts":       func() { tab.MulTExp(m(8, 5), m(8, 3), &p, nil, make([]float64, 7)) },
		"fused dst":    func() { tab.MulTExp(m(8, 6), m(8, 3), &p, nil, make([]float64, 8)) },
		"fused rows":   func() { tab.MulTExp(m(8, 5), m(9, 3), &p, nil, make([]float64, 8)) },
		"fused panel":  func() { tab.MulTExp(m(8, 5), m(8, 3), &short, nil, make([]float64, 8)) },
		"fused bias":   func() { tab.MulTSinCos(m(8, 5), m(8, 5), m(8, 3), &p, make([]float64, 4), 1) },
		"sin rows":     func() { tab.MulTSinCos(m(7, 5), m(8, 5), m(8, 3), &p, nil, 1) },
		"cos columns":  func() { tab.MulTSinCos(m(8, 5), m(8, 4), m(8, 3), &p, nil, 1) },
		"sin columns":  func() { tab.MulTSinCos(m(8, 6), m(8, 6), m(8, 3), &p, nil, 1) },
		"Mul":          func() { tab.Mul(make([]float64, 9), make([]float64, 8)) },
		"SinCos":       func() { tab.SinCos(make([]float64, 8), make([]float64, 9), make([]float64, 9)) },
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

func TestNEONAllocs(t *testing.T) {
	t.Run("float32", testNEONAllocs[float32])
	t.Run("float64", testNEONAllocs[float64])
}

func testNEONAllocs[T dense.Float](t *testing.T) {
	tab := neon[T]()
	r := rand.New(rand.NewPCG(11, 12))
	x, w := neonFilled[T](r, 11, 7, 1, 0), neonFilled[T](r, 13, 7, 0, 0)
	var p Panel[T]
	tab.Pack(&p, w)
	dst, sum := dense.New[T](11, 13), dense.New[T](7, 7)
	v := make([]T, 23)
	v[4] = 1e6
	h := make([]T, 64)
	if n := testing.AllocsPerRun(10, func() {
		tab.MulT(dst, x, &p, nil)
		tab.TMul(sum, x, x)
		tab.SinCos(v, v, v)
		tab.Exp(v, 1)
		tab.Exp2(v)
		tab.Log(v)
		tab.Mul(v, v)
		tab.Scale(v, 2)
		tab.Norm2(v)
		tab.Max(v)
		tab.FWHT(h)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The default on this architecture.
func TestNEONIsFirst(t *testing.T) {
	if a, b := Available[float32]()[0].Name, Available[float64]()[0].Name; a != "neon" || b != "neon" {
		t.Errorf("first tables are %s and %s", a, b)
	}
}

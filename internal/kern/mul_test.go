package kern

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// guard surrounds every view of these tests. It is no NaN in dst, where writes must be seen, and NaN around inputs,
// where reads must show up in the result.
const guard = -12345

func epsilon[T dense.Float]() float64 {
	if unsafe.Sizeof(T(0)) == 4 {
		return 0x1p-24
	}
	return 0x1p-53
}

// tiny is the smallest subnormal: the rounding error of a result that underflows.
func tiny[T dense.Float]() float64 {
	if unsafe.Sizeof(T(0)) == 4 {
		return 0x1p-149
	}
	return 0x1p-1074
}

// view is a rows×cols matrix that starts shift elements after a 64-byte boundary, with pad elements between its rows,
// all of them and some on both sides filled with fill.
func view[T dense.Float](rows, cols, shift, pad int, fill T) dense.Matrix[T] {
	const fence = 64
	stride := cols + pad
	all := aligned[T](fence + shift + rows*stride + fence)
	for i := range all {
		all[i] = fill
	}
	m := dense.Matrix[T]{Rows: rows, Cols: cols, Stride: stride}
	if rows > 0 {
		m.Data = all[fence+shift:][:(rows-1)*stride+cols]
	}
	return m
}

// checkGuards looks at everything around a view of view.
func checkGuards[T dense.Float](t *testing.T, m dense.Matrix[T], shift int) {
	t.Helper()
	if m.Rows == 0 {
		return
	}
	const fence = 64
	first := unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.Data)), -(fence+shift)*int(unsafe.Sizeof(T(0))))
	all := unsafe.Slice((*T)(first), fence+shift+m.Rows*m.Stride+fence)
	for i, v := range all {
		at := i - fence - shift
		inside := at >= 0 && at < m.Rows*m.Stride && at%m.Stride < m.Cols
		if !inside && v != guard {
			t.Fatalf("wrote %v outside, %d elements from the start of a %d×%d view with stride %d", v, at, m.Rows,
				m.Cols, m.Stride)
		}
	}
}

func fillNormal[T dense.Float](m dense.Matrix[T], r *rand.Rand) {
	for i := range m.Rows {
		for j := range m.Row(i) {
			m.Set(i, j, T(r.NormFloat64()))
		}
	}
}

// fma32 is the correctly rounded x·y + z: the product is exact in float64, and rounding the sum to odd keeps the second
// rounding from going astray.
func fma32(x, y, z float32) float32 {
	p, a := float64(x)*float64(y), float64(z)
	s := p + a
	if math.IsNaN(s) || math.IsInf(s, 0) {
		return float32(s)
	}
	b := s - p
	if rest := (p - (s - b)) + (a - b); rest != 0 && math.Float64bits(s)&1 == 0 {
		if rest > 0 {
			s = math.Nextafter(s, math.Inf(1))
		} else {
			s = math.Nextafter(s, math.Inf(-1))
		}
	}
	return float32(s)
}

func fma[T dense.Float](x, y, z T) T {
	if unsafe.Sizeof(x) == 4 {
		return T(fma32(float32(x), float32(y), float32(z)))
	}
	return T(math.FMA(float64(x), float64(y), float64(z)))
}

func TestFMA32(t *testing.T) {
	one := float32(1)
	up := math.Nextafter32(one, 2)
	// The product has 2·24 bits; only its end is left.
	if got, want := fma32(up, up, -1), float32(0x1p-22+0x1p-46); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := fma32(0x1p-24, 1+0x1p-23, 1), math.Nextafter32(1, 2); got != want { // just above a tie
		t.Errorf("%v, want %v", got, want)
	}
	if got := fma32(0x1p-24, 1, 1); got != 1 { // the tie goes to even
		t.Errorf("%v, want 1", got)
	}
	if got, want := fma32(0x1p-75, 0x1p-75, 0x1p-149), float32(0x1p-148); got != want { // a tie of subnormals
		t.Errorf("%v, want %v", got, want)
	}
}

// same compares bits, except that any NaN is any other.
func same[T dense.Float](a, b T) bool {
	if a != a || b != b {
		return a != a && b != b
	}
	return a == b && math.Signbit(float64(a)) == math.Signbit(float64(b))
}

// chainMulT is the order of operations that every assembly table promises, to the bit: bias, then multiply-adds in the
// order of the inputs.
func chainMulT[T dense.Float](x, w dense.Matrix[T], bias []T) dense.Matrix[T] {
	dst := dense.New[T](x.Rows, w.Rows)
	for i := range x.Rows {
		for j := range w.Rows {
			var s T
			if bias != nil {
				s = bias[j]
			}
			for k := range x.Cols {
				s = fma(x.At(i, k), w.At(j, k), s)
			}
			dst.Set(i, j, s)
		}
	}
	return dst
}

// chainTMul is the same for TMul, in the order of the rows.
func chainTMul[T dense.Float](dst, a, b dense.Matrix[T]) dense.Matrix[T] {
	out := dst.Clone()
	for l := range a.Rows {
		for i := range a.Cols {
			for j := range b.Cols {
				out.Set(i, j, fma(a.At(l, i), b.At(l, j), out.At(i, j)))
			}
		}
	}
	return out
}

// each runs body for every table of both precisions.
func each(t *testing.T, f32 func(*testing.T, *Table[float32]), f64 func(*testing.T, *Table[float64])) {
	for _, tab := range Available[float32]() {
		t.Run("T=float32/table="+tab.Name, func(t *testing.T) { f32(t, tab) })
	}
	for _, tab := range Available[float64]() {
		t.Run("T=float64/table="+tab.Name, func(t *testing.T) { f64(t, tab) })
	}
}

// productCase is one shape: n×d times (m×d)ᵀ, with the alignment of the views.
type productCase struct{ n, d, m, shift, pad int }

// edgeShapes cover 0 to three vectors or tiles and one more in each dimension, and all misalignments.
func edgeShapes(width int) []productCase {
	var list []productCase
	vectors := 3*width + 1
	if !stattest.Full() {
		vectors = width + 1
	}
	for m := range vectors + 1 {
		for n := range 26 {
			list = append(list, productCase{n, 1 + (n+m)%4, m, 0, 0})
		}
		list = append(list, productCase{1 + m%9, 5, m, m % 16, m % 5}, productCase{9, m, 1 + m%width, (m + 3) % 16,
			m % 7})
	}
	for shift := range 16 {
		for pad := range 18 {
			list = append(list, productCase{11, 7, width + 3, shift, pad})
		}
	}
	for d := range 50 {
		list = append(list, productCase{3, d, 2*width - 1, 1, 2})
	}
	return list
}

// Every product is within the error bound of its number of operations: with γ = (d+2)·ε,
//
//	|error| ≤ 2γ (|bias| + Σ|x||w|)
//
// for the difference of two orders of summation (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
func TestProductsMatchReference(t *testing.T) {
	each(t, checkReference[float32], checkReference[float64])
}

func checkReference[T dense.Float](t *testing.T, tab *Table[T]) {
	ref := Reference[T]()
	r := rand.New(rand.NewPCG(1, 2))
	var p, q Panel[T]
	for _, c := range edgeShapes(tab.Width) {
		nan := T(math.NaN())
		x, w := view(c.n, c.d, c.shift, c.pad, nan), view(c.m, c.d, 0, 0, nan)
		fillNormal(x, r)
		fillNormal(w, r)
		bias := view(1, c.m, c.shift, 0, nan)
		fillNormal(bias, r)
		b := bias.Row(0)
		if c.n%3 == 0 {
			b = nil
		}
		dst, want := view(c.n, c.m, c.shift, c.pad, T(guard)), dense.New[T](c.n, c.m)
		tab.Pack(&p, w)
		ref.Pack(&q, w)
		tab.MulT(dst, x, &p, b)
		ref.MulT(want, x, &q, b)
		checkGuards(t, dst, c.shift)
		for i := range c.n {
			for j, v := range dst.Row(i) {
				var size float64
				if b != nil {
					size = math.Abs(float64(b[j]))
				}
				for k := range c.d {
					size += math.Abs(float64(x.At(i, k)) * float64(w.At(j, k)))
				}
				bound := 2 * float64(c.d+2) * epsilon[T]() * size
				if d := math.Abs(float64(v) - float64(want.At(i, j))); !(d <= bound) {
					t.Fatalf("MulT %+v: row %d, column %d is %v, want %v (bound %.2g)", c, i, j, v, want.At(i, j),
						bound)
				}
			}
		}

		// TMul: n×m += (d×n)ᵀ·(d×m).
		a, bb := view(c.d, c.n, c.shift, c.pad, nan), view(c.d, c.m, (c.shift+5)%16, c.pad, nan)
		fillNormal(a, r)
		fillNormal(bb, r)
		fillNormal(dst, r)
		for i := range c.n {
			copy(want.Row(i), dst.Row(i))
		}
		start := want.Clone()
		tab.TMul(dst, a, bb)
		ref.TMul(want, a, bb)
		checkGuards(t, dst, c.shift)
		for i := range c.n {
			for j, v := range dst.Row(i) {
				size := math.Abs(float64(start.At(i, j)))
				for k := range c.d {
					size += math.Abs(float64(a.At(k, i)) * float64(bb.At(k, j)))
				}
				bound := 2 * float64(c.d+2) * epsilon[T]() * size
				if d := math.Abs(float64(v) - float64(want.At(i, j))); !(d <= bound) {
					t.Fatalf("TMul %+v: row %d, column %d is %v, want %v (bound %.2g)", c, i, j, v, want.At(i, j),
						bound)
				}
			}
		}
	}
}

// blockedShapes need several blocks of inputs, of columns and of rows.
func blockedShapes() []productCase {
	return []productCase{{37, 1100, 300, 3, 1}, {130, 513, 70, 0, 0}, {1, 2000, 33, 1, 0}, {600, 64, 129, 2, 9},
		{9, 300, 1100, 0, 0}}
}

// The assembly tables compute one chain of multiply-adds per output, so all of them give the same bits, at any shape.
func TestProductChains(t *testing.T) { each(t, checkChains[float32], checkChains[float64]) }

func checkChains[T dense.Float](t *testing.T, tab *Table[T]) {
	if tab.Name == Reference[T]().Name {
		t.Skip("the reference leaves the fusing to the compiler")
	}
	shapes := blockedShapes()
	if !stattest.Full() {
		shapes = shapes[:1]
	}
	shapes = append(shapes, productCase{40, 20, 65, 0, 3}, productCase{3, 1025, 17, 1, 1},
		productCase{1, 70, 1500, 0, 0})
	for _, n := range []int{1, 3, 7, 8, 15} { // every mix of tiles, tails of inputs and of columns
		for _, d := range []int{0, 1, 4, 7} {
			for _, m := range []int{1, 3, 4, 9, 16, 31, 33, 40} {
				shapes = append(shapes, productCase{n, d, m, (n + d) % 4, (n + d + m) % 4})
			}
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	var p Panel[T]
	for _, c := range shapes {
		x, w, dst := view(c.n, c.d, c.shift, c.pad, T(guard)), view(c.m, c.d, 0, 0, T(guard)),
			view(c.n, c.m, c.shift, c.pad, T(guard))
		fillNormal(x, r)
		fillNormal(w, r)
		bias := make([]T, c.m)
		for j := range bias {
			bias[j] = T(r.NormFloat64())
		}
		tab.Pack(&p, w)
		tab.MulT(dst, x, &p, bias)
		checkSame(t, fmt.Sprintf("MulT %+v", c), dst, chainMulT(x, w, bias))

		a, b := view(c.d, c.n, c.shift, c.pad, T(guard)), view(c.d, c.m, 0, c.pad, T(guard))
		fillNormal(a, r)
		fillNormal(b, r)
		want := chainTMul(dst, a, b)
		tab.TMul(dst, a, b)
		checkSame(t, fmt.Sprintf("TMul %+v", c), dst, want)
	}
}

func checkSame[T dense.Float](t *testing.T, what string, got, want dense.Matrix[T]) {
	t.Helper()
	for i := range got.Rows {
		for j, v := range got.Row(i) {
			if !same(v, want.At(i, j)) {
				t.Fatalf("%s: row %d, column %d is %v, want %v", what, i, j, v, want.At(i, j))
			}
		}
	}
}

// A row of MulT has the same bits alone, in any batch and at any place in it; TMul the same however its rows are split.
func TestProductsIgnoreBatching(t *testing.T) {
	each(t, checkBatching[float32], checkBatching[float64])
}

func checkBatching[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(5, 6))
	var p Panel[T]
	for _, c := range []productCase{{41, 64, 77, 1, 0}, {29, 700, 300, 0, 3}} {
		x, w := view(c.n, c.d, c.shift, c.pad, T(guard)), view(c.m, c.d, 0, 0, T(guard))
		fillNormal(x, r)
		fillNormal(w, r)
		tab.Pack(&p, w)
		whole, parts := dense.New[T](c.n, c.m), dense.New[T](c.n, c.m)
		tab.MulT(whole, x, &p, nil)
		for size := 1; size <= 20; size++ {
			for lo := 0; lo < c.n; lo += size {
				hi := min(lo+size, c.n)
				tab.MulT(parts.RowRange(lo, hi), x.RowRange(lo, hi), &p, nil)
			}
			checkSame(t, fmt.Sprintf("MulT by %d", size), parts, whole)
		}

		b := dense.New[T](c.n, 65)
		fillNormal(b, r)
		sum := dense.New[T](c.d, 65)
		tab.TMul(sum, x, b)
		for size := 1; size <= 20; size++ {
			parts := dense.New[T](c.d, 65)
			for lo := 0; lo < c.n; lo += size {
				hi := min(lo+size, c.n)
				tab.TMul(parts, x.RowRange(lo, hi), b.RowRange(lo, hi))
			}
			checkSame(t, fmt.Sprintf("TMul by %d", size), parts, sum)
		}
	}

	// Sums beyond the caches take another way to the same bits.
	l, m, n := 300, 517, 530
	if !stattest.Full() {
		l = 20
	}
	a, b := view(l, m, 1, 3, T(guard)), view(l, n, 0, 1, T(guard))
	fillNormal(a, r)
	fillNormal(b, r)
	whole, parts := dense.New[T](m, n), dense.New[T](m, n)
	tab.TMul(whole, a, b)
	for j := 0; j < n; j += 100 {
		end := min(j+100, n)
		tab.TMul(parts.ColRange(j, end), a, b.ColRange(j, end))
	}
	checkSame(t, "TMul by columns", parts, whole)
}

// NaN, infinities and subnormals go through as in the reference, and stay in their row and column.
func TestProductsSpecialValues(t *testing.T) { each(t, checkSpecial[float32], checkSpecial[float64]) }

func checkSpecial[T dense.Float](t *testing.T, tab *Table[T]) {
	ref := Reference[T]()
	r := rand.New(rand.NewPCG(7, 8))
	special := []T{T(math.NaN()), T(math.Inf(1)), T(math.Inf(-1)), 0, T(math.Copysign(0, -1))}
	var p, q Panel[T]
	for trial := range 200 {
		n, d, m := 1+r.IntN(20), 1+r.IntN(12), 1+r.IntN(70)
		x, w := dense.New[T](n, d), dense.New[T](m, d)
		fillNormal(x, r)
		fillNormal(w, r)
		for range 3 {
			x.Data[r.IntN(len(x.Data))] = special[r.IntN(len(special))]
			w.Data[r.IntN(len(w.Data))] = special[r.IntN(len(special))]
		}
		got, want := dense.New[T](n, m), dense.New[T](n, m)
		tab.Pack(&p, w)
		ref.Pack(&q, w)
		tab.MulT(got, x, &p, nil)
		ref.MulT(want, x, &q, nil)
		checkClass(t, fmt.Sprintf("MulT, trial %d", trial), got, want)
		got.Data[0] = T(math.NaN()) // overwritten, not added to
		s := dense.New[T](d, m)
		for i := range d {
			for j := range m {
				s.Set(i, j, w.At(j, i))
			}
		}
		tab.Product(got, x, s, false)
		checkClass(t, fmt.Sprintf("Product, trial %d", trial), got, want)

		got, want = dense.New[T](d, d), dense.New[T](d, d)
		y := x.Clone()
		y.Data[r.IntN(len(y.Data))] = special[r.IntN(3)]
		tab.TMul(got, x, y)
		ref.TMul(want, x, y)
		checkClass(t, fmt.Sprintf("TMul, trial %d", trial), got, want)
	}

	// Products of subnormal size are kept, not flushed.
	x, w := dense.New[T](9, 3), dense.New[T](40, 3)
	fillNormal(x, r)
	fillNormal(w, r)
	for i := range x.Data {
		x.Data[i] *= T(tiny[T]() * 1000)
	}
	got := dense.New[T](9, 40)
	tab.Pack(&p, w)
	tab.MulT(got, x, &p, nil)
	for i := range got.Rows {
		for j, v := range got.Row(i) {
			var s float64
			for k := range 3 {
				s += float64(x.At(i, k)) / tiny[T]() * float64(w.At(j, k))
			}
			if math.Abs(float64(v)/tiny[T]()-s) > 3 { // one unit for each operation
				t.Fatalf("subnormal row %d, column %d: %v, want %v units", i, j, v, s)
			}
		}
	}
}

// checkClass compares which values are NaN or infinite: another order of summation does not change that.
func checkClass[T dense.Float](t *testing.T, what string, got, want dense.Matrix[T]) {
	t.Helper()
	for i := range got.Rows {
		for j, v := range got.Row(i) {
			g, w := float64(v), float64(want.At(i, j))
			if math.IsNaN(g) != math.IsNaN(w) || math.IsInf(g, 1) != math.IsInf(w, 1) ||
				math.IsInf(g, -1) != math.IsInf(w, -1) {
				t.Fatalf("%s: row %d, column %d is %v, want %v", what, i, j, g, w)
			}
		}
	}
}

// Big products are checked as BLIS does, C·t against A·(B·t), with the sums in float64.
func TestBigProducts(t *testing.T) { each(t, checkBig[float32], checkBig[float64]) }

func checkBig[T dense.Float](t *testing.T, tab *Table[T]) {
	n, d, m := 300, 1100, 701
	if !stattest.Full() {
		n = 40
	}
	r := rand.New(rand.NewPCG(9, 10))
	x, w, dst := dense.New[T](n, d), dense.New[T](m, d), dense.New[T](n, m)
	fillNormal(x, r)
	fillNormal(w, r)
	probe := make([]float64, m)
	for j := range probe {
		probe[j] = r.NormFloat64()
	}
	wt, wtAbs := make([]float64, d), make([]float64, d)
	for j := range m {
		for k, v := range w.Row(j) {
			wt[k] += float64(v) * probe[j]
			wtAbs[k] += math.Abs(float64(v) * probe[j])
		}
	}
	var p Panel[T]
	tab.Pack(&p, w)
	tab.MulT(dst, x, &p, nil)
	xt, wT := dense.New[T](d, n), dense.New[T](d, m)
	for i := range n {
		for k, v := range x.Row(i) {
			xt.Set(k, i, v)
		}
	}
	for j := range m {
		for k, v := range w.Row(j) {
			wT.Set(k, j, v)
		}
	}
	sum := dense.New[T](n, m)
	tab.TMul(sum, xt, wT)
	for name, c := range map[string]dense.Matrix[T]{"MulT": dst, "TMul": sum} {
		for i := range n {
			var got, want, size float64
			for j, v := range c.Row(i) {
				got += float64(v) * probe[j]
			}
			for k, v := range x.Row(i) {
				want += float64(v) * wt[k]
				size += math.Abs(float64(v)) * wtAbs[k]
			}
			// (d+m)·ε is the bound; rounding errors are independent, so √ of it is what a correct kernel shows.
			if bound := 8 * math.Sqrt(float64(d+m)) * epsilon[T]() * size; math.Abs(got-want) > bound {
				t.Fatalf("%s row %d: C·t = %v, A·(B·t) = %v (bound %.2g)", name, i, got, want, bound)
			}
		}
	}
}

// Assembly does not check bounds: wrong shapes must panic before it runs.
func TestProductsPanicOnShapes(t *testing.T) {
	for _, tab := range Available[float64]() {
		if tab.Name == "go" {
			continue // the reference panics where the slices end
		}
		var p Panel[float64]
		tab.Pack(&p, dense.New[float64](5, 3))
		other, short := p, p
		other.Width++
		short.Data = short.Data[:len(short.Data)-1]
		m := dense.New[float64]
		cut := m(4, 3)
		cut.Data = cut.Data[:10]
		for name, f := range map[string]func(){
			"x columns":    func() { tab.MulT(m(2, 5), m(2, 4), &p, nil) },
			"dst columns":  func() { tab.MulT(m(2, 6), m(2, 3), &p, nil) },
			"dst rows":     func() { tab.MulT(m(1, 5), m(2, 3), &p, nil) },
			"bias":         func() { tab.MulT(m(2, 5), m(2, 3), &p, make([]float64, 4)) },
			"shifts":       func() { tab.MulTExp(m(2, 5), m(2, 3), &p, nil, make([]float64, 1)) },
			"fused rows":   func() { tab.MulTExp(m(1, 5), m(2, 3), &p, nil, make([]float64, 1)) },
			"fused dst":    func() { tab.MulTExp(m(8, 6), m(8, 3), &p, nil, make([]float64, 8)) },
			"fused panel":  func() { tab.MulTExp(m(8, 5), m(8, 3), &short, nil, make([]float64, 8)) },
			"fused bias":   func() { tab.MulTSinCos(m(8, 5), m(8, 5), m(8, 3), &p, make([]float64, 4), 1) },
			"sin rows":     func() { tab.MulTSinCos(m(7, 5), m(8, 5), m(8, 3), &p, nil, 1) },
			"cos columns":  func() { tab.MulTSinCos(m(8, 5), m(8, 4), m(8, 3), &p, nil, 1) },
			"sin columns":  func() { tab.MulTSinCos(m(8, 6), m(8, 6), m(8, 3), &p, nil, 1) },
			"Mul":          func() { tab.Mul(make([]float64, 9), make([]float64, 8)) },
			"SinCos":       func() { tab.SinCos(make([]float64, 8), make([]float64, 9), make([]float64, 9)) },
			"panel width":  func() { tab.MulT(m(2, 5), m(2, 3), &other, nil) },
			"panel data":   func() { tab.MulT(m(2, 5), m(2, 3), &short, nil) },
			"x data":       func() { tab.MulT(m(4, 5), cut, &p, nil) },
			"rows of a, b": func() { tab.TMul(m(2, 3), m(4, 2), m(5, 3)) },
			"dst of TMul":  func() { tab.TMul(m(3, 3), m(4, 2), m(4, 3)) },
			"rows of s":    func() { tab.Product(m(2, 3), m(2, 4), m(5, 3), false) },
			"dst rows, s":  func() { tab.Product(m(3, 3), m(2, 4), m(4, 3), false) },
			"s columns":    func() { tab.Product(m(2, 4), m(2, 4), m(4, 3), false) },
			"s data":       func() { tab.Product(m(2, 3), m(2, 4), cut, true) },
			"a data":       func() { tab.TMul(m(3, 2), cut, m(4, 2)) },
		} {
			if recovered(f) == nil {
				t.Errorf("%s: %s: no panic", tab.Name, name)
			}
		}
	}
}

// No kernel allocates, on its slow paths neither.
func TestKernelsDoNotAllocate(t *testing.T) { each(t, checkAllocs[float32], checkAllocs[float64]) }

func checkAllocs[T dense.Float](t *testing.T, tab *Table[T]) {
	x, w, dst := dense.New[T](33, 20), dense.New[T](70, 20), dense.New[T](33, 70)
	var p Panel[T]
	tab.Pack(&p, w)
	sum, ones := dense.New[T](20, 65), dense.New[T](33, 65)
	big, rows := dense.New[T](520, 520), dense.New[T](2, 520)
	bias, shift, sin := make([]T, 70), make([]T, 33), dense.New[T](33, 70)
	wide, out := dense.New[T](20, 600), dense.New[T](33, 600)
	u, v, z := make([]T, 256), make([]T, 256), make([]T, 256)
	shift[3], bias[3], u[100] = 1000, 1e6, 1e7
	if n := testing.AllocsPerRun(10, func() {
		tab.Pack(&p, w)
		tab.MulT(dst, x, &p, bias)
		tab.MulTExp(dst, x, &p, bias, shift)
		tab.MulTSinCos(sin, dst, x, &p, bias, 2)
		tab.TMul(sum, x, ones)
		tab.TMul(big, rows, rows)
		tab.Product(out, x, wide, true)
		tab.SinCos(v, z, u)
		tab.Exp(v, tab.Max(v))
		tab.Exp2(v)
		tab.Log(v)
		tab.FWHT(z)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Raw bits give every class of number; the chains must match to the bit.
func FuzzProducts(f *testing.F) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 4 {
		raw := make([]byte, 2000)
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		f.Add(raw, uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.Uint32()))
	}
	f.Fuzz(func(t *testing.T, raw []byte, n, d, m uint8) {
		fuzzProducts(t, raw, n, d, m, 4, func(b []byte) float32 {
			return math.Float32frombits(binary.LittleEndian.Uint32(b))
		})
		fuzzProducts(t, raw, n, d, m, 8, func(b []byte) float64 {
			return math.Float64frombits(binary.LittleEndian.Uint64(b))
		})
	})
}

func fuzzProducts[T dense.Float](t *testing.T, raw []byte, n, d, m uint8, size int, number func([]byte) T) {
	if len(raw) < size {
		return
	}
	fill := func(a dense.Matrix[T], from int) dense.Matrix[T] {
		for i := range a.Data {
			at := (from + i) * size % (len(raw) - size + 1)
			a.Data[i] = number(raw[at:])
		}
		return a
	}
	rows, inputs, cols := 1+int(n)%19, 1+int(d)%17, 1+int(m)%70
	x, w := fill(dense.New[T](rows, inputs), 0), fill(dense.New[T](cols, inputs), 77)
	bias := fill(dense.New[T](1, cols), 5).Data
	a, b, start := fill(dense.New[T](inputs, rows), 9), fill(dense.New[T](inputs, cols), 31),
		fill(dense.New[T](rows, cols), 3)
	want, wantSum := chainMulT(x, w, bias), chainTMul(start, a, b)
	for _, tab := range Available[T]() {
		if tab.Name == Reference[T]().Name {
			continue
		}
		var p Panel[T]
		tab.Pack(&p, w)
		dst := dense.New[T](rows, cols)
		tab.MulT(dst, x, &p, bias)
		checkSame(t, tab.Name+" MulT", dst, want)
		shift := fill(dense.New[T](1, rows), 41).Data
		for i := range rows {
			tab.Exp(dst.Row(i), shift[i])
		}
		fused := dense.New[T](rows, cols)
		tab.MulTExp(fused, x, &p, bias, shift)
		checkSame(t, tab.Name+" MulTExp", fused, dst)
		sum := start.Clone()
		tab.TMul(sum, a, b)
		checkSame(t, tab.Name+" TMul", sum, wantSum)
		prod := start.Clone()
		tab.Product(prod, x, b, true)
		checkSame(t, tab.Name+" Product", prod, chainProduct(start, x, b, true))
	}
}

// Packed panels hold every element at its place and zeros in the padding, also in memory used before.
func TestPack(t *testing.T) { each(t, checkPack[float32], checkPack[float64]) }

func checkPack[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(15, 16))
	var p, q Panel[T]
	for rows := range 2*tab.Width + 2 {
		for cols := range 6 {
			w, wt := view(rows, cols, 1, 2, T(guard)), view(cols, rows, 0, 1, T(guard))
			fillNormal(w, r)
			for i := range rows {
				for k, v := range w.Row(i) {
					wt.Set(k, i, v)
				}
			}
			for _, d := range [][]T{p.Data[:cap(p.Data)], q.Data[:cap(q.Data)]} {
				for i := range d {
					d[i] = guard
				}
			}
			tab.Pack(&p, w)
			tab.PackT(&q, wt)
			panels := (rows + tab.Width - 1) / tab.Width
			if len(p.Data) != panels*cols*tab.Width || !slices.Equal(p.Data, q.Data) ||
				uintptr(unsafe.Pointer(unsafe.SliceData(p.Data)))%64 != 0 {
				t.Fatalf("%d×%d: Pack has %d elements, PackT %d, or they differ", rows, cols, len(p.Data), len(q.Data))
			}
			for at, v := range p.Data {
				i, k := at/(cols*tab.Width)*tab.Width+at%tab.Width, at/tab.Width%cols
				if want := T(0); i < rows && v != w.At(i, k) || i >= rows && v != want {
					t.Fatalf("%d×%d: output %d, input %d is %v", rows, cols, i, k, v)
				}
			}
		}
	}
}

func TestNamed(t *testing.T) {
	if _, err := Named[float32]("sse9"); err == nil {
		t.Error("an unknown table must be an error")
	}
	ref, err := Named[float64]("go")
	if err != nil || ref.Name != "go" {
		t.Errorf("%v, %v", ref, err)
	}
	all := Available[float32]()
	best, err := Named[float32]("")
	if err != nil || best != all[0] || all[len(all)-1].Name != "go" {
		t.Errorf("best %v of %v, %v", best, all, err)
	}
	names := func(n int, name func(int) string) (list []string) {
		for i := range n {
			list = append(list, name(i))
		}
		return list
	}
	all64 := Available[float64]()
	if a, b := names(len(all), func(i int) string { return all[i].Name }),
		names(len(all64), func(i int) string { return all64[i].Name }); !slices.Equal(a, b) {
		t.Errorf("float32 has %v, float64 %v", a, b)
	}
	for _, tab := range all {
		if tab.Width < 1 || tab.MulT == nil || tab.MulTExp == nil || tab.TMul == nil || tab.Product == nil ||
			tab.Exp == nil || tab.SinCos == nil || tab.Max == nil || tab.FWHT == nil {
			t.Errorf("table %s is incomplete", tab.Name)
		}
	}
}

func TestPeakAndTriad(t *testing.T) {
	for _, tab := range Available[float32]() {
		if n := Peak(tab, 10); n < 160 {
			t.Errorf("%s: %d operations", tab.Name, n)
		}
	}
	a, b, c := make([]float64, 3), []float64{1, 2, 3}, []float64{4, 5, 6}
	if n := Triad(a, b, c, 2); n != 72 || !slices.Equal(a, []float64{9, 12, 15}) {
		t.Errorf("%d bytes, %v", n, a)
	}
}

// Package kern holds the array primitives under every feature map, as tables of functions.
//
// [Reference] in plain Go is the definition. Faster tables replace entries, never meanings; a map picks its
// table once.
package kern

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// Table is one implementation of the primitives. Slices and matrices of one call must not overlap unless said.
type Table[T dense.Float] struct {
	Name string
	// Width is the number of outputs in one panel of a packed matrix.
	Width int
	// MulT sets dst = x·wᵀ + bias, one column of dst per output of w; nil bias is zero. The bits of a row of dst do not
	// depend on the other rows, nor on how many there are.
	MulT func(dst, x dense.Matrix[T], w *Panel[T], bias []T)
	// MulTExp sets dst_ij = exp((x·wᵀ)_ij + bias_j − shift_i): the bits of MulT, then Exp of every row.
	MulTExp func(dst, x dense.Matrix[T], w *Panel[T], bias, shift []T)
	// TMul adds: dst += aᵀ·b, one row of a and b after the other. So several calls on parts of the rows, in order, give
	// the bits of one call on all.
	TMul func(dst, a, b dense.Matrix[T])
	// Product sets dst = x·s, or adds it if add. s is read as it lies, row k holding the k-th input of every output: no
	// packing. The bits of a row of dst do not depend on the other rows.
	Product func(dst, x, s dense.Matrix[T], add bool)
	// ColSum adds the rows of a to dst, one after the other.
	ColSum func(dst []T, a dense.Matrix[T])
	// MulV sets dst_i = a_i·v for the rows a_i.
	MulV func(dst []T, a dense.Matrix[T], v []T)
	// Exp sets dst_i = exp(dst_i - shift).
	Exp func(dst []T, shift T)
	// ExpSum is Exp, and returns the sum of the results.
	ExpSum func(dst []T, shift T) T
	// Exp2 sets dst_i = 2^dst_i.
	Exp2 func(dst []T)
	// Log sets dst_i = log(dst_i): -Inf for zeros, NaN below.
	Log func(dst []T)
	// SinCos sets sin_i and cos_i; t may be sin or cos itself.
	SinCos func(sin, cos, t []T)
	// Max is -Inf for no elements and NaN if one is NaN.
	Max func(x []T) T
	// FWHT is the Walsh–Hadamard transform in place, Sylvester order, not normalised; len(x) is a power of two.
	FWHT func(x []T)
	// Norm2 is Σ x_i² in float64.
	Norm2 func(x []T) float64
	// Mul sets dst_i *= a_i.
	Mul func(dst, a []T)
	// Scale sets dst_i *= f.
	Scale func(dst []T, f T)
	// Grain is the number of multiply-adds that pays for waking a goroutine: about 100 µs of work.
	Grain int
	// Structured is the number of multiply-adds of MulT that take as long as one element of a structured product (three
	// sign flips and transforms), measured by BenchmarkFastOrDense of package exec.
	Structured int
}

// Panel is a matrix packed for MulT: Rows outputs of Cols inputs as [⌈Rows/Width⌉][Cols][Width], the last panel padded
// with zeros. The data start at a multiple of 64 bytes.
type Panel[T dense.Float] struct {
	Rows, Cols, Width int
	Data              []T
}

// Pack packs w, whose rows are the outputs, into p, whose memory is reused.
func (t *Table[T]) Pack(p *Panel[T], w dense.Matrix[T]) {
	p.reset(w.Rows, w.Cols, t.Width)
	i := 0
	if t.Width%4 == 0 {
		// Four rows at a time: their elements are neighbours in the panel.
		for ; i+4 <= w.Rows; i += 4 {
			w0, w1, w2, w3 := w.Row(i), w.Row(i+1), w.Row(i+2), w.Row(i+3)
			w1, w2, w3 = w1[:len(w0)], w2[:len(w0)], w3[:len(w0)]
			at := p.output(i)
			for k, v := range w0 {
				q := p.Data[at : at+4 : at+4]
				q[0], q[1], q[2], q[3] = v, w1[k], w2[k], w3[k]
				at += t.Width
			}
		}
	}
	for ; i < w.Rows; i++ {
		at := p.output(i)
		for _, v := range w.Row(i) {
			p.Data[at] = v
			at += t.Width
		}
	}
}

// PackT packs the transpose of w, whose columns are the outputs: MulT then computes dst = x·w + bias.
func (t *Table[T]) PackT(p *Panel[T], w dense.Matrix[T]) {
	p.reset(w.Cols, w.Rows, t.Width)
	for k := range w.Rows {
		row := w.Row(k)
		for at := k * t.Width; len(row) > 0; at += w.Rows * t.Width {
			row = row[copy(p.Data[at:at+t.Width], row):]
		}
	}
}

// output is the index of the first input of output j.
func (p *Panel[T]) output(j int) int { return j/p.Width*p.Cols*p.Width + j%p.Width }

// reset makes room and clears the padding.
func (p *Panel[T]) reset(rows, cols, width int) {
	p.Rows, p.Cols, p.Width = rows, cols, width
	n := (rows + width - 1) / width * width * cols
	if cap(p.Data) < n {
		p.Data = aligned[T](n)
	}
	p.Data = p.Data[:n]
	if rows%width != 0 {
		clear(p.Data[rows/width*width*cols:])
	}
}

// aligned returns n zeros that start at a multiple of 64 bytes: vector loads then never cross a cache line.
func aligned[T dense.Float](n int) []T {
	size := int(unsafe.Sizeof(T(0)))
	buf := make([]T, n+64/size)
	off := 0
	if r := int(uintptr(unsafe.Pointer(unsafe.SliceData(buf))) % 64); r != 0 {
		off = (64 - r) / size
	}
	return buf[off : off+n : off+n]
}

// Reference is the plain Go table.
func Reference[T dense.Float]() *Table[T] {
	t := &Table[T]{Name: "go", Width: refWidth, MulT: mulT[T], TMul: tMul[T], Product: refProduct[T], ColSum: colSum[T], MulV: mulV[T], Exp: exp[T], Exp2: exp2[T], Log: logOf[T], SinCos: sinCos[T], Max: maxOf[T], FWHT: FWHT[T],
		Norm2: norm2[T], Mul: mul[T], Scale: scale[T], Grain: 200_000, Structured: 20}
	t.MulTExp = t.mulThenExp
	t.ExpSum = t.expThenSum
	return t
}

const refWidth = 4

// mulT computes four columns at a time: one load of x_k serves four products.
func mulT[T dense.Float](dst, x dense.Matrix[T], w *Panel[T], bias []T) {
	for i := range x.Rows {
		xi, di := x.Row(i), dst.Row(i)
		for j := 0; j < w.Rows; j += refWidth {
			panel := w.Data[j*w.Cols:]
			panel = panel[:refWidth*len(xi)]
			var s0, s1, s2, s3 T
			for k, v := range xi {
				q := panel[refWidth*k : refWidth*k+refWidth : refWidth*k+refWidth]
				s0 += v * q[0]
				s1 += v * q[1]
				s2 += v * q[2]
				s3 += v * q[3]
			}
			s := [refWidth]T{s0, s1, s2, s3}
			copy(di[j:], s[:])
		}
		for j, b := range bias {
			di[j] += b
		}
	}
}

// expRows rows are multiplied before their exponentials are taken: they are still in cache.
const expRows = 16

// mulThenExp is MulTExp from the entries of t.
func (t *Table[T]) mulThenExp(dst, x dense.Matrix[T], w *Panel[T], bias, shift []T) {
	checkShift(dst, shift)
	if dst.Rows != x.Rows {
		panic("kern: MulTExp of different shapes")
	}
	for i := 0; i < dst.Rows; i += expRows {
		end := min(i+expRows, dst.Rows)
		t.MulT(dst.RowRange(i, end), x.RowRange(i, end), w, bias)
		for r := i; r < end; r++ {
			t.Exp(dst.Row(r), shift[r])
		}
	}
}

func checkShift[T dense.Float](dst dense.Matrix[T], shift []T) {
	if len(shift) != dst.Rows {
		panic("kern: another number of shifts than rows")
	}
}

func tMul[T dense.Float](dst, a, b dense.Matrix[T]) {
	for i := range a.Rows {
		bi := b.Row(i)
		for k, v := range a.Row(i) {
			dk := dst.Row(k)
			for j, w := range bi {
				dk[j] += v * w
			}
		}
	}
}

func refProduct[T dense.Float](dst, x, s dense.Matrix[T], add bool) {
	if dst.Rows != x.Rows || x.Cols != s.Rows || dst.Cols != s.Cols {
		panic("kern: Product of different shapes")
	}
	for i := range x.Rows {
		di := dst.Row(i)
		if !add {
			clear(di)
		}
		for k, v := range x.Row(i) {
			for j, w := range s.Row(k) {
				di[j] += v * w
			}
		}
	}
}

func colSum[T dense.Float](dst []T, a dense.Matrix[T]) {
	if len(dst) != a.Cols {
		panic("kern: ColSum of different shapes")
	}
	for i := range a.Rows {
		for j, v := range a.Row(i) {
			dst[j] += v
		}
	}
}

func mulV[T dense.Float](dst []T, a dense.Matrix[T], v []T) {
	if len(dst) != a.Rows || len(v) != a.Cols {
		panic("kern: MulV of different shapes")
	}
	for i := range a.Rows {
		dst[i] = dense.Dot(a.Row(i), v)
	}
}

// expThenSum is ExpSum from the entries of t.
func (t *Table[T]) expThenSum(dst []T, shift T) T {
	t.Exp(dst, shift)
	var s T
	for _, v := range dst {
		s += v
	}
	return s
}

func exp[T dense.Float](dst []T, shift T) {
	for i, v := range dst {
		dst[i] = T(math.Exp(float64(v - shift)))
	}
}

func exp2[T dense.Float](dst []T) {
	for i, v := range dst {
		dst[i] = T(math.Exp2(float64(v)))
	}
}

func logOf[T dense.Float](dst []T) {
	for i, v := range dst {
		x := float64(v)
		if 0 < x && x < 0x1p-1022 { // math.Log on amd64 (Go 1.26) takes subnormal numbers for larger ones
			dst[i] = T(math.Log(x*0x1p54) - 54*math.Ln2)
			continue
		}
		dst[i] = T(math.Log(x))
	}
}

func sinCos[T dense.Float](sin, cos, t []T) {
	for i, v := range t {
		s, c := math.Sincos(float64(v))
		sin[i], cos[i] = T(s), T(c)
	}
}

func maxOf[T dense.Float](x []T) T {
	m := T(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

// FWHT is the unnormalised Walsh–Hadamard transform in Sylvester order, in place. len(x) is a power of two.
// Two butterfly levels are fused, which halves the memory traffic.
func FWHT[T dense.Float](x []T) {
	n := len(x)
	h := 1
	if bits.TrailingZeros(uint(n))%2 == 1 {
		for i := 0; i < n; i += 2 {
			x[i], x[i+1] = x[i]+x[i+1], x[i]-x[i+1]
		}
		h = 2
	}
	for ; h < n; h *= 4 {
		for i := 0; i < n; i += 4 * h {
			a, b, c, d := x[i:i+h], x[i+h:i+2*h], x[i+2*h:i+3*h], x[i+3*h:i+4*h]
			for j := range a {
				p, q := a[j]+b[j], a[j]-b[j]
				r, s := c[j]+d[j], c[j]-d[j]
				a[j], b[j], c[j], d[j] = p+r, q+s, p-r, q-s
			}
		}
	}
}

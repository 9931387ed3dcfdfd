// Package kern holds the array primitives under every feature map and attention method, as tables of functions.
//
// Get a [Table] once with [Chosen] and call its functions: pack a matrix with [Table.Pack], then multiply by it with
// MulT as often as needed. [ChosenModel] is the corresponding table for transformer models. The environment variable
// RANDFEAT_KERNEL selects a table by name; the default is the fastest that the CPU supports.
//
// [Reference], in plain Go, defines the meaning of every entry. Faster tables replace entries with assembly. Results of
// different tables agree up to rounding; within one table the bits of a row do not depend on the other rows where an
// entry says so. Callers rely on this for results that do not depend on block sizes or the number of goroutines.
//
// Limits: arguments must not overlap unless an entry allows it. Shapes that do not agree are a programming error, which
// panics or has undefined results. Assembly cannot be preempted, so callers keep single calls short.
//
// # Files
//
//	kern.go, vector.go, trig.go   Table and its definition in plain Go
//	dispatch.go, table_*.go       which tables a CPU can run, and which one is used
//	pack.go, columns.go           packed layouts: Panel for MulT, Columns for AddGram
//	mul_tile.go, mul_*_amd64.go   blocking of products around the register tiles in assembly
//	math_*.go, vector_*.go        calls of the elementwise kernels in assembly
//	scan.go                       sketches of keys, in two bits per coordinate
//	accumulate.go, finite.go      long sums in float64, search for NaN and infinities
//	model.go, blocks.go, half.go  kernels of transformer models: quantised weights, half precision
//	peak.go                       upper limits of speed, for benchmarks
//	race_*.go                     tells the race detector what assembly touches
//	_gen                          generators of the assembly files; their output is committed
package kern

import (
	"math"
	"math/bits"

	"github.com/randfeat/randfeat/dense"
)

// Table is one implementation of the primitives. Slices and matrices of one call must not overlap unless the entry says
// that they may.
//
// Entries are fields and not methods: every package that mentions a generic type compiles all of its methods again.
type Table[T dense.Float] struct {
	Name string
	// Width is the number of outputs in one panel of a packed matrix.
	Width int
	// MulT sets dst = x·wᵀ + bias, one column of dst per output of w; nil bias is zero. The bits of a row of dst do not
	// depend on the other rows, nor on how many there are.
	MulT func(dst, x dense.Matrix[T], w *Panel[T], bias []T)
	// MulTExp sets dst_ij = exp((x·wᵀ)_ij + bias_j − shift_i): the bits of MulT, then Exp of every row.
	MulTExp func(dst, x dense.Matrix[T], w *Panel[T], bias, shift []T)
	// MulTSinCos sets sin = f·sin t and cos = f·cos t for t = x·wᵀ + bias with the bits of MulT. Each result is within
	// 2 ulp, or is what SinCos and Scale give. The bits of a row do not depend on the other rows.
	MulTSinCos func(sin, cos, x dense.Matrix[T], w *Panel[T], bias []T, f T)
	// TMul sets dst += aᵀ·b, one row of a and b after the other. Several calls on consecutive parts of the rows
	// therefore give the same bits as one call on all rows.
	TMul func(dst, a, b dense.Matrix[T])
	// Product sets dst = x·s, or adds it if add. s is not packed: row k holds the k-th input of every output. The bits
	// of a row of dst do not depend on the other rows.
	Product func(dst, x, s dense.Matrix[T], add bool)
	// ColSum adds the rows of a to dst, one after the other.
	ColSum func(dst []T, a dense.Matrix[T])
	// MulV sets dst_i = a_i·v for the rows a_i.
	MulV func(dst []T, a dense.Matrix[T], v []T)
	// MulRows sets dst = a ⊙ b and sum_i to the sum of row i; dst may be a.
	MulRows func(sum []T, dst, a, b dense.Matrix[T])
	// AddDots adds the rows of a to z, one after the other, and sets dst_i = b_i·z after row i.
	AddDots func(dst, z []T, a, b dense.Matrix[T])
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
	// ExpRows is ExpSum of every row of a with its own shift: a_ij = exp(a_ij − shift_i), sum_i = Σ_j a_ij.
	ExpRows func(sum []T, a dense.Matrix[T], shift []T)
	// Max is -Inf for no elements and NaN if one is NaN.
	Max func(x []T) T
	// FlushMax sets subnormal x_i to zero, with their sign, and returns Max. A product with a subnormal number takes
	// some 150 cycles on many CPUs: a hundredth of them slows a matrix product tenfold and more.
	FlushMax func(x []T) T
	// RowMax sets dst_i to Max of row i.
	RowMax func(dst []T, a dense.Matrix[T])
	// Gather sets row i of dst to row rows_i of src.
	Gather func(dst, src dense.Matrix[T], rows []int32)
	// Above sets dst to the indices of the elements of x that are at least low, ascending, and returns how many there
	// are. dst has the length of x; its elements beyond the result are undefined.
	Above func(dst []int32, x []T, low T) int
	// Scan sets bit i of mask_b if some row of q has Σ_l code_il·q_l ≥ low for key i of block b of a sketch (scan.go).
	// q has as many columns as ScanStride, and so many numbers for every element of low. Other bits stay as they are.
	Scan func(mask []uint16, codes []byte, q []int8, low []int32)
	// FWHT is the Walsh–Hadamard transform in place, Sylvester order, not normalised; len(x) is a power of two.
	FWHT func(x []T)
	// Norm2 is Σ x_i² in float64.
	Norm2 func(x []T) float64
	// Norms sets dst_i to Norm2 of row i, with its bits.
	Norms func(dst []float64, a dense.Matrix[T])
	// Mul sets dst_i *= a_i.
	Mul func(dst, a []T)
	// Scale sets dst_i *= f.
	Scale func(dst []T, f T)
	// MulAdd sets dst_i += f·a_i.
	MulAdd func(dst, a []T, f T)
	// AbsSums sets dst_j = Σ_l |u_l − a_lj|, one row of a after the other.
	AbsSums func(dst []T, a dense.Matrix[T], u []T)
	// Widen sets dst_i += f·a_i in float64.
	Widen func(dst []float64, a []T, f float64)
	// Narrow sets dst_i = f·a_i, computed in float64.
	Narrow func(dst []T, a []float64, f float64)
	// Finite reports whether no element of x is NaN or infinite.
	Finite func(x []T) bool
	// PackAt packs w as the outputs of p from first on; first must be a multiple of 16.
	PackAt func(p *Panel[T], first int, w dense.Matrix[T])
	// PackT packs the transpose of w, whose columns are the outputs: MulT then computes dst = x·w + bias.
	PackT func(p *Panel[T], w dense.Matrix[T])
	// AddGram adds the products of columns i to iEnd−1 with columns j to jEnd−1 to that part of dst, with the bits of
	// TMul. Elements of dst below the diagonal are undefined afterwards. Concurrent calls are safe for disjoint
	// parts of dst.
	AddGram func(dst dense.Matrix[T], c *Columns[T], i, iEnd, j, jEnd int)
	// Grain is the number of multiply-adds that justifies waking a goroutine: about 100 µs of work.
	Grain int
	// Structured is the number of multiply-adds of MulT that take as long as one element of a structured product (three
	// sign flips and transforms), measured by BenchmarkFastOrDense of package exec.
	Structured int

	pack packer[T]
	// packColumns stores rows in Columns, from row first on.
	packColumns func(c *Columns[T], first int, a dense.Matrix[T])
	// gramTiles computes AddGram of columns packed in tiles of columnRows; columnRows = 0 means that there is no such
	// kernel.
	columnRows int
	gramTiles  func(dst dense.Matrix[T], c *Columns[T], i, iEnd, j, jEnd int)
}

// Reference is the plain Go table, the definition of every entry.
func Reference[T dense.Float]() *Table[T] {
	t := &Table[T]{Name: "go", Width: refWidth, MulT: mulT[T], TMul: tMul[T], Product: refProduct[T], ColSum: colSum[T],
		MulV: mulV[T], Exp: exp[T], Exp2: exp2[T], Log: logOf[T], SinCos: sinCos[T], Max: maxOf[T], FWHT: FWHT[T],
		Norm2: norm2[T], Mul: mul[T], Scale: scale[T], MulAdd: mulAdd[T], AbsSums: absSums[T], Widen: widen[T],
		Narrow: narrow[T], Gather: gather[T], Above: above[T], Scan: scan,
		Grain: 200_000, Structured: 20}
	t.MulTExp = func(dst, x dense.Matrix[T], w *Panel[T], bias, shift []T) { productThenExp(t, dst, x, w, bias, shift) }
	t.MulTSinCos = func(sin, cos, x dense.Matrix[T], w *Panel[T], bias []T, f T) {
		mulThenSinCos(t, sin, cos, x, w, bias, f)
	}
	t.MulRows = func(sum []T, dst, a, b dense.Matrix[T]) { mulThenSum(t, sum, dst, a, b) }
	t.AddDots = func(dst, z []T, a, b dense.Matrix[T]) { addThenDot(t, dst, z, a, b) }
	t.ExpSum = func(dst []T, shift T) T { return expThenSum(t, dst, shift) }
	t.ExpRows = func(sum []T, a dense.Matrix[T], shift []T) { expSumRows(t, sum, a, shift) }
	t.RowMax = func(dst []T, a dense.Matrix[T]) { maxRows(t, dst, a) }
	t.FlushMax = flushMax[T]
	t.Norms = func(dst []float64, a dense.Matrix[T]) { norm2Rows(t, dst, a) }
	t.Finite = func(x []T) bool { return finite(t, x) }
	t.PackAt = func(p *Panel[T], first int, w dense.Matrix[T]) { packAt(t, p, first, w) }
	t.PackT = func(p *Panel[T], w dense.Matrix[T]) { packT(t, p, w) }
	t.AddGram = func(dst dense.Matrix[T], c *Columns[T], i, iEnd, j, jEnd int) { addGram(t, dst, c, i, iEnd, j, jEnd) }
	t.packColumns = storeRows[T]
	return t
}

// refWidth is the panel width of the plain Go table.
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

// expRows is the number of rows that are multiplied before their exponentials are taken, while they are in cache.
const expRows = 16

// productThenExp is MulTExp from the entries of t.
func productThenExp[T dense.Float](t *Table[T], dst, x dense.Matrix[T], w *Panel[T], bias, shift []T) {
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

// mulThenSum is MulRows from the entries of t.
func mulThenSum[T dense.Float](t *Table[T], sum []T, dst, a, b dense.Matrix[T]) {
	checkMulRows(sum, dst, a, b)
	for i := range a.Rows {
		t.MulV(sum[i:i+1], a.RowRange(i, i+1), b.Row(i))
		copy(dst.Row(i), a.Row(i))
		t.Mul(dst.Row(i), b.Row(i))
	}
}

func checkMulRows[T dense.Float](sum []T, dst, a, b dense.Matrix[T]) {
	if len(sum) != a.Rows || dst.Rows != a.Rows || b.Rows != a.Rows || dst.Cols != a.Cols || b.Cols != a.Cols {
		panic("kern: MulRows of different shapes")
	}
}

// addThenDot is AddDots from the entries of t.
func addThenDot[T dense.Float](t *Table[T], dst, z []T, a, b dense.Matrix[T]) {
	checkAddDots(dst, z, a, b)
	for i := range a.Rows {
		t.MulAdd(z, a.Row(i), 1)
		t.MulV(dst[i:i+1], b.RowRange(i, i+1), z)
	}
}

func checkAddDots[T dense.Float](dst, z []T, a, b dense.Matrix[T]) {
	if len(dst) != a.Rows || len(z) != a.Cols || b.Rows != a.Rows || b.Cols != a.Cols {
		panic("kern: AddDots of different shapes")
	}
}

func gather[T dense.Float](dst, src dense.Matrix[T], rows []int32) {
	checkGather(dst, src, rows)
	for i, r := range rows {
		copy(dst.Row(i), src.Row(int(r)))
	}
}

// checkGather panics on row numbers that src does not have; assembly would read past its memory.
func checkGather[T dense.Float](dst, src dense.Matrix[T], rows []int32) {
	if len(rows) != dst.Rows || dst.Cols != src.Cols {
		panic("kern: Gather of different shapes")
	}
	var most uint32 // as uint32 negative numbers are larger than all others
	for _, r := range rows {
		most = max(most, uint32(r))
	}
	if len(rows) > 0 && int(most) >= src.Rows {
		panic("kern: Gather of rows that are not there")
	}
}

// above has no branches that depend on x: it always writes the index and moves on only if the element counts.
func above[T dense.Float](dst []int32, x []T, low T) int {
	n := 0
	dst = dst[:len(x)]
	for i, v := range x {
		dst[n] = int32(i)
		if v >= low {
			n++
		}
	}
	return n
}

// expThenSum is ExpSum from the entries of t.
func expThenSum[T dense.Float](t *Table[T], dst []T, shift T) T {
	t.Exp(dst, shift)
	var s T
	for _, v := range dst {
		s += v
	}
	return s
}

// expSumRows is ExpRows from the entries of t.
func expSumRows[T dense.Float](t *Table[T], sum []T, a dense.Matrix[T], shift []T) {
	if len(sum) != a.Rows || len(shift) != a.Rows {
		panic("kern: ExpRows of different shapes")
	}
	for i := range sum {
		sum[i] = t.ExpSum(a.Row(i), shift[i])
	}
}

// maxRows is RowMax from the entries of t.
func maxRows[T dense.Float](t *Table[T], dst []T, a dense.Matrix[T]) {
	if len(dst) != a.Rows {
		panic("kern: RowMax of different shapes")
	}
	for i := range dst {
		dst[i] = t.Max(a.Row(i))
	}
}

// norm2Rows is Norms from the entries of t.
func norm2Rows[T dense.Float](t *Table[T], dst []float64, a dense.Matrix[T]) {
	if len(dst) != a.Rows {
		panic("kern: Norms of different shapes")
	}
	for i := range dst {
		dst[i] = t.Norm2(a.Row(i))
	}
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

func flushMax[T dense.Float](x []T) T {
	least := 0x1p-126
	if is64 := T(0x1p-149)/2 != 0; is64 {
		least = 0x1p-1022
	}
	for i, v := range x {
		if v := float64(v); v > -least && v < least {
			x[i] = T(math.Copysign(0, v))
		}
	}
	return maxOf(x)
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

//go:build amd64 && !noasm

package kern

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/randfeat/randfeat/dense"
)

// modelTargets lists the tables of this CPU. AVX-512 without VNNI has the products of AVX2. The kernels of _gen/quant
// and _gen/layer cannot be preempted: one call is one tile or one row.
func modelTargets() []*Model {
	var list []*Model
	x := &cpu.X86
	if !(x.HasAVX2 && x.HasFMA && x.HasBMI2 && x.HasF16C) {
		return nil
	}
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
		t := &Model{Name: nameAVX512, SiLUMul: siluMulAVX512, GELU: geluAVX512, GELUTanh: geluTanhAVX512,
			RMSNorm: rmsNormAVX512, LayerNorm: layerNormAVX512, Rotate: rotateAVX512,
			HalfScores: halfScoresWide, HalfValues: halfValuesWide,
			quantise: quantiseWide, mulBlocks: mulBlocksNarrow}
		if x.HasAVX512VNNI {
			t.mulBlocks = mulBlocksWide
		}
		list = append(list, t)
	}
	return append(list, &Model{Name: nameAVX2, SiLUMul: siluMulAVX2, GELU: geluAVX2, GELUTanh: geluTanhAVX2,
		RMSNorm: rmsNormAVX2, LayerNorm: layerNormAVX2, Rotate: rotateAVX2,
		HalfScores: halfScoresNarrow, HalfValues: halfValuesNarrow,
		quantise: quantiseNarrow, mulBlocks: mulBlocksNarrow})
}

// raceBlocks tells the race detector which memory a product reads and writes.
func raceBlocks(dst dense.Matrix[float32], a *Acts, lo, hi int) {
	raceWrite(dst.ColRange(lo*BlockRows, min(hi*BlockRows, dst.Cols)))
	floats := len(a.Data) * int(unsafe.Sizeof(ActBlock{})) / 4
	raceRead(asRow(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(a.Data))), floats)))
}

func actsAt(a *Acts, row int) *byte { return (*byte)(unsafe.Pointer(&a.Data[row*a.Blocks()])) }

// mulBlocksWide multiplies tiles of 16 rows of weights and up to 8 tokens. A group of rows stays in the first-level
// cache while all tokens pass.
func mulBlocksWide(dst dense.Matrix[float32], a *Acts, w *Blocks, lo, hi int) {
	raceBlocks(dst, a, lo, hi)
	n := w.Blocks()
	stride := n * int(unsafe.Sizeof(ActBlock{}))
	var spare [8 * BlockRows]float32
	for g := lo; g < hi; g++ {
		wp, sp := &w.W[g*n*w.weightBytes()], &w.S[g*n*w.scales()]
		rows := min(BlockRows, w.Rows-g*BlockRows)
		for i := 0; i < a.Rows; {
			tokens := tokenTile(a.Rows-i, 8)
			out, step := &spare[0], 4*BlockRows
			if rows == BlockRows {
				out, step = &dst.Data[i*dst.Stride+g*BlockRows], 4*dst.Stride
			}
			ap := actsAt(a, i)
			switch {
			case w.Bits == 8 && tokens == 8:
				q8x8AVX512(out, step, wp, sp, ap, stride, n)
			case w.Bits == 8 && tokens == 4:
				q8x4AVX512(out, step, wp, sp, ap, stride, n)
			case w.Bits == 8 && tokens == 2:
				q8x2AVX512(out, step, wp, sp, ap, stride, n)
			case w.Bits == 8:
				q8x1AVX512(out, step, wp, sp, ap, stride, n)
			case tokens == 8:
				q4x8AVX512(out, step, wp, sp, ap, stride, n)
			case tokens == 4:
				q4x4AVX512(out, step, wp, sp, ap, stride, n)
			case tokens == 2:
				q4x2AVX512(out, step, wp, sp, ap, stride, n)
			default:
				q4x1AVX512(out, step, wp, sp, ap, stride, n)
			}
			if rows < BlockRows {
				for t := range tokens {
					copy(dst.Row(i + t)[g*BlockRows:], spare[t*BlockRows:t*BlockRows+rows])
				}
			}
			i += tokens
		}
	}
}

// mulBlocksNarrow is mulBlocksWide with tiles of 8 rows and up to 4 tokens.
func mulBlocksNarrow(dst dense.Matrix[float32], a *Acts, w *Blocks, lo, hi int) {
	raceBlocks(dst, a, lo, hi)
	n := w.Blocks()
	stride := n * int(unsafe.Sizeof(ActBlock{}))
	var spare [4 * BlockRows]float32
	for g := lo; g < hi; g++ {
		rows := min(BlockRows, w.Rows-g*BlockRows)
		for i := 0; i < a.Rows; {
			tokens := tokenTile(a.Rows-i, 4)
			ap := actsAt(a, i)
			for half := range 2 {
				wp, sp := &w.W[g*n*w.weightBytes()+32*half], &w.S[g*n*w.scales()+8*half]
				out, step := &spare[8*half], 4*BlockRows
				if rows == BlockRows {
					out, step = &dst.Data[i*dst.Stride+g*BlockRows+8*half], 4*dst.Stride
				}
				switch {
				case w.Bits == 8 && tokens == 4:
					q8x4AVX2(out, step, wp, sp, ap, stride, n)
				case w.Bits == 8 && tokens == 2:
					q8x2AVX2(out, step, wp, sp, ap, stride, n)
				case w.Bits == 8:
					q8x1AVX2(out, step, wp, sp, ap, stride, n)
				case tokens == 4:
					q4x4AVX2(out, step, wp, sp, ap, stride, n)
				case tokens == 2:
					q4x2AVX2(out, step, wp, sp, ap, stride, n)
				default:
					q4x1AVX2(out, step, wp, sp, ap, stride, n)
				}
			}
			if rows < BlockRows {
				for t := range tokens {
					copy(dst.Row(i + t)[g*BlockRows:], spare[t*BlockRows:t*BlockRows+rows])
				}
			}
			i += tokens
		}
	}
}

// tokenTile is the largest power of two up to most that left tokens fill.
func tokenTile(left, most int) int {
	for most > left {
		most /= 2
	}
	return most
}

func quantiseWide(dst []ActBlock, x []float32) {
	if checkActs(dst, x) {
		quantiseAVX512((*byte)(unsafe.Pointer(&dst[0])), &x[0], len(dst))
	}
}

func quantiseNarrow(dst []ActBlock, x []float32) {
	if checkActs(dst, x) {
		quantiseAVX2((*byte)(unsafe.Pointer(&dst[0])), &x[0], len(dst))
	}
}

func checkActs(dst []ActBlock, x []float32) bool {
	if len(x) != len(dst)*BlockCols {
		panic("kern: quantise of different lengths")
	}
	if len(dst) == 0 {
		return false
	}
	raceRead(asRow(x))
	raceWrite(asRow(unsafe.Slice((*float32)(unsafe.Pointer(&dst[0])), len(dst)*int(unsafe.Sizeof(ActBlock{}))/4)))
	return true
}

// halfBlocks bounds one call, which cannot be preempted.
const halfBlocks = 64

// checkScores panics on wrong shapes and returns the number of blocks.
func checkScores(dst []float32, stride int, q []float32, k []uint16, d int) int {
	n := 0
	if d > 0 {
		n = len(k) / (d * HalfKeys)
	}
	if n == 0 {
		return 0
	}
	if len(q) < 4*d || len(k) != n*d*HalfKeys || stride < n*HalfKeys || len(dst) < 3*stride+n*HalfKeys {
		panic("kern: HalfScores of different shapes")
	}
	raceWrite(asRow(dst))
	raceRead(asRow(q))
	return n
}

func halfScoresWide(dst []float32, stride int, q []float32, k []uint16, d int) {
	n := checkScores(dst, stride, q, k, d)
	for b := 0; b < n; b += halfBlocks {
		halfScoresAVX512(&dst[b*HalfKeys], 4*stride, &q[0], &k[b*d*HalfKeys], d, min(halfBlocks, n-b))
	}
}

func halfScoresNarrow(dst []float32, stride int, q []float32, k []uint16, d int) {
	n := checkScores(dst, stride, q, k, d)
	for b := 0; b < n; b += halfBlocks {
		halfScoresAVX2(&dst[b*HalfKeys], 4*stride, &q[0], &k[b*d*HalfKeys], d, min(halfBlocks, n-b))
	}
}

// checkValues panics on wrong shapes and returns the number of values.
func checkValues(dst, p []float32, stride int, v []uint16, d int) int {
	n := 0
	if d > 0 {
		n = len(v) / d
	}
	if n == 0 {
		return 0
	}
	if len(dst) < 4*d || len(v) != n*d || stride < n || len(p) < 3*stride+n {
		panic("kern: HalfValues of different shapes")
	}
	raceWrite(asRow(dst))
	raceRead(asRow(p))
	return n
}

func halfValuesWide(dst, p []float32, stride int, v []uint16, d int) {
	n := checkValues(dst, p, stride, v, d)
	if d%32 != 0 {
		halfValues(dst, p, stride, v, d)
		return
	}
	for j := 0; j < n; j += halfBlocks * HalfKeys {
		for c := 0; c < d; c += 32 {
			halfValuesAVX512(&dst[c], &p[j], 4*stride, &v[j*d+c], d, min(halfBlocks*HalfKeys, n-j))
		}
	}
}

func halfValuesNarrow(dst, p []float32, stride int, v []uint16, d int) {
	n := checkValues(dst, p, stride, v, d)
	if d%16 != 0 {
		halfValues(dst, p, stride, v, d)
		return
	}
	for j := 0; j < n; j += halfBlocks * HalfKeys {
		for c := 0; c < d; c += 16 {
			halfValuesAVX2(&dst[c], &p[j], 4*stride, &v[j*d+c], d, min(halfBlocks*HalfKeys, n-j))
		}
	}
}

// equal panics unless all have the length of dst, and reports whether there is something to do.
func equal(dst []float32, others ...[]float32) bool {
	for _, x := range others {
		if len(x) != len(dst) {
			panic("kern: rows of different lengths")
		}
		raceRead(asRow(x))
	}
	raceWrite(asRow(dst))
	return len(dst) > 0
}

func siluMulAVX512(dst, up []float32) {
	if equal(dst, up) {
		siluMulAVX512F32(&dst[0], &up[0], len(dst))
	}
}

func geluAVX512(x []float32) {
	if equal(x) {
		geluAVX512F32(&x[0], len(x))
	}
}

func geluTanhAVX512(x []float32) {
	if equal(x) {
		geluTanhAVX512F32(&x[0], len(x))
	}
}

func rmsNormAVX512(dst, x, w []float32, eps float32) {
	if equal(dst, x, w) {
		rmsNormAVX512F32(&dst[0], &x[0], &w[0], len(dst), eps)
	}
}

func layerNormAVX512(dst, x, w, b []float32, eps float32) {
	if equal(dst, x, w, b) {
		layerNormAVX512F32(&dst[0], &x[0], &w[0], &b[0], len(dst), eps)
	}
}

func rotateAVX512(x, y, cos, sin []float32) {
	if equal(x, y, cos, sin) {
		rotateAVX512F32(&x[0], &y[0], &cos[0], &sin[0], len(x))
	}
}

func siluMulAVX2(dst, up []float32) {
	if equal(dst, up) {
		siluMulAVX2F32(&dst[0], &up[0], len(dst))
	}
}

func geluAVX2(x []float32) {
	if equal(x) {
		geluAVX2F32(&x[0], len(x))
	}
}

func geluTanhAVX2(x []float32) {
	if equal(x) {
		geluTanhAVX2F32(&x[0], len(x))
	}
}

func rmsNormAVX2(dst, x, w []float32, eps float32) {
	if equal(dst, x, w) {
		rmsNormAVX2F32(&dst[0], &x[0], &w[0], len(dst), eps)
	}
}

func layerNormAVX2(dst, x, w, b []float32, eps float32) {
	if equal(dst, x, w, b) {
		layerNormAVX2F32(&dst[0], &x[0], &w[0], &b[0], len(dst), eps)
	}
}

func rotateAVX2(x, y, cos, sin []float32) {
	if equal(x, y, cos, sin) {
		rotateAVX2F32(&x[0], &y[0], &cos[0], &sin[0], len(x))
	}
}

//go:build amd64 && !noasm

package kern

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/randfeat/randfeat/dense"
)

// modelTargets lists the tables of this CPU. AVX-512 without VNNI has the products of AVX2.
func modelTargets() []*Model {
	var list []*Model
	x := &cpu.X86
	if !(x.HasAVX2 && x.HasFMA && x.HasBMI2 && x.HasF16C) {
		return nil
	}
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
		t := &Model{Name: nameAVX512, SiLUMul: siluMulAVX512, GELU: geluAVX512, GELUTanh: geluTanhAVX512,
			RMSNorm: rmsNormAVX512, LayerNorm: layerNormAVX512, Rotate: rotateAVX512,
			quantise: quantiseWide, mulBlocks: mulBlocksNarrow}
		if x.HasAVX512VNNI {
			t.mulBlocks = mulBlocksWide
		}
		list = append(list, t)
	}
	return append(list, &Model{Name: nameAVX2, SiLUMul: siluMulAVX2, GELU: geluAVX2, GELUTanh: geluTanhAVX2,
		RMSNorm: rmsNormAVX2, LayerNorm: layerNormAVX2, Rotate: rotateAVX2,
		quantise: quantiseNarrow, mulBlocks: mulBlocksNarrow})
}

// raceBlocks tells the race detector what a product reads and writes.
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

// Kernels of _gen/quant and _gen/layer. They cannot be preempted: one call is one tile or one row.

//go:noescape
func q8x1AVX512(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q8x2AVX512(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q8x4AVX512(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q8x8AVX512(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q4x1AVX512(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q4x2AVX512(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q4x4AVX512(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q4x8AVX512(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func quantiseAVX512(dst *byte, x *float32, blocks int)

//go:noescape
func siluMulAVX512F32(dst, up *float32, n int)

//go:noescape
func geluAVX512F32(dst *float32, n int)

//go:noescape
func geluTanhAVX512F32(dst *float32, n int)

//go:noescape
func rmsNormAVX512F32(dst, x, w *float32, n int, eps float32)

//go:noescape
func layerNormAVX512F32(dst, x, w, b *float32, n int, eps float32)

//go:noescape
func rotateAVX512F32(x, y, cos, sin *float32, n int)

//go:noescape
func q8x1AVX2(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q8x2AVX2(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q8x4AVX2(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q4x1AVX2(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q4x2AVX2(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func q4x4AVX2(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride, blocks int)

//go:noescape
func quantiseAVX2(dst *byte, x *float32, blocks int)

//go:noescape
func siluMulAVX2F32(dst, up *float32, n int)

//go:noescape
func geluAVX2F32(dst *float32, n int)

//go:noescape
func geluTanhAVX2F32(dst *float32, n int)

//go:noescape
func rmsNormAVX2F32(dst, x, w *float32, n int, eps float32)

//go:noescape
func layerNormAVX2F32(dst, x, w, b *float32, n int, eps float32)

//go:noescape
func rotateAVX2F32(x, y, cos, sin *float32, n int)

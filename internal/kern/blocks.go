package kern

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

const (
	// BlockCols is the number of columns that share a scale, BlockRows the number of rows that are interleaved.
	BlockCols, BlockRows = 32, 16
)

// Blocks is a matrix of quantised weights. Rows are interleaved in groups of 16, whose vectors the kernels read in
// order. For every group and block of 32 columns it holds
//
//	8 bits: W[8][16][4]  w + 128 of columns 4i…4i+3 of each row;  S[16] scales:            weight = s·w
//	4 bits: W[4][16][4]  columns 4i…4i+3 low, 16 more high;       S[16] scales, [16] mins: weight = s·q + m
//
// Scales and minima have half precision, because the speed of one token is the speed at which weights are read from
// memory. Rows and columns beyond the matrix are zeros.
type Blocks struct {
	Rows, Cols, Bits int
	W                []byte
	S                []uint16
}

// NewBlocks returns zero weights of 8 or 4 bits.
func NewBlocks(rows, cols, bits int) *Blocks {
	if rows < 0 || cols < 0 || bits != 4 && bits != 8 {
		panic(fmt.Sprintf("kern: %d×%d weights of %d bits", rows, cols, bits))
	}
	b := &Blocks{Rows: rows, Cols: cols, Bits: bits}
	n := b.Groups() * b.Blocks()
	b.W, b.S = alignedBytes(n*b.weightBytes()), alignedHalves(n*b.scales())
	if bits == 8 {
		for i := range b.W {
			b.W[i] = 128
		}
	}
	return b
}

// Groups is the number of groups of rows.
func (b *Blocks) Groups() int { return (b.Rows + BlockRows - 1) / BlockRows }

// Blocks is the number of blocks of a row.
func (b *Blocks) Blocks() int { return (b.Cols + BlockCols - 1) / BlockCols }

func (b *Blocks) weightBytes() int { return BlockRows * BlockCols * b.Bits / 8 }

func (b *Blocks) scales() int { return BlockRows * 8 / b.Bits }

// Size is the memory of the weights in bytes.
func (b *Blocks) Size() int { return len(b.W) + 2*len(b.S) }

// Set8 stores one block of a row of 8-bit weights.
func (b *Blocks) Set8(row, block int, scale uint16, w *[BlockCols]int8) {
	at := row/BlockRows*b.Blocks() + block
	r := row % BlockRows
	b.S[at*BlockRows+r] = scale
	dst := b.W[at*512 : at*512+512]
	for c, v := range w {
		dst[c/4*64+4*r+c%4] = byte(v) ^ 0x80
	}
}

// Set4 stores one block of a row of 4-bit weights, q < 16.
func (b *Blocks) Set4(row, block int, scale, least uint16, q *[BlockCols]byte) {
	at := row/BlockRows*b.Blocks() + block
	r := row % BlockRows
	b.S[at*2*BlockRows+r], b.S[at*2*BlockRows+BlockRows+r] = scale, least
	dst := b.W[at*256 : at*256+256]
	for c := range 16 {
		dst[c/4*64+4*r+c%4] = q[c]&15 | q[c+16]<<4
	}
}

// SetRow quantises a row of float32 weights: 8 bits by the largest magnitude of a block, 4 bits by its range.
func (b *Blocks) SetRow(row int, x []float32) {
	var part [BlockCols]float32
	for i := range b.Blocks() {
		clear(part[copy(part[:], x[i*BlockCols:]):])
		if b.Bits == 8 {
			var q [BlockCols]int8
			b.Set8(row, i, quantise8(&q, &part), &q)
			continue
		}
		var q [BlockCols]byte
		lo, hi := part[0], part[0]
		for _, v := range part {
			lo, hi = min(lo, v), max(hi, v)
		}
		scale, least := ToHalf((hi-lo)/15), ToHalf(lo)
		if s := FromHalf(scale); s > 0 {
			for c, v := range part {
				q[c] = byte(max(0, min(15, math.RoundToEven(float64((v-FromHalf(least))/s)))))
			}
		}
		b.Set4(row, i, scale, least, &q)
	}
}

// quantise8 quantises x by its largest magnitude and returns the scale. It divides by the scale as it is stored, in
// half precision.
func quantise8(q *[BlockCols]int8, x *[BlockCols]float32) uint16 {
	var top float32
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	scale := ToHalf(top / 127)
	s := FromHalf(scale)
	if !(s > 0) {
		clear(q[:])
		return scale
	}
	for c, v := range x {
		q[c] = int8(max(-127, min(127, math.RoundToEven(float64(v/s)))))
	}
	return scale
}

// Row sets dst to the weights of a row.
func (b *Blocks) Row(dst []float32, row int) {
	r := row % BlockRows
	for i := range b.Blocks() {
		at := row/BlockRows*b.Blocks() + i
		out := dst[i*BlockCols : min(len(dst), (i+1)*BlockCols)]
		if b.Bits == 8 {
			s, w := FromHalf(b.S[at*BlockRows+r]), b.W[at*512:at*512+512]
			for c := range out {
				out[c] = s * float32(int8(w[c/4*64+4*r+c%4]^0x80))
			}
			continue
		}
		s, m := FromHalf(b.S[at*2*BlockRows+r]), FromHalf(b.S[at*2*BlockRows+BlockRows+r])
		w := b.W[at*256 : at*256+256]
		for c := range out {
			q := w[c%16/4*64+4*r+c%4] >> (c / 16 * 4) & 15
			out[c] = s*float32(q) + m
		}
	}
}

// ActBlock is 32 activations in 8 bits: x ≈ Scale·Q. Assembly depends on the layout of this struct.
type ActBlock struct {
	Q     [BlockCols]int8
	Scale float32
	Sum   float32 // Scale·Σ Q: multiplies the minima of 4-bit weights
	Neg   int32   // −128·Σ Q: undoes the offset of 8-bit weights
	_     int32
}

// Acts are rows of quantised activations.
type Acts struct {
	Rows, Cols int
	Data       []ActBlock
	tail       [BlockCols]float32
}

// Resize makes room for rows×cols activations of arbitrary content.
func (a *Acts) Resize(rows, cols int) {
	a.Rows, a.Cols = rows, cols
	n := rows * a.Blocks()
	if cap(a.Data) < n {
		a.Data = make([]ActBlock, n)
	}
	a.Data = a.Data[:n]
}

// Blocks is the number of blocks of a row.
func (a *Acts) Blocks() int { return (a.Cols + BlockCols - 1) / BlockCols }

// QuantiseRow quantises x into row i of a. Concurrent calls for different rows are safe if Cols is a multiple of 32.
func (t *Model) QuantiseRow(a *Acts, i int, x []float32) {
	if len(x) != a.Cols {
		panic("kern: QuantiseRow of another length")
	}
	n, full := a.Blocks(), a.Cols/BlockCols
	row := a.Data[i*n : (i+1)*n]
	t.quantise(row[:full], x[:full*BlockCols])
	if full < n {
		clear(a.tail[copy(a.tail[:], x[full*BlockCols:]):])
		t.quantise(row[full:], a.tail[:])
	}
}

// MulBlocks sets the columns of dst that belong to groups [lo, hi) of w to the products of the rows of a and w.
// Concurrent calls are safe for disjoint groups. The bits of an element depend only on its row of a and its row of w.
func (t *Model) MulBlocks(dst dense.Matrix[float32], a *Acts, w *Blocks, lo, hi int) {
	if dst.Rows != a.Rows || dst.Cols != w.Rows || a.Cols != w.Cols || lo < 0 || hi > w.Groups() {
		panic("kern: MulBlocks of different shapes")
	}
	if err := dst.Check(); err != nil {
		panic("kern: MulBlocks: " + err.Error())
	}
	if a.Rows == 0 || lo >= hi {
		return
	}
	if a.Cols == 0 {
		for i := range dst.Rows {
			clear(dst.Row(i)[lo*BlockRows : min(hi*BlockRows, dst.Cols)])
		}
		return
	}
	t.mulBlocks(dst, a, w, lo, hi)
}

// mulBlocks is the definition of MulBlocks in plain Go. Products inside a block are exact integers; blocks are added in
// float32, in order.
func mulBlocks(dst dense.Matrix[float32], a *Acts, w *Blocks, lo, hi int) {
	n := w.Blocks()
	for g := lo; g < hi; g++ {
		rows := min(BlockRows, w.Rows-g*BlockRows)
		for i := range a.Rows {
			var sum [BlockRows]float32
			for b := range n {
				x, at := &a.Data[i*n+b], g*n+b
				var dot [BlockRows]int32
				if w.Bits == 8 {
					for c := range BlockCols {
						v := int32(x.Q[c])
						for r, q := range w.W[at*512+c/4*64 : at*512+c/4*64+64] {
							if r%4 == c%4 {
								dot[r/4] += v * int32(int8(q^0x80))
							}
						}
					}
					for r := range sum {
						sum[r] += FromHalf(w.S[at*BlockRows+r]) * (float32(dot[r]) * x.Scale)
					}
					continue
				}
				for c := range BlockCols / 2 {
					lo, hi := int32(x.Q[c]), int32(x.Q[c+16])
					q := w.W[at*256+c/4*64+c%4 : at*256+c/4*64+64]
					for r := range dot {
						dot[r] += lo*int32(q[4*r]&15) + hi*int32(q[4*r]>>4)
					}
				}
				for r := range sum {
					sum[r] += FromHalf(w.S[at*2*BlockRows+r]) * (float32(dot[r]) * x.Scale)
					sum[r] += FromHalf(w.S[at*2*BlockRows+BlockRows+r]) * x.Sum
				}
			}
			copy(dst.Row(i)[g*BlockRows:], sum[:rows])
		}
	}
}

// quantise is the definition of QuantiseRow in plain Go. A block with NaN or an infinity gets a scale that is not
// finite.
func quantise(dst []ActBlock, x []float32) {
	for b := range dst {
		d := &dst[b]
		var bits uint32
		part := x[b*BlockCols : (b+1)*BlockCols]
		for _, v := range part {
			bits = max(bits, math.Float32bits(v)&^(1<<31))
		}
		top := math.Float32frombits(bits)
		var inverse float32
		d.Scale = 0
		if !(top < 0x1p-100) {
			inverse, d.Scale = 127/top, top/127
		}
		var sum int32
		for c, v := range part {
			q := math.RoundToEven(float64(v * inverse))
			if !(q >= -128 && q <= 127) {
				q = -128 // NaN
			}
			d.Q[c] = int8(q)
			sum += int32(d.Q[c])
		}
		d.Sum, d.Neg = d.Scale*float32(sum), -128*sum
	}
}

func alignedBytes(n int) []byte {
	f := aligned[float32]((n + 3) / 4)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), len(f)*4)[:n:n]
}

func alignedHalves(n int) []uint16 {
	b := alignedBytes(2 * n)
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

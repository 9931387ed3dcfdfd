package nn

import (
	"encoding/binary"

	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/models/weights"
)

// Repack converts a tensor to kern.Blocks. Q8_0, Q5_0, Q4_0 and Q4_1 keep their bits. The scales and minima of Q4_K are
// products, which are rounded to half precision. All other types are rounded to 8 bits. For Q6_K this loses less
// than its own rounding did, although 32 numbers then share the larger of two scales.
func Repack(t weights.Tensor) *kern.Blocks {
	bits := 8
	if t.Type == weights.Q4_0 || t.Type == weights.Q4_1 || t.Type == weights.Q4_K {
		bits = 4
	}
	w := kern.NewBlocks(t.Rows(), t.Cols(), bits)
	par.For(w.Groups(), 4, func(lo, hi int) {
		row := make([]float32, t.Cols())
		for i := lo * kern.BlockRows; i < min(hi*kern.BlockRows, w.Rows); i++ {
			b := t.Data[i*t.RowBytes() : (i+1)*t.RowBytes()]
			switch t.Type {
			case weights.Q8_0:
				repackQ8_0(w, i, b)
			case weights.Q5_0:
				repackQ5_0(w, i, b)
			case weights.Q4_0:
				repackQ4_0(w, i, b)
			case weights.Q4_1:
				repackQ4_1(w, i, b)
			case weights.Q4_K:
				repackQ4_K(w, i, b)
			default:
				t.Row(row, i)
				w.SetRow(i, row)
			}
		}
	})
	return w
}

func repackQ8_0(w *kern.Blocks, row int, b []byte) {
	for i := range w.Blocks() {
		block := b[34*i : 34*i+34]
		var q [kern.BlockCols]int8
		for c, v := range block[2:] {
			q[c] = int8(v)
		}
		w.Set8(row, i, binary.LittleEndian.Uint16(block), &q)
	}
}

func repackQ5_0(w *kern.Blocks, row int, b []byte) {
	for i := range w.Blocks() {
		block := b[22*i : 22*i+22]
		low, high := nibbles(block[6:]), binary.LittleEndian.Uint32(block[2:])
		var q [kern.BlockCols]int8
		for c, v := range low {
			q[c] = int8(v|byte(high>>c&1)<<4) - 16
		}
		w.Set8(row, i, binary.LittleEndian.Uint16(block), &q)
	}
}

// nibbles returns the low nibbles of 16 bytes, then their high nibbles.
func nibbles(b []byte) (q [kern.BlockCols]byte) {
	for c, v := range b[:16] {
		q[c], q[c+16] = v&15, v>>4
	}
	return q
}

func repackQ4_0(w *kern.Blocks, row int, b []byte) {
	for i := range w.Blocks() {
		block := b[18*i : 18*i+18]
		scale, q := binary.LittleEndian.Uint16(block), nibbles(block[2:])
		w.Set4(row, i, scale, kern.ToHalf(-8*kern.FromHalf(scale)), &q)
	}
}

func repackQ4_1(w *kern.Blocks, row int, b []byte) {
	for i := range w.Blocks() {
		block := b[20*i : 20*i+20]
		q := nibbles(block[4:])
		w.Set4(row, i, binary.LittleEndian.Uint16(block), binary.LittleEndian.Uint16(block[2:]), &q)
	}
}

// repackQ4_K follows weights.Decode: 8 blocks of 32 in 144 bytes, with scales and minima of 6 bits.
func repackQ4_K(w *kern.Blocks, row int, b []byte) {
	for i := range w.Blocks() {
		super, n := b[i/8*144:i/8*144+144], i%8
		scale := kern.FromHalf(binary.LittleEndian.Uint16(super))
		least := kern.FromHalf(binary.LittleEndian.Uint16(super[2:]))
		packed := super[4:16]
		var s, m byte
		if n < 4 {
			s, m = packed[n]&63, packed[n+4]&63
		} else {
			s, m = packed[n+4]&15|packed[n-4]>>6<<4, packed[n+4]>>4|packed[n]>>6<<4
		}
		var q [kern.BlockCols]byte
		for c, v := range super[16+n/2*32 : 48+n/2*32] {
			q[c] = v >> (4 * (n & 1)) & 15
		}
		w.Set4(row, i, kern.ToHalf(scale*float32(s)), kern.ToHalf(-least*float32(m)), &q)
	}
}

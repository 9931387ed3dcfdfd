package kern

import (
	"math"
)

// A sketch of keys has a code of two bits for every coordinate of a key. The codes of ScanKeys keys are a block. A
// block has a vector of 64 bytes for every 16 columns. In vector t, byte 4i+r holds columns 16t+4s+r of key i in the
// bits 2s and 2s+1, for s from 0 to 3: four neighbouring columns of a key are the bytes of one 32-bit lane.

// ScanKeys is the number of keys in a block of a sketch.
const ScanKeys = 16

const (
	scanColumns = 16 // of a vector of codes
	scanBytes   = 64
)

// ScanStride is the number of columns of a query for keys with d coordinates. The further columns must be zero.
func ScanStride(d int) int { return (d + scanColumns - 1) / scanColumns * scanColumns }

// ScanBlocks is the number of blocks of n keys.
func ScanBlocks(n int) int { return (n + ScanKeys - 1) / ScanKeys }

// ScanSize is the number of bytes of the sketch of n keys with d coordinates.
func ScanSize(n, d int) int { return ScanBlocks(n) * ScanStride(d) / scanColumns * scanBytes }

// PutCode writes the code of coordinate l, from 0 to 3, of key j. The bits must be zero before.
func PutCode(codes []byte, stride, j, l int, code byte) {
	block, i := j/ScanKeys, j%ScanKeys
	t, s, r := l/scanColumns, l%scanColumns/4, l%4
	codes[(block*(stride/scanColumns)+t)*scanBytes+4*i+r] |= code << (2 * s)
}

// ScanQuery writes integers near f·x_l to dst and returns f, so that the largest has the magnitude 127, and their sum.
// f is 0 if x is zero, and NaN if a number is not finite; dst is then zero.
func ScanQuery(dst []int8, x []float32) (f float64, sum int) {
	clear(dst)
	dst = dst[:len(x)]
	top, nan := 0.0, false
	for _, v := range x {
		a := math.Abs(float64(v))
		if a > top {
			top = a
		}
		nan = nan || v != v
	}
	switch {
	case nan || top > math.MaxFloat64:
		return math.NaN(), 0
	case top < 0x1p-100: // 127/top might be beyond the range of float32
		return 0, 0
	}
	f = 127 / top
	by := float32(f)
	for l, v := range x {
		c := int32(v*by+128.5) - 128 // the conversion cuts off
		dst[l] = int8(c)
		sum += int(c)
	}
	return f, sum
}

// scan is Table.Scan. It adds up the products of a key by the bytes of its codes.
func scan(mask []uint16, codes []byte, q []int8, low []int32) {
	rows, stride := checkScan(mask, codes, q, low)
	if rows == 0 {
		return
	}
	vectors := stride / scanColumns
	for b := range mask {
		for i := range ScanKeys {
			for r := range rows {
				row, sum := q[r*stride:(r+1)*stride], int32(0)
				for t := range vectors {
					at := (b*vectors+t)*scanBytes + 4*i
					for j, c := range codes[at : at+4] {
						x := row[t*scanColumns+j : t*scanColumns+j+13]
						sum += int32(c&3)*int32(x[0]) + int32(c>>2&3)*int32(x[4]) + int32(c>>4&3)*int32(x[8]) +
							int32(c>>6)*int32(x[12])
					}
				}
				if sum >= low[r] {
					mask[b] |= 1 << i
					break
				}
			}
		}
	}
}

// checkScan returns the number of rows of q and its columns. It panics if the shapes do not agree.
func checkScan(mask []uint16, codes []byte, q []int8, low []int32) (rows, stride int) {
	if rows = len(low); rows == 0 {
		return 0, 0
	}
	stride = len(q) / rows
	if stride == 0 || stride%scanColumns != 0 || len(q) != rows*stride ||
		len(codes) != len(mask)*stride/scanColumns*scanBytes {
		panic("kern: Scan of different shapes")
	}
	return rows, stride
}

// scanKernel is a generated kernel for a number of rows.
type scanKernel func(mask *uint16, codes *byte, q *int8, low *int32, stride, blocks int)

// scanCall bounds the bytes of codes that one call of a kernel reads, because assembly cannot be preempted.
const scanCall = 1 << 18

// scanWith returns Table.Scan with kernels for 1, 2, … rows.
func scanWith(kernels ...scanKernel) func(mask []uint16, codes []byte, q []int8, low []int32) {
	return func(mask []uint16, codes []byte, q []int8, low []int32) {
		rows, stride := checkScan(mask, codes, q, low)
		size := stride / scanColumns * scanBytes
		for r := 0; r < rows; r += len(kernels) {
			n := min(len(kernels), rows-r)
			for b := 0; b < len(mask); {
				m := min(max(1, scanCall/size), len(mask)-b)
				kernels[n-1](&mask[b], &codes[b*size], &q[r*stride], &low[r], stride, m)
				b += m
			}
		}
	}
}

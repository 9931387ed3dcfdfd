package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go/format"
)

// values are the values of a page or a dictionary. Numbers are decoded from the page on access, so they need no
// memory beyond the page.
type values struct {
	n       int
	kind    format.Type
	width   int    // bytes of a value; 0: texts or ints
	raw     []byte // little-endian values of equal width, or the bytes of texts
	ints    []int64
	offsets []uint32 // text i is raw[offsets[i]:ends[i]]
	ends    []uint32
	held    int64 // bytes charged to the budget
}

// booleans are the values that the bits of a page of booleans index.
var booleans = &values{n: 2, kind: format.Boolean, ints: []int64{0, 1}}

// text returns value i of texts, or the bytes of a value of fixed length.
func (v *values) text(i int) []byte {
	if v.width > 0 {
		return v.raw[i*v.width : (i+1)*v.width]
	}
	return v.raw[v.offsets[i]:v.ends[i]]
}

// int returns value i of integers.
func (v *values) int(i int) int64 {
	switch {
	case v.ints != nil:
		return v.ints[i]
	case v.kind == format.Int32:
		return int64(int32(binary.LittleEndian.Uint32(v.raw[4*i:])))
	}
	return int64(binary.LittleEndian.Uint64(v.raw[8*i:]))
}

// float returns value i of floats.
func (v *values) float(i int) float64 {
	if v.kind == format.Float {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw[4*i:])))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(v.raw[8*i:]))
}

// widthOf is the number of bytes of a value of fixed size, else 0.
func (c *column) widthOf() int {
	switch c.kind {
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	case format.Int96:
		return 12
	case format.FixedLenByteArray:
		return c.length
	}
	return 0
}

// decode reads n values in an encoding of the specification (Encodings.md of apache/parquet-format). It checks
// n against len(b) and charges the budget before it allocates anything proportional to n.
func (c *column) decode(e format.Encoding, b []byte, n int, budget *budget) (*values, error) {
	v := &values{n: n, kind: c.kind, width: c.widthOf()}
	if n == 0 {
		return v, nil
	}
	texts := c.kind == format.ByteArray || c.kind == format.FixedLenByteArray
	switch {
	case e == format.Plain && v.width > 0, e == format.ByteStreamSplit && v.width > 0:
		if int64(len(b)) < int64(n)*int64(v.width) {
			return nil, io.ErrUnexpectedEOF
		}
		if v.raw = b; e == format.Plain {
			return v, nil
		}
		if len(b) != n*v.width {
			return nil, fmt.Errorf("%d bytes of %d split values", len(b), n)
		}
		if err := budget.take(&v.held, int64(len(b))); err != nil {
			return nil, err
		}
		v.raw = unsplit(b, v.width, n)
		return v, nil
	case e == format.Plain && c.kind == format.ByteArray:
		return v, v.plainTexts(b, budget)
	case e == format.DeltaBinaryPacked && (c.kind == format.Int32 || c.kind == format.Int64):
		var err error
		if v.ints, _, err = deltas(b, n, &v.held, budget); err == nil && c.kind == format.Int32 {
			for i, x := range v.ints {
				v.ints[i] = int64(int32(x)) // differences wrap around in the type of the column
			}
		}
		return v, err
	case e == format.DeltaLengthByteArray && c.kind == format.ByteArray:
		return v, v.lengthTexts(b, budget)
	case e == format.DeltaByteArray && texts:
		return v, v.prefixTexts(b, budget)
	}
	return nil, fmt.Errorf("values of type %v in encoding %v", c.kind, e)
}

// plainTexts reads texts that follow their lengths (PLAIN).
func (v *values) plainTexts(b []byte, budget *budget) error {
	if len(b) < 4*v.n { // before anything of that size is allocated
		return io.ErrUnexpectedEOF
	}
	if err := v.makeOffsets(budget); err != nil {
		return err
	}
	v.raw = b
	at := 0
	for i := range v.n {
		if len(b)-at < 4 || int64(binary.LittleEndian.Uint32(b[at:])) > int64(len(b)-at-4) {
			return io.ErrUnexpectedEOF
		}
		n := int(binary.LittleEndian.Uint32(b[at:]))
		v.offsets[i], v.ends[i] = uint32(at+4), uint32(at+4+n)
		at += 4 + n
	}
	return nil
}

func (v *values) makeOffsets(budget *budget) error {
	if err := budget.take(&v.held, 8*int64(v.n)); err != nil {
		return err
	}
	v.offsets, v.ends = make([]uint32, v.n), make([]uint32, v.n)
	return nil
}

// lengthTexts reads all lengths, then all texts (DELTA_LENGTH_BYTE_ARRAY).
func (v *values) lengthTexts(b []byte, budget *budget) error {
	lengths, rest, err := deltas(b, v.n, &v.held, budget)
	if err != nil {
		return err
	}
	if err := v.makeOffsets(budget); err != nil {
		return err
	}
	v.raw = rest
	at := int64(0)
	for i, n := range lengths {
		if n < 0 || n > int64(len(rest))-at {
			return fmt.Errorf("a text of %d bytes, %d are left", n, int64(len(rest))-at)
		}
		v.offsets[i], v.ends[i] = uint32(at), uint32(at+n)
		at += n
	}
	return nil
}

// prefixTexts reads the lengths of the prefix that each text shares with the previous one, then the lengths and
// texts of the suffixes (DELTA_BYTE_ARRAY). A few bytes can stand for very long texts, so their total is
// computed and charged before they are built.
func (v *values) prefixTexts(b []byte, budget *budget) error {
	prefixes, b, err := deltas(b, v.n, &v.held, budget)
	if err != nil {
		return err
	}
	lengths, b, err := deltas(b, v.n, &v.held, budget)
	if err != nil {
		return err
	}
	total, before, left := int64(0), int64(0), int64(len(b))
	for i, p := range prefixes {
		n := lengths[i]
		if p < 0 || p > before || n < 0 || n > left {
			return fmt.Errorf("a text of %d bytes and %d of the one before, which has %d; %d are left", n, p, before, left)
		}
		if v.width > 0 && p+n != int64(v.width) {
			return fmt.Errorf("a value of %d bytes, want %d", p+n, v.width)
		}
		before, left = p+n, left-n
		if total += before; total > math.MaxInt32 {
			return fmt.Errorf("texts of more than %d bytes in one page", math.MaxInt32)
		}
	}
	if err := budget.take(&v.held, total); err != nil {
		return err
	}
	if err := v.makeOffsets(budget); err != nil {
		return err
	}
	v.raw = make([]byte, 0, total)
	last := 0 // where the previous text begins
	for i, p := range prefixes {
		at := len(v.raw)
		v.raw = append(append(v.raw, v.raw[last:last+int(p)]...), b[:lengths[i]]...)
		b = b[lengths[i]:]
		v.offsets[i], v.ends[i] = uint32(at), uint32(len(v.raw))
		last = at
	}
	return nil
}

// unsplit gathers the bytes of values that are stored as all first bytes, then all second bytes
// (BYTE_STREAM_SPLIT).
func unsplit(b []byte, width, n int) []byte {
	out := make([]byte, len(b))
	for j := range width {
		for i, x := range b[j*n : (j+1)*n] {
			out[i*width+j] = x
		}
	}
	return out
}

// deltas reads n delta-encoded numbers (DELTA_BINARY_PACKED) and returns the bytes after them. The layout is:
// block size, number of parts per block, number of values, first value; then blocks, each with its smallest
// difference, a bit width per part, and the differences minus the smallest one.
func deltas(b []byte, n int, held *int64, budget *budget) (out []int64, rest []byte, err error) {
	var head [3]uint64
	for i := range head {
		var k int
		if head[i], k = binary.Uvarint(b); k <= 0 {
			return nil, nil, io.ErrUnexpectedEOF
		}
		b = b[k:]
	}
	first, k := binary.Varint(b)
	size, parts := head[0], head[1]
	switch {
	case k <= 0:
		return nil, nil, io.ErrUnexpectedEOF
	case head[2] != uint64(n):
		return nil, nil, fmt.Errorf("%d values, want %d", head[2], n)
	case size == 0 || size > 1<<20 || parts == 0 || parts > size || size%parts != 0 || size/parts%8 != 0:
		return nil, nil, fmt.Errorf("blocks of %d differences in %d parts", size, parts)
	}
	b = b[k:]
	if n == 0 {
		return nil, b, nil
	}
	// A part of equal differences takes one byte, for its bit width. So b bounds n before memory is allocated.
	if most := (uint64(len(b)) + 1) * (size / parts); uint64(n) > most+1 {
		return nil, nil, fmt.Errorf("%d values in %d bytes", n, len(b))
	}
	if err := budget.take(held, 8*int64(n)); err != nil {
		return nil, nil, err
	}
	out = append(make([]int64, 0, n), first)
	for value, each := first, int(size/parts); len(out) < n; {
		least, k := binary.Varint(b)
		if k <= 0 || len(b)-k < int(parts) {
			return nil, nil, io.ErrUnexpectedEOF
		}
		widths := b[k : k+int(parts)]
		b = b[k+int(parts):]
		for _, bits := range widths {
			if len(out) == n {
				break // parts without values are not written
			}
			if bits > 64 || len(b) < each/8*int(bits) {
				return nil, nil, io.ErrUnexpectedEOF
			}
			word := b[:each/8*int(bits)]
			b = b[len(word):]
			for i := range min(each, n-len(out)) {
				value += least + int64(bitsAt(word, i*int(bits), int(bits)))
				out = append(out, value)
			}
		}
	}
	return out, b, nil
}

// bitsAt reads a number of some bits starting at bit at, lowest bit first.
func bitsAt(b []byte, at, bits int) (x uint64) {
	if i := at / 8; bits <= 56 && i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:]) >> (at % 8) & (1<<bits - 1)
	}
	for got := 0; got < bits; {
		c := uint64(b[(at+got)/8]) >> ((at + got) % 8)
		x |= c << got
		got += 8 - (at+got)%8
	}
	if bits < 64 {
		x &= 1<<bits - 1
	}
	return x
}

// runs are numbers of fixed bit width in the RLE/bit-packing hybrid: an even header is twice the length of a
// run of one value, an odd header twice the number of bit-packed groups of eight, plus one. They are decoded on
// demand, because a few bytes can stand for any number of values.
type runs struct {
	b    []byte
	bits int

	same  int    // numbers left of a run of one value
	value uint32 // the value of that run
	word  []byte // packed numbers
	at    int    // bit offset in word
	left  int    // packed numbers left
}

// packedRun is n numbers packed bit by bit, without headers.
func packedRun(b []byte, bits, n int) runs {
	return runs{word: b, bits: bits, left: min(n, len(b)*8/bits)}
}

// read reads len(dst) numbers.
func (r *runs) read(dst []uint32) error {
	for len(dst) > 0 {
		switch {
		case r.same > 0:
			n := min(r.same, len(dst))
			for i := range n {
				dst[i] = r.value
			}
			dst, r.same = dst[n:], r.same-n
		case r.left > 0:
			n := min(r.left, len(dst))
			for i := range n {
				dst[i] = uint32(bitsAt(r.word, r.at, r.bits))
				r.at += r.bits
			}
			dst, r.left = dst[n:], r.left-n
		default:
			if err := r.header(); err != nil {
				return err
			}
		}
	}
	return nil
}

// header begins the next run.
func (r *runs) header() error {
	if r.bits > 32 {
		return fmt.Errorf("numbers of %d bits", r.bits)
	}
	head, k := binary.Uvarint(r.b)
	if k <= 0 {
		return io.ErrUnexpectedEOF
	}
	r.b = r.b[k:]
	if head&1 == 0 {
		size := (r.bits + 7) / 8
		if len(r.b) < size {
			return io.ErrUnexpectedEOF
		}
		r.value = 0
		for i, c := range r.b[:size] {
			r.value |= uint32(c) << (8 * i)
		}
		if uint64(r.value)>>r.bits != 0 {
			return fmt.Errorf("%d in %d bits", r.value, r.bits)
		}
		r.b, r.same = r.b[size:], int(min(head>>1, math.MaxInt32))
		return nil
	}
	r.left = int(min(head>>1, math.MaxInt32)) * 8
	if r.bits > 0 { // some writers leave out the padding of the last group
		r.left = min(r.left, len(r.b)*8/r.bits)
	}
	n := min((r.left*r.bits+7)/8, len(r.b))
	r.word, r.at, r.b = r.b[:n], 0, r.b[n:]
	return nil
}

// count returns how many of the next n one-bit numbers are 1. It works on a copy and consumes nothing.
func (r runs) count(n int) (ones int, err error) {
	var buf [1024]uint32
	for n > 0 {
		if r.same > 0 {
			k := min(r.same, n)
			ones, n, r.same = ones+k*int(r.value), n-k, r.same-k
			continue
		}
		k := min(n, len(buf))
		if r.left > 0 {
			k = min(k, r.left)
		} else if err := r.header(); err != nil {
			return 0, err
		} else {
			continue
		}
		if err := r.read(buf[:k]); err != nil {
			return 0, err
		}
		for _, x := range buf[:k] {
			ones += int(x)
		}
		n -= k
	}
	return ones, nil
}

package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// values are decoded cells: integers, floats or texts, according to the type of the column.
type values struct {
	ints    []int64
	floats  []float64
	text    []byte
	offsets []uint32 // text i is text[offsets[i]:offsets[i+1]]
}

func (v *values) len() int { return max(len(v.ints), len(v.floats), len(v.offsets)-1) }

// decode reads n values of a type.
func decode(kind format.Type, e format.Encoding, b []byte, n int) (v *values, err error) {
	v = new(values)
	if n == 0 {
		return v, nil
	}
	switch {
	case e == format.Plain:
		err = v.plain(kind, b, n)
	case e == format.ByteStreamSplit && width(kind) > 0:
		if b, err = unsplit(b, width(kind), n); err == nil {
			err = v.plain(kind, b, n)
		}
	case e == format.RLE && kind == format.Boolean:
		if len(b) < 4 { // the length of what follows
			return nil, io.ErrUnexpectedEOF
		}
		bits := make([]uint32, n)
		if err = hybrid(bits, b[4:], 1); err == nil {
			for _, x := range bits {
				v.floats = append(v.floats, float64(x))
			}
		}
	case e == format.DeltaBinaryPacked && (kind == format.Int32 || kind == format.Int64):
		err = v.packed(kind, b, n)
	case (e == format.DeltaLengthByteArray || e == format.DeltaByteArray) && kind == format.ByteArray:
		if err = checkDelta(b, n); err != nil {
			break
		}
		if e == format.DeltaByteArray {
			v.text, v.offsets, err = new(delta.ByteArrayEncoding).DecodeByteArray(nil, b, nil)
		} else {
			v.text, v.offsets, err = new(delta.LengthByteArrayEncoding).DecodeByteArray(nil, b, nil)
		}
	default:
		return nil, fmt.Errorf("values of type %v in encoding %v", kind, e)
	}
	if err == nil && v.len() != n {
		err = fmt.Errorf("%d values, want %d", v.len(), n)
	}
	return v, err
}

// width is the number of bytes of a value of fixed size that is read, else 0.
func width(kind format.Type) int {
	switch kind {
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	}
	return 0
}

// plain reads values as they are in memory: little-endian, booleans as bits, texts behind their length.
func (v *values) plain(kind format.Type, b []byte, n int) error {
	if int64(len(b)) < int64(n)*int64(width(kind)) {
		return io.ErrUnexpectedEOF
	}
	switch kind {
	case format.Boolean:
		if len(b) < (n+7)/8 {
			return io.ErrUnexpectedEOF
		}
		v.floats = make([]float64, n)
		for i := range v.floats {
			v.floats[i] = float64(b[i/8] >> (i % 8) & 1)
		}
	case format.Int32:
		v.ints = make([]int64, n)
		for i := range v.ints {
			v.ints[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
	case format.Int64:
		v.ints = make([]int64, n)
		for i := range v.ints {
			v.ints[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
	case format.Float:
		v.floats = make([]float64, n)
		for i := range v.floats {
			v.floats[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		}
	case format.Double:
		v.floats = make([]float64, n)
		for i := range v.floats {
			v.floats[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
	case format.ByteArray:
		if len(b) < 4*n { // before anything of that size is made
			return io.ErrUnexpectedEOF
		}
		v.text, v.offsets = make([]byte, 0, len(b)-4*n), make([]uint32, 1, n+1)
		for range n {
			if len(b) < 4 || int64(binary.LittleEndian.Uint32(b)) > int64(len(b)-4) {
				return io.ErrUnexpectedEOF
			}
			end := 4 + binary.LittleEndian.Uint32(b)
			v.text = append(v.text, b[4:end]...)
			v.offsets = append(v.offsets, uint32(len(v.text)))
			b = b[end:]
		}
	default:
		return fmt.Errorf("values of type %v", kind)
	}
	return nil
}

// unsplit brings the bytes of values together: first all first bytes, then all second ones.
func unsplit(b []byte, width, n int) ([]byte, error) {
	if int64(len(b)) != int64(width)*int64(n) {
		return nil, io.ErrUnexpectedEOF
	}
	out := make([]byte, len(b))
	for j := range width {
		for i, x := range b[j*n : (j+1)*n] {
			out[i*width+j] = x
		}
	}
	return out, nil
}

func (v *values) packed(kind format.Type, b []byte, n int) error {
	if err := checkDelta(b, n); err != nil {
		return err
	}
	if kind == format.Int64 {
		var err error
		v.ints, err = new(delta.BinaryPackedEncoding).DecodeInt64(nil, b)
		return err
	}
	short, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, b)
	v.ints = make([]int64, len(short))
	for i, x := range short {
		v.ints[i] = int64(x)
	}
	return err
}

// checkDelta looks at the header of numbers packed as differences, before the decoder makes room for as many as it
// says: block size, parts of a block, number of values.
func checkDelta(b []byte, n int) error {
	for range 2 {
		_, k := binary.Uvarint(b)
		if k <= 0 {
			return io.ErrUnexpectedEOF
		}
		b = b[k:]
	}
	if total, k := binary.Uvarint(b); k <= 0 || total != uint64(n) {
		return fmt.Errorf("%d values, want %d", total, n)
	}
	return nil
}

// hybrid reads len(dst) numbers of some bits each, written as runs: an even header is twice the length of a run of one
// value, an odd one twice the number of groups of eight that are packed bit by bit.
func hybrid(dst []uint32, b []byte, bits int) error {
	if bits > 32 {
		return fmt.Errorf("numbers of %d bits", bits)
	}
	for len(dst) > 0 {
		head, k := binary.Uvarint(b)
		if k <= 0 {
			return io.ErrUnexpectedEOF
		}
		b = b[k:]
		if head&1 == 0 {
			size := (bits + 7) / 8
			if len(b) < size {
				return io.ErrUnexpectedEOF
			}
			x := uint32(0)
			for i, c := range b[:size] {
				x |= uint32(c) << (8 * i)
			}
			if x>>bits != 0 {
				return fmt.Errorf("%d in %d bits", x, bits)
			}
			n := int(min(head>>1, uint64(len(dst))))
			for i := range n {
				dst[i] = x
			}
			dst, b = dst[n:], b[size:]
			continue
		}
		n := int(min(head>>1, uint64(len(dst)+7)/8)) // groups
		m := min(8*n, len(dst))
		if len(b) < (m*bits+7)/8 { // some writers leave out the padding of the last group
			return io.ErrUnexpectedEOF
		}
		unpack(dst[:m], b, bits)
		dst, b = dst[m:], b[min(n*bits, len(b)):]
	}
	return nil
}

// unpack reads numbers from the lowest bits up.
func unpack(dst []uint32, b []byte, bits int) {
	word, have, mask := uint64(0), 0, uint64(1)<<bits-1
	for i := range dst {
		for have < bits {
			word |= uint64(b[0]) << have
			b, have = b[1:], have+8
		}
		dst[i] = uint32(word & mask)
		word, have = word>>bits, have-bits
	}
}

package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// A saved Ridge is, all numbers little endian:
//
//	magic "randfeat ridge\n\x00", version u16, float32 u16 (0 or 1), fingerprint [32]byte
//	classification u64 (0 or 1), features F u64, outputs K u64, rows u64, rows in the float32 part u64
//	upper triangle of ΦᵀΦ by rows f64; ΦᵀY and Σφ, F×(K+1) f64; Σy², Σy f64
//	with float32: upper triangle of the part by rows f32
//	SHA-256 of everything before
const (
	ridgeMagic   = "randfeat ridge\n\x00"
	ridgeVersion = 1
	ridgeHeader  = len(ridgeMagic) + 2 + 2 + 32 + 5*8
)

// MarshalBinary is AppendBinary to no bytes.
func (r *Ridge) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// AppendBinary appends the sums to b. A fit that goes on from them has the bits of one that was never interrupted.
func (r *Ridge) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	le := binary.LittleEndian
	b = slices.Grow(b, ridgeHeader+r.sumsSize()+sha256.Size)
	b = append(b, ridgeMagic...)
	b = le.AppendUint16(b, ridgeVersion)
	b = le.AppendUint16(b, uint16(flag(r.setup.Float32)))
	b = append(b, r.fingerprint[:]...)
	for _, v := range []int64{flag(r.setup.Task == Classification), int64(r.features), int64(r.setup.Outputs), r.n, int64(r.partRows)} {
		b = le.AppendUint64(b, uint64(v))
	}
	for i := range r.gram.Rows {
		b = appendFloats(b, r.gram.Row(i)[i:])
	}
	b = appendFloats(b, r.cross.Data)
	b = appendFloats(b, r.yy)
	b = appendFloats(b, r.ySum)
	for i := range r.part.Rows {
		for _, v := range r.part.Row(i)[i:] {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
	}
	return seal(b, start), nil
}

// UnmarshalRidge reads what AppendBinary wrote, for the same setup. Sums of another map, task, precision or shape are
// ErrMismatch, anything else that does not fit ErrCorrupt. No more memory is used than the setup justifies.
func UnmarshalRidge(s Setup, b []byte) (*Ridge, error) {
	body, err := unseal(b, ridgeMagic, ridgeHeader)
	if err != nil {
		return nil, fmt.Errorf("saved ridge: %w", err)
	}
	le := binary.LittleEndian
	head := body[len(ridgeMagic):ridgeHeader]
	body = body[ridgeHeader:]
	if v := le.Uint16(head); v != ridgeVersion {
		return nil, fmt.Errorf("version %d, this program reads %d: %w", v, ridgeVersion, ErrCorrupt)
	}
	var count [5]uint64
	if err := readCounts(head[36:], count[:]); err != nil {
		return nil, err
	}
	if single := le.Uint16(head[2:]); single > 1 || count[0] > 1 {
		return nil, fmt.Errorf("precision number %d, task number %d: %w", single, count[0], ErrCorrupt)
	}
	r, err := NewRidge(s)
	if err != nil {
		return nil, err
	}
	saved := Setup{Task: Regression, Outputs: int(count[2]), Float32: le.Uint16(head[2:]) == 1}
	if count[0] == 1 {
		saved.Task = Classification
	}
	if err := r.matches(saved, [32]byte(head[4:36])); err != nil {
		return nil, err
	}
	f := r.features
	if count[1] != uint64(f) {
		return nil, fmt.Errorf("%d features, the map has %d: %w", count[1], f, ErrMismatch)
	}
	want := r.sumsSize()
	if len(body) != want || count[4] >= flushRows || count[4] > count[3] || !r.setup.Float32 && count[4] > 0 {
		return nil, fmt.Errorf("%d bytes of sums with %d rows in the part, want %d bytes: %w", len(body), count[4], want, ErrCorrupt)
	}
	r.n, r.partRows = int64(count[3]), int(count[4])
	ok := true
	for i := range f {
		body = readFloats(body, r.gram.Row(i)[i:], &ok)
	}
	body = readFloats(body, r.cross.Data, &ok)
	body = readFloats(body, r.yy, &ok)
	body = readFloats(body, r.ySum, &ok)
	for i := range r.part.Rows {
		row := r.part.Row(i)[i:]
		for j := range row {
			row[j] = math.Float32frombits(le.Uint32(body[4*j:]))
			ok = ok && dense.IsFinite(float64(row[j]))
		}
		body = body[4*len(row):]
	}
	if !ok {
		return nil, fmt.Errorf("sums that are not finite: %w", ErrCorrupt)
	}
	return r, nil
}

// sumsSize is the number of bytes of the sums.
func (r *Ridge) sumsSize() int {
	triangle := r.features * (r.features + 1) / 2
	size := 8 * (triangle + len(r.cross.Data) + 2*r.setup.Outputs)
	if r.setup.Float32 {
		size += 4 * triangle
	}
	return size
}

// seal appends the SHA-256 of what follows start.
func seal(b []byte, start int) []byte {
	sum := sha256.Sum256(b[start:])
	return append(b, sum[:]...)
}

// unseal is b without its checksum, which it compares. What is left has at least header bytes.
func unseal(b []byte, magic string, header int) ([]byte, error) {
	if len(b) < header+sha256.Size || !bytes.HasPrefix(b, []byte(magic)) {
		return nil, fmt.Errorf("%d bytes that do not begin as they should: %w", len(b), ErrCorrupt)
	}
	body := b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return nil, fmt.Errorf("the checksum is wrong: %w", ErrCorrupt)
	}
	return body, nil
}

func readCounts(b []byte, count []uint64) error {
	for i := range count {
		if count[i] = binary.LittleEndian.Uint64(b[8*i:]); count[i] > math.MaxInt64/2 {
			return fmt.Errorf("a count of %d: %w", count[i], ErrCorrupt)
		}
	}
	return nil
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func appendFloats(b []byte, x []float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// readFloats fills x from the front of b, which is long enough, and returns the rest.
func readFloats(b []byte, x []float64, ok *bool) []byte {
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		*ok = *ok && dense.IsFinite(x[i])
	}
	return b[8*len(x):]
}

// Package seal is the binary frame of saved sums and states. A record has a header, which names its kind and version
// and the feature map that it belongs to, then numbers in little endian, then a SHA-256 checksum of everything before.
//
// To write, call [Format.Begin], append the body with [Append], and call [Close]. To read, call [Format.Open], compare
// the header's fingerprint and counts with what you expect, compare the length of the body with the length that the
// counts imply, and only then allocate and call [Read]. In that order a damaged or hostile record cannot make a reader
// allocate more than the bytes it was given justify.
package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/randfeat/randfeat/dense"
)

// ErrCorrupt is wrapped by errors about bytes of another kind or version and about damaged bytes.
var ErrCorrupt = errors.New("corrupt file")

// Format names a kind of record. A record consists of
//
//	magic, version u16, flag u16, fingerprint [32]byte, Counts × u64, a body, SHA-256 of everything before
//
// The meaning of the flag, of the counts and of the body is up to the package that defines the format.
type Format struct {
	Magic   string
	Version uint16
	Counts  int
}

// Header is the part of a record before the body, without the magic and the version.
type Header struct {
	Flag        uint16
	Fingerprint [32]byte // identifies the feature map
	Counts      []uint64
}

// HeaderSize returns the number of bytes before the body.
func (f Format) HeaderSize() int { return len(f.Magic) + 2 + 2 + 32 + 8*f.Counts }

// Size returns the length of a record whose body has the given number of bytes.
func (f Format) Size(body int) int { return f.HeaderSize() + body + sha256.Size }

// Begin appends the header to b. Append the body to the result, then call [Close] with the length that b had before
// Begin. It panics if h has another number of counts than the format.
func (f Format) Begin(b []byte, h Header) []byte {
	if len(h.Counts) != f.Counts {
		panic(fmt.Sprintf("seal: %d counts in a header, its format has %d", len(h.Counts), f.Counts))
	}
	le := binary.LittleEndian
	b = append(b, f.Magic...)
	b = le.AppendUint16(b, f.Version)
	b = le.AppendUint16(b, h.Flag)
	b = append(b, h.Fingerprint[:]...)
	for _, n := range h.Counts {
		b = le.AppendUint64(b, n)
	}
	return b
}

// Close appends the checksum of the record that begins at start.
func Close(b []byte, start int) []byte {
	sum := sha256.Sum256(b[start:])
	return append(b, sum[:]...)
}

// Open verifies the magic, the checksum and the version of a record and splits it. The body is a view of b, of a length
// that Open does not check. Errors wrap [ErrCorrupt].
func (f Format) Open(b []byte) (h Header, body []byte, err error) {
	header := f.HeaderSize()
	if len(b) < header+sha256.Size || !bytes.HasPrefix(b, []byte(f.Magic)) {
		return h, nil, fmt.Errorf("%d bytes that do not begin as they should: %w", len(b), ErrCorrupt)
	}
	body = b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return h, nil, fmt.Errorf("the checksum is wrong: %w", ErrCorrupt)
	}
	h, err = f.Parse(body[:header])
	return h, body[header:], err
}

// Check reads the header of a record that is all of a file of size bytes, without verifying the checksum. Compare the
// counts with size before the file is read into memory. Errors about the contents wrap [ErrCorrupt].
func (f Format) Check(r io.ReaderAt, size int64) (h Header, err error) {
	b := make([]byte, f.HeaderSize())
	if size < int64(f.Size(0)) {
		return h, fmt.Errorf("%d bytes, too few: %w", size, ErrCorrupt)
	}
	if _, err := r.ReadAt(b, 0); err != nil {
		return h, err
	}
	return f.Parse(b)
}

// Parse reads a header from exactly HeaderSize bytes, for records that are read as a stream: nothing has verified their
// checksum yet. Errors wrap [ErrCorrupt].
func (f Format) Parse(b []byte) (h Header, err error) {
	if len(b) != f.HeaderSize() || !bytes.HasPrefix(b, []byte(f.Magic)) {
		return h, fmt.Errorf("%d bytes that do not begin as they should: %w", len(b), ErrCorrupt)
	}
	le := binary.LittleEndian
	head := b[len(f.Magic):]
	if v := le.Uint16(head); v != f.Version {
		return h, fmt.Errorf("version %d, this program reads %d: %w", v, f.Version, ErrCorrupt)
	}
	h.Flag, h.Fingerprint, h.Counts = le.Uint16(head[2:]), [32]byte(head[4:36]), make([]uint64, f.Counts)
	for i := range h.Counts {
		// At most half the range of int64, so that the sum of two counts does not overflow.
		if h.Counts[i] = le.Uint64(head[36+8*i:]); h.Counts[i] > math.MaxInt64/2 {
			return h, fmt.Errorf("a count of %d: %w", h.Counts[i], ErrCorrupt)
		}
	}
	return h, nil
}

// NumberSize returns the number of bytes of a saved T, 4 or 8.
func NumberSize[T dense.Float]() int {
	if _, ok := any(T(0)).(float32); ok {
		return 4
	}
	return 8
}

// Append appends numbers to a body, in little endian.
func Append[T dense.Float](b []byte, x ...T) []byte {
	if NumberSize[T]() == 4 {
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
		return b
	}
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
	}
	return b
}

// Read fills x from the front of body and returns the rest. The caller has checked that body is long enough: Read
// panics otherwise. Read sets *ok to false if a number is not finite and never sets it to true, so that a reader checks
// one flag after many calls.
func Read[T dense.Float](body []byte, x []T, ok *bool) []byte {
	return read(body, x, ok, false)
}

// ReadLogs is Read for logarithms, which may be −Inf.
func ReadLogs[T dense.Float](body []byte, x []T, ok *bool) []byte {
	return read(body, x, ok, true)
}

func read[T dense.Float](body []byte, x []T, ok *bool, logs bool) []byte {
	size := NumberSize[T]()
	for i := range x {
		if size == 4 {
			x[i] = T(math.Float32frombits(binary.LittleEndian.Uint32(body[i*size:])))
		} else {
			x[i] = T(math.Float64frombits(binary.LittleEndian.Uint64(body[i*size:])))
		}
		if v := float64(x[i]); !dense.IsFinite(v) && !(logs && math.IsInf(v, -1)) {
			*ok = false
		}
	}
	return body[len(x)*size:]
}

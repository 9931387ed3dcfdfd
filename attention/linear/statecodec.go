package linear

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// stateFormat is the binary form of a State. The flag of the header is the number of bytes of a T, the fingerprint the
// SHA-256 of those of all maps. Its counts are the seven of State.shape, the tokens seen and the five counts of the
// Report. The body has, for every batch and key/value head,
//
//	keys in the totals u64, keys in the part u64
//	the part: set u64, base f64, tau, z, S in T; the totals: t, z, S in f64
//	the keys and values of the window, oldest first, and those of the sinks, in T
//
// Version 1 was one head without window and sinks: its fingerprint is that of the map, its counts are features, value
// columns, the counts of the Report, keys in the totals and keys in the part, and its body is the second line.
var (
	stateFormat  = seal.Format{Magic: "randfeat state\n\x00", Version: 2, Counts: 13}
	stateFormat1 = seal.Format{Magic: stateFormat.Magic, Version: 1, Counts: 9}
)

// fingerprint identifies the maps of all heads.
func (s *State[T]) fingerprint() [32]byte {
	var all []byte
	for _, m := range s.maps {
		f := m.Fingerprint()
		all = append(all, f[:]...)
	}
	return sha256.Sum256(all)
}

// kept is the number of sinks and of keys of the window after n tokens.
func (s *State[T]) kept(n int) (sinks, window int) {
	sinks = min(n, s.sinks)
	return sinks, min(n-sinks, s.window)
}

// MarshalBinary implements encoding.BinaryMarshaler; see AppendBinary.
func (s *State[T]) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// AppendBinary appends the state to b. The form contains a fingerprint of the maps and a checksum, not the maps
// themselves. Save their Specs separately.
func (s *State[T]) AppendBinary(b []byte) ([]byte, error) {
	if s.maps == nil {
		return b, errNoState
	}
	start, r := len(b), s.report
	h := seal.Header{Flag: uint16(seal.NumberSize[T]()), Fingerprint: s.fingerprint()}
	for _, n := range s.shape() {
		h.Counts = append(h.Counts, uint64(n))
	}
	for _, n := range []int64{int64(s.length), r.Rows, r.Empty, r.Negative, r.Zero, r.Raised} {
		h.Counts = append(h.Counts, uint64(n))
	}
	b = stateFormat.Begin(b, h)
	for _, h := range s.heads {
		b = binary.LittleEndian.AppendUint64(b, uint64(h.mem.total.n))
		b = binary.LittleEndian.AppendUint64(b, uint64(h.mem.part.n))
		b = h.mem.append(b)
		r := &h.ring
		for _, m := range [...]dense.Matrix[T]{r.k.RowRange(r.first, r.first+r.n), r.v.RowRange(r.first, r.first+r.n),
			r.sinkK.RowRange(0, r.sinks), r.sinkV.RowRange(0, r.sinks)} {
			b = seal.Append(b, m.Data...)
		}
	}
	return seal.Close(b, start), nil
}

// append appends the part and the totals.
func (m *memory[T]) append(b []byte) []byte {
	var set uint64
	tau := m.part.ref.tau
	if m.part.ref.set {
		set = 1
	} else {
		tau = make([]T, len(tau)) // unset references are undefined: zeros give equal states equal bytes
	}
	b = binary.LittleEndian.AppendUint64(b, set)
	b = seal.Append(b, m.part.ref.base)
	b = seal.Append(b, tau...)
	b = seal.Append(b, m.part.z...)
	b = seal.Append(b, m.part.s.Data...)
	b = seal.Append(b, m.total.t...)
	b = seal.Append(b, m.total.z...)
	return seal.Append(b, m.total.s.Data...)
}

// read restores what append wrote and returns the rest of the body, which is long enough. total and part are the
// numbers of keys in each.
func (m *memory[T]) read(body []byte, total, part uint64, ok *bool) []byte {
	set := binary.LittleEndian.Uint64(body)
	m.total.n, m.part.n = int64(total), int(part)
	m.part.ref.set, m.part.ref.base = set == 1, math.Float64frombits(binary.LittleEndian.Uint64(body[8:]))
	if set > 1 || part >= uint64(segmentOf(m.part.s.Rows, m.part.s.Cols)) || set == 0 && part > 0 ||
		!dense.IsFinite(m.part.ref.base) {
		*ok = false
	}
	body = seal.ReadLogs(body[16:], m.part.ref.tau, ok)
	body = seal.Read(body, m.part.z, ok)
	body = seal.Read(body, m.part.s.Data, ok)
	body = seal.ReadLogs(body, m.total.t, ok)
	body = seal.Read(body, m.total.z, ok)
	return seal.Read(body, m.total.s.Data, ok)
}

// size is the number of bytes that append writes.
func (m *memory[T]) size() int {
	return 16 + len(m.part.z)*(m.part.s.Cols+2)*(seal.NumberSize[T]()+8)
}

// UnmarshalBinary replaces what s has seen by a state that AppendBinary wrote. s must come from NewState with the same
// maps, window, sinks and shapes, or the error is [attention.ErrMismatch]; damaged input is [attention.ErrCorrupt].
// After an error s is unchanged. Memory use is bounded by the size of s, whatever the counts in b say. A state of
// version 0.1.0 is read into a state of one head.
func (s *State[T]) UnmarshalBinary(b []byte) error {
	if s.maps == nil {
		return errNoState
	}
	format, want, print := stateFormat, s.shape(), s.fingerprint()
	at := len(format.Magic)
	old := bytes.HasPrefix(b, []byte(format.Magic)) && len(b) > at+2 && binary.LittleEndian.Uint16(b[at:]) == 1
	if old {
		format, print = stateFormat1, s.maps[0].Fingerprint()
	}
	h, body, err := format.Open(b)
	if err != nil {
		return fmt.Errorf("saved state: %w", err)
	}
	if size := seal.NumberSize[T](); int(h.Flag) != size {
		return fmt.Errorf("saved state: numbers of %d bytes, want %d: %w", h.Flag, size, attention.ErrMismatch)
	}
	if h.Fingerprint != print {
		return fmt.Errorf("saved state: fingerprint %x…, these maps have %x…: %w", h.Fingerprint[:4], print[:4],
			attention.ErrMismatch)
	}
	counts := h.Counts
	if old {
		if one := [7]int{1, 1, 1, s.dim, s.valueDim}; s.shape() != one ||
			counts[0] != uint64(s.maps[0].OutDim()) || counts[1] != uint64(s.valueDim) {
			return fmt.Errorf("saved state of one head with %d features and %d value columns, this one is of %v: %w",
				counts[0], counts[1], want, attention.ErrMismatch)
		}
		body = append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, counts[7]), counts[8]),
			body...)
		counts = append([]uint64{counts[7] + counts[8]}, counts[2:7]...)
	} else {
		for i, n := range want {
			if counts[i] != uint64(n) {
				return fmt.Errorf("saved state of %v, this one is of %v: %w", counts[:len(want)], want,
					attention.ErrMismatch)
			}
		}
		counts = counts[len(want):]
	}
	n := int(counts[0])
	sinks, window := s.kept(n)
	length := 0
	for _, head := range s.heads {
		length += 16 + head.mem.size() + (sinks+window)*(s.dim+s.valueDim)*seal.NumberSize[T]()
	}
	if len(body) != length {
		return fmt.Errorf("saved state of %d tokens in %d bytes, want %d: %w", n, len(body), length,
			attention.ErrCorrupt)
	}
	heads, ok := s.empty(), true
	for i := range heads {
		total, part := binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])
		// Every token is a sink, in the window or in the sums.
		if total > uint64(n) || part > uint64(n) || total+part != uint64(n-sinks-window) {
			return fmt.Errorf("saved state of %d tokens with sums of %d and %d: %w", n, total, part,
				attention.ErrCorrupt)
		}
		body = heads[i].mem.read(body[16:], total, part, &ok)
		r := &heads[i].ring
		r.n, r.sinks = window, sinks
		body = seal.Read(body, r.k.RowRange(0, window).Data, &ok)
		body = seal.Read(body, r.v.RowRange(0, window).Data, &ok)
		body = seal.Read(body, r.sinkK.RowRange(0, sinks).Data, &ok)
		body = seal.Read(body, r.sinkV.RowRange(0, sinks).Data, &ok)
	}
	if !ok {
		return fmt.Errorf("saved state with numbers that are not finite, or a part that is too long: %w",
			attention.ErrCorrupt)
	}
	s.heads, s.length = heads, n
	s.report = attention.Report{Rows: int64(counts[1]), Empty: int64(counts[2]), Negative: int64(counts[3]),
		Zero: int64(counts[4]), Raised: int64(counts[5])}
	return nil
}

package linear

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// stateFormat is the binary form of a State. The flag of the header is the number of bytes of a T. Its counts are
// features, value columns, the five counts of the Report, keys in the totals and keys in the part. The body is
//
//	the part: set u64, base f64, tau, z, S in T; the totals: t, z, S in f64
var stateFormat = seal.Format{Magic: "randfeat state\n\x00", Version: 1, Counts: 9}

// MarshalBinary implements encoding.BinaryMarshaler; see AppendBinary.
func (s *State[T]) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// AppendBinary appends the state to b. The form contains the fingerprint of the map and a checksum, not the map itself.
// Save the map's Spec separately.
func (s *State[T]) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	mem, r := s.mem, s.report
	h := seal.Header{Flag: uint16(seal.NumberSize[T]()), Fingerprint: s.m.Fingerprint()}
	for _, n := range []int64{int64(s.m.OutDim()), int64(s.ValueDim()), r.Rows, r.Empty, r.Negative, r.Zero, r.Raised,
		mem.total.n, int64(mem.part.n)} {
		h.Counts = append(h.Counts, uint64(n))
	}
	b = stateFormat.Begin(b, h)
	var set uint64
	if mem.part.ref.set {
		set = 1
	}
	b = binary.LittleEndian.AppendUint64(b, set)
	b = seal.Append(b, mem.part.ref.base)
	tau := mem.part.ref.tau
	if set == 0 {
		tau = make([]T, len(tau)) // unset references are undefined: zeros give equal states equal bytes
	}
	b = seal.Append(b, tau...)
	b = seal.Append(b, mem.part.z...)
	b = seal.Append(b, mem.part.s.Data...)
	b = seal.Append(b, mem.total.t...)
	b = seal.Append(b, mem.total.z...)
	b = seal.Append(b, mem.total.s.Data...)
	return seal.Close(b, start), nil
}

// UnmarshalState restores a state that AppendBinary wrote, for the same map. A state of another map, precision or shape
// is [attention.ErrMismatch]; damaged input is [attention.ErrCorrupt]. Memory use is bounded by the sizes of b and the
// map, whatever the counts in b say.
func UnmarshalState[T dense.Float](m randfeat.FeatureMap[T], b []byte) (*State[T], error) {
	if err := randfeat.CheckMap(m); err != nil {
		return nil, err
	}
	h, body, err := stateFormat.Open(b)
	if err != nil {
		return nil, fmt.Errorf("saved state: %w", err)
	}
	size := int(h.Flag)
	if size != seal.NumberSize[T]() {
		return nil, fmt.Errorf("numbers of %d bytes, the map has %d: %w", size, seal.NumberSize[T](),
			attention.ErrMismatch)
	}
	if f := m.Fingerprint(); f != h.Fingerprint {
		return nil, fmt.Errorf("fingerprint %x…, this map has %x…: %w", h.Fingerprint[:4], f[:4], attention.ErrMismatch)
	}
	head := h.Counts
	features, dv := uint64(m.OutDim()), head[1]
	if head[0] != features {
		return nil, fmt.Errorf("%d features, the map has %d: %w", head[0], features, attention.ErrMismatch)
	}
	// Every value column takes features numbers in T and in float64; compare by division, sizes may be hostile.
	column := features * uint64(size+8)
	if dv < 1 || dv > uint64(len(body))/column || uint64(len(body)) != 16+column*(dv+1)+column {
		return nil, fmt.Errorf("%d bytes for %d features and %d value columns: %w", len(body), features, dv,
			attention.ErrCorrupt)
	}
	s, err := NewState(m, int(dv))
	if err != nil {
		return nil, err
	}
	s.report = attention.Report{Rows: int64(head[2]), Empty: int64(head[3]), Negative: int64(head[4]),
		Zero:   int64(head[5]),
		Raised: int64(head[6])}
	mem := s.mem
	set := binary.LittleEndian.Uint64(body)
	mem.total.n, mem.part.n = int64(head[7]), int(head[8])
	mem.part.ref.set, mem.part.ref.base = set == 1, math.Float64frombits(binary.LittleEndian.Uint64(body[8:]))
	most := uint64(segmentOf(m.OutDim(), int(dv)))
	if set > 1 || head[8] >= most || set == 0 && head[8] > 0 || !dense.IsFinite(mem.part.ref.base) {
		return nil, fmt.Errorf("a part of %d keys: %w", head[8], attention.ErrCorrupt)
	}
	body = body[16:]
	ok := true
	body = seal.ReadLogs(body, mem.part.ref.tau, &ok)
	body = seal.Read(body, mem.part.z, &ok)
	body = seal.Read(body, mem.part.s.Data, &ok)
	body = seal.ReadLogs(body, mem.total.t, &ok)
	body = seal.Read(body, mem.total.z, &ok)
	seal.Read(body, mem.total.s.Data, &ok)
	if !ok {
		return nil, fmt.Errorf("sums that are not finite: %w", attention.ErrCorrupt)
	}
	return s, nil
}

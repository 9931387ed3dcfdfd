package attention

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
)

// ErrCorrupt marks bytes that are no state, or a damaged one.
var ErrCorrupt = errors.New("corrupt state")

// A saved state is, all numbers little endian:
//
//	magic "randfeat state\n\x00", version u16, bytes per number u16, fingerprint [32]byte
//	features u64, value columns u64, counts of the Report 5×u64, keys in the totals u64, keys in the part u64
//	the part: set u64, base f64, tau, z, S in T; the totals: t, z, S in f64
//	SHA-256 of everything before
const (
	stateMagic   = "randfeat state\n\x00"
	stateVersion = 1
	stateHeader  = len(stateMagic) + 2 + 2 + 32 + 8*9
)

// MarshalBinary is AppendBinary to no bytes.
func (s *State[T]) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// AppendBinary appends the state to b. It carries the fingerprint of its map and a checksum; the map itself is not
// saved, its Spec is.
func (s *State[T]) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, stateMagic...)
	b = le.AppendUint16(b, stateVersion)
	b = le.AppendUint16(b, uint16(numberBytes[T]()))
	f := s.m.Fingerprint()
	b = append(b, f[:]...)
	mem, r := s.mem, s.report
	for _, n := range []int64{int64(s.m.OutDim()), int64(s.ValueDim()), r.Rows, r.Empty, r.Negative, r.Zero, r.Raised, mem.total.n, int64(mem.part.n)} {
		b = le.AppendUint64(b, uint64(n))
	}
	var set uint64
	if mem.part.ref.set {
		set = 1
	}
	b = le.AppendUint64(b, set)
	b = le.AppendUint64(b, math.Float64bits(mem.part.ref.base))
	tau := mem.part.ref.tau
	if set == 0 {
		tau = make([]T, len(tau)) // of no meaning: zeros make equal states equal bytes
	}
	b = appendNumbers(b, tau)
	b = appendNumbers(b, mem.part.z)
	b = appendNumbers(b, mem.part.s.Data)
	b = appendNumbers(b, mem.total.t)
	b = appendNumbers(b, mem.total.z)
	b = appendNumbers(b, mem.total.s.Data)
	sum := sha256.Sum256(b[start:])
	return append(b, sum[:]...), nil
}

// UnmarshalState reads what AppendBinary wrote, for the same map. A state of another map, precision or shape is
// ErrMismatch, anything else that does not fit ErrCorrupt. No more memory is used than b and the map justify.
func UnmarshalState[T dense.Float](m *randfeat.Map[T], b []byte) (*State[T], error) {
	if m == nil {
		return nil, fmt.Errorf("no map: %w", randfeat.ErrSpec)
	}
	if len(b) < stateHeader+sha256.Size || !bytes.HasPrefix(b, []byte(stateMagic)) {
		return nil, fmt.Errorf("%d bytes that do not begin like a state: %w", len(b), ErrCorrupt)
	}
	body := b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return nil, fmt.Errorf("the checksum is wrong: %w", ErrCorrupt)
	}
	le := binary.LittleEndian
	body = body[len(stateMagic):]
	version, size := le.Uint16(body), int(le.Uint16(body[2:]))
	if version != stateVersion {
		return nil, fmt.Errorf("version %d, this program reads %d: %w", version, stateVersion, ErrCorrupt)
	}
	if size != numberBytes[T]() {
		return nil, fmt.Errorf("numbers of %d bytes, the map has %d: %w", size, numberBytes[T](), ErrMismatch)
	}
	fingerprint := [32]byte(body[4:36])
	if f := m.Fingerprint(); f != fingerprint {
		return nil, fmt.Errorf("fingerprint %x…, this map has %x…: %w", fingerprint[:4], f[:4], ErrMismatch)
	}
	var head [9]uint64
	for i := range head {
		head[i] = le.Uint64(body[36+8*i:])
	}
	body = body[36+8*len(head):]
	features, dv := uint64(m.OutDim()), head[1]
	if head[0] != features {
		return nil, fmt.Errorf("%d features, the map has %d: %w", head[0], features, ErrMismatch)
	}
	// Every value column takes features numbers in T and in float64; compare by division, sizes may be hostile.
	column := features * uint64(size+8)
	if dv < 1 || dv > uint64(len(body))/column || uint64(len(body)) != 16+column*(dv+1)+column {
		return nil, fmt.Errorf("%d bytes for %d features and %d value columns: %w", len(body), features, dv, ErrCorrupt)
	}
	s, err := NewState(m, int(dv))
	if err != nil {
		return nil, err
	}
	for _, n := range head[2:] {
		if n > math.MaxInt64/2 {
			return nil, fmt.Errorf("a count of %d: %w", n, ErrCorrupt)
		}
	}
	s.report = Report{Rows: int64(head[2]), Empty: int64(head[3]), Negative: int64(head[4]), Zero: int64(head[5]), Raised: int64(head[6])}
	mem := s.mem
	set := le.Uint64(body)
	mem.total.n, mem.part.n = int64(head[7]), int(head[8])
	mem.part.ref.set, mem.part.ref.base = set == 1, math.Float64frombits(le.Uint64(body[8:]))
	if set > 1 || head[8] >= segment || set == 0 && head[8] > 0 || !dense.IsFinite(mem.part.ref.base) {
		return nil, fmt.Errorf("a part of %d keys: %w", head[8], ErrCorrupt)
	}
	body = body[16:]
	ok := true
	body = readNumbers(body, mem.part.ref.tau, true, &ok)
	body = readNumbers(body, mem.part.z, false, &ok)
	body = readNumbers(body, mem.part.s.Data, false, &ok)
	body = readNumbers(body, mem.total.t, true, &ok)
	body = readNumbers(body, mem.total.z, false, &ok)
	readNumbers(body, mem.total.s.Data, false, &ok)
	if !ok {
		return nil, fmt.Errorf("sums that are not finite: %w", ErrCorrupt)
	}
	return s, nil
}

func numberBytes[T dense.Float]() int {
	if _, ok := any(T(0)).(float32); ok {
		return 4
	}
	return 8
}

func appendNumbers[T dense.Float](b []byte, x []T) []byte {
	for _, v := range x {
		if numberBytes[T]() == 4 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		} else {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
		}
	}
	return b
}

// readNumbers fills x from the front of b, which is long enough, and returns the rest. Numbers must be finite, or −Inf
// if logs.
func readNumbers[T dense.Float](b []byte, x []T, logs bool, ok *bool) []byte {
	size := numberBytes[T]()
	for i := range x {
		if size == 4 {
			x[i] = T(math.Float32frombits(binary.LittleEndian.Uint32(b[i*size:])))
		} else {
			x[i] = T(math.Float64frombits(binary.LittleEndian.Uint64(b[i*size:])))
		}
		if v := float64(x[i]); !dense.IsFinite(v) && !(logs && math.IsInf(v, -1)) {
			*ok = false
		}
	}
	return b[len(x)*size:]
}

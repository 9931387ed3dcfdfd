package centroid

import (
	"encoding/binary"
	"testing"

	"github.com/randfeat/randfeat/internal/seal"
)

// Bytes with a valid seal, whatever they say, are a compacted state that takes a step, or an error.
func FuzzSavedCompacted(f *testing.F) {
	in := makeInput[float32](4, 1, 2, 1, 40, 40, 4, 3, 0.7)
	head, err := Compact(in.k.Head(0, 0), in.v.Head(0, 0), in.q.Head(0, 0), 0, 6)
	if err != nil {
		f.Fatal(err)
	}
	s, err := NewCompacted([]CompactHead[float32]{head}, 2, 40, 0)
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range []int{0, 7} {
		steps(f, s, input[float32]{piece(in.q, 0, n), piece(in.k, 0, n), piece(in.v, 0, n)}, 8)
		b, err := s.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		_, body, err := compactedFormat.Open(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint64(40+n), body)
	}
	f.Fuzz(func(t *testing.T, length uint64, body []byte) {
		b := compactedFormat.Begin(nil, seal.Header{Flag: 4, Fingerprint: s.fingerprint(),
			Counts: make([]uint64, stateCounts)})
		binary.LittleEndian.PutUint64(b[len(b)-8*stateCounts:], length)
		c, err := ReadCompacted[float32](seal.Close(append(b, body...), 0), 2, 1, 4, 3, 0)
		if err != nil {
			return
		}
		if c.Bytes() > 1<<12+int64(4*len(body)) {
			t.Fatalf("%d bytes of state from %d", c.Bytes(), len(body))
		}
		if c.Len() > maxLen-2 {
			return
		}
		steps(t, c, input[float32]{piece(in.q, 0, 2), piece(in.k, 0, 2), piece(in.v, 0, 2)}, 2)
	})
}

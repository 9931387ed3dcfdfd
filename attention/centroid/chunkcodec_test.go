package centroid

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/seal"
)

// Bytes with a valid seal, whatever they say, are a state with chunks or an error.
func FuzzSavedChunks(f *testing.F) {
	in := makeInput(4, 1, 2, 1, 40, 4, 3)
	fresh := func(t testing.TB) *Chunks {
		a := &Attention{Specs: []Spec{Sketch{Clusters: 3, Chunk: 8, Window: 4, Sinks: 2, Share: 0.1}}}
		c, err := NewChunks(a, in.q.Shape, in.v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, n := range []int{0, 7, 13, 40} {
		c := fresh(f)
		steps(f, c, in.part(0, n), 8)
		b, err := c.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		_, body, err := chunksFormat.Open(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint64(n), body)
	}
	f.Add(uint64(1)<<31-3, []byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, length uint64, body []byte) {
		c := fresh(t)
		print := c.fingerprint()
		b := chunksFormat.Begin(nil, seal.Header{Flag: 4, Fingerprint: print, Counts: make([]uint64, stateCounts)})
		binary.LittleEndian.PutUint64(b[len(b)-8*stateCounts:], length)
		b = seal.Close(append(b, body...), 0)
		if err := c.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, attention.ErrCorrupt) && !errors.Is(err, attention.ErrMismatch) {
				t.Fatal(err)
			}
			if c.Len() != 0 {
				t.Fatal("an error has changed the state")
			}
			return
		}
		out := attention.NewSeq[float32](1, 2, 9, 3)
		if err := c.Step(out, piece(in.q, 0, 9), piece(in.k, 0, 9), piece(in.v, 0, 9)); err != nil {
			t.Fatal(err)
		}
	})
}

// A state that NewChunks has not made is neither saved nor read.
func TestNoChunks(t *testing.T) {
	var none Chunks
	if _, err := none.AppendBinary(nil); !errors.Is(err, attention.ErrMismatch) {
		t.Error(err)
	}
	if err := none.UnmarshalBinary(nil); !errors.Is(err, attention.ErrMismatch) {
		t.Error(err)
	}
}

// savedChunks returns a state with chunks, and its saved bytes without the seal.
func savedChunks(t *testing.T) (*Chunks, []byte) {
	t.Helper()
	in := makeInput(4, 1, 2, 1, 40, 4, 3)
	a := &Attention{Specs: []Spec{Sketch{Clusters: 3, Chunk: 8, Window: 4, Sinks: 2, Share: 0.1}}}
	c, err := NewChunks(a, in.q.Shape, in.v.Shape)
	if err != nil {
		t.Fatal(err)
	}
	steps(t, c, in, 8)
	b, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, b[:len(b)-32]
}

// Clusters of a saved chunk that are empty, out of order or do not cover its keys are errors.
func TestSavedChunkStarts(t *testing.T) {
	c, b := savedChunks(t)
	first := chunksFormat.HeaderSize() + 4 // a zero
	n := int(binary.LittleEndian.Uint32(b[first:]))
	for x := range n + 1 {
		for _, to := range []uint32{0, 1, 6, 7, 1 << 31} {
			bad := slices.Clone(b)
			at := first + 4 + 4*x
			if binary.LittleEndian.Uint32(bad[at:]) == to {
				continue
			}
			binary.LittleEndian.PutUint32(bad[at:], to)
			starts := make([]uint32, n+1)
			valid := true
			for i := range starts {
				starts[i] = binary.LittleEndian.Uint32(bad[first+4+4*i:])
				valid = valid && (i == 0 || starts[i] > starts[i-1])
			}
			valid = valid && starts[0] == 0 && starts[n] == 6
			if err := c.UnmarshalBinary(seal.Close(bad, 0)); (err == nil) != valid {
				t.Errorf("clusters begin at %v: %v", starts, err)
			}
		}
	}
}

// Numbers of a saved chunk that no state has are errors: values that are not finite, more clusters
// than the spec.
func TestSavedChunkNumbers(t *testing.T) {
	c, b := savedChunks(t)
	first := chunksFormat.HeaderSize() + 4 // a zero
	n := int(binary.LittleEndian.Uint32(b[first:]))
	zeros := first + 4 + 4*(n+1) + 4*4*n
	nan := math.Float32bits(float32(math.NaN()))
	for name, bad := range map[string]struct {
		at int
		to uint32
	}{"centre": {zeros - 4, nan}, "last query": {len(b) - 4, nan},
		"clusters": {first, 4}} {
		x := slices.Clone(b)
		binary.LittleEndian.PutUint32(x[bad.at:], bad.to)
		if err := c.UnmarshalBinary(seal.Close(x, 0)); !errors.Is(err, attention.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.UnmarshalBinary(seal.Close(slices.Clone(b), 0)); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

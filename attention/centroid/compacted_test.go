package centroid

import (
	"encoding/binary"
	"github.com/randfeat/randfeat/attention"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// Bytes with a valid seal, whatever they say, are a compacted state that takes a step, or an error.
func FuzzSavedCompacted(f *testing.F) {
	in := makeInput(4, 1, 2, 1, 40, 4, 3)
	head, err := Compact(in.k.Head(0, 0), in.v.Head(0, 0), in.q.Head(0, 0), 0, 6)
	if err != nil {
		f.Fatal(err)
	}
	s, err := NewCompacted([]CompactHead{head}, 2, 40, 0)
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range []int{0, 7} {
		steps(f, s, input{piece(in.q, 0, n), piece(in.k, 0, n), piece(in.v, 0, n)}, 8)
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
		c, err := ReadCompacted(seal.Close(append(b, body...), 0), 0, attention.Shape{Batch: 1, Heads: 2, Dim: 4},
			attention.Shape{Batch: 1, Heads: 1, Dim: 3})
		if err != nil {
			return
		}
		if c.Bytes() > 1<<12+int64(4*len(body)) {
			t.Fatalf("%d bytes of state from %d", c.Bytes(), len(body))
		}
		if c.Len() > maxLen-2 {
			return
		}
		steps(t, c, input{piece(in.q, 0, 2), piece(in.k, 0, 2), piece(in.v, 0, 2)}, 2)
	})
}

// The seeds of a compaction have the largest rms attention, that of equal keys together: n copies with attention a
// count as n·a.
func TestSeedsOfRepeatedKeys(t *testing.T) {
	// Eight edge keys, a key four times, one twice and two keys once.
	row := []float32{0, 1, 2, 3, 5, 5, 5, 5, 6, 6, 7, 8, 10, 11, 12, 13}
	n := len(row)
	c := &compaction{k: dense.Matrix[float32]{Rows: n, Cols: 1, Stride: 1, Data: row},
		rms: make([]float32, n)}
	for j, x := range row {
		switch x { // with all copies 16, 12, 9 and 1
		case 5:
			c.rms[j] = 1
		case 6:
			c.rms[j] = 3
		case 7:
			c.rms[j] = 9
		case 8:
			c.rms[j] = 1
		}
	}
	c.findTwins()
	for slots, want := range map[int][]float32{9: {5}, 10: {5, 6}, 11: {5, 6, 7}, 12: {5, 6, 7, 8}, 14: {5, 6, 7, 8}} {
		c.t = slots
		c.seed()
		var got []float32
		for _, j := range c.seeds[c.from:c.to] {
			got = append(got, row[j])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d slots: seeds %v between the edges, want %v", slots, got, want)
		}
	}
}

// In the metric of the clustering equal keys are one point with the mean of their values.
func TestCoordinatesOfRepeatedKeys(t *testing.T) {
	in := makeInput(3, 1, 1, 1, 6, 2, 1)
	c := &compaction{tab: tableOf(t), k: in.k.Head(0, 0), v: in.v.Head(0, 0), q: in.q.Head(0, 0)}
	for j, value := range []float32{1, 2, 6, 3, -1, 0} {
		c.v.Row(j)[0] = value
		if j < 3 {
			copy(c.k.Row(j), c.k.Row(0))
		}
	}
	c.findTwins()
	if err := c.coordinates(); err != nil {
		t.Fatal(err)
	}
	for j := range 3 { // the mean of 1, 2 and 6 is the value of the fourth key
		if !slices.Equal(c.z.Row(j), c.z.Row(0)) || math.Abs(float64(c.z.At(j, 2)/c.z.At(3, 2)-1)) > 1e-6 {
			t.Errorf("key %d is at %v, the first at %v, the value 3 at %v", j, c.z.Row(j), c.z.Row(0), c.z.At(3, 2))
		}
	}
}

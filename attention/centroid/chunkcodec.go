package centroid

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// chunksFormat: the flag is the number of bytes of a number. The body has for every head a zero, and the clustered
// chunks, each with the number of its clusters and where they begin and end as u32, the centroids, a zero for each, the
// means of values, and the sorted keys and values; then the keys and values of sinks and of the positions after these
// chunks, and the queries of these positions. The numbers of chunks and positions follow from the length, and the
// sketches from the sorted keys. Earlier versions ranked clusters by the numbers that are zeros.
var chunksFormat = seal.Format{Magic: "randfeat chunks\n", Version: 1, Counts: stateCounts}

func (c *Chunks) fingerprint() [32]byte {
	type wire struct { // as in earlier versions
		Clusters  int     `json:"clusters"`
		Together  int     `json:"together"`
		Chunk     int     `json:"chunk"`
		Share     float64 `json:"share"`
		Sinks     int     `json:"sinks,omitempty"`
		Window    int     `json:"window,omitempty"`
		Landmarks int     `json:"landmarks,omitempty"`
		Passes    int     `json:"passes,omitempty"`
		Seed      uint64  `json:"seed,omitempty"`
	}
	var list []wire
	for _, s := range c.specs {
		list = append(list, wire{s.Clusters, 1, s.Chunk, s.Share, s.Sinks, s.Window, s.Landmarks, s.Passes,
			s.Seed})
	}
	return c.layer.fingerprint("chunks", c.scale, list)
}

// parts is the number of clustered chunks after so many tokens.
func (s *settings) parts(length int) int {
	if length == 0 {
		return 0
	}
	return farChunks(s, length-1)
}

// partKeys is the number of keys in the clusters of chunk i: sinks are in none.
func (s *settings) partKeys(i int) int {
	if i == 0 {
		return s.chunk - min(s.sinks, s.chunk)
	}
	return s.chunk
}

// AppendBinary appends the state to b: the clusters of old keys, and the recent keys in order. The form contains a
// fingerprint of specs, scale and shape, and a checksum.
func (c *Chunks) AppendBinary(b []byte) ([]byte, error) {
	if len(c.heads) == 0 {
		return nil, errNoChunks
	}
	start := len(b)
	b = chunksFormat.Begin(b, seal.Header{Flag: 4, Fingerprint: c.fingerprint(), Counts: c.counts()})
	row := make([]float32, c.dim)
	for i := range c.heads {
		h := &c.heads[i]
		b = seal.Append(b, float32(0))
		for j := range h.parts {
			p, at := &h.parts[j], j*h.store.stride
			n := len(p.start) - 1
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
			for _, x := range p.start {
				b = binary.LittleEndian.AppendUint32(b, uint32(x))
			}
			for x := range n {
				panelRow(row, &h.store.panel, at+x)
				b = seal.Append(b, row...)
			}
			b = seal.Append(b, make([]float32, n)...)
			b = seal.Append(b, h.store.mean.Data[at*c.valueDim:(at+n)*c.valueDim]...)
			b = seal.Append(b, p.k.Data[:p.k.Rows*c.dim]...)
			b = seal.Append(b, p.v.Data[:p.v.Rows*c.valueDim]...)
		}
		n := len(h.near.pos)
		b = seal.Append(b, h.near.k.Data[:n*c.dim]...)
		b = seal.Append(b, h.near.v.Data[:n*c.valueDim]...)
		b = seal.Append(b, h.asked...)
	}
	return seal.Close(b, start), nil
}

var errNoChunks = fmt.Errorf("chunks that were not made by NewChunks: %w", attention.ErrMismatch)

// UnmarshalBinary restores a state that AppendBinary wrote. c must have been made with the same arguments; otherwise
// the error is [attention.ErrMismatch]. Damaged input is [attention.ErrCorrupt]. After an error c is unchanged. Memory
// use is bounded by the sizes of b and c, whatever the counts in b say.
func (c *Chunks) UnmarshalBinary(b []byte) error {
	if len(c.heads) == 0 {
		return errNoChunks
	}
	head, body, err := chunksFormat.Open(b)
	if err != nil {
		return fmt.Errorf("saved chunks: %w", err)
	}
	if head.Flag != 4 || head.Fingerprint != c.fingerprint() {
		return fmt.Errorf("saved chunks of another precision, shape or specs: %w", attention.ErrMismatch)
	}
	n := &Chunks{layer: c.layer, specs: c.specs, first: c.first, rest: c.rest, scale: c.scale, tab: c.tab}
	n.Reset()
	if err := n.setCounts(head.Counts); err != nil {
		return fmt.Errorf("saved chunks: %w", err)
	}
	for i := range n.heads {
		if body, err = n.load(&n.heads[i], &n.first[i%n.kvHeads], body); err != nil {
			return fmt.Errorf("saved chunks, head %d: %w", i, err)
		}
	}
	if len(body) != 0 {
		return fmt.Errorf("saved chunks: %d bytes too many: %w", len(body), attention.ErrCorrupt)
	}
	c.layer, c.heads = n.layer, n.heads
	return nil
}

// load takes a head from the front of a body.
func (c *Chunks) load(h *chunkHead, s *settings, body []byte) ([]byte, error) {
	short := fmt.Errorf("%d bytes are too few: %w", len(body), attention.ErrCorrupt)
	const size = 4
	if len(body) < size {
		return nil, short
	}
	ok := true
	body = body[size:]
	parts := s.parts(c.length)
	for i := range parts {
		var part chunkPart
		keys := s.partKeys(i)
		if len(body) < 4 {
			return nil, short
		}
		clusters := binary.LittleEndian.Uint32(body)
		body = body[4:]
		if clusters > uint32(s.clusters) {
			return nil, fmt.Errorf("chunk %d has %d clusters, want at most %d: %w", i, clusters, s.clusters,
				attention.ErrCorrupt)
		}
		n := int(clusters)
		if len(body) < 4*(n+1)+size*(n*(c.dim+c.valueDim+1)+keys*(c.dim+c.valueDim)) {
			return nil, short
		}
		for x := range n + 1 {
			at := binary.LittleEndian.Uint32(body[4*x:])
			if x == 0 && at != 0 || x > 0 && at <= uint32(part.start[x-1]) || at > uint32(keys) ||
				x == n && at != uint32(keys) {
				return nil, fmt.Errorf("chunk %d: cluster %d begins at %d: %w", i, x, at, attention.ErrCorrupt)
			}
			part.start = append(part.start, int32(at))
		}
		body = body[4*(n+1):]
		centre, mean := dense.New[float32](n, c.dim), dense.New[float32](n, c.valueDim)
		zeros, logSize := make([]float32, n), make([]float32, n)
		part.k, part.v = dense.New[float32](keys, c.dim), dense.New[float32](keys, c.valueDim)
		for _, x := range [][]float32{centre.Data, zeros, mean.Data, part.k.Data, part.v.Data} {
			body = seal.Read(body, x, &ok)
		}
		for x := range logSize {
			logSize[x] = float32(math.Log(float64(part.start[x+1] - part.start[x])))
		}
		if !ok {
			break
		}
		if i == h.room {
			h.grow(c.tab, s, c.dim, c.valueDim)
		}
		h.store.put(c.tab, i, centre, mean, logSize)
		h.parts = append(h.parts, part)
		addSketch(&h.sketch, c.tab, part.k)
	}
	first := parts * s.chunk
	sinks := min(s.sinks, first)
	near, asked := sinks+c.length-first, (c.length-first)*c.group()*c.dim
	if !ok {
		return nil, fmt.Errorf("numbers that make no sense: %w", attention.ErrCorrupt)
	}
	if len(body) < size*(near*(c.dim+c.valueDim)+asked) {
		return nil, short
	}
	h.asked = make([]float32, asked)
	for _, x := range [][]float32{h.near.k.Data[:near*c.dim], h.near.v.Data[:near*c.valueDim], h.asked} {
		body = seal.Read(body, x, &ok)
	}
	if !ok {
		return nil, fmt.Errorf("numbers that are not finite: %w", attention.ErrCorrupt)
	}
	for j := range near {
		h.near.pos = append(h.near.pos, int32(either(j < sinks, j, first+j-sinks)))
	}
	c.tab.PackRows(&h.near.panel, h.near.k, 0, near)
	return body, nil
}

package centroid

import (
	"encoding/binary"
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/seal"
)

// cacheFormat: the flag is the number of bytes of a number. The body has for every head the length of its own centres
// as u64 and these centres, 0 if it has none or calibrated ones; the queries that wait for a fit; keys and values of
// all tokens, or, without clusters, of the sinks and the window alone.
var cacheFormat = seal.Format{Magic: "randfeat cache\n\x00", Version: 1, Counts: stateCounts}

// MarshalBinary returns the binary form of AppendBinary.
func (c *Cache[T]) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// AppendBinary appends the state to b: keys and values, from which the clusters can be rebuilt. The form contains a
// fingerprint of specs, scale, shape and calibrated centres, and a checksum. It does not contain calibrated centres.
func (c *Cache[T]) AppendBinary(b []byte) ([]byte, error) {
	if len(c.heads) == 0 {
		return nil, errNoCache
	}
	start := len(b)
	b = cacheFormat.Begin(b, seal.Header{Flag: uint16(sizeOf[T]()), Fingerprint: c.fingerprint(), Counts: c.counts()})
	row := make([]T, c.dim)
	for i := range c.heads {
		h := &c.heads[i]
		var own []byte
		if c.calibrated == nil && h.centres != nil {
			var err error
			if own, err = h.centres.AppendBinary(nil); err != nil {
				return nil, err
			}
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(len(own)))
		b = append(b, own...)
		if n := h.waiting(c.length); n > 0 {
			for g := range c.group() {
				b = seal.Append(b, h.asked[g*h.begin*c.dim:][:n*c.dim]...)
			}
		}
		if h.spec.Clusters == 0 {
			for j := range h.near.pos {
				panelRow(row, &h.near.keys, j)
				b = seal.Append(b, row...)
				b = seal.Append(b, h.near.value.Row(j)...)
			}
			continue
		}
		for p := range c.length {
			b = seal.Append(b, h.k.row(p)[:c.dim]...)
			b = seal.Append(b, h.v.row(p)[:c.valueDim]...)
		}
	}
	return seal.Close(b, start), nil
}

// waiting is the number of positions whose queries are kept for a fit.
func (h *cacheHead[T]) waiting(length int) int {
	if h.begin == 0 || h.centres != nil {
		return 0
	}
	return min(length, h.begin)
}

// nearPositions returns the positions of the sinks and of the window after length tokens.
func nearPositions(length, sinks, window, block int) (pos []int) {
	if length == 0 {
		return nil
	}
	lo := max(0, floorTo(length-1, block)-window)
	for p := range min(sinks, lo) {
		pos = append(pos, p)
	}
	for p := lo; p < length; p++ {
		pos = append(pos, p)
	}
	return pos
}

// UnmarshalBinary restores a state that AppendBinary wrote, and assigns its keys to their clusters again. c must have
// been made with the same arguments; otherwise the error is [attention.ErrMismatch]. Damaged input is
// [attention.ErrCorrupt]. After an error c is unchanged. Memory use is bounded by the sizes of b and c, whatever the
// counts in b say.
func (c *Cache[T]) UnmarshalBinary(b []byte) error {
	if len(c.heads) == 0 {
		return errNoCache
	}
	head, body, err := cacheFormat.Open(b)
	if err != nil {
		return fmt.Errorf("saved cache: %w", err)
	}
	if head.Flag != uint16(sizeOf[T]()) || head.Fingerprint != c.fingerprint() {
		return fmt.Errorf("saved cache of another precision, shape, specs or centres: %w", attention.ErrMismatch)
	}
	n := &Cache[T]{layer: c.layer, specs: c.specs, calibrated: c.calibrated, given: c.given, scale: c.scale, tab: c.tab,
		heads: make([]cacheHead[T], len(c.heads))}
	for i := range n.heads {
		if err := n.begin(i); err != nil {
			return err
		}
	}
	if err := n.setCounts(head.Counts); err != nil {
		return fmt.Errorf("saved cache: %w", err)
	}
	w := new(cacheWorker[T])
	for i := range n.heads {
		if body, err = n.heads[i].load(w, n, i%n.kvHeads, body); err != nil {
			return fmt.Errorf("saved cache, head %d: %w", i, err)
		}
	}
	if len(body) != 0 {
		return fmt.Errorf("saved cache: %d bytes too many: %w", len(body), attention.ErrCorrupt)
	}
	c.layer, c.heads = n.layer, n.heads
	return nil
}

// load takes a head from the front of a body.
func (h *cacheHead[T]) load(w *cacheWorker[T], c *Cache[T], kv int, body []byte) ([]byte, error) {
	short := fmt.Errorf("%d bytes are too few: %w", len(body), attention.ErrCorrupt)
	if len(body) < 8 {
		return nil, short
	}
	own := binary.LittleEndian.Uint64(body)
	body = body[8:]
	// A fit comes with the first token after its positions.
	if want := c.calibrated == nil && h.begin > 0 && c.length > h.begin; want != (own > 0) || own > uint64(len(body)) {
		return nil, fmt.Errorf("centres of %d bytes: %w", own, attention.ErrCorrupt)
	}
	if own > 0 {
		centres := new(Centres)
		if err := centres.UnmarshalBinary(body[:own]); err != nil {
			return nil, err
		}
		body = body[own:]
		if centres.Dim() != c.dim || centres.Clusters() > h.spec.Clusters ||
			centres.ValueDim() != 0 && centres.ValueDim() != c.valueDim {
			return nil, fmt.Errorf("centres of another shape: %w", attention.ErrCorrupt)
		}
		if err := c.use(h, kv, centres); err != nil {
			return nil, fmt.Errorf("%w: %w", err, attention.ErrCorrupt)
		}
	}
	var pos []int
	tokens := c.length
	if h.spec.Clusters == 0 {
		pos = nearPositions(c.length, h.spec.Sinks, h.spec.Window, h.spec.block(true))
		tokens = len(pos)
	}
	waiting := h.waiting(c.length)
	size := int(sizeOf[T]())
	// Compare by division: counts may be hostile.
	if row := (c.dim + c.valueDim) * size; tokens > len(body)/row ||
		waiting > (len(body)-tokens*row)/(c.group()*c.dim*size) {
		return nil, short
	}
	ok := true
	if waiting > 0 {
		h.asked = make([]T, c.group()*h.begin*c.dim)
		for g := range c.group() {
			body = seal.Read(body, h.asked[g*h.begin*c.dim:][:waiting*c.dim], &ok)
		}
	}
	k, v := make([]T, c.dim), make([]T, c.valueDim)
	for j := range tokens {
		body = seal.Read(body, k, &ok)
		body = seal.Read(body, v, &ok)
		if !ok {
			break
		}
		if pos != nil {
			h.near.add(pos[j], k, v)
			continue
		}
		if j > 0 && j%h.spec.block(true) == 0 {
			if err := h.turn(w, c, kv, j); err != nil {
				return nil, err
			}
		}
		h.append(j, k, v)
	}
	if !ok {
		return nil, fmt.Errorf("numbers that are not finite: %w", attention.ErrCorrupt)
	}
	return body, nil
}

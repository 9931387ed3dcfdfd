package centroid

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/seal"
)

// fingerprint distinguishes states of different kinds, shapes, specs, scales and centres.
func (l *layer) fingerprint(kind string, scale float64, spec any, centres []*Centres) [32]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d %d %d %x\n", kind, l.batch, l.qHeads, l.kvHeads, l.dim, l.valueDim,
		math.Float64bits(scale))
	b, err := json.Marshal(spec)
	if err != nil {
		panic("centroid: " + err.Error()) // plain data that has been validated
	}
	h.Write(b)
	for _, c := range centres {
		f := [32]byte{}
		if c != nil {
			f = c.Fingerprint()
		}
		h.Write(f[:])
	}
	return [32]byte(h.Sum(nil))
}

// counts returns the counts in the header of a saved state: tokens and report. There are stateCounts of them.
func (l *layer) counts() []uint64 {
	r := l.report
	return []uint64{uint64(l.length), uint64(l.joined), uint64(r.Rows), uint64(r.Empty), uint64(r.Negative),
		uint64(r.Zero), uint64(r.Raised), uint64(r.Exact), uint64(r.Scored)}
}

const stateCounts = 9

func (l *layer) setCounts(c []uint64) error {
	if c[0] > maxLen {
		return fmt.Errorf("%d tokens: %w", c[0], attention.ErrCorrupt)
	}
	l.length, l.joined = int(c[0]), int(c[1])
	l.report = attention.Report{Rows: int64(c[2]), Empty: int64(c[3]), Negative: int64(c[4]), Zero: int64(c[5]),
		Raised: int64(c[6]), Exact: int64(c[7]), Scored: int64(c[8])}
	return nil
}

// slotsFormat: the flag is the number of bytes of a number. The body has for every head the number of slots as u64,
// then near keys, values and attention, then means, values, variances, counts and attention of the slots.
var slotsFormat = seal.Format{Magic: "randfeat slots\n\x00", Version: 1, Counts: stateCounts}

func (s *Slots[T]) fingerprint() [32]byte {
	if len(s.specs) == 1 {
		return s.layer.fingerprint("slots", float64(s.scale), s.specs[0], s.from)
	}
	return s.layer.fingerprint("slots", float64(s.scale), s.specs, s.from)
}

// MarshalBinary returns the binary form of AppendBinary.
func (s *Slots[T]) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// AppendBinary appends the state to b. The form contains a fingerprint of spec, scale, shape and centres, and a
// checksum. It does not contain the centres.
func (s *Slots[T]) AppendBinary(b []byte) ([]byte, error) {
	if len(s.heads) == 0 {
		return nil, fmt.Errorf("slots that were not made by NewSlots: %w", attention.ErrMismatch)
	}
	start := len(b)
	b = slotsFormat.Begin(b, seal.Header{Flag: uint16(sizeOf[T]()), Fingerprint: s.fingerprint(), Counts: s.counts()})
	residual := 0
	for i := range s.specs {
		residual = max(residual, s.specs[i].Residual)
	}
	row := make([]T, max(s.dim, residual))
	for i := range s.heads {
		h := &s.heads[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(h.g.k))
		for j := range h.near.pos {
			panelRow(row[:s.dim], &h.near.keys, j)
			b = seal.Append(b, row[:s.dim]...)
		}
		b = seal.Append(b, h.near.value.Data[:len(h.near.pos)*s.valueDim]...)
		b = seal.Append(b, h.hNear...)
		for j := range h.g.k {
			panelRow(row[:s.dim], &h.far.mean, j)
			b = seal.Append(b, row[:s.dim]...)
			panelRow(row[:h.g.r], &h.far.spread, j)
			b = seal.Append(b, row[:h.g.r]...)
			b = seal.Append(b, h.far.value.Row(j)...)
		}
		b = seal.Append(b, h.far.count...)
		b = seal.Append(b, h.h...)
	}
	return seal.Close(b, start), nil
}

// UnmarshalBinary restores a state that AppendBinary wrote. s must have been made with the same arguments; otherwise
// the error is [attention.ErrMismatch]. Damaged input is [attention.ErrCorrupt]. After an error s is unchanged. Memory
// use is bounded by the sizes of b and s, whatever the counts in b say.
func (s *Slots[T]) UnmarshalBinary(b []byte) error {
	if len(s.heads) == 0 {
		return fmt.Errorf("slots that were not made by NewSlots: %w", attention.ErrMismatch)
	}
	head, body, err := slotsFormat.Open(b)
	if err != nil {
		return fmt.Errorf("saved slots: %w", err)
	}
	if head.Flag != uint16(sizeOf[T]()) || head.Fingerprint != s.fingerprint() {
		return fmt.Errorf("saved slots of another precision, shape, spec or centres: %w", attention.ErrMismatch)
	}
	c := s.Clone()
	c.Reset()
	if err := c.setCounts(head.Counts); err != nil {
		return fmt.Errorf("saved slots: %w", err)
	}
	size := int(sizeOf[T]())
	ok := true
	k, v := make([]T, s.dim), make([]T, s.valueDim)
	for i := range c.heads {
		h, spec := &c.heads[i], s.spec(i)
		// Near keys follow from the length: sinks, and those since the window of the block of the last token.
		pos := nearPositions(c.length, spec.Sinks, spec.Window, spec.Block)
		bad := fmt.Errorf("saved slots: head %d does not fit %d bytes: %w", i, len(body), attention.ErrCorrupt)
		near := len(pos) * (s.dim + s.valueDim + 1) * size
		if len(body) < 8+near {
			return bad
		}
		n := binary.LittleEndian.Uint64(body)
		body = body[8:]
		if n > uint64(spec.slots()) || uint64(len(body)-near) < n*uint64((s.dim+s.valueDim+h.g.r+2)*size) {
			return bad
		}
		values := body[len(pos)*s.dim*size:]
		for _, p := range pos {
			body = seal.Read(body, k, &ok)
			values = seal.Read(values, v, &ok)
			h.near.add(p, k, v)
		}
		h.hNear = h.hNear[:len(pos)]
		body = seal.Read(values, h.hNear, &ok)
		h.resize(spec.slots(), int(n))
		body = h.read(body, int(n), &ok)
	}
	if !ok || len(body) != 0 {
		return fmt.Errorf("saved slots with numbers that make no sense: %w", attention.ErrCorrupt)
	}
	s.layer, s.heads = c.layer, c.heads
	return nil
}

// read reads n slots from the front of body, which is long enough, and returns the rest.
func (h *slotHead[T]) read(body []byte, n int, ok *bool) []byte {
	f := &h.far
	row := make([]T, max(h.g.d, h.g.r))
	put := func(p []T, at, width int, row []T) {
		for _, v := range row {
			p[at] = v
			at += width
		}
	}
	for j := range n {
		body = seal.Read(body, row[:h.g.d], ok)
		put(f.mean.Data, outputOf(&f.mean, j), f.mean.Width, row[:h.g.d])
		body = seal.Read(body, row[:h.g.r], ok)
		put(f.spread.Data, outputOf(&f.spread, j), f.spread.Width, row[:h.g.r])
		for _, v := range row[:h.g.r] {
			*ok = *ok && v >= 0
		}
		body = seal.Read(body, f.value.Row(j), ok)
	}
	body = seal.Read(body, f.count, ok)
	body = seal.Read(body, h.h, ok)
	for j, v := range f.count {
		*ok = *ok && v >= 1 && float64(v) <= maxLen && h.h[j] >= 0
		f.logn[j] = T(math.Log(float64(v)))
		f.total += int64(v)
	}
	return body
}

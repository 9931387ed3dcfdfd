package centroid

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/seal"
)

// Compacted is causal attention over the slots of a finished context and, exactly, over all tokens since. It implements
// [State].
type Compacted struct {
	layer
	tab   *kern.Table[float32]
	scale float32
	heads []compactedHead

	out, q, k, v attention.Seq[float32] // arguments of the current Step
	crew         par.Crew[compactedWorker]
}

// compactedHead holds the slots of the context first, then the keys and values of the tokens since.
type compactedHead struct {
	slots int
	keys  kern.Panel[float32]
	value dense.Matrix[float32]
	bias  []float32 // added to the logits; 0 for tokens
}

// compactedWorker is the scratch memory of a goroutine.
type compactedWorker struct{ x, score, acc dense.Matrix[float32] }

// compactedCells bounds the number of logits that a goroutine holds at a time.
const compactedCells = 1 << 17

// NewCompacted returns the state of one sequence after a context of length tokens, whose key/value heads [Compact] has
// shrunk, for so many query heads. Heads may have different numbers of slots. scale is as in [Attention]. It copies the
// heads.
func NewCompacted(heads []CompactHead, qHeads, length int, scale float64) (*Compacted, error) {
	if len(heads) == 0 {
		return nil, fmt.Errorf("no heads: %w", dense.ErrShape)
	}
	l, err := newLayer(attention.Shape{Batch: 1, Heads: qHeads, Dim: heads[0].Keys.Cols},
		attention.Shape{Batch: 1, Heads: len(heads), Dim: heads[0].Values.Cols})
	if err != nil {
		return nil, err
	}
	if length < 0 || length > maxLen {
		return nil, fmt.Errorf("a context of %d tokens, want 0 to %d: %w", length, maxLen, dense.ErrShape)
	}
	if scale, err = logitScale(scale, l.dim); err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return nil, err
	}
	l.length = length
	s := &Compacted{layer: l, tab: tab, scale: float32(scale), heads: make([]compactedHead, len(heads))}
	for i, h := range heads {
		k, v := h.Keys, h.Values
		if k.Rows != v.Rows || k.Rows != len(h.Bias) || k.Cols != l.dim || v.Cols != l.valueDim || k.Check() != nil ||
			v.Check() != nil {
			return nil, fmt.Errorf("head %d: keys %d × %d, values %d × %d, %d biases; want dimensions %d and %d: %w", i,
				k.Rows, k.Cols, v.Rows, v.Cols, len(h.Bias), l.dim, l.valueDim, dense.ErrShape)
		}
		c := &s.heads[i]
		c.slots = k.Rows
		c.grow(tab, k.Rows, l.dim, l.valueDim)
		for j := range k.Rows {
			c.add(k.Row(j), v.Row(j), h.Bias[j])
		}
	}
	return s, nil
}

// grow makes room for at least room keys. Later growth is geometric, so that appending tokens one by one takes
// amortised constant time.
func (h *compactedHead) grow(tab *kern.Table[float32], room, d, dv int) {
	if room <= cap(h.bias) {
		return
	}
	n := len(h.bias)
	if n > 0 {
		room = max(room, n+n/4+64)
	}
	var p kern.Panel[float32]
	tab.Room(&p, room, d)
	copy(p.Data, h.keys.Data)
	p.Rows = n
	v := dense.New[float32](room, dv)
	copy(v.Data, h.value.Data[:n*dv])
	v.Rows = n
	h.keys, h.value, h.bias = p, v, append(make([]float32, 0, room), h.bias...)
}

// add appends a key; grow has made room for it.
func (h *compactedHead) add(k, v []float32, bias float32) {
	setPanelRow(&h.keys, h.keys.Rows, k)
	h.keys.Rows++
	h.value.Rows++
	copy(h.value.Row(h.value.Rows-1), v)
	h.bias = append(h.bias, bias)
}

// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over the
// context and all tokens up to its own. Outputs do not depend on how tokens are divided among steps.
func (s *Compacted) Step(out, q, k, v attention.Seq[float32]) error {
	if err := checkStep(&s.layer, out, q, k, v); err != nil {
		return err
	}
	if q.Len == 0 {
		return nil
	}
	s.out, s.q, s.k, s.v = out, q, k, v
	most := 0
	for i := range s.heads {
		most = max(most, len(s.heads[i].bias)+q.Len)
	}
	work := q.Len * most * (s.dim + s.valueDim) * s.group()
	err := s.crew.Do(len(s.heads), par.Workers(len(s.heads), 1+s.tab.Grain/max(1, work)), (*compactedStep)(s))
	s.out, s.q, s.k, s.v = attention.Seq[float32]{}, attention.Seq[float32]{}, attention.Seq[float32]{},
		attention.Seq[float32]{}
	s.report.Rows += int64(q.Len * q.Heads)
	s.length += q.Len
	return err
}

type compactedStep Compacted

// Item appends the tokens of one key/value head and computes the outputs of its query heads, several tokens at a time.
// Every row sums over its own keys only, so outputs do not depend on how tokens are grouped.
func (s *compactedStep) Item(w *compactedWorker, i int) error {
	h, group := &s.heads[i], s.qHeads/s.kvHeads
	k, v := s.k.Head(0, i), s.v.Head(0, i)
	before := len(h.bias)
	h.grow(s.tab, before+k.Rows, s.dim, s.valueDim)
	for j := range k.Rows {
		h.add(k.Row(j), v.Row(j), 0)
	}
	tokens := max(1, min(compactRows, compactedCells/len(h.bias))/group)
	for lo := 0; lo < k.Rows; lo += tokens {
		hi := min(lo+tokens, k.Rows)
		seen := before + hi
		rows := group * (hi - lo)
		w.x, w.score = buf.Shaped(w.x, rows, s.dim), buf.Shaped(w.score, rows, seen)
		w.acc = buf.Shaped(w.acc, rows, s.valueDim)
		for g := range group {
			q := s.q.Head(0, i*group+g)
			for j := lo; j < hi; j++ {
				copy(w.x.Row(g*(hi-lo)+j-lo), q.Row(j))
			}
		}
		s.tab.Scale(w.x.Data, s.scale)
		panel := h.keys
		panel.Rows = seen
		s.tab.MulT(w.score, w.x, &panel, h.bias[:seen])
		for r := range rows {
			row := w.score.Row(r)
			own := before + lo + r%(hi-lo) + 1
			clear(row[own:])
			sum := s.tab.ExpSum(row[:own], s.tab.Max(row[:own]))
			s.tab.Scale(row[:own], 1/sum)
		}
		value := h.value
		value.Rows = seen
		s.tab.Product(w.acc, w.score, value, false)
		for g := range group {
			out := s.out.Head(0, i*group+g)
			for j := lo; j < hi; j++ {
				copy(out.Row(j), w.acc.Row(g*(hi-lo)+j-lo))
			}
		}
	}
	return nil
}

// Len returns the number of tokens seen, including those of the context.
func (s *Compacted) Len() int { return s.length }

// Slots returns the number of slots of each key/value head.
func (s *Compacted) Slots() []int {
	n := make([]int, len(s.heads))
	for i := range s.heads {
		n[i] = s.heads[i].slots
	}
	return n
}

// Bytes returns the memory that the state holds.
func (s *Compacted) Bytes() int64 {
	var n int
	for i := range s.heads {
		h := &s.heads[i]
		n += cap(h.keys.Data) + cap(h.value.Data) + cap(h.bias)
	}
	return 4 * int64(n)
}

// Report returns the counts over the rows of all steps.
func (s *Compacted) Report() attention.Report { return s.report }

// Reset forgets all tokens, including those of the context, and the counts.
func (s *Compacted) Reset() {
	s.length, s.report = 0, attention.Report{}
	clear(s.heads)
}

// Fork returns a copy that continues independently.
func (s *Compacted) Fork() State {
	f := &Compacted{layer: s.layer, tab: s.tab, scale: s.scale, heads: make([]compactedHead, len(s.heads))}
	for i := range s.heads {
		h, c := &s.heads[i], &f.heads[i]
		c.slots = h.slots
		c.bias = slices.Clip(h.bias) // grow copies the rest
		c.keys, c.value = h.keys, h.value
		c.grow(s.tab, len(h.bias)+1, s.dim, s.valueDim)
	}
	return f
}

// compactedFormat: the flag is the number of bytes per number. For every head the body has the number of slots and of
// keys as u64, then the keys, the values and the biases of the slots.
var compactedFormat = seal.Format{Magic: "randfeat compact", Version: 1, Counts: stateCounts}

func (s *Compacted) fingerprint() [32]byte {
	return s.layer.fingerprint("compacted", float64(s.scale), struct{}{})
}

// AppendBinary appends the state to b, with a fingerprint of scale and shape and a checksum.
func (s *Compacted) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	b = compactedFormat.Begin(b, seal.Header{Flag: 4, Fingerprint: s.fingerprint(),
		Counts: s.counts()})
	row := make([]float32, s.dim)
	for i := range s.heads {
		h := &s.heads[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(h.slots))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(h.bias)))
		for j := range h.bias {
			panelRow(row, &h.keys, j)
			b = seal.Append(b, row...)
		}
		b = seal.Append(b, h.value.Data[:len(h.bias)*s.valueDim]...)
		b = seal.Append(b, h.bias[:h.slots]...)
	}
	return seal.Close(b, start), nil
}

// IsCompacted reports whether b begins like a saved Compacted.
func IsCompacted(b []byte) bool {
	return len(b) >= len(compactedFormat.Magic) && string(b[:len(compactedFormat.Magic)]) == compactedFormat.Magic
}

// ReadCompacted reads a state that AppendBinary wrote, for a layer with queries of shape q and values of shape v,
// whose lengths do not matter, and of the given scale. The error wraps
// [attention.ErrMismatch] if the state belongs to another layer and [attention.ErrCorrupt] if the bytes are damaged. It
// allocates no more memory than b justifies.
func ReadCompacted(b []byte, scale float64, q, v attention.Shape) (*Compacted, error) {
	l, err := newLayer(q, v)
	if err != nil {
		return nil, err
	}
	if scale, err = logitScale(scale, l.dim); err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return nil, err
	}
	s := &Compacted{layer: l, tab: tab, scale: float32(scale), heads: make([]compactedHead, l.kvHeads)}
	head, body, err := compactedFormat.Open(b)
	if err != nil {
		return nil, fmt.Errorf("saved compacted state: %w", err)
	}
	if head.Flag != 4 || head.Fingerprint != s.fingerprint() {
		return nil, fmt.Errorf("saved compacted state of another precision, shape or scale: %w", attention.ErrMismatch)
	}
	if err := s.setCounts(head.Counts); err != nil {
		return nil, fmt.Errorf("saved compacted state: %w", err)
	}
	ok := true
	k := make([]float32, s.dim)
	for i := range s.heads {
		h := &s.heads[i]
		var slots, n uint64
		if len(body) >= 16 {
			slots, n = binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])
			body = body[16:]
		}
		if slots > n || n-slots > uint64(s.length) || n > uint64(len(body)) ||
			4*(n*uint64(s.dim+s.valueDim)+slots) > uint64(len(body)) {
			return nil, fmt.Errorf("saved compacted state: head %d does not fit %d bytes: %w", i, len(body),
				attention.ErrCorrupt)
		}
		h.grow(tab, int(n), s.dim, s.valueDim)
		h.slots = int(slots)
		zero := make([]float32, s.valueDim)
		for range n {
			body = seal.Read(body, k, &ok)
			h.add(k, zero, 0)
		}
		body = seal.Read(body, h.value.Data[:int(n)*s.valueDim], &ok)
		body = seal.Read(body, h.bias[:slots], &ok)
		for _, x := range h.bias {
			ok = ok && math.Abs(float64(x)) <= 100
		}
	}
	if !ok || len(body) != 0 {
		return nil, fmt.Errorf("saved compacted state with numbers that make no sense: %w", attention.ErrCorrupt)
	}
	return s, nil
}

package centroid

import (
	"cmp"
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

// SlotSpec says how [Slots] divide a fixed memory. A field that is 0 has the default in brackets.
type SlotSpec struct {
	// Budget is the memory of a key/value head, counted in keys with their values, for sinks, window and slots
	// together.
	Budget int `json:"budget"`
	// Sinks is the number of first keys that are never dropped (4; −1: none).
	Sinks int `json:"sinks,omitempty"`
	// Window and Block say which neighbours are kept: a token at position p of the block [b, b+Block) sees the keys
	// from b−Window on (64 and 32).
	Window int `json:"window,omitempty"`
	Block  int `json:"block,omitempty"`
	// Decay multiplies the attention received so far at the beginning of every block (0.5).
	Decay float64 `json:"decay,omitempty"`
}

const (
	defaultSinks      = 4
	defaultSlotWindow = 64
	defaultSlotBlock  = 32
	defaultDecay      = 0.5
)

// full is the spec with its defaults.
func (s SlotSpec) full() SlotSpec {
	return SlotSpec{Budget: s.Budget, Sinks: max(cmp.Or(s.Sinks, defaultSinks), 0),
		Window: cmp.Or(s.Window, defaultSlotWindow), Block: cmp.Or(s.Block, defaultSlotBlock),
		Decay: cmp.Or(s.Decay, defaultDecay)}
}

// slots is the number of slots of a full spec.
func (s *SlotSpec) slots() int { return s.Budget - s.Sinks - s.Window - s.Block }

// Validate reports the first field that is out of range.
func (s *SlotSpec) Validate() error {
	if err := validate(count{"budget", s.Budget, 0, maxCount}, count{"sinks", s.Sinks, -1, maxCount},
		count{"window", s.Window, 0, maxCount}, count{"block", s.Block, 0, maxCount}); err != nil {
		return err
	}
	f := s.full()
	switch {
	case !(f.Decay > 0 && f.Decay <= 1):
		return fmt.Errorf("decay %v, want above 0 and at most 1: %w", s.Decay, ErrSpec)
	case f.slots() < 0:
		return fmt.Errorf("budget %d is less than sinks, window and block, %d + %d + %d: %w", s.Budget, f.Sinks, f.Window,
			f.Block, ErrSpec)
	}
	return nil
}

// Slots is a [State] of constant memory. The first keys and a window stay. A key that leaves the window stays in a
// slot; at the beginning of a block the slots that have received the least attention are dropped until the others fit
// the budget. Attention received decays at every block. With Decay 1 this is H2O (Zhang et al. 2023, arXiv:2306.14048);
// with a smaller Decay it resembles SnapKV (Li et al. 2024, arXiv:2404.14469).
type Slots struct {
	layer
	specs []SlotSpec // one, or one per key/value head
	tab   *kern.Table[float32]
	scale float64
	heads []slotHead // batch × key/value heads

	out, q, k, v attention.Seq[float32] // of the step under way
	crew         par.Crew[slotWorker]
}

// slotHead is the keys of one key/value head by position: sinks, then slots, then the window.
type slotHead struct {
	pos   []int32
	keys  kern.Panel[float32]
	value dense.Matrix[float32]
	got   []float32 // attention that each key has received
}

// slotWorker is the memory of a goroutine.
type slotWorker struct {
	x, weights, acc dense.Matrix[float32]
	view            kern.Panel[float32]
	order           []int32
	row             []float32
	report          attention.Report
}

// NewSlots returns an empty state for queries of shape q and values of shape v, whose lengths do not matter. scale is
// as in [Attention]. specs has one entry for all key/value heads, or one per head.
func NewSlots(specs []SlotSpec, scale float64, q, v attention.Shape) (*Slots, error) {
	l, err := newLayer(q, v)
	if err != nil {
		return nil, err
	}
	if n := len(specs); n != 1 && n != l.kvHeads {
		return nil, fmt.Errorf("%d specs for %d key/value heads: %w", n, l.kvHeads, dense.ErrShape)
	}
	if scale, err = logitScale(scale, l.dim); err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return nil, err
	}
	s := &Slots{layer: l, tab: tab, scale: scale, heads: make([]slotHead, l.batch*l.kvHeads)}
	for _, spec := range specs {
		if err := spec.Validate(); err != nil {
			return nil, err
		}
		s.specs = append(s.specs, spec.full())
	}
	s.Reset()
	return s, nil
}

// spec returns the spec of head i, counted over all batches.
func (s *Slots) spec(i int) *SlotSpec { return specOf(s.specs, i%s.kvHeads) }

// Spec returns the spec of a key/value head with its defaults filled in.
func (s *Slots) Spec(head int) SlotSpec { return *s.spec(head) }

// Len returns the number of tokens seen.
func (s *Slots) Len() int { return s.length }

// Report returns the counts of all steps.
func (s *Slots) Report() attention.Report { return s.report }

// Reset removes all tokens and sets the counts to zero.
func (s *Slots) Reset() {
	s.length, s.report = 0, attention.Report{}
	for i := range s.heads {
		h, budget := &s.heads[i], s.spec(i).Budget
		s.tab.Room(&h.keys, budget, s.dim)
		h.value = buf.Shaped(h.value, budget, s.valueDim)
		h.pos, h.got = buf.Sized(h.pos, budget)[:0], buf.Sized(h.got, budget)[:0]
	}
}

// Bytes returns the memory that the state holds.
func (s *Slots) Bytes() int64 {
	var n int
	for i := range s.heads {
		h := &s.heads[i]
		n += cap(h.keys.Data) + cap(h.value.Data) + cap(h.got) + cap(h.pos)
	}
	return 4 * int64(n)
}

// slotRows queries at most are computed at a time.
const slotRows = 64

// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over all kept
// tokens up to its own. Outputs do not depend on how the tokens are divided into steps. After the first steps Slots
// allocate nothing.
func (s *Slots) Step(out, q, k, v attention.Seq[float32]) error {
	if err := checkStep(&s.layer, out, q, k, v); err != nil || q.Len == 0 {
		return err
	}
	s.out, s.q, s.k, s.v = out, q, k, v
	budget := 0
	for i := range s.specs {
		budget += s.specs[i].Budget / len(s.specs)
	}
	work := q.Len * budget * (s.dim + s.valueDim) * s.group()
	err := s.crew.Do(len(s.heads), par.Workers(len(s.heads), 1+s.tab.Grain/max(1, work)), (*slotStep)(s))
	s.out, s.q, s.k, s.v = attention.Seq[float32]{}, attention.Seq[float32]{}, attention.Seq[float32]{},
		attention.Seq[float32]{}
	for _, w := range s.crew.Workers {
		s.report.Add(w.report)
		w.report = attention.Report{}
	}
	s.length += q.Len
	return err
}

type slotStep Slots

// Item is the step of one key/value head of a batch.
func (s *slotStep) Item(w *slotWorker, i int) error {
	h, spec := &s.heads[i], (*Slots)(s).spec(i)
	b, kv, group := i/s.kvHeads, i%s.kvHeads, s.qHeads/s.kvHeads
	k, v := s.k.Head(b, kv), s.v.Head(b, kv)
	rows := max(1, slotRows/group)
	for t, n := 0, 0; t < k.Rows; t += n {
		p := s.length + t
		if p > 0 && p%spec.Block == 0 {
			h.turn(s.tab, w, spec, p)
		}
		n = min(spec.Block-p%spec.Block, k.Rows-t, rows) // no block begins within these tokens
		for j := range n {
			h.add(p+j, k.Row(t+j), v.Row(t+j))
		}
		w.x = buf.Shaped(w.x, group*n, s.dim)
		for g := range group {
			q := s.q.Head(b, kv*group+g)
			for j := range n {
				copy(w.x.Row(g*n+j), q.Row(t+j))
			}
		}
		s.tab.Scale(w.x.Data, float32(s.scale))
		h.read(s.tab, w, n)
		for g := range group {
			out := s.out.Head(b, kv*group+g)
			for j := range n {
				copy(out.Row(t+j), w.acc.Row(g*n+j))
			}
		}
	}
	return nil
}

// add appends the key of position p; Reset has made room for the budget.
func (h *slotHead) add(p int, k, v []float32) {
	n := len(h.pos)
	setPanelRow(&h.keys, n, k)
	copy(h.value.Row(n), v)
	h.pos, h.got = append(h.pos, int32(p)), append(h.got, 0)
}

// read computes the outputs of the queries w.x of the last n tokens, token by token of every query head, into w.acc,
// and adds the attention that keys receive.
func (h *slotHead) read(tab *kern.Table[float32], w *slotWorker, n int) {
	all := len(h.pos)
	w.view = h.keys
	w.view.Rows = all
	w.weights, w.acc = buf.Shaped(w.weights, w.x.Rows, all), buf.Shaped(w.acc, w.x.Rows, h.value.Cols)
	tab.MulT(w.weights, w.x, &w.view, nil)
	for r := range w.x.Rows {
		row, seen := w.weights.Row(r), all-n+1+r%n // the last n keys are those of the tokens
		clear(row[seen:])
		sum := tab.ExpSum(row[:seen], tab.Max(row[:seen]))
		tab.Scale(row[:seen], 1/sum)
		w.report.Exact += int64(seen)
	}
	w.report.Rows += int64(w.x.Rows)
	tab.Product(w.acc, w.weights, h.value.RowRange(0, all), false)
	for j := range n { // in this order, whatever the number of tokens that are computed together
		for r := j; r < w.x.Rows; r += n {
			tab.MulAdd(h.got, w.weights.Row(r), 1)
		}
	}
}

// turn begins the block at position b0: keys leave the window, slots are dropped until they fit, attention decays.
func (h *slotHead) turn(tab *kern.Table[float32], w *slotWorker, s *SlotSpec, b0 int) {
	left, _ := slices.BinarySearch(h.pos, int32(max(s.Sinks, b0-s.Window))) // the first key of the window
	first := min(s.Sinks, left)
	if extra := left - first - s.slots(); extra > 0 {
		h.drop(w, first, left, extra)
	}
	tab.Scale(h.got, float32(s.Decay))
}

// drop removes those of the keys first to end−1 that have received the least attention, of equal ones the first.
func (h *slotHead) drop(w *slotWorker, first, end, extra int) {
	w.order = w.order[:0]
	for i := first; i < end; i++ {
		w.order = append(w.order, int32(i))
	}
	slices.SortStableFunc(w.order, func(i, j int32) int { return cmp.Compare(h.got[i], h.got[j]) })
	for _, i := range w.order[:extra] {
		h.pos[i] = -1
	}
	w.row = buf.Sized(w.row, h.keys.Cols)
	n := first
	for i := first; i < len(h.pos); i++ {
		if h.pos[i] < 0 {
			continue
		}
		if n < i {
			panelRow(w.row, &h.keys, i)
			setPanelRow(&h.keys, n, w.row)
			copy(h.value.Row(n), h.value.Row(i))
			h.pos[n], h.got[n] = h.pos[i], h.got[i]
		}
		n++
	}
	h.pos, h.got = h.pos[:n], h.got[:n]
}

// Fork returns an independent copy of the state.
func (s *Slots) Fork() State {
	c := &Slots{layer: s.layer, specs: s.specs, tab: s.tab, scale: s.scale, heads: make([]slotHead, len(s.heads))}
	c.Reset()
	c.length, c.report = s.length, s.report
	for i := range s.heads {
		h, o := &s.heads[i], &c.heads[i]
		copy(o.keys.Data, h.keys.Data)
		copy(o.value.Data, h.value.Data)
		o.pos, o.got = append(o.pos, h.pos...), append(o.got, h.got...)
	}
	return c
}

// slotsFormat: the flag is the number of bytes of a number. The body has for every head the number of slots as u64,
// then keys, values and attention of sinks and window, then key and value of every slot, as many ones, and the
// attention of the slots. The ones are the numbers of keys of slots that earlier versions could merge.
var slotsFormat = seal.Format{Magic: "randfeat slots\n\x00", Version: 1, Counts: stateCounts}

func (s *Slots) fingerprint() [32]byte {
	type wire struct {
		SlotSpec
		Evict bool `json:"evict"` // as in earlier versions
	}
	list := make([]wire, len(s.specs))
	for i, spec := range s.specs {
		list[i] = wire{spec, true}
	}
	if len(list) == 1 {
		return s.layer.fingerprint("slots", float64(float32(s.scale)), list[0])
	}
	return s.layer.fingerprint("slots", float64(float32(s.scale)), list)
}

// kept returns the number of sinks and the position of the first key of the window after n tokens.
func (s *SlotSpec) kept(n int) (sinks, window int) {
	sinks = min(n, s.Sinks)
	return sinks, min(n, max(s.Sinks, floorTo(max(n-1, 0), s.Block)-s.Window))
}

// AppendBinary appends the state to b. The form contains a fingerprint of specs, scale and shape, and a checksum.
func (s *Slots) AppendBinary(b []byte) ([]byte, error) {
	if len(s.heads) == 0 {
		return nil, errNoSlots
	}
	start := len(b)
	b = slotsFormat.Begin(b, seal.Header{Flag: 4, Fingerprint: s.fingerprint(), Counts: s.counts()})
	row := make([]float32, s.dim)
	for i := range s.heads {
		h := &s.heads[i]
		sinks, window := s.spec(i).kept(s.length)
		end := len(h.pos) - (s.length - window) // of the slots
		b = binary.LittleEndian.AppendUint64(b, uint64(end-sinks))
		ranges := [...][2]int{{0, sinks}, {end, len(h.pos)}}
		for _, r := range ranges {
			for j := r[0]; j < r[1]; j++ {
				panelRow(row, &h.keys, j)
				b = seal.Append(b, row...)
			}
		}
		for _, r := range ranges {
			b = seal.Append(b, h.value.Data[r[0]*s.valueDim:r[1]*s.valueDim]...)
		}
		for _, r := range ranges {
			b = seal.Append(b, h.got[r[0]:r[1]]...)
		}
		for j := sinks; j < end; j++ {
			panelRow(row, &h.keys, j)
			b = seal.Append(b, row...)
			b = seal.Append(b, h.value.Row(j)...)
		}
		b = seal.Append(b, slices.Repeat([]float32{1}, end-sinks)...)
		b = seal.Append(b, h.got[sinks:end]...)
	}
	return seal.Close(b, start), nil
}

var errNoSlots = fmt.Errorf("slots that were not made by NewSlots: %w", attention.ErrMismatch)

// UnmarshalBinary restores a state that AppendBinary wrote. s must have been made with the same arguments; otherwise
// the error is [attention.ErrMismatch]. Damaged input is [attention.ErrCorrupt]. After an error s is unchanged. Memory
// use is bounded by the sizes of b and s, whatever the counts in b say.
func (s *Slots) UnmarshalBinary(b []byte) error {
	if len(s.heads) == 0 {
		return errNoSlots
	}
	head, body, err := slotsFormat.Open(b)
	if err != nil {
		return fmt.Errorf("saved slots: %w", err)
	}
	if head.Flag != 4 || head.Fingerprint != s.fingerprint() {
		return fmt.Errorf("saved slots of another shape or spec, or slots that merge, which were removed: %w",
			attention.ErrMismatch)
	}
	c := s.Fork().(*Slots)
	c.Reset()
	if err := c.setCounts(head.Counts); err != nil {
		return fmt.Errorf("saved slots: %w", err)
	}
	ok := true
	for i := range c.heads {
		if body, err = c.load(i, body, &ok); err != nil {
			return fmt.Errorf("saved slots: head %d: %w", i, err)
		}
	}
	if !ok || len(body) != 0 {
		return fmt.Errorf("saved slots with numbers that make no sense: %w", attention.ErrCorrupt)
	}
	s.layer, s.heads = c.layer, c.heads
	return nil
}

// load takes head i from the front of body.
func (s *Slots) load(i int, body []byte, ok *bool) ([]byte, error) {
	h, spec := &s.heads[i], s.spec(i)
	sinks, window := spec.kept(s.length)
	near, row := sinks+s.length-window, s.dim+s.valueDim
	short := fmt.Errorf("it does not fit %d bytes: %w", len(body), attention.ErrCorrupt)
	if len(body) < 8+4*near*(row+1) {
		return nil, short
	}
	n := binary.LittleEndian.Uint64(body)
	// Keys between the sinks and the window are in slots until there are more of them than slots.
	if n != uint64(min(spec.slots(), window-sinks)) || uint64(len(body)-8-4*near*(row+1)) < n*4*uint64(row+2) {
		return nil, short
	}
	body = body[8:]
	slots := int(n)
	keys, values := dense.New[float32](near+slots, s.dim), dense.New[float32](near+slots, s.valueDim)
	got, ones := make([]float32, near+slots), make([]float32, slots)
	body = seal.Read(body, keys.Data[:near*s.dim], ok)
	body = seal.Read(body, values.Data[:near*s.valueDim], ok)
	body = seal.Read(body, got[:near], ok)
	for j := near; j < near+slots; j++ {
		body = seal.Read(body, keys.Row(j), ok)
		body = seal.Read(body, values.Row(j), ok)
	}
	body = seal.Read(body, ones, ok)
	body = seal.Read(body, got[near:], ok)
	for _, x := range got {
		*ok = *ok && x >= 0 && !math.IsInf(float64(x), 1)
	}
	for _, x := range ones {
		*ok = *ok && x == 1
	}
	for to := range near + slots { // sinks, slots, window
		from, p := to, to
		switch {
		case to >= sinks+slots:
			from, p = to-slots, window+to-sinks-slots
		case to >= sinks:
			from, p = near+to-sinks, window-1 // where the key of a slot was does not matter
		}
		h.add(p, keys.Row(from), values.Row(from))
		h.got[to] = got[from]
	}
	return body, nil
}

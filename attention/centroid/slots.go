package centroid

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// SlotSpec says how [Slots] divide a fixed memory. A field that is 0 has the default in brackets.
type SlotSpec struct {
	// Budget is the memory of a key/value head, counted in keys with their values, for sinks, window and slots
	// together. A slot holds a key, a value, Residual numbers and two more numbers.
	Budget int `json:"budget"`
	// Sinks is the number of first keys that stay exact (4; −1: none).
	Sinks int `json:"sinks,omitempty"`
	// Window and Block say which neighbours are exact, as in [Spec] (64 and 32).
	Window int `json:"window,omitempty"`
	Block  int `json:"block,omitempty"`
	// Residual is the number of directions along which slots keep the variance of their keys (16; −1: none).
	Residual int `json:"residual,omitempty"`
	// Decay multiplies the attention received so far at the beginning of every block (0.5).
	Decay float64 `json:"decay,omitempty"`
	// Evict drops the slots that received the least attention instead of merging slots. With Decay 1 this is H2O (Zhang
	// et al. 2023, arXiv:2306.14048); with a smaller Decay it resembles SnapKV (Li et al. 2024, arXiv:2404.14469). It
	// needs no centres.
	Evict bool `json:"evict,omitempty"`
}

const (
	defaultSinks      = 4
	defaultSlotWindow = 64
	defaultSlotBlock  = 32
	defaultDecay      = 0.5
	// slotFloor is the weight of a slot that received no attention, in units of the mean. A weight that grows with the
	// number of keys, as in Ward's clustering, protects large old slots at the expense of single keys: a quarter more
	// error.
	slotFloor = 0.2
)

// full is the spec with its defaults.
func (s SlotSpec) full() SlotSpec {
	set := func(n *int, other int) {
		if *n == 0 {
			*n = other
		}
		*n = max(*n, 0)
	}
	set(&s.Sinks, defaultSinks)
	set(&s.Window, defaultSlotWindow)
	set(&s.Block, defaultSlotBlock)
	set(&s.Residual, defaultResidual)
	if s.Decay == 0 {
		s.Decay = defaultDecay
	}
	return s
}

// slots is the number of slots of a full spec.
func (s *SlotSpec) slots() int { return s.Budget - s.Sinks - s.Window - s.Block }

// Validate reports the first field that is out of range.
func (s *SlotSpec) Validate() error {
	f := s.full()
	for _, n := range [...]int{s.Sinks + 1, s.Window, s.Block, s.Residual + 1, s.Budget} {
		if n < 0 || n > most {
			return fmt.Errorf("sinks %d, window %d, block %d, residual %d, budget %d: want none negative, sinks and residual at least -1: %w",
				s.Sinks, s.Window, s.Block, s.Residual, s.Budget, ErrSpec)
		}
	}
	switch {
	case !(f.Decay > 0 && f.Decay <= 1):
		return fmt.Errorf("decay %v, want above 0 and at most 1: %w", s.Decay, ErrSpec)
	case f.slots() < 0:
		return fmt.Errorf("budget %d is less than sinks, window and block, %d + %d + %d: %w", s.Budget, f.Sinks, f.Window,
			f.Block, ErrSpec)
	}
	return nil
}

// Slots is a [State] of constant memory: old keys are merged online, weighted by the attention they receive. The first
// keys and a window are exact. A key that leaves the window becomes a slot. If there are too many slots, the cheapest
// merges are made. A slot holds the mean c of its n keys, the mean of their values, and the variance of the keys along
// the residual directions. Its weight is n e^{x·c + ½ min(σ²(x), 6)}.
//
// At the beginning of a block, slots merge until they fit the budget, in ascending order of the cost
//
//	w_a w_b / (w_a + w_b) · |R(c_a − c_b)|²,   w = h / mean(h) + 0.2.
//
// Here h is the attention that the slot has received, including the time when its keys were in the window, decayed at
// every block. Calibration supplies the metric R and the residual directions (see [Centres]). The centres themselves
// are not used.
type Slots[T dense.Float] struct {
	layer
	specs []SlotSpec // one, or one per key/value head
	tab   *kern.Table[T]
	scale T
	from  []*Centres
	heads []slotHead[T] // batch × key/value heads

	out, q, k, v attention.Seq[T] // of the step under way
	crew         par.Crew[slotWorker[T]]
}

// slotHead is the state of one key/value head.
type slotHead[T dense.Float] struct {
	g     *geometry[T]
	m     *metric[T]
	near  near[T]
	hNear []T // attention received by near keys
	far   far[T]
	h     []T // and by slots
}

// metric is the part of Centres that slots use.
type metric[T dense.Float] struct {
	mean []T
	r    kern.Panel[T] // R
	py   kern.Panel[T]
}

// slotWorker is the memory of a goroutine.
type slotWorker[T dense.Float] struct {
	reader reader[T]
	pool   slotPool[T]
}

// NewSlots returns an empty state. scale is as in [Attention]. centres has one entry per key/value head; it may be nil
// if spec.Evict is set.
func NewSlots[T dense.Float](spec SlotSpec, scale float64, centres []*Centres, batch, qHeads, kvHeads, dim,
	valueDim int) (*Slots[T], error) {
	return NewSlotsPerHead[T]([]SlotSpec{spec}, scale, centres, batch, qHeads, kvHeads, dim, valueDim)
}

// NewSlotsPerHead is NewSlots with a spec for every key/value head; one spec is for all of them. Heads may differ in
// everything but Evict.
func NewSlotsPerHead[T dense.Float](specs []SlotSpec, scale float64, centres []*Centres, batch, qHeads, kvHeads, dim,
	valueDim int) (*Slots[T], error) {
	l, err := newLayer(batch, qHeads, kvHeads, dim, valueDim)
	if err != nil {
		return nil, err
	}
	if n := len(specs); n != 1 && n != kvHeads {
		return nil, fmt.Errorf("%d specs for %d key/value heads: %w", n, kvHeads, dense.ErrShape)
	}
	for i := range specs {
		if err := specs[i].Validate(); err != nil {
			return nil, err
		}
		if specs[i].Evict != specs[0].Evict {
			return nil, fmt.Errorf("some heads merge slots and others drop them: %w", ErrSpec)
		}
	}
	if scale, err = logitScale(scale, dim); err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	s := &Slots[T]{layer: l, tab: tab, scale: T(scale), from: centres}
	for _, spec := range specs {
		s.specs = append(s.specs, spec.full())
	}
	if specs[0].Evict {
		s.from = nil
		for i := range s.specs {
			s.specs[i].Residual = 0
		}
	} else if len(centres) != kvHeads {
		return nil, fmt.Errorf("centres of %d heads for %d key/value heads; slots that merge need those of Fit: %w",
			len(centres), kvHeads, dense.ErrShape)
	}
	for b := range batch {
		for h := range kvHeads {
			var m *metric[T]
			if b > 0 {
				m = s.heads[h].m
			} else if !specs[0].Evict {
				c := centres[h]
				if c == nil || c.Dim() != dim {
					return nil, fmt.Errorf("head %d has no centres of dimension %d: %w", h, dim, dense.ErrShape)
				}
				m = new(metric[T])
				m.mean = convert[T](nil, c.Mean())
				tab.Pack(&m.r, dense.Convert[T](c.Metric()))
			}
			head := slotHead[T]{m: m, g: &geometry[T]{tab: tab, d: dim, dv: valueDim}}
			if m != nil {
				s.project(head.g, m, s.spec(h), centres[h])
			}
			s.heads = append(s.heads, head)
		}
	}
	s.Reset()
	return s, nil
}

// spec returns the spec of head i, counted over all batches.
func (s *Slots[T]) spec(i int) *SlotSpec { return &s.specs[i%s.kvHeads%len(s.specs)] }

// project takes over the residual directions.
func (s *Slots[T]) project(g *geometry[T], m *metric[T], spec *SlotSpec, c *Centres) {
	px, py := c.Projections()
	g.r = min(spec.Residual, px.Cols)
	g.spec.Spread = g.r > 0
	x, y := dense.New[T](g.r, s.dim), dense.New[T](g.r, s.dim)
	for r := range g.r {
		for i := range s.dim {
			x.Set(r, i, T(px.At(i, r)))
			y.Set(r, i, T(py.At(i, r)))
		}
	}
	s.tab.Pack(&g.px, x)
	s.tab.Pack(&m.py, y)
}

// Spec returns the spec of a key/value head with its defaults filled in.
func (s *Slots[T]) Spec(head int) SlotSpec { return *s.spec(head) }

// Len returns the number of tokens seen, including those of merged states.
func (s *Slots[T]) Len() int { return s.length + s.joined }

// Report returns the counts of all steps.
func (s *Slots[T]) Report() attention.Report { return s.report }

// Reset removes all tokens and sets the counts to zero.
func (s *Slots[T]) Reset() {
	s.length, s.joined, s.report = 0, 0, attention.Report{}
	for i := range s.heads {
		h, spec := &s.heads[i], s.spec(i)
		h.near.reset(s.tab, spec.Sinks+spec.Window+spec.Block, s.dim, s.valueDim)
		h.hNear = buf.Sized(h.hNear, spec.Sinks+spec.Window+spec.Block)[:0]
		h.resize(spec.slots(), 0)
	}
}

// resize makes n of the room for slots those in use.
func (h *slotHead[T]) resize(room, n int) {
	g, f := h.g, &h.far
	if f.g == nil {
		f.g = g
		zeroPanel(g.tab, &f.mean, room, g.d)
		zeroPanel(g.tab, &f.spread, room, g.r)
		f.value = dense.New[T](room, g.dv)
		f.count, f.logn, h.h = make([]T, room), make([]T, room), make([]T, room)
	}
	g.k = n
	f.mean.Rows, f.spread.Rows, f.value.Rows = n, n, n
	f.count, f.logn, h.h = f.count[:n], f.logn[:n], h.h[:n]
	f.total = 0
}

// Bytes returns the memory that the state holds.
func (s *Slots[T]) Bytes() int64 {
	var n int
	for i := range s.heads {
		h := &s.heads[i]
		n += cap(h.near.keys.Data) + cap(h.near.value.Data) + cap(h.hNear) + cap(h.far.mean.Data) +
			cap(h.far.value.Data) + cap(h.far.spread.Data) + cap(h.far.count) + cap(h.far.logn) + cap(h.h)
	}
	return int64(n) * sizeOf[T]()
}

// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over all
// tokens up to its own. Outputs do not depend on how the tokens are divided into steps. After the first steps Slots
// allocate nothing.
func (s *Slots[T]) Step(out, q, k, v attention.Seq[T]) error {
	if err := checkStep(&s.layer, out, q, k, v); err != nil {
		return err
	}
	if q.Len == 0 {
		return nil
	}
	s.out, s.q, s.k, s.v = out, q, k, v
	budget := 0
	for i := range s.specs {
		budget += s.specs[i].Budget / len(s.specs)
	}
	work := q.Len * budget * (s.dim + s.valueDim) * s.group()
	err := s.crew.Do(len(s.heads), par.Workers(len(s.heads), 1+s.tab.Grain/max(1, work)), (*slotStep[T])(s))
	s.out, s.q, s.k, s.v = attention.Seq[T]{}, attention.Seq[T]{}, attention.Seq[T]{}, attention.Seq[T]{}
	for _, w := range s.crew.Workers {
		s.report.Add(w.reader.report)
		w.reader.report = attention.Report{}
	}
	s.length += q.Len
	return err
}

type slotStep[T dense.Float] Slots[T]

// Item is the step of one key/value head of a batch.
func (s *slotStep[T]) Item(w *slotWorker[T], i int) error {
	h, spec := &s.heads[i], (*Slots[T])(s).spec(i)
	b, kv := i/s.kvHeads, i%s.kvHeads
	group := s.qHeads / s.kvHeads
	k, v := s.k.Head(b, kv), s.v.Head(b, kv)
	r := &w.reader
	r.g, r.near, r.group = h.g, &h.near, group
	rows := max(1, blockRows/group)
	for t := 0; t < k.Rows; t += r.n {
		p := s.length + t
		if p > 0 && p%spec.Block == 0 {
			h.turn(&w.pool, spec, p)
		}
		r.n, r.p0 = min(spec.Block-p%spec.Block, k.Rows-t, rows), p
		for j := range r.n {
			h.near.add(p+j, k.Row(t+j), v.Row(t+j))
			h.hNear = append(h.hNear, 0)
		}
		r.x = buf.Shaped(r.x, group*r.n, s.dim)
		for g := range group {
			q := s.q.Head(b, kv*group+g)
			for j := range r.n {
				copy(r.x.Row(g*r.n+j), q.Row(t+j))
			}
		}
		s.tab.Scale(r.x.Data, s.scale)
		r.far = nil
		if h.g.k > 0 {
			r.far = &h.far
		}
		r.read()
		r.received(h.hNear, h.h)
		for g := range group {
			out := s.out.Head(b, kv*group+g)
			for j := range r.n {
				copy(out.Row(t+j), r.acc.Row(g*r.n+j))
			}
		}
	}
	return nil
}

// slotPool are slots in a form that is easy to merge; it is the scratch memory of turn.
type slotPool[T dense.Float] struct {
	n           int
	mean, value dense.Matrix[T]
	spread      dense.Matrix[T] // n·Var(p)
	count, h    []T

	z, p, score dense.Matrix[T]
	panel       kern.Panel[T]
	later       kern.Panel[T] // a part of it
	norm        []T
	inverse     []T
	cost        []T
	next, root  []int32
	order       []int32
}

// reset empties the pool and makes room.
func (a *slotPool[T]) reset(g *geometry[T], room int) {
	a.n = 0
	a.mean, a.value = buf.Shaped(a.mean, room, g.d), buf.Shaped(a.value, room, g.dv)
	a.spread = buf.Shaped(a.spread, room, g.r)
	a.count, a.h = buf.Sized(a.count, room), buf.Sized(a.h, room)
}

// panelRow copies output j of a panel.
func panelRow[T dense.Float](dst []T, p *kern.Panel[T], j int) {
	at := outputOf(p, j)
	for i := range dst {
		dst[i] = p.Data[at]
		at += p.Width
	}
}

// takeSlots appends the slots of a head, takeNear its near keys from i to j−1.
func (a *slotPool[T]) takeSlots(h *slotHead[T]) {
	for c := range h.g.k {
		panelRow(a.mean.Row(a.n), &h.far.mean, c)
		panelRow(a.spread.Row(a.n), &h.far.spread, c)
		copy(a.value.Row(a.n), h.far.value.Row(c))
		a.count[a.n], a.h[a.n] = h.far.count[c], h.h[c]
		for i := range a.spread.Row(a.n) {
			a.spread.Row(a.n)[i] *= a.count[a.n]
		}
		a.n++
	}
}

func (a *slotPool[T]) takeNear(h *slotHead[T], i, j int) {
	for ; i < j; i++ {
		panelRow(a.mean.Row(a.n), &h.near.keys, i)
		copy(a.value.Row(a.n), h.near.value.Row(i))
		clear(a.spread.Row(a.n))
		a.count[a.n], a.h[a.n] = 1, h.hNear[i]
		a.n++
	}
}

// turn begins the block at position b0: keys leave the window, slots merge until they fit, attention decays.
func (h *slotHead[T]) turn(a *slotPool[T], s *SlotSpec, b0 int) {
	lo, _ := slices.BinarySearch(h.near.pos, int32(max(s.Sinks, b0-s.Window)))
	sinks := min(s.Sinks, lo)
	if lo > sinks {
		a.reset(h.g, h.g.k+len(h.near.pos))
		a.takeSlots(h)
		a.takeNear(h, sinks, lo)
		a.shrink(h, s)
		h.put(a, s)
		h.near.remove(sinks, lo)
		h.hNear = slices.Delete(h.hNear, sinks, lo)
	}
	decay := T(s.Decay)
	h.g.tab.Scale(h.h, decay)
	h.g.tab.Scale(h.hNear, decay)
}

// remove drops the keys from i to j−1.
func (a *near[T]) remove(i, j int) {
	n := len(a.pos)
	for to, from := i, j; from < n; to, from = to+1, from+1 {
		x, y := outputOf(&a.keys, to), outputOf(&a.keys, from)
		for range a.keys.Cols {
			a.keys.Data[x] = a.keys.Data[y]
			x, y = x+a.keys.Width, y+a.keys.Width
		}
		copy(a.value.Row(to), a.value.Row(from))
	}
	a.pos = slices.Delete(a.pos, i, j)
	a.keys.Rows, a.value.Rows = len(a.pos), len(a.pos)
}

// put copies the slots of a to the head.
func (h *slotHead[T]) put(a *slotPool[T], s *SlotSpec) {
	f := &h.far
	h.resize(s.slots(), a.n)
	for c := range a.n {
		n := a.count[c]
		at := outputOf(&f.mean, c)
		for _, v := range a.mean.Row(c) {
			f.mean.Data[at] = v
			at += f.mean.Width
		}
		at = outputOf(&f.spread, c)
		for _, v := range a.spread.Row(c) {
			f.spread.Data[at] = v / n
			at += f.spread.Width
		}
		copy(f.value.Row(c), a.value.Row(c))
		f.count[c], f.logn[c], h.h[c] = n, T(math.Log(float64(n))), a.h[c]
		f.total += int64(n)
	}
}

// shrink merges or drops slots until the number that the spec allows is left. Their order stays.
func (a *slotPool[T]) shrink(h *slotHead[T], s *SlotSpec) {
	extra := a.n - s.slots()
	if extra <= 0 {
		return
	}
	if s.Evict {
		a.evict(extra)
		return
	}
	for extra > 0 {
		a.merge(h, min(extra, a.n/2))
		left := a.n - s.slots()
		if left == extra { // no pair has a distance that T can hold
			a.evict(extra)
		}
		extra = left
	}
}

// evict drops the slots with the least attention, of equal ones the first.
func (a *slotPool[T]) evict(extra int) {
	a.ascending(a.h[:a.n])
	for _, c := range a.order[:extra] {
		a.count[c] = 0
	}
	a.compact()
}

// ascending sets order to the indices of x by size.
func (a *slotPool[T]) ascending(x []T) {
	a.order = buf.Sized(a.order, len(x))
	for i := range a.order {
		a.order[i] = int32(i)
	}
	slices.SortFunc(a.order, func(i, j int32) int {
		switch {
		case x[i] < x[j]:
			return -1
		case x[i] > x[j]:
			return 1
		}
		return int(i - j)
	})
}

// compact removes the slots without keys.
func (a *slotPool[T]) compact() {
	n := 0
	for c := range a.n {
		if a.count[c] == 0 {
			continue
		}
		if n < c {
			copy(a.mean.Row(n), a.mean.Row(c))
			copy(a.value.Row(n), a.value.Row(c))
			copy(a.spread.Row(n), a.spread.Row(c))
			a.count[n], a.h[n] = a.count[c], a.h[c]
		}
		n++
	}
	a.n = n
}

// merge joins the extra slots that are cheapest to join with their nearest slot. All costs are measured before the
// first join.
func (a *slotPool[T]) merge(h *slotHead[T], extra int) {
	g, n := h.g, a.n
	a.nearest(h)
	// If two slots are each other's nearest, only the later one moves. Otherwise they would swap places.
	for c := range n {
		if o := a.next[c]; int(a.next[o]) == c && c < int(o) {
			a.cost[c], a.next[c] = T(math.Inf(1)), int32(c)
		}
	}
	a.ascending(a.cost[:n])
	if g.r > 0 {
		a.p = buf.Shaped(a.p, n, g.r)
		g.tab.MulT(a.p, a.mean.RowRange(0, n), &h.m.py, nil)
	}
	// The target of a move may itself have moved. Follow the chain; equal costs could otherwise form a cycle.
	a.root = buf.Sized(a.root, n)
	for c := range a.root {
		a.root[c] = int32(c)
	}
	for _, c := range a.order[:extra] {
		to := a.next[c]
		for a.root[to] != to {
			to = a.root[to]
		}
		if to != c {
			a.join(g, int(to), int(c))
			a.root[c] = to
		}
	}
	a.compact()
}

// join adds slot c to slot o.
func (a *slotPool[T]) join(g *geometry[T], o, c int) {
	n, m := float64(a.count[o]), float64(a.count[c])
	f := m / (n + m)
	if g.r > 0 {
		po, pc, so, sc := a.p.Row(o), a.p.Row(c), a.spread.Row(o), a.spread.Row(c)
		for i := range po {
			d := float64(pc[i]) - float64(po[i])
			so[i] = T(float64(so[i]) + float64(sc[i]) + d*d*n*f)
			po[i] = T(float64(po[i]) + d*f)
		}
	}
	for _, x := range [...][2][]T{{a.mean.Row(o), a.mean.Row(c)}, {a.value.Row(o), a.value.Row(c)}} {
		to, from := x[0], x[1]
		for i, v := range from {
			to[i] = T(float64(to[i])*(1-f) + float64(v)*f)
		}
	}
	a.count[o] += a.count[c]
	a.h[o] += a.h[c]
	a.count[c] = 0
}

// nearest sets next and cost to the cheapest partner of every slot, the first of several.
func (a *slotPool[T]) nearest(h *slotHead[T]) {
	g, n, tab := h.g, a.n, h.g.tab
	x := buf.Shaped(a.score, n, g.d)
	for c := range n {
		for i, v := range a.mean.Row(c) {
			x.Row(c)[i] = v - h.m.mean[i]
		}
	}
	a.z = buf.Shaped(a.z, n, g.d)
	tab.MulT(a.z, x, &h.m.r, nil)
	a.score = x
	tab.Pack(&a.panel, a.z)
	a.norm, a.inverse = buf.Sized(a.norm, n), buf.Sized(a.inverse, n)
	a.cost, a.next = buf.Sized(a.cost, n), buf.Sized(a.next, n)
	var mean float64
	for _, v := range a.h[:n] {
		mean += float64(v) / float64(n)
	}
	for c := range n {
		a.norm[c] = T(tab.Norm2(a.z.Row(c)) / 2)
		w := slotFloor
		if mean > 0 {
			w += float64(a.h[c]) / mean
		}
		a.inverse[c] = T(1 / w)
		a.cost[c], a.next[c] = T(math.Inf(1)), int32(c)
	}
	const rows = 32
	for lo := 0; lo < n; lo += rows {
		hi := min(lo+rows, n)
		from := lo / tab.Width * tab.Width
		a.later = kern.Panel[T]{Rows: n - from, Cols: g.d, Width: tab.Width, Data: a.panel.Data[from*g.d:]}
		a.score = buf.Shaped(a.score, hi-lo, n-from)
		tab.MulT(a.score, a.z.RowRange(lo, hi), &a.later, nil)
		for c := lo; c < hi; c++ {
			a.cheapest(c, a.score.Row(c - lo)[c+1-from:])
		}
	}
}

// cheapest compares slot c with the later ones, given the products with them: ½|z_c − z_o|² / (1/w_c + 1/w_o). It
// divides only where it finds something better.
func (a *slotPool[T]) cheapest(c int, dot []T) {
	n := len(dot)
	norm, inverse, cost := a.norm[c+1:][:n], a.inverse[c+1:][:n], a.cost[c+1:][:n]
	own, mine := a.norm[c], a.inverse[c]
	best := a.cost[c]
	for i, v := range dot {
		v = own + norm[i] - v
		w := mine + inverse[i]
		if v < best*w || v < cost[i]*w {
			v = max(0, v) / w
			if o := c + 1 + i; v < cost[i] {
				cost[i], a.next[o] = v, int32(c)
			}
			if v < best {
				best, a.next[c] = v, int32(c+1+i)
			}
		}
	}
	a.cost[c] = best
}

// Clone returns an independent copy of the state.
func (s *Slots[T]) Clone() *Slots[T] {
	c := &Slots[T]{layer: s.layer, specs: s.specs, tab: s.tab, scale: s.scale, from: s.from}
	for i := range s.heads {
		h := &s.heads[i]
		g := *h.g
		o := slotHead[T]{g: &g, m: h.m}
		o.near.copyFrom(&h.near)
		o.hNear = append(make([]T, 0, cap(h.hNear)), h.hNear...)
		o.resize(s.spec(i).slots(), 0)
		o.resize(s.spec(i).slots(), h.g.k)
		copy(o.far.mean.Data, h.far.mean.Data)
		copy(o.far.spread.Data, h.far.spread.Data)
		copy(o.far.value.Data, h.far.value.Data)
		copy(o.far.count, h.far.count)
		copy(o.far.logn, h.far.logn)
		copy(o.h, h.h)
		o.far.total = h.far.total
		c.heads = append(c.heads, o)
	}
	return c
}

// copyFrom makes a a copy of o, with its room.
func (a *near[T]) copyFrom(o *near[T]) {
	a.pos = append(make([]int32, 0, cap(o.pos)), o.pos...)
	a.keys = o.keys
	a.keys.Data = slices.Clone(o.keys.Data)
	a.value = o.value
	a.value.Data = slices.Clone(o.value.Data)
}

// Fork returns Clone as a State.
func (s *Slots[T]) Fork() State[T] { return s.Clone() }

// Join calls Merge if o is Slots.
func (s *Slots[T]) Join(o State[T]) error {
	other, ok := o.(*Slots[T])
	if !ok {
		return fmt.Errorf("%T into %T: %w", o, s, attention.ErrMismatch)
	}
	return s.Merge(other)
}

// Merge adds all keys of o to the slots of s, including the sinks and the window of o. The slots then merge until they
// fit the budget. Later tokens see both sequences. The window of s stays.
func (s *Slots[T]) Merge(o *Slots[T]) error {
	if err := s.matches(o); err != nil {
		return err
	}
	if s == o {
		o = o.Clone()
	}
	var a slotPool[T]
	for i := range s.heads {
		h, x := &s.heads[i], &o.heads[i]
		a.reset(h.g, h.g.k+x.g.k+len(x.near.pos))
		a.takeSlots(h)
		a.takeSlots(x)
		a.takeNear(x, 0, len(x.near.pos))
		a.shrink(h, s.spec(i))
		h.put(&a, s.spec(i))
	}
	s.joined += o.Len()
	return nil
}

// matches reports a state that is not of the same kind.
func (s *Slots[T]) matches(o *Slots[T]) error {
	if len(s.heads) == 0 || o == nil || len(o.heads) == 0 {
		return fmt.Errorf("slots that were not made by NewSlots: %w", attention.ErrMismatch)
	}
	a, b := s.fingerprint(), o.fingerprint()
	if a != b {
		return fmt.Errorf("fingerprint %x…, these slots have %x…: %w", b[:4], a[:4], attention.ErrMismatch)
	}
	return nil
}

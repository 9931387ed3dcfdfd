package linear

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// State is the memory of causal linear attention over a growing sequence, for all heads of a layer: sums over the keys
// and values seen so far and, with a window or sinks, the last Window and the first Sinks keys and values themselves.
// Neither its size nor the time of a Step grows with the number of tokens, and Step allocates nothing. Outputs equal
// Forward over all tokens at once, up to rounding.
//
// Make a State with [Attention.NewState]. It must not be used by two calls at the same time; Fork it to continue in two
// ways.
type State[T dense.Float] struct {
	maps            []randfeat.FeatureMap[T] // one per key/value head
	batch           int
	qHeads, kvHeads int
	dim, valueDim   int
	window, sinks   int
	rows            []int // rows handled together, per key/value head
	checks          bool
	length          int // tokens seen
	report          attention.Report
	heads           []headState[T] // batch × key/value heads
	crew            par.Crew[worker[T]]
	tab             *kern.Table[T]
	out, q, k, v    attention.Seq[T] // arguments of the call in progress
	ringed          int              // number of tokens that a ring takes at a time
}

// headState is the memory of one key/value head. Invariant: mem holds the keys that have left the window, ring the keys
// inside it and the sinks, so every key is in exactly one place.
type headState[T dense.Float] struct {
	mem  *memory[T]
	ring ring[T]
}

// maxWindow bounds the memory of a state; a larger window or number of sinks is taken for a mistake.
const maxWindow = 1 << 24

var errNoState = fmt.Errorf("state that was not made by Attention.NewState: %w", randfeat.ErrSpec)

// NewState returns an empty state with the maps, Window, Sinks and Chunk of a, for queries of shape q and values of
// shape v, whatever their lengths. It is always causal, whatever a.Causal says. It takes no masks: do not pass padding
// to it.
func (a *Attention[T]) NewState(q, v attention.Shape) (*State[T], error) {
	if q.Batch < 1 || v.Batch != q.Batch || v.Heads < 1 || q.Heads < 1 || q.Heads%v.Heads != 0 || v.Dim < 1 {
		return nil, fmt.Errorf("queries %v and values %v; want the same batch, heads in whole groups and value columns: %w",
			q, v, dense.ErrShape)
	}
	if a.KeyMask != nil || a.Segments != nil || a.KeySegments != nil {
		return nil, fmt.Errorf("a state takes no masks or segments: leave padding out and use one state per sequence: %w", dense.ErrShape)
	}
	if err := a.checkMaps(v.Heads, q.Dim); err != nil {
		return nil, err
	}
	if max(a.Window, a.Sinks) > maxWindow {
		return nil, fmt.Errorf("window = %d, sinks = %d: a state keeps their keys, want at most %d: %w", a.Window,
			a.Sinks, maxWindow, dense.ErrShape)
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	s := &State[T]{batch: q.Batch, qHeads: q.Heads, kvHeads: v.Heads, dim: q.Dim, valueDim: v.Dim, window: a.Window,
		sinks: a.Sinks, checks: !a.Unchecked, tab: tab, ringed: max(a.Window, causalRows)}
	for h := range v.Heads {
		m := a.mapOf(h)
		s.maps, s.rows = append(s.maps, m), append(s.rows, a.rows(m, true))
	}
	s.heads = s.empty()
	return s, nil
}

// empty returns the memories of heads without keys.
func (s *State[T]) empty() []headState[T] {
	heads := make([]headState[T], s.batch*s.kvHeads)
	for i := range heads {
		heads[i].mem = newMemory[T](s.maps[i%s.kvHeads].OutDim(), s.valueDim)
		if s.exact() {
			rows := 2*s.window + s.ringed
			heads[i].ring = ring[T]{k: dense.New[T](rows, s.dim), v: dense.New[T](rows, s.valueDim),
				sinkK: dense.New[T](s.sinks, s.dim), sinkV: dense.New[T](s.sinks, s.valueDim)}
		}
	}
	return heads
}

func (s *State[T]) exact() bool { return s.window > 0 || s.sinks > 0 }

// Len returns the number of tokens seen.
func (s *State[T]) Len() int { return s.length }

// Report returns the counts of all rows since the state was made.
func (s *State[T]) Report() attention.Report { return s.report }

// Fork returns an independent copy, for example to continue one prompt in two ways.
func (s *State[T]) Fork() *State[T] {
	c := &State[T]{maps: s.maps, batch: s.batch, qHeads: s.qHeads, kvHeads: s.kvHeads, dim: s.dim,
		valueDim: s.valueDim, window: s.window, sinks: s.sinks, rows: s.rows, checks: s.checks, length: s.length,
		report: s.report, tab: s.tab, ringed: s.ringed}
	for _, h := range s.heads {
		m := newMemory[T](h.mem.part.s.Rows, h.mem.part.s.Cols)
		m.copyFrom(h.mem)
		r := h.ring
		r.k, r.v, r.sinkK, r.sinkV = r.k.Clone(), r.v.Clone(), r.sinkK.Clone(), r.sinkV.Clone()
		c.heads = append(c.heads, headState[T]{m, r})
	}
	return c
}

// Step appends the keys and values of one or more tokens, for example of a prompt, and writes the attention of their
// queries, each over all tokens up to its own. Sequences have the batch, heads and dimensions of NewState and any
// common length. All arguments are checked before the state changes.
func (s *State[T]) Step(out, q, k, v attention.Seq[T]) error {
	if s.maps == nil {
		return errNoState
	}
	if err := s.check(q.Len, named[T]{"q", q}, named[T]{"k", k}, named[T]{"v", v}, named[T]{"out", out}); err != nil {
		return err
	}
	return s.run(out, q, k, v)
}

// Append is Step without queries. Keys and values of any number of tokens leave the same bits, however they are divided
// into calls.
func (s *State[T]) Append(k, v attention.Seq[T]) error {
	if s.maps == nil {
		return errNoState
	}
	if err := s.check(k.Len, named[T]{"k", k}, named[T]{"v", v}); err != nil {
		return err
	}
	return s.run(attention.Seq[T]{}, attention.Seq[T]{}, k, v)
}

// Read writes the attention of queries over all tokens seen, as if each query stood at the last token. It changes
// nothing but the Report.
func (s *State[T]) Read(out, q attention.Seq[T]) error {
	if s.maps == nil {
		return errNoState
	}
	if err := s.check(q.Len, named[T]{"q", q}, named[T]{"out", out}); err != nil {
		return err
	}
	return s.run(out, q, attention.Seq[T]{}, attention.Seq[T]{})
}

// Merge adds the keys of o as if they had been appended here; o is unchanged. The result agrees with Append up to
// rounding, because the order of the sums differs. A state of other maps or shapes is [attention.ErrMismatch]. States
// with a window or sinks cannot be merged ([errors.ErrUnsupported]): their last and first keys are those of a sequence.
func (s *State[T]) Merge(o *State[T]) error {
	if s.maps == nil || o == nil || o.maps == nil {
		return errNoState
	}
	if s.exact() || o.exact() {
		return fmt.Errorf("merging states with a window or sinks: %w", errors.ErrUnsupported)
	}
	if s.fingerprint() != o.fingerprint() || s.shape() != o.shape() {
		return fmt.Errorf("a state of %v, this one is of %v: %w", o.shape(), s.shape(), attention.ErrMismatch)
	}
	if o.length == 0 {
		return nil
	}
	if s == o {
		o = o.Fork()
	}
	for i := range s.heads {
		to, from := s.heads[i].mem, o.heads[i].mem
		to.flush(s.tab)
		to.total.add(&from.total)
		addSums(s.tab, &to.total, &from.part)
	}
	s.length += o.length
	return nil
}

// shape is what two states must have in common to hold the same numbers: batch, heads, dimensions, window and sinks.
func (s *State[T]) shape() [7]int {
	return [7]int{s.batch, s.qHeads, s.kvHeads, s.dim, s.valueDim, s.window, s.sinks}
}

// run works through the heads. Without keys, queries only read; without queries, keys are only appended.
func (s *State[T]) run(out, q, k, v attention.Seq[T]) error {
	n := max(q.Len, k.Len)
	if n == 0 {
		return nil
	}
	work := n * s.maps[0].OutDim() * (s.dim + s.valueDim) * (2 + s.qHeads/s.kvHeads)
	workers := par.Workers(len(s.heads), 1+s.tab.Grain/max(1, work))
	s.out, s.q, s.k, s.v = out, q, k, v
	failed := s.crew.Do(len(s.heads), workers, (*eachHead[T])(s))
	s.out, s.q, s.k, s.v = attention.Seq[T]{}, attention.Seq[T]{}, attention.Seq[T]{}, attention.Seq[T]{}
	for _, w := range s.crew.Workers {
		s.report.Add(w.report)
		w.report, w.bad, w.main, w.forward = attention.Report{}, false, stream[T]{}, stream[T]{}
	}
	s.length += k.Len
	return failed
}

// named is an argument with its name for error messages.
type named[T dense.Float] struct {
	name string
	s    attention.Seq[T]
}

// check validates the arguments of a call over n tokens: everything that it might fail on later.
func (s *State[T]) check(n int, args ...named[T]) error {
	for _, x := range args {
		if err := x.s.Check(x.name); err != nil {
			return err
		}
		want := attention.Shape{Batch: s.batch, Heads: s.kvHeads, Len: n, Dim: s.dim}
		if x.name == "q" || x.name == "out" {
			want.Heads = s.qHeads
		}
		if x.name == "v" || x.name == "out" {
			want.Dim = s.valueDim
		}
		if x.s.Shape != want {
			return fmt.Errorf("%s is %v, want %v: %w", x.name, x.s.Shape, want, dense.ErrShape)
		}
		if x.name == "out" || x.name == "v" && !s.checks {
			continue
		}
		// Keys are checked before any memory changes.
		if err := checkNorms(s.tab, x.name, x.s); err != nil {
			return err
		}
	}
	return nil
}

// maxNorm2 is the largest |x|² that a map accepts: beyond it, exponents would overflow T.
func maxNorm2[T dense.Float]() float64 {
	if _, ok := any(T(0)).(float32); ok {
		return 1e30
	}
	return 1e250
}

// checkNorms reports the first row that is not finite, or too large for a map.
func checkNorms[T dense.Float](tab *kern.Table[T], name string, s attention.Seq[T]) error {
	for b := range s.Batch {
		for h := range s.Heads {
			m := s.Head(b, h)
			for l := range m.Rows {
				if n := tab.Norm2(m.Row(l)); !(n <= maxNorm2[T]()) {
					if err := s.CheckFinite(name); err != nil {
						return err
					}
					return fmt.Errorf("%s: batch %d, head %d, position %d has |x|² = %.3g, which would overflow: %w",
						name, b, h, l, n, dense.ErrNotFinite)
				}
			}
		}
	}
	return nil
}

// eachHead is the step whose items are the key/value heads of all batches. Heads share nothing, so they need no order.
type eachHead[T dense.Float] State[T]

// Item advances or reads key/value head i. With exact weights, tokens pass through a ring, at most ringed at a time:
// the first ones become sinks; later ones enter the window, and those that leave it are added to the memory.
func (d *eachHead[T]) Item(w *worker[T], i int) error {
	b, h := i/d.kvHeads, i%d.kvHeads
	m, mem, r := d.maps[h], d.heads[i].mem, &d.heads[i].ring
	w.useMap(m, d.tab, d.rows[h], d.checks || !m.Positive())
	s := &w.main
	*s = stream[T]{m: m, q: d.q, out: d.out, b: b, h: h, group: d.qHeads / d.kvHeads}
	if d.k.Len == 0 {
		return w.readState(s, mem, r, d.window)
	}
	if d.q.Len == 0 {
		s.group = 0 // positions of queries stay, so keys are added as in Step
	}
	k, v := d.k.Head(b, h), d.v.Head(b, h)
	s.k, s.v, s.q1, s.causal, s.window = k, v, k.Rows, true, d.window
	if d.window == 0 && d.sinks == 0 {
		return w.resume(s, mem)
	}
	for t, n := 0, 0; t < k.Rows; t += n {
		if n = min(d.ringed, k.Rows-t, d.sinks-r.sinks); n > 0 {
			r.sink(k.RowRange(t, t+n), v.RowRange(t, t+n))
			s.k, s.v, s.off = k.RowRange(0, 0), v.RowRange(0, 0), -n
		} else {
			n = min(d.ringed, k.Rows-t)
			s.off = r.n
			s.k, s.v = r.push(k.RowRange(t, t+n), v.RowRange(t, t+n))
		}
		s.q0, s.q1 = t, t+n
		s.sinkK, s.sinkV = r.sinkK.RowRange(0, r.sinks), r.sinkV.RowRange(0, r.sinks)
		attach(&w.rows, s)
		w.forward, _ = s.sweeps()
		if err := w.resume(&w.forward, mem); err != nil {
			return err
		}
		if err := w.windowRange(s, 0, n); err != nil {
			return err
		}
		r.drop(w.forward.positions())
	}
	return nil
}

// readState answers the queries of s from the memory of a head. Every query sees all keys of the ring exactly.
func (w *worker[T]) readState(s *stream[T], mem *memory[T], r *ring[T], window int) error {
	s.q1 = s.q.Len
	s.k, s.v = r.k.RowRange(r.first, r.first+r.n), dense.Matrix[T]{Cols: s.out.Dim}
	s.sinkK, s.sinkV = r.sinkK.RowRange(0, r.sinks), r.sinkV.RowRange(0, r.sinks)
	if window > 0 {
		s.v, s.window = r.v.RowRange(r.first, r.first+r.n), math.MaxInt/2
	}
	if s.exact() {
		attach(&w.rows, s)
	}
	view := mem.view(w, s.q.Len > fewQueries)
	if err := w.readAll(s, &view, mem.seen(), 0, s.q.Len); err != nil || !s.exact() {
		return err
	}
	return w.windowRange(s, 0, s.q.Len)
}

// resume runs the queries and keys of a causal stream on top of a memory, filling its segments in turn.
func (w *worker[T]) resume(s *stream[T], mem *memory[T]) error {
	if err := w.readBeside(s, mem, s.off, 0); err != nil {
		return err
	}
	n := s.positions()
	for lo := 0; lo < n; {
		hi := min(n, lo+mem.room())
		if err := w.causalSegment(s, mem, lo, hi, true); err != nil {
			return err
		}
		if mem.room() == 0 {
			mem.flush(w.tab)
		}
		lo = hi
	}
	return nil
}

// ring keeps the last keys and values as contiguous rows. When it reaches the end of its memory, it moves them to the
// front. The sinks are stored separately, because they never leave.
type ring[T dense.Float] struct {
	k, v         dense.Matrix[T]
	first, n     int // rows [first, first+n) are in use
	sinkK, sinkV dense.Matrix[T]
	sinks        int // number of sinks stored
}

// sink stores rows as sinks; there must be room for them.
func (r *ring[T]) sink(k, v dense.Matrix[T]) {
	for i := range k.Rows {
		copy(r.sinkK.Row(r.sinks+i), k.Row(i))
		copy(r.sinkV.Row(r.sinks+i), v.Row(i))
	}
	r.sinks += k.Rows
}

// push appends rows and returns all rows, as views that are valid until the next push.
func (r *ring[T]) push(k, v dense.Matrix[T]) (allK, allV dense.Matrix[T]) {
	if r.first+r.n+k.Rows > r.k.Rows {
		for i := range r.n {
			copy(r.k.Row(i), r.k.Row(r.first+i))
			copy(r.v.Row(i), r.v.Row(r.first+i))
		}
		r.first = 0
	}
	for i := range k.Rows {
		copy(r.k.Row(r.first+r.n+i), k.Row(i))
		copy(r.v.Row(r.first+r.n+i), v.Row(i))
	}
	r.n += k.Rows
	return r.k.RowRange(r.first, r.first+r.n), r.v.RowRange(r.first, r.first+r.n)
}

// drop removes the first n rows.
func (r *ring[T]) drop(n int) { r.first, r.n = r.first+n, r.n-n }

package linear

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Decoder is causal linear attention over a growing sequence, for all heads of a layer. It keeps one memory per head
// and, with a window or sinks, the last Window and the first Sinks keys and values. Neither its size nor the time of a
// Step grows with the number of tokens, and Step allocates nothing. Outputs equal Forward over all tokens at once, up
// to rounding. A Decoder must not be used by two calls at the same time. It cannot be saved; a [State] of one head can.
type Decoder[T dense.Float] struct{ of stepper[T] }

// stepper is a *decoder. As an interface, it spares packages that use a Decoder from compiling its code again.
type stepper[T dense.Float] interface {
	len() int
	seen() attention.Report
	reset()
	clone() stepper[T]
	step(out, q, k, v attention.Seq[T]) error
}

// NewDecoder returns an empty decoder with the maps, Window, Sinks and Chunk of a. It is always causal, whatever
// a.Causal says. It takes no masks: do not pass padding to it.
func (a *Attention[T]) NewDecoder(batch, qHeads, kvHeads, dim, valueDim int) (*Decoder[T], error) {
	d, err := newDecoder(a, batch, qHeads, kvHeads, dim, valueDim)
	if err != nil {
		return nil, err
	}
	return &Decoder[T]{d}, nil
}

// Len returns the number of tokens seen.
func (d *Decoder[T]) Len() int { return d.of.len() }

// Report returns the counts of all rows since the decoder was made or reset.
func (d *Decoder[T]) Report() attention.Report { return d.of.seen() }

// Reset removes all tokens and sets the counts to zero.
func (d *Decoder[T]) Reset() { d.of.reset() }

// Clone returns an independent copy, for example to continue one prompt in two ways.
func (d *Decoder[T]) Clone() *Decoder[T] { return &Decoder[T]{d.of.clone()} }

// Prefill is Step for the tokens of a prompt.
func (d *Decoder[T]) Prefill(out, q, k, v attention.Seq[T]) error { return d.Step(out, q, k, v) }

// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over all
// tokens up to its own. Sequences have the batch, heads and dimensions of NewDecoder and any common length. All
// arguments are checked before the state changes.
func (d *Decoder[T]) Step(out, q, k, v attention.Seq[T]) error {
	if d.of == nil {
		return fmt.Errorf("decoder without maps: make it with Attention.NewDecoder: %w", randfeat.ErrSpec)
	}
	return d.of.step(out, q, k, v)
}

// decoder is the state of a Decoder.
type decoder[T dense.Float] struct {
	maps            []randfeat.FeatureMap[T]
	batch           int
	qHeads, kvHeads int
	dim, valueDim   int
	window, sinks   int
	rows            []int // rows handled together, per key/value head
	checks          bool
	length          int // tokens seen
	report          attention.Report
	mems            []*memory[T] // batch × key/value heads
	rings           []ring[T]    // keys of windows and sinks, same order as mems
	crew            par.Crew[worker[T]]
	tab             *kern.Table[T]
	out, q, k, v    attention.Seq[T] // arguments of the Step in progress
	ringed          int              // number of tokens that a ring takes at a time
}

// maxWindow bounds the memory of a decoder; a larger window or number of sinks is taken for a mistake.
const maxWindow = 1 << 24

func newDecoder[T dense.Float](a *Attention[T], batch, qHeads, kvHeads, dim, valueDim int) (stepper[T], error) {
	if batch < 1 || kvHeads < 1 || qHeads < 1 || qHeads%kvHeads != 0 || valueDim < 1 {
		return nil, fmt.Errorf("batch %d, %d query heads, %d key/value heads, %d value columns; want at least 1 and heads in whole groups: %w",
			batch, qHeads, kvHeads, valueDim, dense.ErrShape)
	}
	if a.KeyMask != nil || a.Segments != nil || a.KeySegments != nil {
		return nil, fmt.Errorf("a decoder takes no masks or segments: leave padding out and use one decoder per sequence: %w", dense.ErrShape)
	}
	if err := a.checkMaps(kvHeads, dim); err != nil {
		return nil, err
	}
	if a.Window > maxWindow {
		return nil, fmt.Errorf("window = %d: a decoder keeps the keys of its window, want at most %d: %w", a.Window,
			maxWindow, dense.ErrShape)
	}
	if a.Sinks > maxWindow {
		return nil, fmt.Errorf("sinks = %d: a decoder keeps their keys, want at most %d: %w", a.Sinks, maxWindow,
			dense.ErrShape)
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	d := &decoder[T]{batch: batch, qHeads: qHeads, kvHeads: kvHeads, dim: dim, valueDim: valueDim, window: a.Window,
		sinks: a.Sinks, checks: !a.Unchecked, tab: tab}
	for h := range kvHeads {
		m := a.mapOf(h)
		d.maps, d.rows = append(d.maps, m), append(d.rows, a.rows(m, true))
	}
	for range batch {
		for _, m := range d.maps {
			d.mems = append(d.mems, newMemory[T](m.OutDim(), valueDim))
			d.rings = append(d.rings, ring[T]{})
		}
	}
	d.ringed = max(d.window, causalRows)
	if a.exact() {
		for i := range d.rings {
			rows := 2*d.window + d.ringed
			d.rings[i] = ring[T]{k: dense.New[T](rows, dim), v: dense.New[T](rows, valueDim),
				sinkK: dense.New[T](d.sinks, dim), sinkV: dense.New[T](d.sinks, valueDim)}
		}
	}
	return d, nil
}

func (d *decoder[T]) len() int               { return d.length }
func (d *decoder[T]) seen() attention.Report { return d.report }

func (d *decoder[T]) reset() {
	for i, m := range d.mems {
		m.reset()
		d.rings[i].first, d.rings[i].n, d.rings[i].sinks = 0, 0, 0
	}
	d.length, d.report = 0, attention.Report{}
}

func (d *decoder[T]) clone() stepper[T] {
	c := &decoder[T]{maps: d.maps, batch: d.batch, qHeads: d.qHeads, kvHeads: d.kvHeads, dim: d.dim,
		valueDim: d.valueDim,
		window:   d.window, sinks: d.sinks, rows: d.rows, checks: d.checks, length: d.length, report: d.report,
		tab: d.tab, ringed: d.ringed}
	for i, m := range d.mems {
		o := newMemory[T](m.part.s.Rows, m.part.s.Cols)
		o.copyFrom(m)
		c.mems = append(c.mems, o)
		r := d.rings[i]
		c.rings = append(c.rings, ring[T]{k: r.k.Clone(), v: r.v.Clone(), first: r.first, n: r.n,
			sinkK: r.sinkK.Clone(), sinkV: r.sinkV.Clone(), sinks: r.sinks})
	}
	return c
}

func (d *decoder[T]) step(out, q, k, v attention.Seq[T]) error {
	if err := d.check(out, q, k, v); err != nil {
		return err
	}
	if q.Len == 0 {
		return nil
	}
	work := q.Len * d.maps[0].OutDim() * (d.dim + d.valueDim) * (2 + d.qHeads/d.kvHeads)
	workers := par.Workers(len(d.mems), 1+d.tab.Grain/max(1, work))
	d.out, d.q, d.k, d.v = out, q, k, v
	failed := d.crew.Do(len(d.mems), workers, (*eachHead[T])(d))
	d.out, d.q, d.k, d.v = attention.Seq[T]{}, attention.Seq[T]{}, attention.Seq[T]{}, attention.Seq[T]{}
	for _, w := range d.crew.Workers {
		d.report.Add(w.report)
		w.report, w.bad, w.main = attention.Report{}, false, stream[T]{}
	}
	d.length += q.Len
	return failed
}

func (d *decoder[T]) check(out, q, k, v attention.Seq[T]) error {
	for _, x := range [...]struct {
		name       string
		s          attention.Seq[T]
		heads, dim int
	}{{"q", q, d.qHeads, d.dim}, {"k", k, d.kvHeads, d.dim}, {"v", v, d.kvHeads, d.valueDim},
		{"out", out, d.qHeads, d.valueDim}} {
		if err := x.s.Check(x.name); err != nil {
			return err
		}
		if want := (attention.Shape{Batch: d.batch, Heads: x.heads, Len: q.Len, Dim: x.dim}); x.s.Shape != want {
			return fmt.Errorf("%s is %v, want %v: %w", x.name, x.s.Shape, want, dense.ErrShape)
		}
		if x.name == "out" || x.name == "v" && !d.checks {
			continue
		}
		// Keys are checked before any memory changes.
		if err := checkNorms(d.tab, x.name, x.s); err != nil {
			return err
		}
	}
	return nil
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
type eachHead[T dense.Float] decoder[T]

// Item advances key/value head i. With exact weights, tokens pass through a ring, at most ringed at a time: the first
// ones become sinks; later ones enter the window, and those that leave it are added to the memory.
func (d *eachHead[T]) Item(w *worker[T], i int) error {
	b, h := i/d.kvHeads, i%d.kvHeads
	m, mem := d.maps[h], d.mems[i]
	w.useMap(m, d.tab, d.rows[h], d.checks || !m.Positive())
	k, v := d.k.Head(b, h), d.v.Head(b, h)
	w.main = stream[T]{m: m, q: d.q, out: d.out, k: k, v: v, b: b, h: h, q1: k.Rows, group: d.qHeads / d.kvHeads,
		causal: true, window: d.window}
	if d.window == 0 && d.sinks == 0 {
		return w.resume(&w.main, mem)
	}
	r := &d.rings[i]
	for t, n := 0, 0; t < k.Rows; t += n {
		s := &w.main
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
		w.forward = stream[T]{}
	}
	return nil
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

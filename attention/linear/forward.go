package linear

import (
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// Forward writes the attention of q over k and v to out. The number of query heads is a multiple of the number of
// key/value heads. out has the heads and positions of q and the columns of v; it must not share memory with the inputs.
func (a *Attention[T]) Forward(out, q, k, v attention.Seq[T]) (attention.Report, error) {
	if err := a.check(out, q, k, v); err != nil {
		return attention.Report{}, err
	}
	slot := a.calls.Get()
	defer a.calls.Put(slot)
	c := par.Held[call[T]](slot)
	err := c.run(a, out, q, k, v)
	return c.finish(err, q, k, v)
}

// call is one Forward: its streams and scratch memory. If there are enough streams to keep all workers busy, each
// stream runs on one worker from its first key to its last. Otherwise all workers share the segments of all streams.
// Both ways give the same bits: every segment is summed from zero, and segments are combined in order.
type call[T dense.Float] struct {
	streams[T]
	crew   par.Crew[worker[T]]
	relay  relay[T, worker[T]]
	active int // workers of this call

	shared []*stream[T] // streams that all workers share
	sweeps []stream[T]  // for windows: forward and backward sweep of each of them
	rows   windowRows   // denominators of their unfinished rows
	exacts deal         // blocks of queries with exact weights
}

// run lists the streams and works through them.
func (c *call[T]) run(a *Attention[T], out, q, k, v attention.Seq[T]) error {
	if err := c.list(a, out, q, k, v); err != nil || len(c.all) == 0 {
		return err
	}
	return c.work(c.workers(1))
}

// work runs the streams on the given number of workers, one stream per worker if alone.
func (c *call[T]) work(workers int, alone bool) error {
	if c.active = workers; alone {
		return c.crew.Do(len(c.all), workers, (*eachStream[T])(c))
	}
	c.shared = c.shared[:0]
	for i := range c.all {
		c.shared = append(c.shared, &c.all[i])
	}
	if c.exact {
		return c.windowed()
	}
	return c.relay.run(&c.crew, c.active, c.tab, c.shared, (*forwards[T])(c))
}

// eachStream is the step whose items are whole streams.
type eachStream[T dense.Float] call[T]

// Item runs stream i.
func (c *eachStream[T]) Item(w *worker[T], i int) error {
	s := &c.all[i]
	if !s.exact() {
		return alone(w, c.tab, s, i, (*forwards[T])(c), &w.mem, &w.seeds)
	}
	attach(&w.rows, s)
	w.forward, w.backward = s.sweeps()
	if err := alone(w, c.tab, &w.forward, i, (*forwards[T])(c), &w.mem, &w.seeds); err != nil {
		return err
	}
	if !s.oneSweep() {
		if err := alone(w, c.tab, &w.backward, i, (*forwards[T])(c), &w.mem, &w.seeds); err != nil {
			return err
		}
	}
	w.forward, w.backward = stream[T]{}, stream[T]{}
	w.use(&c.streams, s)
	return w.windowRange(s, 0, s.lenQ())
}

// sumSegment adds the keys at positions lo to hi−1 to the part of mem, which must be empty. It keeps the features, and
// for keepSums also the sums before every chunk. What it kept is discarded if a key needed higher references than the
// segment began with.
func (w *worker[T]) sumSegment(s *stream[T], mem *memory[T], lo, hi int, keeps keeping) error {
	w.look = w.phiK.Rows
	epoch := mem.part.epoch
	rows := w.phiK.Rows
	keep := keeps > keepNothing && mem.seed.set
	if keep {
		mem.hold(w.lentKeys(lo, hi), hi-lo, s.m.OutDim())
	}
	for c := lo; c < hi; c += rows {
		if keeps == keepSums {
			mem.mark((c-lo)/rows, (hi-lo+rows-1)/rows)
		}
		k, v, _ := w.keyRows(s, c, min(c+rows, hi))
		if err := w.absorb(mem, k, v, keep); err != nil {
			return err
		}
	}
	if keep {
		mem.keep(epoch)
	}
	return nil
}

// featureBlock is the number of features that a chain item combines; featureBlocks is the number of such items.
const featureBlock = 16

func (s *stream[T]) featureBlocks() int { return (s.m.OutDim() + featureBlock - 1) / featureBlock }

func (s *stream[T]) features(i int) (f0, f1 int) {
	return i * featureBlock, min((i+1)*featureBlock, s.m.OutDim())
}

// forwards is the relayJob of Forward: sums over the keys, then the queries. Its methods are documented in relayJob.
type forwards[T dense.Float] call[T]

func (c *forwards[T]) segments(s *stream[T], _ int) int { return s.segments() }

func (c *forwards[T]) plant(w *worker[T], s *stream[T], _, segment int, mem *memory[T], seeds *sums[T]) error {
	w.use(&c.streams, s)
	lo, _ := s.segment(segment)
	return w.plant(s, seeds, mem, lo)
}

func (c *forwards[T]) sum(w *worker[T], s *stream[T], _, segment int, mem *memory[T], keep keeping) error {
	w.use(&c.streams, s)
	before := w.report.Raised
	lo, hi := s.segment(segment)
	mem.begin()
	err := w.sumSegment(s, mem, lo, hi, keep)
	if s.causal {
		w.report.Raised = before // read raises the same references again and counts them
	}
	return err
}

// read runs a causal segment. Queries before the first key belong to the first segment, queries behind the last key to
// the last segment.
func (c *forwards[T]) read(w *worker[T], s *stream[T], _, segment int, mem *memory[T], keep bool) error {
	w.use(&c.streams, s)
	mem.begin()
	if segment == 0 {
		if err := w.readBeside(s, mem, s.off, 0); err != nil {
			return err
		}
	}
	last := segment >= s.segments()-1
	lo, hi := s.segment(segment)
	if err := w.causalSegment(s, mem, lo, hi, keep || last); err != nil || !last {
		return err
	}
	return w.readBeside(s, mem, s.positions(), s.lenQ()+s.off)
}

// readPart reads one chunk from the sums that were kept before it. If the segment cannot be divided, chunk 0 reads all
// of it and the other chunks have nothing to do.
func (c *forwards[T]) readPart(w *worker[T], s *stream[T], k, segment, chunk int, mem *memory[T]) error {
	if !s.divided(segment, mem) {
		if chunk > 0 {
			return nil
		}
		return c.read(w, s, k, segment, mem, false)
	}
	lo, hi := s.chunk(segment, chunk)
	if lo >= hi {
		return nil
	}
	w.use(&c.streams, s)
	w.step.at(mem, chunk)
	if lo == 0 {
		if err := w.readBeside(s, &w.step, s.off, 0); err != nil {
			return err
		}
	}
	return w.causalSegment(s, &w.step, lo, hi, false)
}

// divided reports whether the chunks of a segment can be read on their own. The last segment cannot if queries lie
// behind the last key, because read also answers those.
func (s *stream[T]) divided(segment int, mem *memory[T]) bool {
	return mem.kept && (segment < s.segments()-1 || s.lenQ()+s.off <= s.positions())
}

// chunks is the number of chunks of a full segment.
func (s *stream[T]) chunks() int { return (segmentOf(s.m.OutDim(), s.v.Cols) + s.rows - 1) / s.rows }

// chunk returns the positions of chunk i of a segment; hi ≤ lo if the segment has fewer chunks.
func (s *stream[T]) chunk(segment, i int) (lo, hi int) {
	lo, hi = s.segment(segment)
	return lo + i*s.rows, min(lo+(i+1)*s.rows, hi)
}

func (c *forwards[T]) ordered(int) bool { return false }

func (c *forwards[T]) begin(*stream[T], int) {}

func (c *forwards[T]) view(*worker[T], *stream[T], int, *view[T], int64, int, int) {}

// blocks depends on the length alone, because blocks determine the bits.
func (c *forwards[T]) blocks(s *stream[T], _ int) int { return s.blockCut().pieces(s.lenQ()) }

func (c *forwards[T]) block(w *worker[T], s *stream[T], _, i int, v *view[T], seen int64) error {
	w.use(&c.streams, s)
	lo, hi := s.blockCut().piece(s.lenQ(), i)
	return w.readAll(s, v, seen, s.off+lo, s.off+hi)
}

// finish collects reports, names rows that are not finite, and drops all references to the caller's data. Arguments are
// searched for the cause only after something has failed.
func (c *call[T]) finish(failed error, q, k, v attention.Seq[T]) (attention.Report, error) {
	var total attention.Report
	bad, exponentials := false, true
	defer func() {
		c.forget()
		clear(c.shared)
		clear(c.sweeps)
	}()
	for i := range c.all {
		exponentials = exponentials && !c.all[i].m.Signed()
	}
	for _, w := range c.crew.Workers {
		total.Add(w.report)
		bad = bad || w.bad
		w.report, w.bad = attention.Report{}, false
	}
	if failed != nil {
		if err := checkNorms(c.tab, "q", q); err != nil {
			return total, err
		}
		if err := checkNorms(c.tab, "k", k); err != nil {
			return total, err
		}
		return total, fmt.Errorf("features: %w", failed)
	}
	if bad && c.checks {
		if err := v.CheckFinite("v"); err != nil {
			return total, err
		}
	}
	if total.Zero > 0 && exponentials {
		return total, fmt.Errorf("%d rows have no finite output: the values, or the norms of queries and keys, are too "+
			"large for %T: %w", total.Zero, T(0), dense.ErrNotFinite)
	}
	return total, nil
}

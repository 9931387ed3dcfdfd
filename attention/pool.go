package attention

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// pool keeps the memory of calls that are over.
type pool[T dense.Float] struct {
	mu   sync.Mutex
	free []*call[T]
}

func (p *pool[T]) get() *call[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	return new(call[T])
}

func (p *pool[T]) put(c *call[T]) {
	clear(c.streams[:cap(c.streams)]) // their data belong to the caller
	c.streams = c.streams[:0]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}

// call is one Forward or Backward: its streams and the memory to work on them.
type call[T dense.Float] struct {
	tab     *kern.Table[T]
	streams []stream[T]
	spans   []span
	workers []*worker[T]
	mems    []*memory[T]
	active  int // workers of this call
	group   par.Group
	checks  bool

	phase phase
	s     *stream[T] // worked on by all workers
	first int        // first segment of the wave
	view  view[T]    // of all keys
	seen  int64
	rows  windowRows

	forwards, backwards stream[T]
}

// phase says what Run does with an index.
type phase int

const (
	eachStream  phase = iota // one stream per index
	eachPart                 // the sums of one segment
	eachSegment              // the queries and keys of one causal segment
	eachBlock                // one block of queries against all keys
	eachWindow               // the windows of one block of queries
)

// start lists the streams of the arguments.
func (c *call[T]) start(a *Linear[T], out, q, k, v Seq[T]) error {
	var err error
	if c.tab, err = kern.Chosen[T](); err != nil {
		return err
	}
	c.checks = !a.Unchecked
	c.streams = c.streams[:0]
	if q.Batch == 0 || q.Heads == 0 || q.Len == 0 {
		return nil
	}
	for b := range q.Batch {
		c.spans = a.spans(c.spans[:0], b, q.Len, k.Len)
		mask := a.keyMask(b, k.Len)
		for h := range k.Heads {
			km, vm := k.Head(b, h), v.Head(b, h)
			for _, sp := range c.spans {
				s := stream[T]{m: a.mapOf(h), q: q, out: out, k: km.RowRange(sp.k0, sp.k1), v: vm.RowRange(sp.k0, sp.k1), b: b, h: h,
					q0: sp.q0, q1: sp.q1, group: q.Heads / k.Heads, causal: a.Causal, window: a.Window}
				s.rows = a.rows(s.m, a.Causal || a.Window > 0)
				if mask != nil {
					s.mask = mask[sp.k0:sp.k1]
				}
				s.off = s.k.Rows - s.lenQ()
				c.streams = append(c.streams, s)
			}
		}
	}
	return nil
}

// forward runs all streams.
func (c *call[T]) forward(a *Linear[T], out, q, k, v Seq[T]) (Report, error) {
	if err := c.start(a, out, q, k, v); err != nil {
		return Report{}, err
	}
	if len(c.streams) == 0 {
		return Report{}, nil
	}
	c.active = c.plan()
	for len(c.workers) < c.active {
		c.workers = append(c.workers, new(worker[T]))
	}
	if len(c.streams) >= c.active {
		c.needMems(c.active)
		c.do(len(c.streams), eachStream)
	} else {
		for i := range c.streams {
			c.together(&c.streams[i])
		}
	}
	return c.finish(q, k, v)
}

// plan is the number of workers: as many as the work pays for.
func (c *call[T]) plan() int {
	work := 0
	for i := range c.streams {
		s := &c.streams[i]
		work += (s.k.Rows + s.group*s.lenQ()) * s.m.OutDim() * (s.k.Cols + s.v.Cols)
	}
	return max(1, min(runtime.GOMAXPROCS(0), work/c.tab.Grain))
}

func (c *call[T]) needMems(n int) {
	for len(c.mems) < n {
		c.mems = append(c.mems, new(memory[T]))
	}
}

func (c *call[T]) do(n int, p phase) {
	c.phase = p
	c.group.Do(n, min(n, c.active), c)
}

// Run is one part of the phase.
func (c *call[T]) Run(worker, lo, hi int) {
	w := c.workers[worker]
	for i := lo; i < hi && w.err == nil; i++ {
		w.err = c.run(w, worker, i)
	}
}

func (c *call[T]) run(w *worker[T], worker, i int) error {
	s := c.s
	if c.phase == eachStream {
		s = &c.streams[i]
	}
	w.use(s.m, c.tab, s.rows, c.checks || !s.m.Positive())
	at := (c.first + i) * segment
	switch c.phase {
	case eachStream:
		mem := c.mems[worker]
		mem.resize(s.m.OutDim(), s.v.Cols)
		if s.window > 0 {
			attach(&w.rows, s)
		}
		return w.serial(s, mem)
	case eachPart:
		before := w.report.Raised
		err := w.sumSegment(s, &c.mems[i].part, at, min(at+segment, s.positions()))
		if s.causal {
			w.report.Raised = before // the queries' turn will count again
		}
		return err
	case eachSegment:
		return w.causalSegment(s, c.mems[i], at, min(at+segment, s.positions()))
	case eachBlock:
		p := s.off + i*s.rows
		return w.answer(s, &c.view, c.seen, dense.Matrix[T]{}, nil, p, min(p+s.rows, s.off+s.lenQ()))
	case eachWindow:
		return w.windowBlock(s, i*s.rows, min((i+1)*s.rows, s.lenQ()))
	}
	return nil
}

// together computes one stream on all workers, with the bits of worker.serial.
func (c *call[T]) together(s *stream[T]) {
	c.s = s
	if s.window > 0 {
		attach(&c.rows, s)
		c.forwards, c.backwards = s.sweeps()
		c.sweep(&c.forwards)
		if !s.causal {
			c.sweep(&c.backwards)
		}
		c.s, c.forwards, c.backwards = s, stream[T]{}, stream[T]{}
		c.first = 0
		c.do((s.lenQ()+s.rows-1)/s.rows, eachWindow)
		c.s = nil
		return
	}
	if s.causal {
		c.sweep(s)
	} else {
		c.bidirectional(s)
	}
	c.s = nil
}

// wave is how many segments are worked on before they are combined: enough for all workers, bounded in memory.
func (c *call[T]) wave(s *stream[T]) int {
	const bytes = 16 << 20
	one := s.m.OutDim() * (s.v.Cols + 1) * (2*int(unsafe.Sizeof(T(0))) + 8)
	return min(s.segments(), max(2*c.active, min(4*c.active, bytes/one)))
}

func (c *call[T]) resizeMems(s *stream[T], n int) {
	c.needMems(n)
	for _, m := range c.mems[:n] {
		m.resize(s.m.OutDim(), s.v.Cols)
	}
}

func (c *call[T]) bidirectional(s *stream[T]) {
	n, wave := s.segments(), c.wave(s)
	c.resizeMems(s, wave+1)
	all := c.mems[wave]
	for c.first = 0; c.first < n; c.first += wave {
		now := min(wave, n-c.first)
		c.do(now, eachPart)
		for _, m := range c.mems[:now] {
			if n == 1 {
				all.part, m.part = m.part, all.part
				break
			}
			addSums(&all.total, &m.part)
			m.part.reset()
		}
	}
	c.first = 0
	c.view, c.seen = all.view(c.workers[0], true), all.seen()
	c.do((s.lenQ()+s.rows-1)/s.rows, eachBlock)
	c.view = view[T]{}
}

// sweep runs a causal stream: the sums of the segments of a wave first, then from the totals before each segment its
// queries.
func (c *call[T]) sweep(s *stream[T]) {
	c.s = s
	n, wave := s.segments(), c.wave(s)
	c.resizeMems(s, max(1, wave))
	w := c.workers[0]
	w.use(s.m, c.tab, s.rows, c.checks || !s.m.Positive())
	if err := w.before(s, c.mems[0]); err != nil {
		w.err = err
		return
	}
	last := c.mems[0]
	for c.first = 0; c.first < n; c.first += wave {
		now := min(wave, n-c.first)
		if now > 1 {
			c.do(now-1, eachPart)
			for i, m := range c.mems[:now-1] {
				next := &c.mems[i+1].total
				next.copyFrom(&m.total)
				addSums(next, &m.part)
				m.part.reset()
				c.mems[i+1].ready = false
			}
		}
		c.do(now, eachSegment)
		last = c.mems[now-1]
		if c.first+now < n {
			last.flush()
			if now > 1 {
				c.mems[0].total.copyFrom(&last.total)
				for _, m := range c.mems[:now] {
					m.part.reset()
					m.ready = false
				}
			}
		}
	}
	c.first = 0
	w.use(s.m, c.tab, s.rows, c.checks || !s.m.Positive())
	if err := w.after(s, last); err != nil && w.err == nil {
		w.err = err
	}
}

// finish collects reports and errors.
func (c *call[T]) finish(q, k, v Seq[T]) (Report, error) {
	var total Report
	var failed error
	bad, exponentials := false, true
	for i := range c.streams {
		exponentials = exponentials && !c.streams[i].m.Signed()
	}
	for _, w := range c.workers {
		total.Add(w.report)
		if failed == nil {
			failed = w.err
		}
		bad = bad || w.bad
		w.report, w.err, w.bad = Report{}, nil, false
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
		return total, fmt.Errorf("%d rows have no finite output: the values, or the norms of queries and keys, are too large for %T: %w", total.Zero, T(0), dense.ErrNotFinite)
	}
	return total, nil
}

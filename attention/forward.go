package attention

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// Forward writes the attention of queries q over keys k and values v into out. Query heads are a multiple of the
// key/value heads; out has the heads and positions of q and the columns of v. It must not share memory with the others.
func (a *Linear[T]) Forward(out, q, k, v Seq[T]) (Report, error) {
	if err := a.check(out, q, k, v); err != nil {
		return Report{}, err
	}
	c := a.calls.Get()
	defer a.calls.Put(c)
	err := c.run(a, out, q, k, v)
	return c.finish(err, q, k, v)
}

// call is one Forward: its streams and the memory to work on them. Streams run side by side, each on one worker from
// its first key to its last, if there are enough of them; otherwise one after the other on all workers, in steps. Both
// give the same bits: a segment is summed from nothing in any case, and segments are combined in order.
type call[T dense.Float] struct {
	streams[T]
	crew   par.Crew[worker[T]]
	active int // workers of this call

	// Of the stream that all workers share:
	s     *stream[T]
	mems  []*memory[T] // of the segments of a wave
	first int          // segment of the wave
	now   int          // segments of the wave
	seeds sums[T]      // whose references are those that segments begin with
	whole memory[T]    // sums over all keys
	view  view[T]      // of all keys
	seen  int64
	rows  windowRows

	forwards, backwards stream[T] // of a window
}

func (c *call[T]) run(a *Linear[T], out, q, k, v Seq[T]) error {
	if err := c.list(a, out, q, k, v); err != nil || len(c.all) == 0 {
		return err
	}
	work := 0
	for i := range c.all {
		s := &c.all[i]
		work += (s.k.Rows + s.group*s.lenQ()) * s.m.OutDim() * (s.k.Cols + s.v.Cols)
	}
	c.active = max(1, min(runtime.GOMAXPROCS(0), work/c.tab.Grain))
	if len(c.all) >= c.active {
		return c.crew.Do(len(c.all), c.active, (*eachStream[T])(c))
	}
	c.crew.Hire(c.active)
	for i := range c.all {
		if err := c.together(&c.all[i]); err != nil {
			return err
		}
	}
	return nil
}

// eachStream is the step whose items are whole streams.
type eachStream[T dense.Float] call[T]

// Item runs stream i.
func (c *eachStream[T]) Item(w *worker[T], i int) error {
	s := &c.all[i]
	w.use(&c.streams, s)
	w.mem.resize(s.m.OutDim(), s.v.Cols)
	switch {
	case s.exact():
		attach(&w.rows, s)
		return w.windowed(s, &w.mem)
	case s.causal:
		return w.sweep(s, &w.mem)
	}
	return w.bidirectional(s, &w.mem)
}

// bidirectional computes a stream whose queries see all keys: first the sums over these, then the queries.
func (w *worker[T]) bidirectional(s *stream[T], mem *memory[T]) error {
	n := s.segments()
	w.seeds.clear(s.m.OutDim())
	for i := range n {
		lo, hi := s.segment(i)
		if err := w.plant(s, &w.seeds, mem, lo); err != nil {
			return err
		}
		mem.begin()
		if err := w.sumSegment(s, &mem.part, lo, hi); err != nil {
			return err
		}
		if n > 1 {
			addSums(w.tab, &mem.total, &mem.part)
		}
	}
	if n > 1 {
		mem.seed.set = false // the references of the queries are those of the totals
		mem.begin()
	}
	view := mem.view(w, true)
	return w.readAll(s, &view, mem.seen(), s.off, s.off+s.lenQ())
}

// sumSegment adds the keys at positions lo to hi−1 to sums.
func (w *worker[T]) sumSegment(s *stream[T], part *sums[T], lo, hi int) error {
	w.look = w.phiK.Rows
	for c := lo; c < hi; c += w.phiK.Rows {
		k, v, _ := w.keyRows(s, c, min(c+w.phiK.Rows, hi))
		if err := w.absorb(part, k, v); err != nil {
			return err
		}
	}
	return nil
}

// together computes one stream on all workers.
func (c *call[T]) together(s *stream[T]) error {
	switch {
	case s.exact():
		return c.windowed(s)
	case s.causal:
		return c.sweep(s)
	}
	return c.bidirectional(s)
}

// bidirectional is worker.bidirectional in steps: the sums of a wave of segments, combined in order, feature by
// feature; then the queries.
func (c *call[T]) bidirectional(s *stream[T]) error {
	c.s = s
	n, wave := s.segments(), s.wave(s.segments(), c.active)
	c.mems = s.memories(c.mems, wave)
	all := &c.whole
	all.resize(s.m.OutDim(), s.v.Cols)
	c.seeds.clear(s.m.OutDim())
	for c.first = 0; c.first < n; c.first += wave {
		c.now = min(wave, n-c.first)
		if err := c.plant(); err != nil {
			return err
		}
		if err := c.crew.Do(c.now, c.active, (*eachPart[T])(c)); err != nil {
			return err
		}
		if n == 1 {
			all.part, c.mems[0].part = c.mems[0].part, all.part
			break
		}
		if err := c.crew.Do(s.featureBlocks(), c.active, (*eachSum[T])(c)); err != nil {
			return err
		}
		for _, m := range c.mems[:c.now] {
			all.total.n += int64(m.part.n)
		}
	}
	w := c.crew.Workers[0]
	w.use(&c.streams, s)
	c.view, c.seen = all.view(w, true), all.seen()
	return c.crew.Do((s.lenQ()+s.rows-1)/s.rows, c.active, (*eachBlock[T])(c))
}

// wave is how many of n segments are worked on before they are combined: enough for all workers, bounded in memory, and
// about as many each time.
func (s *stream[T]) wave(n, workers int) int {
	const bytes = 40 << 20
	one := s.m.OutDim() * (s.v.Cols + 1) * (2*int(unsafe.Sizeof(T(0))) + 8)
	most := max(2*workers, min(8*workers, bytes/one))
	waves := max(1, (n+most-1)/most)
	return (n + waves - 1) / waves
}

// memories makes sure that there are n, at least one, of which only the first has defined numbers: those of no keys.
func (s *stream[T]) memories(mems []*memory[T], n int) []*memory[T] {
	for len(mems) < max(1, n) {
		mems = append(mems, new(memory[T]))
	}
	for _, m := range mems[:max(1, n)] {
		m.shape(s.m.OutDim(), s.v.Cols)
	}
	mems[0].reset()
	return mems
}

// featureBlock is how many features are combined together, featureBlocks how many times.
const featureBlock = 8

func (s *stream[T]) featureBlocks() int { return (s.m.OutDim() + featureBlock - 1) / featureBlock }

func (s *stream[T]) features(i int) (f0, f1 int) {
	return i * featureBlock, min((i+1)*featureBlock, s.m.OutDim())
}

// plant gives the segments of a wave the references they begin with.
func (c *call[T]) plant() error {
	w := c.crew.Workers[0]
	w.use(&c.streams, c.s)
	for i, m := range c.mems[:c.now] {
		lo, _ := c.s.segment(c.first + i)
		if err := w.plant(c.s, &c.seeds, m, lo); err != nil {
			return err
		}
	}
	return nil
}

// eachSum is the step whose items are blocks of features of the sums of a wave, added in order.
type eachSum[T dense.Float] call[T]

// Item adds block i.
func (c *eachSum[T]) Item(_ *worker[T], i int) error {
	f0, f1 := c.s.features(i)
	for _, m := range c.mems[:c.now] {
		addFeatures(c.tab, &c.whole.total, &m.part, f0, f1)
	}
	return nil
}

// eachChain is the step whose items are blocks of features of the totals before the segments of a wave.
type eachChain[T dense.Float] call[T]

// Item chains block i.
func (c *eachChain[T]) Item(_ *worker[T], i int) error {
	f0, f1 := c.s.features(i)
	chain(c.tab, c.mems[:c.now], f0, f1)
	return nil
}

// eachPart is the step whose items are the sums over the keys of a segment of the wave.
type eachPart[T dense.Float] call[T]

// Item sums segment i.
func (c *eachPart[T]) Item(w *worker[T], i int) error {
	w.use(&c.streams, c.s)
	before := w.report.Raised
	lo, hi := c.s.segment(c.first + i)
	c.mems[i].begin()
	err := w.sumSegment(c.s, &c.mems[i].part, lo, hi)
	if c.s.causal {
		w.report.Raised = before // the queries' turn will count again
	}
	return err
}

// eachBlock is the step whose items are blocks of queries that see all keys.
type eachBlock[T dense.Float] call[T]

// Item answers block i.
func (c *eachBlock[T]) Item(w *worker[T], i int) error {
	s := c.s
	w.use(&c.streams, s)
	p := s.off + i*s.rows
	return w.readAll(s, &c.view, c.seen, p, min(p+s.rows, s.off+s.lenQ()))
}

// finish collects reports and names what is wrong with the data; it forgets these, which belong to the caller.
func (c *call[T]) finish(failed error, q, k, v Seq[T]) (Report, error) {
	var total Report
	bad, exponentials := false, true
	defer func() {
		c.forget()
		c.s, c.view, c.forwards, c.backwards = nil, view[T]{}, stream[T]{}, stream[T]{}
	}()
	for i := range c.all {
		exponentials = exponentials && !c.all[i].m.Signed()
	}
	for _, w := range c.crew.Workers {
		total.Add(w.report)
		bad = bad || w.bad
		w.report, w.bad = Report{}, false
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

package centroid

import (
	"math"
	"runtime"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Causal attention with Spec.Chunk. The keys of a chunk are clustered on their own, weighted by the queries of the same
// chunk, and sorted by cluster. Later tokens never move them. Queries form blocks of Together positions, with all heads
// of a group. For the block that begins at b0:
//
//   - Chunks that end at b0−Window or earlier are in clusters, except for sinks.
//   - Sinks and all later keys up to the query's own position are exact.
//   - The block chooses its Top clusters together, by expected error, as bidirectional blocks do. Their members are
//     exact.
//
// Invariant: no weight and no value depends on a later key. The choice of exact clusters depends on all queries of the
// block, including later ones.

// chunkStream is one packed sequence of one key/value head and the queries of its group. Positions count from its first
// key.
type chunkStream[T dense.Float] struct {
	b, h   int
	span   attention.Span
	off    int // position of the first query
	spec   *Spec
	first  int // its first problem; chunk i is problem first+i
	chunks int
	store  chunkStore[T]
}

// chunkStore holds the centroids of all chunks. Columns [i·stride, (i+1)·stride) belong to chunk i.
type chunkStore[T dense.Float] struct {
	stride  int // clusters of a chunk, with empty ones up to a whole vector
	panel   kern.Panel[T]
	logSize []T
	hazard  []T
	mean    dense.Matrix[T]
}

// chunkStride is the number of columns of a chunk: PackAt wants a multiple of 16.
func chunkStride(s *Spec) int { return (s.Clusters + 15) / 16 * 16 }

// reset makes room for chunks.
func (s *chunkStore[T]) reset(tab *kern.Table[T], spec *Spec, chunks, d, dv int) {
	s.stride = chunkStride(spec)
	n := chunks * s.stride
	tab.Room(&s.panel, n, d)
	s.logSize, s.hazard = buf.Sized(s.logSize, n), buf.Sized(s.hazard, n)
	s.mean = buf.Shaped(s.mean, n, dv)
}

// set takes the clusters of chunk i. All chunks are measured by the first.
func (s *chunkStore[T]) set(tab *kern.Table[T], i int, p *problem[T], ref T) {
	hazard := s.hazard[i*s.stride:][:p.clusters]
	clear(hazard)
	if p.top > 0 {
		for c, r := range p.risk[:p.clusters] {
			hazard[c] = T(math.Exp(min(float64(r)-float64(ref), 40)))
		}
	}
	s.put(tab, i, p.centre, p.mean, p.logSize[:p.clusters], hazard)
}

// put writes the clusters of chunk i.
func (s *chunkStore[T]) put(tab *kern.Table[T], i int, centre, mean dense.Matrix[T], logSize, hazard []T) {
	lo := i * s.stride
	width := s.panel.Width
	for c := centre.Rows; c < s.stride; c++ { // columns without a cluster
		at := outputOf(&s.panel, lo+c)
		for range s.panel.Cols {
			s.panel.Data[at] = 0
			at += width
		}
		s.logSize[lo+c], s.hazard[lo+c] = T(math.Inf(-1)), 0
		clear(s.mean.Row(lo + c))
	}
	tab.PackAt(&s.panel, lo, centre)
	copy(s.logSize[lo:], logSize)
	copy(s.hazard[lo:], hazard)
	copyRows(s.mean.RowRange(lo, lo+mean.Rows), mean)
}

// reference is the largest finite logarithm of the risks of a problem, or 0.
func (p *problem[T]) reference() T {
	best, found := T(0), false
	for _, r := range p.risk[:min(len(p.risk), p.clusters)] {
		if p.top > 0 && dense.IsFinite(float64(r)) && (!found || r > best) {
			best, found = r, true
		}
	}
	return best
}

// view is the first n chunks.
func (s *chunkStore[T]) view(n int) (panel kern.Panel[T], logSize, hazard []T, mean dense.Matrix[T]) {
	n *= s.stride
	panel = s.panel
	panel.Rows = n
	return panel, s.logSize[:n], s.hazard[:n], s.mean.RowRange(0, n)
}

// farChunks is the number of chunks that are in clusters for the block that begins at b0.
func farChunks(s *Spec, b0 int) int { return max(0, b0-s.Window) / s.Chunk }

// chunkCall is one causal Forward with chunks.
type chunkCall[T dense.Float] struct {
	keys     call[T] // clusters the chunks
	streams  []chunkStream[T]
	specs    []Spec // of chunks after the first: without sinks
	sets     []keyChunk
	reading  []causalTask
	unsorted []causalTask
	order    []int
	mask     []bool
	place    []int32 // of At: where a position goes, −1: nowhere
	empty    int64
	crew     par.Crew[chunkWorker[T]]
}

type chunkWorker[T dense.Float] struct {
	tiles  tiles[T]
	near   nearKeys[T]
	seen   []int
	clip   []int
	list   []int32
	at     []int32 // queries of a block
	report attention.Report
}

// nearKeys are sinks and the keys after the clustered chunks, by position, packed.
type nearKeys[T dense.Float] struct {
	pos   []int32
	k, v  dense.Matrix[T]
	panel kern.Panel[T]
}

// forwardChunks computes all rows, or the wanted ones; the arguments have been checked.
func forwardChunks[T dense.Float](a *Attention[T], wanted []int, out, q, k, v attention.Seq[T]) (attention.Report,
	error) {
	c := poolsOf(a).chunks.Get()
	defer poolsOf(a).chunks.Put(c)
	defer c.forget()
	if err := c.start(a, out, q, k, v); err != nil {
		return attention.Report{}, err
	}
	return c.answer(wanted, out), nil
}

// do runs the items of a step. None of them fails: arguments have been checked.
func (c *chunkCall[T]) do(n int, step par.Step[chunkWorker[T]]) {
	if err := c.crew.Do(n, runtime.GOMAXPROCS(0), step); err != nil {
		panic("centroid: " + err.Error())
	}
}

// answer computes the outputs.
func (c *chunkCall[T]) answer(wanted []int, out attention.Seq[T]) attention.Report {
	c.ask(wanted, out)
	c.do(len(c.reading), (*chunkRead[T])(c))
	r := attention.Report{Rows: c.empty, Empty: c.empty}
	for _, w := range c.crew.Workers {
		r.Add(w.report)
		w.report = attention.Report{}
	}
	return r
}

// forget drops the data of the caller.
func (c *chunkCall[T]) forget() {
	c.keys.forget()
	c.mask = nil
	for i := range c.streams {
		c.streams[i].spec = nil
	}
}

// start clusters the chunks of all streams.
func (c *chunkCall[T]) start(a *Attention[T], out, q, k, v attention.Seq[T]) error {
	if err := c.keys.start(a, out, q, k, v); err != nil {
		return err
	}
	c.keys.used, c.mask = 0, a.KeyMask
	c.specs = append(c.specs[:0], a.Specs...)
	for i := range c.specs {
		c.specs[i].Sinks = 0
	}
	c.streams, c.sets = c.streams[:0], c.sets[:0]
	for b := range q.Batch {
		c.keys.spans = a.Spans(c.keys.spans[:0], b, q.Len, k.Len)
		for h := range k.Heads {
			for _, sp := range c.keys.spans {
				c.add(b, h, sp)
			}
		}
	}
	c.keys.prepare()
	c.do(len(c.sets), (*chunkSet[T])(c))
	return nil
}

// add makes a stream and its chunks.
func (c *chunkCall[T]) add(b, h int, sp attention.Span) {
	if n := len(c.streams); n < cap(c.streams) {
		c.streams = c.streams[:n+1]
	} else {
		c.streams = append(c.streams, chunkStream[T]{})
	}
	i := len(c.streams) - 1
	s := &c.streams[i]
	spec, n := specOf(c.keys.specs, h), sp.K1-sp.K0
	*s = chunkStream[T]{b: b, h: h, span: sp, off: n - (sp.Q1 - sp.Q0), spec: spec, first: c.keys.used, store: s.store}
	if n == 0 || sp.Q1 == sp.Q0 {
		return
	}
	s.chunks = farChunks(spec, floorTo(n-1, spec.Together))
	for j := range s.chunks {
		lo, hi := j*spec.Chunk, (j+1)*spec.Chunk
		part := attention.Span{K0: sp.K0 + lo, K1: sp.K0 + hi}
		// The queries of the same positions weigh the keys.
		part.Q0, part.Q1 = sp.Q0+max(lo-s.off, 0), sp.Q0+max(hi-s.off, 0)
		c.keys.add(b, h, part)
		if j > 0 {
			c.keys.problems[c.keys.used-1].spec = specOf(c.specs, h)
		}
		c.sets = append(c.sets, keyChunk{i, j, j + 1})
	}
	s.store.reset(c.keys.tab, spec, s.chunks, c.keys.k.Dim, c.keys.v.Dim)
}

// ask makes the tasks of all rows, or of the wanted ones, and answers queries without keys.
func (c *chunkCall[T]) ask(wanted []int, out attention.Seq[T]) {
	c.keys.out, c.empty = out, 0
	c.reading, c.place = c.reading[:0], buf.Sized(c.place, 0)
	if wanted != nil {
		c.place = buf.Sized(c.place, c.keys.q.Len)
		for i := range c.place {
			c.place[i] = -1
		}
		for at, l := range wanted {
			c.place[l] = int32(at)
		}
	}
	for i := range c.streams {
		s := &c.streams[i]
		n := s.span.K1 - s.span.K0
		for l := s.span.Q0; l < s.span.Q0+min(max(-s.off, 0), s.span.Q1-s.span.Q0); l++ { // before the first key
			if at := c.rowOf(l); at >= 0 {
				for g := range c.keys.group {
					clear(out.Head(s.b, s.h*c.keys.group+g).Row(at))
					c.empty++
				}
			}
		}
		if s.span.Q1 == s.span.Q0 {
			continue
		}
		// Blocks with the same clustered chunks are one task: they share packed neighbours.
		for lo := floorTo(max(s.off, 0), s.spec.Together); lo < n; {
			hi := lo + s.spec.Together
			for hi < n && farChunks(s.spec, hi) == farChunks(s.spec, lo) && hi-lo < mostTask {
				hi += s.spec.Together
			}
			hi = min(hi, n)
			if c.wants(s, lo, hi) {
				c.reading = append(c.reading, causalTask{i, lo, hi})
			}
			lo = hi
		}
	}
	// Long ones first.
	c.order, c.unsorted = c.order[:0], append(c.unsorted[:0], c.reading...)
	for i, t := range c.reading {
		c.order = append(c.order, (math.MaxInt32-t.hi)<<31|i)
	}
	slices.Sort(c.order)
	for i, x := range c.order {
		c.reading[i] = c.unsorted[x&(1<<31-1)]
	}
}

// mostTask positions are one task at most.
const mostTask = 1024

// rowOf is the row of the output of a query, −1: nobody wants it.
func (c *chunkCall[T]) rowOf(l int) int {
	if len(c.place) == 0 {
		return l
	}
	return int(c.place[l])
}

// wants tells whether some query at positions lo to hi−1 of a stream is wanted.
func (c *chunkCall[T]) wants(s *chunkStream[T], lo, hi int) bool {
	for p := max(lo, s.off, 0); p < hi; p++ {
		if c.rowOf(s.span.Q0+p-s.off) >= 0 {
			return true
		}
	}
	return false
}

type (
	chunkSet[T dense.Float]  chunkCall[T] // the clusters of a chunk, as queries see them
	chunkRead[T dense.Float] chunkCall[T] // the outputs of a task
)

func (c *chunkSet[T]) Item(_ *chunkWorker[T], i int) error {
	t := c.sets[i]
	s := &c.streams[t.problem]
	s.store.set(c.keys.tab, t.lo, c.keys.problems[s.first+t.lo], c.keys.problems[s.first].reference())
	return nil
}

func (c *chunkRead[T]) Item(w *chunkWorker[T], i int) error {
	t := c.reading[i]
	s := &c.streams[t.stream]
	far := farChunks(s.spec, t.lo)
	(*chunkCall[T])(c).loadNear(&w.near, s, far, t.hi)
	for lo := t.lo; lo < t.hi; lo += s.spec.Together {
		hi := min(lo+s.spec.Together, t.hi)
		if (*chunkCall[T])(c).wants(s, lo, hi) {
			(*chunkCall[T])(c).block(w, s, far, max(lo, s.off, 0), hi)
		}
	}
	return nil
}

// loadNear packs the sinks and the keys after the first far chunks, up to end, but for masked ones.
func (c *chunkCall[T]) loadNear(a *nearKeys[T], s *chunkStream[T], far, end int) {
	from := far * s.spec.Chunk
	sinks := min(s.spec.Sinks, from)
	k, v := c.keys.k.Head(s.b, s.h), c.keys.v.Head(s.b, s.h)
	a.k, a.v = buf.Shaped(a.k, sinks+end-from, k.Cols), buf.Shaped(a.v, sinks+end-from, v.Cols)
	a.pos = a.pos[:0]
	for p := 0; p < end; p++ {
		if p == sinks && p < from {
			p = from
		}
		j := s.span.K0 + p
		if c.mask != nil && !c.mask[s.b*c.keys.k.Len+j] {
			continue
		}
		copy(a.k.Row(len(a.pos)), k.Row(j))
		copy(a.v.Row(len(a.pos)), v.Row(j))
		a.pos = append(a.pos, int32(p))
	}
	c.keys.tab.Pack(&a.panel, a.k.RowRange(0, len(a.pos)))
}

// seen is the number of keys up to position p.
func (a *nearKeys[T]) seen(p int) int {
	n, _ := slices.BinarySearch(a.pos, int32(p)+1)
	return n
}

// block computes the queries at positions lo to hi−1, which see so many chunks as clusters.
func (c *chunkCall[T]) block(w *chunkWorker[T], s *chunkStream[T], far, lo, hi int) {
	w.at, w.seen = w.at[:0], w.seen[:0]
	for p := lo; p < hi; p++ {
		w.at, w.seen = append(w.at, int32(s.span.Q0+p-s.off)), append(w.seen, w.near.seen(p))
	}
	group, n := c.keys.group, len(w.at)
	b := &w.tiles
	b.begin(c.keys.tab, group*n, c.keys.q.Dim, c.keys.v.Dim)
	w.list = buf.Sized(w.list, group*n)
	for g := range group {
		q := c.keys.q.Head(s.b, s.h*group+g)
		for i, l := range w.at {
			copy(b.x.Row(g*n+i), q.Row(int(l)))
			w.list[g*n+i] = int32(g*n + i)
		}
	}
	c.keys.tab.Scale(b.x.Data, T(c.keys.scale))
	panel, logSize, hazard, mean := s.store.view(far)
	if far > 0 {
		b.far(&panel, logSize)
	}
	w.clip = b.addNear(&w.near, w.seen, w.clip)
	b.choose(min(s.spec.Top, panel.Rows), hazard)
	list := w.list
	at := func(r int32) int { return c.rowOf(int(w.at[int(r)%n])) }
	if len(c.place) > 0 {
		list = b.narrow(list, func(r int32) bool { return at(r) >= 0 })
	}
	b.finishFar(mean)
	exact := b.addChosen(func(x int) (k, v []T) {
		return c.keys.problems[s.first+x/s.store.stride].sorted(x % s.store.stride)
	})
	for i, r := range list {
		w.report.Rows++
		w.report.Exact += int64(exact + w.seen[int(r)%n])
		if !b.finish(c.keys.out.Head(s.b, s.h*group+int(r)/n).Row(at(r)), i) {
			w.report.Empty++
		}
	}
}

// part is the view of the packed keys lo to hi−1; lo is a multiple of the width of the panel.
func (a *nearKeys[T]) part(lo, hi int) kern.Panel[T] {
	p := a.panel
	p.Rows, p.Data = hi-lo, p.Data[lo*p.Cols:]
	return p
}

// addNear adds the first seen[i] neighbours to query i of every head. Clip is scratch memory.
func (t *tiles[T]) addNear(a *nearKeys[T], seen, clip []int) []int {
	most := 0
	for _, n := range seen {
		most = max(most, n)
	}
	for lo := 0; lo < most; lo += gatherKeys {
		hi := min(lo+gatherKeys, most)
		clip = clip[:0]
		whole := true
		for _, n := range seen {
			clip = append(clip, min(max(n-lo, 0), hi-lo))
			whole = whole && n >= hi
		}
		part := a.part(lo, hi)
		if whole {
			t.add(&part, a.v.RowRange(lo, hi), nil, nil)
		} else {
			t.add(&part, a.v.RowRange(lo, hi), nil, clip)
		}
	}
	return clip
}

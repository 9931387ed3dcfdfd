package centroid

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Causal attention proceeds by blocks of B positions. For a query at position p of the block that begins at b0:
//
//   - The first Sinks keys and the keys [b0−W, p] are exact.
//   - The keys [Sinks, b0−W) are in clusters. Fixed centres decide the cluster of a key. A cluster is the plain mean c
//     of the n keys it has so far. With Spread it also has the variance of their scores along the residual directions,
//     σ²(x) = Σ_r a_r² Var(q_r).
//   - The Top clusters with the largest log n + x·c + ½σ² are opened. All their keys are exact, or the best Keys of
//     them by ŝ_j = x·c + a·(q_j − q̄). The remaining keys of an opened cluster have the mean of their e^{ŝ_j} as
//     weight.
//   - The keys of all other clusters have the weight e^{x·c + ½ min(σ², 6)}.
//   - With Shared, the query heads of a group open the same clusters and keys. The largest score over the heads
//     decides, relative to the logarithm of each head's estimated normaliser.
//
// Invariant: no output depends on a later key. Without calibrated centres all keys are exact for the first prefix(spec)
// positions; the centres are then fitted to the queries and keys of these positions.

// chunkKeys is the number of positions of a task. Heads with many clusters have larger reading tasks, because each of
// them begins with a copy of all sums.
const chunkKeys = 2048

// prefixKeys is the number of keys per cluster that must have been seen before centres are fitted to them.
const prefixKeys = 8

// prefix returns the number of positions to which centres are fitted, a multiple of the block.
func prefix(s *Spec) int {
	b := s.block(true)
	return (s.Sinks + s.Window + prefixKeys*s.Clusters + b - 1) / b * b
}

// causalStream is one packed sequence of one key/value head and the queries of its group. Positions count from its
// first key.
type causalStream[T dense.Float] struct {
	b, h  int
	span  attention.Span
	k, v  dense.Matrix[T]
	mask  []bool
	off   int // position of the first query
	g     *geometry[T]
	begin int // positions before begin see all keys exactly

	chunk int  // positions of a task
	first int  // number of the chunk that holds the first query
	far   bool // some keys are in clusters
	causalMemory[T]
}

// causalMemory is the memory of a stream that later calls reuse: clusters and residual numbers by position, members by
// cluster, and the sums of all clusters at the beginning of every chunk.
type causalMemory[T dense.Float] struct {
	cluster   []int32
	q         []int8
	m         members[T]
	posData   []int32
	wideData  []T
	count     []int
	snapshots []sums
}

// lastBlock returns the first position of the block of the last query.
func (s *causalStream[T]) lastBlock() int { return floorTo(s.k.Rows-1, s.g.spec.block(true)) }

// farEnd returns the end of the keys that are in clusters for queries of the block that begins at b0; they begin after
// the sinks.
func (s *causalStream[T]) farEnd(b0 int) int {
	if s.g.k == 0 || b0 < s.begin {
		return s.g.spec.Sinks
	}
	return min(max(s.g.spec.Sinks, b0-s.g.spec.Window), max(s.k.Rows, s.g.spec.Sinks))
}

// startOf returns the beginning of the first block with queries in chunk i.
func (s *causalStream[T]) startOf(i int) int {
	return max(i*s.chunk, floorTo(max(s.off, 0), s.g.spec.block(true)))
}

func (s *causalStream[T]) visible(p int) bool { return s.mask == nil || s.mask[p] }

// causalCall is one causal Forward. Its steps run one after the other, with parallel items each: assign keys to
// clusters, sort every stream by cluster and take snapshots of the sums at the beginning of chunks, and read the
// outputs of chunks. The snapshots make chunks independent of each other.
type causalCall[T dense.Float] struct {
	tab       *kern.Table[T]
	scale     T
	group     int
	out, q    attention.Seq[T]
	streams   []causalStream[T]
	assigning []causalTask
	reading   []causalTask

	geometries []*geometry[T]
	spans      []attention.Span
	empty      int64 // queries that stand before the first key
	crew       par.Crew[causalWorker[T]]
}

// causalTask is a range [lo, hi) of positions of a stream.
type causalTask struct{ stream, lo, hi int }

// causalWorker is the scratch memory of a goroutine.
type causalWorker[T dense.Float] struct {
	assign assignScratch[T]
	tmp    dense.Matrix[T]
	sums   sums
	near   near[T]
	far    far[T]
	reader reader[T]
	grad   causalGrad[T]
}

// forwardCausal is Forward for causal attention. The arguments have been checked.
func forwardCausal[T dense.Float](a *Attention[T], out, q, k, v attention.Seq[T]) (attention.Report, error) {
	tab, err := kern.Chosen[T]()
	if err != nil {
		return attention.Report{}, err
	}
	scale, err := logitScale(a.Scale, q.Dim)
	if err != nil {
		return attention.Report{}, err
	}
	c := poolsOf(a).causals.Get()
	defer poolsOf(a).causals.Put(c)
	defer c.forget()
	c.tab, c.scale, c.out, c.q, c.group, c.empty = tab, T(scale), out, q, 1, 0
	if k.Heads > 0 {
		c.group = q.Heads / k.Heads
	}
	if err := c.list(a, k, v); err != nil {
		return attention.Report{}, err
	}
	workers := runtime.GOMAXPROCS(0)
	for _, step := range []struct {
		n int
		s par.Step[causalWorker[T]]
	}{{len(c.assigning), (*causalAssign[T])(c)}, {len(c.streams), (*causalSort[T])(c)},
		{len(c.reading), (*causalRead[T])(c)}} {
		if err := c.crew.Do(step.n, workers, step.s); err != nil {
			return attention.Report{}, err
		}
	}
	r := attention.Report{Rows: c.empty, Empty: c.empty}
	for _, w := range c.crew.Workers {
		r.Add(w.reader.report)
	}
	return r, nil
}

// forget drops the data of the caller and the counts, so that the pool keeps only memory.
func (c *causalCall[T]) forget() {
	c.out, c.q = attention.Seq[T]{}, attention.Seq[T]{}
	for i := range c.streams {
		s := &c.streams[i]
		*s = causalStream[T]{causalMemory: s.causalMemory}
	}
	for _, w := range c.crew.Workers {
		r := &w.reader
		r.report, r.g, r.near, r.far, r.m = attention.Report{}, nil, nil, nil, nil
		clear(r.k.pages)
		clear(r.v.pages)
	}
}

// list makes the streams and the tasks of a call. It fits centres to the beginning of each stream if the attention has
// none.
func (c *causalCall[T]) list(a *Attention[T], k, v attention.Seq[T]) error {
	if err := c.load(a, k, v); err != nil {
		return err
	}
	c.streams, c.assigning, c.reading = c.streams[:0], c.assigning[:0], c.reading[:0]
	for b := range c.q.Batch {
		c.spans = a.Spans(c.spans[:0], b, c.q.Len, k.Len)
		for h := range k.Heads {
			for _, sp := range c.spans {
				s := c.next()
				s.b, s.h, s.span, s.off = b, h, sp, sp.K1-sp.K0-(sp.Q1-sp.Q0)
				s.k, s.v = k.Head(b, h).RowRange(sp.K0, sp.K1), v.Head(b, h).RowRange(sp.K0, sp.K1)
				if a.KeyMask != nil {
					s.mask = a.KeyMask[b*k.Len+sp.K0 : b*k.Len+sp.K1]
				}
				if a.Centres != nil {
					s.g = c.geometries[h]
				} else if err := c.fit(a, s); err != nil {
					return fmt.Errorf("batch %d, head %d: %w", b, h, err)
				}
			}
		}
	}
	for i := range c.streams {
		c.split(i)
	}
	return nil
}

// load makes the geometries of fitted centres, unless an earlier call with the same centres has done so.
func (c *causalCall[T]) load(a *Attention[T], k, v attention.Seq[T]) (err error) {
	if a.Centres == nil {
		return nil
	}
	c.geometries = slices.Grow(c.geometries[:0], k.Heads)[:k.Heads]
	for h := range c.geometries {
		s, g := specOf(a.Specs, h), c.geometries[h]
		if g != nil && g.spec == *s && g.source == a.Centres[h] && g.tab == c.tab && g.d == k.Dim && g.dv == v.Dim {
			continue
		}
		if c.geometries[h], err = newGeometry(c.tab, s, a.Centres[h], k.Dim, v.Dim); err != nil {
			c.geometries[h] = nil
			return fmt.Errorf("head %d: %w", h, err)
		}
	}
	return nil
}

// next appends a stream, with the memory of an earlier call if there is any.
func (c *causalCall[T]) next() *causalStream[T] {
	n := len(c.streams)
	if n < cap(c.streams) {
		c.streams = c.streams[:n+1]
	} else {
		c.streams = append(c.streams, causalStream[T]{})
	}
	s := &c.streams[n]
	*s = causalStream[T]{causalMemory: s.causalMemory}
	return s
}

// fit gives a stream centres that are fitted to its own first keys. A stream that is no longer than the prefix has no
// clusters.
func (c *causalCall[T]) fit(a *Attention[T], s *causalStream[T]) (err error) {
	spec := specOf(a.Specs, s.h)
	s.begin = prefix(spec)
	if spec.Clusters == 0 || s.k.Rows <= s.begin {
		none := *spec
		none.Clusters = 0
		s.g, err = newGeometry[T](c.tab, &none, nil, s.k.Cols, s.v.Cols)
		if spec.Clusters > 0 {
			s.begin = s.k.Rows + 1
		} else {
			s.begin = 0
		}
		return err
	}
	if s.off > 0 {
		return fmt.Errorf("%d queries at the end of %d keys and no centres: a causal fit needs the queries of the first %d positions; set Centres, from Fit: %w",
			s.span.Q1-s.span.Q0, s.k.Rows, s.begin, ErrSpec)
	}
	q := attention.Seq[T]{Shape: attention.Shape{Batch: 1, Heads: c.group, Len: s.begin, Dim: c.q.Dim},
		Data:    c.q.Data[s.b*c.q.StrideB+s.h*c.group*c.q.StrideH+(s.span.Q0-s.off)*c.q.StrideL:],
		StrideH: c.q.StrideH, StrideL: c.q.StrideL}
	vis := attention.Visibility{Causal: true}
	if s.mask != nil {
		vis.KeyMask = s.mask[:s.begin]
	}
	fitted, err := Fit([]Spec{*spec}, a.Scale, vis, q, attention.One(s.k.RowRange(0, s.begin)),
		attention.One(s.v.RowRange(0, s.begin)))
	if err != nil {
		return err
	}
	s.g, err = newGeometry(c.tab, spec, fitted[0], s.k.Cols, s.v.Cols)
	return err
}

// split makes the tasks of stream i and clears the outputs of queries that stand before the first key.
func (c *causalCall[T]) split(i int) {
	s := &c.streams[i]
	block := s.g.spec.block(true)
	n := s.k.Rows
	s.chunk = (max(chunkKeys, 8*s.g.k) + block - 1) / block * block
	if s.off < 0 { // queries before the first key see none
		c.empty += int64(-s.off * c.group)
		for h := range c.group {
			out := c.out.Head(s.b, s.h*c.group+h)
			for i := s.span.Q0; i < s.span.Q0-s.off; i++ {
				clear(out.Row(i))
			}
		}
	}
	if s.span.Q1 == s.span.Q0 || n == 0 {
		return
	}
	if end := s.farEnd(s.lastBlock()); end > s.g.spec.Sinks {
		s.far = true
		s.cluster = buf.Sized(s.cluster, end)
		s.q = buf.Sized(s.q, end*s.g.r)
		for lo := s.g.spec.Sinks; lo < end; lo += chunkKeys {
			c.assigning = append(c.assigning, causalTask{i, lo, min(lo+chunkKeys, end)})
		}
	}
	s.first = max(s.off, 0) / s.chunk
	for lo := s.first * s.chunk; lo < n; lo += s.chunk {
		c.reading = append(c.reading, causalTask{i, max(lo, s.off, 0), min(lo+s.chunk, n)})
	}
}

type (
	causalAssign[T dense.Float] causalCall[T] // clusters and residual numbers of a range of keys
	causalSort[T dense.Float]   causalCall[T] // members of clusters, and sums at the beginning of chunks
	causalRead[T dense.Float]   causalCall[T] // outputs of a chunk
)

// Item assigns a range of keys and computes their residual numbers.
func (c *causalAssign[T]) Item(w *causalWorker[T], i int) error {
	t := c.assigning[i]
	s := &c.streams[t.stream]
	s.g.assign.assign(s.cluster[t.lo:t.hi], s.k.RowRange(t.lo, t.hi), s.v.RowRange(t.lo, t.hi), &w.assign)
	s.g.quantise(s.q[t.lo*s.g.r:t.hi*s.g.r], s.cluster[t.lo:t.hi], s.k.RowRange(t.lo, t.hi), &w.tmp)
	return nil
}

// Item lists the members of the clusters of one stream in the order of their positions. On the way it copies the sums
// at the beginning of every chunk. It is sequential in the keys, which fixes the order of the sums.
func (c *causalSort[T]) Item(w *causalWorker[T], i int) error {
	s := &c.streams[i]
	g := s.g
	if !s.far {
		return nil
	}
	sinks, end := g.spec.Sinks, len(s.cluster)
	s.count = buf.Zeroed(s.count, g.k)
	count := s.count
	total := 0
	for p := sinks; p < end; p++ {
		if s.visible(p) {
			count[s.cluster[p]]++
			total++
		}
	}
	open := g.spec.Top > 0
	filter := open && g.spec.Keys > 0
	if open {
		s.posData = buf.Sized(s.posData, total)
		pos := s.posData
		s.m.pos = buf.Sized(s.m.pos, g.k)
		for c, n := range count {
			s.m.pos[c] = pos[:0:n]
			pos = pos[n:]
		}
	}
	if filter {
		width := c.tab.Width
		s.m.wide = buf.Sized(s.m.wide, g.k)
		all := 0
		for _, n := range count {
			all += (n + width - 1) / width * width * (g.r + 1)
		}
		s.wideData = buf.Sized(s.wideData, all)
		data := s.wideData
		for c, n := range count {
			n = (n + width - 1) / width * width * (g.r + 1)
			s.m.wide[c] = data[:n:n]
			data = data[n:]
		}
	}
	w.sums.reset(g.k, g.d+g.dv, g.r)
	at := s.first
	last := s.lastBlock() / s.chunk
	s.snapshots = slices.Grow(s.snapshots[:0], last-s.first+1)[:last-s.first+1]
	for p := sinks; ; p++ {
		for at <= last && p == s.farEnd(s.startOf(at)) {
			s.snapshots[at-s.first].copyFrom(&w.sums)
			at++
		}
		if p >= end {
			break
		}
		if !s.visible(p) {
			continue
		}
		id := int(s.cluster[p])
		q := s.q[p*g.r : (p+1)*g.r]
		addKey(&w.sums, id, s.k.Row(p), s.v.Row(p), q)
		if filter {
			putResiduals(s.m.wide[id], len(s.m.pos[id]), c.tab.Width, q)
		}
		if open {
			s.m.pos[id] = append(s.m.pos[id], int32(p))
		}
	}
	return nil
}

// putResiduals writes q and a 1 as the inputs of output j of a panel. The 1 multiplies the constant part of the query.
func putResiduals[T dense.Float](panel []T, j, width int, q []int8) {
	at := j/width*width*(len(q)+1) + j%width
	for _, v := range q {
		panel[at] = T(v)
		at += width
	}
	panel[at] = 1
}

// Item computes the outputs of one chunk. It starts from the snapshot of the sums, and before each block it adds the
// keys that have left the window.
func (c *causalRead[T]) Item(w *causalWorker[T], i int) error {
	t := c.reading[i]
	s := &c.streams[t.stream]
	g := s.g
	block := g.spec.block(true)
	r := &w.reader
	r.g, r.near, r.m, r.group = g, &w.near, &s.m, c.group
	r.k.set(s.k)
	r.v.set(s.v)
	done := s.farEnd(floorTo(t.lo, block))
	r.far = nil
	if s.far {
		w.far.load(g, &s.snapshots[t.lo/s.chunk-s.first])
		r.far = &w.far
	}
	step := max(1, blockRows/c.group)
	for p := t.lo; p < t.hi; {
		b0 := floorTo(p, block)
		end := min(b0+block, t.hi)
		if s.far {
			for hi := s.farEnd(b0); done < hi; done++ {
				if s.visible(done) {
					w.far.add(int(s.cluster[done]), s.k.Row(done), s.v.Row(done), s.q[done*g.r:(done+1)*g.r])
				}
			}
			w.far.refresh()
		}
		s.loadNear(&w.near, b0, end)
		for ; p < end; p += r.n {
			r.n, r.p0 = min(step, end-p), p
			w.loadQueries((*causalCall[T])(c), s, p)
			r.read()
			w.store((*causalCall[T])(c), s, p)
		}
	}
	return nil
}

// loadNear loads the exact keys of the block that begins at b0, up to position end: sinks and window.
func (s *causalStream[T]) loadNear(a *near[T], b0, end int) {
	g := s.g
	lo := s.nearStart(b0)
	sinks := min(g.spec.Sinks, lo)
	a.reset(g.tab, sinks+max(0, end-lo), g.d, g.dv)
	for p := range sinks {
		if s.visible(p) {
			a.add(p, s.k.Row(p), s.v.Row(p))
		}
	}
	for p := lo; p < end; p++ {
		if s.visible(p) {
			a.add(p, s.k.Row(p), s.v.Row(p))
		}
	}
}

// nearStart returns the first key of the window of the block that begins at b0.
func (s *causalStream[T]) nearStart(b0 int) int {
	if b0 < s.begin {
		return 0
	}
	return max(0, b0-s.g.spec.Window)
}

// loadQueries copies the n queries from position p on, scaled, for all heads of the group: row h·n + i.
func (w *causalWorker[T]) loadQueries(c *causalCall[T], s *causalStream[T], p int) {
	r := &w.reader
	r.x = buf.Shaped(r.x, c.group*r.n, s.g.d)
	for h := range c.group {
		q := c.q.Head(s.b, s.h*c.group+h)
		for i := range r.n {
			copy(r.x.Row(h*r.n+i), q.Row(s.span.Q0+p-s.off+i))
		}
	}
	c.tab.Scale(r.x.Data, c.scale)
}

// store writes the outputs of the queries that loadQueries has loaded.
func (w *causalWorker[T]) store(c *causalCall[T], s *causalStream[T], p int) {
	r := &w.reader
	for h := range c.group {
		out := c.out.Head(s.b, s.h*c.group+h)
		for i := range r.n {
			copy(out.Row(s.span.Q0+p-s.off+i), r.acc.Row(h*r.n+i))
		}
	}
}

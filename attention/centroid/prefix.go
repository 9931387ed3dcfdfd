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

// Causal attention with [Prefix]. Positions are divided into chunks. A query sees the keys of its own
// chunk exactly, and the Window keys before it. It sees the keys before these, the prefix of its chunk, as
// queries of [Blocks] see all keys (tilt.go): the queries of a chunk, of all heads of a group, are
// sorted and cut into blocks. A block weighs the prefix by its mean query; Keys keys are exact, and the others are in
// centroids made for the block. Without a window, the first queries of a chunk would have no recent keys but those that
// their block chooses, and make half of the square of the error.
//
// Chunks that begin before position Start have no prefix: all their keys are exact. Reading some hundred keys costs
// less than clustering them.
//
// The exact keys of a causal block are those with the largest e^{x̄·y + σ²}, see sortKeys, not e^{x̄·y}.
//
// Centres are trained for the prefixes of the chunks at position Start, 2·Start, 4·Start, … Later keys are assigned to
// these centres until the next training. The covariances M and S of tilt.go are those of the keys before the first
// chunk that uses the training, and so are the queries that a training looks at: those of this chunk.
//
// Invariant: no bit of a row depends on a later key or value, nor on a query of a later chunk. Which keys are exact,
// and the weights of centroids, depend on all queries of the chunk.

// prefixChunk is the queries [q0, q1) of a chunk of a sequence, which have a prefix.
type prefixChunk struct {
	b, h   int
	q0, q1 int
	begin  int     // the keys of the sequence before this position are the prefix
	level  int     // its clusters: a problem of keys
	first  bool    // the clusters are trained for it
	order  []int32 // its queries, sorted: query r%(q1−q0) of head r/(q1−q0) of the group
	start  []int32 // of clusters among the keys of the prefix, and their number at the end
	inside int     // tasks inside of the chunk
	left   int     // tasks inside of the chunk, and its level, that its blocks still wait for
	t0, t1 int     // the tasks with its blocks
}

// prefixLevel is a training of centres.
type prefixLevel struct {
	known int                 // keys before this position train
	first int                 // the first chunk that uses it
	axes  kern.Panel[float32] // of the coordinates that queries are sorted by
	// How much the logits of a key differ between the queries of a block, see sortKeys: the mean of keys, the
	// factor of the covariance of queries inside of blocks, and the terms that rank keys.
	mean   []float32
	factor dense.Matrix[float32]
	spread []float32 // of sorted keys
	left   int       // jobs that the next ones wait for
}

// prefixCall is one causal Forward whose blocks weigh the prefix.
type prefixCall struct {
	keys   call // its problems are levels
	levels []prefixLevel
	chunks []prefixChunk
	inside []insideTask
	logs   []float32 // of output rows: the logarithms of the sums of weights inside of their chunks
	place  []int32   // of At: where a query goes, −1: nowhere
	tasks  []prefixTask
	flow   flow
	crew   par.Crew[prefixWorker]
}

// prefixTask is the blocks lo to hi−1 of a level. They belong to the chunks first to last.
type prefixTask struct {
	lo, hi      int
	first, last int
	at          int // the first block of the first chunk
	left        int // chunks that it waits for
}

// prefixBlock is the rows lo to hi−1 of the order of a chunk.
type prefixBlock struct{ chunk, lo, hi int }

// prefixWorker is the scratch memory of one goroutine.
type prefixWorker struct {
	worker
	rows    rowOrder
	xs      dense.Matrix[float32] // scaled queries of blocks
	blocks  []prefixBlock
	list    []int32
	outputs []dense.Matrix[float32]
	inside  insideKeys
	seen    []int
}

// forget drops the data of the caller.
func (c *prefixCall) forget() {
	c.keys.forget()
	var none attention.Seq[float32]
	for _, w := range c.crew.Workers {
		w.fit.q, w.fit.k, w.fit.spec = none, none, nil
		clear(w.outputs)
		w.inside.k, w.inside.v = dense.Matrix[float32]{}, dense.Matrix[float32]{}
	}
}

// start clusters the keys and sorts the queries, for any number of answers.
func (c *prefixCall) start(a *Attention, q, k, v attention.Seq[float32]) error {
	if err := c.begin(a, q, k, v); err != nil {
		return err
	}
	c.run(true, false)
	return nil
}

// answer computes the outputs after start.
func (c *prefixCall) answer(wanted []int, out attention.Seq[float32]) attention.Report {
	c.aim(wanted, out)
	return c.run(false, true)
}

// begin takes the arguments and lists the chunks.
func (c *prefixCall) begin(a *Attention, q, k, v attention.Seq[float32]) error {
	if err := c.keys.start(a, attention.Seq[float32]{}, q, k, v); err != nil {
		return err
	}
	c.keys.used = 0
	c.levels, c.chunks, c.inside = c.levels[:0], c.chunks[:0], c.inside[:0]
	for b := range q.Batch {
		c.keys.spans = a.Spans(c.keys.spans[:0], b, q.Len, k.Len)
		for h := range k.Heads {
			for _, s := range c.keys.spans {
				c.divide(b, h, s)
			}
		}
	}
	return nil
}

// addSlope adds a part to the slope of a level, from the keys before its first chunk.
func (c *prefixCall) addSlope(w *prefixWorker, i, part int) {
	if p := c.keys.problems[i]; !p.single {
		c.keys.slopes(&w.worker, &p.slope, p, p.before(c.chunks[c.levels[i].first].begin), part)
	}
}

// before is the number of keys before a position of the span.
func (p *problem) before(at int) int {
	n, _ := slices.BinarySearch(p.keys, int32(p.span.K0+at))
	return n
}

// count counts the keys of the prefix of a chunk by cluster. The keys of a cluster are in the order of their positions:
// those of the prefix come first.
func (c *prefixCall) count(x *prefixChunk) {
	p := c.keys.problems[x.level]
	x.start = buf.Zeroed(x.start, p.clusters+1)
	for _, cluster := range p.found[:p.before(x.begin)] {
		x.start[cluster+1]++
	}
	for j := range p.clusters {
		x.start[j+1] += x.start[j]
	}
}

// insideTask is the queries at positions lo to hi−1 of a chunk, counted from the first key after its prefix, which is
// the given one. The first of these queries is row query of the sequence. The chunk is its number in prefixCall.chunks,
// or −1 if it has no prefix.
type insideTask struct{ b, h, key, lo, hi, query, chunk int }

// divide makes the tasks of a sequence inside of chunks, the chunks that have a prefix, and their levels.
func (c *prefixCall) divide(b, h int, sp attention.Span) {
	spec := specOf(c.keys.specs, h)
	size, n := spec.chunk, sp.K1-sp.K0
	off := n - (sp.Q1 - sp.Q0) // the position of the first query
	at := -1
	for begin := 0; begin == 0 || begin < n; begin += size {
		lo, hi := max(begin, off), min(begin+size, n)
		if begin == 0 {
			lo = off // queries before the first key see nothing
		}
		prefix := 0
		if begin >= spec.start {
			prefix = begin - spec.window
		}
		chunk, tasks := len(c.chunks), len(c.inside)
		if prefix == 0 {
			chunk = -1
		}
		for p := lo; p < hi; {
			end := min(floorTo(p, insideRows)+insideRows, hi)
			c.inside = append(c.inside, insideTask{b, h, sp.K0 + prefix, p - prefix, end - prefix, sp.Q0 + p - off,
				chunk})
			p = end
		}
		if lo >= hi || prefix == 0 {
			continue
		}
		known := spec.start
		for 2*known <= begin {
			known *= 2
		}
		known -= spec.window
		first := at < 0 || c.levels[at].known != known
		if first {
			at = len(c.levels)
			if at < cap(c.levels) {
				c.levels = c.levels[:at+1]
			} else {
				c.levels = append(c.levels, prefixLevel{})
			}
			c.levels[at].known, c.levels[at].first = known, len(c.chunks)
			c.keys.add(b, h, sp)
		}
		// The last chunk of a level says how many keys it has.
		c.keys.problems[at].span.K1 = sp.K0 + prefix
		if i := len(c.chunks); i < cap(c.chunks) {
			c.chunks = c.chunks[:i+1]
		} else {
			c.chunks = append(c.chunks, prefixChunk{})
		}
		x := &c.chunks[len(c.chunks)-1]
		*x = prefixChunk{b: b, h: h, q0: sp.Q0 + lo - off, q1: sp.Q0 + hi - off, begin: prefix, level: at,
			first: first, order: x.order[:0], start: x.start, inside: len(c.inside) - tasks}
	}
}

// maxSpread bounds the standard deviation of a logit: beyond, the largest of a block decides, not the variance.
const maxSpread = 3

// sortKeys gathers and packs some sorted keys of a level and computes the terms that rank them for a block. A key's
// weight e^{x·y} for the queries x of a block has the root mean square e^{x̄·y + σ²} if the logits are normal with
// variance σ² = |Rᵀ(y−ȳ)|². RRᵀ is the covariance of queries inside of blocks. Keys are measured from their mean, since
// a logit that all keys have in common changes no output.
func (c *prefixCall) sortKeys(w *prefixWorker, x jobRange) {
	level, p, tab := &c.levels[x.problem], c.keys.problems[x.problem], c.keys.tab
	c.keys.sortKeys(&w.worker, p, x.lo, x.hi)
	if p.single {
		clear(level.spread[x.lo:x.hi])
		return
	}
	n, d := x.hi-x.lo, c.keys.k.Dim
	w.diff, w.values = buf.Shaped(w.diff, n, d), buf.Shaped(w.values, n, d)
	copyRows(w.diff, p.kv.RowRange(x.lo, x.hi).ColRange(0, d))
	for j := range n {
		tab.MulAdd(w.diff.Row(j), level.mean, -1)
	}
	tab.Product(w.values, w.diff, level.factor, false)
	w.wide = buf.Sized(w.wide, n)
	tab.Norms(w.wide, w.values)
	for j, v := range w.wide {
		if !(v < maxSpread*maxSpread) {
			v = min(2*maxSpread*math.Sqrt(v)-maxSpread*maxSpread, math.MaxFloat32/4)
		}
		level.spread[x.lo+j] = float32(v)
	}
}

// fit makes the axes and the centres of a level.
func (c *prefixCall) fit(w *prefixWorker, i int) {
	p, level, tab := c.keys.problems[i], &c.levels[i], c.keys.tab
	x := &c.chunks[level.first]
	f := &w.fit
	f.tab, f.workers = tab, 1
	f.reset(p.spec, c.keys.scale, c.keys.q, c.keys.k, p.b, p.h, p.span)
	p.keys = p.keys[:0]
	for j := p.span.K0; j < p.span.K1; j++ {
		if c.keys.seen == nil || c.keys.seen[p.b*c.keys.k.Len+j] {
			p.keys = append(p.keys, int32(j))
		}
	}
	train := p.keys[:p.before(level.known)]
	f.keys = append(f.keys, train...)
	p.found = buf.Sized(p.found, len(p.keys))
	if p.single = len(train) == 0; p.single { // masked: the keys of later chunks are one cluster
		clear(p.found)
		tab.Room(&level.axes, 0, c.keys.q.Dim)
		c.sort(w, x)
		return
	}
	c.keys.orderAxes(&w.worker, &level.axes, p, train, x.q0, x.q1)
	c.sort(w, x)
	p.x = buf.Shaped(p.x, len(x.order), c.keys.q.Dim)
	c.load(p.x, x, x.order)
	c.keys.measureBlocks(f, p)
	f.drawEvenly()
	f.coordinates()
	f.km.run(f.z, f.mass, f.spec.clusters, f.spec.passes, f.spec.seed)
	f.assigner(&p.assign)
	level.mean = append(level.mean[:0], f.mean[:c.keys.k.Dim]...)
	level.factor = buf.Shaped(level.factor, f.factor.Rows, f.factor.Cols)
	copy(level.factor.Data, f.factor.Data)
	tab.Scale(level.factor.Data, float32(f.queryUnit))
}

// load sets the rows of dst to scaled queries of a chunk.
func (c *prefixCall) load(dst dense.Matrix[float32], x *prefixChunk, rows []int32) {
	n, q := x.q1-x.q0, c.keys.q
	data := q.Data[x.b*q.StrideB+x.h*c.keys.group*q.StrideH+x.q0*q.StrideL:]
	for i, r := range rows {
		copy(dst.Row(i), data[int(r)/n*q.StrideH+int(r)%n*q.StrideL:])
	}
	c.keys.tab.Scale(dst.Data[:dst.Rows*dst.Cols], float32(c.keys.scale))
}

// sort orders the queries of a chunk.
func (c *prefixCall) sort(w *prefixWorker, x *prefixChunk) {
	n, o, axes := x.q1-x.q0, &w.rows, &c.levels[x.level].axes
	rows := n * c.keys.group
	size := c.keys.problems[x.level].spec.queries
	if rows <= size || axes.Rows == 0 {
		for i := range rows {
			x.order = append(x.order, int32(i))
		}
		return
	}
	o.begin(rows)
	w.tile = buf.Shaped(w.tile, n, axes.Rows)
	for g := range c.keys.group {
		q := c.keys.q.Head(x.b, x.h*c.keys.group+g).RowRange(x.q0, x.q1)
		c.keys.tab.MulT(w.tile, q, axes, nil)
		o.set(g*n, w.tile)
	}
	o.split(&w.pick, orderPart{hi: rows}, size)
	x.order = append(x.order, o.order...)
}

const (
	// insideRows positions are one task, which shares packed keys; insideBlock of them are a block. A block computes
	// the weights of all keys up to its last position: with blocks of 64 positions, attention took 3 to 4 % longer.
	insideRows  = 128
	insideBlock = 32
)

// insideKeys are the keys after the prefix of a chunk, up to a task, that are not masked.
type insideKeys struct {
	upto        []int // of a position: the keys up to it
	clip        []int
	k, v        dense.Matrix[float32]
	own, values dense.Matrix[float32] // memory of masked ones
	panel       kern.Panel[float32]
}

// readInside computes the attention of queries over the keys after their prefix: the outputs, and the logarithms of the
// sums of weights. The widths of tiles do not depend on which rows are wanted, and so the bits do not.
func (c *prefixCall) readInside(w *prefixWorker, i int) {
	x, a := c.inside[i], &w.inside
	tab, t, group := c.keys.tab, &w.tiles, c.keys.group
	wanted := func(at int32) bool { return at >= 0 }
	if len(c.place) > 0 && !slices.ContainsFunc(c.place[x.query:x.query+x.hi-x.lo], wanted) {
		return
	}
	end := min(x.hi, c.keys.k.Len-x.key) // negative positions see no key
	a.load(c, x, max(end, 0))
	for lo := x.lo; lo < x.hi; {
		hi := min(floorTo(lo, insideBlock)+insideBlock, x.hi)
		w.list, a.clip = w.list[:0], a.clip[:0] // query and its keys
		for p := lo; p < hi; p++ {
			if l := x.query + p - x.lo; len(c.place) == 0 || c.place[l] >= 0 {
				w.list, a.clip = append(w.list, int32(l)), append(a.clip, a.seen(p))
			}
		}
		n, most := len(w.list), a.seen(hi-1)
		t.begin(tab, n*group, c.keys.q.Dim, c.keys.v.Dim)
		w.xs = buf.Shaped(w.xs, n*group, c.keys.q.Dim)
		for g := range group {
			q := c.keys.q.Head(x.b, x.h*group+g)
			for r, l := range w.list {
				copy(t.x.Row(g*n+r), q.Row(int(l)))
				if at := a.clip[r]; at > 0 {
					copy(w.xs.Row(g*n+r), a.k.Row(at-1))
				} else {
					clear(w.xs.Row(g*n + r))
				}
			}
		}
		tab.Scale(t.x.Data[:n*group*t.x.Cols], float32(c.keys.scale))
		// The first references are the logits of the last keys, or 0.
		tab.MulRows(t.shift, w.xs, t.x, w.xs)
		seen := w.seen[:0]
		for from := 0; from < most; from += gatherKeys {
			to := min(from+gatherKeys, most)
			seen = seen[:0]
			for _, m := range a.clip {
				seen = append(seen, min(max(m-from, 0), to-from))
			}
			t.view = kern.Panel[float32]{Rows: to - from, Cols: a.panel.Cols, Width: a.panel.Width,
				Data: a.panel.Data[from*a.panel.Cols:]}
			t.add(&t.view, a.v.RowRange(from, to), nil, seen)
		}
		w.seen = seen
		for g := range group {
			h := x.h*group + g
			out := c.keys.out.Head(x.b, h)
			for r, l := range w.list {
				at := c.rowOf(int(l))
				w.report.Rows++
				w.report.Exact += int64(a.clip[r])
				log := math.Inf(-1)
				if t.finish(out.Row(at), g*n+r) {
					log = float64(t.shift[g*n+r]) + math.Log(t.sum[g*n+r])
				} else {
					w.report.Empty++
				}
				c.logs[(x.b*c.keys.out.Heads+h)*c.keys.out.Len+at] = float32(log)
			}
		}
		lo = hi
	}
}

// seen is the number of keys up to position p.
func (a *insideKeys) seen(p int) int {
	if p < 0 || len(a.upto) == 0 {
		return 0
	}
	return a.upto[min(p, len(a.upto)-1)]
}

// load packs the first n keys of the chunk of a task, but for masked ones.
func (a *insideKeys) load(c *prefixCall, x insideTask, n int) {
	k, v := c.keys.k.Head(x.b, x.h).RowRange(x.key, x.key+n), c.keys.v.Head(x.b, x.h).RowRange(x.key, x.key+n)
	a.k, a.v, a.upto = k, v, a.upto[:0]
	count, mask := 0, c.keys.seen
	if mask != nil {
		a.own, a.values = buf.Shaped(a.own, n, k.Cols), buf.Shaped(a.values, n, v.Cols)
	}
	for j := range n {
		if mask == nil {
			count++
		} else if mask[x.b*c.keys.k.Len+x.key+j] {
			copy(a.own.Row(count), k.Row(j))
			copy(a.values.Row(count), v.Row(j))
			count++
		}
		a.upto = append(a.upto, count)
	}
	if mask != nil {
		a.k, a.v = a.own.RowRange(0, count), a.values.RowRange(0, count)
	}
	c.keys.tab.Pack(&a.panel, a.k)
}

// rowOf is the output row of a query: −1: nobody wants it.
func (c *prefixCall) rowOf(l int) int {
	if len(c.place) == 0 {
		return l
	}
	return int(c.place[l])
}

// prefixBlocks blocks at most share a pass over the keys, and fewBlocks at least where many processors share them.
const (
	prefixBlocks = 12
	fewBlocks    = 4
)

// aim says which rows are wanted, nil for all of them, and where outputs go.
func (c *prefixCall) aim(wanted []int, out attention.Seq[float32]) {
	c.keys.out = out
	c.place = c.place[:0]
	if wanted != nil {
		c.place = buf.Sized(c.place, c.keys.q.Len)
		for i := range c.place {
			c.place[i] = -1
		}
		for at, l := range wanted {
			c.place[l] = int32(at)
		}
	}
	c.logs = buf.Sized(c.logs, out.Batch*out.Heads*out.Len)
	c.tasks = c.tasks[:0]
	blocks := 0
	for i := range c.chunks {
		blocks += c.blocksOf(&c.chunks[i])
	}
	each := min(prefixBlocks, max(fewBlocks, blocks/(4*runtime.GOMAXPROCS(0))))
	for first := 0; first < len(c.chunks); {
		end, blocks := first, 0
		for ; end < len(c.chunks) && c.chunks[end].level == c.chunks[first].level; end++ {
			blocks += c.blocksOf(&c.chunks[end])
		}
		c.divideBlocks(first, end, blocks, (blocks+each-1)/each)
		first = end
	}
}

// divideBlocks makes tasks of the blocks of the chunks first to end−1, which are of one level.
func (c *prefixCall) divideBlocks(first, end, blocks, tasks int) {
	from := len(c.tasks)
	for t := range tasks {
		c.tasks = append(c.tasks, prefixTask{first: -1, lo: t * blocks / tasks, hi: (t + 1) * blocks / tasks})
	}
	at := 0 // the first block of chunk i
	for i := first; i < end; i++ {
		x := &c.chunks[i]
		n := c.blocksOf(x)
		for c.tasks[from].hi <= at {
			from++
		}
		x.t0, x.t1 = from, from
		for ; x.t1 < len(c.tasks) && c.tasks[x.t1].lo < at+n; x.t1++ {
			t := &c.tasks[x.t1]
			if t.first < 0 {
				t.first, t.at = i, at
			}
			t.last = i
			t.left++
		}
		at += n
	}
}

// blocksOf is the number of blocks of a chunk.
func (c *prefixCall) blocksOf(x *prefixChunk) int {
	size := c.keys.problems[x.level].spec.queries
	return ((x.q1-x.q0)*c.keys.group + size - 1) / size
}

// wants tells whether some of the rows of a chunk are wanted.
func (c *prefixCall) wants(x *prefixChunk, rows []int32) bool {
	return len(c.place) == 0 || slices.ContainsFunc(rows, func(r int32) bool {
		return c.place[x.q0+int(r)%(x.q1-x.q0)] >= 0
	})
}

// blocks computes the rows of a task.
func (c *prefixCall) blocks(w *prefixWorker, i int) {
	t, b, tab, d := &c.tasks[i], &w.tilt, c.keys.tab, c.keys.k.Dim
	level := c.chunks[t.first].level
	p := c.keys.problems[level]
	size, rows, at := p.spec.queries, 0, t.at
	w.blocks, b.starts = w.blocks[:0], b.starts[:0]
	for n := t.first; n <= t.last; n++ {
		x := &c.chunks[n]
		blocks := c.blocksOf(x)
		for j := max(t.lo-at, 0); j < min(t.hi-at, blocks); j++ {
			lo, hi := j*size, min((j+1)*size, len(x.order))
			if x.start[p.clusters] > 0 && c.wants(x, x.order[lo:hi]) {
				w.blocks, b.starts = append(w.blocks, prefixBlock{n, lo, hi}), append(b.starts, x.start)
				rows += hi - lo
			}
		}
		at += blocks
	}
	if rows == 0 {
		return
	}
	w.xs = buf.Shaped(w.xs, rows, d)
	b.mean = buf.Shaped(b.mean, len(w.blocks), d)
	rows = 0
	for i, r := range w.blocks {
		x := &c.chunks[r.chunk]
		part := w.xs.RowRange(rows, rows+r.hi-r.lo)
		c.load(part, x, x.order[r.lo:r.hi])
		meanRow(tab, b.mean.Row(i), part)
		rows += part.Rows
	}
	b.weigh(tab, p, c.levels[level].spread)
	rows = 0
	for i, r := range w.blocks {
		x := &c.chunks[r.chunk]
		w.outputs = w.outputs[:0]
		for g := range c.keys.group {
			w.outputs = append(w.outputs, c.keys.out.Head(x.b, x.h*c.keys.group+g))
		}
		c.block(w, p, x, i, w.xs.RowRange(rows, rows+r.hi-r.lo), x.order[r.lo:r.hi])
		rows += r.hi - r.lo
	}
}

// block computes the rows of block i of a task, whose queries are xs. The attention inside of the chunk counts like one
// key, whose logit is the logarithm of the sum of its weights: it is the first reference of the row.
func (c *prefixCall) block(w *prefixWorker, p *problem, x *prefixChunk, i int, xs dense.Matrix[float32],
	rows []int32) {
	t, b, tab, n := &w.tiles, &w.tilt, c.keys.tab, x.q1-x.q0
	log := func(r int32, at int) *float32 {
		return &c.logs[(x.b*c.keys.out.Heads+x.h*c.keys.group+int(r)/n)*c.keys.out.Len+at]
	}
	b.load(tab, p, i)
	t.begin(tab, len(rows), c.keys.k.Dim, c.keys.v.Dim)
	own := t.x
	w.list = w.list[:0]
	for l, r := range rows {
		at := c.rowOf(x.q0 + int(r)%n)
		if at < 0 {
			continue
		}
		to := len(w.list)
		if w.list = append(w.list, r); len(c.place) > 0 {
			copy(t.x.Row(to), xs.Row(l))
		}
		t.shift[to] = *log(r, at)
		if math.IsInf(float64(t.shift[to]), -1) { // the row sees no key of its chunk, but the prefix has one
			w.report.Empty--
		}
	}
	m := len(w.list)
	w.report.Exact += int64(len(b.sel[i]) * m)
	if t.x, t.acc = t.x.RowRange(0, m), t.acc.RowRange(0, m); len(c.place) == 0 {
		t.x = xs
	}
	t.shift, t.sum, t.sums = t.shift[:m], t.sum[:m], t.sums[:m]
	b.addCentroids(t, p, &p.slope.Panel, i)
	t.fillShifts(&b.panel, nil) // without centroids
	b.addExact(t)
	t.x = own
	for l, r := range w.list {
		at := c.rowOf(x.q0 + int(r)%n)
		t.finishWith(w.outputs[int(r)/n].Row(at), l, *log(r, at))
	}
}

package centroid

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Chunks is a [State] for specs with Spec.Chunk. It keeps recent keys in order and older keys sorted by the clusters of
// their chunk; sorted chunks never change. A step reads the centroids and the recent keys in place. It copies the keys
// that it makes exact side by side, once for all query heads of a group: single keys with Spec.Share, the keys of
// chosen clusters with Spec.Top.
//
// The query heads of a group choose together, separately at every position. Outputs equal [Attention.Forward] with
// blocks of one position, up to rounding, and do not depend on how the tokens are divided into steps.
type Chunks[T dense.Float] struct {
	layer
	specs, rest  []Spec // one per key/value head; of chunks after the first
	scale        float64
	tab          *kern.Table[T]
	heads        []chunkHead[T] // batch × key/value heads
	out, q, k, v attention.Seq[T]
	crew         par.Crew[chunkStepper[T]]
}

// chunkHead is the state of one key/value head.
type chunkHead[T dense.Float] struct {
	near   nearKeys[T] // sinks and the keys after the clustered chunks
	asked  []T         // queries of the positions after the clustered chunks, position by position
	parts  []chunkPart[T]
	store  chunkStore[T]
	room   int // chunks that the store has room for
	ref    T
	sketch sketches // with Spec.Share
}

// chunkPart is a chunk that is sorted by cluster.
type chunkPart[T dense.Float] struct {
	start []int32
	k, v  dense.Matrix[T]
}

// chunkStepper is the memory of a goroutine.
type chunkStepper[T dense.Float] struct {
	chunkWorker[T]
	fit    call[T]
	sketch sketchReader[T]
}

// NewChunks returns an empty state with the specs and scale of a; every spec needs Chunk. The state is always causal,
// whatever a.Causal says, and takes no masks.
func NewChunks[T dense.Float](a *Attention[T], batch, qHeads, kvHeads, dim, valueDim int) (*Chunks[T], error) {
	l, err := newLayer(batch, qHeads, kvHeads, dim, valueDim)
	if err != nil {
		return nil, err
	}
	if err := checkSpecs(a.Specs, kvHeads); err != nil {
		return nil, err
	}
	scale, err := logitScale(a.Scale, dim)
	if err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	l.unchecked = a.Unchecked
	c := &Chunks[T]{layer: l, scale: scale, tab: tab}
	for h := range kvHeads {
		s := *specOf(a.Specs, h)
		if s.Chunk == 0 {
			return nil, fmt.Errorf("head %d has no chunks, set chunk or call NewCache: %w", h, ErrSpec)
		}
		if s.prefixed() {
			return nil, fmt.Errorf("head %d: keys %d are of blocks of queries, set top to decode: %w", h, s.Keys, ErrSpec)
		}
		if room := s.nearRoom(); room > maxNear {
			return nil, fmt.Errorf("%d exact keys in sinks, window and chunk, want at most %d: %w", room, maxNear, ErrSpec)
		}
		c.specs = append(c.specs, s)
		s.Sinks = 0
		c.rest = append(c.rest, s)
	}
	c.Reset()
	return c, nil
}

// nearRoom is the most keys that are not in clusters.
func (s *Spec) nearRoom() int { return s.Sinks + s.Window + s.Chunk + s.Together }

// Len is the number of tokens seen.
func (c *Chunks[T]) Len() int { return c.length }

// Report counts what happened to the rows of all steps.
func (c *Chunks[T]) Report() attention.Report { return c.report }

// Reset forgets all tokens and counts.
func (c *Chunks[T]) Reset() {
	c.length, c.report = 0, attention.Report{}
	c.heads = make([]chunkHead[T], c.batch*c.kvHeads)
	for i := range c.heads {
		spec := &c.specs[i%c.kvHeads]
		c.heads[i].near.room(c.tab, spec.nearRoom(), c.dim, c.valueDim)
	}
}

// room makes room for n keys.
func (a *nearKeys[T]) room(tab *kern.Table[T], n, d, dv int) {
	a.k, a.v = dense.New[T](n, d), dense.New[T](n, dv)
	tab.Room(&a.panel, n, d)
}

// Bytes is the memory that the state holds.
func (c *Chunks[T]) Bytes() int64 {
	var n, numbers, bytes int64 // elements of type T, of type int32, and others
	for i := range c.heads {
		h := &c.heads[i]
		n += int64(cap(h.near.k.Data) + cap(h.near.v.Data) + cap(h.near.panel.Data) + cap(h.asked))
		n += int64(cap(h.store.panel.Data) + cap(h.store.logSize) + cap(h.store.hazard) + cap(h.store.mean.Data))
		numbers += int64(cap(h.near.pos))
		for _, p := range h.parts {
			n += int64(cap(p.k.Data) + cap(p.v.Data))
			numbers += int64(cap(p.start))
		}
		bytes += 4 * int64(cap(h.sketch.mean.Data)+cap(h.sketch.noise.Data))
		for _, codes := range h.sketch.codes {
			bytes += int64(cap(codes))
		}
		for _, u := range h.sketch.units {
			bytes += 4 * int64(cap(u.step))
		}
	}
	return n*sizeOf[T]() + 4*numbers + bytes
}

// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over all
// tokens up to its own. Arguments are checked before anything changes.
func (c *Chunks[T]) Step(out, q, k, v attention.Seq[T]) error {
	if err := checkStep(&c.layer, out, q, k, v); err != nil || k.Len == 0 {
		return err
	}
	c.out, c.q, c.k, c.v = out, q, k, v
	s := &c.specs[0]
	chosen := min(s.Top, c.length/s.Chunk*s.Clusters) * s.Chunk / s.Clusters
	if s.Share > 0 {
		chosen = c.length / scanShare
	}
	work := k.Len * c.group() * (c.dim + c.valueDim) * (s.nearRoom() + c.length/s.Chunk*s.Clusters + chosen)
	err := c.crew.Do(len(c.heads), par.Workers(len(c.heads), 1+c.tab.Grain/(awake*fewRows*max(1, work))),
		(*chunkStep[T])(c))
	var none attention.Seq[T]
	c.out, c.q, c.k, c.v = none, none, none, none
	for _, w := range c.crew.Workers {
		c.report.Add(w.report)
		w.report = attention.Report{}
	}
	c.length += k.Len
	return err
}

// scanShare sketches of keys are scanned in the time that it takes to read a key, about.
const scanShare = 32

// fewRows is how many times longer multiply-adds take with the rows of one group of heads than with whole tiles.
const fewRows = 8

type chunkStep[T dense.Float] Chunks[T]

// Item is the step of one key/value head of a batch.
func (c *chunkStep[T]) Item(w *chunkStepper[T], i int) error {
	b, kv := i/c.kvHeads, i%c.kvHeads
	h, spec, group := &c.heads[i], &c.specs[kv], c.qHeads/c.kvHeads
	k, v := c.k.Head(b, kv), c.v.Head(b, kv)
	t := &w.tiles
	for l := range k.Rows {
		p := c.length + l
		for p%spec.Together == 0 && len(h.parts) < farChunks(spec, p) {
			if err := (*Chunks[T])(c).cluster(w, h, kv); err != nil {
				return err
			}
		}
		h.near.append(p, k.Row(l), v.Row(l))
		t.begin(c.tab, group, c.dim, c.valueDim)
		for g := range group {
			copy(t.x.Row(g), c.q.Head(b, kv*group+g).Row(l))
		}
		h.asked = append(h.asked, t.x.Data...)
		c.tab.Scale(t.x.Data, T(c.scale))
		exact := 0
		if spec.Share > 0 {
			exact = w.sketch.read(t, h, len(h.parts), &h.near, spec.Share)
		} else {
			h.read(t, spec)
			exact = t.addFew(h)
		}
		w.report.Exact += int64(group * (exact + len(h.near.pos)))
		for g := range group {
			w.report.Rows++
			t.finish(c.out.Head(b, kv*group+g).Row(l), g)
		}
	}
	return nil
}

// read adds the clusters and the recent keys to the sums of t, and chooses.
func (h *chunkHead[T]) read(t *tiles[T], spec *Spec) {
	var mean dense.Matrix[T]
	if n := len(h.parts); n > 0 {
		panel, logSize, hazard, values := h.store.view(n)
		mean, t.view = values, panel
		t.far(&t.view, logSize)
		t.addAll(&h.near)
		t.choose(min(spec.Top, len(hazard)), hazard)
	} else {
		t.addAll(&h.near)
	}
	t.finishFar(mean)
}

// addAll adds all neighbours.
func (t *tiles[T]) addAll(a *nearKeys[T]) {
	for lo := 0; lo < len(a.pos); lo += gatherKeys {
		hi := min(lo+gatherKeys, len(a.pos))
		t.view = a.part(lo, hi)
		t.add(&t.view, a.v.RowRange(lo, hi), nil, nil)
	}
}

// addFew is addChosen for a few rows. Clusters have some ten keys: copied together they take few calls, which cost more
// than the copies.
func (t *tiles[T]) addFew(h *chunkHead[T]) (total int) {
	for _, c := range t.chosen {
		p, x := &h.parts[int(c)/h.store.stride], int(c)%h.store.stride
		total += int(p.start[x+1] - p.start[x])
	}
	t.gather(total)
	at := 0
	for _, c := range t.chosen {
		at += t.copyMembers(at, &h.parts[int(c)/h.store.stride], int(c)%h.store.stride)
	}
	t.addGathered()
	return total
}

// gather makes room for so many members.
func (t *tiles[T]) gather(total int) {
	d, dv := t.x.Cols, t.acc.Cols
	t.k.Data, t.v.Data = roomy(t.k.Data, total*d), roomy(t.v.Data, total*dv)
	t.k, t.v = view(t.k.Data, total, d), view(t.v.Data, total, dv)
}

// copyMembers copies the members of cluster x of a chunk to row at of the gathered ones. It returns their number.
func (t *tiles[T]) copyMembers(at int, p *chunkPart[T], x int) int {
	d, dv := t.x.Cols, t.acc.Cols
	lo, hi := int(p.start[x]), int(p.start[x+1])
	copy(t.k.Data[at*d:], p.k.Data[lo*d:hi*d])
	copy(t.v.Data[at*dv:], p.v.Data[lo*dv:hi*dv])
	return hi - lo
}

// addGathered adds the gathered members.
func (t *tiles[T]) addGathered() {
	total := t.k.Rows
	if total == 0 {
		return
	}
	t.tile.Data = roomy(t.tile.Data, t.x.Rows*total)
	t.tile = buf.Shaped(t.tile, t.x.Rows, total)
	for r := range t.x.Rows {
		row := t.tile.Row(r)
		t.tab.MulV(row, t.k, t.x.Row(r))
		t.raise(r, t.tab.Max(row))
		t.sum[r] += float64(t.tab.ExpSum(row, t.shift[r]))
	}
	t.tab.Product(t.acc, t.tile, t.v, true)
}

// append adds the key of position p.
func (a *nearKeys[T]) append(p int, k, v []T) {
	n := len(a.pos)
	copy(a.k.Row(n), k)
	copy(a.v.Row(n), v)
	at := outputOf(&a.panel, n)
	for _, x := range k {
		a.panel.Data[at] = x
		at += a.panel.Width
	}
	a.pos = append(a.pos, int32(p))
}

// cluster sorts the next chunk and takes its keys out of the recent ones.
func (c *Chunks[T]) cluster(w *chunkStepper[T], h *chunkHead[T], kv int) error {
	done := len(h.parts)
	spec, group := &c.specs[kv], c.group()
	first := h.near.seen(done*spec.Chunk - 1) // sinks of earlier chunks
	n := h.near.seen((done+1)*spec.Chunk-1) - first
	one := func(heads, dim, strideH, strideL int, data []T) attention.Seq[T] {
		return attention.Seq[T]{Shape: attention.Shape{Batch: 1, Heads: heads, Len: n, Dim: dim}, Data: data,
			StrideH: strideH, StrideL: strideL}
	}
	k, v := h.near.k.RowRange(first, first+n), h.near.v.RowRange(first, first+n)
	f, of := &w.fit, *spec
	if done > 0 {
		of = c.rest[kv]
	}
	p, err := clusterChunk(f, c.scale, of, one(group, c.dim, c.dim, group*c.dim, h.asked),
		one(1, c.dim, 0, c.dim, k.Data), one(1, c.valueDim, 0, c.valueDim, v.Data))
	if err != nil {
		return err
	}
	h.push(c.tab, spec, p)
	f.forget()
	// Sinks stay.
	keep := first
	if done == 0 {
		keep = min(spec.Sinks, n)
	}
	rest := len(h.near.pos) - first - n
	near := &h.near
	copyRows(near.k.RowRange(keep, keep+rest), near.k.RowRange(first+n, first+n+rest))
	copyRows(near.v.RowRange(keep, keep+rest), near.v.RowRange(first+n, first+n+rest))
	near.pos = append(near.pos[:keep], near.pos[first+n:]...)
	c.tab.PackRows(&near.panel, near.k, 0, keep+rest)
	h.asked = append(h.asked[:0], h.asked[group*c.dim*n:]...)
	return nil
}

// push makes the clusters of p the next chunk.
func (h *chunkHead[T]) push(tab *kern.Table[T], spec *Spec, p *problem[T]) {
	done := len(h.parts)
	if done == 0 {
		h.ref = p.reference()
	}
	if done == h.room {
		h.grow(tab, spec, p.k.Cols, p.v.Cols)
	}
	h.store.set(tab, done, p, h.ref)
	h.parts = append(h.parts, chunkPart[T]{slices.Clone(p.start), p.k, p.v})
	if spec.Share > 0 {
		addSketch(&h.sketch, tab, p.k)
	}
}

// clusterChunk sorts a chunk of keys by cluster, with the queries of the same positions. The caller calls f.forget when
// it needs no more of the result than its keys.
func clusterChunk[T dense.Float](f *call[T], scale float64, spec Spec, q, k, v attention.Seq[T]) (*problem[T], error) {
	a := Attention[T]{Scale: scale, Specs: []Spec{spec}}
	f.problems = nil // the last one keeps its memory
	if err := f.start(&a, attention.Seq[T]{}, q, k, v); err != nil {
		return nil, err
	}
	f.prepare()
	return f.problems[0], nil
}

// grow doubles the room of the store.
func (h *chunkHead[T]) grow(tab *kern.Table[T], spec *Spec, d, dv int) {
	var s chunkStore[T]
	h.room = max(4, 2*h.room)
	s.reset(tab, spec, h.room, d, dv)
	copy(s.panel.Data, h.store.panel.Data)
	copy(s.logSize, h.store.logSize)
	copy(s.hazard, h.store.hazard)
	copy(s.mean.Data, h.store.mean.Data)
	h.store = s
}

// Clone returns an independent copy of the state. Both share the sorted chunks, which never change.
func (c *Chunks[T]) Clone() *Chunks[T] {
	o := &Chunks[T]{layer: c.layer, specs: c.specs, rest: c.rest, scale: c.scale, tab: c.tab}
	o.Reset()
	o.length, o.report = c.length, c.report
	for i := range c.heads {
		h, n := &c.heads[i], &o.heads[i]
		copy(n.near.k.Data, h.near.k.Data)
		copy(n.near.v.Data, h.near.v.Data)
		copy(n.near.panel.Data, h.near.panel.Data)
		n.near.pos = slices.Clone(h.near.pos)
		n.asked, n.parts, n.ref = slices.Clone(h.asked), slices.Clone(h.parts), h.ref
		n.sketch = h.sketch.clone()
		n.store, n.room = h.store, 0
		if h.room > 0 {
			n.room = (h.room + 1) / 2
			n.grow(c.tab, &c.specs[i%c.kvHeads], c.dim, c.valueDim)
		}
	}
	return o
}

// Fork is Clone.
func (c *Chunks[T]) Fork() State[T] { return c.Clone() }

// Join always fails. Keys are weighted by the queries of their chunk, and a state does not keep queries.
func (c *Chunks[T]) Join(State[T]) error {
	return fmt.Errorf("states with chunks do not join, use a Cache without chunks: %w", attention.ErrMismatch)
}

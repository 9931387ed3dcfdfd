package centroid

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Chunks is the [State] of [Sketch]: all keys are kept, recent ones in order and older ones sorted by the clusters of
// their chunk. The keys of a chunk are clustered on their own, weighted by the queries of the same chunk. Sorted chunks
// never change. A step reads the centroids and the recent keys in place, and copies the keys that it makes exact side
// by side, once for all query heads of a group.
//
// The query heads of a group choose together, separately at every position. Outputs equal [Attention.Forward], up to
// rounding, and do not depend on how the tokens are divided into steps.
//
// Invariant: chunks that end at p−Window or earlier are in clusters when position p is computed, except for sinks. No
// weight and no value depends on a later key.
type Chunks struct {
	layer
	specs []Sketch // one per key/value head
	// The settings of the first chunk and of later ones, which have no sinks.
	first, rest  []settings
	scale        float64
	tab          *kern.Table[float32]
	heads        []chunkHead // batch × key/value heads
	out, q, k, v attention.Seq[float32]
	crew         par.Crew[chunkStepper]
}

// chunkHead is the state of one key/value head.
type chunkHead struct {
	near   nearKeys  // sinks and the keys after the clustered chunks
	asked  []float32 // queries of the positions after the clustered chunks, position by position
	parts  []chunkPart
	store  chunkStore
	room   int // chunks that the store has room for
	sketch sketches
}

// chunkPart is a chunk that is sorted by cluster.
type chunkPart struct {
	start []int32
	k, v  dense.Matrix[float32]
}

// chunkStore holds the centroids of all chunks. Columns [i·stride, (i+1)·stride) belong to chunk i.
type chunkStore struct {
	stride  int // clusters of a chunk, with empty ones up to a whole vector
	panel   kern.Panel[float32]
	logSize []float32
	mean    dense.Matrix[float32] // of values
}

// nearKeys are sinks and the keys after the clustered chunks, by position, packed.
type nearKeys struct {
	pos   []int32
	k, v  dense.Matrix[float32]
	panel kern.Panel[float32]
}

// chunkStepper is the memory of a goroutine.
type chunkStepper struct {
	tiles  tiles
	fit    chunkFit
	sketch sketchReader
	report attention.Report
}

// NewChunks returns an empty state for queries of shape q and values of shape v, whose lengths do not matter. a.Specs
// are of the type [Sketch]. The state is always causal, whatever a.Causal says, and takes no masks.
func NewChunks(a *Attention, q, v attention.Shape) (*Chunks, error) {
	l, err := newLayer(q, v)
	if err != nil {
		return nil, err
	}
	if err := checkSpecs(a.Specs, l.kvHeads); err != nil {
		return nil, err
	}
	scale, err := logitScale(a.Scale, l.dim)
	if err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return nil, err
	}
	l.unchecked = a.Unchecked
	c := &Chunks{layer: l, scale: scale, tab: tab}
	for h := range l.kvHeads {
		spec := *specOf(a.Specs, h)
		s, ok := spec.(Sketch)
		if !ok {
			return nil, fmt.Errorf("head %d: a state of chunks decodes with a centroid.Sketch, not a %T: %w", h, spec, ErrSpec)
		}
		set := s.settings()
		if room := set.nearRoom(); room > maxNear {
			return nil, fmt.Errorf("%d exact keys in sinks, window and chunk, want at most %d: %w", room, maxNear, ErrSpec)
		}
		c.specs, c.first = append(c.specs, s), append(c.first, set)
		set.sinks = 0
		c.rest = append(c.rest, set)
	}
	c.Reset()
	return c, nil
}

// nearRoom is the most keys that are not in clusters.
func (s *settings) nearRoom() int { return s.sinks + s.window + s.chunk + 1 }

// farChunks is the number of chunks that are in clusters for position p.
func farChunks(s *settings, p int) int { return max(0, p-s.window) / s.chunk }

// Len is the number of tokens seen.
func (c *Chunks) Len() int { return c.length }

// Report counts what happened to the rows of all steps.
func (c *Chunks) Report() attention.Report { return c.report }

// Reset forgets all tokens and counts.
func (c *Chunks) Reset() {
	c.length, c.report = 0, attention.Report{}
	c.heads = make([]chunkHead, c.batch*c.kvHeads)
	for i := range c.heads {
		c.heads[i].near.room(c.tab, c.first[i%c.kvHeads].nearRoom(), c.dim, c.valueDim)
	}
}

// Bytes is the memory that the state holds.
func (c *Chunks) Bytes() int64 {
	var words, bytes int64 // of four bytes
	for i := range c.heads {
		h := &c.heads[i]
		words += int64(cap(h.near.k.Data) + cap(h.near.v.Data) + cap(h.near.panel.Data) + cap(h.asked) +
			cap(h.store.panel.Data) + cap(h.store.logSize) + cap(h.store.mean.Data) + cap(h.near.pos) +
			cap(h.sketch.mean.Data) + cap(h.sketch.noise.Data))
		for _, p := range h.parts {
			words += int64(cap(p.k.Data) + cap(p.v.Data) + cap(p.start))
		}
		for _, codes := range h.sketch.codes {
			bytes += int64(cap(codes))
		}
		for _, u := range h.sketch.units {
			words += int64(cap(u.step))
		}
	}
	return 4*words + bytes
}

// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over all
// tokens up to its own. Arguments are checked before anything changes.
func (c *Chunks) Step(out, q, k, v attention.Seq[float32]) error {
	if err := checkStep(&c.layer, out, q, k, v); err != nil || k.Len == 0 {
		return err
	}
	c.out, c.q, c.k, c.v = out, q, k, v
	s := &c.first[0]
	work := k.Len * c.group() * (c.dim + c.valueDim) * (s.nearRoom() + c.length/s.chunk*s.clusters + c.length/scanShare)
	err := c.crew.Do(len(c.heads), par.Workers(len(c.heads), 1+c.tab.Grain/(awake*fewRows*max(1, work))),
		(*chunkStep)(c))
	var none attention.Seq[float32]
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

type chunkStep Chunks

// Item is the step of one key/value head of a batch.
func (c *chunkStep) Item(w *chunkStepper, i int) error {
	b, kv := i/c.kvHeads, i%c.kvHeads
	h, s, group := &c.heads[i], &c.first[kv], c.qHeads/c.kvHeads
	k, v := c.k.Head(b, kv), c.v.Head(b, kv)
	t := &w.tiles
	for l := range k.Rows {
		p := c.length + l
		for len(h.parts) < farChunks(s, p) {
			(*Chunks)(c).cluster(w, h, kv)
		}
		h.near.append(p, k.Row(l), v.Row(l))
		t.begin(c.tab, group, c.dim, c.valueDim)
		for g := range group {
			copy(t.x.Row(g), c.q.Head(b, kv*group+g).Row(l))
		}
		h.asked = append(h.asked, t.x.Data...)
		c.tab.Scale(t.x.Data, float32(c.scale))
		exact := w.sketch.read(t, h, len(h.parts), &h.near, s.share)
		w.report.Exact += int64(group * (exact + len(h.near.pos)))
		for g := range group {
			w.report.Rows++
			t.finish(c.out.Head(b, kv*group+g).Row(l), g)
		}
	}
	return nil
}

// cluster sorts the next chunk and takes its keys out of the recent ones.
func (c *Chunks) cluster(w *chunkStepper, h *chunkHead, kv int) {
	done := len(h.parts)
	s, group := &c.first[kv], c.group()
	first := h.near.seen(done*s.chunk - 1) // sinks of earlier chunks
	n := h.near.seen((done+1)*s.chunk-1) - first
	one := func(heads, dim, strideH, strideL int, data []float32) attention.Seq[float32] {
		return attention.Seq[float32]{Shape: attention.Shape{Batch: 1, Heads: heads, Len: n, Dim: dim}, Data: data,
			StrideH: strideH, StrideL: strideL}
	}
	k, v := h.near.k.RowRange(first, first+n), h.near.v.RowRange(first, first+n)
	of := s
	if done > 0 {
		of = &c.rest[kv]
	}
	p := w.fit.cluster(c.tab, of, c.scale, one(group, c.dim, c.dim, group*c.dim, h.asked),
		one(1, c.dim, 0, c.dim, k.Data), one(1, c.valueDim, 0, c.valueDim, v.Data))
	h.push(c.tab, s, &p)
	keep := first
	if done == 0 {
		keep = min(s.sinks, n) // sinks stay
	}
	near, rest := &h.near, len(h.near.pos)-first-n
	copyRows(near.k.RowRange(keep, keep+rest), near.k.RowRange(first+n, first+n+rest))
	copyRows(near.v.RowRange(keep, keep+rest), near.v.RowRange(first+n, first+n+rest))
	near.pos = append(near.pos[:keep], near.pos[first+n:]...)
	c.tab.PackRows(&near.panel, near.k, 0, keep+rest)
	h.asked = append(h.asked[:0], h.asked[group*c.dim*n:]...)
}

// push makes the clusters of p the next chunk.
func (h *chunkHead) push(tab *kern.Table[float32], s *settings, p *chunkClusters) {
	done := len(h.parts)
	if done == h.room {
		h.grow(tab, s, p.k.Cols, p.v.Cols)
	}
	h.store.put(tab, done, p.centre, p.mean, p.logSize)
	h.parts = append(h.parts, p.chunkPart)
	addSketch(&h.sketch, tab, p.k)
}

// grow doubles the room of the store.
func (h *chunkHead) grow(tab *kern.Table[float32], s *settings, d, dv int) {
	var store chunkStore
	h.room = max(4, 2*h.room)
	store.stride = (s.clusters + 15) / 16 * 16 // PackAt wants a multiple of 16
	n := h.room * store.stride
	tab.Room(&store.panel, n, d)
	store.logSize, store.mean = make([]float32, n), dense.New[float32](n, dv)
	copy(store.panel.Data, h.store.panel.Data)
	copy(store.logSize, h.store.logSize)
	copy(store.mean.Data, h.store.mean.Data)
	h.store = store
}

// put writes the clusters of chunk i.
func (s *chunkStore) put(tab *kern.Table[float32], i int, centre, mean dense.Matrix[float32], logSize []float32) {
	lo := i * s.stride
	for c := centre.Rows; c < s.stride; c++ { // columns without a cluster
		at := outputOf(&s.panel, lo+c)
		for range s.panel.Cols {
			s.panel.Data[at] = 0
			at += s.panel.Width
		}
		s.logSize[lo+c] = float32(math.Inf(-1))
		clear(s.mean.Row(lo + c))
	}
	tab.PackAt(&s.panel, lo, centre)
	copy(s.logSize[lo:], logSize)
	copyRows(s.mean.RowRange(lo, lo+mean.Rows), mean)
}

// view is the first n chunks.
func (s *chunkStore) view(n int) (panel kern.Panel[float32], logSize []float32, mean dense.Matrix[float32]) {
	n *= s.stride
	panel = s.panel
	panel.Rows = n
	return panel, s.logSize[:n], s.mean.RowRange(0, n)
}

// outputOf returns the index of the first input of output j of a panel; the next inputs are Width apart.
func outputOf(p *kern.Panel[float32], j int) int {
	return j/p.Width*p.Cols*p.Width + j%p.Width
}

// panelRow copies output j of a panel.
func panelRow(dst []float32, p *kern.Panel[float32], j int) {
	at := outputOf(p, j)
	for i := range dst {
		dst[i] = p.Data[at]
		at += p.Width
	}
}

// setPanelRow is the inverse of panelRow.
func setPanelRow(p *kern.Panel[float32], j int, src []float32) {
	at := outputOf(p, j)
	for _, x := range src {
		p.Data[at] = x
		at += p.Width
	}
}

// room makes room for n keys.
func (a *nearKeys) room(tab *kern.Table[float32], n, d, dv int) {
	a.k, a.v = dense.New[float32](n, d), dense.New[float32](n, dv)
	tab.Room(&a.panel, n, d)
}

// append adds the key of position p.
func (a *nearKeys) append(p int, k, v []float32) {
	n := len(a.pos)
	copy(a.k.Row(n), k)
	copy(a.v.Row(n), v)
	setPanelRow(&a.panel, n, k)
	a.pos = append(a.pos, int32(p))
}

// seen is the number of keys up to position p.
func (a *nearKeys) seen(p int) int {
	n, _ := slices.BinarySearch(a.pos, int32(p)+1)
	return n
}

// part is the view of the packed keys lo to hi−1; lo is a multiple of the width of the panel.
func (a *nearKeys) part(lo, hi int) kern.Panel[float32] {
	p := a.panel
	p.Rows, p.Data = hi-lo, p.Data[lo*p.Cols:]
	return p
}

// addAll adds all neighbours.
func (t *tiles) addAll(a *nearKeys) {
	for lo := 0; lo < len(a.pos); lo += gatherKeys {
		hi := min(lo+gatherKeys, len(a.pos))
		t.view = a.part(lo, hi)
		t.add(&t.view, a.v.RowRange(lo, hi), nil, nil)
	}
}

// gather makes room for so many members.
func (t *tiles) gather(total int) {
	d, dv := t.x.Cols, t.acc.Cols
	t.k, t.v = view(roomy(t.k.Data, total*d), total, d), view(roomy(t.v.Data, total*dv), total, dv)
}

// Fork returns an independent copy of the state. Both share the sorted chunks, which never change.
func (c *Chunks) Fork() State {
	o := &Chunks{layer: c.layer, specs: c.specs, first: c.first, rest: c.rest, scale: c.scale, tab: c.tab}
	o.Reset()
	o.length, o.report = c.length, c.report
	for i := range c.heads {
		h, n := &c.heads[i], &o.heads[i]
		copy(n.near.k.Data, h.near.k.Data)
		copy(n.near.v.Data, h.near.v.Data)
		copy(n.near.panel.Data, h.near.panel.Data)
		n.near.pos = slices.Clone(h.near.pos)
		n.asked, n.parts = slices.Clone(h.asked), slices.Clone(h.parts)
		n.sketch = h.sketch.clone()
		n.store, n.room = h.store, 0
		if h.room > 0 {
			n.room = (h.room + 1) / 2
			n.grow(c.tab, &c.first[i%c.kvHeads], c.dim, c.valueDim)
		}
	}
	return o
}

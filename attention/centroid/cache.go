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

// Cache is a [State] that keeps all keys and values, grouped by cluster. Outputs are bit-identical to
// [Attention.Forward] over all tokens at once. It stores the members of every cluster with their residual numbers in 8
// or 4 bits, and the sums of the clusters. A step reads the centroids, the residual numbers in the opened clusters and
// the exact keys, not the whole sequence.
//
// Keys and values grow by pages, the lists of members by doubling. A step in which nothing grows allocates nothing. A
// spec without clusters keeps only its sinks and window.
type Cache[T dense.Float] struct {
	layer
	specs      []Spec // one per key/value head
	calibrated []*Centres
	given      float64 // Attention.Scale, where 0 means the default
	scale      T
	tab        *kern.Table[T]
	heads      []cacheHead[T] // batch × key/value heads

	out, q, k, v attention.Seq[T] // arguments of the current Step
	silent       bool             // only append keys, without queries
	crew         par.Crew[cacheWorker[T]]
}

// pageShift is log₂ of the number of tokens of a page.
const pageShift = 9

// cacheHead is the state of one key/value head.
type cacheHead[T dense.Float] struct {
	spec    *Spec
	g       *geometry[T] // has no clusters until there are centres
	centres *Centres     // calibrated or fitted
	begin   int          // positions before begin see all keys; centres are fitted to them
	asked   []T          // queries of these positions, by query head and position; nil after the fit
	k, v    rows[T]      // all keys, each next to its value; empty for a spec without clusters
	near    near[T]
	far     far[T]
	m       members[T]
	done    int // end of the keys in clusters
}

// cacheWorker is the scratch memory of a goroutine.
type cacheWorker[T dense.Float] struct {
	reader  reader[T]
	assign  assignScratch[T]
	tmp     dense.Matrix[T]
	cluster []int32
	q       []int8
}

// NewCache returns an empty cache with the specs, scale and centres of a. A cache is always causal, whatever a.Causal
// says. It takes no masks: do not pass padding to it. Without centres, all keys of a head are exact for the first
// positions, eight per cluster. The cache then fits centres to them, as Forward does.
func NewCache[T dense.Float](a *Attention[T], batch, qHeads, kvHeads, dim, valueDim int) (*Cache[T], error) {
	l, err := newLayer(batch, qHeads, kvHeads, dim, valueDim)
	if err != nil {
		return nil, err
	}
	if a.KeyMask != nil || a.Segments != nil || a.KeySegments != nil {
		return nil, fmt.Errorf("a cache takes no masks or segments: leave padding out and use one cache per sequence: %w", dense.ErrShape)
	}
	if err := checkSpecs(a.Specs, kvHeads); err != nil {
		return nil, err
	}
	if chunked(a) {
		return nil, fmt.Errorf("a cache has one set of centres for all keys, call NewChunks for specs with chunks: %w",
			ErrSpec)
	}
	scale, err := logitScale(a.Scale, dim)
	if err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	if a.Centres != nil && len(a.Centres) != kvHeads {
		return nil, fmt.Errorf("centres of %d heads for %d key/value heads: %w", len(a.Centres), kvHeads,
			dense.ErrShape)
	}
	l.unchecked = a.Unchecked
	c := &Cache[T]{layer: l, calibrated: a.Centres, given: a.Scale, scale: T(scale), tab: tab}
	for h := range kvHeads {
		s := *specOf(a.Specs, h)
		if room := s.Sinks + s.Window + s.block(true); room > maxNear {
			return nil, fmt.Errorf("%d exact keys in sinks, window and block: a cache keeps them packed, want at most %d: %w",
				room, maxNear, ErrSpec)
		}
		if first := prefix(&s); a.Centres == nil && first > maxNear {
			return nil, fmt.Errorf("%d clusters are fitted to %d first keys: a cache keeps them packed, want at most %d: %w",
				s.Clusters, first, maxNear, ErrSpec)
		}
		c.specs = append(c.specs, s)
	}
	c.heads = make([]cacheHead[T], batch*kvHeads)
	for i := range c.heads {
		if err := c.begin(i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// begin makes head i empty.
func (c *Cache[T]) begin(i int) error {
	h, kv := &c.heads[i], i%c.kvHeads
	h.spec = &c.specs[kv]
	h.done, h.begin, h.centres = h.spec.Sinks, 0, nil
	h.k = rows[T]{shift: pageShift, stride: c.dim + c.valueDim}
	h.v = rows[T]{shift: pageShift, stride: c.dim + c.valueDim, column: c.dim}
	h.asked = nil
	room := h.spec.Sinks + h.spec.Window + h.spec.block(true)
	if c.calibrated == nil && h.spec.Clusters > 0 {
		h.begin = prefix(h.spec)
		room = max(room, h.begin)
		none := *h.spec
		none.Clusters = 0
		h.g, _ = newGeometry[T](c.tab, &none, nil, c.dim, c.valueDim)
	} else {
		var centres *Centres
		if h.spec.Clusters > 0 {
			if centres = c.calibrated[kv]; centres == nil {
				return fmt.Errorf("head %d has no centres: %w", kv, dense.ErrShape)
			}
		}
		if err := c.use(h, kv, centres); err != nil {
			return fmt.Errorf("head %d: %w", kv, err)
		}
	}
	h.near.reset(c.tab, room, c.dim, c.valueDim)
	return nil
}

// use sets the centres of a head, nil for a spec without clusters, and makes its clusters empty. Batches with the same
// calibrated centres share a geometry.
func (c *Cache[T]) use(h *cacheHead[T], kv int, centres *Centres) (err error) {
	if h.g == nil || h.g.k == 0 || h.centres != centres {
		if first := &c.heads[kv]; first != h && c.calibrated != nil {
			h.g = first.g // of the first batch
		} else if h.g, err = newGeometry(c.tab, h.spec, centres, c.dim, c.valueDim); err != nil {
			return err
		}
	}
	h.centres = centres
	h.m = members[T]{}
	if h.g.k == 0 {
		return nil
	}
	h.far.reset(h.g)
	if h.spec.Top > 0 {
		h.m.pos = make([][]int32, h.g.k)
		if h.spec.Keys > 0 {
			h.m.q = make([]quanta, h.g.k)
		}
	}
	return nil
}

// Len returns the number of tokens seen.
func (c *Cache[T]) Len() int { return c.length }

// Report returns the counts of all steps.
func (c *Cache[T]) Report() attention.Report { return c.report }

// Centres returns the centres in use, one per batch and key/value head. An entry is nil until the head has centres.
func (c *Cache[T]) Centres() []*Centres {
	var all []*Centres
	for i := range c.heads {
		all = append(all, c.heads[i].centres)
	}
	return all
}

// Reset removes all tokens, the counts, and centres that were fitted to the tokens.
func (c *Cache[T]) Reset() {
	c.length, c.joined, c.report = 0, 0, attention.Report{}
	for i := range c.heads {
		if err := c.begin(i); err != nil {
			panic("centroid: " + err.Error()) // NewCache has done the same
		}
	}
}

// Bytes returns the memory that the state holds.
func (c *Cache[T]) Bytes() int64 {
	size := sizeOf[T]()
	var n int64
	for i := range c.heads {
		h := &c.heads[i]
		for _, p := range h.k.pages {
			n += int64(cap(p)) * size
		}
		n += int64(cap(h.asked)+cap(h.near.keys.Data)+cap(h.near.value.Data)) * size
		f := &h.far
		n += int64(cap(f.count)+cap(f.logn)+cap(f.mean.Data)+cap(f.value.Data)+cap(f.spread.Data)+
			cap(f.middle.Data))*size + int64(cap(f.n)+cap(f.yv)+cap(f.sums.q))*8
		for _, p := range h.m.pos {
			n += int64(cap(p)) * 4
		}
		for _, q := range h.m.q {
			n += int64(cap(q.data))
		}
	}
	return n
}

// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over all
// tokens up to its own. Arguments are checked before the state changes.
func (c *Cache[T]) Step(out, q, k, v attention.Seq[T]) error {
	if err := checkStep(&c.layer, out, q, k, v); err != nil {
		return err
	}
	return c.run(out, q, k, v, false)
}

func (c *Cache[T]) run(out, q, k, v attention.Seq[T], silent bool) error {
	if k.Len == 0 {
		return nil
	}
	c.out, c.q, c.k, c.v, c.silent = out, q, k, v, silent
	s := &c.specs[0]
	work := k.Len * (s.Clusters + s.Keys + s.Sinks + s.Window + s.block(true)) * (c.dim + c.valueDim) * c.group()
	err := c.crew.Do(len(c.heads), par.Workers(len(c.heads), 1+c.tab.Grain/max(1, work)), (*cacheStep[T])(c))
	c.out, c.q, c.k, c.v = attention.Seq[T]{}, attention.Seq[T]{}, attention.Seq[T]{}, attention.Seq[T]{}
	for _, w := range c.crew.Workers {
		c.report.Add(w.reader.report)
		w.reader.report = attention.Report{}
	}
	c.length += k.Len
	return err
}

type cacheStep[T dense.Float] Cache[T]

// Item appends the tokens of one key/value head of a batch and computes their outputs, in pieces that do not cross
// blocks.
func (c *cacheStep[T]) Item(w *cacheWorker[T], i int) error {
	h := &c.heads[i]
	b, kv := i/c.kvHeads, i%c.kvHeads
	group := c.qHeads / c.kvHeads
	k, v := c.k.Head(b, kv), c.v.Head(b, kv)
	r := &w.reader
	most, block := max(1, blockRows/group), h.spec.block(true)
	for t := 0; t < k.Rows; t += r.n {
		p := c.length + t
		if p%block == 0 {
			if err := h.turn(w, (*Cache[T])(c), kv, p); err != nil {
				return fmt.Errorf("batch %d, head %d: %w", b, kv, err)
			}
		}
		r.n, r.p0 = min(block-p%block, k.Rows-t, most), p
		for j := range r.n {
			h.append(p+j, k.Row(t+j), v.Row(t+j))
		}
		if c.silent {
			continue
		}
		r.g, r.near, r.m, r.k, r.v, r.group = h.g, &h.near, &h.m, h.k, h.v, group
		r.x = buf.Shaped(r.x, group*r.n, c.dim)
		for g := range group {
			q := c.q.Head(b, kv*group+g)
			for j := range r.n {
				copy(r.x.Row(g*r.n+j), q.Row(t+j))
				if p < h.begin {
					copy(h.asked[(g*h.begin+p+j)*c.dim:], q.Row(t+j))
				}
			}
		}
		c.tab.Scale(r.x.Data, c.scale)
		r.far = nil
		if h.g.k > 0 {
			r.far = &h.far
		}
		r.read()
		for g := range group {
			out := c.out.Head(b, kv*group+g)
			for j := range r.n {
				copy(out.Row(t+j), r.acc.Row(g*r.n+j))
			}
		}
	}
	return nil
}

// append stores a key and its value.
func (h *cacheHead[T]) append(p int, k, v []T) {
	h.near.add(p, k, v)
	if h.spec.Clusters == 0 {
		return
	}
	if p>>pageShift == len(h.k.pages) {
		h.k.pages = append(h.k.pages, make([]T, h.k.stride<<pageShift))
		h.v.pages = h.k.pages
	}
	copy(h.k.row(p), k)
	copy(h.v.row(p), v)
}

// turn begins the block at position b0. Keys that leave the window enter their clusters. Where centres come from the
// tokens themselves, turn fits them once enough positions have been seen.
func (h *cacheHead[T]) turn(w *cacheWorker[T], c *Cache[T], kv, b0 int) error {
	if h.begin > 0 && b0 == 0 {
		h.asked = make([]T, c.group()*h.begin*c.dim)
	}
	if h.begin > 0 && b0 >= h.begin && h.centres == nil {
		if err := h.fit(c, kv); err != nil {
			return err
		}
	}
	if b0 < h.begin {
		return nil
	}
	lo := max(h.spec.Sinks, b0-h.spec.Window)
	if h.g.k > 0 {
		h.absorb(w, min(lo, b0))
	}
	from, _ := slices.BinarySearch(h.near.pos, int32(min(h.spec.Sinks, b0)))
	to, _ := slices.BinarySearch(h.near.pos, int32(lo))
	if to > from {
		h.near.remove(from, to)
	}
	return nil
}

// fit fits centres to the first positions, as causalCall.fit does.
func (h *cacheHead[T]) fit(c *Cache[T], kv int) error {
	group := c.group()
	q := attention.Seq[T]{Shape: attention.Shape{Batch: 1, Heads: group, Len: h.begin, Dim: c.dim}, Data: h.asked,
		StrideH: h.begin * c.dim, StrideL: c.dim}
	k, v := dense.New[T](h.begin, c.dim), dense.New[T](h.begin, c.valueDim)
	for p := range h.begin {
		copy(k.Row(p), h.k.row(p))
		copy(v.Row(p), h.v.row(p))
	}
	vis := attention.Visibility{Causal: true}
	fitted, err := Fit([]Spec{*h.spec}, c.given, vis, q, attention.One(k), attention.One(v))
	if err != nil {
		return err
	}
	h.asked = nil
	return c.use(h, kv, fitted[0])
}

// absorb puts the keys before end into clusters, page by page.
func (h *cacheHead[T]) absorb(w *cacheWorker[T], end int) {
	for h.done < end {
		n := min(end-h.done, 1<<pageShift-h.done&(1<<pageShift-1)) // within one page
		w.cluster, w.q = buf.Sized(w.cluster, n), buf.Sized(w.q, n*h.g.r)
		k, v := h.k.block(h.done, n, h.g.d), h.v.block(h.done, n, h.g.dv)
		h.g.assign.assign(w.cluster, k, v, &w.assign)
		h.g.quantise(w.q, w.cluster, k, &w.tmp)
		for j, c := range w.cluster {
			h.enter(h.done+j, int(c), k.Row(j), v.Row(j), w.q[j*h.g.r:(j+1)*h.g.r])
		}
		h.done += n
	}
	h.far.refresh()
}

// enter puts the key at position p into cluster c.
func (h *cacheHead[T]) enter(p, c int, k, v []T, q []int8) {
	h.far.add(c, k, v, q)
	if h.m.q != nil {
		h.m.q[c].put(len(h.m.pos[c]), h.g.tab.Width, h.spec.bits(), q)
	}
	if h.m.pos != nil {
		h.m.pos[c] = append(h.m.pos[c], int32(p))
	}
}

// block returns a view of n rows from position p on, which must be in one page.
func (r *rows[T]) block(p, n, cols int) dense.Matrix[T] {
	return dense.Matrix[T]{Rows: n, Cols: cols, Stride: r.stride, Data: r.row(p)[:(n-1)*r.stride+cols]}
}

// Clone returns an independent copy of the state. Both share the centres, which never change.
func (c *Cache[T]) Clone() *Cache[T] {
	o := &Cache[T]{layer: c.layer, specs: c.specs, calibrated: c.calibrated, given: c.given, scale: c.scale, tab: c.tab,
		heads: make([]cacheHead[T], len(c.heads))}
	for i := range c.heads {
		h, n := &c.heads[i], &o.heads[i]
		*n = cacheHead[T]{spec: h.spec, g: h.g, centres: h.centres, begin: h.begin, asked: slices.Clone(h.asked),
			k: h.k, v: h.v, done: h.done}
		n.k.pages = make([][]T, len(h.k.pages))
		for j := range n.k.pages {
			n.k.pages[j] = slices.Clone(h.k.pages[j])
		}
		n.v.pages = n.k.pages
		n.near.copyFrom(&h.near)
		if h.g.k > 0 {
			n.far.load(h.g, &h.far.sums)
		}
		if h.m.pos != nil {
			n.m.pos = make([][]int32, len(h.m.pos))
			for j := range n.m.pos {
				n.m.pos[j] = slices.Clone(h.m.pos[j])
			}
		}
		if h.m.q != nil {
			n.m.q = make([]quanta, len(h.m.q))
			for j := range n.m.q {
				n.m.q[j].data = slices.Clone(h.m.q[j].data)
			}
		}
	}
	return o
}

// Fork returns Clone as a State.
func (c *Cache[T]) Fork() State[T] { return c.Clone() }

// Join calls Merge if o is a Cache.
func (c *Cache[T]) Join(o State[T]) error {
	other, ok := o.(*Cache[T])
	if !ok {
		return fmt.Errorf("%T into %T: %w", o, c, attention.ErrMismatch)
	}
	return c.Merge(other)
}

// Merge appends the tokens of o as Step would, without computing outputs. Both caches need calibrated centres and
// clusters in all specs: other caches do not keep all keys, or need queries to fit their centres.
func (c *Cache[T]) Merge(o *Cache[T]) error {
	if len(c.heads) == 0 || o == nil || len(o.heads) == 0 {
		return errNoCache
	}
	if a, b := c.fingerprint(), o.fingerprint(); a != b {
		return fmt.Errorf("fingerprint %x…, this cache has %x…: %w", b[:4], a[:4], attention.ErrMismatch)
	}
	if c.calibrated == nil || slices.ContainsFunc(c.specs, func(s Spec) bool { return s.Clusters == 0 }) {
		return fmt.Errorf("caches without calibrated centres or clusters do not merge: %w", attention.ErrMismatch)
	}
	if o.length > maxLen-c.length {
		return fmt.Errorf("%d tokens after %d, want at most %d: %w", o.length, c.length, maxLen, dense.ErrShape)
	}
	total := o.length // o may be c itself
	for p := 0; p < total; {
		n := min(total-p, 1<<pageShift-p&(1<<pageShift-1))
		k := attention.NewSeq[T](c.batch, c.kvHeads, n, c.dim)
		v := attention.NewSeq[T](c.batch, c.kvHeads, n, c.valueDim)
		for i := range o.heads {
			b, kv := i/c.kvHeads, i%c.kvHeads
			for j := range n {
				copy(k.Head(b, kv).Row(j), o.heads[i].k.row(p+j))
				copy(v.Head(b, kv).Row(j), o.heads[i].v.row(p+j))
			}
		}
		if err := c.run(attention.Seq[T]{}, attention.Seq[T]{}, k, v, true); err != nil {
			return err
		}
		p += n
	}
	return nil
}

var errNoCache = fmt.Errorf("a cache that was not made by NewCache: %w", attention.ErrMismatch)

func (c *Cache[T]) fingerprint() [32]byte {
	return c.layer.fingerprint("cache", float64(c.scale), c.specs, c.calibrated)
}

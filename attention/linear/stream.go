package linear

import (
	"math"
	"runtime"
	"slices"
	"sort"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// stream is one packed sequence of one key/value head with the query heads of its group: the unit that a forward or a
// backward pass works through. Positions count keys from the first key of the stream (after its sinks).
type stream[T dense.Float] struct {
	m        randfeat.FeatureMap[T]
	q, out   attention.Seq[T]
	k, v     dense.Matrix[T]
	mask     []bool // one per key; nil means that all count
	b, h     int    // batch and key/value head
	q0, q1   int    // queries [q0, q1) of the sequence
	k0       int    // index of the first key of the stream within its head
	group    int    // query heads that share the key/value head
	rows     int    // rows handled together, see Attention.rows
	causal   bool
	off      int  // query i is at position i + off: if causal, it sees the keys up to there
	backward bool // positions count from the last key, queries from the last query: the keys behind

	// The sinks lie before the keys k: sink j is at position j − sinkK.Rows.
	sinkK, sinkV dense.Matrix[T]
	sinkMask     []bool

	// With exact weights, outputs stay unfinished sums until windowBlock has added these weights: row i of head g has
	// the denominator den·e^scale at index g·lenQ + i, and its values have the same scale. If scale is nil, outputs are
	// finished at once.
	window     int
	den, scale []float64

	place int // 1 + offset of the features that Backward keeps for this stream; 0 means none
}

// streams is the list of all streams of a call, in the order of batches, key/value heads and packed sequences.
type streams[T dense.Float] struct {
	tab    *kern.Table[T]
	all    []stream[T]
	spans  []attention.Span
	loads  []int // scratch of workers: work assigned to each
	checks bool  // outputs are to be checked for NaN and infinities
	exact  bool  // some keys of some streams have exact weights
}

// list lists the streams of the arguments.
func (c *streams[T]) list(a *Attention[T], out, q, k, v attention.Seq[T]) error {
	var err error
	if c.tab, err = kern.Chosen[T](); err != nil {
		return err
	}
	c.checks, c.exact = !a.Unchecked, a.exact()
	c.all = c.all[:0]
	if q.Batch == 0 || q.Heads == 0 || q.Len == 0 {
		return nil
	}
	for b := range q.Batch {
		c.spans = a.Spans(c.spans[:0], b, q.Len, k.Len)
		mask := a.MaskOf(b, k.Len)
		for h := range k.Heads {
			km, vm := k.Head(b, h), v.Head(b, h)
			for _, sp := range c.spans {
				s := stream[T]{m: a.mapOf(h), q: q, out: out, k: km.RowRange(sp.K0, sp.K1),
					v: vm.RowRange(sp.K0, sp.K1),
					b: b, h: h, q0: sp.Q0, q1: sp.Q1, k0: sp.K0, group: q.Heads / k.Heads, causal: a.Causal,
					window: min(a.Window, q.Len+k.Len)}
				s.rows = a.rows(s.m, a.Causal || a.exact())
				if mask != nil {
					s.mask = mask[sp.K0:sp.K1]
				}
				s.off = s.k.Rows - s.lenQ()
				s.split(a.Sinks)
				c.all = append(c.all, s)
			}
		}
	}
	return nil
}

// split moves the first n keys that count from the keys to the sinks, with the masked keys between them.
func (s *stream[T]) split(n int) {
	n = min(n, s.k.Rows)
	if s.mask != nil {
		end := 0
		for ; n > 0 && end < len(s.mask); end++ {
			if s.mask[end] {
				n--
			}
		}
		n = end
		s.sinkMask, s.mask = s.mask[:n], s.mask[n:]
	}
	s.sinkK, s.sinkV = s.k.RowRange(0, n), s.v.RowRange(0, n)
	s.k, s.v = s.k.RowRange(n, s.k.Rows), s.v.RowRange(n, s.v.Rows)
	s.k0, s.off = s.k0+n, s.off-n
}

// exact says that some keys have exact weights.
func (s *stream[T]) exact() bool { return s.window > 0 || s.sinkK.Rows > 0 }

// sinks is the stream whose keys are the sinks alone, all inside its window.
func (s *stream[T]) sinks() stream[T] {
	n := *s
	n.k, n.v, n.mask = s.sinkK, s.sinkV, s.sinkMask
	n.k0, n.off = s.k0-n.k.Rows, s.off+n.k.Rows
	n.window = math.MaxInt / 2
	return n
}

// forget drops the data of the caller, in the whole capacity: older calls may have had more streams.
func (c *streams[T]) forget() {
	clear(c.all[:cap(c.all)])
	c.all = c.all[:0]
}

func (s *stream[T]) lenQ() int { return s.q1 - s.q0 }

// queries and outputs are the rows of query head g of the group.
func (s *stream[T]) queries(g int) dense.Matrix[T] {
	return s.q.Head(s.b, s.h*s.group+g).RowRange(s.q0, s.q1)
}

func (s *stream[T]) outputs(g int) dense.Matrix[T] {
	return s.out.Head(s.b, s.h*s.group+g).RowRange(s.q0, s.q1)
}

// queriesAt is the range of queries at positions p0 to p1−1; it may be empty.
func (s *stream[T]) queriesAt(p0, p1 int) (first, last int) {
	return max(p0-s.off, 0), min(p1-s.off, s.lenQ())
}

// keyRows returns the keys and values at positions lo to hi−1 that count, and their positions if some do not (nil means
// all). They are views of the caller's memory or, if gathered, live in w until the next call.
func (w *worker[T]) keyRows(s *stream[T], lo, hi int) (k, v dense.Matrix[T], pos []int) {
	if !s.backward && (s.mask == nil || allTrue(s.mask[lo:hi])) {
		return s.k.RowRange(lo, hi), s.v.RowRange(lo, hi), nil
	}
	w.kBuf, w.vBuf = buf.Shaped(w.kBuf, hi-lo, s.k.Cols), buf.Shaped(w.vBuf, hi-lo, s.v.Cols)
	w.pos = w.pos[:0]
	for p := lo; p < hi; p++ {
		j := p
		if s.backward {
			j = s.k.Rows - 1 - p
		}
		if s.mask != nil && !s.mask[j] {
			continue
		}
		copy(w.kBuf.Row(len(w.pos)), s.k.Row(j))
		copy(w.vBuf.Row(len(w.pos)), s.v.Row(j))
		w.pos = append(w.pos, p)
	}
	return w.kBuf.RowRange(0, len(w.pos)), w.vBuf.RowRange(0, len(w.pos)), w.pos
}

// queryRows returns queries lo to hi−1 of head g, gathered in w if the stream runs backwards.
func (w *worker[T]) queryRows(s *stream[T], g, lo, hi int) dense.Matrix[T] {
	q := s.queries(g)
	if !s.backward {
		return q.RowRange(lo, hi)
	}
	w.qBuf = buf.Shaped(w.qBuf, hi-lo, q.Cols)
	for i := range hi - lo {
		copy(w.qBuf.Row(i), q.Row(s.row(lo+i)))
	}
	return w.qBuf
}

// row is the row of query i in the sequence.
func (s *stream[T]) row(i int) int {
	if s.backward {
		return s.lenQ() - 1 - i
	}
	return i
}

// positions is the number of keys that some query sees: all, or if causal those up to the last query.
func (s *stream[T]) positions() int {
	if !s.causal {
		return s.k.Rows
	}
	return max(0, min(s.k.Rows, s.lenQ()+s.off))
}

// segments is the number of segments of the keys; segment returns the positions of one.
func (s *stream[T]) segments() int { return s.cut().pieces(s.positions()) }

func (s *stream[T]) segment(i int) (lo, hi int) { return s.cut().piece(s.positions(), i) }

// cut says how positions are cut into segments. Without causal order all workers wait for the last segment, so the last
// ones are shorter.
func (s *stream[T]) cut() cutting { return cutting{segmentOf(s.m.OutDim(), s.v.Cols), !s.causal} }

// blockCut says how rows that see all of the other side are cut into blocks. Workers wait for each other only at the
// end, so the last blocks are shorter.
func (s *stream[T]) blockCut() cutting { return cutting{s.rows, true} }

// cutting cuts positions into pieces of size one. If shrinks is set, the pieces of the last quarter (of all, if there
// are few) have half that size, and with many pieces those of the last sixteenth a quarter. Processors are not equally
// fast, and everyone waits for the last piece of the slowest. The cut must not depend on the number of workers, because
// it determines the bits.
type cutting struct {
	one     int
	shrinks bool
}

// fewPieces is the number of pieces up to which all are halved.
const fewPieces = 16

// sizes returns the sizes of the pieces, largest first, and the positions where each size ends.
func (c cutting) sizes(n int) (size, end [3]int) {
	size = [3]int{c.one, min(c.one, max(minRows, c.one/2)), min(c.one, max(minRows, c.one/4))}
	whole, half := 0, n
	switch {
	case !c.shrinks || n <= 2*c.one:
		whole = n
	case n > fewPieces*c.one:
		whole = (n - n/4) / c.one * c.one
		half = whole + (n-n/16-whole)/size[1]*size[1]
	}
	return size, [3]int{whole, half, n}
}

// pieces is the number of pieces of n positions; piece returns the range of one.
func (c cutting) pieces(n int) (pieces int) {
	size, end := c.sizes(n)
	lo := 0
	for i, hi := range end {
		pieces += (hi - lo + size[i] - 1) / size[i]
		lo = hi
	}
	return pieces
}

func (c cutting) piece(n, at int) (lo, hi int) {
	size, end := c.sizes(n)
	for i, hi := range end {
		k := (hi - lo + size[i] - 1) / size[i]
		if at < k {
			return lo + at*size[i], min(lo+(at+1)*size[i], hi)
		}
		lo, at = hi, at-k
	}
	return n, n
}

func allTrue(mask []bool) bool {
	for _, m := range mask {
		if !m {
			return false
		}
	}
	return true
}

// deal numbers the items of several parts consecutively, so that one par.Crew can run all of them.
type deal struct{ ends []int } // ends[i] is the number of items of parts 0 to i

func (d *deal) reset() { d.ends = d.ends[:0] }

func (d *deal) add(items int) { d.ends = append(d.ends, d.items()+items) }

func (d *deal) items() int {
	if len(d.ends) == 0 {
		return 0
	}
	return d.ends[len(d.ends)-1]
}

// at returns the part of item i and the index of the item within it.
func (d *deal) at(i int) (part, item int) {
	part = sort.SearchInts(d.ends, i+1)
	if part > 0 {
		i -= d.ends[part-1]
	}
	return part, i
}

// count is the number of items of a part.
func (d *deal) count(part int) int {
	if part == 0 {
		return d.ends[0]
	}
	return d.ends[part] - d.ends[part-1]
}

// sharing is the cost of sharing the segments of streams among workers, relative to not sharing: sums and kept features
// are written by one worker and read by another. uneven is the fraction of the longest stream by which its worker lags
// behind at the end if each worker has its own streams, because processors are not equally fast.
const sharing, uneven = 1.15, 0.5

// workers returns how many workers the work of a call justifies, and whether each should run its own streams: it should
// if they would end at about the same time. times is the work relative to Forward. Neither result changes a bit of the
// output.
func (c *streams[T]) workers(times int) (n int, alone bool) {
	work, items := 0, 0
	for i := range c.all {
		s := &c.all[i]
		work += times * s.work()
		one := segmentOf(s.m.OutDim(), s.v.Cols)
		n := max(1, (max(s.k.Rows, s.lenQ())+one-1)/one)
		if items += n; n > 2 || n == 2 && s.causal {
			items += n // the queries of a segment can be divided, or its keys
		}
	}
	n = max(1, min(runtime.GOMAXPROCS(0), work/c.tab.Grain, items))
	if n == 1 || len(c.all) < n {
		return n, n == 1
	}
	// Greedy assignment: each stream goes to the worker with the least work so far.
	c.loads = buf.Zeroed(c.loads, n)
	longest := 0
	for i := range c.all {
		longest = max(longest, times*c.all[i].work())
		least := 0
		for w, load := range c.loads {
			if load < c.loads[least] {
				least = w
			}
		}
		c.loads[least] += times * c.all[i].work()
	}
	return n, float64(slices.Max(c.loads))+uneven*float64(longest) <= sharing*float64(work)/float64(n)
}

// work is the number of multiply-adds of the features and their sums.
func (s *stream[T]) work() int {
	return (s.k.Rows + s.group*s.lenQ()) * s.m.OutDim() * (s.k.Cols + s.v.Cols)
}

package attention

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Exact is softmax attention over the visible keys,
//
//	out_i = Σ_j p_ij v_j,   p_ij = exp(s_ij) / Σ_j exp(s_ij),   s_ij = Scale · q_i·k_j.
//
// It works in blocks with a running maximum (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022,
// arXiv:2205.14135), so there is no L×L matrix, only a few blocks of memory per worker. Weights may exceed those at the
// running maximum by up to e^20 before it is raised; this cannot overflow. A query that sees no key gets zeros.
//
// If there are fewer key/value heads than query heads, groups of neighbouring query heads share one: query head h reads
// head h·k.Heads/q.Heads. Masked keys, and keys of segments without a query, may hold any value, even NaN; neither they
// nor their values are read. The bits of an output row depend neither on the number of workers nor on keys it does not
// see.
//
// The zero value is ready to use. Concurrent calls are safe unless Keep is set.
//
// # Algorithm of Forward
//
//  1. splitQueries cuts every span into tasks: some queries of all heads that share one key head, because they share
//     the packed keys.
//  2. Workers take tasks (par.Crew). sweep runs over the key blocks of a task. It packs a block once, and for each
//     tile of queries computes scores, weights exp(s − shift) and the product of weights and values.
//  3. softmaxRow keeps shift, the running maximum of a row. When a score exceeds it, sums and accumulated values of
//     the row are multiplied by exp(old − new).
//  4. finish divides by the sum of the weights.
//
// # Why the bits do not depend on the schedule
//
// A row is processed in blocks of keys that begin at multiples of keyBlock of its span, in tiles that begin at
// multiples of their height. Neither depends on the task. Every decision about a row (fused kernel, raising the shift,
// flushing to float64) depends on that row only.
type Exact[T dense.Float] struct {
	Visibility
	// Scale multiplies q·k in the scores. 0 means 1/√d.
	Scale float64
	// Window limits a query at position p to the keys j with p−Window < j ≤ p if causal, and |p−j| < Window otherwise;
	// 0 means no limit. Positions are those of Visibility: the last query and the last key of a segment are aligned.
	Window int
	// Unchecked skips the check for NaN and infinities. Set it only if the values are known to be finite.
	Unchecked bool
	// Keep, if not nil, receives the normalisers of Forward. Backward then reads them instead of computing the scores
	// again.
	Keep *Normalisers[T]

	calls par.Pool[any] // of *exactCall
}

// Normalisers hold two numbers per query row that turn scores into probabilities: p = exp(s − shift)·inverse. Rows are
// ordered by batch, head and position.
type Normalisers[T dense.Float] struct {
	batch, heads, length int
	shift, inverse       []T
}

// resize makes room for the rows of q; numbers are undefined until set writes them.
func (n *Normalisers[T]) resize(q Seq[T]) {
	n.batch, n.heads, n.length = q.Batch, q.Heads, q.Len
	n.shift = buf.Sized(n.shift, q.Batch*q.Heads*q.Len)
	n.inverse = buf.Sized(n.inverse, q.Batch*q.Heads*q.Len)
}

// set stores the rows of head h from row i on. A row without keys gets shift 0 and inverse 0, so all its probabilities
// are 0.
func (n *Normalisers[T]) set(b, h, i int, shift []T, sum []float64) {
	at := (b*n.heads+h)*n.length + i
	for r, s := range sum {
		n.shift[at+r], n.inverse[at+r] = 0, 0
		if s != 0 {
			n.shift[at+r], n.inverse[at+r] = shift[r], T(1/s)
		}
	}
}

const (
	// tileRows is the number of rows of scores computed at a time.
	tileRows = 64
	// edgeRows replaces tileRows where the visible keys of the rows end inside the block: a lower tile computes fewer
	// scores that are then hidden.
	edgeRows = 32
	// taskRows is the number of query rows, over all heads of a group, that share one packing of the keys.
	taskRows = 256
	// fewRows is the number of queries up to which packing the keys costs more than it saves.
	fewRows = 4
	// lag is how far scores may exceed the running maximum, in nats: e^20·2^20 keys are far from overflow in float32.
	lag = 20
	// longSum is the number of keys that are summed in float32 before the sums move to a float64 total, which bounds
	// the rounding error of long sequences.
	longSum = 4096
)

// keyBlock is the number of keys that are packed together and used by all queries of a task. Keys, values and a tile of
// scores take 128 KiB each at d = 64; blocks of half the size cost 6 % more time, of a quarter 12 %.
func keyBlock[T dense.Float]() int { return 2048 / int(unsafe.Sizeof(T(0))) }

// Forward writes the attention of q over k and v to out. out has the heads and length of q and the dimension of v.
func (a *Exact[T]) Forward(out, q, k, v Seq[T]) (Report, error) {
	if err := CheckForward(&a.Visibility, out, q, k, v); err != nil {
		return Report{}, err
	}
	scale, err := a.scale(q.Dim)
	if err != nil {
		return Report{}, err
	}
	slot := a.calls.Get()
	defer a.calls.Put(slot)
	c := par.Held[exactCall[T]](slot)
	defer c.forget()
	if err := c.start(&a.Visibility, a.Window, scale, out, q, k, v); err != nil {
		return Report{}, err
	}
	if !a.Unchecked {
		if err := CheckValues(q, k, v, c.seen); err != nil {
			return Report{}, err
		}
	}
	if c.keep = a.Keep; c.keep != nil {
		c.keep.resize(q)
	}
	c.splitQueries()
	c.do(len(c.tasks), (*exactForward[T])(c))
	return c.report(), nil
}

// scale validates Window and Scale and returns the factor of q·k.
func (a *Exact[T]) scale(dim int) (float64, error) {
	switch {
	case a.Window < 0:
		return 0, fmt.Errorf("window %d, want 0 (none) or more: %w", a.Window, dense.ErrShape)
	case !dense.IsFinite(a.Scale):
		return 0, fmt.Errorf("scale %v: %w", a.Scale, dense.ErrNotFinite)
	case a.Scale != 0:
		return a.Scale, nil
	}
	return 1 / math.Sqrt(float64(max(1, dim))), nil
}

// hiddenCleared returns m with the rows that bias hides set to zero. A weight of 0 would not remove them, because 0·NaN
// is NaN. The result is a copy in the memory of spare, or m itself if nothing is hidden.
func hiddenCleared[T dense.Float](spare *[]T, m dense.Matrix[T], bias []T) dense.Matrix[T] {
	if !slices.ContainsFunc(bias, func(v T) bool { return v != 0 }) {
		return m
	}
	*spare = buf.Sized(*spare, m.Rows*m.Cols)
	out := packedView(*spare, m.Rows, m.Cols)
	for j, v := range bias {
		if v == 0 {
			copy(out.Row(j), m.Row(j))
		} else {
			clear(out.Row(j))
		}
	}
	return out
}

// exactTask is a block of one span: in loops over queries, the queries [lo, hi) of all heads that share key head h; in
// loops over keys, the keys [lo, hi) of that head. lo and hi count from the start of the span.
type exactTask struct {
	b, h, span int
	lo, hi     int
	// chained says, for key blocks, that the task before this one is the previous block of the same head and span.
	chained bool
}

// exactCall is one Forward or Backward as its workers see it. The pool of Exact keeps its memory for later calls;
// forget drops everything that belongs to the caller. After start only the crew's workers, done, rows, keep and the
// outputs change, so workers need no locks.
type exactCall[T dense.Float] struct {
	tab   *kern.Table[T]
	vis   *Visibility
	scale T
	group int // query heads per key head

	out, q, k, v     Seq[T]
	dout, dq, dk, dv Seq[T]
	keep             *Normalisers[T]
	kept             bool // keep holds the normalisers of a Forward

	bands []band // spans of all batches
	first []int  // index of the first band of each batch, and len(bands) at the end
	spans []Span
	bias  []T    // 0, or −∞ for masked keys, added to scores; batch major, empty without a mask
	seen  []bool // result of Visibility.SeenKeys, may be the caller's mask
	tasks []exactTask

	// scratch of the whole call
	own  Normalisers[T] // normalisers of a Backward whose caller kept none
	rows []T            // see prepareRows
	done []atomic.Int64 // per key block: how far it has got with dq; see backward
	stop atomic.Bool    // a key block has panicked: the others end instead of waiting for it
	keys []bool         // memory for seen if segments make it differ from the mask

	crew par.Crew[exactScratch[T]]
}

// exactScratch is the memory of one worker. Rows of a task are ordered by head of the group, then query.
type exactScratch[T dense.Float] struct {
	panel, values kern.Panel[T] // packed keys, and in Backward [v | 1], of a block; panel.Rows 0: not packed
	view          kern.Panel[T] // part of a panel, see panelPart
	q, acc        []T           // scaled queries of a task, and its weighted sums of values
	p, g          []T           // tiles of weights and, in Backward, of ds
	shift         []T           // running maximum of each row; −∞ before the first key
	sum           []float64     // sum of the weights of each row, relative to exp(shift)
	sums, ones    []T           // row sums of a fused tile, and the vector that makes them
	total         []float64     // float64 totals of acc, at totalShift; see flush
	totalShift    []T           // shift of each row of total; empty before the first flush
	k, v, dk, dv  []T           // copies of a key block, and its gradients
	report        Report
}

// forget drops the data of the caller, so that the pool does not keep it alive.
func (c *exactCall[T]) forget() {
	c.vis, c.keep, c.seen = nil, nil, nil
	c.out, c.q, c.k, c.v = Seq[T]{}, Seq[T]{}, Seq[T]{}, Seq[T]{}
	c.dout, c.dq, c.dk, c.dv = Seq[T]{}, Seq[T]{}, Seq[T]{}, Seq[T]{}
}

// start takes the arguments of a call, which must have been checked, and derives bands, bias and seen.
func (c *exactCall[T]) start(vis *Visibility, window int, scale float64, out, q, k, v Seq[T]) (err error) {
	if c.tab == nil {
		if c.tab, err = kern.Chosen[T](); err != nil {
			return err
		}
	}
	window = min(window, q.Len+k.Len) // a window of that size hides nothing, and sums of positions cannot overflow
	c.vis, c.scale = vis, T(scale)
	c.out, c.q, c.k, c.v = out, q, k, v
	c.group = 1
	if k.Heads > 0 {
		c.group = q.Heads / k.Heads
	}
	c.bands, c.first = c.bands[:0], c.first[:0]
	for b := range q.Batch {
		c.first = append(c.first, len(c.bands))
		c.spans = vis.Spans(c.spans[:0], b, q.Len, k.Len)
		for _, s := range c.spans {
			all := s.Q1 - s.Q0 + s.K1 - s.K0 // the same for the span
			c.bands = append(c.bands, band{Span: s, causal: vis.Causal, window: min(window, all)})
		}
	}
	c.first = append(c.first, len(c.bands))
	c.bias = buf.Sized(c.bias, len(vis.KeyMask))
	for i, visible := range vis.KeyMask {
		c.bias[i] = 0
		if !visible {
			c.bias[i] = T(math.Inf(-1))
		}
	}
	if c.seen = vis.SeenKeys(c.keys, q.Batch, q.Len, k.Len); vis.KeySegments != nil {
		c.keys = c.seen
	}
	return nil
}

// keyBias is the bias of the keys [lo, hi) of a batch, nil without a mask.
func (c *exactCall[T]) keyBias(b, lo, hi int) []T {
	if len(c.bias) == 0 {
		return nil
	}
	return c.bias[b*c.k.Len+lo : b*c.k.Len+hi]
}

// allMasked reports whether bias hides every key.
func allMasked[T dense.Float](bias []T) bool {
	for _, v := range bias {
		if v == 0 {
			return false
		}
	}
	return len(bias) > 0
}

// splitQueries makes the tasks of a loop over queries, about taskRows rows each, fewer if there would not be four tasks
// per processor. task takes them from the end: with a causal mask the last queries see the most keys, and long tasks
// should start first. The bits of a row do not depend on the other rows of its task, so the number of tasks may depend
// on the number of processors.
func (c *exactCall[T]) splitQueries() {
	rows := max(edgeRows, taskRows/c.group/edgeRows*edgeRows)
	for rows > edgeRows && c.q.Batch*c.k.Heads*c.q.Len/rows < 4*runtime.GOMAXPROCS(0) {
		rows = max(edgeRows, rows/2/edgeRows*edgeRows)
	}
	c.tasks = c.tasks[:0]
	for b := range c.q.Batch {
		for h := range c.k.Heads {
			for s := c.first[b]; s < c.first[b+1]; s++ {
				for i, n := 0, c.bands[s].Q1-c.bands[s].Q0; i < n; i += rows {
					c.tasks = append(c.tasks, exactTask{b: b, h: h, span: s, lo: i, hi: min(i+rows, n)})
				}
			}
		}
	}
}

// do runs n items of a step that computes scores, on as many goroutines as the work justifies. No item of exact
// attention fails, because arguments have been checked; an error is a bug.
func (c *exactCall[T]) do(n int, step par.Step[exactScratch[T]]) {
	work := float64(c.q.Batch) * float64(c.q.Heads) * float64(c.q.Len) * float64(c.k.Len) * float64(c.q.Dim+c.v.Dim)
	workers := min(n, runtime.GOMAXPROCS(0), 1+int(min(work/float64(c.tab.Grain), 1<<20)))
	if err := c.crew.Do(n, workers, step); err != nil {
		panic("attention: " + err.Error())
	}
}

// task is item i of a loop over queries; tasks run from the end of the list, see splitQueries.
func (c *exactCall[T]) task(i int) exactTask { return c.tasks[len(c.tasks)-1-i] }

// The steps of exact attention. Each type is an exactCall with the Item method of one step; a conversion costs nothing.
type (
	exactForward[T dense.Float] exactCall[T] // item: the outputs of a task
	exactRows[T dense.Float]    exactCall[T] // item: the rows that the keys need of a task's queries, see prepareRows
	exactKeys[T dense.Float]    exactCall[T] // item: the gradients of a block of keys
)

func (s *exactForward[T]) Item(w *exactScratch[T], i int) error {
	c := (*exactCall[T])(s)
	c.forward(w, c.task(i))
	return nil
}

func (s *exactRows[T]) Item(w *exactScratch[T], i int) error {
	c := (*exactCall[T])(s)
	c.prepareRows(w, c.task(i))
	return nil
}

func (s *exactKeys[T]) Item(w *exactScratch[T], i int) error {
	(*exactCall[T])(s).backward(w, i)
	return nil
}

// forward computes the outputs of one task.
func (c *exactCall[T]) forward(w *exactScratch[T], t exactTask) {
	b := &c.bands[t.span]
	n, dv := t.hi-t.lo, c.v.Dim
	c.sweep(w, t, dv)
	w.flushed(dv)
	for g := range c.group {
		h := t.h*c.group + g
		out := c.out.Head(t.b, h)
		for i := range n {
			r := g*n + i
			dst := out.Row(b.Q0 + t.lo + i)
			w.finish(c, dst, w.acc[r*dv:(r+1)*dv], w.sum[r])
		}
		if c.keep != nil {
			c.keep.set(t.b, h, b.Q0+t.lo, w.shift[g*n:(g+1)*n], w.sum[g*n:(g+1)*n])
		}
	}
}

// finish writes a row of sums divided by the sum of its weights, or zeros if the query has seen no key.
func (w *exactScratch[T]) finish(c *exactCall[T], dst, acc []T, sum float64) {
	w.report.Rows++
	if sum == 0 {
		w.report.Empty++
		clear(dst)
		return
	}
	copy(dst, acc)
	c.tab.Scale(dst, T(1/sum))
}

// report collects and resets the counts of all workers. Integer sums do not depend on which worker counted what.
func (c *exactCall[T]) report() Report {
	var total Report
	for _, w := range c.crew.Workers {
		total.Add(w.report)
		w.report = Report{}
	}
	return total
}

// sweep computes shift and sum of the queries of one task and, unless dv is 0, their weighted sums of values in acc.
// Backward calls it with dv = 0 for the normalisers alone.
func (c *exactCall[T]) sweep(w *exactScratch[T], t exactTask, dv int) {
	b := &c.bands[t.span]
	n, d := t.hi-t.lo, c.q.Dim
	w.loadQueries(c, t)
	w.acc = buf.Zeroed(w.acc, n*c.group*dv)
	w.totalShift = w.totalShift[:0]
	k, v := c.k.Head(t.b, t.h), c.v.Head(t.b, t.h)
	first, _ := b.keys(t.lo)
	_, end := b.keys(t.hi - 1)
	block := keyBlock[T]()
	// Blocks begin at multiples of block, not at the first visible key of the task: the blocks of a row must not depend
	// on the other rows.
	for j0 := first / block * block; j0 < end; j0 += block {
		j1 := min(j0+block, end)
		bias := c.keyBias(t.b, b.K0+j0, b.K0+j1)
		if !allMasked(bias) {
			kb, vb := hiddenCleared(&w.k, k.RowRange(b.K0+j0, b.K0+j1), bias), v.RowRange(b.K0+j0, b.K0+j1)
			if dv > 0 {
				vb = hiddenCleared(&w.v, vb, bias)
			}
			w.loadKeys(c, kb, b.Q1-b.Q0)
			lo, hi := b.queries(j0, j1)
			lo, hi = max(lo, t.lo), min(hi, t.hi)
			for g := range c.group {
				for i := lo; i < hi; {
					x := nextTile(b, i, hi, j0, j1, c.tab.Width)
					r := g*n + i - t.lo
					p := w.softmax(c, kb, bias, b, x, r, d, dv)
					if dv > 0 {
						c.tab.Product(packedView(w.acc[r*dv:], x.n, dv), p, vb.RowRange(x.c0, x.c1), true)
					}
					i += x.n
				}
			}
		}
		if j1%longSum == 0 && j1 < end {
			w.flush(dv)
		}
	}
}

// loadQueries copies the queries of a task, scaled, and resets the running maxima and sums.
func (w *exactScratch[T]) loadQueries(c *exactCall[T], t exactTask) {
	b := &c.bands[t.span]
	n, d := t.hi-t.lo, c.q.Dim
	rows := n * c.group
	w.q = buf.Sized(w.q, rows*d)
	for g := range c.group {
		q := c.q.Head(t.b, t.h*c.group+g)
		for i := range n {
			copy(w.q[(g*n+i)*d:][:d], q.Row(b.Q0+t.lo+i))
		}
	}
	c.tab.Scale(w.q, c.scale)
	w.shift = buf.Sized(w.shift, rows)
	for r := range w.shift {
		w.shift[r] = T(math.Inf(-1))
	}
	w.sum = buf.Zeroed(w.sum, rows)
	w.p = buf.Sized(w.p, tileRows*keyBlock[T]())
}

// loadKeys packs a block of keys. A span of few queries skips packing, unless Backward will recompute the same scores:
// both must take the same kernel to get the same bits.
func (w *exactScratch[T]) loadKeys(c *exactCall[T], k dense.Matrix[T], queries int) {
	if queries > fewRows || c.keep != nil {
		c.tab.Pack(&w.panel, k)
	} else {
		w.panel.Rows = 0
	}
}

// exactTile is a part of a key block: queries [i, i+n) of a span, and columns [c0, c1) of the block that starts at key
// j0.
type exactTile struct{ i, n, j0, c0, c1 int }

// nextTile returns the tile at query i of the block [j0, j1), for queries below end. If all its queries see the whole
// block, the tile has tileRows rows. Otherwise it has edgeRows rows and is narrowed to the visible keys, from a
// multiple of width on, where panels can be cut. Tiles begin at multiples of their height, so the tiles of a row, and
// thus its bits, do not depend on the task.
func nextTile(b *band, i, end, j0, j1, width int) exactTile {
	n := min(tileRows-i%tileRows, end-i)
	lo, _ := b.keys(i + n - 1)
	_, hi := b.keys(i)
	if lo <= j0 && hi >= j1 {
		return exactTile{i, n, j0, 0, j1 - j0}
	}
	n = min(edgeRows-i%edgeRows, end-i)
	lo, _ = b.keys(i)
	_, hi = b.keys(i + n - 1)
	c0 := max(lo-j0, 0) / width * width
	return exactTile{i, n, j0, c0, max(c0, min(hi, j1)-j0)}
}

// visible is the range of columns of x that its row l sees, counted from c0.
func (x *exactTile) visible(b *band, l int) (lo, hi int) {
	lo, hi = b.keys(x.i + l)
	n := x.c1 - x.c0
	lo = min(max(lo-x.j0-x.c0, 0), n)
	return lo, max(min(hi-x.j0-x.c0, n), lo)
}

// scores computes the scores of tile x, whose queries begin at row r of w.q, x.n × (c1−c0). Masked keys get −∞. Keys
// outside the band are not hidden here; softmaxRow does that.
func (w *exactScratch[T]) scores(c *exactCall[T], k dense.Matrix[T], bias []T, x exactTile, r, d int) dense.Matrix[T] {
	p := packedView(w.p, x.n, x.c1-x.c0)
	if bias != nil {
		bias = bias[x.c0:x.c1]
	}
	if w.panel.Rows == 0 {
		for l := range x.n {
			row := p.Row(l)
			c.tab.MulV(row, k.RowRange(x.c0, x.c1), w.q[(r+l)*d:(r+l+1)*d])
			for j, v := range bias {
				row[j] += v
			}
		}
		return p
	}
	c.tab.MulT(p, packedView(w.q[r*d:], x.n, d), w.panelPart(&w.panel, x.c0, x.c1), bias)
	return p
}

// softmax replaces the scores of tile x by exp(s − shift) and adds them to the sums of its rows; the queries of x begin
// at row r of w.q.
//
// Most rows see a whole block and have a shift from earlier blocks, which rarely needs raising. For such rows one fused
// product and exponential suffices. The row is computed again if its sum shows that some score is more than lag above
// the shift: the sum is then more than e^lag. Every row is judged by itself, so its bits do not depend on the other
// rows of the tile.
func (w *exactScratch[T]) softmax(c *exactCall[T], k dense.Matrix[T], bias []T, b *band, x exactTile, r, d,
	dv int) dense.Matrix[T] {
	fused := func(l int) bool {
		lo, hi := x.visible(b, l)
		return hi-lo == keyBlock[T]() && !math.IsInf(float64(w.shift[r+l]), -1)
	}
	some := false
	for l := 0; l < x.n && !some && w.panel.Rows > 0; l++ {
		some = fused(l)
	}
	if !some {
		p := w.scores(c, k, bias, x, r, d)
		for l := range x.n {
			w.softmaxRow(c, p.Row(l), b, x, l, r+l, dv)
		}
		return p
	}
	p, q := packedView(w.p, x.n, x.c1-x.c0), packedView(w.q[r*d:], x.n, d)
	c.tab.MulTExp(p, q, &w.panel, bias, w.shift[r:r+x.n])
	for len(w.ones) < p.Cols {
		w.ones = append(w.ones, 1)
	}
	w.sums = buf.Sized(w.sums, x.n)
	c.tab.MulV(w.sums, p, w.ones)
	most := T(math.Exp(lag))
	for l, sum := range w.sums {
		if sum <= most && fused(l) {
			w.sum[r+l] += float64(sum)
			continue
		}
		c.tab.MulT(p.RowRange(l, l+1), q.RowRange(l, l+1), &w.panel, bias)
		w.softmaxRow(c, p.Row(l), b, x, l, r+l, dv)
	}
	return p
}

// softmaxRow turns the scores of row l of a tile into weights exp(s − shift) and adds them to the sum of row r. If the
// maximum of the scores exceeds the shift, the shift is raised to it and the sums so far are rescaled. Hidden keys get
// weight 0.
func (w *exactScratch[T]) softmaxRow(c *exactCall[T], p []T, b *band, x exactTile, l, r, dv int) {
	lo, hi := x.visible(b, l)
	clear(p[:lo])
	clear(p[hi:])
	p = p[lo:hi]
	m := c.tab.Max(p)
	if m > w.shift[r] {
		if f := T(math.Exp(float64(w.shift[r]) - float64(m))); f != 0 {
			c.tab.Scale(w.acc[r*dv:(r+1)*dv], f)
			w.sum[r] *= float64(f)
		} else {
			clear(w.acc[r*dv : (r+1)*dv])
			w.sum[r] = 0
		}
		w.shift[r] = m
	}
	if math.IsInf(float64(w.shift[r]), -1) {
		clear(p) // this row has not seen a key: all its scores are −∞
		return
	}
	w.sum[r] += float64(c.tab.ExpSum(p, w.shift[r]))
}

// flush adds acc, the weighted sums of the last longSum keys, to the float64 totals and clears it. total is relative to
// exp(totalShift), acc to exp(shift); shift never falls, so the factor is at most 1. float64 calls need no totals.
func (w *exactScratch[T]) flush(dv int) {
	if _, double := any(T(0)).(float64); double {
		return
	}
	if len(w.totalShift) == 0 {
		w.total = buf.Zeroed(w.total, len(w.acc))
		w.totalShift = append(w.totalShift, w.shift...)
	}
	for r, shift := range w.shift {
		f := totalFactor(w.totalShift[r], shift)
		acc, total := w.acc[r*dv:(r+1)*dv], w.total[r*dv:(r+1)*dv]
		for j, v := range acc {
			total[j] = total[j]*f + float64(v)
			acc[j] = 0
		}
		w.totalShift[r] = shift
	}
}

// flushed moves the totals, if there are any, back into acc, where finish and its callers expect them.
func (w *exactScratch[T]) flushed(dv int) {
	if len(w.totalShift) == 0 {
		return
	}
	w.flush(dv)
	for i, v := range w.total {
		w.acc[i] = T(v)
	}
}

// totalFactor is the factor that takes a total from one shift to another that is not smaller.
func totalFactor[T dense.Float](from, to T) float64 {
	if from == to {
		return 1 // also if both are −∞, where the difference would be NaN
	}
	return math.Exp(float64(from) - float64(to))
}

// panelPart is a view of the outputs [lo, hi) of a panel; lo must be a multiple of its width. It is stored in w to
// avoid an allocation, so it is valid until the next call.
func (w *exactScratch[T]) panelPart(p *kern.Panel[T], lo, hi int) *kern.Panel[T] {
	w.view = kern.Panel[T]{Rows: hi - lo, Cols: p.Cols, Width: p.Width, Data: p.Data[lo*p.Cols:]}
	return &w.view
}

// packedView is a packed rows × cols view of the front of data.
func packedView[T dense.Float](data []T, rows, cols int) dense.Matrix[T] {
	return dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols, Data: data[:rows*cols]}
}

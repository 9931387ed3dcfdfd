package centroid

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Fit clusters the keys of every key/value head and returns one Centres per head. It pools the keys of all batches and
// packed sequences, and the queries of all heads of a group. specs has one entry for all heads or one per head; scale
// is as in [Attention].
//
// Keys are weighted by the attention that landmark queries give them,
//
//	w_j = mean_t softmax_j(r_t·y_j) + 0.1/L,
//
// and clustered by weighted k-means in the metric R. Without the weights and the metric, the error of attention on real
// heads is a third larger. If vis is causal, a query weights only keys that it would meet in a cluster: no later keys,
// none in its window, no sinks.
//
// Sinks belong to no cluster. The entry of a head without clusters is nil.
func Fit[T dense.Float](specs []Spec, scale float64, vis attention.Visibility, q, k, v attention.Seq[T]) ([]*Centres,
	error) {
	out := attention.Seq[T]{Shape: attention.Shape{Batch: q.Batch, Heads: q.Heads, Len: q.Len, Dim: v.Dim}}
	if err := checkInputs(&vis, out.Shape, q, k, v); err != nil {
		return nil, err
	}
	if err := checkSpecs(specs, k.Heads); err != nil {
		return nil, err
	}
	scale, err := logitScale(scale, q.Dim)
	if err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	seen := vis.SeenKeys(nil, q.Batch, q.Len, k.Len)
	if err := checkFinite(tab, q, k, v, seen); err != nil {
		return nil, err
	}
	centres := make([]*Centres, k.Heads)
	errs := make([]error, k.Heads)
	workers := runtime.GOMAXPROCS(0) / max(1, k.Heads)
	par.For(k.Heads, 1, func(lo, hi int) {
		f := fitter[T]{tab: tab, workers: workers}
		for h := lo; h < hi; h++ {
			f.reset(specOf(specs, h), scale, vis.Causal, q, k, v, h)
			for b := range q.Batch {
				for _, s := range vis.Spans(nil, b, q.Len, k.Len) {
					f.add(b, s, seen)
				}
			}
			if f.spec.Clusters > 0 {
				f.train()
				centres[h], errs[h] = f.centres()
			}
		}
	})
	for h, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("head %d: %w", h, err)
		}
	}
	return centres, nil
}

// specOf returns the spec of key/value head h.
func specOf(specs []Spec, h int) *Spec {
	if len(specs) == 1 {
		return &specs[0]
	}
	return &specs[h]
}

// checkSpecs returns an error unless there is one valid spec for all heads or one for each.
func checkSpecs(specs []Spec, heads int) error {
	if len(specs) != 1 && len(specs) != heads {
		return fmt.Errorf("%d specs, want 1 or one per key/value head, %d: %w", len(specs), heads, dense.ErrShape)
	}
	for h := range specs {
		if err := specs[h].Validate(); err != nil {
			if len(specs) > 1 {
				return fmt.Errorf("head %d: %w", h, err)
			}
			return err
		}
	}
	return nil
}

// logitScale returns the scale of logits: scale, or 1/√d if it is 0.
func logitScale(scale float64, d int) (float64, error) {
	switch {
	case !dense.IsFinite(scale):
		return 0, fmt.Errorf("scale %v: %w", scale, dense.ErrNotFinite)
	case scale != 0:
		return scale, nil
	}
	return 1 / math.Sqrt(float64(max(1, d))), nil
}

// checkInputs validates the strides and the shapes of the arguments.
func checkInputs[T dense.Float](vis *attention.Visibility, out attention.Shape, q, k, v attention.Seq[T]) error {
	for _, s := range [...]struct {
		name string
		seq  attention.Seq[T]
	}{{"q", q}, {"k", k}, {"v", v}} {
		if err := s.seq.Check(s.name); err != nil {
			return err
		}
	}
	return vis.CheckShapes(out, q.Shape, k.Shape, v.Shape)
}

// checkFinite returns an error that names the first value that is not finite, among the queries and the keys and values
// that are seen.
func checkFinite[T dense.Float](tab *kern.Table[T], q, k, v attention.Seq[T], seen []bool) error {
	if err := finite(tab, "q", q, nil); err != nil {
		return err
	}
	if err := finite(tab, "k", k, seen); err != nil {
		return err
	}
	return finite(tab, "v", v, seen)
}

// finiteGrain is the number of elements whose check justifies a goroutine.
const finiteGrain = 1 << 15

// finite checks the positions that counts marks (one entry per batch and position; nil means all). A sum of squares
// detects NaN and infinities quickly. Only if it is not finite are the columns searched, because large float64 numbers
// can overflow the sum without being wrong.
func finite[T dense.Float](tab *kern.Table[T], name string, s attention.Seq[T], counts []bool) error {
	rows, grain := s.Batch*s.Heads*s.Len, 1+finiteGrain/max(1, s.Dim)
	var first int
	if par.Workers(rows, grain) == 1 {
		first = badSeqRow(tab, s, counts, 0, rows)
	} else {
		first = firstBadRow(tab, s, counts, rows, grain)
	}
	if first == rows {
		return nil
	}
	h, l := first/s.Len, first%s.Len
	m := s.Head(h/s.Heads, h%s.Heads)
	c := firstBad(m.Row(l))
	return fmt.Errorf("%s: batch %d, head %d, position %d, column %d is %v: %w", name, h/s.Heads, h%s.Heads, l, c,
		m.At(l, c), dense.ErrNotFinite)
}

// firstBadRow is badSeqRow over all rows, on several goroutines. It returns the first such row whatever the scheduling.
func firstBadRow[T dense.Float](tab *kern.Table[T], s attention.Seq[T], counts []bool, rows, grain int) int {
	var first atomic.Int64
	first.Store(int64(rows))
	par.For(rows, grain, func(lo, hi int) {
		l := int64(badSeqRow(tab, s, counts, lo, hi))
		for was := first.Load(); l < int64(hi) && l < was && !first.CompareAndSwap(was, l); was = first.Load() {
		}
	})
	return int(first.Load())
}

// badSeqRow is badRow for rows of a sequence, counted head by head.
func badSeqRow[T dense.Float](tab *kern.Table[T], s attention.Seq[T], counts []bool, lo, hi int) int {
	for lo < hi {
		h, from := lo/s.Len, lo%s.Len
		to := min(s.Len, from+hi-lo)
		var of []bool
		if counts != nil {
			of = counts[h/s.Heads*s.Len:]
		}
		if l := badRow(tab, s.Head(h/s.Heads, h%s.Heads), of, from, to); l < to {
			return lo + l - from
		}
		lo += to - from
	}
	return hi
}

// badRow returns the first of the rows lo to hi−1 that counts and has a value that is not finite, or hi.
func badRow[T dense.Float](tab *kern.Table[T], m dense.Matrix[T], counts []bool, lo, hi int) int {
	if counts == nil && m.Stride == m.Cols && tab.Finite(m.Data[lo*m.Cols:hi*m.Cols]) {
		return hi
	}
	for l := lo; l < hi; l++ {
		if (counts == nil || counts[l]) && !dense.IsFinite(tab.Norm2(m.Row(l))) && firstBad(m.Row(l)) >= 0 {
			return l
		}
	}
	return hi
}

// firstBad returns the index of the first value that is not finite, or −1.
func firstBad[T dense.Float](x []T) int {
	return slices.IndexFunc(x, func(v T) bool { return !dense.IsFinite(float64(v)) })
}

// part is one packed sequence in a fit.
type part struct {
	b          int
	span       attention.Span
	first, end int // range of its keys in fitter.keys
	landmarks  int // landmark rows that see a key
}

// fitter fits the clusters of one head, with memory that later heads reuse. Call reset, then add for every packed
// sequence, then train; then centres or assigner returns the result. The steps of train are: weigh the keys by landmark
// queries, measure the metric, draw a sample of keys, map it to coordinates z in which the metric is Euclidean, and run
// k-means there.
type fitter[T dense.Float] struct {
	tab    *kern.Table[T]
	spec   *Spec
	scale  float64
	causal bool
	q      attention.Seq[T]
	k, v   attention.Seq[T]
	head   int // key/value head
	group  int // query heads per key head

	workers int // goroutines that may share the head; 0 means one

	parts   []part
	keys    []int32 // positions of the keys that count, part by part
	weights []T     // one per key; they sum to 1.1

	// The metric E xxᵀ = (queryUnit)²·factor·factorᵀ, with factor lower triangular. A key has the coordinates z = (y −
	// mean)·unit·factor, followed by (v − mean)·unit·valueScale if values take part. The units keep numbers near 1.
	metric     dense.Matrix[float64]
	wide       dense.Matrix[float64] // memory of factorise
	queryUnit  float64
	factor     dense.Matrix[T]
	mean       []T
	unit       float64
	valueScale float64

	sample []int32 // indexes into keys
	mass   []T     // their weights
	z      dense.Matrix[T]
	km     kmeans[T]

	x, gather, e dense.Matrix[T]
	panel        kern.Panel[T]
	spare        par.Pool[fitMemory[T]]

	chunkMax, chunkSum []T
	top, sum           []float64
	sums               []float64
}

// fitChunk keys are weighed at a time. At most metricQueries queries determine the metric of a sequence, and
// chunkQueries the metric of a chunk.
const (
	fitChunk      = 512
	metricQueries = 1024
	chunkQueries  = 256
)

// reset begins the fit of a head; add then adds its sequences.
func (f *fitter[T]) reset(spec *Spec, scale float64, causal bool, q, k, v attention.Seq[T], head int) {
	f.spec, f.scale, f.causal, f.q, f.k, f.v, f.head = spec, scale, causal, q, k, v, head
	f.group = q.Heads / max(1, k.Heads)
	f.parts, f.keys, f.weights = f.parts[:0], f.keys[:0], f.weights[:0]
	f.km.tab, f.km.workers = f.tab, f.workers
}

// add adds the keys of one packed sequence of batch b that count, except sinks: these are exact for all queries, and
// often outliers that would get clusters of their own. seen is the result of [attention.Visibility.SeenKeys].
func (f *fitter[T]) add(b int, s attention.Span, seen []bool) {
	p := part{b: b, span: s, first: len(f.keys)}
	for j := s.K0 + min(f.spec.Sinks, s.K1-s.K0); j < s.K1; j++ {
		if seen == nil || seen[b*f.k.Len+j] {
			f.keys = append(f.keys, int32(j))
		}
	}
	p.end = len(f.keys)
	f.parts = append(f.parts, p)
}

// train weighs and clusters the keys. Afterwards f.km.centres holds the centres in coordinates z.
func (f *fitter[T]) train() {
	f.weigh()
	f.measure()
	f.draw()
	f.coordinates()
	f.km.run(f.z, f.mass, f.spec.Clusters, f.spec.passes(f.causal), f.spec.Seed)
}

// weigh computes the weights of all keys: the mean attention of the landmarks, plus a floor of a tenth of the uniform
// weight. A sequence gets its share by the number of its keys.
func (f *fitter[T]) weigh() {
	f.weights = buf.Sized(f.weights, len(f.keys))
	for i := range f.parts {
		p := &f.parts[i]
		if n := p.end - p.first; n > 0 {
			w := f.weights[p.first:p.end]
			f.weighPart(w, p)
			share := T(float64(n) / float64(len(f.keys)))
			floor := T(0.1 / float64(n))
			for j := range w {
				w[j] = (w[j] + floor) * share
			}
		}
	}
}

// position returns the position of query i of a span among the keys of the span.
func position(s attention.Span, i int) int { return i - s.Q1 + s.K1 - s.K0 }

// weighPart sets w to the mean attention of the landmarks to the keys of one part. It works in chunks of keys, so that
// goroutines can share them. Each chunk has its own maxima and sums, which are then combined in the order of the chunks
// (an online softmax), so the bits do not depend on the number of goroutines.
func (f *fitter[T]) weighPart(w []T, p *part) {
	clear(w)
	s := p.span
	queries := s.Q1 - s.Q0
	marks := min(f.spec.landmarks(f.causal), queries)
	rows := marks * f.group
	if rows == 0 {
		return
	}
	d := f.q.Dim
	f.x = buf.Shaped(f.x, rows, d)
	for g := range f.group {
		q := f.q.Head(p.b, f.head*f.group+g)
		for t := range marks {
			row := f.x.Row(g*marks + t)
			copy(row, q.Row(s.Q0+landmark(t, marks, queries)))
			f.tab.Scale(row, T(f.scale))
		}
	}
	n := len(w)
	chunks := (n + fitChunk - 1) / fitChunk
	f.e = buf.Shaped(f.e, rows, n)
	f.chunkMax = buf.Sized(f.chunkMax, chunks*rows)
	f.top, f.sum = buf.Sized(f.top, rows), buf.Zeroed(f.sum, rows)
	for r := range f.top {
		f.top[r] = math.Inf(-1)
	}
	k := f.k.Head(p.b, f.head)
	f.chunkSum = buf.Sized(f.chunkSum, chunks*rows)
	if each := share(f.workers, chunks, 1+f.tab.Grain/(awake+awake*fitChunk*d*rows)); each == chunks {
		f.weighChunks(p, k, n, marks, 0, chunks)
	} else {
		par.For(chunks, each, func(from, to int) { f.weighChunks(p, k, n, marks, from, to) })
	}
	for c := range chunks {
		for r := range rows {
			m := float64(f.chunkMax[c*rows+r])
			if math.IsInf(m, -1) {
				continue
			}
			if m > f.top[r] {
				f.sum[r] *= math.Exp(f.top[r] - m)
				f.top[r] = m
			}
			f.sum[r] += float64(f.chunkSum[c*rows+r]) * math.Exp(m-f.top[r])
		}
	}
	p.landmarks = 0
	for _, v := range f.sum {
		if v > 0 && dense.IsFinite(v) {
			p.landmarks++
		}
	}
	if each := share(f.workers, chunks, 1+f.tab.Grain/(awake+awake*fitChunk*rows)); each == chunks {
		f.sumChunks(w, p, rows, 0, chunks)
	} else {
		par.For(chunks, each, func(from, to int) { f.sumChunks(w, p, rows, from, to) })
	}
	for j, v := range w {
		if !(v >= 0) { // NaN: logits beyond the range of T
			w[j] = 0
		}
	}
}

// logits returns a view of the logits of chunk c of n keys, with the given number of rows.
func (f *fitter[T]) logits(c, n, rows int) dense.Matrix[T] {
	lo, hi := c*fitChunk, min((c+1)*fitChunk, n)
	return dense.Matrix[T]{Rows: rows, Cols: hi - lo, Stride: hi - lo, Data: f.e.Data[lo*rows : hi*rows]}
}

// weighChunks computes, for chunks first to end−1 of the n keys of a part, exp(logit − chunkMax) and the sum of these
// in chunkSum.
func (f *fitter[T]) weighChunks(p *part, k dense.Matrix[T], n, marks, first, end int) {
	m := f.spare.Get()
	defer f.spare.Put(m)
	for c := first; c < end; c++ {
		lo, hi := c*fitChunk, min((c+1)*fitChunk, n)
		f.tab.Pack(&m.panel, gathered(&m.gather, k, f.keys[p.first+lo:p.first+hi]))
		e := f.logits(c, n, f.x.Rows)
		f.tab.MulT(e, f.x, &m.panel, nil)
		for r := range e.Rows {
			row := e.Row(r)
			from, to := f.visible(p, landmark(r%marks, marks, p.span.Q1-p.span.Q0), lo, hi)
			clear(row[:from])
			clear(row[to:])
			row = row[from:to]
			top := f.tab.Max(row)
			f.chunkMax[c*e.Rows+r] = top
			if math.IsInf(float64(top), -1) {
				clear(row)
				continue
			}
			f.chunkSum[c*e.Rows+r] = f.tab.ExpSum(row, top)
		}
	}
}

// sumChunks sets the weights of the keys in chunks first to end−1 to the means over landmarks.
func (f *fitter[T]) sumChunks(w []T, p *part, rows, first, end int) {
	mem := f.spare.Get()
	defer f.spare.Put(mem)
	mem.share = buf.Shaped(mem.share, 1, rows)
	for c := first; c < end; c++ {
		lo, hi := c*fitChunk, min((c+1)*fitChunk, len(w))
		for r := range rows {
			mem.share.Data[r] = 0
			if m := float64(f.chunkMax[c*rows+r]); f.sum[r] > 0 && dense.IsFinite(f.sum[r]) && !math.IsInf(m, -1) {
				mem.share.Data[r] = T(math.Exp(m-f.top[r]) / (f.sum[r] * float64(p.landmarks)))
			}
		}
		f.tab.Product(dense.Matrix[T]{Rows: 1, Cols: hi - lo, Stride: hi - lo, Data: w[lo:hi]}, mem.share,
			f.logits(c, len(w), rows), false)
	}
}

// fitMemory is the scratch memory with which one goroutine weighs keys.
type fitMemory[T dense.Float] struct {
	gather, share dense.Matrix[T]
	panel         kern.Panel[T]
}

// landmark returns the query of landmark t of n: the middle of the t-th of n equal parts of the queries.
func landmark(t, n, queries int) int { return (2*t + 1) * queries / (2 * n) }

// visible returns the range of the keys [lo, hi) of a part that a query weighs, counted from lo. A causal query weighs
// only keys before its window.
func (f *fitter[T]) visible(p *part, query, lo, hi int) (from, to int) {
	if !f.causal {
		return 0, hi - lo
	}
	at := position(p.span, p.span.Q0+query)
	block := f.spec.block(true)
	end := p.span.K0 + floorTo(at, block) - f.spec.Window
	keys := f.keys[p.first+lo : p.first+hi]
	for to < len(keys) && int(keys[to]) < end {
		to++
	}
	return 0, to
}

// floorTo returns the largest multiple of unit that is at most n, which may be negative.
func floorTo(n, unit int) int {
	r := n % unit
	if r < 0 {
		r += unit
	}
	return n - r
}

// measure computes the metric from equally spaced queries: E xxᵀ in units of the longest query, and its factor.
func (f *fitter[T]) measure() {
	d := f.q.Dim
	total := 0
	for _, p := range f.parts {
		if p.end > p.first {
			total += (p.span.Q1 - p.span.Q0) * f.group
		}
	}
	n := min(total, metricQueries)
	if f.spec.Chunk > 0 { // the fit is of one chunk
		n = min(total, chunkQueries)
	}
	f.x = buf.Shaped(f.x, n, d)
	row, before := 0, 0
	for _, p := range f.parts {
		if p.end == p.first {
			continue
		}
		for g := range f.group {
			q := f.q.Head(p.b, f.head*f.group+g)
			for queries := p.span.Q1 - p.span.Q0; row < n; row++ {
				i := int(uint64(2*row+1)*uint64(total)/uint64(2*n)) - before
				if i >= queries {
					break
				}
				copy(f.x.Row(row), q.Row(p.span.Q0+i))
			}
			before += p.span.Q1 - p.span.Q0
		}
	}
	f.setMetric(f.x, f.scale)
}

// setMetric sets the metric to E xxᵀ of the rows of x times scale. It rescales x. If all queries are zero, the metric
// is the identity: the geometry of the keys alone.
func (f *fitter[T]) setMetric(x dense.Matrix[T], scale float64) {
	n, d := x.Rows, x.Cols
	top := f.longest(x)
	f.queryUnit = top * math.Abs(scale)
	f.metric = buf.Shaped(f.metric, d, d)
	clear(f.metric.Data)
	f.factor = buf.Shaped(f.factor, d, d)
	clear(f.factor.Data)
	if top == 0 || !dense.IsFinite(f.queryUnit) || f.queryUnit == 0 {
		f.queryUnit = 1
		for i := range d {
			f.metric.Set(i, i, 1)
			f.factor.Set(i, i, 1)
		}
		return
	}
	f.tab.Scale(x.Data[:n*d], T(1/top))
	second := f.factor // its memory is used twice
	f.tab.TMul(second, x, x)
	for i := range d {
		for j := range d {
			f.metric.Set(i, j, float64(second.At(i, j))/float64(n))
		}
	}
	f.wide = buf.Shaped(f.wide, d, d)
	copy(f.wide.Data, f.metric.Data)
	factorise(f.factor, f.wide)
}

// factorise sets l to the Cholesky factor of a metric, which it overwrites with the same. Directions in which queries
// are zero up to rounding get zeros.
func factorise[T dense.Float](l dense.Matrix[T], metric dense.Matrix[float64]) {
	d := metric.Rows
	var trace float64
	for i := range d {
		trace += metric.At(i, i)
	}
	least := trace * 1e-7
	clear(l.Data)
	for i := range d {
		row, to := metric.Row(i), l.Row(i)
		for j := range i {
			if root := metric.At(j, j); root > 0 {
				row[j] = (row[j] - dot4(row[:j], metric.Row(j))) / root
			} else {
				row[j] = 0
			}
			to[j] = T(row[j])
		}
		if s := row[i] - dot4(row[:i], row); s > least {
			row[i] = math.Sqrt(s)
		} else {
			row[i] = 0
		}
		to[i] = T(row[i])
	}
}

// dot4 is the inner product with the first elements of y, in four sums that do not wait for each other.
func dot4(x, y []float64) float64 {
	var a, b, c, d float64
	y = y[:len(x)]
	for len(x) >= 4 && len(y) >= 4 {
		a += x[0] * y[0]
		b += x[1] * y[1]
		c += x[2] * y[2]
		d += x[3] * y[3]
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		a += v * y[i]
	}
	return a + b + (c + d)
}

// draw chooses the keys to train on: all of them with their weights, or, if there are many, a systematic sample in
// proportion to the weights. A sampled key then has a mass in proportion to the number of times it was drawn.
func (f *fitter[T]) draw() {
	n, want := len(f.keys), f.spec.sample(f.causal)
	f.sample, f.mass = f.sample[:0], f.mass[:0]
	if n <= want {
		for i, w := range f.weights {
			f.sample, f.mass = append(f.sample, int32(i)), append(f.mass, w)
		}
		return
	}
	var total float64
	for _, w := range f.weights {
		total += float64(w)
	}
	step := total / float64(want)
	next := step * uniform(f.spec.Seed, drawSample)
	var sum float64
	for i, w := range f.weights {
		sum += float64(w)
		if next < sum {
			times := math.Ceil((sum - next) / step)
			f.sample, f.mass = append(f.sample, int32(i)), append(f.mass, T(times/float64(want)))
			next += times * step
		}
	}
}

// drawEvenly chooses keys at equal distances, all of the same mass. Their number is odd, as that of metricRows is
// prime.
func (f *fitter[T]) drawEvenly() {
	n := len(f.keys)
	m := min(n, f.spec.sample(f.causal)|1)
	f.sample, f.mass = f.sample[:0], f.mass[:0]
	for i := range m {
		f.sample, f.mass = append(f.sample, int32((2*i+1)*n/(2*m))), append(f.mass, T(1/float64(m)))
	}
}

// eachSample calls body with the key and the value of every sampled key, in order.
func (f *fitter[T]) eachSample(body func(i int, y, v []T)) {
	at := 0
	for _, p := range f.parts {
		k, v := f.k.Head(p.b, f.head), f.v.Head(p.b, f.head)
		for ; at < len(f.sample) && int(f.sample[at]) < p.end; at++ {
			j := int(f.keys[f.sample[at]])
			body(at, k.Row(j), v.Row(j))
		}
	}
}

// coordinates sets z to the coordinates of the sample.
func (f *fitter[T]) coordinates() {
	d, dv := f.k.Dim, 0
	if f.spec.Values > 0 {
		dv = f.v.Dim
	}
	n := len(f.sample)
	f.gather = buf.Shaped(f.gather, n, d+dv)
	f.eachSample(func(i int, y, v []T) {
		copy(f.gather.Row(i), y)
		copy(f.gather.Row(i)[d:], v)
	})
	f.mean = buf.Sized(f.mean, d+dv)
	f.sums = buf.Zeroed(f.sums, d+dv)
	for lo := 0; lo < n; lo += fitChunk {
		hi := min(lo+fitChunk, n)
		clear(f.mean)
		f.tab.ColSum(f.mean, f.gather.RowRange(lo, hi))
		for l, m := range f.mean {
			f.sums[l] += float64(m) / float64(n)
		}
	}
	f.mean = convert(f.mean[:0], f.sums)
	for i := range n {
		f.tab.MulAdd(f.gather.Row(i), f.mean, -1)
	}
	keys := f.gather.ColRange(0, d)
	f.unit, f.valueScale = 1, 0
	if top := f.longest(keys); top > 0 && 1/top > 0 && dense.IsFinite(1/top) {
		f.unit = 1 / top
	}
	var square float64
	for i := 0; dv > 0 && i < n; i++ {
		square += f.tab.Norm2(f.gather.Row(i)[d:]) / float64(n)
	}
	if square > 0 && dense.IsFinite(square) {
		f.valueScale = f.spec.Values / math.Sqrt(square)
	}
	f.z = buf.Shaped(f.z, n, d+dv)
	f.tab.Scale(f.gather.Data, T(f.unit))
	toZ := T(f.valueScale / f.queryUnit)
	for i := 0; dv > 0 && i < n; i++ {
		copy(f.z.Row(i)[d:], f.gather.Row(i)[d:])
		f.tab.Scale(f.z.Row(i)[d:], toZ)
	}
	f.tab.Product(f.z.ColRange(0, d), keys, f.factor, false)
}

// longest returns the length of the longest row of m. If squares overflow or underflow, it returns the largest
// magnitude of a number instead.
func (f *fitter[T]) longest(m dense.Matrix[T]) float64 {
	f.sum = buf.Sized(f.sum, m.Rows)
	f.tab.Norms(f.sum, m)
	var top float64
	for _, v := range f.sum {
		top = max(top, v)
	}
	if dense.IsFinite(top) && top > 1e-200 {
		return math.Sqrt(top)
	}
	top = 0
	for i := range m.Rows {
		for _, v := range m.Row(i) {
			top = max(top, math.Abs(float64(v)))
		}
	}
	return top
}

// assigner sets a to the assignment of keys to the clusters of the fit.
func (f *fitter[T]) assigner(a *assigner[T]) {
	c := f.km.centres
	d := f.k.Dim
	a.tab, a.unit = f.tab, T(f.unit)
	a.mean = append(a.mean[:0], f.mean...)
	a.rows = buf.Shaped(a.rows, c.Rows, c.Cols)
	a.bias = buf.Sized(a.bias, c.Rows)
	f.tab.Pack(&f.panel, f.factor)
	f.tab.MulT(a.rows.ColRange(0, d), c.ColRange(0, d), &f.panel, nil)
	value := T(f.valueScale / f.queryUnit)
	for i := range c.Rows {
		row := a.rows.Row(i)
		copy(row[d:], c.Row(i)[d:])
		f.tab.Scale(row[d:], value)
		f.tab.Scale(row, 2)
		a.bias[i] = -T(f.tab.Norm2(c.Row(i)))
	}
	f.tab.Pack(&a.panel, a.rows)
}

// centres converts the centres of the fit to the space of the keys, in float64, and adds the residual directions.
func (f *fitter[T]) centres() (*Centres, error) {
	d, cols := f.k.Dim, f.z.Cols
	w := centresWire{Scale: f.scale, Keys: int64(len(f.keys))}
	for l, m := range f.mean {
		if l < d {
			w.Mean = append(w.Mean, float64(m))
		} else {
			w.ValueMean = append(w.ValueMean, float64(m))
		}
	}
	w.ValueScale = f.valueScale
	k := max(1, f.km.centres.Rows) // without keys, one cluster for keys to come
	w.Centres = dense.New[float64](k, cols)
	plain := dense.New[float64](k, d) // unweighted means
	mass, count := make([]float64, k), make([]float64, k)
	f.eachSample(func(i int, y, v []T) {
		c := f.km.assign[i]
		m := float64(f.mass[i])
		mass[c] += m
		count[c]++
		for l, x := range y {
			w.Centres.Row(int(c))[l] += m * float64(x)
			plain.Row(int(c))[l] += float64(x)
		}
		for l, x := range v[:cols-d] {
			w.Centres.Row(int(c))[d+l] += m * float64(x)
		}
	})
	seeds := make(map[int32]int, k)
	for c, j := range f.km.picked {
		seeds[j] = c
	}
	f.eachSample(func(i int, y, v []T) {
		if c, ok := seeds[int32(i)]; ok && mass[c] == 0 { // the centre has stayed at its initial point
			for l, x := range y {
				w.Centres.Row(c)[l] = float64(x)
			}
			for l, x := range v[:cols-d] {
				w.Centres.Row(c)[d+l] = float64(x)
			}
		}
	})
	for c := range k {
		for l := range w.Centres.Row(c) {
			if mass[c] > 0 {
				w.Centres.Row(c)[l] /= mass[c]
			}
		}
		for l := range plain.Row(c) {
			plain.Row(c)[l] /= max(1, count[c])
		}
	}
	f.directions(&w, plain)
	return w.finish()
}

// directions sets the metric and the residual directions of w: the eigenvectors of R·Cov·R, where Cov is the covariance
// of the keys within clusters. See [Centres.Projections].
func (f *fitter[T]) directions(w *centresWire, means dense.Matrix[float64]) {
	d := f.k.Dim
	r := min(d, max(defaultResidual, f.spec.Residual))
	w.Metric = dense.New[float64](d, d)
	w.PX, w.PY, w.Deviation = dense.New[float64](d, r), dense.New[float64](d, r), make([]float64, r)
	if d == 0 {
		return
	}
	values, vectors := eigen(f.metric)
	inverse := dense.New[float64](d, d)
	for i := range d {
		for j := range d {
			for l, v := range values {
				if v > 1e-7*values[d-1] {
					p := vectors.At(i, l) * vectors.At(j, l)
					w.Metric.Data[i*d+j] += p * math.Sqrt(v) * f.queryUnit
					inverse.Data[i*d+j] += p / (math.Sqrt(v) * f.queryUnit)
				}
			}
		}
	}
	// The covariance of residuals, in units of the largest one.
	var top float64
	f.eachSample(func(i int, y, _ []T) {
		for l, m := range means.Row(int(f.km.assign[i])) {
			top = max(top, math.Abs(float64(y[l])-m))
		}
	})
	if top == 0 {
		top = 1
	}
	cov := mat.NewSymDense(d, nil)
	residual := make([]float64, d)
	n := float64(len(f.sample))
	f.eachSample(func(i int, y, _ []T) {
		for l, m := range means.Row(int(f.km.assign[i])) {
			residual[l] = (float64(y[l]) - m) / top
		}
		cov.SymRankOne(cov, 1/n, mat.NewVecDense(d, residual))
	})
	var in mat.Dense // R·Cov·R in units of queryUnit²·top²
	metric := mat.NewDense(d, d, nil)
	for i := range d {
		for j := range d {
			metric.Set(i, j, w.Metric.At(i, j)/f.queryUnit)
		}
	}
	in.Product(metric, cov, metric)
	sym := dense.New[float64](d, d)
	for i := range d {
		for j := range d {
			sym.Set(i, j, (in.At(i, j)+in.At(j, i))/2)
		}
	}
	values, vectors = eigen(sym)
	for c := range r {
		from := d - 1 - c
		w.Deviation[c] = math.Sqrt(max(0, values[from])) * f.queryUnit * top
		for i := range d {
			for l := range d {
				w.PX.Data[i*r+c] += inverse.At(i, l) * vectors.At(l, from)
				w.PY.Data[i*r+c] += w.Metric.At(i, l) * vectors.At(l, from)
			}
		}
	}
}

// eigen returns the eigenvalues of a symmetric matrix in ascending order, and the eigenvectors as columns. The first
// element of each vector that is not zero is made positive, so that signs are the same on all machines.
func eigen(m dense.Matrix[float64]) ([]float64, dense.Matrix[float64]) {
	var e mat.EigenSym
	if !e.Factorize(mat.NewSymDense(m.Rows, m.Clone().Data), true) {
		panic("centroid: no eigenvalues of a finite symmetric matrix")
	}
	var v mat.Dense
	e.VectorsTo(&v)
	out := dense.New[float64](m.Rows, m.Rows)
	for c := range m.Rows {
		sign := 0.0
		for i := range m.Rows {
			x := v.At(i, c)
			if sign == 0 && math.Abs(x) > 1e-9 {
				sign = math.Copysign(1, x)
			}
			out.Set(i, c, x*sign)
		}
	}
	return e.Values(nil), out
}

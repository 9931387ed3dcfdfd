package attention

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// pass works through one stream, on one worker or on several.
type pass[T dense.Float] struct {
	b       *backCall[T]
	s       *stream[T]
	crew    par.Crew[backWorker[T]]
	mems    []*memory[T]
	first   int                 // segment of the wave
	now     int                 // segments of the wave
	seeds   sums[T]             // whose references are those that segments begin with
	grad    *randfeat.Grad[T]   // of the stream
	segment []*randfeat.Grad[T] // of the segments of a wave

	// The log denominators of the queries, index g·lenQ + i, and their signs; +Inf: no gradient.
	lambda []float64
	sign   []T
	dots   []T // D_i
	// With exact weights lambda is known before the queries: first their denominators den·e^lambda are summed.
	known, summing bool
	den            []float64

	// Bidirectional: sums over all keys, and over all queries.
	all      *memory[T]
	view     view[T]
	packed   kern.Panel[T]   // [S | z] by features, later dS
	total    totals          // dS and dz
	ds       dense.Matrix[T] // features × values
	dz       []T
	combined dense.Matrix[T] // [S | z]
	sweeps   [2]stream[T]    // of a window
}

// stream computes the gradients of s.
func (p *pass[T]) stream(s *stream[T]) error {
	p.s = s
	for _, w := range p.crew.Workers {
		w.use(&p.b.streams, s)
		w.grow(s, s.rows)
		w.diff = s.m.(randfeat.Differentiable[T])
	}
	if p.b.gradOf(s.h) != nil {
		if len(p.b.grads) > 1 {
			p.segment = nil // of another map
		}
		var err error
		if p.grad, err = p.newGrad(); err != nil {
			return err
		}
	}
	p.lambda, p.sign = buf.Sized(p.lambda, s.group*s.lenQ()), buf.Sized(p.sign, s.group*s.lenQ())
	p.dots = buf.Sized(p.dots, s.group*s.lenQ())
	if err := p.do((s.lenQ()+dotRows-1)/dotRows, (*outDots[T])(p)); err != nil {
		return err
	}
	p.known = false
	switch {
	case s.exact():
		return p.windowed(s)
	case s.causal:
		return p.causal(s)
	}
	return p.bidirectional(s)
}

// dot is the inner product in four sums: as many can be under way at once.
func dot[T dense.Float](x, y []T) T {
	var a, b, c, d T
	n := len(x) &^ 3
	for i := 0; i < n; i += 4 {
		x4, y4 := x[i:i+4:i+4], y[i:i+4:i+4]
		a += x4[0] * y4[0]
		b += x4[1] * y4[1]
		c += x4[2] * y4[2]
		d += x4[3] * y4[3]
	}
	for i := n; i < len(x); i++ {
		a += x[i] * y[i]
	}
	return (a + b) + (c + d)
}

func (p *pass[T]) newGrad() (*randfeat.Grad[T], error) {
	return p.s.m.(randfeat.Learnable[T]).NewGrad() // as Backward has checked
}

// do runs items of a step that only sums; gradients runs items of one that computes input gradients: every item has its
// own parameter gradient, merged in order.
func (p *pass[T]) do(n int, step par.Step[backWorker[T]]) error {
	return p.crew.Do(n, len(p.crew.Workers), step)
}

func (p *pass[T]) gradients(n int, step par.Step[backWorker[T]]) error {
	if p.grad == nil {
		return p.do(n, step)
	}
	for i := range n {
		if i < len(p.segment) {
			continue
		}
		g, err := p.newGrad()
		if err != nil {
			return err
		}
		p.segment = append(p.segment, g)
	}
	if err := p.do(n, step); err != nil {
		return err
	}
	for _, g := range p.segment[:n] {
		if err := p.grad.Merge(g); err != nil {
			return err
		}
		g.Reset()
	}
	return nil
}

// gradOf is the parameter gradient of item i, or nil.
func (p *pass[T]) gradOf(i int) *randfeat.Grad[T] {
	if p.grad == nil {
		return nil
	}
	return p.segment[i]
}

// bounds are the positions of segment i of the wave; backwards counts segments from the last.
func (p *pass[T]) bounds(i int, backwards bool) (lo, hi int) {
	at := p.first + i
	if backwards {
		at = p.s.segments() - 1 - at
	}
	return p.s.segment(at)
}

// last says that the sums after segment i of the wave are asked for.
func (p *pass[T]) last(i int) bool { return i == p.now-1 }

// queries are the rows of segment i of the wave where queries see all keys.
func (p *pass[T]) queries(i int) (lo, hi int) {
	n := segmentOf(p.s.m.OutDim(), p.s.v.Cols)
	lo = (p.first + i) * n
	return lo, min(lo+n, p.s.lenQ())
}

// The steps of a pass, by what an item is.
type (
	keySums[T dense.Float]       pass[T] // sums over the keys of a segment
	querySegments[T dense.Float] pass[T] // gradients of the queries of a causal segment
	shareSums[T dense.Float]     pass[T] // sums over the queries of a segment
	keySegments[T dense.Float]   pass[T] // gradients of the keys of a causal segment
	queryBlocks[T dense.Float]   pass[T] // gradients of a segment of queries that see all keys
	keyBlocks[T dense.Float]     pass[T] // gradients of a segment of keys that all queries see
	outDots[T dense.Float]       pass[T] // D_i of some queries
	keyChains[T dense.Float]     pass[T] // totals before the segments of a wave, of a block of features
	keyTotals[T dense.Float]     pass[T] // totals over keys, of a block of features
	shareTotals[T dense.Float]   pass[T] // totals over queries, of a block of features
)

// dotRows is the number of queries of an item of outDots.
const dotRows = 512

func (s *outDots[T]) Item(_ *backWorker[T], i int) error {
	p, st := (*pass[T])(s), s.s
	for g := range st.group {
		h := st.h*st.group + g
		dout, out := p.b.dout.Head(st.b, h).RowRange(st.q0, st.q1), st.outputs(g)
		for r := i * dotRows; r < min((i+1)*dotRows, st.lenQ()); r++ {
			p.dots[g*st.lenQ()+r] = dot(dout.Row(r), out.Row(r))
		}
	}
	return nil
}

func (s *keyChains[T]) Item(_ *backWorker[T], i int) error {
	f0, f1 := s.s.features(i)
	chain(s.b.tab, s.mems[:s.now], f0, f1)
	return nil
}

func (s *keyTotals[T]) Item(_ *backWorker[T], i int) error {
	f0, f1 := s.s.features(i)
	for _, m := range s.mems[:s.now] {
		addFeatures(s.b.tab, &s.all.total, &m.part, f0, f1)
	}
	return nil
}

func (s *shareTotals[T]) Item(_ *backWorker[T], i int) error {
	f0, f1 := s.s.features(i)
	dv := s.total.s.Cols
	for _, m := range s.mems[:s.now] {
		s.b.tab.Widen(s.total.s.Data[f0*dv:f1*dv], m.part.s.Data[f0*dv:f1*dv], 1)
		s.b.tab.Widen(s.total.z[f0:f1], m.part.z[f0:f1], 1)
	}
	return nil
}

func (s *keySums[T]) Item(w *backWorker[T], i int) error {
	p := (*pass[T])(s)
	lo, hi := p.bounds(i, false)
	p.mems[i].begin()
	return w.sumSegment(p.s, &p.mems[i].part, lo, hi)
}

func (s *querySegments[T]) Item(w *backWorker[T], i int) error {
	p := (*pass[T])(s)
	w.grad = p.gradOf(i)
	lo, hi := p.bounds(i, false)
	p.mems[i].begin()
	return w.querySegment(p, p.mems[i], lo, hi, p.last(i))
}

func (s *shareSums[T]) Item(w *backWorker[T], i int) error {
	p := (*pass[T])(s)
	lo, hi := p.bounds(i, true)
	p.mems[i].begin()
	return w.reverse(p, p.mems[i], lo, hi, false, true)
}

func (s *keySegments[T]) Item(w *backWorker[T], i int) error {
	p := (*pass[T])(s)
	w.grad = p.gradOf(i)
	lo, hi := p.bounds(i, true)
	p.mems[i].begin()
	return w.reverse(p, p.mems[i], lo, hi, true, p.last(i))
}

func (s *queryBlocks[T]) Item(w *backWorker[T], i int) error {
	p := (*pass[T])(s)
	w.grad = p.gradOf(i)
	lo, hi := p.queries(i)
	p.mems[i].begin()
	return w.queryBlock(p, &p.mems[i].part, lo, hi)
}

func (s *keyBlocks[T]) Item(w *backWorker[T], i int) error {
	p := (*pass[T])(s)
	w.grad = p.gradOf(i)
	lo, hi := p.bounds(i, false)
	return w.keyBlock(p, lo, hi)
}

// wave is how many segments are worked on before they are combined.
func (p *pass[T]) wave(n int) int {
	if len(p.crew.Workers) == 1 {
		return 1
	}
	return p.s.wave(n, len(p.crew.Workers))
}

func (p *pass[T]) need(n int) { p.mems = p.s.memories(p.mems, n) }

// causal sweeps forwards for dq, backwards for dk and dv.
func (p *pass[T]) causal(s *stream[T]) error {
	for i := range p.lambda { // of queries before the first key
		p.lambda[i], p.sign[i] = math.Inf(1), 1
	}
	if err := p.forwards(s); err != nil {
		return err
	}
	return p.backwards(s)
}

func (p *pass[T]) forwards(s *stream[T]) error {
	p.s = s
	n, w := s.segments(), p.crew.Workers[0]
	p.need(p.wave(n))
	w.empty(p, 0, min(s.lenQ(), max(0, -s.off)))
	last, err := p.sweep(n, (*keySums[T])(p), (*querySegments[T])(p), p.plantKeys)
	if err != nil {
		return err
	}
	w.grad = p.grad
	return w.beside(p, last, s.positions(), s.lenQ()+s.off)
}

func (p *pass[T]) backwards(s *stream[T]) error {
	p.s = s
	n, w := s.segments(), p.crew.Workers[0]
	p.need(p.wave(n))
	// Queries behind the last key see all keys.
	if err := w.appendBeside(p, p.mems[0], s.positions(), s.lenQ()+s.off); err != nil {
		return err
	}
	_, err := p.sweep(n, (*shareSums[T])(p), (*keySegments[T])(p), p.plantShares)
	return err
}

// sweep runs the n segments in order: the sums of a wave of segments first if several workers share it, then each from
// the totals before it. It returns the memory of the last.
func (p *pass[T]) sweep(n int, part, seg par.Step[backWorker[T]], plant func(i int) error) (last *memory[T],
	err error) {
	wave := p.wave(n)
	last = p.mems[0]
	p.seeds.clear(p.s.m.OutDim())
	for p.first = 0; p.first < n; p.first += wave {
		p.now = min(wave, n-p.first)
		for i := range p.now {
			if err := plant(i); err != nil {
				return nil, err
			}
		}
		if p.now > 1 {
			if err := p.do(p.now-1, part); err != nil {
				return nil, err
			}
			chainCounts(p.mems[:p.now])
			if err := p.do(p.s.featureBlocks(), (*keyChains[T])(p)); err != nil {
				return nil, err
			}
		}
		if err := p.gradients(p.now, seg); err != nil {
			return nil, err
		}
		if last = p.mems[p.now-1]; p.first+p.now < n {
			restart(p.b.tab, p.mems[:p.now])
		}
	}
	p.first = 0
	return last, nil
}

// plantKeys and plantShares give segment i of the wave the references it begins with. Those of shares come from the
// queries at the last position of every maxSegment, which see all keys up to there.
func (p *pass[T]) plantKeys(i int) error {
	lo, _ := p.bounds(i, false)
	return p.crew.Workers[0].plant(p.s, &p.seeds, p.mems[i], lo)
}

func (p *pass[T]) plantShares(i int) error {
	if lo, hi := p.bounds(i, true); p.first+i == 0 || lo/maxSegment != hi/maxSegment {
		if err := p.crew.Workers[0].raiseShares(p, &p.seeds, hi-1); err != nil {
			return err
		}
	}
	p.mems[i].plant(&p.seeds)
	return nil
}

// bidirectional sums all keys, then the queries, then reads with the keys. The references are those of the keys: a
// share at them is at most 1.
func (p *pass[T]) bidirectional(s *stream[T]) error {
	p.s = s
	n, f, dv := s.segments(), s.m.OutDim(), s.v.Cols
	one := segmentOf(f, dv)
	queries := (s.lenQ() + one - 1) / one
	wave := max(1, p.wave(max(n, queries)))
	p.need(wave)
	if p.all == nil {
		p.all = new(memory[T])
	}
	p.all.resize(f, dv)
	p.seeds.clear(f)
	for p.first = 0; p.first < n; p.first += wave {
		p.now = min(wave, n-p.first)
		for i := range p.now {
			if err := p.plantKeys(i); err != nil {
				return err
			}
		}
		if err := p.do(p.now, (*keySums[T])(p)); err != nil {
			return err
		}
		if err := p.do(s.featureBlocks(), (*keyTotals[T])(p)); err != nil {
			return err
		}
		for _, m := range p.mems[:p.now] {
			p.all.total.n += int64(m.part.n)
		}
	}
	w := p.crew.Workers[0]
	if p.all.seen() == 0 {
		w.empty(p, 0, s.lenQ())
		return nil
	}
	p.view = p.all.view(&w.worker, true)
	p.combined = buf.Shaped(p.combined, f, dv+1)
	for i := range f {
		copy(p.combined.Row(i), p.view.s.Row(i))
		p.combined.Row(i)[dv] = p.view.z[i]
	}
	p.b.tab.Pack(&p.packed, p.combined)

	p.total.shape(f, dv)
	p.total.reset()
	for p.first = 0; p.first < queries; p.first += wave {
		p.now = min(wave, queries-p.first)
		if err := p.gradients(p.now, (*queryBlocks[T])(p)); err != nil {
			return err
		}
		if err := p.do(s.featureBlocks(), (*shareTotals[T])(p)); err != nil {
			return err
		}
	}
	if p.first = 0; p.summing {
		return nil
	}
	p.ds, p.dz = buf.Shaped(p.ds, f, dv), buf.Sized(p.dz, f)
	p.b.tab.Narrow(p.ds.Data, p.total.s.Data, 1)
	p.b.tab.Narrow(p.dz, p.total.z, 1)
	p.b.tab.Pack(&p.packed, p.ds)
	for p.first = 0; p.first < n; p.first += wave {
		if err := p.gradients(min(wave, n-p.first), (*keyBlocks[T])(p)); err != nil {
			return err
		}
	}
	p.first = 0
	return nil
}

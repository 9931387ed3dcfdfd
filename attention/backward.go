package attention

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Backward sets dq, dk and dv to the gradients of Σ out⊙dout, where out is the result of Forward on q, k and v. With the
// shares P_if = φ1(q_i)_f / den_i and D_i = out_i·dout_i,
//
//	dφ1(q_i)_f = (S_f·dout_i − z_f D_i) / den_i,   S_f = Σ_j φ2(k_j)_f v_j,   z_f = Σ_j φ2(k_j)_f
//	dφ2(k_j)_f = dS_f·v_j + dz_f,                  dS_f = Σ_i P_if dout_i,    dz_f = −Σ_i P_if D_i
//	dv_j       = Σ_f φ2(k_j)_f dS_f
//
// over the keys j that i sees and the queries i that see j. With Causal S and z are the sums before a chunk, swept
// forwards, dS and dz those behind it, swept backwards; the chunk itself is a triangle of scores. Features are computed
// again per chunk: besides its arguments and three numbers per query the memory does not depend on L.
//
// The references of dS are attained shares, so a feature of a key is at most 1 there, as one of a query is forwards:
// nothing overflows with positive maps (docs/theory.md §6). Rows that Forward counts as Empty or Zero have no gradient.
//
// grads, nil or one per map, receive the gradients by the parameters of the families (randfeat.Grad); nil entries are
// skipped. With a Window they are refused (errors.ErrUnsupported). The bits of all results are the same at any GOMAXPROCS.
func (a *Linear[T]) Backward(dq, dk, dv, dout, out, q, k, v Seq[T], grads []*randfeat.Grad[T]) (Report, error) {
	if err := a.check(out, q, k, v); err != nil {
		return Report{}, err
	}
	if err := checkGradients(dq, dk, dv, dout, out, q, k, v); err != nil {
		return Report{}, err
	}
	if grads != nil && len(grads) != len(a.Maps) {
		return Report{}, fmt.Errorf("%d parameter gradients for %d maps: %w", len(grads), len(a.Maps), dense.ErrShape)
	}
	for i, m := range a.Maps {
		if _, ok := m.(randfeat.Differentiable[T]); !ok {
			return Report{}, fmt.Errorf("map %d, a %T, has no derivatives (randfeat.Differentiable): %w", i, m, errors.ErrUnsupported)
		}
		if grads == nil || grads[i] == nil {
			continue
		}
		if a.Window > 0 {
			return Report{}, fmt.Errorf("parameter gradients with a window: %w", errors.ErrUnsupported)
		}
		if _, ok := m.(randfeat.Learnable[T]); !ok {
			return Report{}, fmt.Errorf("map %d, a %T: %w", i, m, randfeat.ErrNoParameters)
		}
	}
	b := backCalls[T]().Get().(*backCall[T])
	b.backArgs = backArgs[T]{dq: dq, dk: dk, dv: dv, dout: dout, out: out, grads: grads}
	defer b.put()
	return b.run(a, q, k, v)
}

// The memory of calls that are over, by precision.
var (
	backCalls32 = sync.Pool{New: func() any { return new(backCall[float32]) }}
	backCalls64 = sync.Pool{New: func() any { return new(backCall[float64]) }}
)

func backCalls[T dense.Float]() *sync.Pool {
	if _, ok := any(T(0)).(float32); ok {
		return &backCalls32
	}
	return &backCalls64
}

// put forgets the data of the caller.
func (b *backCall[T]) put() {
	b.backArgs = backArgs[T]{}
	clear(b.streams[:cap(b.streams)])
	for _, p := range b.passes {
		p.s, p.grad, p.view, p.segment, p.sweeps = nil, nil, view[T]{}, nil, [2]stream[T]{}
	}
	for _, w := range b.all {
		w.report, w.err, w.bad, w.grad, w.m, w.diff = Report{}, nil, false, nil, nil, nil
	}
	backCalls[T]().Put(b)
}

// backCall is one Linear.Backward.
type backCall[T dense.Float] struct {
	call[T]
	backArgs[T]
	all    []*backWorker[T]
	passes []*pass[T]
	// direct: every row of dq, dk and dv is written once. Otherwise all are cleared first and added to.
	direct      bool
	keyStart    []int               // of every stream, the position of its first key
	streamGrads []*randfeat.Grad[T] // of the streams in work
	from        int                 // first of them
}

// backRows is the most rows handled together: a backward pass has twice the scratch memory of Forward.
const backRows = 128

// backArgs are the arguments of a backCall.
type backArgs[T dense.Float] struct {
	dq, dk, dv, dout, out Seq[T]
	grads                 []*randfeat.Grad[T] // per map
}

func (b *backCall[T]) run(a *Linear[T], q, k, v Seq[T]) (Report, error) {
	if err := b.start(a, b.out, q, k, v); err != nil {
		return Report{}, err
	}
	if a.Chunk == 0 {
		for i := range b.streams {
			b.streams[i].rows = min(b.streams[i].rows, backRows)
		}
	}
	b.direct = a.Window == 0 && a.KeyMask == nil && a.Segments == nil
	if !b.direct || len(b.streams) == 0 || v.Dim == 0 {
		for _, s := range []Seq[T]{b.dq, b.dk, b.dv} {
			clearSeq(s)
		}
	}
	b.keyStart = b.keyStart[:0]
	for i := range q.Batch {
		b.spans = a.spans(b.spans[:0], i, q.Len, k.Len)
		for range k.Heads {
			for _, sp := range b.spans {
				b.keyStart = append(b.keyStart, sp.k0)
			}
		}
	}
	if len(b.streams) == 0 || v.Dim == 0 {
		return Report{}, nil
	}
	work := 0
	for i := range b.streams {
		s := &b.streams[i]
		work += 3 * (s.k.Rows + s.group*s.lenQ()) * s.m.OutDim() * (s.k.Cols + s.v.Cols)
	}
	workers := max(1, min(runtime.GOMAXPROCS(0), work/b.tab.Grain))
	for len(b.all) < workers {
		b.all = append(b.all, new(backWorker[T]))
		b.passes = append(b.passes, new(pass[T]))
	}
	// Streams one by one on all workers, or side by side on one each.
	passes := b.passes[:min(workers, len(b.streams))]
	if len(b.streams) < workers && a.Window == 0 {
		passes = passes[:1]
		passes[0].workers = b.all[:workers]
	} else {
		for i, p := range passes {
			p.workers = b.all[i : i+1]
		}
	}
	for _, p := range passes {
		p.b = b
	}
	n := len(passes)
	if b.streamGrads = make([]*randfeat.Grad[T], n); b.grads == nil {
		n = len(b.streams)
	}
	for b.from = 0; b.from < len(b.streams); b.from += n {
		now := min(n, len(b.streams)-b.from)
		b.group.Do(now, len(passes), b)
		for i, g := range b.streamGrads {
			if g != nil {
				if err := b.gradOf(b.streams[b.from+i].h).Merge(g); err != nil {
					return Report{}, err
				}
				b.streamGrads[i] = nil
			}
		}
	}
	return b.collect(b.all[:workers], q, k, v)
}

// Run handles some of the streams at from.
func (b *backCall[T]) Run(worker, lo, hi int) {
	p := b.passes[worker]
	for i := lo; i < hi && !p.failed(); i++ {
		p.keyStart = b.keyStart[b.from+i]
		p.stream(&b.streams[b.from+i])
		if p.grad != nil {
			b.streamGrads[i] = p.grad
			p.grad = nil
		}
	}
}

// gradOf is the parameter gradient of a key/value head, or nil.
func (b *backCall[T]) gradOf(h int) *randfeat.Grad[T] {
	switch len(b.grads) {
	case 0:
		return nil
	case 1:
		return b.grads[0]
	}
	return b.grads[h]
}

// collect gathers reports and errors; what is not finite is named.
func (b *backCall[T]) collect(all []*backWorker[T], q, k, v Seq[T]) (Report, error) {
	var total Report
	var failed error
	bad := false
	for _, w := range all {
		total.Add(w.report)
		if failed == nil {
			failed = w.err
		}
		bad = bad || w.bad
	}
	if failed != nil || bad && b.checks {
		for _, s := range []struct {
			name string
			seq  Seq[T]
		}{{"q", q}, {"k", k}, {"v", v}, {"out", b.out}, {"dout", b.dout}} {
			if err := s.seq.CheckFinite(s.name); err != nil {
				return total, err
			}
		}
	}
	if failed != nil {
		return total, fmt.Errorf("features: %w", failed)
	}
	return total, nil
}

func clearSeq[T dense.Float](s Seq[T]) {
	for b := range s.Batch {
		for h := range s.Heads {
			m := s.Head(b, h)
			for i := range m.Rows {
				clear(m.Row(i))
			}
		}
	}
}

// pass works through one stream, on one worker or on several.
type pass[T dense.Float] struct {
	b       *backCall[T]
	s       *stream[T]
	workers []*backWorker[T]
	group   par.Group
	mems    []*memory[T]
	phase   backPhase
	first   int // first segment of the wave
	// keyStart is the position of the first key of the stream.
	keyStart int
	grad     *randfeat.Grad[T]   // of the stream
	segment  []*randfeat.Grad[T] // of the segments of a wave

	// The log denominators of the queries, index g·lenQ + i, and their signs; +Inf: no gradient.
	lambda []float64
	sign   []T
	dots   []T // D_i
	// With a window lambda is known before the queries: first their denominators den·e^lambda are summed.
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

// backPhase says what Run does with an index.
type backPhase int

const (
	phaseKeySums      backPhase = iota // sums over the keys of a segment
	phaseQuerySegment                  // gradients of the queries of a causal segment
	phaseShareSums                     // sums over the queries of a segment
	phaseKeySegment                    // gradients of the keys of a causal segment
	phaseQueryBlock                    // gradients of queries that see all keys
	phaseKeyBlock                      // gradients of keys that all queries see
)

func (p *pass[T]) failed() bool {
	for _, w := range p.workers {
		if w.err != nil {
			return true
		}
	}
	return false
}

// stream computes the gradients of s.
func (p *pass[T]) stream(s *stream[T]) {
	p.s = s
	rows := s.rows
	for _, w := range p.workers {
		w.use(s.m, p.b.tab, rows, p.b.checks || !s.m.Positive())
		w.grow(s, rows)
		w.diff = s.m.(randfeat.Differentiable[T])
	}
	if p.b.gradOf(s.h) != nil {
		p.grad = p.newGrad()
	}
	p.lambda, p.sign = buf.Sized(p.lambda, s.group*s.lenQ()), buf.Sized(p.sign, s.group*s.lenQ())
	p.dots = buf.Sized(p.dots, s.group*s.lenQ())
	for g := range s.group {
		h := s.h*s.group + g
		dout, out := p.b.dout.Head(s.b, h).RowRange(s.q0, s.q1), s.outputs(g)
		for i := range s.lenQ() {
			p.dots[g*s.lenQ()+i] = dot(dout.Row(i), out.Row(i))
		}
	}
	p.known = false
	switch {
	case s.window > 0:
		p.windowed(s)
	case s.causal:
		p.causal(s)
	default:
		p.bidirectional(s)
	}
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

func (p *pass[T]) newGrad() *randfeat.Grad[T] {
	g, err := p.s.m.(randfeat.Learnable[T]).NewGrad() // as Backward has checked
	if err != nil {
		p.workers[0].err = err
	}
	return g
}

// do runs items of a phase; every item has its own parameter gradient, merged in order.
func (p *pass[T]) do(n int, phase backPhase) {
	p.phase = phase
	if p.grad != nil {
		for len(p.segment) < n {
			p.segment = append(p.segment, nil)
		}
		for i := range n {
			if p.segment[i] == nil {
				p.segment[i] = p.newGrad()
			}
		}
	}
	p.group.Do(n, min(n, len(p.workers)), p)
	if p.grad == nil || phase == phaseKeySums || phase == phaseShareSums {
		return
	}
	for _, g := range p.segment[:n] {
		if err := p.grad.Merge(g); err != nil {
			p.workers[0].err = err
		}
		g.Reset()
	}
}

// Run is one part of the phase.
func (p *pass[T]) Run(worker, lo, hi int) {
	w := p.workers[worker]
	for i := lo; i < hi && w.err == nil; i++ {
		w.err = p.item(w, i)
	}
}

func (p *pass[T]) item(w *backWorker[T], i int) error {
	s := p.s
	w.grad = nil
	if p.grad != nil {
		w.grad = p.segment[i]
	}
	at := p.first + i
	if p.phase == phaseShareSums || p.phase == phaseKeySegment {
		at = s.segments() - 1 - at
	}
	lo, hi := at*segment, min((at+1)*segment, s.positions())
	switch p.phase {
	case phaseKeySums:
		return w.sumSegment(s, &p.mems[i].part, lo, hi)
	case phaseQuerySegment:
		return w.querySegment(p, p.mems[i], lo, hi)
	case phaseShareSums:
		return w.reverse(p, p.mems[i], lo, hi, false)
	case phaseKeySegment:
		return w.reverse(p, p.mems[i], lo, hi, true)
	case phaseQueryBlock:
		return w.queryBlock(p, &p.mems[i].part, at*segment, min((at+1)*segment, s.lenQ()))
	case phaseKeyBlock:
		return w.keyBlock(p, lo, hi)
	}
	return nil
}

// wave is how many segments are worked on before they are combined.
func (p *pass[T]) wave(n int) int {
	if len(p.workers) == 1 {
		return 1
	}
	const bytes = 16 << 20
	one := p.s.m.OutDim() * (p.s.v.Cols + 2) * (2*int(unsafe.Sizeof(T(0))) + 8)
	return min(n, max(2*len(p.workers), min(4*len(p.workers), bytes/one)))
}

func (p *pass[T]) need(n, dv int) {
	for len(p.mems) < n {
		p.mems = append(p.mems, new(memory[T]))
	}
	for _, m := range p.mems[:n] {
		m.resize(p.s.m.OutDim(), dv)
	}
}

// causal sweeps forwards for dq, backwards for dk and dv.
func (p *pass[T]) causal(s *stream[T]) {
	for i := range p.lambda { // of queries before the first key
		p.lambda[i], p.sign[i] = math.Inf(1), 1
	}
	p.forwards(s)
	if !p.failed() {
		p.backwards(s)
	}
}

func (p *pass[T]) forwards(s *stream[T]) {
	p.s = s
	n, w := s.segments(), p.workers[0]
	p.need(max(1, p.wave(n)), s.v.Cols)
	w.empty(p, 0, min(s.lenQ(), max(0, -s.off)))
	last := p.sweep(n, phaseKeySums, phaseQuerySegment)
	if !p.failed() {
		w.grad = p.grad
		w.err = w.beside(p, last, s.positions(), s.lenQ()+s.off)
	}
}

func (p *pass[T]) backwards(s *stream[T]) {
	p.s = s
	n, w := s.segments(), p.workers[0]
	p.need(max(1, p.wave(n)), s.v.Cols)
	// Queries behind the last key see all keys.
	if w.err = w.appendBeside(p, p.mems[0], s.positions(), s.lenQ()+s.off); w.err == nil {
		p.sweep(n, phaseShareSums, phaseKeySegment)
	}
}

// sweep runs the n segments in order: the sums of a wave of segments first if several workers share it, then each from
// the totals before it. It returns the memory of the last.
func (p *pass[T]) sweep(n int, part, seg backPhase) *memory[T] {
	wave := p.wave(n)
	last := p.mems[0]
	for p.first = 0; p.first < n && !p.failed(); p.first += wave {
		now := min(wave, n-p.first)
		if now > 1 {
			p.do(now-1, part)
			for i, m := range p.mems[:now-1] {
				next := &p.mems[i+1].total
				next.copyFrom(&m.total)
				addSums(next, &m.part)
				m.part.reset()
				p.mems[i+1].ready = false
			}
		}
		p.do(now, seg)
		last = p.mems[now-1]
		if p.first+now < n {
			last.flush()
			if now > 1 {
				p.mems[0].total.copyFrom(&last.total)
				for _, m := range p.mems[:now] {
					m.part.reset()
					m.ready = false
				}
			}
		}
	}
	p.first = 0
	return last
}

// bidirectional sums all keys, then the queries, then reads with the keys. The references are those of the keys: a share
// at them is at most 1.
func (p *pass[T]) bidirectional(s *stream[T]) {
	n, f, dv := s.segments(), s.m.OutDim(), s.v.Cols
	wave := max(1, p.wave(max(n, (s.lenQ()+segment-1)/segment)))
	p.need(wave, dv)
	if p.all == nil {
		p.all = new(memory[T])
	}
	p.all.resize(f, dv)
	for p.first = 0; p.first < n; p.first += wave {
		now := min(wave, n-p.first)
		p.do(now, phaseKeySums)
		if p.failed() {
			return
		}
		for _, m := range p.mems[:now] {
			addSums(&p.all.total, &m.part)
			m.part.reset()
		}
	}
	w := p.workers[0]
	if p.all.seen() == 0 {
		w.empty(p, 0, s.lenQ())
		return
	}
	p.view = p.all.view(&w.worker, true)
	p.combined = buf.Shaped(p.combined, f, dv+1)
	for i := range f {
		copy(p.combined.Row(i), p.view.s.Row(i))
		p.combined.Row(i)[dv] = p.view.z[i]
	}
	p.b.tab.Pack(&p.packed, p.combined)

	p.need(wave, dv)
	p.total.resize(f, dv)
	n = (s.lenQ() + segment - 1) / segment
	for p.first = 0; p.first < n; p.first += wave {
		now := min(wave, n-p.first)
		p.do(now, phaseQueryBlock)
		if p.failed() {
			return
		}
		for _, m := range p.mems[:now] {
			for i, v := range m.part.s.Data {
				p.total.s.Data[i] += float64(v)
			}
			for i, v := range m.part.z {
				p.total.z[i] += float64(v)
			}
			m.part.reset()
		}
	}
	p.ds, p.dz = buf.Shaped(p.ds, f, dv), buf.Sized(p.dz, f)
	for i, v := range p.total.s.Data {
		p.ds.Data[i] = T(v)
	}
	for i, v := range p.total.z {
		p.dz[i] = T(v)
	}
	p.b.tab.Pack(&p.packed, p.ds)
	n = s.segments()
	for p.first = 0; p.first < n; p.first += wave {
		p.do(min(wave, n-p.first), phaseKeyBlock)
	}
	p.first = 0
}

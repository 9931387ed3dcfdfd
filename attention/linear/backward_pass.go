package linear

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// pass holds the intermediate results of the gradients of one stream, shared by the two sweeps over it.
type pass[T dense.Float] struct {
	b *backCall[T]
	s *stream[T]

	grad   *randfeat.Grad[T] // parameter gradient of the stream, or nil
	merged atomic.Int64      // items of the current sweep whose parts of grad have been added

	// lambda holds the log denominators of the queries, index g·lenQ + i, and sign their signs; +Inf means no gradient.
	// dots holds D_i.
	lambda []float64
	sign   []T
	dots   []T
	// With exact weights there are two rounds. In the first, summing is set: denominators den·e^lambda of features and
	// exact weights are summed. In the second, known is set, and lambda is their logarithm.
	known, summing bool
	den            []float64

	// The query sweep of a causal stream keeps these for the key sweep: 1/den, and features at the references at the
	// start of their segment (for the queries of a chunk, one head after the other). A segment is spoilt if its
	// references rose, or if it has features that no key has had; its features are then computed again.
	phiQ, phiK dense.Matrix[T] // empty if nothing is kept
	inv        []T
	taus       dense.Matrix[T] // references, one row per segment
	bases      []float64
	spoilt     []atomic.Bool

	// For streams whose queries see all keys: the sums over keys, then the sums over queries.
	none     bool         // no key counts
	ref      reference[T] // references of the keys
	view     view[T]
	packed   kern.Panel[T]   // [S | z] by features
	dsPacked kern.Panel[T]   // dS
	ds       dense.Matrix[T] // features × values
	dz       []T
	combined dense.Matrix[T] // [S | z]
	sweeps   [2]stream[T]    // of a window: the keys before and behind it
}

// begin prepares p for the gradients of s, with room for kept features if s has a place.
func (p *pass[T]) begin(b *backCall[T], s *stream[T]) (err error) {
	p.b, p.s, p.known, p.summing = b, s, false, false
	if b.gradOf(s.h) != nil {
		if p.grad, err = s.m.(randfeat.Learnable[T]).NewGrad(); err != nil { // as Backward has checked
			return err
		}
	}
	n := s.group * s.lenQ()
	p.lambda, p.sign, p.dots = buf.Sized(p.lambda, n), buf.Sized(p.sign, n), buf.Sized(p.dots, n)
	p.phiQ, p.phiK = dense.Matrix[T]{}, dense.Matrix[T]{}
	if s.place == 0 {
		return nil
	}
	f, at := s.m.OutDim(), s.place-1
	room := func(rows int) dense.Matrix[T] {
		m := dense.Matrix[T]{Rows: rows, Cols: f, Stride: f, Data: b.store[at : at+rows*f : at+rows*f]}
		at += rows * f
		return m
	}
	p.phiQ, p.phiK = room(n), room(s.positions())
	p.inv, p.taus = buf.Sized(p.inv, n), buf.Shaped(p.taus, s.segments(), f)
	p.bases, p.spoilt = buf.Sized(p.bases, s.segments()), buf.Sized(p.spoilt, s.segments())
	return nil
}

// note records the references that a segment begins with, and whether its features can be kept at all.
func (p *pass[T]) note(segment int, ref *reference[T]) {
	if p.phiK.IsEmpty() {
		return
	}
	p.spoilt[segment].Store(!ref.set || math.IsInf(float64(slices.Min(ref.tau)), -1))
	p.bases[segment] = ref.base
	copy(p.taus.Row(segment), ref.tau)
}

// kept reports whether the features of a segment were kept by the query sweep.
func (p *pass[T]) kept(segment int) bool { return !p.phiK.IsEmpty() && !p.spoilt[segment].Load() }

// recall sets ref to the references of the kept shares of a segment: those of the keys, negated.
func (p *pass[T]) recall(segment int, ref *reference[T]) {
	ref.tau = buf.Sized(ref.tau, p.taus.Cols)
	for f, t := range p.taus.Row(segment) {
		ref.tau[f] = -t
	}
	ref.base, ref.set = -p.bases[segment], true
}

// dot is the inner product with four partial sums, so that four additions can be in progress at once.
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

// gang works through streams with its workers: one stream with one worker, or several streams with all workers.
type gang[T dense.Float] struct {
	b      *backCall[T]
	crew   par.Crew[backWorker[T]]
	relay  relay[T, backWorker[T]]
	passes []*pass[T]
	n      int          // passes in use
	list   []*stream[T] // streams of the current sweep
	items  deal         // blocks of queries with exact weights
	mem    memory[T]    // for a gang of one worker
	seeds  sums[T]
}

// run computes the gradients of the streams in all.
func (g *gang[T]) run(b *backCall[T], all []stream[T]) error {
	g.b, g.n = b, len(all)
	for i := range all {
		if i == len(g.passes) {
			g.passes = append(g.passes, new(pass[T]))
		}
		if err := g.passes[i].begin(b, &all[i]); err != nil {
			return err
		}
	}
	if b.exact {
		return g.windowed(all)
	}
	return g.sweepAll(true)
}

// sweepAll runs the two sweeps of all passes. Causal streams: the query sweep, then, if keys is set, the key sweep.
// Otherwise all keys are summed, then the queries are read and summed, then the keys are read; references are those of
// the keys, relative to which a share is at most 1.
func (g *gang[T]) sweepAll(keys bool) error {
	first, second := relayJob[T, backWorker[T]]((*keysOfAll[T])(g)), relayJob[T, backWorker[T]]((*queriesOfAll[T])(g))
	if g.passes[0].s.causal {
		first, second = (*querySweep[T])(g), (*keySweep[T])(g)
		if !keys {
			return g.sweep(first)
		}
	}
	if err := g.sweep(first); err != nil {
		return err
	}
	return g.sweep(second)
}

// sweep runs a job over the streams of all passes, by the relay if there are several workers.
func (g *gang[T]) sweep(job relayJob[T, backWorker[T]]) error {
	g.list = g.list[:0]
	for _, p := range g.passes[:g.n] {
		g.list = append(g.list, p.s)
		p.merged.Store(0)
	}
	if workers := len(g.crew.Workers); workers > 1 {
		return g.relay.run(&g.crew, workers, g.b.tab, g.list, job)
	}
	for k, s := range g.list {
		if err := alone(g.crew.Workers[0], g.b.tab, s, k, job, &g.mem, &g.seeds); err != nil {
			return err
		}
	}
	return nil
}

// use prepares worker w for stream s of pass k.
func (g *gang[T]) use(w *backWorker[T], s *stream[T], k int) *pass[T] {
	p := g.passes[k]
	w.use(&p.b.streams, s)
	w.grow(s, s.rows)
	w.diff = s.m.(randfeat.Differentiable[T])
	w.lent, w.stored = dense.Matrix[T]{}, false
	return p
}

// gradients runs item i of a sweep with w.grad set, and then adds its parameter gradient to that of the pass. Items add
// in the order of i, waiting for each other, because the order determines the bits. i counts from 0 over the items of
// the sweep that call gradients for this pass.
func (g *gang[T]) gradients(w *backWorker[T], p *pass[T], i int, run func() error) error {
	if p.grad == nil {
		w.grad = nil
		return run()
	}
	if of := p.b.gradOf(p.s.h); w.own == nil || w.ownOf != of {
		var err error
		if w.own, err = p.s.m.(randfeat.Learnable[T]).NewGrad(); err != nil {
			return err
		}
		w.ownOf = of
	}
	w.grad = w.own
	err := run()
	for looks := 0; err == nil && p.merged.Load() < int64(i); looks++ {
		if pause(looks); g.relay.stop.Load() > 0 {
			err = errStopped
		}
	}
	if err == nil {
		err = p.grad.Merge(w.own)
		p.merged.Add(1)
	}
	w.own.Reset()
	return err
}

// querySweep is the first sweep over causal streams, forwards: sums over keys, gradients of queries.
type querySweep[T dense.Float] gang[T]

func (g *querySweep[T]) segments(s *stream[T], _ int) int { return s.segments() }

func (g *querySweep[T]) plant(w *backWorker[T], s *stream[T], k, segment int, mem *memory[T], seeds *sums[T]) error {
	return (*gang[T])(g).plantKeys(w, s, k, segment, mem, seeds)
}

// plantKeys is plant of the sweeps that sum keys; it also records the references for the key sweep.
func (g *gang[T]) plantKeys(w *backWorker[T], s *stream[T], k, segment int, mem *memory[T], seeds *sums[T]) error {
	p := g.use(w, s, k)
	lo, _ := s.segment(segment)
	err := w.plant(s, seeds, mem, lo)
	p.note(segment, &mem.seed)
	return err
}

func (g *querySweep[T]) sum(w *backWorker[T], s *stream[T], k, segment int, mem *memory[T], keep keeping) error {
	return (*gang[T])(g).sumKeys(w, s, k, segment, mem, keep)
}

// sumKeys is sum of the sweeps that sum keys.
func (g *gang[T]) sumKeys(w *backWorker[T], s *stream[T], k, segment int, mem *memory[T], keep keeping) error {
	p := g.use(w, s, k)
	w.lent = p.phiK
	before := w.report.Raised
	lo, hi := s.segment(segment)
	mem.begin()
	err := w.sumSegment(s, mem, lo, hi, keep)
	if s.causal {
		w.report.Raised = before // read raises the same references again and counts them
	}
	return err
}

func (g *querySweep[T]) ordered(k int) bool { return g.passes[k].grad != nil }

func (g *querySweep[T]) read(w *backWorker[T], s *stream[T], k, segment int, mem *memory[T], keep bool) error {
	p := (*gang[T])(g).use(w, s, k)
	w.lent = p.phiK
	return (*gang[T])(g).gradients(w, p, segment, func() error {
		mem.begin()
		if segment == 0 {
			w.empty(p, 0, min(s.lenQ(), max(0, -s.off)))
		}
		last := segment >= s.segments()-1
		lo, hi := s.segment(segment)
		if err := w.querySegment(p, mem, lo, hi, keep || last); err != nil || !last {
			return err
		}
		return w.beside(p, mem, s.positions(), s.lenQ()+s.off)
	})
}

func (g *querySweep[T]) readPart(w *backWorker[T], s *stream[T], k, segment, chunk int, mem *memory[T]) error {
	if !s.divided(segment, mem) {
		if chunk > 0 {
			return nil
		}
		return g.read(w, s, k, segment, mem, false)
	}
	lo, hi := s.chunk(segment, chunk)
	if lo >= hi {
		return nil
	}
	p := (*gang[T])(g).use(w, s, k)
	w.grad, w.lent = nil, p.phiK
	w.step.at(mem, chunk)
	if lo == 0 {
		w.empty(p, 0, min(s.lenQ(), max(0, -s.off)))
	}
	return w.querySegment(p, &w.step, lo, hi, false)
}

func (g *querySweep[T]) begin(*stream[T], int)                                           {}
func (g *querySweep[T]) view(*backWorker[T], *stream[T], int, *view[T], int64, int, int) {}
func (g *querySweep[T]) blocks(*stream[T], int) int                                      { return 0 }
func (g *querySweep[T]) block(*backWorker[T], *stream[T], int, int, *view[T], int64) error {
	return nil
}

// keySweep is the second sweep over causal streams, backwards: sums over the shares of queries, gradients of keys.
type keySweep[T dense.Float] gang[T]

func (g *keySweep[T]) segments(s *stream[T], _ int) int { return s.segments() }

// segment is the range of the segment at place at of the sweep, counted from the last.
func (g *keySweep[T]) segment(s *stream[T], at int) (lo, hi int) {
	return s.segment(s.segments() - 1 - at)
}

// use prepares a worker for the segment at place at of the sweep.
func (g *keySweep[T]) use(w *backWorker[T], s *stream[T], k, at int) *pass[T] {
	p := (*gang[T])(g).use(w, s, k)
	w.stored = p.kept(s.segments() - 1 - at)
	return p
}

// plant sets the references of shares. If features were kept, they are the references of the keys. Otherwise they come
// from the queries at the last position of every maxSegment, which see all keys up to there. Queries behind the last
// key see all keys: their shares are the totals with which the sweep begins.
func (g *keySweep[T]) plant(w *backWorker[T], s *stream[T], k, at int, mem *memory[T], seeds *sums[T]) error {
	p := (*gang[T])(g).use(w, s, k)
	if p0, p1 := s.positions(), s.lenQ()+s.off; at == 0 && p0 < p1 {
		mem.reset()
		if err := w.appendBeside(p, mem, p0, p1); err != nil {
			return err
		}
	}
	if lo, hi := g.segment(s, at); at == 0 || lo/maxSegment != hi/maxSegment {
		if err := w.raiseShares(p, seeds, hi-1); err != nil {
			return err
		}
	}
	mem.plant(seeds)
	if segment := s.segments() - 1 - at; p.kept(segment) {
		p.recall(segment, &mem.seed)
	}
	return nil
}

func (g *keySweep[T]) sum(w *backWorker[T], s *stream[T], k, at int, mem *memory[T], keep keeping) error {
	p := g.use(w, s, k, at)
	lo, hi := g.segment(s, at)
	mem.begin()
	return w.sumShares(p, mem, lo, hi, keep)
}

func (g *keySweep[T]) ordered(k int) bool { return g.passes[k].grad != nil }

func (g *keySweep[T]) read(w *backWorker[T], s *stream[T], k, at int, mem *memory[T], keep bool) error {
	if s.segments() == 0 {
		return nil
	}
	p := g.use(w, s, k, at)
	return (*gang[T])(g).gradients(w, p, at, func() error {
		lo, hi := g.segment(s, at)
		mem.begin()
		return w.reverse(p, mem, lo, hi, true, keep)
	})
}

func (g *keySweep[T]) readPart(w *backWorker[T], s *stream[T], k, at, chunk int, mem *memory[T]) error {
	if !mem.kept {
		if chunk > 0 {
			return nil
		}
		return g.read(w, s, k, at, mem, false)
	}
	segment := s.segments() - 1 - at
	lo, hi := s.chunk(segment, chunk)
	if lo >= hi {
		return nil
	}
	p := g.use(w, s, k, at)
	w.grad = nil
	w.step.at(mem, chunk)
	w.step.skip = chunk * s.rows
	return w.reverse(p, &w.step, lo, hi, true, false)
}

func (g *keySweep[T]) begin(*stream[T], int)                                           {}
func (g *keySweep[T]) view(*backWorker[T], *stream[T], int, *view[T], int64, int, int) {}
func (g *keySweep[T]) blocks(*stream[T], int) int                                      { return 0 }
func (g *keySweep[T]) block(*backWorker[T], *stream[T], int, int, *view[T], int64) error {
	return nil
}

// keysOfAll is the first sweep over streams whose queries see all keys: it sums the keys.
type keysOfAll[T dense.Float] gang[T]

func (g *keysOfAll[T]) segments(s *stream[T], _ int) int { return s.segments() }

func (g *keysOfAll[T]) plant(w *backWorker[T], s *stream[T], k, segment int, mem *memory[T], seeds *sums[T]) error {
	return (*gang[T])(g).plantKeys(w, s, k, segment, mem, seeds)
}

func (g *keysOfAll[T]) sum(w *backWorker[T], s *stream[T], k, segment int, mem *memory[T], keep keeping) error {
	return (*gang[T])(g).sumKeys(w, s, k, segment, mem, keep)
}

func (g *keysOfAll[T]) begin(s *stream[T], k int) {
	p, f, dv := g.passes[k], s.m.OutDim(), s.v.Cols
	p.ref.tau, p.view.z = buf.Sized(p.ref.tau, f), buf.Sized(p.view.z, f)
	p.view.ref = &p.ref
	p.combined = buf.Shaped(p.combined, f, dv+1)
	g.b.tab.Room(&p.packed, f, dv+1)
}

// view stores the sums [S | z] in the layout that queryBlock needs.
func (g *keysOfAll[T]) view(w *backWorker[T], s *stream[T], k int, v *view[T], seen int64, f0, f1 int) {
	p := g.passes[k]
	if f0 == 0 {
		p.ref.base, p.ref.set = v.ref.base, v.ref.set
		if p.none = seen == 0; p.none {
			(*gang[T])(g).use(w, s, k)
			w.empty(p, 0, s.lenQ())
		}
	}
	copy(p.ref.tau[f0:f1], v.ref.tau[f0:f1])
	copy(p.view.z[f0:f1], v.z[f0:f1])
	for i := f0; i < f1; i++ {
		copy(p.combined.Row(i), v.s.Row(i))
		p.combined.Row(i)[s.v.Cols] = v.z[i]
	}
	g.b.tab.PackRows(&p.packed, p.combined, f0, f1)
}

func (g *keysOfAll[T]) ordered(k int) bool { return g.passes[k].grad != nil }

func (g *keysOfAll[T]) read(*backWorker[T], *stream[T], int, int, *memory[T], bool) error { return nil }
func (g *keysOfAll[T]) readPart(*backWorker[T], *stream[T], int, int, int, *memory[T]) error {
	return nil
}
func (g *keysOfAll[T]) blocks(*stream[T], int) int                                        { return 0 }
func (g *keysOfAll[T]) block(*backWorker[T], *stream[T], int, int, *view[T], int64) error { return nil }

// queriesOfAll is the second sweep over streams whose queries see all keys. Its segments are queries: sum computes
// their gradients and sums their shares; its blocks are keys, whose gradients read these sums.
type queriesOfAll[T dense.Float] gang[T]

func (g *queriesOfAll[T]) segments(s *stream[T], k int) int {
	if g.passes[k].none {
		return 0
	}
	return s.cut().pieces(s.lenQ())
}

// plant sets references of 0: shares are relative to the references of the keys throughout.
func (g *queriesOfAll[T]) plant(_ *backWorker[T], s *stream[T], _, _ int, mem *memory[T], _ *sums[T]) error {
	mem.seed.tau = buf.Zeroed(mem.seed.tau, s.m.OutDim())
	mem.seed.base, mem.seed.set = 0, true
	return nil
}

func (g *queriesOfAll[T]) sum(w *backWorker[T], s *stream[T], k, segment int, mem *memory[T], _ keeping) error {
	p := (*gang[T])(g).use(w, s, k)
	return (*gang[T])(g).gradients(w, p, segment, func() error {
		lo, hi := s.cut().piece(s.lenQ(), segment)
		mem.begin()
		return w.queryBlock(p, &mem.part, lo, hi)
	})
}

func (g *queriesOfAll[T]) begin(s *stream[T], k int) {
	p, f, dv := g.passes[k], s.m.OutDim(), s.v.Cols
	p.ds, p.dz = buf.Shaped(p.ds, f, dv), buf.Sized(p.dz, f)
	if !p.summing {
		g.b.tab.Room(&p.dsPacked, f, dv)
	}
}

// view stores the sums dS, dz in the layout that keyBlock needs.
func (g *queriesOfAll[T]) view(_ *backWorker[T], _ *stream[T], k int, v *view[T], _ int64, f0, f1 int) {
	p := g.passes[k]
	if p.none || p.summing {
		return
	}
	copy(p.dz[f0:f1], v.z[f0:f1])
	for i := f0; i < f1; i++ {
		copy(p.ds.Row(i), v.s.Row(i))
	}
	g.b.tab.PackRows(&p.dsPacked, p.ds, f0, f1)
}

func (g *queriesOfAll[T]) ordered(k int) bool { return g.passes[k].grad != nil }

func (g *queriesOfAll[T]) read(*backWorker[T], *stream[T], int, int, *memory[T], bool) error {
	return nil
}

func (g *queriesOfAll[T]) readPart(*backWorker[T], *stream[T], int, int, int, *memory[T]) error {
	return nil
}

func (g *queriesOfAll[T]) blocks(s *stream[T], k int) int {
	if p := g.passes[k]; p.none || p.summing {
		return 0
	}
	return s.blockCut().pieces(s.positions())
}

func (g *queriesOfAll[T]) block(w *backWorker[T], s *stream[T], k, i int, _ *view[T], _ int64) error {
	p := (*gang[T])(g).use(w, s, k)
	return (*gang[T])(g).gradients(w, p, g.segments(s, k)+i, func() error {
		lo, hi := s.blockCut().piece(s.positions(), i)
		return w.keyBlock(p, lo, hi)
	})
}

package linear

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
)

// Backward sets dq, dk and dv to the gradients of Σ out⊙dout, where out is the result of Forward on q, k and v. With
// the shares P_if = φ1(q_i)_f / den_i and D_i = out_i·dout_i,
//
//	dφ1(q_i)_f = (S_f·dout_i − z_f D_i) / den_i,   S_f = Σ_j φ2(k_j)_f v_j,   z_f = Σ_j φ2(k_j)_f
//	dφ2(k_j)_f = dS_f·v_j + dz_f,                  dS_f = Σ_i P_if dout_i,    dz_f = −Σ_i P_if D_i
//	dv_j       = Σ_f φ2(k_j)_f dS_f
//
// over the keys j that i sees and the queries i that see j. With Causal, a forward sweep accumulates S and z of the
// keys before a chunk, and a backward sweep accumulates dS and dz of the queries after it. The chunk itself is a
// triangle of scores.
//
// Up to 64 MiB of causal features are kept from the first sweep to the second (two heads of 16384 positions, 256
// features, float32). Further features are computed again. Besides these, the arguments and four numbers per query,
// memory does not depend on L. With a Window, a worker also keeps the gradients of the keys that a chunk of queries
// sees in it.
//
// dS is scaled by references of the keys, where a share is at most 1, or by attained shares, where a feature of a key
// is at most 1. Positive maps therefore never overflow (docs/theory.md §6). Rows that Forward counts as Empty or Zero
// have no gradient.
//
// grads is nil or has one entry per map. Entries that are not nil receive the gradients by the parameters of the
// families (randfeat.Grad). With a Window or Sinks they are refused (errors.ErrUnsupported). All results are
// bit-identical at any GOMAXPROCS.
func (a *Attention[T]) Backward(dq, dk, dv, dout, out, q, k, v attention.Seq[T],
	grads []*randfeat.Grad[T]) (attention.Report, error) {
	args := backArgs[T]{dq: dq, dk: dk, dv: dv, dout: dout, out: out, grads: grads}
	return linearBackward(a, args, q, k, v)
}

// linearBackward validates the arguments and runs one backCall.
func linearBackward[T dense.Float](a *Attention[T], args backArgs[T], q, k, v attention.Seq[T]) (attention.Report,
	error) {
	dq, dk, dv, dout, out, grads := args.dq, args.dk, args.dv, args.dout, args.out, args.grads
	if err := a.check(out, q, k, v); err != nil {
		return attention.Report{}, err
	}
	if err := attention.CheckBackward(dq, dk, dv, dout, out, q, k, v); err != nil {
		return attention.Report{}, err
	}
	if grads != nil && len(grads) != len(a.Maps) {
		return attention.Report{}, fmt.Errorf("%d parameter gradients for %d maps: %w", len(grads), len(a.Maps),
			dense.ErrShape)
	}
	for i, m := range a.Maps {
		if _, ok := m.(randfeat.Differentiable[T]); !ok {
			return attention.Report{}, fmt.Errorf("map %d, a %T, has no derivatives (randfeat.Differentiable): %w", i, m,
				errors.ErrUnsupported)
		}
		if grads == nil || grads[i] == nil {
			continue
		}
		if a.exact() {
			return attention.Report{}, fmt.Errorf("parameter gradients with a window or sinks: %w",
				errors.ErrUnsupported)
		}
		if _, ok := m.(randfeat.Learnable[T]); !ok {
			return attention.Report{}, fmt.Errorf("map %d, a %T: %w", i, m, randfeat.ErrNoParameters)
		}
	}
	slot := a.backs.Get()
	defer a.backs.Put(slot)
	b := par.Held[backCall[T]](slot)
	b.backArgs = args
	err := b.run(a, q, k, v)
	return b.finish(err, q, k, v)
}

// backCall is one Attention.Backward. If there are enough streams to keep all workers busy, they run in parallel on
// gangs of one worker each. Otherwise one gang of all workers takes them one after the other. Forward (call) does the
// same.
type backCall[T dense.Float] struct {
	streams[T]
	backArgs[T]
	crew    par.Crew[gang[T]]
	workers []*backWorker[T] // workers of all gangs
	// direct says that every row of dq, dk and dv is written exactly once, in place. Otherwise all rows are cleared
	// first and gradients are added to them.
	direct      bool
	streamGrads []*randfeat.Grad[T] // parameter gradients of the streams in progress
	from        int                 // the first of these streams
	store       []T                 // features kept between the sweeps, see keep
}

// keepBytes limits the features that the first of two sweeps over causal streams keeps for the second. Reading them is
// a tenth faster than computing them again. The first streams that fit keep their features; the decision must not
// depend on the number of workers.
const keepBytes = 64 << 20

// keep assigns each causal stream that fits a place for its features in store.
func (b *backCall[T]) keep() {
	n := 0
	for i := range b.all {
		s := &b.all[i]
		if !s.causal || b.exact || s.mask != nil {
			continue
		}
		size := (s.positions() + s.group*s.lenQ()) * s.m.OutDim()
		if (n+size)*int(unsafe.Sizeof(T(0))) <= keepBytes {
			s.place, n = n+1, n+size
		}
	}
	b.store = buf.Sized(b.store, n)
}

// backRows is the largest number of rows handled together: a backward pass has twice the scratch memory of Forward.
const backRows = 128

// backArgs are the arguments of a backCall.
type backArgs[T dense.Float] struct {
	dq, dk, dv, dout, out attention.Seq[T]
	grads                 []*randfeat.Grad[T] // per map, may be nil
}

func (b *backCall[T]) run(a *Attention[T], q, k, v attention.Seq[T]) error {
	if some, err := b.prepare(a, q, k, v); err != nil || !some {
		return err
	}
	return b.work(b.streams.workers(3))
}

// prepare lists the streams, assigns memory and clears gradients. It reports whether there is anything to do.
func (b *backCall[T]) prepare(a *Attention[T], q, k, v attention.Seq[T]) (bool, error) {
	if err := b.list(a, b.out, q, k, v); err != nil {
		return false, err
	}
	if a.Chunk == 0 {
		for i := range b.all {
			b.all[i].rows = min(b.all[i].rows, backRows)
		}
	}
	none := len(b.all) == 0 || v.Dim == 0
	b.keep()
	b.direct = !b.exact && a.KeyMask == nil && a.Segments == nil
	if !b.direct || none {
		for _, s := range [...]attention.Seq[T]{b.dq, b.dk, b.dv} {
			clearSeq(s)
		}
	}
	return !none, nil
}

// work runs the streams on the given number of workers, one stream per worker if alone.
func (b *backCall[T]) work(workers int, alone bool) error {
	for len(b.workers) < workers {
		b.workers = append(b.workers, new(backWorker[T]))
	}
	if !alone {
		return b.together(workers)
	}
	n := min(workers, len(b.all))
	b.crew.Hire(n)
	for i, g := range b.crew.Workers[:n] {
		g.crew.Workers = b.workers[i : i+1 : i+1]
	}
	// Parameter gradients of streams are merged in their order, so no more streams are under way than there are gangs.
	step := len(b.all)
	if b.grads != nil {
		step = n
	}
	b.streamGrads = buf.Zeroed(b.streamGrads, step)
	for b.from = 0; b.from < len(b.all); b.from += step {
		if err := b.crew.Do(min(step, len(b.all)-b.from), n, (*eachGradient[T])(b)); err != nil {
			return err
		}
		for i, g := range b.streamGrads {
			if err := b.merge(b.from+i, g); err != nil {
				return err
			}
			b.streamGrads[i] = nil
		}
	}
	return nil
}

// together computes the gradients of all streams with one gang of all workers, 2·workers streams at a time: each stream
// in progress has memory of its own.
func (b *backCall[T]) together(workers int) error {
	b.crew.Hire(1)
	g := b.crew.Workers[0]
	g.crew.Workers = b.workers[:workers:workers]
	for from := 0; from < len(b.all); from += 2 * workers {
		if err := g.run(b, b.all[from:min(from+2*workers, len(b.all))]); err != nil {
			return err
		}
		for i, p := range g.passes[:g.n] {
			if err := b.merge(from+i, p.grad); err != nil {
				return err
			}
			p.grad = nil
		}
	}
	return nil
}

// merge adds the parameter gradient of stream i, if it has one. Calls come in the order of streams, which fixes the
// bits.
func (b *backCall[T]) merge(i int, g *randfeat.Grad[T]) error {
	if g == nil {
		return nil
	}
	return b.gradOf(b.all[i].h).Merge(g)
}

// eachGradient is the step whose items are whole streams.
type eachGradient[T dense.Float] backCall[T]

// Item computes the gradients of stream from + i on a gang of one worker.
func (b *eachGradient[T]) Item(g *gang[T], i int) error {
	err := g.run((*backCall[T])(b), b.all[b.from+i:b.from+i+1])
	b.streamGrads[i], g.passes[0].grad = g.passes[0].grad, nil
	return err
}

// gradOf is the caller's parameter gradient for key/value head h, or nil.
func (b *backCall[T]) gradOf(h int) *randfeat.Grad[T] {
	switch len(b.grads) {
	case 0:
		return nil
	case 1:
		return b.grads[0]
	}
	return b.grads[h]
}

// finish gathers reports, names rows that are not finite, and drops all references to the caller's data.
func (b *backCall[T]) finish(failed error, q, k, v attention.Seq[T]) (attention.Report, error) {
	defer func() {
		b.backArgs = backArgs[T]{}
		b.forget()
		for _, g := range b.crew.Workers {
			g.b = nil
			clear(g.list)
			for _, p := range g.passes {
				p.b, p.s, p.grad, p.sweeps = nil, nil, nil, [2]stream[T]{}
			}
		}
	}()
	var total attention.Report
	bad := false
	for _, w := range b.workers {
		total.Add(w.report)
		bad = bad || w.bad
		w.report, w.bad, w.grad, w.own, w.ownOf, w.m, w.diff = attention.Report{}, false, nil, nil, nil, nil, nil
	}
	if failed != nil || bad && b.checks {
		for _, s := range [...]struct {
			name string
			seq  attention.Seq[T]
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

func clearSeq[T dense.Float](s attention.Seq[T]) {
	par.For(s.Batch*s.Heads*s.Len, 1<<20/max(1, s.Dim), func(lo, hi int) {
		for ; lo < hi; lo++ {
			head := lo / s.Len
			clear(s.Head(head/s.Heads, head%s.Heads).Row(lo % s.Len))
		}
	})
}

package attention

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/randfeat/randfeat"
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
// over the keys j that i sees and the queries i that see j. With Causal S and z are the sums before a chunk, swept
// forwards, dS and dz those behind it, swept backwards; the chunk itself is a triangle of scores. Features are computed
// again per chunk: besides its arguments and three numbers per query the memory does not depend on L.
//
// The references of dS are attained shares, so a feature of a key is at most 1 there, as one of a query is forwards:
// nothing overflows with positive maps (docs/theory.md §6). Rows that Forward counts as Empty or Zero have no gradient.
//
// grads, nil or one per map, receive the gradients by the parameters of the families (randfeat.Grad); nil entries are
// skipped. With a Window or Sinks they are refused (errors.ErrUnsupported). The bits of all results are the same at any
// GOMAXPROCS.
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
			return Report{}, fmt.Errorf("map %d, a %T, has no derivatives (randfeat.Differentiable): %w", i, m,
				errors.ErrUnsupported)
		}
		if grads == nil || grads[i] == nil {
			continue
		}
		if a.exact() {
			return Report{}, fmt.Errorf("parameter gradients with a window or sinks: %w", errors.ErrUnsupported)
		}
		if _, ok := m.(randfeat.Learnable[T]); !ok {
			return Report{}, fmt.Errorf("map %d, a %T: %w", i, m, randfeat.ErrNoParameters)
		}
	}
	b := a.backs.Get()
	defer a.backs.Put(b)
	b.backArgs = backArgs[T]{dq: dq, dk: dk, dv: dv, dout: dout, out: out, grads: grads}
	err := b.run(a, q, k, v)
	return b.finish(err, q, k, v)
}

// backCall is one Linear.Backward. Streams run side by side on a pass with one worker each if there are enough of them,
// otherwise one after the other on one pass with all workers: the same two ways as in call.
type backCall[T dense.Float] struct {
	streams[T]
	backArgs[T]
	crew    par.Crew[pass[T]]
	workers []*backWorker[T] // of all passes
	// direct: every row of dq, dk and dv is written once. Otherwise all are cleared first and added to.
	direct      bool
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

func (b *backCall[T]) run(a *Linear[T], q, k, v Seq[T]) error {
	if err := b.list(a, b.out, q, k, v); err != nil {
		return err
	}
	if a.Chunk == 0 {
		for i := range b.all {
			b.all[i].rows = min(b.all[i].rows, backRows)
		}
	}
	none := len(b.all) == 0 || v.Dim == 0
	b.direct = !a.exact() && a.KeyMask == nil && a.Segments == nil
	if !b.direct || none {
		for _, s := range [...]Seq[T]{b.dq, b.dk, b.dv} {
			clearSeq(s)
		}
	}
	if none {
		return nil
	}
	n := b.hire(a.exact())
	// Parameter gradients of streams are merged in their order, so no more streams are under way than there are passes.
	step := len(b.all)
	if b.grads != nil {
		step = n
	}
	b.streamGrads = buf.Zeroed(b.streamGrads, n)
	for b.from = 0; b.from < len(b.all); b.from += step {
		if err := b.crew.Do(min(step, len(b.all)-b.from), n, (*eachGradient[T])(b)); err != nil {
			return err
		}
		for i, g := range b.streamGrads {
			if g != nil {
				if err := b.gradOf(b.all[b.from+i].h).Merge(g); err != nil {
					return err
				}
				b.streamGrads[i] = nil
			}
		}
	}
	return nil
}

// hire divides as many workers as the work pays for among passes and returns the number of these. Exact
// weights are no step of their own: streams with some run on one worker each.
func (b *backCall[T]) hire(exact bool) (passes int) {
	work := 0
	for i := range b.all {
		s := &b.all[i]
		work += 3 * (s.k.Rows + s.group*s.lenQ()) * s.m.OutDim() * (s.k.Cols + s.v.Cols)
	}
	workers := max(1, min(runtime.GOMAXPROCS(0), work/b.tab.Grain))
	for len(b.workers) < workers {
		b.workers = append(b.workers, new(backWorker[T]))
	}
	if len(b.all) < workers && !exact {
		b.crew.Hire(1)
		b.crew.Workers[0].crew.Workers = b.workers[:workers:workers]
		return 1
	}
	passes = min(workers, len(b.all))
	b.crew.Hire(passes)
	for i, p := range b.crew.Workers[:passes] {
		p.crew.Workers = b.workers[i : i+1 : i+1]
	}
	return passes
}

// eachGradient is the step whose items are streams.
type eachGradient[T dense.Float] backCall[T]

// Item computes the gradients of stream i behind from.
func (b *eachGradient[T]) Item(p *pass[T], i int) error {
	p.b = (*backCall[T])(b)
	err := p.stream(&b.all[b.from+i])
	if p.grad != nil {
		b.streamGrads[i], p.grad = p.grad, nil
	}
	return err
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

// finish gathers reports, names what is not finite, and forgets the data of the caller.
func (b *backCall[T]) finish(failed error, q, k, v Seq[T]) (Report, error) {
	defer func() {
		b.backArgs = backArgs[T]{}
		b.forget()
		for _, p := range b.crew.Workers {
			p.s, p.grad, p.view, p.segment, p.sweeps = nil, nil, view[T]{}, nil, [2]stream[T]{}
		}
	}()
	var total Report
	bad := false
	for _, w := range b.workers {
		total.Add(w.report)
		bad = bad || w.bad
		w.report, w.bad, w.grad, w.m, w.diff = Report{}, false, nil, nil, nil
	}
	if failed != nil || bad && b.checks {
		for _, s := range [...]struct {
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
	par.For(s.Batch*s.Heads*s.Len, 1<<20/max(1, s.Dim), func(lo, hi int) {
		for ; lo < hi; lo++ {
			head := lo / s.Len
			clear(s.Head(head/s.Heads, head%s.Heads).Row(lo % s.Len))
		}
	})
}

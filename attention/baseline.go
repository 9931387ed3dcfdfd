package attention

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
)

// Constant gives every visible key the same weight: out_i is the mean of the visible values, or a running mean if
// causal. It is the baseline of attention without queries and keys. Values of masked keys are not read.
type Constant[T dense.Float] struct {
	Visibility
	// Unchecked leaves out the search for NaN and infinities.
	Unchecked bool
}

// Forward sets out to the means of the visible values. Only the shapes of q and k matter.
func (a *Constant[T]) Forward(out, q, k, v Seq[T]) (Report, error) {
	if err := CheckForward(&a.Visibility, out, q, k, v); err != nil {
		return Report{}, err
	}
	if !a.Unchecked {
		if err := v.CheckVisible("v", a.SeenKeys(nil, q.Batch, q.Len, k.Len)); err != nil {
			return Report{}, err
		}
	}
	reports := make([]Report, k.Batch*k.Heads)
	par.For(len(reports), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			reports[i] = a.head(out, q, v, i/k.Heads, i%k.Heads)
		}
	})
	var total Report
	for _, r := range reports {
		total.Add(r)
	}
	return total, nil
}

// head computes the query heads that share head h of the values, with sums in float64. bd.keys is non-decreasing in the
// query, so one pass over the keys serves all queries of a span.
func (a *Constant[T]) head(out, q, v Seq[T], b, h int) (r Report) {
	values, mask := v.Head(b, h), a.MaskOf(b, v.Len)
	group := q.Heads / v.Heads
	sum := make([]float64, v.Dim)
	for _, s := range a.Spans(nil, b, q.Len, v.Len) {
		clear(sum)
		bd := band{Span: s, causal: a.Causal}
		seen, count := 0, 0
		for i := range s.Q1 - s.Q0 {
			_, hi := bd.keys(i)
			for ; seen < hi; seen++ {
				if mask != nil && !mask[s.K0+seen] {
					continue
				}
				count++
				for j, x := range values.Row(s.K0 + seen) {
					sum[j] += float64(x)
				}
			}
			for g := range group {
				dst := out.Head(b, h*group+g).Row(s.Q0 + i)
				r.Rows++
				if count == 0 {
					r.Empty++
					clear(dst)
					continue
				}
				for j, x := range sum {
					dst[j] = T(x / float64(count))
				}
			}
		}
	}
	return r
}

// uniform gives keys random weights that are independent of queries and keys and uniform in [0, 1), divided by their
// sum. It is the uniform-random baseline of the DARKFormer paper. A weight is a function of Seed, batch, query head,
// query and key only: equal calls give equal results, and nothing is stored. Values of masked keys are not read.
type uniform[T dense.Float] struct {
	Visibility
	Seed uint64
	// Unchecked leaves out the search for NaN and infinities.
	Unchecked bool

	calls par.Pool[exactCall[T]]
}

// Forward sets out. Only the shapes of q and k matter.
func (a *uniform[T]) Forward(out, q, k, v Seq[T]) (Report, error) {
	if err := CheckForward(&a.Visibility, out, q, k, v); err != nil {
		return Report{}, err
	}
	c := a.calls.Get()
	defer a.calls.Put(c)
	defer c.forget()
	if err := c.start(&a.Visibility, 0, 1, out, q, k, v); err != nil {
		return Report{}, err
	}
	c.seed = a.Seed
	if !a.Unchecked {
		if err := c.checkFinite(named[T]{"v", v, c.seen}); err != nil {
			return Report{}, err
		}
	}
	c.splitQueries()
	c.do(len(c.tasks), (*uniformRows[T])(c))
	return c.report(), nil
}

// uniformBlock is the number of keys handled together.
const uniformBlock = 128

// uniformRows is the step whose items are the outputs of a task.
type uniformRows[T dense.Float] exactCall[T]

func (s *uniformRows[T]) Item(w *exactScratch[T], i int) error {
	c := (*exactCall[T])(s)
	c.uniform(w, c.task(i))
	return nil
}

// uniform computes the outputs of one task.
func (c *exactCall[T]) uniform(w *exactScratch[T], t exactTask) {
	b := &c.bands[t.span]
	dv := c.v.Dim
	v, mask := c.v.Head(t.b, t.h), c.vis.MaskOf(t.b, c.k.Len)
	w.p = buf.Sized(w.p, tileRows*uniformBlock)
	for g := range c.group {
		h := t.h*c.group + g
		out := c.out.Head(t.b, h)
		head := rng.Mix64(rng.Mix64(rng.Mix64(c.seed)+uint64(t.b)) + uint64(h))
		for i := t.lo; i < t.hi; i += tileRows {
			n := min(tileRows, t.hi-i)
			w.acc, w.sum = buf.Zeroed(w.acc, n*dv), buf.Zeroed(w.sum, n)
			_, end := b.keys(i + n - 1)
			for j0 := 0; j0 < end; j0 += uniformBlock {
				j1 := min(j0+uniformBlock, end)
				p := packedView(w.p, n, j1-j0)
				for l := range n {
					_, hi := b.keys(i + l)
					row := rng.Mix64(head + uint64(b.Q0+i+l))
					for j := range j1 - j0 {
						var u T
						if key := b.K0 + j0 + j; j0+j < hi && (mask == nil || mask[key]) {
							// 24 bits: exact, and below 1, in both precisions
							u = T(float32(rng.Mix64(row+uint64(key))>>40) * 0x1p-24)
						}
						p.Data[l*(j1-j0)+j] = u
						w.sum[l] += float64(u)
					}
				}
				values := hiddenCleared(&w.v, v.RowRange(b.K0+j0, b.K0+j1), c.keyBias(t.b, b.K0+j0, b.K0+j1))
				c.tab.Product(packedView(w.acc, n, dv), p, values, true)
			}
			for l := range n {
				w.finish(c, out.Row(b.Q0+i+l), w.acc[l*dv:(l+1)*dv], w.sum[l])
			}
		}
	}
}

package attention

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
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

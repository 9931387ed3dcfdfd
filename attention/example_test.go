package attention_test

import (
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// Exact attention of one head; a causal mask hides later keys.
func ExampleExact() {
	q := dense.MustFromRows([][]float32{{1, 0}, {0, 1}})
	v := dense.MustFromRows([][]float32{{1}, {2}})
	for _, causal := range []bool{false, true} {
		out := dense.New[float32](2, 1)
		a := attention.Exact[float32]{Visibility: attention.Visibility{Causal: causal}}
		if _, err := a.Forward(attention.One(out), attention.One(q), attention.One(q), attention.One(v)); err != nil {
			panic(err)
		}
		fmt.Printf("%.3f\n", out.Data)
	}
	// Output:
	// [1.330 1.670]
	// [1.000 1.670]
}

// nearest is an attention of your own: every query copies the value of the visible key with the largest score.
type nearest struct{ attention.Visibility }

// each calls f with every query and the key that it picks, −1 if it sees none. Query heads may share a key head.
func (a *nearest) each(q, k attention.Seq[float32], f func(b, head, query, keyHead, key int)) {
	for b := range q.Batch {
		for h := range q.Heads {
			shared := h * k.Heads / q.Heads
			for i := range q.Len {
				best, score := -1, float32(0)
				for lo, hi, _ := a.Keys(b, i, q.Len, k.Len); lo < hi; lo++ {
					if s := dense.Dot(q.Head(b, h).Row(i), k.Head(b, shared).Row(lo)); best < 0 || s > score {
						best, score = lo, s
					}
				}
				f(b, h, i, shared, best)
			}
		}
	}
}

func (a *nearest) Forward(out, q, k, v attention.Seq[float32]) (r attention.Report, err error) {
	if err := attention.CheckForward(&a.Visibility, out, q, k, v); err != nil {
		return r, err
	}
	a.each(q, k, func(b, head, query, keyHead, key int) {
		r.Rows++
		if key < 0 {
			r.Empty++
			clear(out.Head(b, head).Row(query))
			return
		}
		copy(out.Head(b, head).Row(query), v.Head(b, keyHead).Row(key))
	})
	return r, nil
}

// Backward adds the gradient of every output to that of the value that it copied. Those of queries and keys stay zero.
func (a *nearest) Backward(dq, dk, dv, dout, out, q, k, v attention.Seq[float32]) error {
	if err := attention.CheckForward(&a.Visibility, out, q, k, v); err != nil {
		return err
	}
	if err := attention.CheckBackward(dq, dk, dv, dout, out, q, k, v); err != nil {
		return err
	}
	a.each(q, k, func(b, head, query, keyHead, key int) {
		for c := 0; key >= 0 && c < v.Dim; c++ {
			dv.Head(b, keyHead).Row(key)[c] += dout.Head(b, head).At(query, c)
		}
	})
	return nil
}

// A method of your own checks its arguments as the others do, and then serves wherever an Attention is wanted.
func ExampleAttention() {
	n := &nearest{attention.Visibility{Causal: true}}
	var a attention.Attention[attention.Seq[float32]] = n
	x := attention.One(dense.MustFromRows([][]float32{{1, 0}, {0, 1}, {0.5, 0}}))
	v := attention.One(dense.MustFromRows([][]float32{{1}, {2}, {3}}))
	out := attention.NewSeq[float32](1, 1, 3, 1)
	report, err := a.Forward(out, x, x, v)
	fmt.Println(out.Data, report.Rows, err)

	dx, dv := attention.NewSeq[float32](1, 1, 3, 2), attention.NewSeq[float32](1, 1, 3, 1)
	err = n.Backward(dx, dx, dv, out, out, x, x, v) // the gradients of |out|²/2
	fmt.Println(dv.Data, err)

	_, err = a.Forward(out, x, attention.NewSeq[float32](1, 1, 3, 4), v)
	fmt.Println(err)
	// Output:
	// [1 2 1] 3 <nil>
	// [2 2 0] <nil>
	// q has dimension 2, k 4, want them equal: wrong shape
}

// Several texts in one sequence, as in packed training batches: each query sees the keys of its own text only.
func ExampleVisibility_Spans() {
	vis := attention.Visibility{Causal: true, Segments: []int32{7, 7, 7, 9, 9}}
	for _, s := range vis.Spans(nil, 0, 5, 5) {
		fmt.Printf("queries %d to %d see keys %d to %d\n", s.Q0, s.Q1-1, s.K0, s.K1-1)
	}
	// Output:
	// queries 0 to 2 see keys 0 to 2
	// queries 3 to 4 see keys 3 to 4
}

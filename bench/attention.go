package main

import (
	"fmt"
	"runtime"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// heads is one attention problem in float32: one head, with projections that the peers get too.
type heads struct {
	q, k, v, w, out attention.Seq[float32]
	mp              *randfeat.Map[float32]
}

// inputScale keeps |q|²/√d near 1. Features of that size need no stabiliser, so peers without one can run too.
const inputScale = 0.4

func newHeads(l, d, m int) heads {
	seq := func(rows int, scale float64, seed uint64) attention.Seq[float32] {
		return attention.One[float32](random[float32](rows, d, scale, seed))
	}
	h := heads{q: seq(l, inputScale, 1), k: seq(l, inputScale, 2), v: seq(l, 1, 3), w: seq(m, 1, 4),
		out: attention.NewSeq[float32](1, 1, l, d)}
	h.mp = givenMap(kernel.Attention(d), family.Positive{}, h.w.Head(0, 0))
	return h
}

func (h heads) arrays() map[string]any {
	return map[string]any{"q": h.q.Head(0, 0), "k": h.k.Head(0, 0), "v": h.v.Head(0, 0), "w": h.w.Head(0, 0)}
}

func (h heads) linear(causal bool) *linear.Attention[float32] {
	return &linear.Attention[float32]{Visibility: attention.Visibility{Causal: causal},
		Maps: []randfeat.FeatureMap[float32]{h.mp}}
}

func forward(a *linear.Attention[float32], h heads) func() {
	return func() { must(a.Forward(h.out, h.q, h.k, h.v)) }
}

func sampleSeqs(s ...attention.Seq[float32]) func() []float64 {
	return func() []float64 {
		var out []float64
		for _, x := range s {
			out = append(out, sampleOf(x.Head(0, 0))...)
		}
		return out
	}
}

// Names of peers, as in peers.py.
const (
	peerNumPy           = "NumPy naive"
	peerEager           = "PyTorch eager"
	peerEagerStable     = "PyTorch eager, stabilised"
	peerCompiled        = "PyTorch compile"
	peerPerformer       = "performer-pytorch"
	peerSDPA            = "PyTorch scaled_dot_product_attention"
	performerTolerance  = 0.05 // it adds 1e-4 to every feature
	linearName          = "randfeat"
	linearUncheckedName = "randfeat, unchecked"
)

func linearFlops(l, d, m int) float64 { return 8 * float64(l) * float64(d) * float64(m) }

// linearCase is bidirectional linear attention with positive features.
func linearCase(l, d, m int) benchCase {
	h := newHeads(l, d, m)
	unchecked := h.linear(false)
	unchecked.Unchecked = true
	return benchCase{
		name: fmt.Sprintf("linear attention L = %d, d = %d, m = %d, float32", l, d, m), peer: "attention",
		arrays: h.arrays(),
		ours: []variant{
			{name: linearName, run: forward(h.linear(false), h), sample: sampleSeqs(h.out)},
			{name: linearUncheckedName, run: forward(unchecked, h), sample: sampleSeqs(h.out)},
		},
		flops: linearFlops(l, d, m), tolerance: 1e-3, tolerances: map[string]float64{peerPerformer: performerTolerance},
		targets: []target{
			{row: peerNumPy, least: 2.5}, {row: peerEager, least: 2.5}, {row: peerEagerStable, least: 2.5},
			{row: peerCompiled, least: 1.5}, {row: peerPerformer, least: 3},
			{row: linearName, against: linearUncheckedName, most: 1.03},
		},
	}
}

// causalCase is causal linear attention beside the bidirectional one.
func causalCase(l, d, m int) benchCase {
	h := newHeads(l, d, m)
	return benchCase{
		name: fmt.Sprintf("causal linear attention L = %d, d = %d, m = %d, float32", l, d, m), peer: "attention_causal",
		arrays: h.arrays(),
		ours: []variant{
			{name: "randfeat, bidirectional", run: forward(h.linear(false), h)},
			{name: "randfeat, causal", run: forward(h.linear(true), h), sample: sampleSeqs(h.out)},
		},
		flops: linearFlops(l, d, m), tolerance: 1e-3, tolerances: map[string]float64{peerPerformer: performerTolerance},
		targets: []target{{row: "randfeat, causal", most: 1.6}},
		note:    "performer-pytorch has no fast causal path without CUDA; the row is what it runs instead. GFLOP/s count the work of the bidirectional case.",
	}
}

// exactCase is exact attention, and linear attention against it.
func exactCase(l, d, m int, causal bool) benchCase {
	h := newHeads(l, d, m)
	e := &attention.Exact[float32]{Visibility: attention.Visibility{Causal: causal}}
	title, peer, flops := "exact attention", "exact", 4*float64(l)*float64(l)*float64(d)
	if causal {
		title, peer, flops = "causal exact attention", "exact_causal", flops/2
	}
	linear, exact := fmt.Sprintf("randfeat linear, m = %d", m), "randfeat exact"
	bc := benchCase{
		name: fmt.Sprintf("%s L = %d, d = %d, float32", title, l, d), peer: peer, arrays: h.arrays(),
		ours: []variant{
			{name: linear, run: forward(h.linear(causal), h), flops: linearFlops(l, d, m)},
			{name: exact, run: func() { must(e.Forward(h.out, h.q, h.k, h.v)) }, sample: sampleSeqs(h.out)},
		},
		flops: flops, tolerance: 1e-3,
		targets: []target{{row: peerSDPA, against: exact, least: 0.8}},
	}
	if !causal && l <= 2048 {
		bc.targets = append(bc.targets, target{row: peerSDPA, least: 1})
	} else if !causal && l >= 16384 {
		bc.targets = append(bc.targets, target{row: peerSDPA, least: 30})
	}
	return bc
}

// linearBackwardCase computes gradients with respect to q, k and v. Our backward pass recomputes the features, so
// the times of the peers include a forward pass too.
func linearBackwardCase(l, d, m int) benchCase {
	h := newHeads(l, d, m)
	a := h.linear(false)
	dout, dq, dk, dv := attention.One[float32](random[float32](l, d, 1, 5)), attention.NewSeq[float32](1, 1, l, d),
		attention.NewSeq[float32](1, 1, l, d), attention.NewSeq[float32](1, 1, l, d)
	backwardOf := func(a *linear.Attention[float32]) func() {
		return func() { must(a.Backward(dq, dk, dv, dout, h.out, h.q, h.k, h.v, nil)) }
	}
	backward, causal := backwardOf(a), h.linear(true)
	forwardBoth := forward(a, h)
	arrays := h.arrays()
	arrays["dout"] = dout.Head(0, 0)
	return benchCase{
		name: fmt.Sprintf("linear attention, forward and backward, L = %d, d = %d, m = %d, float32", l, d, m),
		peer: "attention_backward", arrays: arrays,
		ours: []variant{
			{name: "randfeat, forward and backward", run: func() { forwardBoth(); backward() },
				sample: sampleSeqs(dq, dk, dv)},
			{name: "randfeat, forward", run: forwardBoth},
			{name: "randfeat, backward", run: backward, sample: sampleSeqs(dq, dk, dv)},
			{name: "randfeat, causal, forward", run: forward(causal, h)},
			{name: "randfeat, causal, backward", run: backwardOf(causal)},
		},
		tolerance: 1e-3,
		targets: []target{
			{row: "randfeat, backward", against: "randfeat, forward", most: 2.5},
			{row: "randfeat, causal, backward", against: "randfeat, causal, forward", most: 2.5},
			{row: "PyTorch eager, forward and backward", least: 1},
		},
	}
}

// exactBackwardCase is the same for exact attention.
func exactBackwardCase(l, d int) benchCase {
	h := newHeads(l, d, 1)
	e := &attention.Exact[float32]{Keep: new(attention.Normalisers[float32])}
	dout, dq, dk, dv := attention.One[float32](random[float32](l, d, 1, 5)), attention.NewSeq[float32](1, 1, l, d),
		attention.NewSeq[float32](1, 1, l, d), attention.NewSeq[float32](1, 1, l, d)
	fwd := func() { must(e.Forward(h.out, h.q, h.k, h.v)) }
	bwd := func() { check(e.Backward(dq, dk, dv, dout, h.out, h.q, h.k, h.v)) }
	arrays := h.arrays()
	arrays["dout"] = dout.Head(0, 0)
	return benchCase{
		name: fmt.Sprintf("exact attention, forward and backward, L = %d, d = %d, float32", l, d),
		peer: "exact_backward", arrays: arrays,
		ours: []variant{
			{name: "randfeat, forward and backward", run: func() { fwd(); bwd() }, sample: sampleSeqs(dq, dk, dv)},
			{name: "randfeat, forward", run: fwd},
			{name: "randfeat, backward", run: bwd, sample: sampleSeqs(dq, dk, dv)},
		},
		tolerance: 1e-3,
		targets: []target{
			{row: "randfeat, backward", against: "randfeat, forward", most: 2.5},
			{row: peerSDPA + ", forward and backward", least: 0.8},
		},
	}
}

// decodeSteps is the number of steps per run of decodeCase. The table shows the time of one.
const decodeSteps = 100

// decodeCase passes one token through all heads, after few and after many tokens.
func decodeCase(nHeads, d, m int) benchCase {
	h := newHeads(1, d, m)
	const few, many = 100, 1_000_000
	variantAfter := func(tokens int, name string) variant {
		var dec *linear.State[float32]
		token := func(n int, scale float64, seed uint64) attention.Seq[float32] {
			x := random[float32](nHeads*n, d, scale, seed)
			return attention.Seq[float32]{Shape: attention.Shape{Batch: 1, Heads: nHeads, Len: n, Dim: d}, Data: x.Data,
				StrideB: nHeads * n * d, StrideH: n * d, StrideL: d}
		}
		q, k, v, out := token(1, inputScale, 1), token(1, inputScale, 2), token(1, 1, 3), token(1, 1, 4)
		return variant{name: name, repeat: decodeSteps, run: func() {
			if dec == nil { // in the first run, which is not timed
				dec = must(h.linear(true).NewState(q.Shape, v.Shape))
				block := min(tokens, 20_000) // the same block again and again
				out, q, k, v := token(block, 1, 8), token(block, inputScale, 5), token(block, inputScale, 6),
					token(block, 1, 7)
				for range tokens / block {
					check(dec.Step(out, q, k, v))
				}
			}
			for range decodeSteps {
				check(dec.Step(out, q, k, v))
			}
		}}
	}
	first, last := fmt.Sprintf("randfeat, one step after %d tokens", few),
		fmt.Sprintf("randfeat, one step after %d tokens", many)
	a, b := variantAfter(few, first), variantAfter(many, last)
	return benchCase{
		name: fmt.Sprintf("decoding, %d heads, d = %d, m = %d, float32", nHeads, d, m), ours: []variant{a, b},
		flops:   float64(nHeads) * 8 * float64(d) * float64(m),
		targets: []target{{row: last, most: 1.1}},
		after:   func() string { return fmt.Sprintf("Allocations per step: %g.", allocations(a.run)/decodeSteps) },
	}
}

// allocations counts the allocations of one call.
func allocations(f func()) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs)
}

package models

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/models/decoder"
)

// Calibration holds the settings of [Decoder.Calibrate]. The zero value is usable.
type Calibration struct {
	// Tol is the relative error |ô−o|/|o| that every head is expected to stay within on other text; 0 means 0.1.
	Tol float64
	// Length is the number of tokens of a passage. Heads are chosen to be fast at this length; 0 means 4096. If the
	// text or the context of the model is shorter, that is the length.
	Length int
	// Passages is the largest number of passages that are read; 0 means 2.
	Passages int
	// Exact keeps exact attention in all heads and measures only the budgets for Compact and Constant.
	Exact bool
	// Rates decide between exact attention and centroids. Nil measures them on this machine.
	Rates *DecodeRates
	Seed  uint64
	// Done is called with the number of layers chosen so far, if it is not nil.
	Done func(layers int)
}

const (
	// leastLength is the shortest passage. In a shorter one most keys are still outside of clusters, and exact
	// attention is the fastest anyway.
	leastLength = 1024
	// recordBytes bounds the queries, keys, values and outputs held at a time. Layers that do not fit are recorded
	// in another pass over the text.
	recordBytes = 1 << 29
	// leastCentroids is the shortest text, in tokens, for which centroids are considered.
	leastCentroids = 256
	// worthwhile is the largest predicted share of the time of exact attention at which a plan is taken. The margin
	// covers the error of the prediction.
	worthwhile = 0.9
)

func (o *Calibration) validate() error {
	if o.Tol == 0 {
		o.Tol = 0.1
	}
	if o.Length == 0 {
		o.Length = 4096
	}
	if o.Passages == 0 {
		o.Passages = 2
	}
	if !(o.Tol > 0 && o.Tol < 1) || o.Length < leastLength || o.Passages < 1 {
		return fmt.Errorf("calibration with Tol %v, Length %d, Passages %d: want Tol between 0 and 1, Length of at least %d "+
			"and Passages of at least 1", o.Tol, o.Length, o.Passages, leastLength)
	}
	return nil
}

// Calibrate chooses on a text how every key/value head attends: the cheapest centroids whose expected error stays
// within the tolerance, or exact attention where centroids are not faster.
//
// The model reads the text with exact attention, and the queries, keys and values of some layers are recorded at a
// time (recorded). For each of these layers choose.Choose picks a plan per head. About six layers, spread over the
// model, are timed (measureRates); the median of their rates decides from which length on each plan pays
// (bySeconds). Last, the text is read again to measure the loss of heads with few slots (measureBudgets).
func (d *Decoder) Calibrate(ctx context.Context, ids []int32, opt Calibration) (*Attention, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	c := d.model.Config()
	if c.SlidingWindow > 0 {
		return nil, fmt.Errorf("the model attends to a window of %d tokens: there is nothing to choose", c.SlidingWindow)
	}
	n := min(opt.Length, c.MaxPositions, len(ids))
	switch {
	case c.MaxPositions < leastLength:
		return nil, fmt.Errorf("the model's context has %d tokens, and exact attention is fastest below %d",
			c.MaxPositions, leastLength)
	case n < leastLength:
		return nil, fmt.Errorf("the text has %d tokens, calibration needs at least %d: give more text", n, leastLength)
	}
	var texts [][]int32
	for rest := ids; len(rest) >= n && len(texts) < opt.Passages; rest = rest[n:] {
		texts = append(texts, rest[:n])
	}
	base := d.base()
	a := &Attention{Format: attentionFormat, Version: attentionVersion, Model: hex.EncodeToString(base[:]),
		Tokens: n * len(texts)}
	if opt.Exact {
		var err error
		if a.Choice, err = allExact(c.Layers, c.Heads, c.KVHeads, c.HeadDim, n); err != nil {
			return nil, err
		}
		return a, d.measureBudgets(ctx, a, texts, opt.Done)
	}
	var rates []DecodeRates
	err := d.recorded(ctx, texts, func(r *record) error {
		part, err := choose.Choose(choose.Options{Tol: opt.Tol, Decode: true, Seed: opt.Seed},
			attention.Visibility{Causal: true}, 0, r.q, r.k, r.v)
		if err != nil {
			return err
		}
		if a.Choice == nil {
			a.Choice = part
		} else {
			a.Choice.Heads = append(a.Choice.Heads, part.Heads...)
		}
		for l := range r.layers {
			if opt.Rates != nil || (r.first+l)%max(1, c.Layers/6) != 0 {
				continue
			}
			m, ok, err := d.measureRates(r, l, part.Range(l*c.KVHeads, (l+1)*c.KVHeads))
			if err != nil {
				return err
			}
			if ok {
				rates = append(rates, m)
			}
		}
		if opt.Done != nil {
			opt.Done(r.first + r.layers)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	if opt.Rates != nil {
		a.Rates = *opt.Rates
	} else if len(rates) > 0 {
		a.Rates = medianRates(rates)
	}
	a.bySeconds(c.MaxPositions)
	return a, d.measureBudgets(ctx, a, texts, opt.Done)
}

// allExact is the choice of exact attention in all heads. The sequences only carry shapes.
func allExact(layers, heads, kvHeads, dim, n int) (*choose.Choice, error) {
	q, k := attention.NewSeq[float32](1, layers*heads, 2, dim), attention.NewSeq[float32](1, layers*kvHeads, 2, dim)
	c, err := choose.Use(choose.Plan{Method: choose.Exact}, attention.Visibility{Causal: true}, 0, q, k, k)
	if err != nil {
		return nil, err
	}
	c.Length = n
	return c, nil
}

const (
	// Budgets are measured by shrinking budgetContext tokens and comparing the budgetAfter tokens behind them.
	budgetContext, budgetAfter = 2048, 512
)

// measureBudgets sets the budgets of a.
func (d *Decoder) measureBudgets(ctx context.Context, a *Attention, texts [][]int32, done func(int)) (err error) {
	parts := make([][]int32, len(texts))
	for i, ids := range texts {
		parts[i] = ids[:min(len(ids), budgetContext+budgetAfter)]
	}
	layers := d.model.Config().Layers
	a.Budgets, err = d.model.Curves(ctx, parts, budgetAfter, func(text int) {
		if done != nil {
			done(layers)
		}
	})
	return err
}

// bySeconds sets a.From, the lengths from which on centroids are faster, for texts of at most so many tokens.
// Lengths are tried from the longest down, and the first one where centroids lose ends the search: a head never
// changes back to exact attention as the text grows. Heads without a suitable plan, or whose plan pays at no length,
// become exact.
func (a *Attention) bySeconds(most int) {
	n := a.Choice.Length
	var lengths []int // descending
	for l := leastCentroids; l <= max(n, most); l *= 2 {
		lengths = append(lengths, l)
	}
	slices.Reverse(lengths)
	a.From = make([]int, len(a.Choice.Heads))
	for i := range a.Choice.Heads {
		h := &a.Choice.Heads[i]
		h.Seconds = a.Rates.Centroid * sketch(h).StepCost(n)
		if suits(h, n) {
			for _, l := range lengths {
				if !a.Rates.faster(sketch(h), l) {
					break
				}
				a.From[i] = l
			}
		}
		if a.From[i] == 0 {
			*h = exactHead(h, n, a.Rates.Exact*float64(n))
		}
	}
}

// faster tells whether the plan pays for texts of n tokens, in generating and, if its rates are known, in reading
// too. A token that is read sees n/2 keys on average.
func (r *DecodeRates) faster(s centroid.Sketch, n int) bool {
	if !(r.Centroid*s.StepCost(n) < worthwhile*r.Exact*float64(n)) {
		return false
	}
	return r.ReadExact == 0 || r.ReadCentroid*readReads(s, n) < r.ReadExact*float64(n)/2
}

// readReads is the mean of StepCost over the tokens of a text.
func readReads(s centroid.Sketch, n int) (mean float64) {
	const points = 16
	for i := range points {
		mean += s.StepCost((2*i+1)*n/(2*points)) / points
	}
	return mean
}

// suits tells whether the plan of h is within the tolerance. Where none is, choose returns a plan that reads all keys.
func suits(h *choose.Head, n int) bool { return sketch(h).StepCost(n) < float64(n) }

const (
	// The last rateSteps tokens of a passage are timed one by one, the tokens before them in steps of rateChunk.
	rateSteps, rateChunk = 32, 512
)

// measureRates times steps of one token in a layer, with exact attention and with centroids in turns. Heads without
// a suitable plan borrow the plan of a head that has one, so that all heads do centroid work. ok is false if no head
// of the layer has a suitable plan.
func (d *Decoder) measureRates(r *record, layer int, c *choose.Choice) (rates DecodeRates, ok bool, err error) {
	n := c.Length
	all := *c
	all.Heads = slices.Clone(c.Heads)
	i := slices.IndexFunc(c.Heads, func(h choose.Head) bool { return suits(&h, n) })
	if i < 0 {
		return rates, false, nil
	}
	var reads, readReading float64
	for h := range all.Heads {
		if !suits(&all.Heads[h], n) {
			all.Heads[h] = c.Heads[i]
		}
		reads += sketch(&all.Heads[h]).StepCost(n)
		readReading += readReads(sketch(&all.Heads[h]), n-rateSteps)
	}
	q, k, v := r.layer(layer, 0)
	chunks, err := choose.NewChunks(&all, q.Shape, v.Shape)
	if err != nil {
		return rates, false, err
	}
	exact, err := d.model.Exact()(layer)
	if err != nil {
		return rates, false, err
	}
	out := attention.NewSeq[float32](1, q.Heads, rateChunk, q.Dim)
	states := []decoder.State{exact, chunks}
	var reading [2]float64
	for lo := 0; lo < n-rateSteps; lo += rateChunk {
		hi := min(lo+rateChunk, n-rateSteps)
		for i, st := range states {
			start := time.Now()
			if err := st.Step(span(out, 0, hi-lo), span(q, lo, hi), span(k, lo, hi), span(v, lo, hi)); err != nil {
				return rates, false, err
			}
			reading[i] += time.Since(start).Seconds()
		}
	}
	one := span(out, 0, 1)
	var times [2][]float64
	for p := n - rateSteps; p < n; p++ {
		for i, st := range states {
			start := time.Now()
			if err := st.Step(one, span(q, p, p+1), span(k, p, p+1), span(v, p, p+1)); err != nil {
				return rates, false, err
			}
			times[i] = append(times[i], time.Since(start).Seconds())
		}
	}
	tokens, heads := float64(n-rateSteps), float64(len(c.Heads))
	rates = DecodeRates{Exact: median(times[0]) / (float64(n) * heads), Centroid: median(times[1]) / reads,
		ReadExact: reading[0] / (tokens * tokens / 2 * heads), ReadCentroid: reading[1] / (tokens * readReading)}
	return rates, true, nil
}

func medianRates(list []DecodeRates) DecodeRates {
	one := func(get func(DecodeRates) float64) float64 {
		x := make([]float64, len(list))
		for i, r := range list {
			x[i] = get(r)
		}
		return median(x)
	}
	return DecodeRates{one(func(r DecodeRates) float64 { return r.Exact }),
		one(func(r DecodeRates) float64 { return r.Centroid }),
		one(func(r DecodeRates) float64 { return r.ReadExact }),
		one(func(r DecodeRates) float64 { return r.ReadCentroid })}
}

// median returns the upper median of x. It sorts x in place.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// record holds the queries, keys, values and outputs of the heads of some layers, laid out as
// [layer·head][passage][token][dim]. Passages are the batch, so choose sees the heads of all layers as one sequence.
type record struct {
	first, layers int
	q, k, v, out  attention.Seq[float32]
}

// recorded reads the texts, which must have the same length, with exact attention. It calls use with the record of
// consecutive layers, as many at a time as recordBytes allows, until all layers are done. The next call overwrites
// the record.
func (d *Decoder) recorded(ctx context.Context, texts [][]int32, use func(*record) error) error {
	c := d.model.Config()
	n := len(texts[0])
	bytes := 4 * 2 * (c.Heads + c.KVHeads) * c.HeadDim * n * len(texts)
	most := max(1, min(c.Layers, recordBytes/bytes))
	r := &record{q: headsFirst(most*c.Heads, len(texts), n, c.HeadDim),
		k:   headsFirst(most*c.KVHeads, len(texts), n, c.HeadDim),
		v:   headsFirst(most*c.KVHeads, len(texts), n, c.HeadDim),
		out: headsFirst(most*c.Heads, len(texts), n, c.HeadDim)}
	for ; r.first < c.Layers; r.first += r.layers {
		r.layers = min(most, c.Layers-r.first)
		r.q.Heads, r.out.Heads = r.layers*c.Heads, r.layers*c.Heads
		r.k.Heads, r.v.Heads = r.layers*c.KVHeads, r.layers*c.KVHeads
		for i, ids := range texts {
			if err := d.recordText(ctx, r, i, ids); err != nil {
				return err
			}
		}
		if err := use(r); err != nil {
			return err
		}
	}
	return nil
}

// headsFirst allocates a sequence with the layout of a record.
func headsFirst(heads, batch, n, dim int) attention.Seq[float32] {
	return attention.Seq[float32]{Shape: attention.Shape{Batch: batch, Heads: heads, Len: n, Dim: dim},
		Data: make([]float32, heads*batch*n*dim), StrideH: batch * n * dim, StrideB: n * dim, StrideL: dim}
}

// recordText reads one passage and copies the inputs and outputs of the layers of r into r.
func (d *Decoder) recordText(ctx context.Context, r *record, text int, ids []int32) error {
	exact := d.model.Exact()
	s, err := d.model.NewSession(func(l int) (decoder.State, error) {
		st, err := exact(l)
		if err != nil || l < r.first || l >= r.first+r.layers {
			return st, err
		}
		return &recorder{st, r, l - r.first, text}, nil
	})
	if err != nil {
		return err
	}
	for len(ids) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(512, len(ids))
		if _, err := s.Append(ids[:n]...); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// layer returns the queries, keys and values of one layer and one passage.
func (r *record) layer(layer, text int) (q, k, v attention.Seq[float32]) {
	return r.part(r.q, layer, text), r.part(r.k, layer, text), r.part(r.v, layer, text)
}

// part cuts one layer (counted from r.first) and one passage out of x, a field of r.
func (r *record) part(x attention.Seq[float32], layer, text int) attention.Seq[float32] {
	heads := x.Heads / r.layers
	x.Data, x.Heads, x.Batch = x.Data[layer*heads*x.StrideH+text*x.StrideB:], heads, 1
	return x
}

// span is positions lo to hi−1 of x.
func span(x attention.Seq[float32], lo, hi int) attention.Seq[float32] {
	x.Data, x.Len = x.Data[lo*x.StrideL:], hi-lo
	return x
}

// recorder is a state that copies its inputs and outputs into a record.
type recorder struct {
	decoder.State
	r           *record
	layer, text int
}

// Step implements decoder.State.
func (s *recorder) Step(out, q, k, v attention.Seq[float32]) error {
	at := s.Len()
	if err := s.State.Step(out, q, k, v); err != nil {
		return err
	}
	for _, x := range []struct{ dst, src attention.Seq[float32] }{{s.r.q, q}, {s.r.k, k}, {s.r.v, v}, {s.r.out, out}} {
		dst := span(s.r.part(x.dst, s.layer, s.text), at, at+x.src.Len)
		for h := range x.src.Heads {
			from, to := x.src.Head(0, h), dst.Head(0, h)
			for l := range from.Rows {
				copy(to.Row(l), from.Row(l))
			}
		}
	}
	return nil
}

package main

import (
	"math"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
)

// encoderMethods returns the bidirectional methods to compare, in the order of the table.
func encoderMethods() []method {
	const d = 32
	list := []method{exact(false), uniform(), window(16), window(64),
		features("positive", family.Positive{}, 256, 0, 0, d),
		features("oprf", family.OPRF{}, 256, 0, 0, d),
		features("adaptive", family.Adaptive{}, 64, 0, 0, d),
		features("adaptive", family.Adaptive{}, 256, 0, 0, d),
		features("adaptive", family.Adaptive{}, 64, 32, 0, d),
		features("adaptive", family.Adaptive{}, 64, 32, 4, d),
		features("adaptive", family.Adaptive{}, 128, 32, 4, d),
	}
	for _, s := range []spec{
		{Clusters: 16, Queries: 128, Keys: 16}, {Clusters: 16, Queries: 128, Keys: 64},
		{Clusters: 16, Queries: 64, Keys: 64}, {Clusters: 32, Queries: 64, Keys: 64},
		{Clusters: 32, Queries: 64, Keys: 128}, {Clusters: 16, Queries: 64, Keys: 192},
	} {
		s.Sample, s.Passes = 8*s.Clusters, 1
		list = append(list, fitted("blocks, centroids and exact keys", s, d))
	}
	return list
}

// runEncoder measures every method on every passage that the results lack. Head errors use the inputs that each layer
// gets with exact attention, so they exclude errors of earlier layers. The cosine comes from a run with all heads
// replaced, which includes them.
func runEncoder(c *config, res *results) error {
	ids, err := passages(c.weights, "minilm_test")
	if err != nil {
		return err
	}
	m, err := loadMiniLM(c.weights)
	if err != nil {
		return err
	}
	for p, tokens := range ids[:min(len(ids), c.passages)] {
		var layers []headInputs
		var want []float32
		for _, a := range encoderMethods() {
			r := record{Model: "minilm", Method: a.name, Passage: p, Lengths: []int{len(tokens)}}
			if !c.methods.MatchString(a.name) || res.has(r) {
				continue
			}
			if layers == nil {
				if want, layers, err = m.record(tokens); err != nil {
					return err
				}
			}
			start := time.Now()
			var total attention.Report
			for l, in := range layers {
				out := attention.NewSeq[float32](1, in.q.Heads, in.q.Len, in.v.Dim)
				report, err := a.forward(l, out, in.q, in.k, in.v)
				if err != nil {
					return err
				}
				total.Add(report)
				r.Errors = append(r.Errors, headErrors(out, in.out)...)
			}
			got, err := m.run(tokens, func(l int, out, q, k, v seq) error {
				_, err := a.forward(l, out, q, k, v)
				return err
			})
			if err != nil {
				return err
			}
			r.Cost = []float64{a.cost(total, len(tokens))}
			r.Cosine = cosine(got, want)
			r.Seconds = time.Since(start).Seconds()
			c.log("minilm passage %d: %-60s cost %5.1f  median error %.3f  90 %% %.3f  cosine %.4f", p, a.name,
				r.Cost[0], quantile(r.Errors, 0.5), quantile(r.Errors, 0.9), r.Cosine)
			if err := res.add(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// headErrors returns |ô−o|/|o| of every head, over all its positions.
func headErrors(got, want seq) []float64 {
	e := make([]float64, want.Heads)
	for h := range e {
		g, w := got.Head(0, h), want.Head(0, h)
		var diff, norm float64
		for i := range w.Rows {
			for j, v := range w.Row(i) {
				d := float64(g.At(i, j) - v)
				diff += d * d
				norm += float64(v) * float64(v)
			}
		}
		e[h] = math.Sqrt(diff / norm)
	}
	return e
}

func cosine(x, y []float32) float64 {
	var xy, xx, yy float64
	for i, v := range x {
		xy += float64(v) * float64(y[i])
		xx += float64(v) * float64(v)
		yy += float64(y[i]) * float64(y[i])
	}
	return xy / math.Sqrt(xx*yy)
}

package main

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/models/decoder"
)

// prefixes returns the lengths to report. Attention is causal, so one run at the longest length yields all of them.
func prefixes(length int) []int {
	var out []int
	for _, n := range []int{1024, 2048, 4096} {
		if n < length {
			out = append(out, n)
		}
	}
	return append(out, length)
}

// decoderMethod is one kind of strictly causal attention, used in all layers. At most one of tol and slots is set; with
// none of them it is exact attention. The name identifies the method in the results file.
type decoderMethod struct {
	name  string
	tol   float64            // keeps all keys; plans that choose.Choose picks with this tolerance
	slots *centroid.SlotSpec // constant memory
	// For constant memory: the name of the policy, and the memory of a key/value head in keys with their values.
	policy string
	budget int
}

var budgets = []int{256, 512, 1024}

const (
	sinks     = 4
	slotBlock = 32
)

func decoderMethods() []decoderMethod {
	list := []decoderMethod{{name: "exact"}}
	for _, tol := range []float64{0.05, 0.1} {
		list = append(list, decoderMethod{name: fmt.Sprintf("chosen by seconds, error %g", tol), tol: tol})
	}
	for _, n := range budgets {
		for _, p := range []struct {
			name string
			spec centroid.SlotSpec
		}{
			{"sinks and window (StreamingLLM)",
				centroid.SlotSpec{Window: n - sinks - slotBlock, Block: slotBlock}},
			{"heavy hitters (H2O)", centroid.SlotSpec{Decay: 1, Window: 32}},
			// Best on calibration texts among decays 0.5, 0.75 and 0.9 and windows 32 and 64.
			{"heavy hitters, decayed (like SnapKV)", centroid.SlotSpec{Decay: 0.9, Window: 64}},
		} {
			s := p.spec
			s.Budget = n
			list = append(list, decoderMethod{name: fmt.Sprintf("%d keys: %s", n, p.name), slots: &s, policy: p.name,
				budget: n})
		}
	}
	return list
}

// calibration holds the plans of every tolerance, by layer. They come from calibration texts, never from test passages.
type calibration map[float64][]*choose.Choice

// calibrate chooses the plans that the methods of the list need, on calibration texts.
func calibrate(c *config, m smollm2, list []decoderMethod) (calibration, error) {
	tols := map[float64]bool{}
	for _, a := range list {
		if a.tol > 0 {
			tols[a.tol] = true
		}
	}
	out := calibration{}
	if len(tols) == 0 {
		return out, nil
	}
	ids, err := passages(c.weights, "smollm2_cal")
	if err != nil {
		return out, err
	}
	n := min(c.calibration, len(ids))
	q, k, v := make([][]seq, m.Config().Layers), make([][]seq, m.Config().Layers), make([][]seq, m.Config().Layers)
	for p := range n {
		start := time.Now()
		layers, _, err := m.record(ids[p], allLayers)
		if err != nil {
			return out, err
		}
		for l, in := range layers {
			q[l], k[l], v[l] = append(q[l], in.q), append(k[l], in.k), append(v[l], in.v)
		}
		c.log("calibration passage %d: %.0f s", p, time.Since(start).Seconds())
	}
	for tol := range tols {
		start, exact, heads := time.Now(), 0, 0
		for l := range q {
			chosen, err := choose.Choose(choose.Options{Tol: tol, Seed: 1}, attention.Visibility{Causal: true}, 0,
				batches(q[l]), batches(k[l]), batches(v[l]))
			if err != nil {
				return out, fmt.Errorf("layer %d: %w", l, err)
			}
			for _, h := range chosen.Heads {
				heads++
				if h.Method == choose.Exact {
					exact++
				}
			}
			out[tol] = append(out[tol], chosen)
		}
		c.log("chose plans with tolerance %g, %d of %d key/value heads stay exact: %.1f s", tol, exact, heads,
			time.Since(start).Seconds())
	}
	return out, nil
}

// pass runs one method on one passage.
type pass struct {
	method  decoderMethod
	learned calibration
	lengths []int
}

// memory returns the function that makes the attention state of a layer, nil for exact attention.
func (p *pass) memory(m smollm2) func(l int) (decoder.State, error) {
	c := m.Config()
	if p.method.slots == nil && p.method.tol == 0 {
		return nil
	}
	return func(l int) (decoder.State, error) {
		var st decoder.State
		var err error
		if a := &p.method; a.slots != nil {
			st, err = centroid.NewSlots([]centroid.SlotSpec{*a.slots}, 0,
				attention.Shape{Batch: 1, Heads: c.Heads, Dim: c.HeadDim},
				attention.Shape{Batch: 1, Heads: c.KVHeads, Dim: c.HeadDim})
		} else {
			chosen, err := choose.New(p.learned[a.tol][l])
			if err != nil {
				return nil, err
			}
			st = p.kept(m, chosen.Forward)
		}
		return st, err
	}
}

// kept returns a state that keeps all keys of the passage and calls forward on them in every step.
func (p *pass) kept(m smollm2, forward func(out, q, k, v seq) (attention.Report, error)) decoder.State {
	c := m.Config()
	all := newSample(c.KVHeads, 1, p.lengths[len(p.lengths)-1], c.HeadDim)
	return &keptState{forward: forward, k: all.k, v: all.v}
}

// cost returns the cost of a token at length i, in units of one random feature. Chosen plans have their
// predicted cost, and constant memory its full budget.
func (p *pass) cost(i, dim int) float64 {
	switch a := &p.method; {
	case a.slots != nil:
		return float64(a.slots.Budget) / 2
	case a.tol > 0:
		cost, heads := 0.0, 0.0
		for _, layer := range p.learned[a.tol] {
			for _, h := range layer.Heads {
				cost, heads = cost+h.Plan.Cost(true, p.lengths[i], dim, dim), heads+1
			}
		}
		return cost / heads
	}
	return float64(p.lengths[i]) / 2
}

// runDecoder measures every method on every passage that the results lack, c.jobs passages in parallel.
func runDecoder(c *config, res *results) error {
	ids, err := passages(c.weights, "smollm2_test")
	if err != nil {
		return err
	}
	ids = ids[:min(len(ids), c.passages)]
	lengths := prefixes(min(c.length, len(ids[0])))
	var todo []record
	var list []decoderMethod
	for _, a := range decoderMethods() {
		any := false
		for p := range ids {
			r := record{Model: "smollm2", Method: a.name, Passage: p, Lengths: lengths}
			if c.methods.MatchString(a.name) && !res.has(r) {
				todo, any = append(todo, r), true
			}
		}
		if any {
			list = append(list, a)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	m, err := loadSmolLM2(c.weights)
	if err != nil {
		return err
	}
	found, err := calibrate(c, m, list)
	if err != nil {
		return err
	}
	byName := map[string]decoderMethod{}
	for _, a := range list {
		byName[a.name] = a
	}
	work := make(chan record)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range max(1, c.jobs) {
		wg.Go(func() {
			for r := range work {
				if err := measure(c, m, &pass{method: byName[r.Method], learned: found, lengths: lengths},
					ids[r.Passage], r, res); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	for _, r := range todo {
		work <- r
	}
	close(work)
	wg.Wait()
	return failed
}

// measure runs one method on one passage and adds a record with the mean loss and the cost at every length.
func measure(c *config, m smollm2, p *pass, ids []int32, r record, res *results) error {
	start := time.Now()
	ids = ids[:p.lengths[len(p.lengths)-1]]
	loss, err := m.run(ids, p.memory(m))
	if err != nil {
		return fmt.Errorf("%s: %w", r.Method, err)
	}
	line := ""
	for i, n := range p.lengths {
		sum := 0.0
		for _, v := range loss[:n-1] {
			sum += v
		}
		r.Loss = append(r.Loss, sum/float64(n-1))
		r.Cost = append(r.Cost, p.cost(i, m.Config().HeadDim))
		line += fmt.Sprintf("  %d: %.3f (%.0f)", n, math.Exp(r.Loss[i]), r.Cost[i])
	}
	r.Seconds = time.Since(start).Seconds()
	c.log("smollm2 passage %d: %-60s perplexity (cost)%s  %.0f s", r.Passage, r.Method, line, r.Seconds)
	return res.add(r)
}

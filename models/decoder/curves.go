package decoder

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/models/internal/nn"
)

// Curves hold the loss of every key/value head when it remembers a context in few slots. [Model.Curves] measures them
// once per model: the errors of a head hardly differ between texts, but they differ much between heads.
type Curves struct {
	Context int `json:"context"` // tokens that were shrunk
	After   int `json:"after"`   // tokens behind the context on which the errors were measured
	Texts   int `json:"texts"`
	// Slots are the measured numbers of slots, ascending. Compact[layer][head][i] is the error with Slots[i] slots:
	// the mean of |W_o(ô−o)|² over the tokens behind the context, divided by the mean of |W_o o|² of the layer. ô is
	// the head's output with slots, o without, and W_o the output projection.
	Slots   []int         `json:"slots"`
	Compact [][][]float64 `json:"compact"`
	// Keys are the measured budgets of sessions of constant memory; Constant has their errors in the same form.
	Keys     []int         `json:"keys"`
	Constant [][][]float64 `json:"constant"`
	// Weight[layer] converts errors into loss: nats of Kullback-Leibler divergence of the next token per unit of
	// error.
	Weight []float64 `json:"weight"`
}

const (
	// weightSlots is the number of slots at which Weight is measured.
	weightSlots = 64
	// weightEvery is the distance of the tokens on which the divergence is computed.
	weightEvery = 4
	// leastSlots is the smallest budget of a compacted head.
	leastSlots = 8
	// mostShare is the largest budget of a head that does not keep all keys, as a share of the context. Beyond it,
	// keeping all keys is hardly larger and exact.
	mostShare = 0.75
)

// CurveSlots and CurveKeys are the budgets for which errors are measured.
var (
	CurveSlots = []int{16, 32, 64, 128, 256, 512}
	CurveKeys  = []int{64, 128, 256, 512, 1024}
)

// ConstantSpec says how a head of a session of constant memory divides its budget: it keeps the first four keys, the
// latest ones, and of the others those that received the most attention, with decay (as in SnapKV: Li et al. 2024,
// arXiv:2404.14469).
func ConstantSpec(keys int) centroid.SlotSpec {
	s := centroid.SlotSpec{Budget: keys, Decay: 0.9, Window: 64, Block: 32}
	if keys < 2*(4+64+32) {
		s.Window, s.Block, s.Decay = 16, 16, 0.95
	}
	return s
}

// LeastConstant is the smallest budget that ConstantSpec accepts.
const LeastConstant = 48

// Curves reads the texts, all of the same length, and measures what the heads lose on the last after tokens of each
// when the tokens before them are remembered in few slots. done, if not nil, is called with the number of texts so
// far.
func (m *Model) Curves(ctx context.Context, texts [][]int32, after int, done func(text int)) (*Curves, error) {
	if len(texts) == 0 || after < weightEvery || after > chunk {
		return nil, fmt.Errorf("%d texts, %d tokens after the context; want at least 1 and %d to %d: %w", len(texts),
			after, weightEvery, chunk, dense.ErrShape)
	}
	c := &Curves{Context: len(texts[0]) - after, After: after, Texts: len(texts)}
	for _, t := range CurveSlots {
		if t <= c.Context/4 {
			c.Slots = append(c.Slots, t)
		}
	}
	for _, t := range CurveKeys {
		if t <= c.Context/2 {
			c.Keys = append(c.Keys, t)
		}
	}
	if len(c.Slots) < 3 || len(c.Keys) < 2 || m.config.SlidingWindow > 0 {
		return nil, fmt.Errorf("a context of %d tokens and a window of %d: want at least %d and none", c.Context,
			m.config.SlidingWindow, 4*CurveSlots[2])
	}
	layers, kv := len(m.blocks), m.config.KVHeads
	c.Compact, c.Constant = cube(layers, kv, len(c.Slots)), cube(layers, kv, len(c.Keys))
	c.Weight = make([]float64, layers)
	for i, ids := range texts {
		if len(ids) != len(texts[0]) {
			return nil, fmt.Errorf("texts of %d and %d tokens: %w", len(ids), len(texts[0]), dense.ErrShape)
		}
		if err := m.addCurves(ctx, c, ids); err != nil {
			return nil, err
		}
		if done != nil {
			done(i + 1)
		}
	}
	for l := range layers {
		c.Weight[l] /= float64(c.Texts)
		for _, list := range [][][]float64{c.Compact[l], c.Constant[l]} {
			for h := range list {
				for i := range list[h] {
					list[h][i] /= float64(c.Texts)
				}
			}
		}
	}
	// So far Weight has the mean divergence with weightSlots slots in all heads of the layer. Divide it by the sum
	// of their errors.
	at := slices.Index(c.Slots, weightSlots)
	for l := range layers {
		var sum float64
		for _, e := range c.Compact[l] {
			sum += e[at]
		}
		if sum > 0 {
			c.Weight[l] /= sum
		}
	}
	return c, nil
}

// cube allocates [a][b][c]float64.
func cube(a, b, c int) [][][]float64 {
	x := make([][][]float64, a)
	for i := range x {
		x[i] = make([][]float64, b)
		for j := range x[i] {
			x[i][j] = make([]float64, c)
		}
	}
	return x
}

// addCurves adds the errors of one text to c.Compact and c.Constant, and the divergences to c.Weight.
//
//  1. Read the context with exact attention. Every layer has a shadow: states of constant memory that see the same
//     queries, keys and values.
//  2. Compact the context to every number of slots and add these states to the shadows (shrinkShadows).
//  3. Read the remaining tokens. The shadows add up the errors of their states, and inputs keeps the input of each
//     layer.
//  4. For every layer l: start from inputs[l] with weightSlots slots in layer l and exact states in the later
//     layers, run the rest of the model, and compare the distributions of the next token with those of exact
//     attention.
func (m *Model) addCurves(ctx context.Context, c *Curves, ids []int32) error {
	shadows := make([]*shadow, len(m.blocks))
	exact := m.exactHeads()
	s, err := m.NewSession(func(l int) (State, error) {
		shadows[l] = &shadow{State: exact(m.config.Heads, m.config.KVHeads), model: m, layer: l}
		for _, keys := range c.Keys {
			o, err := m.slots([]centroid.SlotSpec{ConstantSpec(keys)})
			if err != nil {
				return nil, err
			}
			shadows[l].others = append(shadows[l].others, o)
		}
		return shadows[l], nil
	})
	if err != nil {
		return err
	}
	s.KeepQueries()
	for lo := 0; lo < c.Context; lo += chunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := s.step(ids[lo:min(lo+chunk, c.Context)]); err != nil {
			return err
		}
	}
	before, alone, err := s.shrinkShadows(shadows, c.Slots)
	if err != nil {
		return err
	}
	s.queries = nil
	inputs := make([]nn.Matrix, len(m.blocks))
	s.before = func(l int, x nn.Matrix) { inputs[l] = x.Clone() }
	x, err := s.step(ids[c.Context:])
	if err != nil {
		return err
	}
	for l, sh := range shadows {
		for h := range m.config.KVHeads {
			for i := range c.Keys {
				c.Constant[l][h][i] += sh.share(i, h)
			}
			for i := range c.Slots {
				c.Compact[l][h][i] += sh.share(len(c.Keys)+i, h)
			}
		}
	}
	want := s.logSoftmax(x)
	t := &Session{model: m, work: newWork(m)}
	for l := range m.blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		var shared *halfWork
		t.states, t.length = make([]State, len(m.blocks)), c.Context
		t.states[l] = alone[l]
		for j := l + 1; j < len(m.blocks); j++ {
			t.states[j] = forkState(before[j], &shared)
		}
		if err := t.layers(l, inputs[l]); err != nil {
			return err
		}
		c.Weight[l] += divergence(want, t.logSoftmax(inputs[l]))
	}
	return nil
}

// slots makes the state of a layer of constant memory.
func (m *Model) slots(specs []centroid.SlotSpec) (State, error) {
	c := &m.config
	st, err := centroid.NewSlots(specs, 0, attention.Shape{Batch: 1, Heads: c.Heads, Dim: c.HeadDim},
		attention.Shape{Batch: 1, Heads: c.KVHeads, Dim: c.HeadDim})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Constant returns a function that makes the states of one session of constant memory, with budget(layer, head) keys
// per key/value head.
func (m *Model) Constant(budget func(layer, head int) int) func(layer int) (State, error) {
	return func(l int) (State, error) {
		specs := make([]centroid.SlotSpec, m.config.KVHeads)
		for h := range specs {
			specs[h] = ConstantSpec(budget(l, h))
		}
		return m.slots(specs)
	}
}

// shrinkShadows compacts the context to the given numbers of slots and adds the results to the shadows, which count
// errors from now on. It returns forks of the exact states, and states with weightSlots slots, one per layer each.
func (s *Session) shrinkShadows(shadows []*shadow, slots []int) (before, alone []State, err error) {
	c := &s.model.config
	examples := s.queries.examples(c.RopeFreqs)
	heads := make([][]centroid.CompactHead, len(shadows)*c.KVHeads)
	errs := make([]error, len(heads))
	par.Each(len(heads), par.Workers(len(heads), 1), func(_, i int) {
		l, h := i/c.KVHeads, i%c.KVHeads
		k, v := shadows[l].State.(keeper).head(h)
		heads[i], errs[i] = centroid.CompactEach(k, v, s.headExamples(examples, l, h), 0, slots...)
	})
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	var shared *halfWork
	for l, sh := range shadows {
		before = append(before, forkState(sh.State, &shared))
		for i, t := range slots {
			list := make([]centroid.CompactHead, c.KVHeads)
			for h := range list {
				list[h] = heads[l*c.KVHeads+h][i]
			}
			st, err := centroid.NewCompacted(list, c.Heads, s.length, 0)
			if err != nil {
				return nil, nil, err
			}
			sh.others = append(sh.others, st)
			if t == weightSlots {
				alone = append(alone, st.Fork())
			}
		}
		sh.count()
	}
	return before, alone, nil
}

// shadow is an exact state with followers: others see its queries, keys and values, and shadow adds up their errors.
// The session itself only sees the exact output.
type shadow struct {
	State
	model    *Model
	layer    int
	others   []State
	diff     [][]float64 // [other][key/value head] Σ|W_o(ô−o)|²; nil: not counting yet
	size     float64     // Σ|W_o o|²
	own, dst nn.Matrix
	mul      nn.Mul
}

// count starts the counting of errors.
func (s *shadow) count() {
	for range s.others {
		s.diff = append(s.diff, make([]float64, s.model.config.KVHeads))
	}
}

// share returns the error of one follower in one key/value head, relative to the output of the layer.
func (s *shadow) share(other, head int) float64 {
	if s.size == 0 {
		return 0
	}
	return s.diff[other][head] / s.size
}

// Step implements State. To measure the error of one key/value head, it projects a row that is zero outside of the
// query heads of that group.
func (s *shadow) Step(out, q, k, v attention.Seq[float32]) error {
	if err := s.State.Step(out, q, k, v); err != nil {
		return err
	}
	c := &s.model.config
	s.own = buf.Shaped(s.own, q.Len, c.Heads*c.HeadDim)
	if s.diff != nil {
		for l := range q.Len {
			for h := range c.Heads {
				copy(s.own.Row(l)[h*c.HeadDim:], out.Head(0, h).Row(l))
			}
		}
		s.size += s.projected()
	}
	width := c.HeadDim * (c.Heads / c.KVHeads)
	got := nn.Matrix{}
	for i, o := range s.others {
		got = buf.Shaped(got, q.Len, c.Heads*c.HeadDim)
		if err := o.Step(nn.Heads(got, c.Heads, c.HeadDim), q, k, v); err != nil {
			return err
		}
		if s.diff == nil {
			continue
		}
		for h := range c.KVHeads {
			clear(s.own.Data)
			for l := range q.Len {
				for j := h * width; j < (h+1)*width; j++ {
					s.own.Row(l)[j] = got.Row(l)[j] - out.Head(0, j/c.HeadDim).Row(l)[j%c.HeadDim]
				}
			}
			s.diff[i][h] += s.projected()
		}
	}
	return nil
}

// projected returns Σ|W_o x|² over the rows x of s.own.
func (s *shadow) projected() (sum float64) {
	s.dst = buf.Shaped(s.dst, s.own.Rows, s.model.config.Hidden)
	s.mul.Do(s.model.kernels, s.dst, s.own, s.model.blocks[s.layer].out)
	for i := range s.dst.Rows {
		sum += s.model.kernels.Table.Norm2(s.dst.Row(i))
	}
	return sum
}

// logSoftmax returns log p of the next token for every weightEvery-th row of x, the output of the last layer.
func (s *Session) logSoftmax(x nn.Matrix) nn.Matrix {
	w, c, t := s.work, &s.model.config, s.model.kernels.Table
	n := (x.Rows + weightEvery - 1) / weightEvery
	h, out := dense.New[float32](n, c.Hidden), dense.New[float32](n, c.Vocab)
	for i := range n {
		w.k.Model.RMSNorm(h.Row(i), x.Row(i*weightEvery), s.model.norm, w.eps)
	}
	w.mul.Do(w.k, out, h, s.model.output)
	nn.Rows(n, 1, func(lo, hi int) {
		row := make([]float32, c.Vocab)
		for i := lo; i < hi; i++ {
			copy(row, out.Row(i))
			top := t.Max(row)
			shift := top + float32(math.Log(float64(t.ExpSum(row, top))))
			for j := range row {
				out.Row(i)[j] -= shift
			}
		}
	})
	return out
}

// divergence returns the mean of KL(p‖q) over rows of log-probabilities. Terms with p < e⁻²⁵ are left out.
func divergence(p, q nn.Matrix) float64 {
	sums := make([]float64, p.Rows)
	nn.Rows(p.Rows, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for j, x := range p.Row(i) {
				if x > -25 {
					sums[i] += math.Exp(float64(x)) * float64(x-q.Row(i)[j])
				}
			}
		}
	})
	var mean float64
	for _, x := range sums {
		mean += x / float64(p.Rows)
	}
	return max(0, mean)
}

// curve is log E of a head as a function of log t, the slots. It is linear between the measured points and never
// increases. Beyond its ends it continues with the slope there, kept within bounds.
type curve struct{ t, e []float64 }

// newCurve makes the errors monotone: more slots never count as worse than fewer.
func newCurve(t []int, e []float64) curve {
	var c curve
	low := math.Inf(1)
	for i, n := range t {
		low = min(low, e[i])
		c.t, c.e = append(c.t, math.Log(float64(n))), append(c.e, math.Log(low+1e-9))
	}
	return c
}

// at returns E for t slots.
func (c *curve) at(t float64) float64 {
	x, n := math.Log(t), len(c.t)
	slope := func(i, j int) float64 { return (c.e[j] - c.e[i]) / (c.t[j] - c.t[i]) }
	switch {
	case x <= c.t[0]:
		return math.Exp(c.e[0] + min(-0.2, max(-2, slope(0, 1)))*(x-c.t[0]))
	case x >= c.t[n-1]:
		return math.Exp(c.e[n-1] + min(-0.3, max(-4, slope(max(0, n-3), n-1)))*(x-c.t[n-1]))
	}
	i, _ := slices.BinarySearch(c.t, x)
	return math.Exp(c.e[i-1] + slope(i-1, i)*(x-c.t[i-1]))
}

// Check returns an error if the curves do not belong to a model of this shape. Files are read with it.
func (c *Curves) Check(layers, kvHeads int) error {
	bad := func(what string) error { return fmt.Errorf("budgets: %s", what) }
	if c.Context < 1 || c.Context > 1<<31 || len(c.Weight) != layers {
		return bad(fmt.Sprintf("a context of %d tokens, weights of %d layers, the model has %d", c.Context,
			len(c.Weight), layers))
	}
	for _, x := range []struct {
		t []int
		e [][][]float64
	}{{c.Slots, c.Compact}, {c.Keys, c.Constant}} {
		if len(x.e) != layers || len(x.t) < 2 || !slices.IsSorted(x.t) || x.t[0] < 1 {
			return bad(fmt.Sprintf("errors of %d layers at %d numbers of slots, want %d layers and at least 2 ascending "+
				"numbers", len(x.e), len(x.t), layers))
		}
		for i := range x.t[1:] {
			if x.t[i] == x.t[i+1] {
				return bad(fmt.Sprintf("the number of slots %d occurs twice", x.t[i]))
			}
		}
		for l := range x.e {
			if len(x.e[l]) != kvHeads {
				return bad(fmt.Sprintf("layer %d has errors of %d heads, the model has %d", l, len(x.e[l]), kvHeads))
			}
			for h, e := range x.e[l] {
				if len(e) != len(x.t) || !(slices.Min(e) >= 0) || !(slices.Max(e) < 1e9) {
					return bad(fmt.Sprintf("layer %d, head %d: want %d errors between 0 and 1e9", l, h, len(x.t)))
				}
			}
		}
	}
	if !(slices.Min(c.Weight) >= 0) || !(slices.Max(c.Weight) < 1e9) {
		return bad("the weight of a layer is not between 0 and 1e9")
	}
	return nil
}

// Budgets are the slots of the key/value heads, layer by layer, for [Session.Compact] and [Model.Constant].
type Budgets struct {
	Slots [][]int
	// Loss is the expected Kullback-Leibler divergence of the next token's distribution from the one with the full
	// context, in nats. The perplexity is expected to grow by the factor e^Loss.
	Loss float64
}

// At returns the budget of a head.
func (b Budgets) At(layer, head int) int { return b.Slots[layer][head] }

// Compacted returns the budgets with the smallest expected loss for a context of so many tokens and mean slots per
// head. Heads that lose much keep all keys.
func (c *Curves) Compacted(tokens int, mean float64) Budgets {
	return c.share(c.Slots, c.Compact, tokens, mean, leastSlots, true)
}

// ConstantFor returns the budgets of constant memory with the smallest expected loss after so many tokens.
func (c *Curves) ConstantFor(tokens int, mean float64) Budgets {
	return c.share(c.Keys, c.Constant, tokens, mean, LeastConstant, false)
}

// share minimises Σ κ_l E[l,h](t·C₀/C) + μ Σ t over the budgets t of the heads. κ is Weight, C₀ the measured context
// and C the actual one: a share of the context is assumed to lose the same at any length. μ is the price of a slot.
// For a fixed price every head picks its best t on a grid, independently; bisection finds the price at which the
// mean of t is right. If exact is set, a head may keep all tokens, which costs t = tokens and loses nothing.
func (c *Curves) share(at []int, errs [][][]float64, tokens int, mean float64, least int, exact bool) Budgets {
	scale := float64(c.Context) / float64(tokens)
	var grid []int
	const points = 60
	most := max(float64(least), mostShare*float64(tokens))
	for i := range points + 1 {
		t := int(math.Round(float64(least) * math.Pow(most/float64(least), float64(i)/points)))
		if len(grid) == 0 || t > grid[len(grid)-1] {
			grid = append(grid, t)
		}
	}
	if exact && tokens > grid[len(grid)-1] {
		grid = append(grid, tokens)
	}
	var loss [][]float64 // by head and grid
	curves := make([]curve, 0, len(errs)*len(errs[0]))
	for l := range errs {
		for _, e := range errs[l] {
			k := newCurve(at, e)
			f := make([]float64, len(grid))
			for i, t := range grid {
				if t < tokens {
					f[i] = c.Weight[l] * k.at(float64(t)*scale)
				}
			}
			loss, curves = append(loss, f), append(curves, k)
		}
	}
	pick := func(price float64) (list []int, sum float64) {
		for _, f := range loss {
			best := 0
			for i, t := range grid {
				if f[i]+price*float64(t) < f[best]+price*float64(grid[best]) {
					best = i
				}
			}
			list, sum = append(list, grid[best]), sum+float64(grid[best])
		}
		return list, sum / float64(len(loss))
	}
	lo, hi := 1e-16, 1e4 // at price lo the heads take too many slots, at price hi few enough
	for range 100 {
		mid := math.Sqrt(lo * hi)
		if _, m := pick(mid); m > mean {
			lo = mid
		} else {
			hi = mid
		}
	}
	list, _ := pick(hi)
	// The grid is coarse, so the mean is still below the target: scale all budgets but the full ones up to it.
	var kept, some float64
	for _, t := range list {
		if exact && t >= tokens {
			kept += float64(t)
		} else {
			some += float64(t)
		}
	}
	b := Budgets{}
	kv := len(errs[0])
	for i, t := range list {
		if !exact || t < tokens {
			t = max(least, int(float64(t)*(mean*float64(len(list))-kept)/some))
			if exact {
				t = min(t, tokens)
			}
		}
		if i%kv == 0 {
			b.Slots = append(b.Slots, nil)
		}
		b.Slots[i/kv] = append(b.Slots[i/kv], t)
		if t < tokens {
			b.Loss += c.Weight[i/kv] * curves[i].at(float64(t)*scale)
		}
	}
	return b
}

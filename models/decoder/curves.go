package decoder

import (
	"context"
	"errors"
	"fmt"
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
	// Weight[layer] converts errors into loss: nats of Kullback-Leibler divergence of the next token per unit of
	// error.
	Weight []float64 `json:"weight"`
}

const (
	// weightSlots is the number of slots at which Weight is measured.
	weightSlots = 64
	// weightEvery is the distance of the tokens on which the divergence is computed.
	weightEvery = 4
)

// CurveSlots are the budgets for which errors are measured.
var CurveSlots = []int{16, 32, 64, 128, 256, 512}

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
	if len(c.Slots) < 3 || m.config.SlidingWindow > 0 {
		return nil, fmt.Errorf("a context of %d tokens and a window of %d: want at least %d and none", c.Context,
			m.config.SlidingWindow, 4*CurveSlots[2])
	}
	layers, kv := len(m.blocks), m.config.KVHeads
	c.Compact = cube(layers, kv, len(c.Slots))
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
		for _, e := range c.Compact[l] {
			for i := range e {
				e[i] /= float64(c.Texts)
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

// addCurves adds the errors of one text to c.Compact, and the divergences to c.Weight.
//
//  1. Read the context with exact attention. The state of every layer is a shadow.
//  2. Compact the context to every number of slots and add these states to the shadows (shrinkShadows).
//  3. Read the remaining tokens. The shadows add up the errors of their states, which see the same queries, keys and
//     values, and inputs keeps the input of each layer.
//  4. For every layer l: start from inputs[l] with weightSlots slots in layer l and exact states in the later
//     layers, run the rest of the model, and compare the distributions of the next token with those of exact
//     attention.
func (m *Model) addCurves(ctx context.Context, c *Curves, ids []int32) error {
	shadows := make([]*shadow, len(m.blocks))
	exact := m.exactHeads()
	s, err := m.NewSession(func(l int) (State, error) {
		shadows[l] = &shadow{State: exact(m.config.Heads, m.config.KVHeads), model: m, layer: l}
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
			for i := range c.Slots {
				c.Compact[l][h][i] += sh.share(i, h)
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

// shrinkShadows compacts the context to the given numbers of slots and adds the results to the shadows, which count
// their errors from now on. It returns forks of the exact states, and states with weightSlots slots, one per layer
// each.
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
			sh.others, sh.diff = append(sh.others, st), append(sh.diff, make([]float64, c.KVHeads))
			if t == weightSlots {
				alone = append(alone, st.Fork())
			}
		}
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
	diff     [][]float64 // [other][key/value head] Σ|W_o(ô−o)|²
	size     float64     // Σ|W_o o|²
	own, dst nn.Matrix
	mul      nn.Mul
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
	if err := s.State.Step(out, q, k, v); err != nil || s.others == nil {
		return err
	}
	c := &s.model.config
	s.own = buf.Shaped(s.own, q.Len, c.Heads*c.HeadDim)
	for l := range q.Len {
		for h := range c.Heads {
			copy(s.own.Row(l)[h*c.HeadDim:], out.Head(0, h).Row(l))
		}
	}
	s.size += s.projected()
	width := c.HeadDim * (c.Heads / c.KVHeads)
	got := nn.Matrix{}
	for i, o := range s.others {
		got = buf.Shaped(got, q.Len, c.Heads*c.HeadDim)
		if err := o.Step(nn.Heads(got, c.Heads, c.HeadDim), q, k, v); err != nil {
			return err
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

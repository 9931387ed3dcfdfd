package decoder

import (
	"fmt"
	"math"
	"runtime"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/models/internal/nn"
	"github.com/randfeat/randfeat/models/weights"
)

// Session is a text in progress. Its states hold the tokens read so far. It must not be used by concurrent calls.
type Session struct {
	model   *Model
	states  []State
	length  int
	work    *work
	queries *references // examples kept for Compact; nil: none

	before func(layer int, x nn.Matrix) // called with the input of every layer, for Model.Curves; nil: not called
}

// work is the scratch memory of the steps of a session. Every session and every fork has its own.
type work struct {
	x, y, h, qkv, wide, logits []float32
	cos, sin                   []float32
	mul                        nn.Mul

	// Arguments of the loops below. The loops are methods bound once in newWork and take their arguments from here,
	// so that reading a token allocates nothing.
	k            nn.Kernels
	c            *shape
	weight       []float32
	xm, ym, hm   nn.Matrix
	qkvm, widem  nn.Matrix
	eps          float32
	norm, add    func(lo, hi int)
	rotate, gate func(lo, hi int)

	// For steps of many tokens: goroutines take blocks of rows through the part of a layer before its attention
	// (before), and then through the part after it (after). Each uses a product (own) with scratch memory of its
	// own.
	ids           []int32
	first         int // position of the first token
	freqs         []float64
	turned        float64 // length of a rotated unit vector
	words         *weights.Tensor
	block         *block
	rows          int // rows of one item of work
	load, angles  func(lo, hi int)
	before, after func(lo, hi int)
	own           par.Pool[nn.Mul]
	outm          nn.Matrix
}

// shape has the sizes of the configuration that the loops need.
type shape struct{ heads, kvHeads, dim, ffn int }

// NewSession starts a text. memory makes the state of the heads of a layer; nil means exact attention.
func (m *Model) NewSession(memory func(layer int) (State, error)) (*Session, error) {
	s := &Session{model: m, work: newWork(m)}
	if memory == nil {
		memory = m.Exact()
	}
	for l := range m.blocks {
		st, err := memory(l)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
		s.states = append(s.states, st)
	}
	return s, nil
}

// Exact returns the memory of exact attention for one session: for memories that wrap its states.
func (m *Model) Exact() func(layer int) (State, error) {
	exact := m.exactHeads()
	return func(int) (State, error) { return exact(m.config.Heads, m.config.KVHeads), nil }
}

// exactHeads returns a function that makes the exact states of one session, each for some heads of a layer. Keys and
// values are float32, or half precision in a quantised model. Layers run one after the other, so all states of half
// precision of the session share one scratch memory.
func (m *Model) exactHeads() func(heads, kvHeads int) State {
	c := &m.config
	var shared *halfWork
	return func(heads, kvHeads int) State {
		if !m.quantised {
			return newExact(heads, kvHeads, c.HeadDim, c.SlidingWindow)
		}
		if shared == nil {
			shared = newHalfWork(m.kernels)
		}
		return newHalf(shared, heads, kvHeads, c.HeadDim, c.SlidingWindow)
	}
}

func newWork(m *Model) *work {
	w := &work{k: m.kernels, eps: float32(m.config.NormEps),
		c: &shape{m.config.Heads, m.config.KVHeads, m.config.HeadDim, m.config.FFN}}
	w.norm, w.add, w.rotate, w.gate = w.doNorm, w.doAdd, w.doRotate, w.doGate
	w.load, w.angles, w.before, w.after = w.doLoad, w.doAngles, w.doBefore, w.doAfter
	w.words, w.freqs, w.turned = &m.words, m.config.RopeFreqs, m.config.RopeLength
	return w
}

// Len is the number of tokens read.
func (s *Session) Len() int { return s.length }

// Model returns the model of the session.
func (s *Session) Model() *Model { return s.model }

// States returns the states of the layers.
func (s *Session) States() []State { return s.states }

// Restore makes s a text of length tokens with the given states, one per layer. The states then belong to s. Queries
// kept for Compact are dropped.
func (s *Session) Restore(length int, states []State) error {
	if len(states) != len(s.states) {
		return fmt.Errorf("states of %d layers for a model of %d: %w", len(states), len(s.states), dense.ErrShape)
	}
	s.length, s.states, s.queries = length, states, nil
	return nil
}

// Bytes returns the memory of the states in bytes.
func (s *Session) Bytes() int64 {
	var n int64
	for _, st := range s.states {
		n += st.Bytes()
	}
	return n
}

// Fork returns an independent copy. The two may run concurrently.
func (s *Session) Fork() *Session {
	f := &Session{model: s.model, length: s.length, work: newWork(s.model), queries: s.queries.clone()}
	var shared *halfWork
	for _, st := range s.states {
		f.states = append(f.states, forkState(st, &shared))
	}
	return f
}

// chunk is the largest number of tokens per step. It bounds the scratch memory of a long text.
const chunk = 1024

// Append reads tokens and returns the logits of the next one. The next call overwrites the logits.
func (s *Session) Append(ids ...int32) ([]float32, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("no tokens: %w", dense.ErrShape)
	}
	if err := s.check(ids); err != nil {
		return nil, err
	}
	w, c := s.work, &s.model.config
	var x nn.Matrix
	for lo := 0; lo < len(ids); lo += chunk {
		var err error
		if x, err = s.step(ids[lo:min(lo+chunk, len(ids))]); err != nil {
			return nil, err
		}
	}
	h := shaped(&w.h, 1, c.Hidden)
	w.k.Model.RMSNorm(h.Row(0), x.Row(x.Rows-1), s.model.norm, w.eps)
	logits := shaped(&w.logits, 1, c.Vocab)
	w.mul.Do(w.k, logits, h, s.model.output)
	return logits.Data, nil
}

// Score reads tokens and sets loss[i] to −log p of token i given all tokens before it. last are the logits after the
// previous token, or nil; they are needed for loss[0], which is NaN without them.
func (s *Session) Score(loss []float64, ids []int32, last []float32) error {
	if len(loss) != len(ids) {
		return fmt.Errorf("%d losses for %d tokens: %w", len(loss), len(ids), dense.ErrShape)
	}
	if err := s.check(ids); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	w, c := s.work, &s.model.config
	t := w.k.Table
	loss[0] = math.NaN()
	if last != nil {
		row := append([]float32(nil), last...)
		top, own := t.Max(row), float64(row[ids[0]])
		loss[0] = float64(top) + math.Log(float64(t.ExpSum(row, top))) - own
	}
	const rows = 64 // rows of logits held at a time
	for lo := 0; lo < len(ids); lo += chunk {
		part := ids[lo:min(lo+chunk, len(ids))]
		x, err := s.step(part)
		if err != nil {
			return err
		}
		for i := 0; i < len(part); i += rows {
			n := min(rows, len(part)-i)
			h, logits := shaped(&w.h, n, c.Hidden), shaped(&w.logits, n, c.Vocab)
			w.xm, w.hm, w.weight = x.RowRange(i, i+n), h, s.model.norm
			w.doNorm(0, n)
			w.mul.Do(w.k, logits, h, s.model.output)
			nn.Rows(n, 4, func(from, to int) {
				for r := from; r < to; r++ {
					next := lo + i + r + 1
					if next >= len(ids) {
						continue
					}
					row := logits.Row(r)
					top, own := t.Max(row), float64(row[ids[next]])
					loss[next] = float64(top) + math.Log(float64(t.ExpSum(row, top))) - own
				}
			})
		}
	}
	return nil
}

// check rejects tokens outside of the vocabulary and texts beyond the last position.
func (s *Session) check(ids []int32) error {
	c := &s.model.config
	for i, id := range ids {
		if id < 0 || int(id) >= c.Vocab {
			return fmt.Errorf("token %d is %d, want 0 to %d: %w", i, id, c.Vocab-1, dense.ErrShape)
		}
	}
	if s.length+len(ids) > c.MaxPositions {
		return fmt.Errorf("%d tokens after %d, the model has %d positions: %w", len(ids), s.length, c.MaxPositions,
			dense.ErrShape)
	}
	return nil
}

const (
	// rowGrain is the number of rows that pays for a goroutine in functions of single rows.
	rowGrain = 16
	// Steps of at least manyRows rows are divided by rows, with two barriers per layer. Shorter steps divide every
	// product by its outputs, so that all processors share the reading of the weights.
	manyRows = 64
	// rowBlock rows are one item of work in a step of many rows. If that leaves processors without work, items have
	// half as many rows; the weights are then read from the caches more often.
	rowBlock = 16
	// itemsEach is the number of items that every processor should get, because some items take longer than others.
	itemsEach = 4
)

// step reads tokens and returns their hidden states before the last norm, in scratch memory.
func (s *Session) step(ids []int32) (nn.Matrix, error) {
	w := s.work
	x := shaped(&w.x, len(ids), s.model.config.Hidden)
	w.xm, w.ids = x, append(w.ids[:0], ids...)
	nn.Rows(len(ids), rowGrain, w.load)
	return x, s.layers(0, x)
}

// layers takes the rows of x, the next tokens as input of layer first, through this layer and all later ones, in
// place. The states of earlier layers are not changed, so a session that starts at first > 0 can be used for later
// layers only (see addCurves).
//
// Per layer: norm, projection to queries, keys and values, rotation to positions, attention by the state of the
// layer, output projection, and the gated feed-forward part. Heads that attend write to out, which shares memory
// with h: h is not needed between the projection and the second norm.
func (s *Session) layers(first int, x nn.Matrix) error {
	w, c, n := s.work, &s.model.config, x.Rows
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	y := shaped(&w.y, n, c.Hidden)
	h, wide := shaped(&w.h, n, max(c.Hidden, q)), shaped(&w.wide, n, 2*c.FFN)
	qkv, out := shaped(&w.qkv, n, q+2*kv), h.ColRange(0, q)
	h = h.ColRange(0, c.Hidden)
	w.xm, w.ym, w.hm, w.qkvm, w.widem, w.outm = x, y, h, qkv, wide, out
	w.first = s.length
	w.cos, w.sin = buf.Sized(w.cos, n*len(w.freqs)), buf.Sized(w.sin, n*len(w.freqs))
	nn.Rows(n, rowGrain, w.angles)
	w.rows = rowBlock
	if n < itemsEach*rowBlock*runtime.GOMAXPROCS(0) {
		w.rows = rowBlock / 2
	}
	items := (n + w.rows - 1) / w.rows
	if s.queries != nil {
		s.queries.begin(n)
	}
	for l := first; l < len(s.model.blocks); l++ {
		b := &s.model.blocks[l]
		w.block = b
		if s.before != nil {
			s.before(l, x)
		}
		if n >= manyRows {
			nn.Rows(items, 1, w.before)
		} else {
			w.weight = b.attnNorm
			nn.Rows(n, rowGrain, w.norm)
			w.mul.Do(w.k, qkv, h, b.qkv)
			nn.Rows(n, rowGrain, w.rotate)
		}
		if s.queries != nil {
			s.queries.record(l, qkv.ColRange(0, q))
		}
		if err := s.states[l].Step(nn.Heads(out, c.Heads, c.HeadDim), nn.Heads(qkv.ColRange(0, q), c.Heads, c.HeadDim),
			nn.Heads(qkv.ColRange(q, q+kv), c.KVHeads, c.HeadDim),
			nn.Heads(qkv.ColRange(q+kv, q+2*kv), c.KVHeads, c.HeadDim)); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
		if n >= manyRows {
			nn.Rows(items, 1, w.after)
			continue
		}
		w.mul.Do(w.k, y, out, b.out)
		nn.Rows(n, rowGrain, w.add)
		w.weight = b.ffnNorm
		nn.Rows(n, rowGrain, w.norm)
		w.mul.Do(w.k, wide, h, b.gateUp)
		nn.Rows(n, rowGrain, w.gate)
		w.mul.Do(w.k, y, wide.ColRange(0, c.FFN), b.down)
		nn.Rows(n, rowGrain, w.add)
	}
	s.length += n
	return nil
}

// doLoad sets rows of x to the embeddings of their tokens.
func (w *work) doLoad(lo, hi int) {
	for i := lo; i < hi; i++ {
		w.words.Row(w.xm.Row(i), int(w.ids[i]))
	}
}

// doAngles computes sine and cosine of the rotary angles. All layers and heads share them.
func (w *work) doAngles(lo, hi int) {
	for i := lo; i < hi; i++ {
		for j, f := range w.freqs {
			sin, cos := math.Sincos(float64(w.first+i) * f)
			w.sin[i*len(w.freqs)+j], w.cos[i*len(w.freqs)+j] = float32(sin*w.turned), float32(cos*w.turned)
		}
	}
}

// doBefore takes blocks of rows to the attention: norm, projection to queries, keys and values, rotation to
// positions.
func (w *work) doBefore(lo, hi int) {
	mul := w.own.Get()
	defer w.own.Put(mul)
	lo, hi = lo*w.rows, min(hi*w.rows, w.xm.Rows)
	for i := lo; i < hi; i++ {
		w.k.Model.RMSNorm(w.hm.Row(i), w.xm.Row(i), w.block.attnNorm, w.eps)
	}
	mul.Own(w.k, w.qkvm.RowRange(lo, hi), w.hm.RowRange(lo, hi), w.block.qkv)
	w.doRotate(lo, hi)
}

// doAfter takes blocks of rows from the attention to the end of the layer: output projection, norm, feed-forward
// part, with both residual additions.
func (w *work) doAfter(lo, hi int) {
	mul, b := w.own.Get(), w.block
	defer w.own.Put(mul)
	lo, hi = lo*w.rows, min(hi*w.rows, w.xm.Rows)
	y := w.ym.RowRange(lo, hi)
	mul.Own(w.k, y, w.outm.RowRange(lo, hi), b.out)
	w.doAdd(lo, hi)
	for i := lo; i < hi; i++ {
		w.k.Model.RMSNorm(w.hm.Row(i), w.xm.Row(i), b.ffnNorm, w.eps)
	}
	mul.Own(w.k, w.widem.RowRange(lo, hi), w.hm.RowRange(lo, hi), b.gateUp)
	w.doGate(lo, hi)
	mul.Own(w.k, y, w.widem.ColRange(0, w.c.ffn).RowRange(lo, hi), b.down)
	w.doAdd(lo, hi)
}

// doNorm sets h = norm(x).
func (w *work) doNorm(lo, hi int) {
	for i := lo; i < hi; i++ {
		w.k.Model.RMSNorm(w.hm.Row(i), w.xm.Row(i), w.weight, w.eps)
	}
}

// doAdd adds y to x.
func (w *work) doAdd(lo, hi int) {
	for i := lo; i < hi; i++ {
		w.k.Table.MulAdd(w.xm.Row(i), w.ym.Row(i), 1)
	}
}

// doRotate normalises queries and keys if the model does, and rotates them to their positions. The two halves of a
// head form the pairs.
func (w *work) doRotate(lo, hi int) {
	half := w.c.dim / 2
	for i := lo; i < hi; i++ {
		row, cos, sin := w.qkvm.Row(i), w.cos[i*half:(i+1)*half], w.sin[i*half:(i+1)*half]
		for h := range w.c.heads + w.c.kvHeads {
			x := row[h*w.c.dim : (h+1)*w.c.dim]
			if norm := w.block.kNorm; norm != nil {
				if h < w.c.heads {
					norm = w.block.qNorm
				}
				w.k.Model.RMSNorm(x, x, norm, w.eps)
			}
			w.k.Model.Rotate(x[:half], x[half:], cos, sin)
		}
	}
}

// doGate computes SiLU(gate)·up in place of gate.
func (w *work) doGate(lo, hi int) {
	for i := lo; i < hi; i++ {
		row := w.widem.Row(i)
		w.k.Model.SiLUMul(row[:w.c.ffn], row[w.c.ffn:])
	}
}

func shaped(b *[]float32, rows, cols int) nn.Matrix {
	*b = buf.Sized(*b, rows*cols)
	return nn.Matrix{Rows: rows, Cols: cols, Stride: cols, Data: *b}
}

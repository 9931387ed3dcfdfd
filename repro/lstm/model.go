// Package lstm trains small LSTM language models on the CPU with a sampled softmax, for the experiments of Hybrid
// Random Features §4.2 and appendix I. The table that embeds words is also the table of classes (tied weights).
//
// Make a model with [New], train it with [Model.Epoch] and a [Sampler], then read its outputs with [Model.Queries]
// and its loss with [Model.Perplexity].
package lstm

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/rng"
)

// Config describes a model and its training.
type Config struct {
	Vocab, Width, Layers int
	Batch, Length        int     // streams of text, and words per segment of backpropagation
	Rate                 float64 // of Adagrad
	Clip                 float64 // bound on the norm of the gradient without the table
	Gain                 float64 // multiplies logits, 0: 1
	Unit                 float64 // weight of (|q|−1)² and (|k|−1)² in the loss, Hybrid eq 105
	Seed                 uint64
}

// Model has the parameters and the state of a training run.
type Model[T dense.Float] struct {
	Config
	Table  dense.Matrix[T] // words × width
	layers []layer[T]
	tab    *kern.Table[T]
	square dense.Matrix[T] // Adagrad's sums of squares for the table
	last   []state[T]      // state of each layer after the last segment
}

// layer computes z = W·(x, h) + b for the gates input, forget, output and cell. dw, db are gradients, sw, sb
// Adagrad's sums.
type layer[T dense.Float] struct {
	w, dw, sw dense.Matrix[T]
	b, db, sb []T
	packed    kern.Panel[T]
}

type state[T dense.Float] struct{ h, c dense.Matrix[T] }

// New draws the parameters.
func New[T dense.Float](c Config) (*Model[T], error) {
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	if c.Gain == 0 {
		c.Gain = 1
	}
	m := &Model[T]{Config: c, tab: tab, Table: dense.New[T](c.Vocab, c.Width), square: dense.New[T](c.Vocab, c.Width)}
	fill(m.Table, 1/math.Sqrt(float64(c.Width)), rng.Stream(c.Seed, 't').Uint64())
	h := c.Width
	for i := range c.Layers {
		l := layer[T]{w: dense.New[T](4*h, 2*h), dw: dense.New[T](4*h, 2*h), sw: dense.New[T](4*h, 2*h),
			b: make([]T, 4*h), db: make([]T, 4*h), sb: make([]T, 4*h)}
		fill(l.w, 1/math.Sqrt(float64(h)), rng.Stream(c.Seed, 'l', uint64(i)).Uint64())
		for j := range h {
			l.b[h+j] = 1 // start with open forget gates
		}
		m.layers = append(m.layers, l)
	}
	m.Forget()
	return m, nil
}

// fill draws uniform numbers with a standard deviation of sd.
func fill[T dense.Float](x dense.Matrix[T], sd float64, seed uint64) {
	src := rng.Stream(seed)
	for i := range x.Data {
		x.Data[i] = T(sd * math.Sqrt(3) * (2*rng.Uniform(src) - 1))
	}
}

// Forget resets the states, to start new streams of text.
func (m *Model[T]) Forget() {
	m.last = nil
	for range m.layers {
		m.last = append(m.last, state[T]{dense.New[T](m.Batch, m.Width), dense.New[T](m.Batch, m.Width)})
	}
}

// trace keeps what a segment needs for its gradients, by moment and layer.
type trace[T dense.Float] struct {
	u, gates, c, tanh [][]dense.Matrix[T]
	words             [][]int32         // [moment][stream]
	out               dense.Matrix[T]   // outputs of the top layer: moment by moment, stream by stream
	begin             []dense.Matrix[T] // cells before the segment
}

// forward runs a segment of words [moment][stream] and updates the states.
func (m *Model[T]) forward(words [][]int32) *trace[T] {
	h, b := m.Width, m.Batch
	t := &trace[T]{words: words, out: dense.New[T](len(words)*b, h)}
	for i := range m.layers {
		m.tab.Pack(&m.layers[i].packed, m.layers[i].w)
		t.begin = append(t.begin, m.last[i].c.Clone())
	}
	t.u, t.gates = make([][]dense.Matrix[T], len(words)), make([][]dense.Matrix[T], len(words))
	t.c, t.tanh = make([][]dense.Matrix[T], len(words)), make([][]dense.Matrix[T], len(words))
	for at, row := range words {
		x := dense.New[T](b, h)
		for s, w := range row {
			copy(x.Row(s), m.Table.Row(int(w)))
		}
		for i := range m.layers {
			l, last := &m.layers[i], &m.last[i]
			u, z := dense.New[T](b, 2*h), dense.New[T](b, 4*h)
			c, th, out := dense.New[T](b, h), dense.New[T](b, h), dense.New[T](b, h)
			for s := range b {
				copy(u.Row(s), x.Row(s))
				copy(u.Row(s)[h:], last.h.Row(s))
			}
			m.tab.MulT(z, u, &l.packed, l.b)
			for s := range b {
				g, before := z.Row(s), last.c.Row(s)
				for j := range h {
					in, forget, o := sigmoid(g[j]), sigmoid(g[h+j]), sigmoid(g[2*h+j])
					cell := tanh(g[3*h+j])
					g[j], g[h+j], g[2*h+j], g[3*h+j] = in, forget, o, cell
					v := forget*before[j] + in*cell
					c.Row(s)[j], th.Row(s)[j] = v, tanh(v)
					out.Row(s)[j] = o * th.Row(s)[j]
				}
			}
			last.h, last.c = out, c
			t.u[at], t.gates[at] = append(t.u[at], u), append(t.gates[at], z)
			t.c[at], t.tanh[at] = append(t.c[at], c), append(t.tanh[at], th)
			x = out
		}
		for s := range b {
			copy(t.out.Row(at*b+s), x.Row(s))
		}
	}
	return t
}

func sigmoid[T dense.Float](x T) T { return T(1 / (1 + math.Exp(-float64(x)))) }
func tanh[T dense.Float](x T) T    { return T(math.Tanh(float64(x))) }

// backward adds the gradients of the layers, for gradients dout of the outputs, and passes those of the words read
// to words.
func (m *Model[T]) backward(t *trace[T], dout dense.Matrix[T], words func(word int32, d []T)) {
	h, b := m.Width, m.Batch
	dh, dc := make([]dense.Matrix[T], m.Layers), make([]dense.Matrix[T], m.Layers)
	for i := range dh {
		dh[i], dc[i] = dense.New[T](b, h), dense.New[T](b, h)
	}
	dz, du := dense.New[T](b, 4*h), dense.New[T](b, 2*h)
	for at := len(t.words) - 1; at >= 0; at-- {
		above := dout.RowRange(at*b, (at+1)*b)
		for i := m.Layers - 1; i >= 0; i-- {
			l := &m.layers[i]
			before := t.begin[i]
			if at > 0 {
				before = t.c[at-1][i]
			}
			for s := range b {
				g, th := t.gates[at][i].Row(s), t.tanh[at][i].Row(s)
				up, rec, cell, d := above.Row(s), dh[i].Row(s), dc[i].Row(s), dz.Row(s)
				for j := range h {
					in, forget, o, c := g[j], g[h+j], g[2*h+j], g[3*h+j]
					dout := up[j] + rec[j]
					v := cell[j] + dout*o*(1-th[j]*th[j])
					d[j] = v * c * in * (1 - in)
					d[h+j] = v * before.Row(s)[j] * forget * (1 - forget)
					d[2*h+j] = dout * th[j] * o * (1 - o)
					d[3*h+j] = v * in * (1 - c*c)
					cell[j] = v * forget
				}
			}
			m.tab.TMul(l.dw, dz, t.u[at][i])
			m.tab.ColSum(l.db, dz)
			m.tab.Product(du, dz, l.w, false)
			for s := range b {
				copy(dh[i].Row(s), du.Row(s)[h:])
			}
			above = du.ColRange(0, h).Clone()
		}
		for s, w := range t.words[at] {
			words(w, above.Row(s))
		}
	}
}

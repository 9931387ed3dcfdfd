package lstm

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/sampling"
)

// Sampler draws negative words for rows of queries. Draws for a single query serve all rows.
type Sampler[T dense.Float] func(m *Model[T], queries dense.Matrix[T], seed uint64) (*sampling.Draws, error)

// Shared draws the same words for all rows from a fixed distribution.
func Shared[T dense.Float](f *sampling.Fixed, k int) Sampler[T] {
	return func(_ *Model[T], _ dense.Matrix[T], seed uint64) (*sampling.Draws, error) {
		var d sampling.Draws
		return &d, f.Draw(&d, 1, sampling.Request{K: k, Seed: seed})
	}
}

// Segments cuts a text into Batch streams and calls visit with words and the words that follow them,
// [moment][stream].
func (m *Model[T]) Segments(text []int32, visit func(i int, words, next [][]int32) error) error {
	per := (len(text) - 1) / m.Batch
	for i := 0; (i+1)*m.Length <= per; i++ {
		words, next := make([][]int32, m.Length), make([][]int32, m.Length)
		for t := range m.Length {
			for s := range m.Batch {
				at := s*per + i*m.Length + t
				words[t], next[t] = append(words[t], text[at]), append(next[t], text[at+1])
			}
		}
		if err := visit(i, words, next); err != nil {
			return err
		}
	}
	return nil
}

// Step takes a step of Adagrad on a segment and returns the mean sampled loss.
func (m *Model[T]) Step(words, next [][]int32, sample Sampler[T], seed uint64) (float64, error) {
	g, loss, err := m.gradient(words, next, sample, seed)
	if err != nil {
		return 0, err
	}
	norm := 0.0
	for i := range m.layers {
		norm += m.tab.Norm2(m.layers[i].dw.Data) + m.tab.Norm2(m.layers[i].db)
	}
	scale := 1.0
	if norm = math.Sqrt(norm); m.Clip > 0 && norm > m.Clip {
		scale = m.Clip / norm
	}
	for i := range m.layers {
		l := &m.layers[i]
		adagrad(l.w.Data, l.dw.Data, l.sw.Data, m.Rate, scale)
		adagrad(l.b, l.db, l.sb, m.Rate, scale)
	}
	for _, w := range g.order {
		adagrad(m.Table.Row(int(w)), g.rows[w], m.square.Row(int(w)), m.Rate, 1)
	}
	return loss, nil
}

func adagrad[T dense.Float](x, d, square []T, rate, scale float64) {
	for i, v := range d {
		v *= T(scale)
		square[i] += v * v
		x[i] -= T(rate * float64(v) / (math.Sqrt(float64(square[i])) + 1e-8))
	}
}

// sparse is the gradient of some rows of the table, in the order in which they first occurred.
type sparse[T dense.Float] struct {
	rows  map[int32][]T
	order []int32
	width int
}

func (g *sparse[T]) row(w int32) []T {
	r, ok := g.rows[w]
	if !ok {
		r = make([]T, g.width)
		g.rows[w], g.order = r, append(g.order, w)
	}
	return r
}

// gradient computes the gradient of the mean loss of a segment: in place for the layers, and returned for the rows
// of the table that occur.
func (m *Model[T]) gradient(words, next [][]int32, sample Sampler[T], seed uint64) (*sparse[T], float64, error) {
	for i := range m.layers {
		clear(m.layers[i].dw.Data)
		clear(m.layers[i].db)
	}
	t := m.forward(words)
	var targets []int
	for _, row := range next {
		for _, w := range row {
			targets = append(targets, int(w))
		}
	}
	d, err := sample(m, t.out, seed)
	if err != nil {
		return nil, 0, err
	}
	losses := make([]float64, len(targets))
	var lg sampling.Gradient[T]
	if err := (sampling.Loss[T]{Tau: 1 / m.Gain}).Forward(losses, &lg, t.out, m.Table, targets, d); err != nil {
		return nil, 0, err
	}
	n := float64(len(targets))
	g := &sparse[T]{rows: map[int32][]T{}, width: m.Width}
	for i, target := range targets {
		ids := d.Of(0).IDs
		if d.Queries() > 1 {
			ids = d.Of(i).IDs
		}
		for j, c := range lg.Class.Row(i) {
			if c == 0 {
				continue
			}
			id := target
			if j > 0 {
				id = ids[j-1]
			}
			m.tab.MulAdd(g.row(int32(id)), t.out.Row(i), c/T(n))
		}
	}
	loss := 0.0
	for i := range losses {
		loss += losses[i] / n
		m.tab.Scale(lg.Query.Row(i), T(1/n))
		if m.Unit > 0 {
			loss += m.regularise(lg.Query.Row(i), t.out.Row(i), n)
		}
	}
	m.backward(t, lg.Query, func(w int32, dx []T) { m.tab.MulAdd(g.row(w), dx, 1) })
	if m.Unit > 0 {
		count := float64(len(g.order))
		for _, w := range g.order { // eq 105 has the mean over all keys; only the rows that the step moves count here
			loss += m.regularise(g.rows[w], m.Table.Row(int(w)), count)
		}
	}
	return g, loss, nil
}

// regularise adds the gradient of Unit·(|x|−1)²/n and returns its value.
func (m *Model[T]) regularise(d, x []T, n float64) float64 {
	norm := math.Sqrt(m.tab.Norm2(x)) + 1e-12
	m.tab.MulAdd(d, x, T(2*m.Unit*(norm-1)/norm/n))
	return m.Unit * (norm - 1) * (norm - 1) / n
}

// Queries returns the outputs at up to limit places of a text, and the words that follow.
func (m *Model[T]) Queries(text []int32, limit int) (dense.Matrix[T], []int32) {
	m.Forget()
	var out dense.Matrix[T]
	var follow []int32
	errDone := m.Segments(text, func(_ int, words, next [][]int32) error {
		if out.Rows >= limit {
			return errEnough
		}
		t := m.forward(words)
		out.Data = append(out.Data, t.out.Data...)
		out.Rows, out.Cols, out.Stride = out.Rows+t.out.Rows, m.Width, m.Width
		for _, row := range next {
			follow = append(follow, row...)
		}
		return nil
	})
	_ = errDone // errEnough, which ends the loop, is the only possible error
	m.Forget()
	if out.Rows > limit {
		out, follow = out.RowRange(0, limit), follow[:limit]
	}
	return out, follow
}

type enough struct{}

func (enough) Error() string { return "enough" }

var errEnough = enough{}

// Perplexity returns exp of the mean loss of the full softmax at up to limit places of a text.
func (m *Model[T]) Perplexity(text []int32, limit int) float64 {
	q, next := m.Queries(text, limit)
	sum := 0.0
	scores := make([]T, m.Vocab)
	for i := range q.Rows {
		m.tab.MulV(scores, m.Table, q.Row(i))
		m.tab.Scale(scores, T(m.Gain))
		own := float64(scores[next[i]])
		most := m.tab.Max(scores)
		sum += math.Log(float64(m.tab.ExpSum(scores, most))) + float64(most) - own
	}
	return math.Exp(sum / float64(q.Rows))
}

// Epoch trains on a text once. after, if not nil, is called after every step.
func (m *Model[T]) Epoch(text []int32, epoch int, sample Sampler[T], after func(step int, loss float64) error) error {
	m.Forget()
	return m.Segments(text, func(i int, words, next [][]int32) error {
		loss, err := m.Step(words, next, sample, rng.Mix64(m.Seed+uint64(epoch)<<40+uint64(i)))
		if err != nil || after == nil {
			return err
		}
		return after(i+1, loss)
	})
}

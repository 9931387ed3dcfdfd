package lstm

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/sampling"
)

func uniform(t *testing.T, n int) *sampling.Fixed {
	t.Helper()
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	f, err := sampling.NewFixed(w)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Gradients of layers and of the table are the differences of the loss, with the regulariser of lengths.
func TestGradients(t *testing.T) {
	c := Config{Vocab: 9, Width: 5, Layers: 2, Batch: 3, Length: 4, Gain: 1.5, Unit: 0.7, Seed: 1}
	m, err := New[float64](c)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]int32, 40)
	for i := range text {
		text[i] = int32(i*i+i/3) % 9
	}
	var words, next [][]int32
	err = m.Segments(text, func(i int, w, n [][]int32) error {
		if words, next = w, n; i == 1 {
			return errEnough
		}
		m.forward(w) // the segment before leaves a state
		return nil
	})
	if err != errEnough {
		t.Fatal(err)
	}
	begin := m.last
	sample := Shared[float64](uniform(t, 9), 6)
	run := func() (*sparse[float64], float64) {
		m.last = nil
		for _, s := range begin {
			m.last = append(m.last, state[float64]{s.h.Clone(), s.c.Clone()})
		}
		g, loss, err := m.gradient(words, next, sample, 3)
		if err != nil {
			t.Fatal(err)
		}
		return g, loss
	}
	g, _ := run()
	var dw []dense.Matrix[float64]
	var db [][]float64
	for i := range m.layers {
		dw, db = append(dw, m.layers[i].dw.Clone()), append(db, append([]float64(nil), m.layers[i].db...))
	}
	difference := func(x *float64) float64 {
		const h = 1e-5
		v := *x
		*x = v + h
		_, a := run()
		*x = v - h
		_, b := run()
		*x = v
		return (a - b) / (2 * h)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-7*(1+math.Abs(want)) {
			t.Errorf("%s: %g, differences %g", what, got, want)
		}
	}
	for i := range m.layers {
		for j := 0; j < len(dw[i].Data); j += 17 {
			near("weight", dw[i].Data[j], difference(&m.layers[i].w.Data[j]))
		}
		for j := 0; j < len(db[i]); j += 3 {
			near("bias", db[i][j], difference(&m.layers[i].b[j]))
		}
	}
	if len(g.order) < 5 {
		t.Fatalf("only %d words have gradients", len(g.order))
	}
	for _, w := range g.order {
		for j := range c.Width {
			near("word", g.rows[w][j], difference(&m.Table.Row(int(w))[j]))
		}
	}
}

// A text with a rule is learned: the perplexity falls far below the number of words, and the same seed gives the same
// model.
func TestLearns(t *testing.T) {
	text := make([]int32, 6000)
	for i := range text {
		text[i] = int32((i/3)%7 + 7*(i%3))
	}
	var first float64
	for run := range 2 {
		m, err := New[float32](Config{Vocab: 21, Width: 16, Layers: 2, Batch: 4, Length: 10, Rate: 0.1, Clip: 5,
			Seed: 2})
		if err != nil {
			t.Fatal(err)
		}
		before := m.Perplexity(text, 400)
		if err := m.Epoch(text, 0, Shared[float32](uniform(t, 21), 5), nil); err != nil {
			t.Fatal(err)
		}
		after := m.Perplexity(text, 400)
		if before < 15 || after > 3 {
			t.Errorf("perplexity %g before, %g after", before, after)
		}
		if run == 0 {
			first = after
		} else if after != first {
			t.Errorf("perplexity %v, the same run had %v", after, first)
		}
	}
}

// Train fits a small layer of linear attention by gradient descent. A sequence shows 32 keys, each with a value;
// the layer is then asked for the value of each key. Its three tables of embeddings learn to make a query resemble its
// own key alone.
//
//	go run .
package main

import (
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

const (
	keys, values = 32, 8 // sizes of the two alphabets
	dim          = 16    // of embeddings
	features     = 512
	batch        = 32
	steps        = 200
	rate         = 0.01
)

func main() {
	if err := train(); err != nil {
		log.Fatal(err)
	}
}

func train() error {
	spec := randfeat.Spec{Kernel: kernel.Attention(dim), Family: family.Positive{}, Coupling: coupling.Orthogonal{},
		Dim: dim, M: features}
	layer := linear.Attention[float32]{}
	random := rand.New(rand.NewPCG(1, 0))
	q, k, v := newTable(keys, random), newTable(keys, random), newTable(values, random)
	out, dout := newSeq(), newSeq()
	qs, ks, vs, dq, dk, dv := newSeq(), newSeq(), newSeq(), newSeq(), newSeq(), newSeq()
	for step := range steps + 1 {
		if err := redraw(&layer, spec, step); err != nil {
			return err
		}
		e := newEpisodes(random)
		q.read(qs, e.asked)
		k.read(ks, e.shown)
		v.read(vs, e.values)
		if _, err := layer.Forward(out, qs, ks, vs); err != nil {
			return err
		}
		loss, right := v.judge(out, dout, e.answers)
		if step%40 == 0 {
			fmt.Printf("step %3d: loss %.3f, %3.0f %% right\n", step, loss, 100*right)
		}
		if _, err := layer.Backward(dq, dk, dv, dout, out, qs, ks, vs, nil); err != nil {
			return err
		}
		q.add(dq, e.asked)
		k.add(dk, e.shown)
		v.add(dv, e.values)
		for _, t := range []*table{q, k, v} {
			t.descend()
		}
	}

	if err := redraw(&layer, spec, steps+1); err != nil {
		return err
	}
	e := newEpisodes(random)
	q.read(qs, e.asked)
	k.read(ks, e.shown)
	v.read(vs, e.values)
	if _, err := layer.Forward(out, qs, ks, vs); err != nil {
		return err
	}
	_, ours := v.judge(out, dout, e.answers)
	exact := attention.Exact[float32]{}
	if _, err := exact.Forward(out, qs, ks, vs); err != nil {
		return err
	}
	_, theirs := v.judge(out, dout, e.answers)
	fmt.Printf("fresh sequences and features: linear attention %.0f %% right, exact attention %.0f %%\n", 100*ours, 100*theirs)
	fmt.Println("learned:", ours > 0.75 && theirs > 0.95)
	return nil
}

// redraw gives the layer new random features. With the same ones in every step the tables would also learn the errors
// of these features, and would fit no others.
func redraw(layer *linear.Attention[float32], spec randfeat.Spec, step int) error {
	spec.Seed = uint64(step)
	phi, err := randfeat.New[float32](spec)
	layer.Maps = []randfeat.FeatureMap[float32]{phi}
	return err
}

// episodes are sequences that show every key once, with random values, and ask for every key in another order. Entry
// l of sequence b is number b·keys + l.
type episodes struct{ shown, values, asked, answers []int }

func newEpisodes(random *rand.Rand) episodes {
	var e episodes
	for range batch {
		held := make([]int, keys)
		for _, key := range random.Perm(keys) {
			held[key] = random.IntN(values)
			e.shown, e.values = append(e.shown, key), append(e.values, held[key])
		}
		for _, key := range random.Perm(keys) {
			e.asked, e.answers = append(e.asked, key), append(e.answers, held[key])
		}
	}
	return e
}

func newSeq() attention.Seq[float32] { return attention.NewSeq[float32](batch, 1, keys, dim) }

// table holds one embedding for each symbol, with its gradient and the moments of Adam.
type table struct {
	rows, grad, mean, square []float32
	steps                    int
}

func newTable(symbols int, random *rand.Rand) *table {
	n := symbols * dim
	t := &table{rows: make([]float32, n), grad: make([]float32, n), mean: make([]float32, n),
		square: make([]float32, n)}
	for i := range t.rows {
		t.rows[i] = float32(0.5 * random.NormFloat64())
	}
	return t
}

func (t *table) row(symbol int) []float32 { return t.rows[symbol*dim : (symbol+1)*dim] }

// read writes the embeddings of symbols to the positions of s.
func (t *table) read(s attention.Seq[float32], symbols []int) {
	for i, symbol := range symbols {
		copy(s.Data[i*dim:(i+1)*dim], t.row(symbol))
	}
}

// add adds the gradients of positions to those of their symbols.
func (t *table) add(d attention.Seq[float32], symbols []int) {
	for i, symbol := range symbols {
		for c := range dim {
			t.grad[symbol*dim+c] += d.Data[i*dim+c]
		}
	}
}

// judge compares outputs with the embedding of every symbol. It returns the mean cross-entropy and the share of right
// answers, sets dout to the gradient and adds to the gradient of t.
func (t *table) judge(out, dout attention.Seq[float32], answers []int) (loss, right float64) {
	n := float64(len(answers))
	clear(dout.Data)
	for i, answer := range answers {
		o, d := out.Data[i*dim:(i+1)*dim], dout.Data[i*dim:(i+1)*dim]
		var p [values]float64
		best, sum := 0, 0.0
		for s := range p {
			for c, x := range t.row(s) {
				p[s] += float64(x * o[c])
			}
			if p[s] > p[best] {
				best = s
			}
		}
		most := p[best]
		for s := range p {
			p[s] = math.Exp(p[s] - most)
			sum += p[s]
		}
		loss -= math.Log(p[answer]/sum) / n
		if best == answer {
			right += 1 / n
		}
		for s := range p {
			g := p[s] / sum
			if s == answer {
				g--
			}
			for c := range dim {
				d[c] += float32(g/n) * t.rows[s*dim+c]
				t.grad[s*dim+c] += float32(g/n) * o[c]
			}
		}
	}
	return loss, right
}

// descend takes one step of Adam and clears the gradient.
func (t *table) descend() {
	t.steps++
	fix1, fix2 := 1-math.Pow(0.9, float64(t.steps)), 1-math.Pow(0.999, float64(t.steps))
	for i, g := range t.grad {
		t.mean[i] += 0.1 * (g - t.mean[i])
		t.square[i] += 0.001 * (g*g - t.square[i])
		t.rows[i] -= float32(rate * float64(t.mean[i]) / fix1 / (math.Sqrt(float64(t.square[i])/fix2) + 1e-8))
	}
	clear(t.grad)
}

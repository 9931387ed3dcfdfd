package corpus

import (
	"fmt"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// order cuts items into batches, in a new order in every pass.
type order struct{ items, batch int }

// pick returns the items of batch i. Every item comes once before any comes again.
func (o order) pick(seed uint64, i int) []int {
	out := make([]int, 0, o.batch)
	pass, perm := -1, []int(nil)
	for j := i * o.batch; j < (i+1)*o.batch; j++ {
		if p := j / o.items; p != pass {
			pass = p
			perm = permutation(o.items, rng.Stream(seed, 'p', uint64(p)))
		}
		out = append(out, perm[j%o.items])
	}
	return out
}

func permutation(n int, src interface{ Uint64() uint64 }) []int {
	p := make([]int, n)
	for i := range p {
		j := int(src.Uint64() % uint64(i+1))
		p[i] = p[j]
		p[j] = i
	}
	return p
}

// held returns the items of held-out batch i, −1 for places that the last batch leaves empty.
func (o order) held(i, n int) []int {
	out := make([]int, o.batch)
	for j := range out {
		if out[j] = i*o.batch + j; out[j] >= n {
			out[j] = -1
		}
	}
	return out
}

// Item is one labelled text.
type Item struct {
	Tokens []int32
	Label  int32
}

// Labelled makes batches of labelled texts, cut or padded to one length.
type Labelled struct {
	train, test   []Item
	batch, length int
}

// NewLabelled checks the labels and texts.
func NewLabelled(items, test []Item, batch, length, classes int) (*Labelled, error) {
	if len(items) == 0 || len(test) == 0 || batch < 1 || length < 1 {
		return nil, fmt.Errorf("%w: %d and %d labelled texts", ErrData, len(items), len(test))
	}
	for _, all := range [][]Item{items, test} {
		for i, x := range all {
			if x.Label < 0 || int(x.Label) >= classes || len(x.Tokens) == 0 {
				return nil, fmt.Errorf("%w: text %d: label %d of %d, %d tokens", ErrData, i, x.Label, classes,
					len(x.Tokens))
			}
		}
	}
	return &Labelled{items, test, batch, length}, nil
}

// Items implements train.Source.
func (l *Labelled) Items() int { return l.batch }

// Unit is the name of the things that Items counts.
func (l *Labelled) Unit() string { return "texts" }

// Held implements train.Source.
func (l *Labelled) Held() int { return (len(l.test) + l.batch - 1) / l.batch }

// Train implements train.Source.
func (l *Labelled) Train(seed uint64, i int) train.Batch {
	return l.rows(l.train, order{len(l.train), l.batch}.pick(seed, i))
}

// HeldOut implements train.Source.
func (l *Labelled) HeldOut(i int) train.Batch {
	return l.rows(l.test, order{len(l.test), l.batch}.held(i, len(l.test)))
}

func (l *Labelled) rows(items []Item, at []int) train.Batch {
	x, y := make([]int32, l.batch*l.length), make([]int32, l.batch)
	valid := make([]bool, len(x))
	for i, a := range at {
		if a < 0 {
			y[i] = -1
			valid[i*l.length] = true // attention over no valid position would be undefined
			continue
		}
		y[i] = items[a].Label
		n := copy(x[i*l.length:(i+1)*l.length], items[a].Tokens)
		for j := range n {
			valid[i*l.length+j] = true
		}
	}
	return train.Batch{tensors.FromFlatDataAndDimensions(x, l.batch, l.length),
		tensors.FromFlatDataAndDimensions(y, l.batch), tensors.FromFlatDataAndDimensions(valid, l.batch, l.length)}
}

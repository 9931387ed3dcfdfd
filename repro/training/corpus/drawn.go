package corpus

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/sampling"
)

// Drawn is a Stream whose training batches come with tokens drawn approximately from the model's own softmax: a
// sampling.Sampler with the token table as classes draws for every position, with the table as it was before the
// step. Rows are normalised to 1 for the draws (Hybrid random features, appendix I.1), because features of long rows
// vary too much. The loss uses the rows themselves, and the log probabilities of the draws correct for the
// difference.
type Drawn struct {
	Stream
	samples int
	options sampling.Options
	m       *randfeat.Map[float32]
}

// Law says how the model draws tokens.
type Law struct {
	// Spec is the feature map; its Dim is the width of the model. With Exact only its kernel is used.
	Spec randfeat.Spec
	// Exact draws from the softmax itself, over all tokens: the best that a sampler can do.
	Exact bool
}

// NewDrawn makes a Drawn with so many draws per position.
func NewDrawn(tokens, held []int32, batch, length, limit, samples, vocab int, l Law) (*Drawn, error) {
	s, err := NewStream(tokens, held, batch, length, limit)
	if err != nil {
		return nil, err
	}
	if samples < 1 {
		return nil, fmt.Errorf("%w: %d drawn tokens", ErrData, samples)
	}
	d := &Drawn{Stream: *s, samples: samples}
	if l.Exact {
		d.options.Block = vocab // one block, inside of which the softmax is exact
	}
	d.m, err = randfeat.New[float32](l.Spec)
	return d, err
}

// Train implements train.Source: batches with the right shapes but without draws. Complete adds them.
func (d *Drawn) Train(seed uint64, i int) train.Batch {
	n := d.Items() * d.samples
	none := sampling.Draws{K: d.samples, IDs: make([]int, n), LogCount: make([]float64, n)}
	return append(d.Stream.Train(seed, i), drawTensors(&none, d.batch, d.length)...)
}

// Complete implements train.Follower. It adds draws for every position and the logarithms of their expected counts.
func (d *Drawn) Complete(b train.Batch, seed uint64, i int, v train.View) (train.Batch, error) {
	s, err := sampling.New(d.m, unitRows(v.Table), d.options)
	if err != nil {
		return nil, err
	}
	var draws sampling.Draws
	request := sampling.Request{K: d.samples, Seed: rng.Mix64(seed + uint64(i)<<20)}
	if err := s.Draw(&draws, unitRows(v.Queries), request); err != nil {
		return nil, err
	}
	return append(b[:2:2], drawTensors(&draws, d.batch, d.length)...), nil
}

// unitRows returns a copy with rows of norm 1. Zero rows stay zero.
func unitRows(x dense.Matrix[float32]) dense.Matrix[float32] {
	x = x.Clone()
	for i := range x.Rows {
		sum := 0.0
		for _, v := range x.Row(i) {
			sum += float64(v) * float64(v)
		}
		if sum > 0 {
			for j := range x.Row(i) {
				x.Row(i)[j] /= float32(math.Sqrt(sum))
			}
		}
	}
	return x
}

var _ train.Follower = (*Drawn)(nil)

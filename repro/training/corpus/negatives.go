package corpus

import (
	"fmt"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/sampling"
)

// Negatives is a Stream whose training batches come with tokens drawn for every position from a fixed distribution.
// Batches have the shapes of Drawn.
type Negatives struct {
	Stream
	samples int
	law     *sampling.Fixed
}

// NewNegatives draws so many tokens per position in proportion to weights, one weight per token.
func NewNegatives(tokens, held []int32, batch, length, limit, samples int, weights []float64) (*Negatives, error) {
	s, err := NewStream(tokens, held, batch, length, limit)
	if err != nil {
		return nil, err
	}
	if samples < 1 {
		return nil, fmt.Errorf("%w: %d drawn tokens", ErrData, samples)
	}
	f, err := sampling.NewFixed(weights)
	if err != nil {
		return nil, err
	}
	return &Negatives{*s, samples, f}, nil
}

// Train implements train.Source.
func (n *Negatives) Train(seed uint64, i int) train.Batch {
	b := n.Stream.Train(seed, i)
	var draws sampling.Draws
	request := sampling.Request{K: n.samples, Seed: rng.Mix64(seed + uint64(i)<<20)}
	if err := n.law.Draw(&draws, n.Items(), request); err != nil {
		panic("corpus: " + err.Error()) // cannot happen: NewNegatives has checked the arguments
	}
	return append(b, drawTensors(&draws, n.batch, n.length)...)
}

// drawTensors returns the inputs of models.Config.Outcome for draws per position. The true token is not drawn, so
// its correction is zero.
func drawTensors(d *sampling.Draws, batch, length int) train.Batch {
	ids, logs := make([]int32, len(d.IDs)), make([]float32, len(d.IDs))
	for j, id := range d.IDs {
		ids[j], logs[j] = int32(id), float32(d.LogCount[j])
	}
	return train.Batch{tensors.FromFlatDataAndDimensions(ids, batch, length, d.K),
		tensors.FromFlatDataAndDimensions(logs, batch, length, d.K),
		tensors.FromFlatDataAndDimensions(make([]float32, batch*length), batch, length)}
}

package corpus

import (
	"fmt"
	"math"
	"sort"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// Sampled is a Stream whose training batches come with tokens for a sampled softmax. The batch shares the draws.
// They are made with replacement, with probabilities proportional to frequency^¾ (Mikolov et al. 2013).
type Sampled struct {
	Stream
	samples    int
	cumulative []float64
	log        []float32 // log of the expected number of draws, by token
}

// NewSampled makes a Sampled with so many draws per batch.
func NewSampled(tokens, held []int32, batch, length, limit, samples, vocab int) (*Sampled, error) {
	s, err := NewStream(tokens, held, batch, length, limit)
	if err != nil {
		return nil, err
	}
	if samples < 1 {
		return nil, fmt.Errorf("%w: %d drawn tokens", ErrData, samples)
	}
	count := make([]float64, vocab)
	for _, t := range tokens {
		if t < 0 || int(t) >= vocab {
			return nil, fmt.Errorf("%w: token %d is none of %d", ErrData, t, vocab)
		}
		count[t]++
	}
	out := &Sampled{Stream: *s, samples: samples}
	var sum float64
	for i := range count {
		count[i] = math.Pow(count[i]+1, 0.75) // +1: tokens that occur only in held-out text may be drawn too
		sum += count[i]
		out.cumulative = append(out.cumulative, sum)
	}
	for _, n := range count {
		out.log = append(out.log, float32(math.Log(float64(samples)*n/sum)))
	}
	return out, nil
}

// Train implements train.Source: tokens, labels, draws, and the logarithms of the expected counts of the draws and
// of the labels.
func (s *Sampled) Train(seed uint64, i int) train.Batch {
	b := s.Stream.Train(seed, i)
	src := rng.Stream(seed, 'n', uint64(i))
	drawn, drawnLog := make([]int32, s.samples), make([]float32, s.samples)
	total := s.cumulative[len(s.cumulative)-1]
	for j := range drawn {
		u := rng.Uniform(src) * total
		k := min(sort.SearchFloat64s(s.cumulative, u), len(s.cumulative)-1)
		drawn[j], drawnLog[j] = int32(k), s.log[k]
	}
	labels := tensors.MustCopyFlatData[int32](b[1])
	own := make([]float32, len(labels))
	for j, t := range labels {
		own[j] = s.log[t]
	}
	return append(b, tensors.FromFlatDataAndDimensions(drawn, s.samples),
		tensors.FromFlatDataAndDimensions(drawnLog, s.samples),
		tensors.FromFlatDataAndDimensions(own, s.batch, s.length))
}

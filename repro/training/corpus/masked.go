package corpus

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// Masked hides tokens in windows of a text, as BERT does (Devlin et al. 2019, §3.1): of 15 % of the tokens, 80 % are
// replaced by the mask, 10 % by a random token, and 10 % stay.
type Masked struct {
	Stream
	mask, vocab int32
}

// NewMasked makes a Masked with the token mask. Held-out batches always hide the same places.
func NewMasked(tokens, held []int32, batch, length, limit int, mask, vocab int32) (*Masked, error) {
	s, err := NewStream(tokens, held, batch, length, limit)
	if err != nil {
		return nil, err
	}
	if mask < 0 || mask >= vocab {
		return nil, fmt.Errorf("%w: mask %d is none of %d tokens", ErrData, mask, vocab)
	}
	return &Masked{*s, mask, vocab}, nil
}

// Train implements train.Source.
func (m *Masked) Train(seed uint64, i int) train.Batch {
	return m.hide(m.Stream.Train(seed, i), seed, uint64(i))
}

// HeldOut implements train.Source.
func (m *Masked) HeldOut(i int) train.Batch { return m.hide(m.Stream.HeldOut(i), 0, uint64(i)) }

func (m *Masked) hide(b train.Batch, seed, i uint64) train.Batch {
	x := tensors.MustCopyFlatData[int32](b[0])
	y := slices.Clone(x)
	src := rng.Stream(seed, 'm', i)
	valid := make([]bool, len(x))
	for j := range x {
		valid[j] = true
		if rng.Uniform(src) >= 0.15 {
			y[j] = -1
			continue
		}
		switch u := rng.Uniform(src); {
		case u < 0.8:
			x[j] = m.mask
		case u < 0.9:
			x[j] = int32(src.Uint64() % uint64(m.vocab))
		}
	}
	d := []int{m.batch, m.length}
	return train.Batch{tensors.FromFlatDataAndDimensions(x, d...), tensors.FromFlatDataAndDimensions(y, d...),
		tensors.FromFlatDataAndDimensions(valid, d...)}
}

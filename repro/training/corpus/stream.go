// Package corpus makes batches of data for package train: windows of a text, texts with hidden tokens, labelled
// texts, images and recordings. A batch depends only on the seed and its number, so that a resumed run sees the same
// batches.
package corpus

import (
	"errors"
	"fmt"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// ErrData means that data cannot be made into batches.
var ErrData = errors.New("data do not fit")

// Stream cuts windows out of a long text for a decoder. The labels of a window are its tokens shifted by one.
type Stream struct {
	tokens, held  []int32
	batch, length int
	limit         int
}

// NewStream makes batches of batch windows of length tokens. limit bounds the held-out batches; 0 means all.
func NewStream(tokens, held []int32, batch, length, limit int) (*Stream, error) {
	for _, part := range []struct {
		name string
		n    int
	}{{"training", len(tokens)}, {"held-out", len(held)}} {
		if part.n < length+1 || batch < 1 || length < 1 {
			return nil, fmt.Errorf("%w: %d %s tokens for windows of %d", ErrData, part.n, part.name, length)
		}
	}
	return &Stream{tokens, held, batch, length, limit}, nil
}

// Items implements train.Source: tokens per batch.
func (s *Stream) Items() int { return s.batch * s.length }

// Train implements train.Source with windows at random places.
func (s *Stream) Train(seed uint64, i int) train.Batch {
	src := rng.Stream(seed, 'b', uint64(i))
	at := make([]int, s.batch)
	for j := range at {
		at[j] = int(src.Uint64() % uint64(len(s.tokens)-s.length))
	}
	return s.windows(s.tokens, at)
}

// Held implements train.Source. Windows at the end that do not fill a batch are left out.
func (s *Stream) Held() int {
	n := max(1, (len(s.held)-1)/s.length/s.batch)
	if s.limit > 0 {
		n = min(n, s.limit)
	}
	return n
}

// HeldOut implements train.Source with consecutive windows.
func (s *Stream) HeldOut(i int) train.Batch {
	all := (len(s.held) - 1) / s.length
	at := make([]int, s.batch)
	for j := range at {
		at[j] = (i*s.batch + j) % all * s.length
	}
	return s.windows(s.held, at)
}

func (s *Stream) windows(tokens []int32, at []int) train.Batch {
	x, y := make([]int32, 0, s.Items()), make([]int32, 0, s.Items())
	for _, a := range at {
		x, y = append(x, tokens[a:a+s.length]...), append(y, tokens[a+1:a+1+s.length]...)
	}
	return train.Batch{tensors.FromFlatDataAndDimensions(x, s.batch, s.length),
		tensors.FromFlatDataAndDimensions(y, s.batch, s.length)}
}

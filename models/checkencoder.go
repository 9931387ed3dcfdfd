package models

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/encoder"
)

// EncoderCheck compares centroid attention in the heads of an encoder with exact attention, on sequences of one length.
type EncoderCheck struct {
	Tokens    int `json:"tokens"` // of a sequence
	Sequences int `json:"sequences"`
	// Heads counts the heads of the model. Centroids counts those with a plan that stays within the tolerance and
	// needs fewer multiply-adds than exact attention. All other heads attend exactly.
	Heads     int `json:"heads"`
	Centroids int `json:"centroids"`
	// Cosine is the mean cosine between the embeddings with centroids and with exact attention; Lowest is the
	// smallest one.
	Cosine float64 `json:"cosine"`
	Lowest float64 `json:"lowest"`
	// Exact and Chosen are tokens per second.
	Exact  float64     `json:"exact"`
	Chosen float64     `json:"chosen"`
	Each   []HeadCheck `json:"each"`
}

// Faster tells whether centroids pay at this length.
func (c *EncoderCheck) Faster() bool { return c.Exact < worthwhile*c.Chosen }

const (
	// encoderSequences is the largest number of sequences per length.
	encoderSequences = 8
	// encoderRuns is the number of timed passes, of which the fastest counts.
	encoderRuns = 3
)

// Check compares centroid attention with exact attention at lengths of 128, 256 and so on up to the model's longest
// sequence. At each length it chooses the cheapest plan per head whose expected error is within tol. Plans are
// chosen on the first half of the sequences and measured on the second half.
func (e *Encoder) Check(ctx context.Context, ids []int32, tol float64) ([]EncoderCheck, error) {
	if c := e.model.Config(); c.RelativeBucket > 0 {
		return nil, fmt.Errorf("scores of %s have biases, which only exact attention computes: nothing to compare",
			c.Architecture)
	}
	var out []EncoderCheck
	for n := 128; n <= e.model.MaxTokens(); n *= 2 {
		var batch [][]int32
		room := n - e.tokens.Markers()
		for rest := ids; len(rest) >= room && len(batch) < encoderSequences; rest = rest[room:] {
			batch = append(batch, e.tokens.Wrap(nil, rest[:room], 0))
		}
		if len(batch) < 2 {
			break
		}
		c, err := e.checkLength(ctx, batch, n, tol)
		if err != nil {
			return nil, err
		}
		out = append(out, *c)
	}
	if out == nil {
		return nil, fmt.Errorf("%d tokens, sequences of at most %d: want at least 256 tokens and sequences of 128",
			len(ids), e.model.MaxTokens())
	}
	return out, nil
}

// checkLength compares both on sequences of n tokens: embeddings, speed, and the error of each head.
func (e *Encoder) checkLength(ctx context.Context, batch [][]int32, n int, tol float64) (*EncoderCheck, error) {
	half := len(batch) / 2
	choices, err := e.chooseHeads(ctx, batch[:half], n, tol)
	if err != nil {
		return nil, err
	}
	batch = batch[half:]
	m := e.model.Config()
	c := &EncoderCheck{Tokens: n, Sequences: len(batch), Heads: m.Layers * m.Heads}
	var layers []*choose.Attention
	for _, x := range choices {
		a, err := choose.New(x)
		if err != nil {
			return nil, err
		}
		layers = append(layers, a)
	}
	other := e.model.With(func(l int, out, q, k, v attention.Seq[float32], segments []int32) error {
		layers[l].Segments = segments
		_, err := layers[l].Forward(out, q, k, v)
		return err
	})
	var x [2]dense.Matrix[float32]
	var best [2]float64
	for i, model := range []*encoder.Model{e.model, other} {
		x[i] = dense.New[float32](len(batch), e.Dim())
		best[i] = math.Inf(1)
		for range encoderRuns {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			start := time.Now()
			if err := model.Embed(x[i], batch); err != nil {
				return nil, err
			}
			best[i] = min(best[i], time.Since(start).Seconds())
		}
	}
	tokens := float64(n * len(batch))
	c.Exact, c.Chosen, c.Lowest = tokens/best[0], tokens/best[1], 1
	for i := range batch {
		cos := cosine(x[0].Row(i), x[1].Row(i))
		c.Cosine, c.Lowest = c.Cosine+cos/float64(len(batch)), min(c.Lowest, cos)
	}
	return c, e.checkEach(c, choices, layers, batch)
}

// chooseHeads returns the chosen plans of every layer. Each layer gets the input that exact attention in the layers
// before it gives.
func (e *Encoder) chooseHeads(ctx context.Context, batch [][]int32, n int, tol float64) ([]*choose.Choice, error) {
	var out []*choose.Choice
	recording := e.model.With(func(_ int, dst, q, k, v attention.Seq[float32], segments []int32) error {
		c, err := choose.Choose(choose.Options{Tol: tol, ByCost: true, Seed: 1}, attention.Visibility{}, 0,
			sequences(q, n), sequences(k, n), sequences(v, n))
		if err != nil {
			return err
		}
		out = append(out, c)
		exact := attention.Exact[float32]{Visibility: attention.Visibility{Segments: segments}, Unchecked: true}
		if _, err := exact.Forward(dst, q, k, v); err != nil {
			return err
		}
		return ctx.Err()
	})
	return out, recording.Embed(dense.New[float32](len(batch), e.Dim()), batch)
}

// sequences turns packed sequences of n tokens each into a batch, without copying.
func sequences(x attention.Seq[float32], n int) attention.Seq[float32] {
	x.Batch, x.Len, x.StrideB = x.Len/n, n, n*x.StrideL
	return x
}

// checkEach measures the error of each head alone, on the first sequence: later layers see the output of exact
// attention.
func (e *Encoder) checkEach(c *EncoderCheck, choices []*choose.Choice, layers []*choose.Attention,
	batch [][]int32) error {
	m := e.model.With(func(l int, dst, q, k, v attention.Seq[float32], segments []int32) error {
		exact := attention.Exact[float32]{Visibility: attention.Visibility{Segments: segments}, Unchecked: true}
		if _, err := exact.Forward(dst, q, k, v); err != nil {
			return err
		}
		got := attention.NewSeq[float32](1, q.Heads, q.Len, q.Dim)
		layers[l].Segments = segments
		if _, err := layers[l].Forward(got, q, k, v); err != nil {
			return err
		}
		for h := range choices[l].Heads {
			p := &choices[l].Heads[h]
			x := HeadCheck{Layer: l, Head: h, Method: string(p.Method), Reads: 2 * p.Cost, Expected: p.Expected}
			if p.Method != choose.Exact {
				c.Centroids++
				x.Measured = relativeError(got, dst, h, h+1)
			}
			c.Each = append(c.Each, x)
		}
		return nil
	})
	return m.Embed(dense.New[float32](1, e.Dim()), batch[:1])
}

func cosine(x, y []float32) float64 {
	var xy, xx, yy float64
	for i, a := range x {
		b := y[i]
		xy, xx, yy = xy+float64(a)*float64(b), xx+float64(a)*float64(a), yy+float64(b)*float64(b)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

package models

import (
	"context"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/encoder"
	"github.com/randfeat/randfeat/models/token"
)

// Encoder embeds texts. Its methods may be called concurrently.
type Encoder struct {
	// Truncate embeds only the first passage of a long text, as sentence-transformers does. Otherwise a long text is
	// cut into passages, and its embedding is their mean, weighted by their numbers of tokens.
	Truncate bool

	model     *encoder.Model
	tokens    *token.Tokenizer
	passage   int
	normalize bool
}

// Dim is the length of an embedding.
func (e *Encoder) Dim() int { return e.model.Dim() }

// Passage is the largest number of tokens that are embedded at once, including markers.
func (e *Encoder) Passage() int { return e.passage }

// passagesAtOnce is the number of passages per batch. It bounds the memory of Embed and the work left when its
// context ends.
const passagesAtOnce = 64

// Embed returns one row per text. An empty text is embedded as its markers alone.
func (e *Encoder) Embed(ctx context.Context, texts []string) (dense.Matrix[float32], error) {
	x, _, err := e.EmbedCount(ctx, texts)
	return x, err
}

// EmbedCount is Embed that also returns the number of tokens of all texts, without markers.
func (e *Encoder) EmbedCount(ctx context.Context, texts []string) (x dense.Matrix[float32], tokens int, err error) {
	out := dense.New[float32](len(texts), e.Dim())
	parts := make([]float64, len(texts)) // tokens per text so far
	var batch [][]int32
	var of []int // text of each passage in batch
	flush := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		x := dense.New[float32](len(batch), e.Dim())
		if err := e.model.Embed(x, batch); err != nil {
			return err
		}
		for i, text := range of {
			n := float64(len(batch[i]))
			parts[text] += n
			row := out.Row(text)
			for j, v := range x.Row(i) {
				row[j] += float32(n) * v
			}
		}
		batch, of = batch[:0], of[:0]
		return nil
	}
	room := e.passage - e.tokens.Markers()
	for i, text := range texts {
		ids := e.tokens.EncodeText(nil, text)
		tokens += len(ids)
		for first := true; first || len(ids) > 0 && !e.Truncate; first = false {
			n := min(room, len(ids))
			batch, of = append(batch, e.tokens.Wrap(nil, ids[:n], 0)), append(of, i)
			ids = ids[n:]
			if len(batch) == passagesAtOnce {
				if err := flush(); err != nil {
					return out, 0, err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return out, 0, err
	}
	for i := range texts {
		e.finish(out.Row(i), parts[i])
	}
	return out, tokens, nil
}

// finish turns the sum over passages into their mean, or into a unit vector if the model normalizes its embeddings.
func (e *Encoder) finish(row []float32, tokens float64) {
	scale := 1 / tokens
	if e.normalize {
		var n float64
		for _, v := range row {
			n += float64(v) * float64(v)
		}
		if n == 0 {
			return
		}
		scale = 1 / math.Sqrt(n)
	}
	for j, v := range row {
		row[j] = float32(float64(v) * scale)
	}
}

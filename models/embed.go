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

	model   *encoder.Model
	tokens  *token.Tokenizer
	prompts map[string]string
	prompt  string // put before every text
}

// Dim is the length of an embedding.
func (e *Encoder) Dim() int { return e.model.Dim() }

// Passage is the largest number of tokens that are embedded at once, including markers.
func (e *Encoder) Passage() int { return e.model.Config().Passage }

// For returns the encoder for texts of a purpose, "query" or "document". It puts the prompt before them that the
// model's files, or Options.Prompts, name for this purpose, and none if they name none.
func (e *Encoder) For(purpose string) *Encoder {
	c, ok := *e, false
	if c.prompt, ok = e.prompts[purpose]; !ok && purpose == "document" {
		c.prompt = e.prompts["passage"]
	}
	return &c
}

// Counts says how much was embedded or scored.
type Counts struct {
	Tokens int // of all texts, without markers
	Long   int // texts that are longer than a passage
}

// passagesAtOnce is the number of passages per batch. It bounds the memory of Embed and the work left when its
// context ends.
const passagesAtOnce = 64

// Embed returns one row per text. An empty text is embedded as its markers alone.
func (e *Encoder) Embed(ctx context.Context, texts []string) (dense.Matrix[float32], error) {
	x, _, err := e.EmbedCount(ctx, texts)
	return x, err
}

// EmbedCount is Embed that also counts.
func (e *Encoder) EmbedCount(ctx context.Context, texts []string) (x dense.Matrix[float32], n Counts, err error) {
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
	room := e.Passage() - e.tokens.Markers()
	for i, text := range texts {
		ids := e.tokens.EncodeText(nil, e.prompt+text)
		n.Tokens += len(ids)
		if len(ids) > room {
			n.Long++
		}
		for first := true; first || len(ids) > 0 && !e.Truncate; first = false {
			part := min(room, len(ids))
			batch, of = append(batch, e.tokens.Wrap(nil, ids[:part], 0)), append(of, i)
			ids = ids[part:]
			if len(batch) == passagesAtOnce {
				if err := flush(); err != nil {
					return out, n, err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return out, n, err
	}
	for i := range texts {
		e.finish(out.Row(i), parts[i])
	}
	return out, n, nil
}

// finish turns the sum over passages into their mean, or into a unit vector if the model normalizes its embeddings.
func (e *Encoder) finish(row []float32, tokens float64) {
	scale := 1 / tokens
	if e.model.Config().Normalize {
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

// Shorten keeps the first n columns of embeddings and makes rows that had length 1 that long again. Models that were
// trained for it (Matryoshka: Kusupati et al. 2022, arXiv:2205.13147) lose little; others lose more.
func Shorten(x dense.Matrix[float32], n int) dense.Matrix[float32] {
	out := dense.New[float32](x.Rows, n)
	for i := range x.Rows {
		row := out.Row(i)
		copy(row, x.Row(i))
		if size := dense.Dot(x.Row(i), x.Row(i)); size > 0.999 && size < 1.001 {
			scale := 1 / float32(math.Sqrt(float64(max(dense.Dot(row, row), math.SmallestNonzeroFloat32))))
			for j := range row {
				row[j] *= scale
			}
		}
	}
	return out
}

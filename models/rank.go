package models

import (
	"context"
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/encoder"
	"github.com/randfeat/randfeat/models/token"
	"github.com/randfeat/randfeat/models/weights"
)

// Ranker scores how well texts answer a query, each pair in one pass (a cross-encoder). Its methods may be called
// concurrently.
type Ranker struct {
	model  *encoder.Model
	tokens *token.Tokenizer
}

// Score returns the logit of each text: larger is better, and the numbers compare only within a model. Pairs that are
// too long lose tokens at the end of the longer text, as in transformers (longest_first).
func (r *Ranker) Score(ctx context.Context, query string, texts []string) ([]float64, Counts, error) {
	var n Counts
	q := r.tokens.EncodeText(nil, query)
	scores := make([]float64, 0, len(texts))
	for len(texts) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, n, err
		}
		part := texts[:min(len(texts), passagesAtOnce)]
		batch, second := make([][]int32, len(part)), make([]int, len(part))
		for i, text := range part {
			ids := r.tokens.EncodeText(nil, text)
			n.Tokens += len(q) + len(ids)
			var cut bool
			batch[i], second[i], cut = r.tokens.WrapPair(nil, q, ids, r.model.MaxTokens())
			if cut {
				n.Long++
			}
		}
		x := dense.New[float32](len(part), 1)
		if err := r.model.Score(x, batch, second); err != nil {
			return nil, n, err
		}
		for i := range part {
			scores = append(scores, float64(x.At(i, 0)))
		}
		texts = texts[len(part):]
	}
	return scores, n, nil
}

// newRanker refuses classifiers of another kind.
func newRanker(m *encoder.Model, path string) (*Ranker, error) {
	if m.Labels() != 1 {
		return nil, fmt.Errorf("%s: id2label has %d labels: only models that rank, with one label, are supported: %w", path,
			m.Labels(), weights.ErrFormat)
	}
	return &Ranker{model: m}, nil
}

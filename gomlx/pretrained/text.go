package pretrained

import (
	"fmt"

	"github.com/randfeat/randfeat/models/token"
)

// Tokens tokenizes a text and cuts the ids into passages of equal length. A shorter rest at the end is dropped.
// Encoders get their special tokens around every passage.
func (m *Model) Tokens(text string, length int) ([][]int32, error) {
	if length < 3 || length > m.Positions {
		return nil, fmt.Errorf("passages of %d tokens: the model takes 3 to %d", length, m.Positions)
	}
	t, err := m.tokenizer()
	if err != nil {
		return nil, err
	}
	all, body := t.Encode(nil, text), length
	if m.Causal() {
		all = t.Wrap(nil, all, 0)
	} else {
		body -= t.Markers()
	}
	var out [][]int32
	for at := 0; at+body <= len(all); at += body {
		ids := all[at : at+body]
		if !m.Causal() {
			ids = t.Wrap(nil, ids, 0)
		}
		if err := m.checkIDs(ids); err != nil {
			return nil, err
		}
		out = append(out, ids)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the text has %d tokens, too few for a passage of %d", len(all), body)
	}
	return out, nil
}

// tokenizer opens the tokenizer of the folder.
func (m *Model) tokenizer() (*token.Tokenizer, error) {
	t, err := token.Open(m.dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer of %s: %w: %w", m.dir, ErrModel, err)
	}
	return t, nil
}

// Encode returns the ids of a text, with the special tokens that the tokenizer adds.
func (m *Model) Encode(text string) ([]int32, error) {
	t, err := m.tokenizer()
	if err != nil {
		return nil, err
	}
	ids := t.Wrap(nil, t.Encode(nil, text), 0)
	return ids, m.checkIDs(ids)
}

// Decode returns the text of ids.
func (m *Model) Decode(ids []int32) (string, error) {
	t, err := m.tokenizer()
	if err != nil {
		return "", err
	}
	return t.Decode(ids), nil
}

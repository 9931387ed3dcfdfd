package pretrained

import (
	"fmt"

	"github.com/gomlx/go-huggingface/hub"
	"github.com/gomlx/go-huggingface/tokenizers"
)

// Tokens are the ids of a text by the tokenizer of the folder, cut into passages of one length; what is left over at
// the end is dropped. Encoders get their special tokens around every passage.
func (m *Model) Tokens(text string, length int) ([][]int32, error) {
	if length < 3 || length > m.Positions {
		return nil, fmt.Errorf("passages of %d tokens: the model takes 3 to %d", length, m.Positions)
	}
	t, err := m.tokenizer()
	if err != nil {
		return nil, err
	}
	body := length
	var before, after []int
	if !m.Causal() { // what surrounds a text: [CLS] … [SEP]
		around := t.Encode("a")
		if len(around) == 3 {
			before, after = around[:1], around[2:]
			body = length - 2
		}
	}
	all := t.Encode(text)
	if len(before) > 0 && len(all) >= 2 {
		all = all[1 : len(all)-1]
	}
	var out [][]int32
	for at := 0; at+body <= len(all); at += body {
		ids := make([]int32, 0, length)
		for _, part := range [][]int{before, all[at : at+body], after} {
			for _, id := range part {
				ids = append(ids, int32(id))
			}
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

func (m *Model) tokenizer() (tokenizers.Tokenizer, error) {
	t, err := tokenizers.New(hub.NewLocal(m.dir))
	if err != nil {
		return nil, fmt.Errorf("tokenizer of %s: %w", m.dir, err)
	}
	return t, nil
}

// Encode are the ids of a text by the tokenizer of the folder, with the special tokens that it adds.
func (m *Model) Encode(text string) ([]int32, error) {
	t, err := m.tokenizer()
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, id := range t.Encode(text) {
		ids = append(ids, int32(id))
	}
	return ids, m.checkIDs(ids)
}

// Decode is the text of ids.
func (m *Model) Decode(ids []int32) (string, error) {
	t, err := m.tokenizer()
	if err != nil {
		return "", err
	}
	var all []int
	for _, id := range ids {
		all = append(all, int(id))
	}
	return t.Decode(all), nil
}

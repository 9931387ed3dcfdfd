package pretrained

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/go-huggingface/hub"
	"github.com/gomlx/go-huggingface/tokenizers"
	"github.com/gomlx/go-huggingface/tokenizers/hftokenizer"
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
	body := length
	var before, after []int
	if !m.Causal() { // find the tokens around a text: [CLS] … [SEP]
		around := t.Encode("a")
		if len(around) == 3 {
			before, after = around[:1], around[2:]
			body = length - 2
		}
	}
	all := m.encode(t, text, len(before) > 0)
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

// encode returns the ids of a text without the special tokens around it.
func (m *Model) encode(t tokenizers.Tokenizer, text string, surrounded bool) []int {
	if !surrounded {
		return t.Encode(text)
	}
	// Line by line: to encoders a line end is as good as a space, and the tokenizer library (v0.4.2) takes time
	// quadratic in the length of a text.
	var all []int
	for line := range strings.Lines(text) {
		if ids := t.Encode(line); len(ids) > 2 {
			all = append(all, ids[1:len(ids)-1]...)
		}
	}
	return all
}

// tokenizer opens the tokenizer of the folder and checks that a short text survives it.
func (m *Model) tokenizer() (tokenizers.Tokenizer, error) {
	fail := func(err error) error { return fmt.Errorf("tokenizer of %s: %w", m.dir, err) }
	repo := hub.NewLocal(m.dir)
	t, err := tokenizers.New(repo)
	if err != nil {
		return nil, fail(err)
	}
	if b, digits := digitsSplit(m.dir); digits {
		config, err := tokenizers.GetConfig(repo)
		if err != nil {
			return nil, fail(err)
		}
		if t, err = hftokenizer.NewFromContent(config, b); err != nil {
			return nil, fail(err)
		}
	}
	// The library silently ignores components of a tokenizer that it does not know.
	const probe = "one two, 34"
	if m.Causal() && !strings.Contains(t.Decode(t.Encode(probe)), probe) {
		return nil, fail(fmt.Errorf("%w: it has a part that is not known here: %q comes back as %q", ErrModel, probe,
			t.Decode(t.Encode(probe))))
	}
	return t, nil
}

// digitsSplit rewrites a tokenizer.json that splits off digits (SmolLM2) in terms that the library (v0.4.2) knows:
// it mistakes a component of type Digits for one that splits at spaces and drops them.
func digitsSplit(dir string) (file []byte, changed bool) {
	b, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, false
	}
	var all map[string]json.RawMessage
	type part struct {
		Type       string `json:"type"`
		Individual bool   `json:"individual_digits"`
	}
	var before struct {
		part
		Parts []json.RawMessage `json:"pretokenizers"`
	}
	if json.Unmarshal(b, &all) != nil || json.Unmarshal(all["pre_tokenizer"], &before) != nil {
		return nil, false
	}
	if before.Type != "Sequence" {
		before.Parts = []json.RawMessage{all["pre_tokenizer"]}
	}
	for i, raw := range before.Parts {
		var p part
		if json.Unmarshal(raw, &p) != nil || p.Type != "Digits" {
			continue
		}
		pattern := `\p{N}+`
		if p.Individual {
			pattern = `\p{N}`
		}
		before.Parts[i], _ = json.Marshal(map[string]any{"type": "Split", "behavior": "Isolated",
			"pattern": map[string]string{"Regex": pattern}})
		changed = true
	}
	if !changed {
		return nil, false
	}
	all["pre_tokenizer"], _ = json.Marshal(map[string]any{"type": "Sequence", "pretokenizers": before.Parts})
	b, err = json.Marshal(all)
	return b, err == nil
}

// Encode returns the ids of a text, with the special tokens that the tokenizer adds.
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

// Decode returns the text of ids.
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

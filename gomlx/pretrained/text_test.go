package pretrained

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// tokenizing is a model whose folder has a tokenizer alone.
func tokenizing(t *testing.T, kind string, tokenizer map[string]any) *Model {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]any{"tokenizer.json": tokenizer,
		"tokenizer_config.json": map[string]string{"tokenizer_class": "PreTrainedTokenizerFast"}} {
		b, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &Model{dir: dir, Config: Config{Type: kind, Vocabulary: 256, Positions: 64}}
}

// byteLevel is a tokenizer of single bytes and " t", "wo", cut by a part before.
func byteLevel(first map[string]any) map[string]any {
	vocabulary := map[string]int{"Ġt": 0, "wo": 1, "34": 2}
	for _, r := range "Ġabcdefghijklmnopqrstuvwxyz0123456789,." {
		vocabulary[string(r)] = len(vocabulary)
	}
	return map[string]any{
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{first,
			map[string]any{"type": "ByteLevel", "add_prefix_space": false}}},
		"decoder": map[string]any{"type": "ByteLevel"},
		"model":   map[string]any{"type": "BPE", "vocab": vocabulary, "merges": []string{"Ġ t", "w o", "3 4"}},
	}
}

// Digits are cut apart where a tokenizer says so, and spaces are kept; a part that is not known is refused, since what
// comes back of a text shows that it is not understood.
func TestDigits(t *testing.T) {
	m := tokenizing(t, "llama", byteLevel(map[string]any{"type": "Digits", "individual_digits": true}))
	const text = "it is two 34"
	ids, err := m.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := m.Decode(ids); back != text || err != nil {
		t.Errorf("%q comes back as %q: %v", text, back, err)
	}
	if slices.Contains(ids, 2) || !slices.Contains(ids, 0) || !slices.Contains(ids, 1) {
		t.Errorf("tokens %v: 34 is two tokens, \" two\" is \" t\" and \"wo\"", ids)
	}
	m = tokenizing(t, "llama", byteLevel(map[string]any{"type": "UnicodeScripts"}))
	if _, err := m.Encode(text); !errors.Is(err, ErrModel) {
		t.Errorf("a part that is not known: %v", err)
	}
}

// wordPieces is a tokenizer of a few words.
func wordPieces() map[string]any {
	words := map[string]int{"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "the": 3, "cat": 4, "sat": 5, "##s": 6, ".": 7}
	special := func(id int, name string) map[string]any {
		return map[string]any{"id": name, "ids": []int{id}, "tokens": []string{name}}
	}
	token := func(name string) any { return map[string]any{"SpecialToken": map[string]any{"id": name, "type_id": 0}} }
	return map[string]any{
		"normalizer":    map[string]any{"type": "BertNormalizer", "lowercase": true, "clean_text": true},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"post_processor": map[string]any{"type": "TemplateProcessing", "single": []any{token("[CLS]"),
			map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}, token("[SEP]")},
			"special_tokens": map[string]any{"[CLS]": special(1, "[CLS]"), "[SEP]": special(2, "[SEP]")}},
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": words},
	}
}

// Encoders read a text by lines: the ids are those of the same words in one.
func TestLines(t *testing.T) {
	m := tokenizing(t, "bert", wordPieces())
	for _, text := range []string{"The cats sat.\n\nThe cat\nsat the. ", "The cats sat. The cat sat the."} {
		got, err := m.Tokens(text, 6)
		if err != nil {
			t.Fatal(err)
		}
		want := [][]int32{{1, 3, 4, 6, 5, 2}, {1, 7, 3, 4, 5, 2}}
		if !slices.EqualFunc(got, want, slices.Equal[[]int32]) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if _, err := m.Tokens("The cat.", 65); err == nil {
		t.Error("passages longer than the positions")
	}
	if _, err := m.Tokens("cat", 6); err == nil {
		t.Error("a passage of too few tokens")
	}
	m.Vocabulary = 6
	if _, err := m.Tokens("The cats sat. The cat sat the.", 6); !errors.Is(err, ErrModel) {
		t.Errorf("a tokenizer of another vocabulary: %v", err)
	}
}

// Pairs are separated by the token that ends a text, and the longer part is cut first.
func TestTexts(t *testing.T) {
	m := tokenizing(t, "bert", wordPieces())
	for _, c := range []struct {
		parts  []string
		length int
		want   []int32
	}{
		{[]string{"The cats."}, 8, []int32{1, 3, 4, 6, 7, 2}},
		{[]string{"The cats."}, 4, []int32{1, 3, 4, 2}},
		{[]string{"The cats sat.", "the cat"}, 12, []int32{1, 3, 4, 6, 5, 7, 2, 3, 4, 2}},
		{[]string{"The cats sat.", "the cat"}, 7, []int32{1, 3, 4, 2, 3, 4, 2}},
	} {
		got, err := m.Texts([][]string{c.parts}, c.length)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0], c.want) {
			t.Errorf("%q in %d tokens: %v, want %v", c.parts, c.length, got[0], c.want)
		}
	}
	for _, bad := range []int{4, 65} {
		if _, err := m.Texts([][]string{{"the", "cat"}}, bad); !errors.Is(err, ErrModel) {
			t.Errorf("a pair in %d tokens: %v", bad, err)
		}
	}
}

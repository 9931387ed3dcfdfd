// Package text turns text into tokens and back: characters, words, or pieces of words found by byte-pair encoding.
package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrVocabulary means that a text or file does not fit a vocabulary.
var ErrVocabulary = errors.New("vocabulary")

// Unknown stands for tokens outside of the vocabulary. It is always token 0.
const Unknown = "<unk>"

// Kind is the kind of tokens.
type Kind string

// Kinds of tokens.
const (
	Chars Kind = "chars"
	Words Kind = "words" // separated by spaces; a line end is the token "<eos>"
	BPE   Kind = "bpe"   // byte pairs merged by frequency within words (Sennrich et al. 2016)
)

// Vocabulary is the set of tokens of a model. It is saved with the model as JSON.
type Vocabulary struct {
	Kind   Kind        `json:"kind"`
	Tokens []string    `json:"tokens"`
	Merges [][2]string `json:"merges,omitempty"` // BPE: in the order learned

	index map[string]int32
	rank  map[[2]string]int
}

const endOfLine = "<eos>"

// Learn finds the vocabulary of a text: its characters, its most frequent words, or BPE pieces, at most size of
// them.
func Learn(kind Kind, text string, size int) (*Vocabulary, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%w: the text is not UTF-8", ErrVocabulary)
	}
	v := &Vocabulary{Kind: kind, Tokens: []string{Unknown}}
	switch kind {
	case Chars:
		v.Tokens = append(v.Tokens, mostFrequent(strings.Split(text, ""), size-1)...)
	case Words:
		v.Tokens = append(v.Tokens, mostFrequent(words(text), size-1)...)
	case BPE:
		if size < 2 {
			return nil, fmt.Errorf("%w: %d pieces", ErrVocabulary, size)
		}
		v.merge(text, size)
	default:
		return nil, fmt.Errorf("%w: kind %q: take %s, %s or %s", ErrVocabulary, kind, Chars, Words, BPE)
	}
	v.prepare()
	return v, nil
}

// mostFrequent returns the distinct tokens, most frequent first, ties in alphabetical order. n > 0 bounds their
// number.
func mostFrequent(tokens []string, n int) []string {
	count := map[string]int{}
	for _, t := range tokens {
		if t != Unknown {
			count[t]++
		}
	}
	all := make([]string, 0, len(count))
	for t := range count {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	if n > 0 && len(all) > n {
		all = all[:n]
	}
	return all
}

func words(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		all = append(append(all, strings.Fields(line)...), endOfLine)
	}
	return all
}

// prepare builds the indexes from the exported fields.
func (v *Vocabulary) prepare() {
	v.index, v.rank = map[string]int32{}, map[[2]string]int{}
	for i, t := range v.Tokens {
		v.index[t] = int32(i)
	}
	for i, m := range v.Merges {
		v.rank[m] = i
	}
}

// Size is the number of tokens.
func (v *Vocabulary) Size() int { return len(v.Tokens) }

// Encode returns the tokens of a text.
func (v *Vocabulary) Encode(text string) []int32 {
	var parts []string
	switch v.Kind {
	case Chars:
		parts = strings.Split(text, "")
	case Words:
		parts = words(text)
	default:
		return v.encodePieces(text)
	}
	out := make([]int32, len(parts))
	for i, p := range parts {
		out[i] = v.index[p]
	}
	return out
}

// Line returns the tokens of a text that is one line, without the token of the line end.
func (v *Vocabulary) Line(text string) []int32 {
	out := v.Encode(text)
	if n := len(out); v.Kind == Words && n > 0 {
		return out[:n-1]
	}
	return out
}

// Decode returns the text of tokens. Numbers outside of the vocabulary are an error.
func (v *Vocabulary) Decode(tokens []int32) (string, error) {
	var b strings.Builder
	for i, t := range tokens {
		if t < 0 || int(t) >= len(v.Tokens) {
			return "", fmt.Errorf("%w: token %d is none of %d", ErrVocabulary, t, len(v.Tokens))
		}
		s := v.Tokens[t]
		if v.Kind == Words {
			if s == endOfLine {
				s = "\n"
			} else if i > 0 && v.Tokens[tokens[i-1]] != endOfLine {
				s = " " + s
			}
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// UnmarshalJSON reads a saved vocabulary.
func (v *Vocabulary) UnmarshalJSON(b []byte) error {
	type plain Vocabulary
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("%w: %w", ErrVocabulary, err)
	}
	if p.Kind != Chars && p.Kind != Words && p.Kind != BPE || len(p.Tokens) == 0 || p.Tokens[0] != Unknown {
		return fmt.Errorf("%w: kind %q with %d tokens", ErrVocabulary, p.Kind, len(p.Tokens))
	}
	*v = Vocabulary(p)
	v.prepare()
	if len(v.index) != len(v.Tokens) {
		return fmt.Errorf("%w: a token stands there twice", ErrVocabulary)
	}
	return nil
}

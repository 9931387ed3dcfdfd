package token

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tokenizerJSON has the fields of Hugging Face's tokenizer.json that are used. Callers truncate and pad.
type tokenizerJSON struct {
	Added []struct {
		ID         int    `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer    *component `json:"normalizer"`
	PreTokenizer  *component `json:"pre_tokenizer"`
	PostProcessor *component `json:"post_processor"`
	Model         struct {
		Type         string          `json:"type"`
		Vocab        json.RawMessage `json:"vocab"`
		UnknownID    *int            `json:"unk_id"`
		Merges       []merge         `json:"merges"`
		Unknown      *string         `json:"unk_token"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		Suffix       *string         `json:"end_of_word_suffix"`
		MostChars    *int            `json:"max_input_chars_per_word"`
		Dropout      *float64        `json:"dropout"`
		FuseUnknown  bool            `json:"fuse_unk"`
		ByteFallback bool            `json:"byte_fallback"`
		IgnoreMerges bool            `json:"ignore_merges"`
	} `json:"model"`
}

// component is a normalizer, pre-tokenizer or post-processor. Each type uses some of the fields.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`

	CleanText     bool  `json:"clean_text"`
	ChineseChars  bool  `json:"handle_chinese_chars"`
	StripAccents  *bool `json:"strip_accents"`
	Lowercase     bool  `json:"lowercase"`
	PrefixSpace   bool  `json:"add_prefix_space"`
	UseRegex      *bool `json:"use_regex"`
	EachDigit     bool  `json:"individual_digits"`
	Invert        bool  `json:"invert"`
	Behavior      string
	Pattern       struct{ Regex, String *string }
	Content       string                 `json:"content"`
	Prepend       string                 `json:"prepend"`
	CharsMap      string                 `json:"precompiled_charsmap"`
	StripLeft     bool                   `json:"strip_left"`
	StripRight    bool                   `json:"strip_right"`
	Replacement   string                 `json:"replacement"`
	Scheme        *string                `json:"prepend_scheme"`
	SplitMarks    *bool                  `json:"split"`
	Single        []templatePart         `json:"single"`
	Pair          []templatePart         `json:"pair"`
	SpecialTokens map[string]templateIDs `json:"special_tokens"`
	Sep           *[2]json.RawMessage    `json:"sep"`
	Cls           *[2]json.RawMessage    `json:"cls"`
}

type templatePart struct {
	SpecialToken *struct{ ID string }
	Sequence     *struct{ ID string }
}

type templateIDs struct {
	IDs []int `json:"ids"`
}

// vocabulary maps tokens to ids. It has its own JSON reader, which takes a third of the time of the general one:
// reading the vocabulary is much of the start of a small model.
type vocabulary map[string]int32

// UnmarshalJSON reads an object of numbers. encoding/json has already checked that b is valid, so the scan below
// cannot run past the end.
func (v *vocabulary) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return fmt.Errorf("model.vocab: want an object of tokens and their ids")
	}
	text := string(b) // tokens are substrings of it
	*v = make(vocabulary, min(strings.Count(text, `":`), maxVocab))
	for {
		i := strings.IndexByte(text, '"')
		if i < 0 {
			return nil
		}
		text = text[i:]
		end := 1
		for text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		token := text[1:end]
		if strings.IndexByte(token, '\\') >= 0 || !utf8.ValidString(token) {
			if err := json.Unmarshal([]byte(text[:end+1]), &token); err != nil {
				return err
			}
		}
		text = text[end+1:]
		stop := strings.IndexAny(text, ",}")
		_, number, _ := strings.Cut(text[:stop], ":")
		id, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
		if err != nil {
			return fmt.Errorf("model.vocab: token %q: %w", token, err)
		}
		(*v)[token] = int32(id)
		text = text[stop:]
	}
}

// merge is a pair of tokens: "a b" in old files, ["a", "b"] in new ones.
type merge [2]string

func (m *merge) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[2]string)(m))
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	return m.parse(s)
}

func (m *merge) parse(s string) error {
	a, b, ok := strings.Cut(s, " ")
	if !ok || a == "" || b == "" || strings.Contains(b, " ") {
		return fmt.Errorf("merge %q, want two tokens: %w", s, ErrFormat)
	}
	*m = merge{a, b}
	return nil
}

// ParseJSON reads a tokenizer.json.
func ParseJSON(b []byte) (*Tokenizer, error) {
	var j tokenizerJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	var vocab vocabulary
	var scores scored
	if len(j.Model.Vocab) > 0 && j.Model.Vocab[0] == '[' {
		if err := json.Unmarshal(j.Model.Vocab, &scores); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		vocab = make(vocabulary, len(scores.tokens))
		for id, token := range scores.tokens {
			vocab[token] = int32(id)
		}
	} else if err := vocab.UnmarshalJSON(j.Model.Vocab); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	t := &Tokenizer{ids: vocab}
	for token, id := range vocab {
		if err := t.place(int(id), token); err != nil {
			return nil, err
		}
	}
	for _, a := range j.Added {
		if _, ok := t.ids[a.Content]; !ok && len(t.ids) == len(vocab) {
			t.ids = maps.Clone(vocab) // the model must not find added tokens in texts
		}
		if err := t.set(a.ID, a.Content); err != nil {
			return nil, err
		}
	}
	if err := t.normalizer(j.Normalizer); err != nil {
		return nil, err
	}
	if err := t.preTokenizer(j.PreTokenizer); err != nil {
		return nil, err
	}
	if j.Model.Type == "Unigram" {
		if j.Model.ByteFallback {
			return nil, fmt.Errorf("model Unigram with byte_fallback is not supported: %w", ErrFormat)
		}
		if err := t.unigrams(scores, j.Model.UnknownID, t.metaspace); err != nil {
			return nil, err
		}
	} else if t.metaspace != nil {
		return nil, fmt.Errorf("pre-tokenizer Metaspace is supported only for Unigram: %w", ErrFormat)
	} else if err := t.modelOf(&j, vocab); err != nil {
		return nil, err
	}
	for _, a := range j.Added {
		token := addedToken{text: a.Content, id: int32(a.ID), word: a.SingleWord, lstrip: a.LStrip, rstrip: a.RStrip}
		t.special[a.ID] = a.Special
		if a.Normalized {
			if t.normalise != nil {
				token.text = t.normalise(token.text)
			}
			t.normalised.add(token)
		} else {
			t.raw.add(token)
		}
	}
	return t, t.postProcessor(j.PostProcessor)
}

// normalizer appends the functions of a normalizer to t.normalise.
func (t *Tokenizer) normalizer(c *component) error {
	if c == nil {
		return nil
	}
	then := func(f func(string) string) {
		if before := t.normalise; before != nil {
			t.normalise = func(s string) string { return f(before(s)) }
		} else {
			t.normalise = f
		}
	}
	switch c.Type {
	case "Sequence":
		for i := range c.Normalizers {
			if err := t.normalizer(&c.Normalizers[i]); err != nil {
				return err
			}
		}
	case "BertNormalizer":
		accents := c.Lowercase
		if c.StripAccents != nil {
			accents = *c.StripAccents
		}
		then(bertNormalizer{clean: c.CleanText, chinese: c.ChineseChars, accents: accents, lower: c.Lowercase}.apply)
	case "NFC":
		then(norm.NFC.String)
	case "NFD":
		then(norm.NFD.String)
	case "NFKC":
		then(norm.NFKC.String)
	case "NFKD":
		then(norm.NFKD.String)
	case "Lowercase":
		then(lowercase)
	case "StripAccents":
		then(stripMarks)
	case "Prepend":
		then(func(s string) string {
			if s == "" {
				return s
			}
			return c.Prepend + s
		})
	case "Precompiled":
		m, err := parseCharsMap(c.CharsMap)
		if err != nil {
			return err
		}
		then(m.apply)
	case "Strip":
		then(func(s string) string {
			if c.StripLeft {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if c.StripRight {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		})
	case "Replace":
		if c.Pattern.Regex != nil && *c.Pattern.Regex == " {2,}" {
			then(func(s string) string { return spaces.ReplaceAllLiteralString(s, c.Content) })
			return nil
		}
		if c.Pattern.String == nil || *c.Pattern.String == "" {
			return fmt.Errorf("normalizer Replace is supported only for strings: %w", ErrFormat)
		}
		then(strings.NewReplacer(*c.Pattern.String, c.Content).Replace)
	default:
		return fmt.Errorf("normalizer %q is not supported: %w", c.Type, ErrFormat)
	}
	return nil
}

// preTokenizer appends the splitters of a pre-tokenizer to t.split.
func (t *Tokenizer) preTokenizer(c *component) error {
	if c == nil {
		return nil
	}
	if t.prefixSpace {
		return fmt.Errorf("add_prefix_space before the last pre-tokenizer is not supported: %w", ErrFormat)
	}
	if t.metaspace != nil {
		return fmt.Errorf("a pre-tokenizer after Metaspace is not supported: %w", ErrFormat)
	}
	switch c.Type {
	case "WhitespaceSplit":
		t.split = append(t.split, splitWhitespace)
	case "Metaspace":
		if c.Replacement != meta || c.Scheme != nil && *c.Scheme != "always" || c.Scheme == nil && !c.PrefixSpace {
			return fmt.Errorf("pre-tokenizer Metaspace is supported only with ▁ before every text: %w", ErrFormat)
		}
		t.metaspace = c
	case "Sequence":
		for i := range c.PreTokenizers {
			if err := t.preTokenizer(&c.PreTokenizers[i]); err != nil {
				return err
			}
		}
	case "BertPreTokenizer":
		t.split = append(t.split, splitWords)
	case "Digits":
		if !c.EachDigit {
			return fmt.Errorf("pre-tokenizer Digits is supported only with individual_digits: %w", ErrFormat)
		}
		t.split = append(t.split, splitDigits)
	case "ByteLevel":
		if c.UseRegex == nil || *c.UseRegex {
			t.split = append(t.split, splitGPT2)
			t.prefixSpace = c.PrefixSpace
		} else if c.PrefixSpace {
			return fmt.Errorf("pre-tokenizer ByteLevel with add_prefix_space but without use_regex is not supported: %w",
				ErrFormat)
		}
	case "Split":
		if s := c.Pattern.String; s != nil && t.normalise != nil && !strings.Contains(t.normalise(*s), *s) {
			return nil // the normalizer leaves nothing to split at (Gemma)
		}
		if c.Pattern.Regex == nil || patterns[*c.Pattern.Regex] == nil ||
			!(c.Behavior == "Isolated" && !c.Invert || c.Behavior == "Removed" && c.Invert) {
			pattern := ""
			if c.Pattern.Regex != nil {
				pattern = *c.Pattern.Regex
			}
			return fmt.Errorf("pre-tokenizer Split by %q is not supported (patterns of GPT-2, Llama 3 and Qwen2 are): %w",
				pattern, ErrFormat)
		}
		t.split = append(t.split, patterns[*c.Pattern.Regex])
	default:
		return fmt.Errorf("pre-tokenizer %q is not supported: %w", c.Type, ErrFormat)
	}
	return nil
}

// spaces is the only pattern that the normalizer Replace supports.
var spaces = regexp.MustCompile(" {2,}")

// modelOf makes the model that the file describes.
func (t *Tokenizer) modelOf(j *tokenizerJSON, vocab map[string]int32) error {
	m := &j.Model
	unknown := int32(-1)
	if m.Unknown != nil {
		id, ok := vocab[*m.Unknown]
		if !ok {
			return fmt.Errorf("unk_token %q is not in the vocabulary: %w", *m.Unknown, ErrFormat)
		}
		unknown = id
	}
	switch m.Type {
	case "WordPiece":
		if m.Prefix == nil || unknown < 0 {
			return fmt.Errorf("WordPiece without unk_token or continuing_subword_prefix: %w", ErrFormat)
		}
		most := 100
		if m.MostChars != nil {
			most = *m.MostChars
		}
		t.wordPiece(vocab, *m.Prefix, most, unknown)
		return nil
	case "BPE":
		if m.Prefix != nil && *m.Prefix != "" || m.Suffix != nil && *m.Suffix != "" ||
			m.Dropout != nil && *m.Dropout != 0 {
			return fmt.Errorf("BPE with dropout, a prefix or a suffix is not supported: %w", ErrFormat)
		}
		marks := ""
		if t.normalise != nil {
			marks = t.normalise(" a b")
		}
		if m.ByteFallback && (m.IgnoreMerges || len(t.split) > 0 || marks != "▁a▁b" && marks != "▁▁a▁b") {
			return fmt.Errorf("BPE with byte_fallback is supported with ▁ for spaces and without pre-tokenizer: %w",
				ErrFormat)
		}
		return t.bytePairs(vocab, m.Merges, m.IgnoreMerges, m.ByteFallback, unknown)
	}
	return fmt.Errorf("model %q is not supported (WordPiece, BPE and Unigram are): %w", m.Type, ErrFormat)
}

// wordPiece makes the WordPiece model of a vocabulary.
func (t *Tokenizer) wordPiece(vocab map[string]int32, prefix string, most int, unknown int32) {
	m := &wordPiece{words: vocab, parts: map[string]int32{}, prefix: prefix, most: most, unknown: unknown}
	for token, id := range vocab {
		if part, ok := strings.CutPrefix(token, prefix); ok {
			m.parts[part] = id
		}
		m.reach = max(m.reach, len(token))
	}
	t.model = m
}

// bytePairs makes the BPE model of a vocabulary and its merges, in the order of their ranks. t.tokens of byte-level
// tokens become the bytes they stand for.
func (t *Tokenizer) bytePairs(vocab map[string]int32, merges []merge, whole, chars bool, unknown int32) error {
	if len(merges) >= math.MaxInt32 {
		return fmt.Errorf("%d merges: %w", len(merges), ErrFormat)
	}
	m := &bpe{merges: make(map[uint64]uint64, len(merges)), unknown: unknown}
	for b := range m.bytes {
		m.bytes[b] = -1
	}
	if whole {
		m.whole = make(map[string]int32, len(vocab))
	}
	if chars {
		m.chars, m.dummy = map[rune]int32{}, t.normalise("a") == "▁a"
	}
	for token, id := range vocab {
		if chars {
			t.tokens[id] = m.addChars(token, id)
			continue
		}
		raw, ok := rawBytes(token)
		if !ok {
			continue // a marker, not spelled in bytes
		}
		t.tokens[id] = raw
		m.reach = max(m.reach, len(raw))
		if len(raw) == 1 {
			m.bytes[raw[0]] = id
		}
		if whole {
			m.whole[raw] = id
		}
	}
	for rank, p := range merges {
		a, okA := vocab[p[0]]
		b, okB := vocab[p[1]]
		to, ok := vocab[p[0]+p[1]]
		if !okA || !okB || !ok {
			return fmt.Errorf("merge %d of %q and %q: one of them, or both joined, is not in the vocabulary: %w", rank,
				p[0], p[1], ErrFormat)
		}
		m.merges[pair(a, b)] = uint64(rank)<<32 | uint64(uint32(to))
	}
	m.ordered = m.inOrder()
	t.model = m
	return nil
}

// postProcessor keeps the markers around a single text. Templates for pairs of texts are not used.
func (t *Tokenizer) postProcessor(c *component) error {
	if c == nil {
		return nil
	}
	switch c.Type {
	case "Sequence":
		for i := range c.Processors {
			if err := t.postProcessor(&c.Processors[i]); err != nil {
				return err
			}
		}
	case "ByteLevel":
	case "TemplateProcessing":
		return t.template(c)
	case "BertProcessing", "RobertaProcessing":
		for i, p := range []*[2]json.RawMessage{c.Cls, c.Sep} {
			var id int
			if p == nil || json.Unmarshal(p[1], &id) != nil || id < 0 || id >= t.Len() {
				return fmt.Errorf("post-processor %s without sep and cls: %w", c.Type, ErrFormat)
			}
			if i == 0 {
				t.prefix = []int32{int32(id)}
			} else {
				t.suffix = []int32{int32(id)}
			}
		}
		if t.middle = t.suffix; c.Type == "RobertaProcessing" {
			t.middle = []int32{t.suffix[0], t.suffix[0]}
		}
	default:
		return fmt.Errorf("post-processor %q is not supported: %w", c.Type, ErrFormat)
	}
	return nil
}

// template splits the markers of a text and those of a pair into those before the texts, between and after them.
func (t *Tokenizer) template(c *component) error {
	var single, pair [3][]int32
	for list, into := range map[*[]templatePart]*[3][]int32{&c.Single: &single, &c.Pair: &pair} {
		at := 0
		for _, p := range *list {
			if p.Sequence != nil {
				at++
			}
			if p.SpecialToken == nil {
				continue
			}
			for _, id := range c.SpecialTokens[p.SpecialToken.ID].IDs {
				if id < 0 || id >= t.Len() || at > 2 {
					return fmt.Errorf("post-processor adds id %d of %d: %w", id, t.Len(), ErrFormat)
				}
				into[at] = append(into[at], int32(id))
			}
		}
	}
	if single[2] != nil {
		return fmt.Errorf("post-processor with two texts: %w", ErrFormat)
	}
	t.prefix, t.middle, t.suffix = single[0], pair[1], single[1]
	return nil
}

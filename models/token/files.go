package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/models/gguf"
	"github.com/randfeat/randfeat/models/weights"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 1 << 27

// Open reads the tokenizer of a Hugging Face folder: tokenizer.json or, without it, BERT's vocab.txt.
// generation_config.json, config.json and tokenizer_config.json name the ids that end a text.
func Open(folder string) (*Tokenizer, error) { return OpenIn(weights.Folder(folder)) }

// OpenIn is Open for a source.
func OpenIn(src *weights.Source) (*Tokenizer, error) {
	f := files{src}
	t, err := f.open()
	if err != nil {
		return nil, err
	}
	return t, f.readEnds(t)
}

// files are those of a folder with a tokenizer.
type files struct{ *weights.Source }

func (f files) open() (*Tokenizer, error) {
	const name, vocab = "tokenizer.json", "vocab.txt"
	b, err := f.Read(name, maxFile)
	if err == nil {
		t, err := ParseJSON(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path(name), err)
		}
		return t, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b, err = f.Read(vocab, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no tokenizer.json and no vocab.txt in this folder: %w", f.Name, ErrFormat)
	}
	if err != nil {
		return nil, err
	}
	var config struct {
		Lower   *bool `json:"do_lower_case"`
		Accents *bool `json:"strip_accents"`
		Chinese *bool `json:"tokenize_chinese_chars"`
	}
	if err := f.json("tokenizer_config.json", &config); err != nil {
		return nil, err
	}
	yes := true
	n := bertNormalizer{clean: true, chinese: *or(config.Chinese, &yes), lower: *or(config.Lower, &yes)}
	n.accents = *or(config.Accents, &n.lower)
	t, err := fromVocab(strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"), n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path(vocab), err)
	}
	return t, nil
}

func or[T any](p, otherwise *T) *T {
	if p != nil {
		return p
	}
	return otherwise
}

// fromVocab makes BERT's WordPiece tokenizer. The index of a token is its id.
func fromVocab(tokens []string, n bertNormalizer) (*Tokenizer, error) {
	t := &Tokenizer{ids: make(map[string]int32, len(tokens)), normalise: n.apply, split: []splitter{splitWords}}
	for id, token := range tokens {
		if err := t.set(id, strings.TrimSuffix(token, "\r")); err != nil {
			return nil, err
		}
	}
	marker := map[string]int32{}
	for _, name := range []string{"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"} {
		id, ok := t.ids[name]
		if !ok {
			if name == "[PAD]" || name == "[MASK]" {
				continue
			}
			return nil, fmt.Errorf("no token %s: %w", name, ErrFormat)
		}
		marker[name] = id
		t.special[id] = true
		t.raw.add(addedToken{text: name, id: id})
	}
	t.prefix, t.suffix = []int32{marker["[CLS]"]}, []int32{marker["[SEP]"]}
	t.middle = t.suffix
	t.wordPiece(t.ids, "##", 100, marker["[UNK]"])
	return t, nil
}

// readEnds reads which ids end a text. Missing files add none.
func (f files) readEnds(t *Tokenizer) error {
	for _, name := range []string{"generation_config.json", "config.json"} {
		var config struct {
			End json.RawMessage `json:"eos_token_id"`
		}
		if err := f.json(name, &config); err != nil {
			return err
		}
		var one int32
		var many []int32
		if json.Unmarshal(config.End, &one) == nil && len(config.End) > 0 && string(config.End) != "null" {
			many = []int32{one}
		} else if len(config.End) > 0 && json.Unmarshal(config.End, &many) != nil {
			return fmt.Errorf("%s: eos_token_id %s: %w", f.Path(name), config.End, ErrFormat)
		}
		t.ends = append(t.ends, many...)
	}
	var config struct {
		End   json.RawMessage `json:"eos_token"`
		Begin json.RawMessage `json:"bos_token"`
		Chat  json.RawMessage `json:"chat_template"`
	}
	if err := f.json("tokenizer_config.json", &config); err != nil {
		return err
	}
	marker := func(b json.RawMessage) (text string) {
		var object struct{ Content string }
		if json.Unmarshal(b, &text) != nil && json.Unmarshal(b, &object) == nil {
			text = object.Content
		}
		return text
	}
	t.Chat.BOS, t.Chat.EOS = marker(config.Begin), marker(config.End)
	if err := f.readChat(t, config.Chat); err != nil {
		return err
	}
	text := t.Chat.EOS
	if id, ok := t.ids[text]; ok && text != "" {
		t.ends = append(t.ends, id)
	}
	t.ends = slices.DeleteFunc(t.ends, func(id int32) bool { return id < 0 || int(id) >= t.Len() })
	slices.Sort(t.ends)
	t.ends = slices.Compact(t.ends)
	return nil
}

// readChat reads the template of conversations: a file of its own, or a field that has one template or several with
// names.
func (f files) readChat(t *Tokenizer, field json.RawMessage) error {
	b, err := f.Read("chat_template.jinja", maxFile)
	if err == nil {
		t.Chat.Template = string(b)
		return nil
	}
	var list []struct{ Name, Template string }
	if len(field) > 0 && json.Unmarshal(field, &t.Chat.Template) != nil && json.Unmarshal(field, &list) != nil {
		return fmt.Errorf("%s: chat_template is neither a text nor a list: %w", f.Path("tokenizer_config.json"),
			ErrFormat)
	}
	for _, c := range list {
		if c.Name == "default" {
			t.Chat.Template = c.Template
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// json reads a file into v. A missing file leaves v unchanged.
func (f files) json(name string, v any) error {
	err := f.ReadJSON(name, maxFile, v)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}

// Types of tokens in GGUF files.
const (
	ggufControl     = 3
	ggufUserDefined = 4
)

// ggufSplits has the pre-tokenizers by the names of llama.cpp (llama-vocab.cpp).
var ggufSplits = map[string][]splitter{
	"":                 {splitGPT2},
	"default":          {splitGPT2},
	"gpt-2":            {splitGPT2},
	"smollm":           {splitDigits, splitGPT2},
	"starcoder":        {splitDigits, splitGPT2},
	"llama-bpe":        {patterns[patternLlama3]},
	"llama3":           {patterns[patternLlama3]},
	"llama-v3":         {patterns[patternLlama3]},
	"qwen2":            {patterns[patternQwen2]},
	"deepseek-r1-qwen": {patterns[patternQwen2]},
}

// FromGGUF reads the tokenizer of a GGUF file.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	t, err := fromGGUF(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path(), err)
	}
	return t, nil
}

// ggufKeys change no ids of a text, or are used below.
var ggufKeys = []string{"model", "pre", "tokens", "token_type", "token_type_count", "scores", "merges", "add_bos_token",
	"add_sep_token", "eos_token_id", "eot_token_id", "eom_token_id", "bos_token_id", "unknown_token_id",
	"padding_token_id", "seperator_token_id", "separator_token_id", "cls_token_id", "mask_token_id", "prefix_token_id",
	"suffix_token_id", "middle_token_id", "fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id",
	"fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"}

func fromGGUF(f *gguf.File) (*Tokenizer, error) {
	const p = "tokenizer.ggml."
	for _, name := range f.Unknown(p, ggufKeys) {
		if f.String(p+"model") == "bert" && (name == "add_eos_token" || name == "add_space_prefix") {
			continue // BERT's template has its own markers, and its words have no spaces
		}
		return nil, fmt.Errorf("%s%s is set, which is not supported: %w", p, name, ErrFormat)
	}
	tokens, kinds := f.Strings(p+"tokens"), f.Ints(p+"token_type")
	if len(tokens) == 0 || kinds != nil && len(kinds) != len(tokens) {
		return nil, fmt.Errorf("metadata has %d tokens and %d types of them: %w", len(tokens), len(kinds), ErrFormat)
	}
	kind := func(id int) int64 {
		if kinds == nil {
			return 1
		}
		return kinds[id]
	}
	switch model := f.String(p + "model"); model {
	case "bert":
		// Converters mark the beginnings of words with U+2581 instead of the continuations with ##.
		list := slices.Clone(tokens)
		for id, s := range list {
			if word, ok := strings.CutPrefix(s, "\u2581"); ok {
				list[id] = word
			} else if kind(id) != ggufControl && !(strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]")) {
				list[id] = "##" + s
			}
		}
		return fromVocab(list, bertNormalizer{clean: true, chinese: true, accents: true, lower: true})
	case "gpt2":
	default:
		return nil, fmt.Errorf("tokenizer %q is not supported (bert and gpt2 are): %w", model, ErrFormat)
	}
	split, ok := ggufSplits[f.String(p+"pre")]
	if !ok {
		return nil, fmt.Errorf("pre-tokenizer %q is not supported (gpt-2, smollm, llama-bpe and qwen2 are): %w",
			f.String(p+"pre"), ErrFormat)
	}
	t := &Tokenizer{ids: make(map[string]int32, len(tokens)), split: split}
	for id, s := range tokens {
		if err := t.set(id, s); err != nil {
			return nil, err
		}
		switch kind(id) {
		case ggufControl, ggufUserDefined:
			t.special[id] = kind(id) == ggufControl
			t.raw.add(addedToken{text: s, id: int32(id)})
		}
	}
	merges := make([]merge, len(f.Strings(p+"merges")))
	for i, s := range f.Strings(p + "merges") {
		if err := merges[i].parse(s); err != nil {
			return nil, err
		}
	}
	if err := t.bytePairs(t.ids, merges, ignoresMerges(f.String(p+"pre")), false, -1); err != nil {
		return nil, err
	}
	id := func(name string) (int32, bool) {
		v, ok := f.Int(p + name)
		return int32(v), ok && v >= 0 && v < t.Len()
	}
	for _, name := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		if v, ok := id(name); ok && !slices.Contains(t.ends, v) {
			t.ends = append(t.ends, v)
		}
	}
	t.Chat.Template = f.String("tokenizer.chat_template")
	if v, ok := id("bos_token_id"); ok {
		t.Chat.BOS = tokens[v]
	}
	if v, ok := id("eos_token_id"); ok {
		t.Chat.EOS = tokens[v]
	}
	if add, ok := f.Bool(p + "add_bos_token"); add || !ok && ignoresMerges(f.String(p+"pre")) {
		if v, ok := id("bos_token_id"); ok {
			t.prefix = []int32{v}
		}
	}
	return t, nil
}

// ignoresMerges tells whether the pre-tokenizer is that of Llama 3: words that are tokens are taken whole, and every
// text begins with a marker.
func ignoresMerges(pre string) bool {
	return pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3"
}

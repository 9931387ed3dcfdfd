package token

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/randfeat/randfeat/models/gguf"
)

func open(t testing.TB, name string) *Tokenizer {
	tok, err := Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Byte-level tokenizers give every text back, whatever its bytes, but for what they normalise.
func TestDecodeReturnsTheText(t *testing.T) {
	texts := readLines[string](t, "testdata/texts.jsonl")
	for _, name := range []string{"smollm", "llama3"} {
		tok := open(t, name)
		for _, text := range texts {
			if strings.Contains(text, "<|") {
				continue // markers are not a part of the text
			}
			if got := tok.Decode(tok.Encode(nil, text)); got != text {
				t.Errorf("%s: %q became %q", name, text, got)
			}
		}
	}
	tok := open(t, "bert")
	ids := tok.Wrap(nil, tok.Encode(nil, "Random features, a text"), 0)
	if got := tok.Decode(ids); got != "random features , a text" {
		t.Errorf("bert: %q", got)
	}
}

// A stream returns whole characters only, and all of the text.
func TestStream(t *testing.T) {
	tok := open(t, "smollm")
	for _, text := range readLines[string](t, "testdata/texts.jsonl") {
		if strings.Contains(text, "<|") {
			continue
		}
		s, joined, waited := tok.Stream(), "", false
		for _, id := range tok.Encode(nil, text) {
			part := s.Next(id)
			if !utf8.ValidString(part) {
				t.Fatalf("%q: %q is a part of a character", text, part)
			}
			waited = waited || part == ""
			joined += part
		}
		if rest := s.Flush(); joined != text || rest != "" {
			t.Errorf("%q became %q and %q", text, joined, rest)
		}
		if text == "🙂" && !waited {
			t.Error("no part of 🙂 waited for the others")
		}
	}
	s := tok.Stream()
	half := tok.Encode(nil, "🙂")[:1]
	if got := s.Next(half[0]) + s.Flush(); got != "\ufffd" && len(half) > 0 {
		t.Errorf("half a character became %q", got)
	}
	for _, id := range []int32{-1, 1 << 30, 0} { // 0 is a marker
		if got := s.Next(id) + s.Flush(); got != "" {
			t.Errorf("id %d became %q", id, got)
		}
	}
}

func TestEncodeText(t *testing.T) {
	tok := open(t, "smollm")
	const text = "a<|im_end|>b"
	end, _ := tok.ID("<|im_end|>")
	if ids := tok.Encode(nil, text); !slices.Contains(ids, end) {
		t.Errorf("Encode: %v has no %d", ids, end)
	}
	ids := tok.EncodeText(nil, text)
	if slices.Contains(ids, end) || tok.Decode(ids) != text {
		t.Errorf("EncodeText: %v, %q", ids, tok.Decode(ids))
	}
}

func TestWrap(t *testing.T) {
	tok := open(t, "bert")
	ids := tok.Encode(nil, "a b c d e")
	cls, _ := tok.ID("[CLS]")
	sep, _ := tok.ID("[SEP]")
	got := tok.Wrap(nil, ids, 4)
	if want := []int32{cls, ids[0], ids[1], sep}; !slices.Equal(got, want) || tok.Markers() != 2 {
		t.Errorf("%v, want %v", got, want)
	}
	if got := tok.Wrap(nil, ids, 1); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// Words of more than 100 characters are unknown, as in the reference.
func TestLongWords(t *testing.T) {
	tok := open(t, "bert")
	unknown, _ := tok.ID("[UNK]")
	if ids := tok.Encode(nil, strings.Repeat("a", 100)); slices.Contains(ids, unknown) {
		t.Errorf("100 characters: %v", ids)
	}
	if ids := tok.Encode(nil, strings.Repeat("é", 101)); !slices.Equal(ids, []int32{unknown}) {
		t.Errorf("101 characters: %v", ids)
	}
}

// The patterns of Llama 3 and Qwen2 ignore case by the rules of Unicode, where ſ is an s; that of GPT-2 does not.
func TestContractions(t *testing.T) {
	for s, want := range map[string][2]int{"'s": {2, 2}, "'S": {0, 2}, "'ſ": {0, 3}, "'ll x": {3, 3}, "'Re": {0, 3},
		"'le": {0, 0}, "'rl": {0, 0}, "'x": {0, 0}, "'": {0, 0}, "'v": {0, 0}, "s": {0, 0}} {
		if got := [2]int{contraction(s, false), contraction(s, true)}; got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

// vocab.txt and a GGUF file's metadata make the tokenizer that tokenizer.json describes.
func TestVocabularies(t *testing.T) {
	want := open(t, "bert")
	dir := t.TempDir()
	vocab := strings.Join(want.tokens, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(vocab), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range readLines[string](t, "testdata/texts.jsonl") {
		a := got.Wrap(nil, got.Encode(nil, text), 0)
		b := want.Wrap(nil, want.Encode(nil, text), 0)
		if !slices.Equal(a, b) {
			t.Errorf("%q: %v, want %v", text, a, b)
		}
	}
}

func TestEnds(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile("testdata/smollm/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"tokenizer.json": string(b),
		"generation_config.json": `{"eos_token_id": [2, 9999]}`,
		"config.json":            `{"eos_token_id": 0}`,
		"tokenizer_config.json":  `{"eos_token": {"content": "<|im_end|>"}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(tok.ends, []int32{0, 2}) || !tok.IsEnd(2) || tok.IsEnd(1) {
		t.Errorf("ends %v", tok.ends)
	}
}

// naive is the definition of byte-pair encoding: merge the best pair, begin again.
func naive(m *bpe, piece string) []int32 {
	var ids []int32
	for i := range len(piece) {
		ids = append(ids, m.bytes[piece[i]])
	}
	for {
		best, at := uint64(1<<63), -1
		for i := range max(0, len(ids)-1) {
			if v, ok := m.merges[pair(ids[i], ids[i+1])]; ok && v>>32 < best {
				best, at = v>>32, i
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = int32(uint32(m.merges[pair(ids[at], ids[at+1])]))
		ids = slices.Delete(ids, at+1, at+2)
	}
}

func TestMergesEqualNaive(t *testing.T) {
	m := open(t, "smollm").model.(*bpe)
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := make([]byte, 1+r.IntN(40))
		for i := range b {
			b[i] = "etaoin srtha"[r.IntN(12)]
		}
		if got, want := m.append(nil, string(b)), naive(m, string(b)); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", b, got, want)
		}
	}
}

type object = map[string]any

func modelOf(j object) object { return j["model"].(object) }

func TestErrors(t *testing.T) {
	b, err := os.ReadFile("testdata/smollm/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	with := func(part, kind string) func(j object) { return func(j object) { j[part] = object{"type": kind} } }
	for want, change := range map[string]func(j object){
		`model "WordLevel" is not supported`:       func(j object) { modelOf(j)["type"] = "WordLevel" },
		"Unigram without unk_id or Metaspace":      func(j object) { modelOf(j)["type"] = "Unigram" },
		"BPE with byte_fallback":                   func(j object) { modelOf(j)["byte_fallback"] = true },
		`unk_token "?!x" is not in the vocabulary`: func(j object) { modelOf(j)["unk_token"] = "?!x" },
		"merge 0 of":                         func(j object) { modelOf(j)["merges"] = []string{"?!x y"} },
		`merge "xy", want two tokens`:        func(j object) { modelOf(j)["merges"] = []string{"xy"} },
		`normalizer "Nmt" is not supported`:  with("normalizer", "Nmt"),
		"normalizer Precompiled: 0 bytes":    with("normalizer", "Precompiled"),
		"Metaspace is supported only with ▁": with("pre_tokenizer", "Metaspace"),
		`pre-tokenizer "Punctuation" is not`: with("pre_tokenizer", "Punctuation"),
		`pre-tokenizer Split by "x+" is not supported`: func(j object) {
			j["pre_tokenizer"] = object{"type": "Split", "behavior": "Isolated", "pattern": object{"Regex": "x+"}}
		},
		`post-processor "Other" is not supported`: with("post_processor", "Other"),
		"has id 4194304":  func(j object) { modelOf(j)["vocab"].(object)["zzz"] = 1 << 22 },
		"id 5 has tokens": func(j object) { modelOf(j)["vocab"].(object)["zzz"] = 5 },
		"model.vocab":     func(j object) { modelOf(j)["vocab"] = 1 },
	} {
		var j object
		if err := json.Unmarshal(b, &j); err != nil {
			t.Fatal(err)
		}
		change(j)
		changed, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseJSON(changed); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// FuzzEncode: any text gives ids of the vocabulary, and byte-level ones give the text back.
func FuzzEncode(f *testing.F) {
	f.Add("Hello, wörld 123\n\n 🙂 don't")
	f.Add("\xff\xfea\x80")
	var all []*Tokenizer
	for _, name := range []string{"smollm", "llama3", "qwen2", "gpt2", "bert", "cased"} {
		all = append(all, open(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range all {
			ids := tok.EncodeText(nil, text)
			for _, id := range ids {
				if id < 0 || int(id) >= tok.Len() {
					t.Fatalf("id %d of %d", id, tok.Len())
				}
			}
			tok.Encode(nil, text)
			back := tok.Decode(ids)
			if !utf8.ValidString(back) || i < 2 && utf8.ValidString(text) && back != text {
				t.Fatalf("%q became %q", text, back)
			}
		}
	})
}

// FuzzParseJSON: any bytes give a tokenizer that works, or an error.
func FuzzParseJSON(f *testing.F) {
	for _, name := range []string{"bert", "llama3"} {
		b, err := os.ReadFile(filepath.Join("testdata", name, "tokenizer.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tok, err := ParseJSON(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		ids := tok.Encode(nil, "a text 12 [CLS] é\n")
		tok.Decode(tok.Wrap(nil, ids, 5))
	})
}

// The tokenizer inside of a GGUF file equals the one that peers/tokens.py writes for it.
func TestFromGGUF(t *testing.T) {
	models, tokens := os.Getenv("RANDFEAT_MODELS"), os.Getenv("RANDFEAT_TOKENS")
	if models == "" || tokens == "" {
		t.Skip("RANDFEAT_MODELS or RANDFEAT_TOKENS names no folder")
	}
	file, err := gguf.Open(filepath.Join(models, "smollm2.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := FromGGUF(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Open(filepath.Join(tokens, "smollm"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range readLines[string](t, filepath.Join(tokens, "lines.jsonl")) {
		if a, b := got.Encode(nil, text), want.Encode(nil, text); !slices.Equal(a, b) {
			t.Fatalf("%q: %v, want %v", text, a, b)
		}
	}
	if !got.IsEnd(2) {
		t.Errorf("ends %v", got.ends)
	}
}

func BenchmarkEncode(b *testing.B) {
	folder := os.Getenv("RANDFEAT_TOKENS")
	if folder == "" {
		b.Skip("RANDFEAT_TOKENS names no folder")
	}
	for _, name := range []string{"minilm", "smollm"} {
		tok, err := Open(filepath.Join(folder, name))
		if err != nil {
			b.Fatal(err)
		}
		for size, text := range map[string]string{"line": strings.Repeat("The quick brown fox jumps over it. ", 10),
			"word=64kB": strings.Repeat("ab", 1<<15)} {
			b.Run(name+"/"+size, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				var ids []int32
				for b.Loop() {
					ids = tok.Encode(ids[:0], text)
				}
			})
		}
	}
}

// The reader of vocabularies agrees with the general one.
func TestVocabulary(t *testing.T) {
	for _, text := range []string{`{}`, ` { "a" : 1 , "\"": 2, "\\": 3,"\u00e9\n":4, ":,}": 5, "a": 6,` + "\n" +
		`"é": -7}`, "{\"\xff\": 1}", `{"a": 1.5}`, `{"a": "1"}`, `{"a": "x,y"}`, `{"a": {"b": 1}}`,
		`{"a": 4294967296}`, `[1]`, `{"a": null}`} {
		var got vocabulary
		var want map[string]int32
		errGot, errWant := json.Unmarshal([]byte(text), &got), json.Unmarshal([]byte(text), &want)
		if text == `{"a": null}` {
			errWant = errors.New("ids are never null")
		}
		if (errGot == nil) != (errWant == nil) || errWant == nil && !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v, %v", text, got, errGot, want, errWant)
		}
	}
}

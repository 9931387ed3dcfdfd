package text_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/repro/training/text"
)

const sample = "the cat sat on the mat\nthe cats sat  on\tthe mats, naïve\n"

// A vocabulary reproduces the text that it was learned from, also after it was saved.
func TestRoundTrip(t *testing.T) {
	for _, kind := range []text.Kind{text.Chars, text.Words, text.BPE} {
		v, err := text.Learn(kind, sample, 60)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var loaded text.Vocabulary
		if err := json.Unmarshal(b, &loaded); err != nil {
			t.Fatal(err)
		}
		got, err := loaded.Decode(v.Encode(sample))
		if err != nil {
			t.Fatal(err)
		}
		want := sample
		if kind == text.Words { // spaces are not kept
			want = strings.NewReplacer("  ", " ", "\t", " ").Replace(sample)
		}
		if got != want {
			t.Errorf("%s: %q became %q", kind, want, got)
		}
	}
}

// Frequent pairs become tokens, the same ones every time, and words are never joined to the next.
func TestPieces(t *testing.T) {
	a, err := text.Learn(text.BPE, strings.Repeat(sample, 3), 60)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b, _ := text.Learn(text.BPE, strings.Repeat(sample, 3), 60)
		if strings.Join(a.Tokens, "|") != strings.Join(b.Tokens, "|") {
			t.Fatal("pieces differ from one time to the next")
		}
	}
	if n := len(a.Encode(" the")); n != 1 {
		t.Errorf("\" the\" is %d tokens", n)
	}
	if len(a.Tokens) > 60 {
		t.Errorf("%d tokens", len(a.Tokens))
	}
	for _, s := range a.Tokens {
		if strings.Contains(strings.TrimPrefix(s, " "), " ") {
			t.Errorf("token %q holds more than one word", s)
		}
	}
}

func TestBadVocabularies(t *testing.T) {
	if _, err := text.Learn("nosuch", sample, 9); !errors.Is(err, text.ErrVocabulary) {
		t.Errorf("unknown kind: %v", err)
	}
	if _, err := text.Learn(text.Chars, "\xff", 9); !errors.Is(err, text.ErrVocabulary) {
		t.Errorf("bytes that are no text: %v", err)
	}
	for _, s := range []string{"{}", "[", `{"kind":"chars","tokens":["a"]}`,
		`{"kind":"chars","tokens":["<unk>","a","a"]}`} {
		if err := json.Unmarshal([]byte(s), new(text.Vocabulary)); err == nil {
			t.Errorf("%s is taken", s)
		}
	}
	v, _ := text.Learn(text.Words, sample, 9)
	if _, err := v.Decode([]int32{100}); !errors.Is(err, text.ErrVocabulary) {
		t.Errorf("token 100: %v", err)
	}
	if got := v.Encode("nosuchword")[0]; got != 0 {
		t.Errorf("an unknown word is token %d", got)
	}
}

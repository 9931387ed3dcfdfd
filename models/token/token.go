// Package token converts text to the ids that models read, and back: WordPiece of BERT, byte-level BPE of GPT-2, Llama
// 3, SmolLM2 and Qwen2, and BPE of characters of Gemma and Llama 2. The ids equal those of Hugging Face's tokenizers
// (peers/tokens.py compares them).
//
// Open a tokenizer, encode a text, add the markers the model expects, decode:
//
//	t, err := token.Open(folder)              // or token.FromGGUF(file)
//	ids := t.Encode(nil, "a text")            // t.EncodeText for untrusted text
//	input := t.Wrap(nil, ids, maxTokens)
//	text := t.Decode(ids)
//
// Use a [Stream] to decode generated ids one by one. A [Tokenizer] is safe for concurrent use. Tokenizers of other
// kinds are refused with [ErrFormat].
package token

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// ErrFormat means that a tokenizer is damaged or of an unsupported kind.
var ErrFormat = errors.New("not a usable tokenizer")

// Tokenizer converts text to ids. It is safe for concurrent use.
type Tokenizer struct {
	tokens  []string         // by id: the bytes of a byte-level token, the text of any other
	ids     map[string]int32 // by token as files spell it
	special []bool           // by id: whether it is a marker, which never appears in decoded text

	// Chat is what the files say about conversations: a template of Jinja, and the markers that it may name.
	Chat struct{ Template, BOS, EOS string }

	raw        added // tokens found in the text before normalisation
	normalised added // tokens found after normalisation
	normalise  func(s string) string
	split      []splitter // each splits the pieces of the one before
	model      model

	prefix, suffix []int32    // markers around every input: [CLS] and [SEP], or BOS
	middle         []int32    // markers between the texts of a pair
	ends           []int32    // ids that end a generated text
	metaspace      *component // of a unigram model
	prefixSpace    bool       // put a space before a text for the last splitter, unless there is one
}

// model turns a piece of text into ids.
type model interface {
	append(dst []int32, piece string) []int32
	// least returns a number of ids that the piece has at least, without encoding it.
	least(piece string) int
	// text returns the characters that a token stands for. first means that nothing comes before it.
	text(token string, first bool) string
}

// Encode appends the ids of text to dst, without the markers that Wrap adds. Markers that are spelled out in the text,
// such as <|im_end|>, become single ids, as with Hugging Face's tokenizers. Use EncodeText for untrusted text.
func (t *Tokenizer) Encode(dst []int32, text string) []int32 {
	dst, _ = t.EncodeMost(dst, text, math.MaxInt)
	return dst
}

// EncodeMost is Encode for texts of at most most ids. It reports false as soon as the text is known to have more, which
// for long texts is long before the end: time and memory are then those of most ids.
func (t *Tokenizer) EncodeMost(dst []int32, text string, most int) ([]int32, bool) {
	return t.encode(dst, text, most, false)
}

// guard stands between the characters of a marker that is only text. It is no character of Unicode.
const guard = "\ufdd0"

// Guard makes markers that an untrusted text spells out, such as <|im_end|>, ordinary text for EncodeGuarded, also
// within a larger text that has markers of its own.
func (t *Tokenizer) Guard(text string) string {
	var b strings.Builder
	t.raw.each(strings.ReplaceAll(text, guard, "\ufffd"), func(s string, id int32) bool {
		if id >= 0 && t.special[id] {
			s = strings.Join(strings.Split(s, ""), guard)
		}
		b.WriteString(s)
		return true
	})
	return b.String()
}

// EncodeGuarded is EncodeMost for a text that contains results of Guard.
func (t *Tokenizer) EncodeGuarded(dst []int32, text string, most int) ([]int32, bool) {
	return t.encode(dst, text, most, true)
}

func (t *Tokenizer) encode(dst []int32, text string, most int, guarded bool) ([]int32, bool) {
	e := encoding{t: t, dst: dst, end: most}
	if most < math.MaxInt-len(dst) {
		e.end += len(dst)
	}
	t.raw.each(text, func(s string, id int32) bool {
		if id >= 0 {
			return e.add(id)
		}
		if guarded {
			s = strings.ReplaceAll(s, guard, "")
		}
		if t.normalise != nil {
			s = t.normalise(s)
		}
		return t.normalised.each(s, func(s string, id int32) bool {
			if id >= 0 {
				return e.add(id)
			}
			return e.split(s, t.split)
		})
	})
	return e.dst, len(e.dst) <= e.end && !e.more
}

// EncodeText is Encode for untrusted text: markers in it are treated as ordinary text.
func (t *Tokenizer) EncodeText(dst []int32, text string) []int32 {
	if t.normalise != nil {
		text = t.normalise(text)
	}
	e := encoding{t: t, dst: dst, end: math.MaxInt}
	e.split(text, t.split)
	return e.dst
}

// encoding is a text that is being encoded. Its methods report whether to go on.
type encoding struct {
	t    *Tokenizer
	dst  []int32
	end  int  // largest length of dst
	more bool // a piece was left out that does not fit
}

func (e *encoding) add(id int32) bool {
	e.dst = append(e.dst, id)
	return len(e.dst) <= e.end
}

// split passes s through splitters and gives the last pieces to the model.
func (e *encoding) split(s string, split []splitter) bool {
	t := e.t
	if len(split) == 0 {
		if t.model.least(s) > e.end-len(e.dst) {
			e.more = true
			return false
		}
		e.dst = t.model.append(e.dst, s)
		return len(e.dst) <= e.end
	}
	if t.prefixSpace && len(split) == 1 && !strings.HasPrefix(s, " ") {
		s = " " + s
	}
	for s != "" {
		n, keep := split[0](s)
		if keep && !e.split(s[:n], split[1:]) {
			return false
		}
		s = s[n:]
	}
	return true
}

// Wrap adds the markers that the model expects around an input. It keeps at most most ids, including markers; 0
// means no limit.
func (t *Tokenizer) Wrap(dst, ids []int32, most int) []int32 {
	if most > 0 {
		ids = ids[:max(0, min(len(ids), most-t.Markers()))]
	}
	dst = append(dst, t.prefix...)
	dst = append(dst, ids...)
	return append(dst, t.suffix...)
}

// WrapPair joins two texts with the markers that the model expects. second is where the second text begins. Pairs of
// more than most ids are cut: the shorter text stays whole if it fits into a half.
func (t *Tokenizer) WrapPair(dst, a, b []int32, most int) (ids []int32, second int, cut bool) {
	room := max(0, most-t.Markers()-len(t.middle))
	if cut = len(a)+len(b) > room; cut {
		short, long := min(len(a), len(b)), room-min(len(a), len(b))
		if long < short {
			short, long = room/2, room-room/2
		}
		if len(a) > len(b) {
			a, b = a[:long], b[:short]
		} else {
			a, b = a[:short], b[:long]
		}
	}
	dst = append(append(append(dst, t.prefix...), a...), t.middle...)
	second = len(dst)
	return append(append(dst, b...), t.suffix...), second, cut
}

// Markers is the number of ids that Wrap adds.
func (t *Tokenizer) Markers() int { return len(t.prefix) + len(t.suffix) }

// Len returns the number of ids. All ids are smaller.
func (t *Tokenizer) Len() int { return len(t.tokens) }

// ID returns the id of a token as files spell it, such as [CLS] or <|im_end|>.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// IsEnd reports whether an id ends a generated text.
func (t *Tokenizer) IsEnd(id int32) bool {
	for _, e := range t.ends {
		if e == id {
			return true
		}
	}
	return false
}

// Decode returns the text of ids, without markers.
func (t *Tokenizer) Decode(ids []int32) string {
	s := t.Stream()
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(s.Next(id))
	}
	b.WriteString(s.Flush())
	return b.String()
}

// set assigns a token, as the file spells it, to an id, and makes it known by name.
func (t *Tokenizer) set(id int, token string) error {
	if err := t.place(id, token); err != nil {
		return err
	}
	if old, twice := t.ids[token]; twice && int(old) != id {
		return fmt.Errorf("token %q has ids %d and %d: %w", token, old, id, ErrFormat)
	}
	t.ids[token] = int32(id)
	return nil
}

// place assigns a token to an id without a name. It rejects two tokens for one id.
func (t *Tokenizer) place(id int, token string) error {
	if id < 0 || id >= maxVocab {
		return fmt.Errorf("token %q has id %d: %w", token, id, ErrFormat)
	}
	if id >= len(t.tokens) {
		t.tokens = append(t.tokens, make([]string, id+1-len(t.tokens))...)
		t.special = append(t.special, make([]bool, id+1-len(t.special))...)
	}
	if old := t.tokens[id]; old != "" && old != token {
		return fmt.Errorf("id %d has tokens %q and %q: %w", id, old, token, ErrFormat)
	}
	t.tokens[id] = token
	return nil
}

// maxVocab bounds the ids, and with them the memory that a damaged file can claim.
const maxVocab = 1 << 20

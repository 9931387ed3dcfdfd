package models

import (
	"fmt"

	"github.com/randfeat/randfeat/models/token"
)

// Chat is the format in which a model tuned on conversations marks the speakers.
type Chat struct {
	tokens            *token.Tokenizer
	before, then, end string // of a turn: before the role, between role and text, after the text
	begin             string // of the conversation
}

// chats are recognised by their first marker, which the vocabulary has.
var chats = []Chat{
	{before: "<|im_start|>", then: "\n", end: "<|im_end|>\n"},
	{before: "<|start_header_id|>", then: "<|end_header_id|>\n\n", end: "<|eot_id|>", begin: "<|begin_of_text|>"},
}

// Chat returns the conversation format of the model. ok is false for models that only continue texts.
func (d *Decoder) Chat() (c Chat, ok bool) {
	for _, c := range chats {
		if _, ok := d.tokens.ID(c.before); ok {
			c.tokens = d.tokens
			return c, true
		}
	}
	return Chat{}, false
}

// Open returns the ids that begin a turn of a role (system, user or assistant). If first is true they include the
// marker of the conversation's first turn. Append the ids of the text (Text) and then End. Markers that a text spells
// out remain text.
func (c Chat) Open(role string, first bool) []int32 {
	s := fmt.Sprintf("%s%s%s", c.before, role, c.then)
	if first {
		s = c.begin + s
	}
	return c.tokens.Encode(nil, s)
}

// Text returns the ids of the text of a turn.
func (c Chat) Text(s string) []int32 { return c.tokens.EncodeText(nil, s) }

// End is the ids that end a turn.
func (c Chat) End() []int32 { return c.tokens.Encode(nil, c.end) }

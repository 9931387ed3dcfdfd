package models

import (
	"fmt"

	"github.com/randfeat/randfeat/models/token"
)

// Chat is the conversation format of a model: the markers around the turns of the speakers.
type Chat struct {
	tokens            *token.Tokenizer
	before, then, end string // markers of a turn: before the role, between role and text, after the text
	begin             string // marker before the whole conversation
}

// chats lists the known formats. A model has the first format whose marker before is a token of its vocabulary.
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

// Open returns the ids that begin a turn of a role: system, user or assistant. Set first for the first turn of a
// conversation, which has an additional marker. Append the ids of the text (Text) and then End. Markers that a text
// spells out stay text, so users cannot forge turns.
func (c Chat) Open(role string, first bool) []int32 {
	s := fmt.Sprintf("%s%s%s", c.before, role, c.then)
	if first {
		s = c.begin + s
	}
	return c.tokens.Encode(nil, s)
}

// Text returns the ids of the text of a turn.
func (c Chat) Text(s string) []int32 { return c.tokens.EncodeText(nil, s) }

// End returns the ids that end a turn.
func (c Chat) End() []int32 { return c.tokens.Encode(nil, c.end) }

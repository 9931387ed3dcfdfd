package models

import (
	"fmt"

	"github.com/randfeat/randfeat/models/token"
)

// Chat is how a model that was tuned on conversations marks who speaks.
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

// Chat is the format of conversations of the model; ok is false for models that only go on with texts.
func (d *Decoder) Chat() (c Chat, ok bool) {
	for _, c := range chats {
		if _, ok := d.tokens.ID(c.before); ok {
			c.tokens = d.tokens
			return c, true
		}
	}
	return Chat{}, false
}

// Open is the ids that begin a turn of a role (system, user or assistant): the marker of a conversation's first turn is
// included if first is true. The ids of the text follow; markers that a text spells are text.
func (c Chat) Open(role string, first bool) []int32 {
	s := fmt.Sprintf("%s%s%s", c.before, role, c.then)
	if first {
		s = c.begin + s
	}
	return c.tokens.Encode(nil, s)
}

// Text is the ids of what somebody says.
func (c Chat) Text(s string) []int32 { return c.tokens.EncodeText(nil, s) }

// End is the ids that end a turn.
func (c Chat) End() []int32 { return c.tokens.Encode(nil, c.end) }

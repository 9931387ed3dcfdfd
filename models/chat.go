package models

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/randfeat/randfeat/models/internal/jinja"
	"github.com/randfeat/randfeat/models/token"
)

// Message is a turn of a conversation.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// ErrChat means that a model has no conversation format, or that its template cannot render a conversation.
var ErrChat = errors.New("no conversation with this model")

// Formats of models whose files have no template but whose vocabulary has the marker.
var fallbacks = []struct{ marker, template string }{
	{"<|im_start|>", "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}" +
		"{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"},
	{"<|start_header_id|>", "{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + " +
		"'<|end_header_id|>\n\n' + m.content + '<|eot_id|>' }}{% endfor %}" +
		"{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"},
}

// chatFormat is the template of a model.
type chatFormat struct {
	tokens   *token.Tokenizer
	template *jinja.Template
	err      error // says why there is none
}

func newChatFormat(t *token.Tokenizer) *chatFormat {
	f := &chatFormat{tokens: t}
	text := t.Chat.Template
	for _, other := range fallbacks {
		if _, ok := t.ID(other.marker); ok && text == "" {
			text = other.template
		}
	}
	if text == "" {
		f.err = fmt.Errorf("its files have no chat template: %w", ErrChat)
	} else if f.template, f.err = jinja.Parse(text); f.err != nil {
		f.err = fmt.Errorf("%w: %w", ErrChat, f.err)
	}
	return f
}

// CanChat returns nil if the model has a conversation format that can be used, and otherwise an error that says why
// not.
func (d *Decoder) CanChat() error { return d.chat.err }

// Chat returns the ids of a conversation, up to the beginning of the next answer, as the template of the model renders
// it. Markers that a message spells out stay text, so users cannot forge turns. Conversations of more than most ids are
// refused with [ErrContext] before all of it is encoded.
func (d *Decoder) Chat(messages []Message, most int) ([]int32, error) {
	text, err := d.chat.render(messages)
	if err != nil {
		return nil, err
	}
	return d.encodeGuarded(text, most)
}

func (d *Decoder) encodeGuarded(text string, most int) ([]int32, error) {
	ids, fits := d.tokens.EncodeGuarded(nil, text, most)
	if !fits {
		return nil, fmt.Errorf("more than %d tokens: %w", most, ErrContext)
	}
	return ids, nil
}

// chatEnd stands for the end of a message that is not complete yet. It is no character, and no message has it.
const chatEnd = "\ufdd1"

// ChatOpen returns the ids of a conversation up to the end of its last message, to which ChatRest adds.
func (d *Decoder) ChatOpen(messages []Message) ([]int32, error) {
	before, _, err := d.chatAround(messages)
	if err != nil {
		return nil, err
	}
	return d.encodeGuarded(before, d.Context())
}

// ChatRest returns the ids that complete the last message of ChatOpen by a text and begin the answer.
func (d *Decoder) ChatRest(text string) ([]int32, error) {
	_, after, err := d.chatAround([]Message{{"user", ""}})
	if err != nil {
		return nil, err
	}
	return d.encodeGuarded(d.tokens.Guard(text)+after, d.Context())
}

func (d *Decoder) chatAround(messages []Message) (before, after string, err error) {
	last := len(messages) - 1
	open := append([]Message{}, messages...)
	open[last].Content += chatEnd
	text, err := d.chat.render(open)
	if err != nil {
		return "", "", err
	}
	before, after, ok := strings.Cut(text, chatEnd)
	if !ok {
		err = fmt.Errorf("the template leaves the message out: %w", ErrChat)
	}
	return before, after, err
}

// render returns the text of a conversation in which markers of messages are guarded.
func (f *chatFormat) render(messages []Message) (string, error) {
	if f.err != nil {
		return "", f.err
	}
	list := []any{}
	for _, m := range messages {
		d := &jinja.Dict{}
		d.Set("role", m.Role)
		d.Set("content", f.tokens.Guard(m.Content))
		list = append(list, d)
	}
	text, err := f.template.Render(map[string]any{"messages": list, "add_generation_prompt": true, "tools": nil,
		"documents": nil, "bos_token": f.tokens.Chat.BOS, "eos_token": f.tokens.Chat.EOS}, time.Now)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrChat, err)
	}
	return text, nil
}

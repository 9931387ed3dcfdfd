package serve

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/models"
)

// ChatRequest is the body of /v1/chat/completions.
type ChatRequest struct {
	sampling
	Messages  []message `json:"messages"`
	MostNow   *int      `json:"max_completion_tokens"` // the new name of max_tokens
	Logprobs  bool      `json:"logprobs"`
	Top       *int      `json:"top_logprobs"`
	Tools     []any     `json:"tools"`
	Format    *format   `json:"response_format"`
	Store     bool      `json:"store"`
	Metadata  any       `json:"metadata"` // changes nothing
	Reasoning *string   `json:"reasoning_effort"`
}

type format struct {
	Type string `json:"type"`
}

// message is a turn. Its content is a text or a list of parts that are texts.
type message struct {
	models.Message
}

func (m *message) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return errors.New("a message is an object with role and content")
	}
	for name, v := range raw {
		if name != "role" && name != "content" && string(v) != "null" {
			return fmt.Errorf("messages with the field %.50q are not supported", name)
		}
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw["role"], &m.Role) != nil {
		return errors.New("the role of a message is a text")
	}
	if json.Unmarshal(raw["content"], &m.Content) == nil {
		return nil
	}
	if json.Unmarshal(raw["content"], &parts) != nil {
		return errors.New("the content of a message is a text or a list of texts")
	}
	var b2 strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("contents of the type %.50q are not supported (text is)", p.Type)
		}
		b2.WriteString(p.Text)
	}
	m.Content = b2.String()
	return nil
}

func (q *ChatRequest) unsupported() string {
	switch {
	case q.Logprobs || q.Top != nil && *q.Top != 0:
		return "logprobs"
	case len(q.Tools) > 0:
		return "tools"
	case q.Format != nil && q.Format.Type != "text":
		return "response_format"
	case q.Store:
		return "store"
	case q.Reasoning != nil:
		return "reasoning_effort"
	}
	return q.sampling.unsupported()
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request, body *httpd.Body) (answer func()) {
	var q ChatRequest
	d := s.model.Decoder
	if !s.decoder(w) || !decode(w, body, &q) || !supported(w, q.unsupported()) {
		return nil
	}
	if len(q.Messages) == 0 || len(q.Messages) > mostMessages {
		refuse(w, http.StatusBadRequest, "messages", "%d messages, want 1 to %d", len(q.Messages), mostMessages)
		return nil
	}
	limited := q.MostNow != nil || q.MaxTokens != nil
	if q.MostNow != nil {
		q.MaxTokens = q.MostNow
	}
	g, param := q.settings(1, s.opt.Limits.Tokens)
	if param != "" {
		s.outOfRange(w, param)
		return nil
	}
	list := make([]models.Message, len(q.Messages))
	for i, m := range q.Messages {
		list[i] = m.Message
	}
	ids, err := d.Chat(list, d.Context()-g.MaxTokens)
	if errors.Is(err, models.ErrChat) {
		refuse(w, http.StatusBadRequest, "messages", "%v", err)
		return nil
	}
	if err != nil {
		s.refuseError(w, err)
		return nil
	}
	if !limited {
		g.MaxTokens = min(s.opt.Limits.Tokens, d.Context()-len(ids))
	}
	c := Completion{ID: "chatcmpl-" + rand.Text(), Object: "chat.completion", chat: true}
	if q.Stream {
		c.Object = "chat.completion.chunk"
	}
	q.Messages = nil
	body.Shrink(0)
	return func() { s.reply(w, r, &q.sampling, c, ids, g) }
}

// mostMessages bounds a conversation.
const mostMessages = 1 << 12

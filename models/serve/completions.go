package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/models"
)

// sampling has the fields that both kinds of requests for text share. Requests with fields that would change the text
// and are not supported are refused.
type sampling struct {
	Model       string   `json:"model"`
	MaxTokens   *int     `json:"max_tokens"`
	Temperature *float64 `json:"temperature"` // 1 by default
	TopP        *float64 `json:"top_p"`
	Seed        *uint64  `json:"seed"`
	Stop        texts    `json:"stop"`
	Stream      bool     `json:"stream"`
	Options     *struct {
		Usage bool `json:"include_usage"` // a last event has the usage
	} `json:"stream_options"`

	N        *int            `json:"n"`
	Bias     json.RawMessage `json:"logit_bias"`
	Presence float64         `json:"presence_penalty"`
	Repeat   float64         `json:"frequency_penalty"`
	User     string          `json:"user"` // changes nothing
}

// CompletionRequest is the body of /v1/completions.
type CompletionRequest struct {
	sampling
	Prompt   texts   `json:"prompt"`
	BestOf   *int    `json:"best_of"`
	Echo     bool    `json:"echo"`
	Suffix   *string `json:"suffix"`
	Logprobs *int    `json:"logprobs"`
}

// Completion is the response of /v1/completions and of /v1/chat/completions, and each of its events.
type Completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *Usage   `json:"usage,omitempty"`

	chat       bool
	usageEvent bool // the usage has an event of its own
}

// Choice is a text, a message of a conversation, or a piece of one of them.
type Choice struct {
	Text    *string `json:"text,omitempty"`
	Message *Answer `json:"message,omitempty"`
	Delta   *Answer `json:"delta,omitempty"`
	Index   int     `json:"index"`
	Reason  *string `json:"finish_reason"` // stop or length; null before the end
}

// Answer is the message of the model. Events have the role once and then pieces of the content.
type Answer struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// unsupported returns the name of the first field that asks for something unsupported, or "".
func (q *CompletionRequest) unsupported() string {
	switch {
	case q.BestOf != nil && *q.BestOf != 1:
		return "best_of"
	case q.Echo:
		return "echo"
	case q.Suffix != nil && *q.Suffix != "":
		return "suffix"
	case q.Logprobs != nil:
		return "logprobs"
	}
	return q.sampling.unsupported()
}

func (q *sampling) unsupported() string {
	switch {
	case q.N != nil && *q.N != 1:
		return "n"
	case len(q.Bias) > 0 && string(q.Bias) != "null" && string(q.Bias) != "{}":
		return "logit_bias"
	case q.Presence != 0:
		return "presence_penalty"
	case q.Repeat != 0:
		return "frequency_penalty"
	}
	return ""
}

// settings returns the settings of generation. param names a field that is out of range, or is empty.
func (q *sampling) settings(otherwise, most int) (g models.Generate, param string) {
	g = models.Generate{MaxTokens: otherwise, Temperature: 1, TopP: 1, Stop: q.Stop}
	if q.MaxTokens != nil {
		g.MaxTokens = *q.MaxTokens
	}
	if q.Temperature != nil {
		g.Temperature = *q.Temperature
	}
	if q.TopP != nil {
		g.TopP = *q.TopP
	}
	if q.Seed != nil {
		g.Seed = *q.Seed
	} else {
		g.Seed = uint64(time.Now().UnixNano())
	}
	switch {
	case g.MaxTokens < 1 || g.MaxTokens > most:
		param = "max_tokens"
	case !(g.Temperature >= 0 && g.Temperature <= 100):
		param = "temperature"
	case !(g.TopP > 0 && g.TopP <= 1):
		param = "top_p"
	case len(q.Stop) > 16 || slices.Contains(q.Stop, ""):
		param = "stop"
	}
	return g, param
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request, body *httpd.Body) (answer func()) {
	var q CompletionRequest
	d := s.model.Decoder
	if !s.decoder(w) || !decode(w, body, &q) || !supported(w, q.unsupported()) {
		return nil
	}
	g, param := q.settings(16, s.opt.Limits.Tokens)
	if param != "" {
		s.outOfRange(w, param)
		return nil
	}
	if len(q.Prompt) != 1 {
		refuse(w, http.StatusBadRequest, "prompt", "%d prompts, want one", len(q.Prompt))
		return nil
	}
	// A prompt beyond the context is not encoded to its end.
	room := max(0, d.Context()-g.MaxTokens-s.model.Tokens.Markers())
	ids, fits := s.model.Tokens.EncodeMost(nil, q.Prompt[0], room)
	ids = s.model.Tokens.Wrap(nil, ids, 0)
	if !fits || len(ids) == 0 || len(ids)+g.MaxTokens > d.Context() {
		count := strconv.Itoa(len(ids))
		if !fits {
			count = fmt.Sprintf("more than %d", room)
		}
		refuse(w, http.StatusBadRequest, "prompt", "%s tokens and %d to generate, the model's context has %d", count,
			g.MaxTokens, d.Context())
		return nil
	}
	q.Prompt = nil
	body.Shrink(0)
	return func() {
		s.reply(w, r, &q.sampling, Completion{ID: "cmpl-" + rand.Text(), Object: "text_completion"}, ids, g)
	}
}

// decoder refuses requests for text if the model does not generate any.
func (s *Server) decoder(w http.ResponseWriter) bool {
	if s.model.Decoder == nil {
		refuse(w, http.StatusNotFound, "model", "%s does not generate text", s.opt.Name)
	}
	return s.model.Decoder != nil
}

// supported refuses a request with a field that is not supported, if there is one.
func supported(w http.ResponseWriter, field string) bool {
	if field != "" {
		refuse(w, http.StatusBadRequest, field, "%s is not supported", field)
	}
	return field == ""
}

func (s *Server) outOfRange(w http.ResponseWriter, param string) {
	refuse(w, http.StatusBadRequest, param, "%s is out of range (at most %d tokens are generated)", param,
		s.opt.Limits.Tokens)
}

// reply reserves memory for a session and generates on a goroutine of its own. That goroutine never waits for the
// client: it hands its text to pieces, from which this one writes.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, q *sampling, c Completion, ids []int32,
	g models.Generate) {
	bytes := s.model.Decoder.SessionBytes(len(ids) + g.MaxTokens)
	if bytes > s.opt.Limits.Memory {
		refuse(w, http.StatusBadRequest, "prompt", "the session takes %d bytes, this server gives %d", bytes,
			s.opt.Limits.Memory)
		return
	}
	if !s.memory.Take(bytes) {
		refuseBody(w, s.memory.Full())
		return
	}
	c.Created, c.Model = time.Now().Unix(), s.opt.Name
	c.usageEvent = q.Options != nil && q.Options.Usage
	b := newPieces()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel() // ends the generation if writing to the client fails
	go func() {
		defer s.memory.Give(bytes)
		b.end(s.generate(ctx, ids, g, b.add))
	}()
	if q.Stream {
		s.stream(ctx, w, c, b, len(ids))
		return
	}
	text, done, err := b.all()
	if err != nil {
		s.refuseError(w, err)
		return
	}
	c.Choices = []Choice{{Text: &text, Reason: reason(done)}}
	if c.chat {
		c.Choices = []Choice{{Message: &Answer{"assistant", &text}, Reason: reason(done)}}
	}
	c.Usage = usage(len(ids), done)
	s.answer(w, c)
}

func usage(prompt int, done models.Generated) *Usage {
	return &Usage{PromptTokens: prompt, CompletionTokens: done.Tokens, TotalTokens: prompt + done.Tokens}
}

func reason(done models.Generated) *string {
	r := "stop"
	if done.Reason == models.StopLength {
		r = "length"
	}
	return &r
}

// generate waits for a turn and runs a session.
func (s *Server) generate(ctx context.Context, ids []int32, g models.Generate,
	emit func(string) error) (out models.Generated, err error) {
	defer func() { // this is a goroutine of its own, whose panic would end the process
		if v := recover(); v != nil {
			err = s.panicked(v)
		}
	}()
	done, err := turn(ctx, s.work)
	if err != nil {
		return models.Generated{}, err
	}
	defer done()
	session, err := s.model.Decoder.Session()
	if err == nil {
		err = session.Read(ctx, ids)
	}
	if err != nil {
		return models.Generated{}, err
	}
	return session.Generate(ctx, g, emit)
}

// stream writes pieces as server-sent events. Before the first event an error is an HTTP status; afterwards it is an
// event.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, c Completion, b *pieces, prompt int) {
	out := http.NewResponseController(w)
	began := false
	event := func(v any) error {
		if !began {
			began = true
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("X-Accel-Buffering", "no")
		}
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := out.SetWriteDeadline(time.Now().Add(s.opt.Limits.Write)); err != nil && !errors.Is(err,
			http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(slices.Concat([]byte("data: "), data, []byte("\n\n"))); err != nil {
			return err
		}
		return out.Flush()
	}
	for first := true; ; first = false {
		text, done, ended, err := b.next(ctx)
		if err != nil {
			if !began {
				s.refuseError(w, err)
			} else if errors.Is(err, context.DeadlineExceeded) {
				_ = event(problem(http.StatusServiceUnavailable, "", "the answer takes longer than %v",
					s.opt.Limits.Time))
			}
			return
		}
		c.Choices = []Choice{{Text: &text}}
		if c.chat {
			c.Choices = []Choice{{Delta: &Answer{Content: &text}}}
			if first {
				c.Choices[0].Delta.Role = "assistant"
			}
		}
		if ended {
			if c.Choices[0].Reason = reason(done); !c.chat && !c.usageEvent {
				c.Usage = usage(prompt, done)
			}
		}
		if event(c) != nil {
			return // the client is gone; the deferred cancel of reply ends the generation
		}
		if ended && c.usageEvent {
			c.Choices, c.Usage = []Choice{}, usage(prompt, done)
			if event(c) != nil {
				return
			}
		}
		if ended {
			_, _ = w.Write([]byte("data: [DONE]\n\n"))
			_ = out.Flush()
			return
		}
	}
}

// pieces passes text from the goroutine that generates to the one that writes, which may be slower. The text that
// waits is bounded by the tokens that a request may generate.
type pieces struct {
	mu    sync.Mutex
	text  strings.Builder
	more  chan struct{} // signals new text or the end; holds at most one signal
	done  models.Generated
	ended bool
	err   error
}

func newPieces() *pieces { return &pieces{more: make(chan struct{}, 1)} }

func (b *pieces) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

func (b *pieces) add(text string) error {
	b.mu.Lock()
	b.text.WriteString(text)
	b.mu.Unlock()
	b.wake()
	return nil
}

func (b *pieces) end(done models.Generated, err error) {
	b.mu.Lock()
	b.done, b.err, b.ended = done, err, true
	b.mu.Unlock()
	b.wake()
}

// next waits for text or for the end and takes the text.
func (b *pieces) next(ctx context.Context) (text string, done models.Generated, ended bool, err error) {
	for {
		b.mu.Lock()
		text, done, ended, err = b.text.String(), b.done, b.ended, b.err
		b.text.Reset()
		b.mu.Unlock()
		if err != nil || ended || text != "" {
			return text, done, ended, err
		}
		select {
		case <-b.more:
		case <-ctx.Done():
			return "", done, false, ctx.Err()
		}
	}
}

// all waits for the end and returns the whole text. It needs no context: the generation itself ends with the
// request.
func (b *pieces) all() (string, models.Generated, error) {
	for {
		<-b.more
		b.mu.Lock()
		text, done, ended, err := b.text.String(), b.done, b.ended, b.err
		b.mu.Unlock()
		if ended {
			return text, done, err
		}
	}
}

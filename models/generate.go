package models

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/token"
)

// Decoder generates text. Its sessions may run concurrently.
type Decoder struct {
	model  *decoder.Model
	tokens *token.Tokenizer
	chat   *chatFormat
	base   func() [32]byte // fingerprint of the model; the first call reads its files
	files  func() [32]byte // hash of the files alone
	curves *decoder.Curves
}

// Context is the largest number of tokens that a session can hold.
func (d *Decoder) Context() int { return d.model.Config().MaxPositions }

// SessionBytes is an upper bound on the memory of a session of so many tokens.
func (d *Decoder) SessionBytes(tokens int) int64 {
	c := d.model.Config()
	each := 2 * 4 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim)
	return int64(tokens) * each
}

// Session starts a text. One session must not be used by concurrent calls.
func (d *Decoder) Session() (*Session, error) {
	s, err := d.model.NewSession(nil)
	return &Session{decoder: d, state: s}, err
}

// Session is a text in progress: the tokens read and generated so far.
type Session struct {
	decoder *Decoder
	state   *decoder.Session
	next    []float32 // logits of the next token; nil if none are known
}

// room checks that n more tokens fit.
func (s *Session) room(n int) error {
	if all, most := s.Len()+n, s.decoder.Context(); all > most {
		return fmt.Errorf("%d tokens, the model reads at most %d: %w", all, most, ErrContext)
	}
	return nil
}

// ErrContext means that a text is longer than the model's context.
var ErrContext = errors.New("the text is longer than the model's context")

// readChunk is the number of tokens read between two checks of the caller's context. Many tokens at once keep many
// processors busy. Large models read fewer, so that a call ends soon after its context.
func (d *Decoder) readChunk() int {
	const large = 400 << 20 // bytes of weights
	if d.model.Bytes() > large {
		return 256
	}
	return 1024
}

// Read appends tokens to the text.
func (s *Session) Read(ctx context.Context, ids []int32) error {
	if err := s.room(len(ids)); err != nil {
		return err
	}
	for len(ids) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(s.decoder.readChunk(), len(ids))
		logits, err := s.state.Append(ids[:n]...)
		if err != nil {
			return err
		}
		s.next, ids = append(s.next[:0], logits...), ids[n:]
	}
	return nil
}

// Len is the number of tokens read and generated so far.
func (s *Session) Len() int { return s.state.Len() }

// Fork returns an independent copy, for example to ask several questions about one text.
func (s *Session) Fork() *Session {
	return &Session{decoder: s.decoder, state: s.state.Fork(), next: slices.Clone(s.next)}
}

// KeepQueries prepares an empty session for Compact: it keeps the queries of up to 512 tokens.
func (s *Session) KeepQueries() { s.state.KeepQueries() }

// Compact shrinks the memory of all tokens so far to 1/factor of them, see [decoder.Session.Compact]. Later tokens
// are remembered exactly. A calibrated decoder (see [Decoder.With]) gives more slots to the heads that lose more;
// otherwise all heads get the same number. Even a factor of 8 loses some single facts of the text.
// Call KeepQueries before the session reads anything.
func (s *Session) Compact(factor int) error {
	if factor < 1 {
		return fmt.Errorf("a factor of %d, want at least 1: %w", factor, decoder.ErrCompact)
	}
	return s.state.Compact(s.decoder.budgets(s.Len(), factor).At)
}

// budgets divides 1/factor of n tokens among the heads. Without measured curves all heads get the same number, and
// the expected loss is NaN.
func (d *Decoder) budgets(n, factor int) decoder.Budgets {
	if d.curves != nil && n > 0 {
		return d.curves.Compacted(n, float64(n)/float64(factor))
	}
	c := d.model.Config()
	b := decoder.Budgets{Loss: math.NaN()}
	for range c.Layers {
		b.Slots = append(b.Slots, slices.Repeat([]int{(n + factor - 1) / factor}, c.KVHeads))
	}
	return b
}

// Bytes is the memory that the tokens so far take.
func (s *Session) Bytes() int64 { return s.state.Bytes() }

// Score reads tokens and returns the sum of −log p over those that have a predecessor, and their number. The
// perplexity is exp(sum/count). Score keeps no logits, so the session must Read another token before Generate.
func (s *Session) Score(ctx context.Context, ids []int32) (sum float64, count int, err error) {
	if err := s.room(len(ids)); err != nil {
		return 0, 0, err
	}
	loss := make([]float64, len(ids))
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if err := s.state.Score(loss, ids, s.next); err != nil {
		return 0, 0, err
	}
	for i, l := range loss {
		if i > 0 || s.next != nil {
			sum += l
			count++
		}
	}
	s.next = nil
	return sum, count, nil
}

// Generate holds the settings of [Session.Generate]. The zero value takes the most probable token every time, until
// the model ends the text or its context is full.
type Generate struct {
	MaxTokens   int     // 0: as many as fit
	Temperature float64 // 0: the most probable token
	TopP        float64 // draws from the likeliest tokens that together have this probability; 0 means 1
	Seed        uint64
	Stop        []string // texts that end generation and are not returned
}

func (g Generate) validate() error {
	switch {
	case g.MaxTokens < 0:
		return fmt.Errorf("%d tokens to generate", g.MaxTokens)
	case !(g.Temperature >= 0 && g.Temperature <= 100):
		return fmt.Errorf("temperature %v, want 0 to 100", g.Temperature)
	case !(g.TopP >= 0 && g.TopP <= 1):
		return fmt.Errorf("top-p %v, want 0 to 1", g.TopP)
	case slices.Contains(g.Stop, ""):
		return errors.New("an empty stop text")
	}
	return nil
}

// Reasons for the end of generation.
const (
	StopToken  = "end"    // the model ended the text
	StopText   = "stop"   // a text of Generate.Stop appeared
	StopLength = "length" // MaxTokens were generated, or the context is full
)

// Generated is the result of Generate.
type Generated struct {
	Tokens int    // tokens generated, including the end marker
	Reason string // StopToken, StopText or StopLength
}

// Generate continues the text and passes every new piece of it, in whole characters, to emit. The session then
// contains all generated tokens except the last. If emit fails or ctx ends, generation stops and returns that error.
func (s *Session) Generate(ctx context.Context, g Generate, emit func(text string) error) (Generated, error) {
	done := Generated{Reason: StopLength}
	if err := g.validate(); err != nil {
		return done, err
	}
	if s.next == nil {
		return done, errors.New("nothing was read: generation needs at least one token to go on from")
	}
	most := s.decoder.Context() - s.Len()
	if g.MaxTokens > 0 {
		most = min(most, g.MaxTokens)
	}
	draw, stream, hold := newSampler(g), s.decoder.tokens.Stream(), holder{stop: g.Stop}
	for done.Tokens < most {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		id := draw.next(s.next)
		done.Tokens++
		if s.decoder.tokens.IsEnd(id) {
			done.Reason = StopToken
			break
		}
		text, stopped := hold.add(stream.Next(id))
		if text != "" {
			if err := emit(text); err != nil {
				return done, err
			}
		}
		if stopped {
			done.Reason = StopText
			return done, nil
		}
		if done.Tokens == most {
			break
		}
		if err := s.Read(ctx, []int32{id}); err != nil {
			return done, err
		}
	}
	text, stopped := hold.add(stream.Flush())
	if stopped {
		done.Reason = StopText
	} else {
		text += hold.rest()
	}
	if text == "" {
		return done, nil
	}
	return done, emit(text)
}

// holder keeps back text that may be the beginning of a stop text, so that no part of a stop text is ever shown.
type holder struct {
	stop []string
	kept string
}

// add returns the text that can be shown, and whether a stop text appeared. The stop text and everything after it
// are dropped.
func (h *holder) add(text string) (show string, stopped bool) {
	h.kept += text
	first := -1
	for _, s := range h.stop {
		if i := strings.Index(h.kept, s); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		show, h.kept = h.kept[:first], ""
		return show, true
	}
	keep := 0
	for _, s := range h.stop {
		for n := min(len(s)-1, len(h.kept)); n > keep; n-- {
			if strings.HasSuffix(h.kept, s[:n]) {
				keep = n
			}
		}
	}
	n := len(h.kept) - keep
	show, h.kept = h.kept[:n], h.kept[n:]
	return show, false
}

// rest returns the text kept back. It is no stop text, because nothing follows it.
func (h *holder) rest() string {
	s := h.kept
	h.kept = ""
	return s
}

// sampler draws tokens. Equal seeds and logits give equal tokens.
type sampler struct {
	temperature, topP float64
	rand              *rand.Rand
	p                 []float64
	ids               []int32
}

func newSampler(g Generate) *sampler {
	s := &sampler{temperature: g.Temperature, topP: g.TopP, rand: rand.New(rand.NewPCG(g.Seed, 0x72666d))}
	if s.topP == 0 {
		s.topP = 1
	}
	return s
}

// next draws from softmax(logits/temperature), restricted to the likeliest tokens of total probability topP.
func (s *sampler) next(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	if s.temperature == 0 {
		return int32(best)
	}
	s.p, s.ids = s.p[:0], s.ids[:0]
	total := 0.0
	for _, v := range logits {
		e := math.Exp((float64(v) - float64(logits[best])) / s.temperature)
		s.p = append(s.p, e)
		total += e
	}
	// Tokens below this bound have less than 1 − topP of the mass together, so none of them belongs to the likeliest
	// topP. Dropping them first keeps the sort short.
	least := (1 - s.topP) / float64(len(logits)) * total
	for i, p := range s.p {
		if p > 0 && p >= least {
			s.ids = append(s.ids, int32(i))
		}
	}
	if s.topP < 1 {
		slices.SortStableFunc(s.ids, func(a, b int32) int {
			switch x, y := s.p[a], s.p[b]; {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
		mass := 0.0
		for i, id := range s.ids {
			if mass += s.p[id]; mass >= s.topP*total {
				s.ids = s.ids[:i+1]
				break
			}
		}
		total = mass
	}
	u := s.rand.Float64() * total
	for _, id := range s.ids {
		if u -= s.p[id]; u < 0 {
			return id
		}
	}
	return s.ids[len(s.ids)-1] // rounding can leave u at 0
}

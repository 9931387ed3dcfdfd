package token

import (
	"strings"
	"unicode/utf8"
)

// Stream converts ids to text one by one. It never returns part of a character: bytes are held back until the character
// is complete.
type Stream struct {
	t       *Tokenizer
	pending []byte
	begun   bool
}

// Stream returns a stream for a new text.
func (t *Tokenizer) Stream() *Stream { return &Stream{t: t} }

// Next returns the text that id adds. Markers and ids out of range add nothing.
func (s *Stream) Next(id int32) string {
	t := s.t
	if id < 0 || int(id) >= len(t.tokens) || t.special[id] {
		return ""
	}
	s.pending = append(s.pending, t.model.text(t.tokens[id], !s.begun)...)
	s.begun = true
	n := len(s.pending) - partial(s.pending)
	text := strings.ToValidUTF8(string(s.pending[:n]), string(utf8.RuneError))
	s.pending = s.pending[:copy(s.pending, s.pending[n:])]
	return text
}

// Flush ends the text. Bytes of an incomplete character become U+FFFD.
func (s *Stream) Flush() string {
	text := strings.ToValidUTF8(string(s.pending), string(utf8.RuneError))
	s.pending, s.begun = s.pending[:0], false
	return text
}

// partial returns how many bytes at the end begin a character that more bytes could complete.
func partial(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= 0x80 && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

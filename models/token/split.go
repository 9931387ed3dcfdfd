package token

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitter returns the length of the first piece of a text, which is not empty, and whether to keep the piece.
type splitter func(s string) (n int, keep bool)

// The patterns by which byte-level BPE tokenizers split texts, as their files spell them. They end in
//
//	\s+(?!\S)|\s+
//
// which leaves the last white space before a word to the word. Go's regular expressions have no lookahead, so the
// patterns are implemented as code.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var patterns = map[string]splitter{
	patternGPT2:   splitGPT2,
	patternLlama3: func(s string) (int, bool) { return splitLines(s, 3), true },
	patternQwen2:  func(s string) (int, bool) { return splitLines(s, 1), true },
	`\p{N}`:       splitDigits,
	`\p{N}{1,3}`:  func(s string) (int, bool) { return splitNumbers(s, 3), true },
}

// splitGPT2 is patternGPT2 (Radford et al. 2019, encoder.py).
func splitGPT2(s string) (int, bool) {
	if n := contraction(s, false); n > 0 {
		return n, true
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	for _, class := range []func(rune) bool{unicode.IsLetter, unicode.IsNumber, isOther} {
		if n := run(s[at:], class); n > 0 {
			return at + n, true
		}
	}
	return splitSpace(s), true
}

// splitLines is the pattern of Llama 3 (digits = 3) and of Qwen2 (digits = 1). digits is the most digits per piece.
func splitLines(s string, digits int) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	first, size := utf8.DecodeRuneInString(s)
	if n := run(s, unicode.IsLetter); n > 0 {
		return n
	}
	if first != '\r' && first != '\n' && !unicode.IsNumber(first) {
		if n := run(s[size:], unicode.IsLetter); n > 0 {
			return size + n
		}
	}
	if n := runMost(s, unicode.IsNumber, digits); n > 0 {
		return n
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	if n := run(s[at:], isOther); n > 0 {
		n += at
		return n + run(s[n:], isNewline)
	}
	if n := strings.LastIndexAny(s[:run(s, unicode.IsSpace)], "\r\n"); n >= 0 {
		return n + 1
	}
	return splitSpace(s)
}

// splitSpace takes white space, but leaves the last character of it to a word that follows.
func splitSpace(s string) int {
	n := run(s, unicode.IsSpace)
	_, last := utf8.DecodeLastRuneInString(s[:n])
	if n < len(s) && n > last {
		return n - last
	}
	return n
}

// splitDigits takes a single digit, or the text up to the next one.
func splitDigits(s string) (int, bool) { return splitNumbers(s, 1), true }

func splitNumbers(s string, most int) int {
	if n := runMost(s, unicode.IsNumber, most); n > 0 {
		return n
	}
	return run(s, func(r rune) bool { return !unicode.IsNumber(r) })
}

// splitWhitespace keeps what white space separates.
func splitWhitespace(s string) (int, bool) {
	if n := run(s, unicode.IsSpace); n > 0 {
		return n, false
	}
	return run(s, func(r rune) bool { return !unicode.IsSpace(r) }), true
}

// splitWords keeps words and single punctuation marks, and drops white space (BertPreTokenizer).
func splitWords(s string) (int, bool) {
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case unicode.IsSpace(r):
		return run(s, unicode.IsSpace), false
	case isPunctuation(r):
		return n, true
	}
	return run(s, func(r rune) bool { return !unicode.IsSpace(r) && !isPunctuation(r) }), true
}

func isOther(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

func isNewline(r rune) bool { return r == '\r' || r == '\n' }

// isPunctuation is every ASCII character that is neither letter, digit, space nor control character, and category P.
func isPunctuation(r rune) bool {
	if r < 0x80 {
		return r > ' ' && r < 0x7f && !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}
	// The reference's tables are older than Go's; see late.
	return unicode.IsPunct(r) && !isLate(r) || r == 0x166d || r == 0x111c9
}

// run returns the length in bytes of the leading runes of s that are in a class.
func run(s string, class func(rune) bool) int {
	for i, r := range s {
		if !class(r) {
			return i
		}
	}
	return len(s)
}

// runMost is run for at most most runes.
func runMost(s string, class func(rune) bool, most int) int {
	for i, r := range s {
		if most == 0 || !class(r) {
			return i
		}
		most--
	}
	return len(s)
}

// contraction returns the length of a leading 's, 't, 're, 've, 'm, 'll or 'd, or 0. fold ignores case and treats ſ
// as s.
func contraction(s string, fold bool) int {
	if s[0] != '\'' {
		return 0
	}
	letter := func(at int) (byte, int) {
		r, n := utf8.DecodeRuneInString(s[at:])
		if fold {
			if r == 'ſ' {
				r = 's'
			}
			r = unicode.ToLower(r)
		}
		if n == 0 || r > 'z' {
			return 0, n
		}
		return byte(r), n
	}
	a, n := letter(1)
	switch a {
	case 's', 't', 'm', 'd':
		return 1 + n
	case 'r', 'v', 'l':
		b, m := letter(1 + n)
		if b == 'e' && a != 'l' || b == 'l' && a == 'l' {
			return 1 + n + m
		}
	}
	return 0
}

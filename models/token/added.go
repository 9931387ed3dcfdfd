package token

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is searched for in the text before it is split.
type addedToken struct {
	text           string
	id             int32
	word           bool // matches only as a whole word
	lstrip, rstrip bool // swallows the white space before or after it
}

// added finds tokens in texts. The leftmost match wins, and among matches at one place the longest.
type added struct {
	byFirst [256][]addedToken // by first byte, longest first
	any     bool
}

func (a *added) add(t addedToken) {
	if t.text == "" {
		return
	}
	list := append(a.byFirst[t.text[0]], t)
	slices.SortStableFunc(list, func(x, y addedToken) int { return cmp.Compare(len(y.text), len(x.text)) })
	a.byFirst[t.text[0]] = list
	a.any = true
}

// each calls f with the parts of s in order: tokens with their id, the text between them with id −1. It ends when f
// returns false, and returns the last result of f.
func (a *added) each(s string, f func(part string, id int32) bool) bool {
	if !a.any {
		return s == "" || f(s, -1)
	}
	begin := 0
	for i := 0; i < len(s); {
		t, ok := a.at(s, i)
		if !ok {
			i++
			continue
		}
		from, to := i, i+len(t.text)
		i = to // continue here even if the token is rejected below
		if t.word && (endsWord(s[:from]) || beginsWord(s[to:])) {
			continue
		}
		if t.lstrip {
			from = max(begin, len(strings.TrimRightFunc(s[:from], unicode.IsSpace)))
		}
		if t.rstrip {
			to = len(s) - len(strings.TrimLeftFunc(s[to:], unicode.IsSpace))
		}
		if from < begin {
			continue // overlaps the white space that the last token swallowed
		}
		if begin < from && !f(s[begin:from], -1) || !f(s[from:to], t.id) {
			return false
		}
		begin = to
		i = max(i, to)
	}
	return begin == len(s) || f(s[begin:], -1)
}

func (a *added) at(s string, i int) (addedToken, bool) {
	for _, t := range a.byFirst[s[i]] {
		if strings.HasPrefix(s[i:], t.text) {
			return t, true
		}
	}
	return addedToken{}, false
}

func endsWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func beginsWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w of regular expressions in Unicode.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.In(r, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc) || r == '\u200c' ||
		r == '\u200d'
}

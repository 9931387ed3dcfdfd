package token

import (
	"strings"
	"unicode/utf8"
)

// wordPiece takes the longest token at the beginning of a word, then the longest continuation and so on (Devlin et al.
// 2018, arXiv:1810.04805; Wu et al. 2016, arXiv:1609.08144). A word that cannot be covered is unknown as a whole.
type wordPiece struct {
	words   map[string]int32
	parts   map[string]int32 // continuations, without their prefix
	prefix  string           // marks continuations: ##
	most    int              // longest word in characters; longer ones are unknown
	reach   int              // bytes of the longest token
	unknown int32
}

func (m *wordPiece) append(dst []int32, word string) []int32 {
	if utf8.RuneCountInString(word) > m.most {
		return append(dst, m.unknown)
	}
	begin := len(dst)
	for at := 0; at < len(word); {
		tokens := m.parts
		if at == 0 {
			tokens = m.words
		}
		end := min(len(word), at+m.reach)
		for ; end > at; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			if id, ok := tokens[word[at:end]]; ok {
				dst = append(dst, id)
				break
			}
		}
		if end == at {
			return append(dst[:begin], m.unknown)
		}
		at = end
	}
	return dst
}

func (m *wordPiece) least(string) int { return 1 } // unknown words have any length

// text puts a space before every word but the first. Continuations lose their prefix.
func (m *wordPiece) text(token string, first bool) string {
	if s, ok := strings.CutPrefix(token, m.prefix); ok && m.prefix != "" {
		return s
	}
	if first {
		return token
	}
	return " " + token
}

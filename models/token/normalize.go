package token

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer prepares texts for WordPiece.
type bertNormalizer struct {
	clean   bool // drop control characters, turn white space into spaces
	chinese bool // put spaces around ideographs
	accents bool // drop accents
	lower   bool
}

func (n bertNormalizer) apply(s string) string {
	if n.clean || n.chinese {
		s = n.first(s)
	}
	if n.accents && !ascii(s) {
		s = stripMarks(norm.NFD.String(s))
	}
	if n.lower {
		s = lowercase(s)
	}
	return s
}

// first cleans the text and separates ideographs in one pass.
func (n bertNormalizer) first(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if n.clean {
			if r == 0 || r == utf8.RuneError || isControl(r) {
				continue
			}
			if unicode.IsSpace(r) {
				r = ' '
			}
		}
		if n.chinese && isIdeograph(r) {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func stripMarks(s string) string {
	return strings.Map(func(r rune) rune {
		if isMark(r) {
			return -1
		}
		return r
	}, s)
}

// isMark is category Mn in the reference's tables, which are older than Go's; see late.
func isMark(r rune) bool { return unicode.Is(unicode.Mn, r) && !isLate(r) || r == 0x1734 }

// lowercase maps every character on its own, as the reference does: a final sigma becomes an ordinary one. U+0130 is
// the only character whose lower case has two.
func lowercase(s string) string {
	s = strings.Map(unicode.ToLower, strings.ReplaceAll(s, "\u0130", "i\u0307"))
	return s
}

func isControl(r rune) bool {
	return r != '\t' && r != '\n' && r != '\r' &&
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs) && !isLate(r)
}

// isIdeograph has the ranges of BERT's own code, without blocks that Unicode added later.
func isIdeograph(r rune) bool {
	switch {
	case 0x4e00 <= r && r <= 0x9fff, 0x3400 <= r && r <= 0x4dbf, 0x20000 <= r && r <= 0x2a6df,
		0x2a700 <= r && r <= 0x2b73f, 0x2b740 <= r && r <= 0x2b81f, 0x2b920 <= r && r <= 0x2ceaf,
		0xf900 <= r && r <= 0xfaff, 0x2f800 <= r && r <= 0x2fa1f:
		return true
	}
	return false
}

package data

import (
	"bytes"
	"math"
	"unicode/utf8"
)

// The ways in which texts spell numbers beyond plain ones, with signs of currencies and percent: [Field].Format.
const (
	pointStyle = "1,234.5" // groups by commas, blanks or apostrophes
	commaStyle = "1.234,5" // decimal comma; groups by points, blanks or apostrophes
)

// styles are those that all cells of a column can be read in, with their moments.
type styles struct {
	point, comma     moments
	noPoint, noComma bool
}

// add takes a cell; plain is its value if it is a plain number, else NaN.
func (s *styles) add(text []byte, plain float64) {
	if !s.noPoint {
		v, ok := plain, true
		if math.IsNaN(plain) {
			v, ok = parseStyled(text, pointStyle)
		}
		if s.noPoint = !ok; ok {
			s.point.add(v)
		}
	}
	if !s.noComma {
		v, ok := plain, !math.IsNaN(plain)
		if !ok || bytes.IndexByte(text, '.') >= 0 {
			v, ok = parseStyled(text, commaStyle)
		}
		if s.noComma = !ok; ok {
			s.comma.add(v)
		}
	}
}

// merge adds the cells that o has seen.
func (s *styles) merge(o *styles) {
	s.point.merge(o.point)
	s.comma.merge(o.comma)
	s.noPoint, s.noComma = s.noPoint || o.noPoint, s.noComma || o.noComma
}

// of is the style of a column, or empty. Texts that can be read in either, as different numbers, are read in the usual
// one, that of the other columns (see usualStyle); both says that there is none.
func (s *styles) of(usual string) (style string, m moments, both bool) {
	both = !s.noPoint && !s.noComma && (s.comma.min != s.point.min || s.comma.max != s.point.max ||
		s.comma.mean != s.point.mean)
	switch {
	case !s.noPoint && !(both && usual == commaStyle):
		return pointStyle, s.point, both && usual == ""
	case !s.noComma:
		return commaStyle, s.comma, false
	}
	return "", moments{}, false
}

// usualStyle is the one that columns which can be read in one way only have in common; empty: none.
func usualStyle(columns []*columnLearner) string {
	point, comma := false, false
	for _, l := range columns {
		if l.numbers.n == 0 && l.texts == 0 || l.role != asField && l.role != asNumeric && l.role != asTarget {
			continue
		}
		point = point || !l.styles.noPoint && l.styles.noComma
		comma = comma || l.styles.noPoint && !l.styles.noComma
	}
	switch {
	case point == comma:
		return ""
	case comma:
		return commaStyle
	}
	return pointStyle
}

// parseStyled reads a number such as 1,234.50, -1 234,5, $12, 3.5 % or €-1.000. A percentage is a hundredth.
func parseStyled(b []byte, style string) (v float64, ok bool) {
	var buf [32]byte
	out := buf[:0]
	sign, percent, currency := byte(0), false, false
	point := byte('.')
	if style == commaStyle {
		point = ','
	}
	digits, group, groups, since := 0, rune(0), 0, 0 // since: digits since the last group sign, or before the first
	fraction, ended := false, false
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		c := byte(0)
		if r < utf8.RuneSelf {
			c = byte(r)
		}
		rest := b[i+n:]
		next := len(rest) > 0 && rest[0]-'0' <= 9
		switch {
		case c-'0' <= 9 && c != 0:
			if ended || len(out) == cap(out) {
				return 0, false
			}
			out = append(out, c)
			digits++
			since++
		case c == '-' && digits == 0 && sign == 0, c == '+' && digits == 0 && sign == 0:
			sign = c
		case c == point && !fraction && !ended && (digits > 0 || next):
			if groups > 0 && since != 3 {
				return 0, false
			}
			fraction = true
			out = append(out, '.')
		case digits > 0 && !fraction && !ended && next && isGroup(r, style) && (group == 0 || group == r):
			if groups == 0 && (since > 3 || out[0] == '0') || groups > 0 && since != 3 { // 0,125 is no 125
				return 0, false
			}
			group, groups, since = r, groups+1, 0
		case c == ' ' || r == '\u00a0' || r == '\u202f':
			ended = digits > 0
		case c == '%' && digits > 0 && !percent && !currency:
			percent, ended = true, true
		case isCurrency(r) && !currency && !percent:
			currency, ended = true, digits > 0
		default:
			return 0, false
		}
		i += n
	}
	if digits == 0 || groups > 0 && !fraction && since != 3 {
		return 0, false
	}
	if out[len(out)-1] == '.' {
		return 0, false
	}
	if v, ok = ParseNumber(out); !ok {
		return 0, false
	}
	if sign == '-' {
		v = -v
	}
	if percent {
		v /= 100
	}
	return v, true
}

func isGroup(r rune, style string) bool {
	switch r {
	case ' ', '\u00a0', '\u202f', '\'', '’':
		return true
	case ',':
		return style == pointStyle
	case '.':
		return style == commaStyle
	}
	return false
}

func isCurrency(r rune) bool {
	switch r {
	case '$', '€', '£', '¥', '₹', '₽', '₩', '₺', '₴', '₪', '฿', '₫', '¢':
		return true
	}
	return false
}

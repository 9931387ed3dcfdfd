package data

import (
	"bytes"
	"github.com/randfeat/randfeat/internal/number"
	"math"
	"strings"
	"unicode/utf8"
)

// The spellings of numbers beyond plain ones, with currency signs: [Field].Format. A percent sign after the style says
// that the numbers are percentages: 6.1% and 6.1 are both 6.1.
const (
	pointStyle = "1,234.5" // groups by commas, blanks or apostrophes
	commaStyle = "1.234,5" // decimal comma; groups by points, blanks or apostrophes
	// bareStyle is commaStyle of a column where no points group digits: in 3.125 the point is a decimal point.
	bareStyle   = "1234,5"
	percentSign = "%"
)

// isStyle reports whether a format is one of numbers.
func isStyle(format string) bool {
	switch strings.TrimSuffix(format, percentSign) {
	case pointStyle, commaStyle, bareStyle:
		return true
	}
	return false
}

// styles are the numbers of a column as each style reads them. Cells with a percent sign have moments of their own, of
// the numbers before the sign.
type styles struct {
	n                      int64 // cells
	point, comma           moments
	pointShare, commaShare moments
	grouped                bool    // points group digits in some cell, if commas are decimal
	differs                oddCell // the first plain number that a decimal comma would make another number of
	// wide are the numbers that are not plain, for their outliers
	pointWide, commaWide octaves
}

// add takes a cell; plain is its value if it is a plain number, else NaN. bare says that it is a number in its file,
// which has no other reading. It reports in which styles the cell can be read.
func (s *styles) add(text []byte, plain float64, bare bool) (point, comma, differs bool) {
	s.n++
	point, comma = !math.IsNaN(plain), !math.IsNaN(plain)
	v := plain
	var spelled spelling
	if !point {
		v, spelled, point = scanStyled(text, false)
		if point {
			s.pointWide.add(v)
		}
	}
	if point {
		s.share(&s.point, &s.pointShare, v, spelled)
	}
	v, spelled = plain, spelling{}
	if !comma || !bare && bytes.IndexByte(text, '.') >= 0 {
		v, spelled, comma = scanStyled(text, true)
		s.grouped = s.grouped || comma && spelled.points
		differs = comma && !math.IsNaN(plain)
		if comma {
			s.commaWide.add(v)
		}
	}
	if comma {
		s.share(&s.comma, &s.commaShare, v, spelled)
	}
	return point, comma, differs
}

func (s *styles) share(plain, share *moments, v float64, spelled spelling) {
	if spelled.percent {
		share.add(v)
		return
	}
	plain.add(v)
}

// merge adds the cells that o has seen.
func (s *styles) merge(o *styles) {
	s.n += o.n
	s.point.merge(o.point)
	s.comma.merge(o.comma)
	s.pointShare.merge(o.pointShare)
	s.commaShare.merge(o.commaShare)
	s.grouped = s.grouped || o.grouped
	s.differs.merge(o.differs)
	s.pointWide.merge(&o.pointWide)
	s.commaWide.merge(&o.commaWide)
}

// bad is how many cells cannot be read in each style.
func (s *styles) bad() (point, comma int64) {
	return s.n - s.point.n - s.pointShare.n, s.n - s.comma.n - s.commaShare.n
}

// tolerated reports whether so few of some cells cannot be read that the column keeps its type: at most one in twenty.
func tolerated(bad, cells int64) bool { return bad < cells && bad <= cells/20 }

// styleReading is how a column of numbers is read.
type styleReading struct {
	comma  bool
	m      moments
	wide   []*octaves // of the numbers; nil: not known
	bad    int64      // cells that cannot be read
	both   bool       // there is another way, and nothing to tell which is meant
	format string
	// units says what percentages count as; empty: there are none
	units string
}

// of returns the reading that leaves the fewest cells unread; ok is false if there are too many of them. Texts that
// both styles read, as different numbers, are read in the usual style, that of the other columns (see usualStyle).
// plain are the plain numbers of the column.
func (s *styles) of(usual string, plain *octaves) (r styleReading, ok bool) {
	badPoint, badComma := s.bad()
	differ := s.comma.min != s.point.min || s.comma.max != s.point.max || s.comma.mean != s.point.mean ||
		s.commaShare.min != s.pointShare.min || s.commaShare.max != s.pointShare.max ||
		s.commaShare.mean != s.pointShare.mean
	both := badPoint == badComma && differ
	share := &s.pointShare
	r = styleReading{m: s.point, bad: badPoint, format: pointStyle, both: both && usual == "",
		wide: []*octaves{plain, &s.pointWide}}
	if badComma < badPoint || both && usual == commaStyle {
		share = &s.commaShare
		r = styleReading{comma: true, m: s.comma, bad: badComma, format: commaStyle,
			wide: []*octaves{plain, &s.commaWide}}
		if !s.grouped {
			r.format = bareStyle
		}
		if s.differs.sample != "" { // among the plain numbers are some that are read as others
			r.wide = nil
		}
	}
	if !tolerated(r.bad, s.n) {
		return r, false
	}
	switch {
	case share.n == 0:
	case r.m.n > 0 && r.m.min >= -1 && r.m.max <= 1 && (share.min < -1 || share.max > 1):
		// 0.131 beside 6.1%: fractions, which percentages are turned into
		r.units = "fractions: 6.1% is 0.061"
		r.wide = nil
		hundredths := *share
		hundredths.mean, hundredths.m2 = share.mean/100, share.m2/1e4
		hundredths.min, hundredths.max = share.min/100, share.max/100
		r.m.merge(hundredths)
	default:
		r.units = "percentages: 6.1% is 6.1"
		r.format += percentSign
		r.m.merge(*share)
	}
	return r, true
}

// usualStyle is the one that columns which can be read in one way only have in common; empty: none.
func usualStyle(columns []*columnLearner) string {
	point, comma := false, false
	for _, l := range columns {
		if l.role != asField && l.role != asNumeric && l.role != asTarget {
			continue
		}
		badPoint, badComma := l.styles.bad()
		point = point || badPoint < badComma && tolerated(badPoint, l.styles.n)
		comma = comma || badComma < badPoint && tolerated(badComma, l.styles.n)
	}
	switch {
	case point == comma:
		return ""
	case comma:
		return commaStyle
	}
	return pointStyle
}

// parseStyled reads a number such as 1,234.50, -1 234,5, $12, (1.20), 3.5 % or €-1.000 in a format of numbers. Where
// the format is not one of percentages, a percentage is a hundredth.
func parseStyled(b []byte, format string) (v float64, ok bool) {
	base := strings.TrimSuffix(format, percentSign)
	v, spelled, ok := scanStyled(b, base != pointStyle)
	if spelled.percent && base == format {
		v /= 100
	}
	return v, ok
}

// spelling is what a number had beside its digits.
type spelling struct {
	percent bool
	points  bool // that group digits
}

// scanStyled reads a number with groups of digits, a currency, a percent sign or parentheses, which mean a minus.
func scanStyled(b []byte, comma bool) (v float64, s spelling, ok bool) {
	var buf [32]byte
	out := buf[:0]
	sign, percent, currency := byte(0), false, false
	point, style := byte('.'), pointStyle
	if comma {
		point, style = ',', commaStyle
	}
	parentheses, closed := false, false
	digits, group, groups, since := 0, rune(0), 0, 0 // since: digits since the last group sign, or before the first
	fraction, ended := false, false
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == '\u2212' { // the typographical minus
			r = '-'
		}
		c := byte(0)
		if r < utf8.RuneSelf {
			c = byte(r)
		}
		rest := b[i+n:]
		next := len(rest) > 0 && rest[0]-'0' <= 9
		switch {
		case closed && c != ' ':
			return 0, s, false
		case c-'0' <= 9 && c != 0:
			if ended || len(out) == cap(out) {
				return 0, s, false
			}
			out = append(out, c)
			digits++
			since++
		case c == '-' && digits == 0 && sign == 0, c == '+' && digits == 0 && sign == 0:
			sign = c
		case c == '(' && digits == 0 && sign == 0:
			sign, parentheses = '-', true
		case c == ')' && parentheses && digits > 0:
			closed, ended = true, true
		case c == point && !fraction && !ended && (digits > 0 || next):
			if groups > 0 && since != 3 || len(out) == cap(out) {
				return 0, s, false
			}
			fraction = true
			out = append(out, '.')
		case digits > 0 && !fraction && !ended && next && isGroup(r, style) && (group == 0 || group == r):
			if groups == 0 && (since > 3 || out[0] == '0') || groups > 0 && since != 3 { // 0,125 is no 125
				return 0, s, false
			}
			group, groups, since = r, groups+1, 0
		case c == ' ' || r == '\u00a0' || r == '\u202f':
			ended = digits > 0
		case c == '%' && digits > 0 && !percent && !currency:
			percent, ended = true, true
		case isCurrency(r) && !currency && !percent:
			currency, ended = true, digits > 0
		default:
			return 0, s, false
		}
		i += n
	}
	if digits == 0 || groups > 0 && !fraction && since != 3 || parentheses != closed {
		return 0, s, false
	}
	if out[len(out)-1] == '.' {
		return 0, s, false
	}
	if v, ok = number.Parse(out); !ok {
		return 0, s, false
	}
	if sign == '-' {
		v = -v
	}
	return v, spelling{percent: percent, points: group == '.'}, true
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

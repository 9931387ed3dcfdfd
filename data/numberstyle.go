package data

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/randfeat/randfeat/internal/cell"
)

// The spellings of numbers beyond plain ones. [Field].Format stores them in models. All allow currency signs. A
// percent sign after the style says that the numbers are percentages: 6.1% and 6.1 are both 6.1.
const (
	pointStyle = "1,234.5" // groups separated by commas, blanks or apostrophes
	commaStyle = "1.234,5" // decimal comma; groups separated by points, blanks or apostrophes
	// bareStyle is commaStyle in a column where no points group digits: there the point in 3.125 is a decimal
	// point.
	bareStyle   = "1234,5"
	percentSign = "%"
)

// isStyle reports whether a format is a style of numbers.
func isStyle(format string) bool {
	switch strings.TrimSuffix(format, percentSign) {
	case pointStyle, commaStyle, bareStyle:
		return true
	}
	return false
}

// styles holds the statistics of a column's cells as each style reads them. Cells with a percent sign have
// separate moments, of the number before the sign, because only the whole column tells whether percentages are
// fractions.
type styles struct {
	n                      int64 // cells
	point, comma           moments
	pointShare, commaShare moments
	grouped                bool    // points group digits in some cell, if commas are decimal
	differs                oddCell // first plain number that reads differently with a decimal comma
	// magnitudes of the numbers that are not plain, for outliers
	pointWide, commaWide octaves
}

// add takes a cell. plain is its value if it is a plain number, else NaN. bare says that it is a number in its
// file, so that it has no other reading. It reports in which styles the cell can be read, and whether decimal
// commas would change a plain number.
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

// share adds v to the moments of percentages or of other numbers.
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

// bad returns how many cells each style cannot read.
func (s *styles) bad() (point, comma int64) {
	return s.n - s.point.n - s.pointShare.n, s.n - s.comma.n - s.commaShare.n
}

// tolerated reports whether few enough cells are unreadable for a column to keep its type: at most one in
// twenty.
func tolerated(bad, cells int64) bool { return bad < cells && bad <= cells/20 }

// styleReading is the chosen interpretation of a column of numbers.
type styleReading struct {
	comma  bool
	m      moments
	wide   []*octaves // the numbers by magnitude; nil: unknown
	bad    int64      // cells that cannot be read
	both   bool       // another style reads as many cells, and nothing decides between them
	format string
	// units says how percentages count; empty: there are none
	units string
}

// of returns the style that leaves the fewest cells unread; ok is false if it leaves too many. If both styles
// read the cells, as different numbers, the usual style of the other columns decides (see usualStyle). plain
// are the column's plain numbers by magnitude.
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
		if s.differs.sample != "" { // some plain numbers are read as other numbers, so plain does not hold them
			r.wide = nil
		}
	}
	if !tolerated(r.bad, s.n) {
		return r, false
	}
	switch {
	case share.n == 0:
	case r.m.n > 0 && r.m.min >= -1 && r.m.max <= 1 && (share.min < -1 || share.max > 1):
		// 0.131 beside 6.1%: the column holds fractions, and percentages become hundredths.
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

// usualStyle returns the style that all unambiguous columns have in common; "" if there is none or they
// disagree.
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

// parseStyled reads a number such as 1,234.50, -1 234,5, $12, (1.20), 3.5 % or €-1.000 in a format of numbers.
// If the format is not one of percentages, a percentage is divided by 100.
func parseStyled(b []byte, format string) (v float64, ok bool) {
	base := strings.TrimSuffix(format, percentSign)
	v, spelled, ok := scanStyled(b, base != pointStyle)
	if spelled.percent && base == format {
		v /= 100
	}
	return v, ok
}

// spelling describes the signs that a number had beside its digits.
type spelling struct {
	percent bool
	points  bool // points group digits
}

// scanStyled reads a number with groups of digits, a currency, a percent sign, or parentheses, which mean a
// minus. It copies the digits and the decimal point to out and lets the plain parser convert them, so a styled
// number has the same bits as a plain one. Groups must have three digits, except the first.
func scanStyled(b []byte, comma bool) (v float64, s spelling, ok bool) {
	n := styledNumber{point: '.', style: pointStyle}
	if comma {
		n.point, n.style = ',', commaStyle
	}
	for i := 0; i < len(b); {
		r, width := utf8.DecodeRune(b[i:])
		if i += width; !n.take(r, i < len(b) && b[i]-'0' <= 9) {
			return 0, s, false
		}
	}
	if n.digits == 0 || n.groups > 0 && !n.fraction && n.since != 3 || n.parentheses != n.closed ||
		n.out[n.len-1] == '.' {
		return 0, s, false
	}
	if v, ok = cell.ParseNumber(n.out[:n.len]); !ok {
		return 0, s, false
	}
	if n.sign == '-' {
		v = -v
	}
	return v, spelling{percent: n.percent, points: n.group == '.'}, true
}

// styledNumber is the state of scanStyled: what has been read of a number.
type styledNumber struct {
	point byte // the decimal sign
	style string
	out   [32]byte // digits and the decimal point
	len   int      // of out

	sign                byte
	parentheses, closed bool
	percent, currency   bool
	digits              int
	group               rune // the sign between groups of digits
	groups, since       int  // signs so far, digits since the last one or from the start
	fraction            bool // the decimal sign was read
	ended               bool // no digit may follow
}

// take reads one character; next says that a digit follows it. It reports whether the number may be read on.
func (n *styledNumber) take(r rune, next bool) bool {
	if r == '\u2212' { // the typographical minus
		r = '-'
	}
	c := byte(0)
	if r < utf8.RuneSelf {
		c = byte(r)
	}
	switch {
	case n.closed && c != ' ':
		return false
	case c-'0' <= 9 && c != 0:
		n.digits++
		n.since++
		return !n.ended && n.keep(c)
	case (c == '-' || c == '+') && n.digits == 0 && n.sign == 0:
		n.sign = c
	case c == '(' && n.digits == 0 && n.sign == 0:
		n.sign, n.parentheses = '-', true
	case c == ')' && n.parentheses && n.digits > 0:
		n.closed, n.ended = true, true
	case c == n.point && !n.fraction && !n.ended && (n.digits > 0 || next):
		n.fraction = true
		return (n.groups == 0 || n.since == 3) && n.keep('.')
	case n.digits > 0 && !n.fraction && !n.ended && next && isGroup(r, n.style) && (n.group == 0 || n.group == r):
		// 0,125 is not 125: a first group does not begin with 0.
		if n.groups == 0 && (n.since > 3 || n.out[0] == '0') || n.groups > 0 && n.since != 3 {
			return false
		}
		n.group, n.groups, n.since = r, n.groups+1, 0
	case c == ' ' || r == '\u00a0' || r == '\u202f':
		n.ended = n.digits > 0
	case c == '%' && n.digits > 0 && !n.percent && !n.currency:
		n.percent, n.ended = true, true
	case isCurrency(r) && !n.currency && !n.percent:
		n.currency, n.ended = true, n.digits > 0
	default:
		return false
	}
	return true
}

// keep appends to out, if there is room.
func (n *styledNumber) keep(c byte) bool {
	if n.len == len(n.out) {
		return false
	}
	n.out[n.len] = c
	n.len++
	return true
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

package data

import (
	"math"

	"github.com/randfeat/randfeat/internal/cell"
)

// DefaultMissing lists the texts that mean a missing value in any column of any format, typed columns in memory and
// Parquet included. Among numbers and dates more words do; see missingWords.
var DefaultMissing = []string{"", "?", "NA", "N/A", "n/a", "NaN", "nan", "NaT", "null", "NULL", "None", "#N/A", "<NA>"}

// MissingTexts is a set of texts that mean a missing value. It is asked for every cell, so it rejects most cells by
// their first byte, before the map lookup.
type MissingTexts struct {
	texts   map[string]bool
	first   [256]bool
	empty   bool
	numbers bool
}

// NewMissingTexts returns the set of the given texts, of [DefaultMissing] for nil.
func NewMissingTexts(texts []string) *MissingTexts {
	if texts == nil {
		texts = DefaultMissing
	}
	m := &MissingTexts{texts: map[string]bool{}}
	for _, t := range texts {
		if t == "" {
			m.empty = true
			continue
		}
		m.texts[t] = true
		_, n, _ := cell.ScanNumber([]byte(t))
		m.numbers = m.numbers || n == len(t)
		m.first[t[0]] = true
	}
	return m
}

// Numbers reports whether some of the texts are numbers, such as -999: then numbers must be looked up, too.
func (m *MissingTexts) Numbers() bool { return m.numbers }

// Has reports whether a text means a missing value.
func (m *MissingTexts) Has(cell []byte) bool {
	if len(cell) == 0 {
		return m.empty
	}
	return m.first[cell[0]] && m.texts[string(cell)]
}

// missingWords are texts that mean a missing value in columns of numbers and dates, in any case. In other
// columns they are levels like any text, because "unknown" may carry information there. [DefaultMissing] lists
// the texts that are never levels.
var missingWords = map[string]bool{"na": true, "n/a": true, "n.a.": true, "#n/a": true, "#na": true, "<na>": true,
	"nan": true, "-nan": true, "nat": true, "nil": true, "null": true, "<null>": true, "none": true, "unknown": true,
	"missing": true, "not available": true, "undefined": true, "-": true, "--": true, "---": true, ".": true,
	"..": true, "#null!": true, "#div/0!": true, "#value!": true, "#ref!": true, "#num!": true, "#name?": true,
	"\\n": true, "0000-00-00": true, "0000-00-00 00:00:00": true, "00.00.0000": true, "00/00/0000": true,
	"0000-00": true}

// maxMissingWord is the length of the longest word, so that isMissingWord needs no allocation.
const maxMissingWord = 19

// isMissingWord reports whether a text means a missing value in a column of numbers or dates.
func isMissingWord(text []byte) bool {
	text = cell.TrimBlanks(text)
	if len(text) == 0 || len(text) > maxMissingWord {
		return len(text) == 0
	}
	var buf [maxMissingWord]byte
	for i, c := range text {
		if c-'A' <= 'Z'-'A' {
			c |= 0x20
		}
		buf[i] = c
	}
	return missingWords[string(buf[:len(text)])]
}

// unreadableBits is a NaN with a payload that no computation produces.
const unreadableBits = 0x7ff8_0000_0bad_ce11

// unreadable returns the value that a reader stores for a text that is not a number, in a column read as
// Number. It is a NaN, like a missing value; isUnreadable distinguishes the two.
func unreadable() float64 { return math.Float64frombits(unreadableBits) }

// isUnreadable reports whether v stands for a text that could not be read as a number. Other NaNs are missing
// values.
func isUnreadable(v float64) bool { return math.Float64bits(v) == unreadableBits }

// Unreadable reports whether cell i of a column read as Number is a text that could not be read as a number. Other NaNs
// are missing values.
func (c *Column) Unreadable(i int) bool { return isUnreadable(c.Num[i]) }

// oddText is the text of an unreadable cell, for messages.
type oddText struct {
	row  int
	text string
}

// maxOdd bounds these texts per column of a block: messages are about the first.
const maxOdd = 64

// AppendNumber appends a text to a column that is read as Number: a number, a missing value, or a NaN that
// isUnreadable recognises. The column keeps the first unreadable texts for messages.
func (c *Column) AppendNumber(text []byte) {
	text = cell.TrimBlanks(text)
	v, ok := cell.ParseNumber(text)
	if !ok {
		if v = math.NaN(); !isMissingWord(text) {
			if v = unreadable(); len(c.odd) < maxOdd {
				c.odd = append(c.odd, oddText{len(c.Num), string(text[:min(len(text), maxLevelBytes)])})
			}
		}
	}
	c.Num = append(c.Num, v)
}

// AppendFrom appends number i of another column, with its text if it is unreadable.
func (c *Column) AppendFrom(from *Column, i int) {
	c.takeOdd(from, i, i+1, len(c.Num))
	c.Num = append(c.Num, from.Num[i])
}

// oddAt returns the text of unreadable cell i, if it was kept.
func (c *Column) oddAt(i int) (text string, ok bool) {
	for _, o := range c.odd {
		if o.row == i {
			return o.text, true
		}
	}
	return "", false
}

// takeOdd copies the kept texts of cells lo to hi−1 of another column, which become cells to, to+1, … here.
func (c *Column) takeOdd(from *Column, lo, hi, to int) {
	for _, o := range from.odd {
		if lo <= o.row && o.row < hi {
			c.odd = append(c.odd, oddText{o.row - lo + to, o.text})
		}
	}
}

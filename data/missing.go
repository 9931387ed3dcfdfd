package data

import (
	"github.com/randfeat/randfeat/internal/number"
	"math"
)

// missingWords are texts that mean a missing value among numbers, truth values aside, and among dates, in any case of
// their letters. In other columns they are levels like any text, which keeps what they tell: [DefaultMissing] are those
// that never are.
var missingWords = map[string]bool{"na": true, "n/a": true, "n.a.": true, "#n/a": true, "#na": true, "<na>": true,
	"nan": true, "-nan": true, "nat": true, "nil": true, "null": true, "<null>": true, "none": true, "unknown": true,
	"missing": true, "not available": true, "undefined": true, "-": true, "--": true, "---": true, ".": true,
	"..": true, "#null!": true, "#div/0!": true, "#value!": true, "#ref!": true, "#num!": true, "#name?": true,
	"\\n": true, "0000-00-00": true, "0000-00-00 00:00:00": true, "00.00.0000": true, "00/00/0000": true,
	"0000-00": true}

// maxMissingWord is the length of the longest of them.
const maxMissingWord = 19

// isMissingWord reports whether a text means a missing value in a column of numbers or dates.
func isMissingWord(text []byte) bool {
	text = trimBlanks(text)
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

// unreadableBits are those of a NaN that no computation gives.
const unreadableBits = 0x7ff8_0000_0bad_ce11

// unreadable returns the value that a reader gives for a text that is not a number in a column read as Number. It is a
// NaN, like a missing value; IsUnreadable distinguishes the two.
func unreadable() float64 { return math.Float64frombits(unreadableBits) }

// IsUnreadable reports whether v is [Unreadable].
func IsUnreadable(v float64) bool { return math.Float64bits(v) == unreadableBits }

// oddText is the text of a cell that is unreadable, for messages.
type oddText struct {
	row  int
	text string
}

// maxOdd is how many such texts of a column a block holds: messages are about the first.
const maxOdd = 64

// AppendNumber appends a text to a column that is read as Number: a number, a missing value, or one that is
// [Unreadable].
func (c *Column) AppendNumber(text []byte) {
	text = trimBlanks(text)
	v, ok := number.Parse(text)
	if !ok {
		if v = math.NaN(); !isMissingWord(text) {
			if v = unreadable(); len(c.odd) < maxOdd {
				c.odd = append(c.odd, oddText{len(c.Num), string(text[:min(len(text), maxLevelBytes)])})
			}
		}
	}
	c.Num = append(c.Num, v)
}

// AppendFrom appends number i of another column.
func (c *Column) AppendFrom(from *Column, i int) {
	c.takeOdd(from, i, i+1, len(c.Num))
	c.Num = append(c.Num, from.Num[i])
}

// oddAt is the text of unreadable cell i, if it is known.
func (c *Column) oddAt(i int) (text string, ok bool) {
	for _, o := range c.odd {
		if o.row == i {
			return o.text, true
		}
	}
	return "", false
}

// takeOdd adds the texts of cells lo to hi of another column, which stand from to on here.
func (c *Column) takeOdd(from *Column, lo, hi, to int) {
	for _, o := range from.odd {
		if lo <= o.row && o.row < hi {
			c.odd = append(c.odd, oddText{o.row - lo + to, o.text})
		}
	}
}

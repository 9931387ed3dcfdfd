// Package cell reads and writes the cells of tables as text: numbers to the bits of strconv, but faster (number.go),
// JSON without a tree of values (jsonscan.go), CSV, and quotes for messages (quote.go). Reading what was written gives
// the same values.
package cell

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendNumber appends a finite number so that reading gives the same bits, in a form that is valid CSV and
// JSON.
func AppendNumber(b []byte, v float64) []byte {
	if a := math.Abs(v); a != 0 && (a < 1e-5 || a >= 1e15) {
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// AppendCSV appends a field, quoted if reading it back needs that: also for outer blanks, and for an empty
// field that is alone on its line, because readers skip empty lines.
func AppendCSV(b, field []byte, delim byte, alone bool) []byte {
	if !needsQuotes(field, delim, alone) {
		return append(b, field...)
	}
	b = append(b, '"')
	for _, c := range field {
		if c == '"' {
			b = append(b, '"')
		}
		b = append(b, c)
	}
	return append(b, '"')
}

func needsQuotes(t []byte, delim byte, alone bool) bool {
	if len(t) == 0 {
		return alone
	}
	blank := func(c byte) bool { return c == ' ' || c == '\t' }
	return bytes.IndexByte(t, delim) >= 0 || bytes.ContainsAny(t, "\"\r\n") || blank(t[0]) || blank(t[len(t)-1]) ||
		bytes.HasPrefix(t, []byte("\xef\xbb\xbf")) // a byte order mark
}

// AppendJSON appends a text as a JSON string in the form of encoding/json; nil is null.
func AppendJSON(b, text []byte) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&' {
			s, err := json.Marshal(string(text))
			if err != nil { // a string always marshals
				return append(b, "null"...)
			}
			return append(b, s...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// AppendJSONCell is AppendJSON, or for a bare cell the number or truth value itself. A bare cell that JSON
// cannot express, such as an infinity, stays a string.
func AppendJSONCell(b, text []byte, bare bool) []byte {
	if bare && len(text) > 0 && text[0] != '"' && json.Valid(text) {
		return append(b, text...)
	}
	return AppendJSON(b, text)
}

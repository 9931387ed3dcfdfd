// Package charset names the encodings of text and decodes them to UTF-8.
package charset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// Encoding is an encoding of text: UTF-8 if neither table nor order is set. States compare encodings by
// pointer, so there is one value of each.
type Encoding struct {
	Name  string
	table *charmap.Charmap // single-byte encodings
	order binary.ByteOrder // UTF-16
}

var (
	UTF8    = &Encoding{Name: "utf-8"}
	UTF16LE = &Encoding{Name: "utf-16le", order: binary.LittleEndian}
	UTF16BE = &Encoding{Name: "utf-16be", order: binary.BigEndian}
)

// encodings lists all supported encodings.
var encodings = append([]*Encoding{UTF8, UTF16LE, UTF16BE}, byteEncodings()...)

// Names returns the names of the encodings that can be read, sorted. Names are matched without regard to
// case, blanks and dashes.
func Names() []string {
	var out []string
	for _, e := range encodings {
		out = append(out, e.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Known reports whether text in the named encoding can be read.
func Known(name string) bool {
	_, err := Named(name)
	return err == nil
}

// Named finds an encoding by its name or a common alias.
func Named(name string) (*Encoding, error) {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, strings.ToLower(s))
	}
	key := plain(name)
	switch other := map[string]string{"utf16": "utf16le", "latin1": "iso88591", "l1": "iso88591", "latin2": "iso88592",
		"latin9": "iso885915", "ansi": "windows1252", "ascii": "utf8", "usascii": "utf8"}[key]; {
	case other != "":
		key = other
	case strings.HasPrefix(key, "cp125"):
		key = "windows" + key[2:]
	case strings.HasPrefix(key, "cp"):
		key = "ibm" + key[2:]
	}
	for _, e := range encodings {
		if plain(e.Name) == key {
			return e, nil
		}
	}
	return nil, fmt.Errorf("unknown encoding %q: want one of %s", name, strings.Join(Names(), ", "))
}

// Sniff recognises UTF-16 by its byte order mark, or by zeros in every other byte, which mostly-ASCII text
// has.
func Sniff(b []byte) *Encoding {
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xfe")):
		return UTF16LE
	case bytes.HasPrefix(b, []byte("\xfe\xff")):
		return UTF16BE
	}
	b = b[:min(len(b), 1<<12)]
	var zeros [2]int
	for i, c := range b {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch {
	case len(b) < 8 || zeros[0] > 0 && zeros[1] > 0:
	case zeros[1] > len(b)/4:
		return UTF16LE
	case zeros[0] > len(b)/4:
		return UTF16BE
	}
	return nil
}

// decode converts b to UTF-8 and returns the number of bytes used; end means that no more input follows. The
// text is in b (UTF-8) or in the memory of out. wrong describes an invalid byte, which comes directly after the
// returned text.
func (e *Encoding) Decode(out *[]byte, b []byte, first, end bool) (text []byte, used int, wrong string) {
	switch {
	case e.order != nil:
		return e.decode16(out, b, first, end)
	case e.table != nil:
		text = (*out)[:0]
		for i, c := range b {
			r := e.table.DecodeByte(c)
			if r == utf8.RuneError {
				return text, i, fmt.Sprintf("byte 0x%02X is no character of %s", c, e.Name)
			}
			text = utf8.AppendRune(text, r)
		}
		*out = text
		return text, len(b), ""
	}
	if utf8.Valid(b) {
		return b, len(b), ""
	}
	i := 0
	for i < len(b) && Valid(b[i:]) {
		_, n := utf8.DecodeRune(b[i:])
		i += n
	}
	if !end && !utf8.FullRune(b[i:]) {
		return b[:i], i, ""
	}
	return b[:i], i, fmt.Sprintf("byte 0x%02X is not UTF-8, the encoding of the text before it: correct it, or name "+
		"the encoding of the file", b[i])
}

// Valid reports whether b begins with a Valid UTF-8 sequence.
func Valid(b []byte) bool {
	r, n := utf8.DecodeRune(b)
	return r != utf8.RuneError || n > 1
}

func (e *Encoding) decode16(out *[]byte, b []byte, first, end bool) (text []byte, used int, wrong string) {
	i := 0
	if first && len(b) >= 2 && e.order.Uint16(b) == 0xfeff {
		i = 2
	}
	text = (*out)[:0]
	for ; i+2 <= len(b); i += 2 {
		r := rune(e.order.Uint16(b[i:]))
		if utf16.IsSurrogate(r) {
			if i+4 > len(b) && !end {
				break
			}
			low := rune(0)
			if i+4 <= len(b) {
				low = rune(e.order.Uint16(b[i+2:]))
			}
			full := utf16.DecodeRune(r, low)
			if full == utf8.RuneError {
				return text, i, fmt.Sprintf("half of a character, 0x%04X, in UTF-16", r)
			}
			r = full
			i += 2
		}
		text = utf8.AppendRune(text, r)
	}
	*out = text
	if end && i < len(b) {
		return text, i, "half of a character at the end, in UTF-16"
	}
	return text, i, ""
}

// Mixed describes a file whose parts decided on different encodings.
func Mixed(one, other string) string {
	return fmt.Sprintf("some of the text is %s and some %s: name the encoding of the file", one, other)
}

// Wide reports whether characters take two bytes (UTF-16): then a byte '\n' may be half of another character.
func (e *Encoding) Wide() bool { return e != nil && e.order != nil }

// Cuts reports whether text can be cut after the byte '\n' before it is decoded.
func (e *Encoding) Cuts() bool { return e.table == nil || e.table.DecodeByte('\n') == '\n' }

// LineEnd returns the offset after the last line end of raw text, 0 if there is none.
func (e *Encoding) LineEnd(raw []byte) int {
	if e == nil || e.order == nil {
		return bytes.LastIndexByte(raw, '\n') + 1
	}
	for i := len(raw) &^ 1; i >= 2; i -= 2 {
		if e.order.Uint16(raw[i-2:]) == '\n' {
			return i
		}
	}
	return 0
}

// FirstLineEnd returns the offset after the first line end of raw text that begins at a character, 0 if there
// is none.
func (e *Encoding) FirstLineEnd(raw []byte) int {
	if e == nil || e.order == nil {
		return bytes.IndexByte(raw, '\n') + 1
	}
	for i := 2; i <= len(raw); i += 2 {
		if e.order.Uint16(raw[i-2:]) == '\n' {
			return i
		}
	}
	return 0
}

// ASCIIPrefix returns the number of bytes before the first that is not ASCII, 32 at a time.
func ASCIIPrefix(b []byte) int {
	i := 0
	const high = 0x8080808080808080
	for ; i+32 <= len(b); i += 32 {
		c := b[i : i+32 : i+32]
		if (binary.LittleEndian.Uint64(c)|binary.LittleEndian.Uint64(c[8:])|binary.LittleEndian.Uint64(c[16:])|
			binary.LittleEndian.Uint64(c[24:]))&high != 0 {
			break
		}
	}
	for i < len(b) && b[i] < 0x80 {
		i++
	}
	return i
}

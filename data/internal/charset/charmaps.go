package charset

import (
	"strings"

	"golang.org/x/text/encoding/charmap"
)

// byteEncodings returns the encodings with one byte per character, such as windows-1252 and iso-8859-1.
func byteEncodings() []*Encoding {
	var out []*Encoding
	for _, e := range charmap.All {
		if t, ok := e.(*charmap.Charmap); ok {
			name := strings.ToLower(strings.Replace(t.String(), " Code Page ", "", 1))
			out = append(out, &Encoding{Name: strings.ReplaceAll(name, " ", "-"), table: t})
		}
	}
	return out
}

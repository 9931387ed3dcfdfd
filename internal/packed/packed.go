// Package packed reads and writes compressed JSON that is embedded in a program. Text takes three times as much room
// there. The tests of the packages that embed a file write it, with a flag -update, and compare it with its source.
package packed

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
)

// Decode decompresses b and stores the value in dst.
func Decode(dst any, b []byte) error {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return json.NewDecoder(r).Decode(dst)
}

// Encode is the inverse of Decode.
func Encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

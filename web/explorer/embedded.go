//go:build explorer

package explorer

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

// built is the page of the same revision, made by "go run ./web/explorer/build -z -o web/explorer/explorer.html.gz".
//
//go:embed explorer.html.gz
var built []byte

// Embedded is the page that this program carries; nil if it was built without.
func Embedded() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(built))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

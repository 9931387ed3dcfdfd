package localfile

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// EndsHash returns the SHA-256 of the first and the last MiB of a file, in hexadecimal. It tells files apart
// without reading all of them; changes in the middle go undetected.
func EndsHash(r io.ReaderAt, size int64) (string, error) {
	const part = 1 << 20
	h := sha256.New()
	for _, at := range []int64{0, max(0, size-part)} {
		if _, err := io.Copy(h, io.NewSectionReader(r, at, part)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

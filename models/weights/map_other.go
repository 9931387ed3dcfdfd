//go:build !unix

package weights

import "github.com/randfeat/randfeat/internal/localfile"

// Map returns the contents of a file, read into memory.
func Map(path string) (data []byte, unmap func() error, err error) {
	data, err = localfile.Read(path, localfile.Format{Want: "a file of weights"})
	return data, func() error { return nil }, err
}

//go:build !unix

package weights

import "os"

// Map returns the contents of a file, read into memory.
func Map(path string) (data []byte, unmap func() error, err error) {
	data, err = os.ReadFile(path)
	return data, func() error { return nil }, err
}

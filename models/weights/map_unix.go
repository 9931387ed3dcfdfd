//go:build unix

package weights

import (
	"fmt"
	"os"
	"syscall"
)

// Map returns the contents of a file, mapped into memory: pages are read when they are used, and processes share
// them. If another program truncates the file, this process crashes with SIGBUS. Replace files by renaming instead.
func Map(path string) (data []byte, unmap func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	n := info.Size()
	if !info.Mode().IsRegular() || n != int64(int(n)) {
		return nil, nil, fmt.Errorf("%s: not a regular file, or too large to map: %w", path, ErrFormat)
	}
	if n == 0 {
		return nil, func() error { return nil }, nil
	}
	data, err = syscall.Mmap(int(f.Fd()), 0, int(n), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: mmap: %w", path, err)
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}

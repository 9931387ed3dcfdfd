package raw

import (
	"bufio"
	"compress/bzip2"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/randfeat/randfeat/data"
)

// The first bytes of compressed files.
const (
	gzipMagic  = "\x1f\x8b"
	zstdMagic  = "\x28\xb5\x2f\xfd"
	bzip2Magic = "1AY&SY" // behind BZh and the size of blocks
)

// Compression names the program that compressed a file with this beginning, or "".
func Compression(head []byte) string {
	has := func(magic string, at int) bool {
		return len(head) >= at+len(magic) && string(head[at:at+len(magic)]) == magic
	}
	switch {
	case has(gzipMagic, 0):
		return "gzip"
	case has(zstdMagic, 0):
		return "zstd"
	case has("BZh", 0) && has(bzip2Magic, 4):
		return "bzip2"
	}
	return ""
}

// HeadBytes is how many bytes Compression needs.
const HeadBytes = 10

// maxZstdMemory bounds the memory of the zstd decoder. A frame header may request a window of up to terabytes;
// no standard compression level needs more.
const maxZstdMemory = 128 << 20

// Decompress returns a reader of the decompressed contents of r. It recognises gzip, zstd and bzip2 by their
// first bytes. Otherwise the result is a *bufio.Reader, by which File.Plain recognises plain files. name is used in
// messages.
func Decompress(name string, r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(HeadBytes)
	if err != nil && err != io.EOF {
		return nil, Wrap(name, err)
	}
	switch Compression(head) {
	case "gzip":
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, Wrap(name, err)
		}
		return z, nil
	case "zstd":
		// One goroutine: the decoder is not closed, and a table that is not read to its end must not leave
		// goroutines behind.
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxZstdMemory),
			zstd.WithDecoderMaxWindow(maxZstdMemory), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, Wrap(name, Damaged{err})
		}
		return DamagedReader{z}, nil
	case "bzip2":
		return DamagedReader{bzip2.NewReader(b)}, nil
	}
	return b, nil
}

// Damaged marks errors of decompression, which have no common type, for Wrap.
type Damaged struct{ Err error }

func (d Damaged) Error() string { return d.Err.Error() }

func (d Damaged) Unwrap() error { return d.Err }

// DamagedReader marks the errors of a decompressor.
type DamagedReader struct{ io.Reader }

func (r DamagedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = Damaged{err}
	}
	return n, err
}

// Wrap adds the name of the input to errors of reading. Errors of decompression become an InputError, because
// the file is damaged; other errors, such as a failing disk, do not.
func Wrap(name string, err error) error {
	var e *data.InputError
	if err == nil || err == io.EOF || errors.As(err, &e) {
		return err
	}
	var flate flate.CorruptInputError
	var other Damaged
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &flate) || errors.As(err, &other) {
		return &data.InputError{Place: name, Detail: fmt.Sprintf("damaged or cut file: %v", err), Err: err}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// IsZip reports whether a file with this beginning is a zip archive, possibly an empty one.
func IsZip(head []byte) bool {
	return strings.HasPrefix(string(head[:min(len(head), 4)]), "PK\x03\x04") ||
		strings.HasPrefix(string(head[:min(len(head), 4)]), "PK\x05\x06")
}

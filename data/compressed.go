package data

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
)

// The first bytes of compressed files.
const (
	gzipMagic  = "\x1f\x8b"
	zstdMagic  = "\x28\xb5\x2f\xfd"
	bzip2Magic = "1AY&SY" // behind BZh and the size of blocks
)

// compression names the program that compressed a file with this beginning, or "".
func compression(head []byte) string {
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

// compressedHead is how many bytes compression needs.
const compressedHead = 10

// maxZstdMemory bounds the memory of the zstd decoder. A frame header may request a window of up to terabytes;
// no standard compression level needs more.
const maxZstdMemory = 128 << 20

// Decompress returns a reader of the decompressed contents of r. It recognises gzip, zstd and bzip2 by their
// first bytes and passes anything else through. name is used in messages.
func Decompress(name string, r io.Reader) (io.Reader, error) { return input{name: name}.unzip(r) }

// unzip decompresses r if it begins with the magic bytes of a compressed file. Otherwise the result is a
// *bufio.Reader, by which newNPYSource recognises plain files.
func (in input) unzip(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(compressedHead)
	if err != nil && err != io.EOF {
		return nil, in.wrap(err)
	}
	switch compression(head) {
	case "gzip":
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, in.wrap(err)
		}
		return z, nil
	case "zstd":
		// One goroutine: the decoder is not closed, and a table that is not read to its end must not leave
		// goroutines behind.
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxZstdMemory),
			zstd.WithDecoderMaxWindow(maxZstdMemory), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, in.wrap(damaged{err})
		}
		return damagedReader{z}, nil
	case "bzip2":
		return damagedReader{bzip2.NewReader(b)}, nil
	}
	return b, nil
}

// damaged marks errors of decompression, which have no common type, for wrap.
type damaged struct{ error }

func (d damaged) Unwrap() error { return d.error }

type damagedReader struct{ io.Reader }

func (r damagedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = damaged{err}
	}
	return n, err
}

// wrap adds the name of the input to errors of reading. Errors of decompression become an InputError, because
// the file is damaged; other errors, such as a failing disk, do not.
func (in input) wrap(err error) error {
	var e *InputError
	if err == nil || err == io.EOF || errors.As(err, &e) {
		return err
	}
	var flate flate.CorruptInputError
	var other damaged
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &flate) || errors.As(err, &other) {
		return &InputError{Place: in.name, Detail: fmt.Sprintf("damaged or cut file: %v", err), Err: err}
	}
	return fmt.Errorf("%s: %w", in.name, err)
}

// Uncompressed removes the extension of a compressed file, .gz, .zst, .bz2 or .zip, from a name.
func Uncompressed(name string) string {
	for _, end := range []string{".gz", ".zst", ".bz2", ".zip"} {
		if len(name) > len(end) && strings.EqualFold(name[len(name)-len(end):], end) {
			return name[:len(name)-len(end)]
		}
	}
	return name
}

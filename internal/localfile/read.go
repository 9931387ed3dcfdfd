package localfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Format says what a file must be before it is read into memory. Without such a check a file of another kind costs as
// much memory as it claims to have bytes, and a device such as /dev/zero never ends.
type Format struct {
	Want  string // what the file should be, for messages: "a model file"
	Max   int64  // the largest length in bytes; 0 means that a regular file may have any length
	Pipes bool   // pipes and devices are read as well, up to Max bytes; otherwise they are refused
	// Check looks at the first bytes and, in formats with a table of contents, compares the sizes it promises with the
	// length of the file. For pipes r has the first bytes only and size is -1. Nil accepts everything.
	Check func(r io.ReaderAt, size int64) error
}

// JSON is the format of a file with one JSON object of at most limit bytes. Pipes may hold it too.
func JSON(want string, limit int64) Format {
	return Format{Want: want, Max: limit, Pipes: true, Check: func(r io.ReaderAt, _ int64) error {
		head := make([]byte, headBytes)
		n, err := r.ReadAt(head, 0)
		if err != nil && err != io.EOF {
			return err
		}
		if text := bytes.TrimLeft(head[:n], " \t\r\n"); len(text) == 0 && n < len(head) || len(text) > 0 &&
			text[0] == '{' {
			return nil // an empty file is left to the decoder
		}
		return fmt.Errorf("not %s: it does not begin with {", want)
	}}
}

// headBytes is the length of the beginning of a pipe that Check sees.
const headBytes = 512

// Read reads a file into memory after its format has been checked. Errors name the file.
func Read(path string, f Format) ([]byte, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	// Before opening, because opening a pipe without a writer blocks.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := f.allows(path, info); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if err := f.allows(path, info); err != nil {
		return nil, err
	}
	var b []byte
	if info.Mode().IsRegular() {
		b, err = f.readRegular(file, info.Size())
	} else {
		b, err = f.readPipe(file)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

func (f Format) allows(path string, info os.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%s is a directory, want %s", path, f.Want)
	case !info.Mode().IsRegular() && !f.Pipes:
		return fmt.Errorf("%s is not a regular file, want %s: write it to a file first", path, f.Want)
	}
	return nil
}

func (f Format) readRegular(file *os.File, size int64) ([]byte, error) {
	if err := f.fits(size); err != nil {
		return nil, err
	}
	if f.Check != nil {
		if err := f.Check(file, size); err != nil {
			return nil, err
		}
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(file, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file became shorter while it was read")
		}
		return nil, err
	}
	return b, nil
}

func (f Format) readPipe(file io.Reader) ([]byte, error) {
	head := make([]byte, headBytes)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if f.Check != nil {
		if err := f.Check(bytes.NewReader(head[:n]), -1); err != nil {
			return nil, err
		}
	}
	b := bytes.NewBuffer(head[:n])
	if _, err := io.Copy(b, io.LimitReader(file, f.Max+1-int64(n))); err != nil {
		return nil, err
	}
	return b.Bytes(), f.fits(int64(b.Len()))
}

// fits checks a length, in bytes.
func (f Format) fits(size int64) error {
	if f.Max > 0 && size > f.Max {
		return fmt.Errorf("%d bytes or more, %s has at most %d", size, f.Want, f.Max)
	}
	if size > math.MaxInt {
		return fmt.Errorf("%d bytes do not fit in memory", size)
	}
	return nil
}

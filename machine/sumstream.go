package machine

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/randfeat/randfeat/internal/seal"
)

// Write writes the bytes of AppendBinary row by row, without a copy in memory.
func (r *Ridge) Write(w io.Writer) error {
	h := sha256.New()
	both := io.MultiWriter(w, h)
	b := r.appendHeader(nil)
	if _, err := both.Write(b); err != nil {
		return err
	}
	err := r.each(func(v []float64) error {
		b = seal.Append(b[:0], v...)
		_, err := both.Write(b)
		return err
	}, func(v []float32) error {
		b = seal.Append(b[:0], v...)
		_, err := both.Write(b)
		return err
	})
	if err != nil {
		return err
	}
	_, err = w.Write(h.Sum(nil))
	return err
}

// Size is the number of bytes that Write writes.
func (r *Ridge) Size() int64 { return int64(ridgeFormat.Size(r.sumsSize())) }

// Read reads into r, which must have no rows, the size bytes that Write wrote for the same setup: see [Sums].
func (r *Ridge) Read(in io.Reader, size int64) error {
	err := empty(r)
	if err == nil {
		err = r.readFrom(&hashed{r: in, h: sha256.New(), left: size})
	}
	if err != nil {
		return fmt.Errorf("saved ridge: %w", err)
	}
	return nil
}

// Like returns empty sums of the same setup, which share the scratch memory for features with r.
func (r *Ridge) Like() (Sums, error) { return r.another(), nil }

func (g *gp) Like() (Sums, error) { return &gp{g.another()}, nil }

func (a *smoother) Write(w io.Writer) error {
	b, err := a.AppendBinary(nil)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

func (a *smoother) Size() int64 { return int64(sumsFormat.Size(a.sumsSize())) }

func (a *smoother) Read(r io.Reader, size int64) error {
	if err := empty(a); err != nil {
		return err
	}
	if want := a.Size(); size != want {
		return fmt.Errorf("%d bytes of saved sums, want %d: %w", size, want, ErrCorrupt)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return cut(err)
	}
	return a.unmarshal(b)
}

func (a *smoother) Like() (Sums, error) { return newSmoother(a.setup) }

func (d *density) Write(w io.Writer) error            { return d.sums.Write(w) }
func (d *density) Size() int64                        { return d.sums.Size() }
func (d *density) Read(r io.Reader, size int64) error { return d.sums.Read(r, size) }
func (d *density) Like() (Sums, error)                { return newDensity(d.sums.setup) }

// empty returns an error if sums to read into have rows.
func empty(s Sums) error {
	if s.Len() != 0 {
		return fmt.Errorf("sums are read into those of %d rows, want none: %w", s.Len(), ErrSetup)
	}
	return nil
}

// hashed reads data that is followed by its SHA-256 checksum; left is the number of bytes left, checksum included.
type hashed struct {
	r    io.Reader
	h    hash.Hash
	left int64
}

// read fills b and adds it to the checksum.
func (r *hashed) read(b []byte) error {
	if int64(len(b)) > r.left-sha256.Size {
		return fmt.Errorf("%d bytes are left, want %d and a checksum: %w", r.left, len(b), ErrCorrupt)
	}
	if _, err := io.ReadFull(r.r, b); err != nil {
		return cut(err)
	}
	r.left -= int64(len(b))
	r.h.Write(b)
	return nil
}

// close reads the rest of the data and verifies the checksum.
func (r *hashed) close() error {
	b := make([]byte, 1<<16)
	for r.left > sha256.Size {
		if err := r.read(b[:min(int64(len(b)), r.left-sha256.Size)]); err != nil {
			return err
		}
	}
	b = b[:sha256.Size]
	if _, err := io.ReadFull(r.r, b); err != nil {
		return cut(err)
	}
	if !bytes.Equal(b, r.h.Sum(nil)) {
		return fmt.Errorf("the checksum is wrong: %w", ErrCorrupt)
	}
	return nil
}

// cut turns the end of a file into ErrCorrupt.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the file is cut: %w", ErrCorrupt)
	}
	return err
}

// readFrom reads header and numbers and then verifies the checksum; only then may r be used. A header that does not fit
// could be damaged or belong to another map, so the checksum decides which of the two errors is returned.
func (r *Ridge) readFrom(in *hashed) error {
	b := make([]byte, ridgeFormat.HeaderSize())
	if err := in.read(b); err != nil {
		return err
	}
	h, err := ridgeFormat.Parse(b)
	if err != nil {
		return err
	}
	if err := r.begin(h, in.left-sha256.Size); err != nil {
		if damaged := in.close(); errors.Is(damaged, ErrCorrupt) {
			return damaged
		}
		return err
	}
	ok := true
	err = r.each(func(v []float64) error {
		b = sized(b, 8*len(v))
		err := in.read(b)
		if err == nil {
			seal.Read(b, v, &ok)
		}
		return err
	}, func(v []float32) error {
		b = sized(b, 4*len(v))
		err := in.read(b)
		if err == nil {
			seal.Read(b, v, &ok)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := in.close(); err != nil {
		return err
	}
	return r.filled(ok)
}

func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

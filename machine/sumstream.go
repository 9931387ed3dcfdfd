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

// WriteSums writes the bytes of AppendBinary. Ridge sums are written row by row, without a copy in memory; other kinds
// are small.
func WriteSums(w io.Writer, s Sums) error {
	r := ridgeOf(s)
	if r == nil {
		b, err := s.AppendBinary(nil)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
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

// SumsSize is the number of bytes that WriteSums writes.
func SumsSize(s Sums) int64 {
	switch s := s.(type) {
	case *smoother:
		return int64(sumsFormat.Size(s.sumsSize()))
	case *density:
		return int64(sumsFormat.Size(s.sums.sumsSize()))
	}
	return int64(ridgeFormat.Size(ridgeOf(s).sumsSize()))
}

// ReadSums reads into into, which must have no rows, the size bytes that WriteSums wrote for sums of the same kind and
// setup. It uses the memory of into. Errors are those of UnmarshalSums; into is unusable after an error.
func ReadSums(into Sums, r io.Reader, size int64) error {
	if into.Len() != 0 {
		return fmt.Errorf("sums are read into those of %d rows, want none: %w", into.Len(), ErrSetup)
	}
	if ridge := ridgeOf(into); ridge != nil {
		if err := ridge.readFrom(&hashed{r: r, h: sha256.New(), left: size}); err != nil {
			return fmt.Errorf("saved ridge: %w", err)
		}
		return nil
	}
	if want := SumsSize(into); size != want {
		return fmt.Errorf("%d bytes of saved sums, want %d: %w", size, want, ErrCorrupt)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return cut(err)
	}
	if d, ok := into.(*density); ok {
		return d.sums.unmarshal(b)
	}
	return into.(*smoother).unmarshal(b)
}

// SumsLike returns empty sums of the kind and setup of s. Ridge sums share the scratch memory for features with s, so
// only one of them may be used at a time.
func SumsLike(s Sums) (Sums, error) {
	switch s := s.(type) {
	case *Ridge:
		return s.another(), nil
	case *gp:
		return &gp{s.another()}, nil
	case *smoother:
		return newSmoother(s.setup)
	case *density:
		return newDensity(s.sums.setup)
	}
	return nil, fmt.Errorf("sums of type %T: %w", s, ErrSetup)
}

// ridgeOf returns the ridge sums of s, or nil for other kinds.
func ridgeOf(s Sums) *Ridge {
	switch s := s.(type) {
	case *Ridge:
		return s
	case *gp:
		return s.Ridge
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

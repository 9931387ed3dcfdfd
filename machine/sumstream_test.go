package machine

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestSumsStream(t *testing.T) {
	for name, c := range codecs() {
		t.Run(name, func(t *testing.T) {
			s := c.sums(t, 0, 120)
			want, err := s.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			var w bytes.Buffer
			if err := s.Write(&w); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(w.Bytes(), want) || s.Size() != int64(len(want)) {
				t.Fatalf("%d bytes, Size %d, want those of AppendBinary, %d", w.Len(), s.Size(), len(want))
			}
			size := int64(len(want))
			rest := bytes.NewReader(append(w.Bytes(), 'x'))
			read := func(s Setup, r io.Reader, size int64) (Sums, error) {
				into, err := NewSums(c.kind, s)
				if err != nil {
					t.Fatal(err)
				}
				return into, into.Read(r, size)
			}
			got, err := read(c.setup, rest, size)
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := io.ReadAll(rest); string(b) != "x" {
				t.Errorf("%d bytes are left behind, want 1", len(b))
			}
			again, err := got.AppendBinary(nil)
			if err != nil || !bytes.Equal(again, want) {
				t.Errorf("read back: %v, %d bytes that differ", err, len(again))
			}
			for _, at := range []int{0, 20, 30, 60, 90, len(want) / 2, len(want) - 1} {
				bad := bytes.Clone(want)
				bad[at] ^= 0x41
				if _, err := read(c.setup, bytes.NewReader(bad), size); !errors.Is(err, ErrCorrupt) {
					t.Errorf("byte %d changed: %v, want ErrCorrupt", at, err)
				}
			}
			for _, n := range []int64{0, 10, 100, size - 1} {
				if _, err := read(c.setup, bytes.NewReader(want[:n]), size); !errors.Is(err, ErrCorrupt) {
					t.Errorf("cut after %d bytes: %v, want ErrCorrupt", n, err)
				}
				if _, err := read(c.setup, bytes.NewReader(want), n); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%d bytes promised: %v, want ErrCorrupt", n, err)
				}
			}
			other := c.setup
			other.Spec.Seed++
			if _, err := read(other, bytes.NewReader(want), size); !errors.Is(err, ErrMismatch) {
				t.Errorf("another map: %v, want ErrMismatch", err)
			}
			if _, err := read(c.setup, errReader{}, size); !errors.Is(err, errRead) {
				t.Errorf("a reader that fails: %v", err)
			}
			if err := s.Read(bytes.NewReader(want), size); !errors.Is(err, ErrSetup) {
				t.Errorf("into sums that have rows: %v", err)
			}
			if err := s.Write(errReader{}); !errors.Is(err, errRead) {
				t.Errorf("a writer that fails: %v", err)
			}
		})
	}
}

var errRead = errors.New("disk on fire")

type errReader struct{}

func (errReader) Read([]byte) (int, error)  { return 0, errRead }
func (errReader) Write([]byte) (int, error) { return 0, errRead }

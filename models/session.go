package models

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/seal"
	"github.com/randfeat/randfeat/models/decoder"
)

// ErrSession means that a file holds no session of this model.
var ErrSession = errors.New("not a usable session")

// sessionFormat is the layout of a saved session: header with the fingerprint of the model and the
// counts (tokens, bytes of the note, logits, layers); note; logits of the next token; the states of the layers, each
// after its length in bytes; checksum.
var sessionFormat = seal.Format{Magic: "randfeat session", Version: 1, Counts: 4}

// Save writes the session to a file atomically. [Decoder.Resume] continues it bit for bit. The note is for the
// caller, at most 64 KiB; [SessionNote] reads it.
func (s *Session) Save(path, note string) error {
	if len(note) > 1<<16 {
		return fmt.Errorf("a note of %d bytes", len(note))
	}
	states := s.state.States()
	// b does not grow: that would take the size of the session again.
	size := sessionFormat.Size(len(note) + 4*len(s.next) + int(s.Bytes()) + 1024*len(states))
	b := sessionFormat.Begin(make([]byte, 0, size), seal.Header{Fingerprint: s.decoder.base(),
		Counts: []uint64{uint64(s.Len()), uint64(len(note)), uint64(len(s.next)), uint64(len(states))}})
	b = append(b, note...)
	b = seal.Append(b, s.next...)
	for _, st := range states {
		at := len(b)
		b = binary.LittleEndian.AppendUint64(b, 0)
		var err error
		if b, err = st.AppendBinary(b); err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[at:], uint64(len(b)-at-8))
	}
	f, err := localfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(seal.Close(b, 0)); err != nil {
		return err
	}
	return f.Commit()
}

// maxLayers bounds the layers of a session, each of which takes a read to check.
const maxLayers = 1 << 16

// checkSession checks the header of a session of size bytes, and that its parts end where the file does.
func checkSession(r io.ReaderAt, size int64) error {
	h, err := sessionFormat.Check(r, size)
	if err != nil {
		return err
	}
	note, logits, layers := h.Counts[1], h.Counts[2], h.Counts[3]
	at, end := uint64(sessionFormat.HeaderSize()), uint64(size)-sha256.Size
	wrong := fmt.Errorf("%d bytes, which is not the length that the header says: %w", size, seal.ErrCorrupt)
	if note > end || logits > end/4 || layers > maxLayers {
		return wrong
	}
	at += note + 4*logits
	for range layers {
		var n [8]byte
		if at > end-8 {
			return wrong
		}
		if _, err := r.ReadAt(n[:], int64(at)); err != nil {
			return err
		}
		length := binary.LittleEndian.Uint64(n[:])
		if length > end-8-at {
			return wrong
		}
		at += 8 + length
	}
	if at != end {
		return wrong
	}
	return nil
}

// openSession reads a file and verifies its checksum.
func openSession(path string) (h seal.Header, note string, body []byte, err error) {
	b, err := localfile.Read(path, localfile.Format{Want: "a saved session", Check: checkSession})
	if errors.Is(err, seal.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", err, ErrSession)
	}
	if err != nil {
		return h, "", nil, err
	}
	h, body, err = sessionFormat.Open(b)
	if err == nil && h.Counts[1] > uint64(len(body)) {
		err = errors.New("the note is longer than the file")
	}
	if err != nil {
		return h, "", nil, fmt.Errorf("%s: %w: %w", path, ErrSession, err)
	}
	n := h.Counts[1]
	return h, string(body[:n]), body[n:], nil
}

// SessionNote returns the note that was passed to Save.
func SessionNote(path string) (string, error) {
	_, note, _, err := openSession(path)
	return note, err
}

// Resume opens a session that was saved by this model with the same precision.
func (d *Decoder) Resume(path string) (*Session, error) {
	h, _, body, err := openSession(path)
	if err != nil {
		return nil, err
	}
	bad := func(what string) (*Session, error) { return nil, fmt.Errorf("%s: %s: %w", path, what, ErrSession) }
	if h.Fingerprint != d.base() {
		return bad("the session is of another model, or of another precision of it")
	}
	s, err := d.Session()
	if err != nil {
		return nil, err
	}
	vocab, states := uint64(d.model.Config().Vocab), s.state.States()
	length, logits := h.Counts[0], h.Counts[2]
	if length > uint64(d.Context()) || logits != 0 && logits != vocab || h.Counts[3] != uint64(len(states)) ||
		logits > uint64(len(body))/4 {
		return bad("the sizes are not those of the model")
	}
	ok := true
	s.next = make([]float32, logits)
	body = seal.Read(body, s.next, &ok)
	if logits == 0 {
		s.next = nil
	}
	for i, st := range states {
		if len(body) < 8 || binary.LittleEndian.Uint64(body) > uint64(len(body)-8) {
			return bad(fmt.Sprintf("the state of layer %d is damaged", i))
		}
		n := binary.LittleEndian.Uint64(body)
		if part := body[8 : 8+n]; decoder.IsCompacted(part) {
			st, err = d.model.ReadCompacted(part)
			states[i] = st
		} else if u, can := st.(interface{ UnmarshalBinary([]byte) error }); can {
			err = u.UnmarshalBinary(part)
		} else {
			err = errors.New("states of this kind are not resumed")
		}
		if err != nil {
			return bad(fmt.Sprintf("layer %d: %v", i, err))
		}
		if st.Len() != int(length) {
			return bad(fmt.Sprintf("layer %d holds %d tokens, want %d", i, st.Len(), length))
		}
		body = body[8+n:]
	}
	if len(body) != 0 || !ok {
		return bad("more bytes than a session has, or numbers that are not finite")
	}
	return s, s.state.Restore(int(length), states)
}

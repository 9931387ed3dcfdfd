package corpus

import (
	"fmt"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// Utterance is a sound and its letters, numbered from 1; 0 is the blank of CTC.
type Utterance struct {
	Name    string
	Frames  dense.Matrix[float32]
	Letters []int32
}

// Sounds makes batches of sounds with their letters, padded to one length. It can join several utterances into one
// row.
type Sounds struct {
	train         []Utterance
	held          [][]Utterance
	batch, length int
	letters       int // letters per row
	join          int
}

// NewSounds makes rows of at most length frames. A training row has 1 to join utterances, as many as fit. Held-out
// utterances are joined in a fixed order, join at a time. limit bounds the held-out batches; 0 means all.
func NewSounds(items, held []Utterance, batch, length, join, limit int) (*Sounds, error) {
	if len(items) == 0 || len(held) == 0 || batch < 1 || join < 1 {
		return nil, fmt.Errorf("%w: %d and %d recordings, %d in a batch, %d joined", ErrData, len(items), len(held),
			batch, join)
	}
	width := items[0].Frames.Cols
	most := 0
	for _, all := range [][]Utterance{items, held} {
		for _, u := range all {
			if err := u.check(width, length, join > 1); err != nil {
				return nil, fmt.Errorf("%w: recording %s: %w", ErrData, u.Name, err)
			}
			most = max(most, len(u.Letters))
		}
	}
	s := &Sounds{train: items, batch: batch, length: length, letters: most * join, join: join}
	perm := permutation(len(held), rng.Stream(0, 's'))
	for at := 0; at < len(held); at += join {
		var row []Utterance
		frames := 0
		for _, i := range perm[at:min(at+join, len(held))] {
			row = append(row, held[i])
			frames += held[i].Frames.Rows
		}
		if frames > length {
			return nil, fmt.Errorf("%w: %d held-out recordings have %d frames together, a row has %d", ErrData, len(row),
				frames, length)
		}
		s.held = append(s.held, row)
	}
	if limit > 0 {
		s.held = s.held[:min(len(s.held), limit*batch)]
	}
	return s, nil
}

// check returns an error if the utterance does not fit into a row, or is too short for its letters. followed means
// that another utterance may be joined to it.
func (u Utterance) check(width, length int, followed bool) error {
	need := len(u.Letters) // frames needed: one per letter, and a blank between equal neighbours
	for i, l := range u.Letters {
		if l < 1 {
			return fmt.Errorf("letter %d", l)
		}
		if i > 0 && l == u.Letters[i-1] {
			need++
		}
	}
	if followed && need > 0 {
		need++
	}
	switch n := u.Frames.Rows; {
	case u.Frames.Cols != width:
		return fmt.Errorf("frames of %d features, others have %d", u.Frames.Cols, width)
	case need == 0:
		return fmt.Errorf("nothing is said")
	case n < need:
		return fmt.Errorf("%d frames are too few for %d letters, of which equal neighbours need a blank", n, len(u.Letters))
	case n > length:
		return fmt.Errorf("%d frames, a row has %d", n, length)
	}
	return nil
}

// Width returns the number of features of a frame.
func (s *Sounds) Width() int { return s.train[0].Frames.Cols }

// Items implements train.Source: frames per batch.
func (s *Sounds) Items() int { return s.batch * s.length }

// Unit is the name of the things that Items counts.
func (s *Sounds) Unit() string { return "frames" }

// Held implements train.Source.
func (s *Sounds) Held() int { return (len(s.held) + s.batch - 1) / s.batch }

// Train implements train.Source.
func (s *Sounds) Train(seed uint64, i int) train.Batch {
	first := order{len(s.train), s.batch}.pick(seed, i)
	src := rng.Stream(seed, 'j', uint64(i))
	rows := make([][]Utterance, s.batch)
	for r, a := range first {
		rows[r] = []Utterance{s.train[a]}
		frames := s.train[a].Frames.Rows
		for range src.Uint64() % uint64(s.join) {
			u := s.train[src.Uint64()%uint64(len(s.train))]
			if frames += u.Frames.Rows; frames > s.length {
				break
			}
			rows[r] = append(rows[r], u)
		}
	}
	return s.rows(rows)
}

// HeldOut implements train.Source.
func (s *Sounds) HeldOut(i int) train.Batch {
	rows := make([][]Utterance, s.batch)
	copy(rows, s.held[i*s.batch:min((i+1)*s.batch, len(s.held))])
	return s.rows(rows)
}

func (s *Sounds) rows(rows [][]Utterance) train.Batch {
	width := s.Width()
	x, y := make([]float32, s.batch*s.length*width), make([]int32, s.batch*s.letters)
	valid := make([]bool, s.batch*s.length)
	for i := range y {
		y[i] = -1
	}
	for r, row := range rows {
		valid[r*s.length] = true // attention over no valid position would be undefined
		frames, letters := 0, 0
		for _, u := range row {
			for f := range u.Frames.Rows {
				at := r*s.length + frames + f
				copy(x[at*width:], u.Frames.Row(f))
				valid[at] = true
			}
			copy(y[r*s.letters+letters:], u.Letters)
			frames, letters = frames+u.Frames.Rows, letters+len(u.Letters)
		}
	}
	return train.Batch{tensors.FromFlatDataAndDimensions(x, s.batch, s.length, width),
		tensors.FromFlatDataAndDimensions(y, s.batch, s.letters),
		tensors.FromFlatDataAndDimensions(valid, s.batch, s.length)}
}

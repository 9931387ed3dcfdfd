package auto

import (
	"github.com/randfeat/randfeat/data"
)

// foldSource is a part of a table: the rows of fold k, or all others. A fit of a foldSource learns columns, scales and
// levels from its rows only.
type foldSource struct {
	data.Source
	seed     uint64
	k, folds int
	inside   bool
}

func (s foldSource) Open(want []data.Kind) (data.Reader, error) {
	r, err := s.Source.Open(want)
	if err != nil {
		return nil, err
	}
	return &foldReader{Reader: r, s: s}, nil
}

type foldReader struct {
	data.Reader
	s          foldSource
	row, given int64 // rows read, and rows handed on
	kept       []int // of the last block
}

func (r *foldReader) Read(b *data.Block, most int) error {
	for {
		if err := r.Reader.Read(b, most); err != nil {
			return err
		}
		r.kept = r.kept[:0]
		for i := range b.Rows {
			if (fold(r.s.seed, r.row+int64(i), r.s.folds) == r.s.k) == r.s.inside {
				r.kept = append(r.kept, i)
			}
		}
		r.row += int64(b.Rows)
		if len(r.kept) == 0 {
			continue
		}
		b.Keep(r.kept)
		b.First = r.given
		r.given += int64(b.Rows)
		return nil
	}
}

// Where names the place in the table that row i of the last block has there.
func (r *foldReader) Where(i int) string { return r.Reader.Where(r.kept[i]) }

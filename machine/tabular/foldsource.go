package tabular

import (
	"github.com/randfeat/randfeat/data"
)

// foldSource is a part of a table: the rows of part k, or those that a model which predicts them, and those of all
// parts up to last, may learn from. A fit of a foldSource learns columns, scales and levels from its rows only.
type foldSource struct {
	data.Source
	deal           *dealer
	k, last, parts int
	inside         bool
}

func (s foldSource) has(row int64) bool {
	at := s.deal.of(row, s.parts)
	if s.inside {
		return at == s.k
	}
	for k := s.k; k <= max(s.k, s.last); k++ {
		if !s.deal.learns(at, k) || s.deal.ordered() && s.deal.near(row, k, s.parts) {
			return false
		}
	}
	return true
}

// marks are those of its rows; n rows are in the table.
func (s foldSource) marks(n int64) *data.Marks {
	if s.deal.marks == nil {
		return nil
	}
	var rows []int64
	for i := range n {
		if s.has(i) {
			rows = append(rows, i)
		}
	}
	return s.deal.marks.Keep(rows)
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
			if r.s.has(r.row + int64(i)) {
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

package tabular

import (
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/machine"
)

// foldSource is a part of a table: the rows of part k, or the rows that a model may learn from if it predicts the parts
// k to last. A fit of a foldSource learns columns, scales and levels from these rows only, so nothing leaks.
type foldSource struct {
	data.Source
	deal           *dealer
	k, last, parts int
	inside         bool
	rows           int64    // rows of the table if only some of them are taken (among); 0: all are taken
	half           int      // 1 or 2: a model learns from this half of the rows; 0: from all
	only           heldPart // of the rows of part k
}

// heldPart says which rows of a fold are read. A contest takes a quarter of them, so the score has the others.
type heldPart int

const (
	heldAll heldPart = iota
	heldContest
	heldScore
)

// judges reports whether a row is one of those.
func (s foldSource) judges(row int64) bool {
	contest := rng.Mix64(s.deal.seed^contestLabel^rng.Mix64(uint64(row)))>>62 == 0
	return s.only == heldAll || contest == (s.only == heldContest)
}

// For large tables, scored models learn from about nestedMost rows and predict about heldMost. Using all rows would
// take as long as the fit and add no useful digits. The reported score then belongs to a model of fewer rows. They are
// variables so that tests can use fewer rows.
var nestedMost, heldMost int64 = 100_000, 20_000

// thins reports whether scored models learn from only some of n rows. Rows with marks are all taken, because groups
// and periods must stay whole.
func (j *job) thins(n int64) bool {
	return j.deal.marks == nil && j.task != machine.Unsupervised && j.o.Features <= maxFeatures &&
		n > int64(j.exactLimit()) && n > nestedMost*5/4
}

// among reports whether a row is taken when only some are.
func (s foldSource) among(row int64) bool {
	most, of := nestedMost, float64(s.rows)*float64(s.parts-1)/float64(s.parts)
	if s.inside {
		most, of = heldMost, float64(s.rows)/float64(s.parts)
	}
	return float64(rng.Mix64(s.deal.seed^thinLabel^rng.Mix64(uint64(row)))) < 0x1p64*float64(most)/of
}

func (s foldSource) has(row int64) bool {
	if s.rows > 0 && !s.among(row) {
		return false
	}
	at := s.deal.of(row, s.parts)
	if s.inside {
		return at == s.k && s.judges(row)
	}
	if s.half > 0 && !inHalf(s.deal.seed, row, s.half) {
		return false
	}
	for k := s.k; k <= max(s.k, s.last); k++ {
		if !s.deal.learns(at, k) || s.deal.ordered() && s.deal.near(row, k, s.parts) {
			return false
		}
	}
	return true
}

// marks returns the marks of the rows of s, given the number n of rows of the table.
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
	return &someReader{Reader: r, has: s.has}, nil
}

// someReader passes on some rows of a table, in their order.
type someReader struct {
	data.Reader
	has        func(row int64) bool
	row, given int64 // rows read, and rows handed on
	kept       []int // of the last block
}

func (r *someReader) Read(b *data.Block, most int) error {
	for {
		if err := r.Reader.Read(b, most); err != nil {
			return err
		}
		r.kept = r.kept[:0]
		for i := range b.Rows {
			if r.has(r.row + int64(i)) {
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

// Where names the place of row i of the last block in the whole table.
func (r *someReader) Where(i int) string { return r.Reader.Where(r.kept[i]) }

// inHalf reports whether a hash puts the row into the given half of the table, 1 or 2.
func inHalf(seed uint64, row int64, half int) bool {
	return int(rng.Mix64(seed^thinLabel^rng.Mix64(uint64(row)))>>63)+1 == half
}

package data

import (
	"errors"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// Kind says how a reader delivers a column.
type Kind int

// The kinds. Infer delivers the type of the file; text formats have no types, so it gives Text there.
const (
	Infer   Kind = iota
	Skip         // not read: the column of the block stays empty, and a text parser does not copy it
	Number       // float64; NaN is missing, and [Column.Unreadable] recognises the NaN of a text
	Text         // bytes; nil is missing
	Integer      // for writers: whole numbers as digits in Column.Text, which keeps more than 53 bits; nil is missing
)

// String names the kind in messages.
func (k Kind) String() string {
	if k < Infer || k > Integer {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return [...]string{"infer", "skip", "number", "text", "integer"}[k]
}

// Column holds the cells of one column of a block: numbers or text, or neither if it was skipped. Exactly one
// of Num and Text is non-nil for a column that was read, even if the block has no rows.
type Column struct {
	Num  []float64 // NaN is missing
	Text [][]byte  // nil is missing
	// Bare marks texts that are numbers or truth values in their file, not strings. It may be shorter than
	// Text; the rest is false. NDJSON output and the choice of number style depend on it.
	Bare []bool
	odd  []oddText // texts of some unreadable numbers, for messages; at most maxOdd of each piece of text
}

// IsBare reports whether text i is a number or a truth value in its file.
func (c *Column) IsBare(i int) bool { return i < len(c.Bare) && c.Bare[i] }

// Block is a number of consecutive rows of a table, column by column. The next Read into a block reuses its
// memory, and texts of the block share one buffer: copy a cell to keep it. The zero value is ready for use.
type Block struct {
	Rows  int
	First int64 // number of its first row, from 0
	Unit  Unit  // the part of the table that the rows belong to; a block never spans two
	Row   int64 // number of its first row in the unit, from 0
	Cols  []Column

	arena []byte // backs the texts
	text  int    // bytes of text in the block, for Full
}

// Reset empties the block and shapes its columns after want, which is one of Skip, Number and Text for every column. It
// keeps their memory.
func (b *Block) Reset(first int64, want []Kind) {
	b.Rows, b.First, b.arena, b.text = 0, first, b.arena[:0], 0
	b.Unit, b.Row = Unit{}, first
	b.Cols = slices.Grow(b.Cols[:0], len(want))[:len(want)]
	for j, k := range want {
		c := &b.Cols[j]
		c.Bare, c.odd = c.Bare[:0], c.odd[:0]
		if k == Number {
			if c.Num == nil {
				c.Num = []float64{} // non-nil, so that an empty column is still a column of numbers
			}
			c.Num, c.Text = c.Num[:0], nil
			continue
		}
		c.Num = nil
		if k != Text {
			c.Text = nil
			continue
		}
		if c.Text == nil {
			c.Text = [][]byte{}
		}
		c.Text = c.Text[:0]
	}
}

// keep copies text into the arena. When the arena is full it starts a new one instead of growing it: earlier
// cells point into the old one, which stays alive through them.
func (b *Block) keep(text []byte) []byte {
	if len(text) == 0 {
		return []byte{} // empty, not missing
	}
	if len(b.arena)+len(text) > cap(b.arena) {
		b.arena = make([]byte, 0, max(2*cap(b.arena), len(text), 1<<12))
	}
	b.text += len(text)
	n := len(b.arena)
	b.arena = append(b.arena, text...)
	// The capacity ends with the cell, so that appending to a cell cannot overwrite the next one.
	return b.arena[n:len(b.arena):len(b.arena)]
}

// AppendText appends a copy of text to column j; nil is missing.
func (b *Block) AppendText(j int, text []byte) {
	if text != nil {
		text = b.keep(text)
	}
	b.Cols[j].Text = append(b.Cols[j].Text, text)
}

// Reserve makes room in an empty block for this many rows and bytes of text. It allocates at most 2¹⁶ numbers: rows is
// the number of line ends, and a file of short lines that turn out not to be rows must not cost 8 bytes per line and
// column.
func (b *Block) Reserve(rows, text int, want []Kind) {
	if cap(b.arena) == 0 && slices.Contains(want, Text) {
		b.arena = make([]byte, 0, text)
	}
	cols := 0
	for j, k := range want {
		if k == Number && cap(b.Cols[j].Num) < rows {
			cols++
		}
	}
	if cols == 0 || rows > 1<<16/cols {
		return
	}
	all := make([]float64, rows*cols)
	for j, k := range want {
		if k == Number && cap(b.Cols[j].Num) < rows {
			b.Cols[j].Num, all = all[:0:rows], all[rows:]
		}
	}
}

// rows returns a view of rows lo to hi−1. Skipped columns stay empty. The view shares the memory of b.
func (b *Block) rows(lo, hi int) Block {
	part := Block{Rows: hi - lo, First: b.First + int64(lo), Unit: b.Unit, Row: b.Row + int64(lo),
		Cols: make([]Column, len(b.Cols))}
	for j := range b.Cols {
		c := &b.Cols[j]
		if len(c.Num) == b.Rows {
			part.Cols[j].Num = c.Num[lo:hi:hi]
			part.Cols[j].takeOdd(c, lo, hi, 0)
		}
		if len(c.Text) == b.Rows {
			part.Cols[j].Text = c.Text[lo:hi:hi]
			part.Cols[j].Bare = c.Bare[min(lo, len(c.Bare)):min(hi, len(c.Bare))]
		}
	}
	return part
}

// Truncate keeps the first n rows. A failed row leaves cells behind in some columns; truncating removes them.
func (b *Block) Truncate(n int) {
	for j := range b.Cols {
		c := &b.Cols[j]
		c.Num, c.Text, c.Bare = c.Num[:min(n, len(c.Num))], c.Text[:min(n, len(c.Text))], c.Bare[:min(n, len(c.Bare))]
		c.odd = slices.DeleteFunc(c.odd, func(o oddText) bool { return o.row >= n })
	}
	b.Rows = n
}

// Take appends rows lo to hi−1 of another block of the same columns, fewer if the text of b is full before, and returns
// how many. Texts are not copied: from must not reuse their memory, so it gets new memory for its next texts.
func (b *Block) Take(from *Block, lo, hi int) int {
	if b.text+from.text >= maxBlockText { // near the bound: find the row that fills the block
		most := hi
		for hi = lo; hi < most && !b.Full(); hi++ {
			for j := range from.Cols {
				if c := &from.Cols[j]; c.Text != nil {
					b.text += len(c.Text[hi])
				}
			}
		}
	} else if lo == 0 {
		b.text += from.text // may count rows that are not taken now, but the bound is far away
	}
	for j := range b.Cols {
		from, source := &from.Cols[j], from
		to := &b.Cols[j]
		switch {
		case from.Num != nil:
			to.takeOdd(from, lo, hi, len(to.Num))
			to.Num = append(to.Num, from.Num[lo:hi]...)
		case from.Text != nil:
			if len(from.Bare) > lo {
				for len(to.Bare) < len(to.Text) {
					to.Bare = append(to.Bare, false)
				}
				to.Bare = append(to.Bare, from.Bare[lo:min(hi, len(from.Bare))]...)
			}
			to.Text = append(to.Text, from.Text[lo:hi]...)
			source.arena = nil
		}
	}
	b.Rows += hi - lo
	return hi - lo
}

// Keep keeps the given rows, which must be in ascending order, and removes all others in place.
func (b *Block) Keep(rows []int) {
	for j := range b.Cols {
		c := &b.Cols[j]
		for at, i := range rows {
			if c.Num != nil {
				c.Num[at] = c.Num[i]
			} else if c.Text != nil {
				c.Text[at] = c.Text[i]
				if len(c.Bare) > at {
					c.Bare[at] = c.IsBare(i)
				}
			}
		}
		if c.Num != nil {
			c.Num = c.Num[:len(rows)]
			kept := c.odd[:0]
			for _, o := range c.odd {
				if at, ok := slices.BinarySearch(rows, o.row); ok {
					kept = append(kept, oddText{at, o.text})
				}
			}
			c.odd = kept
		} else if c.Text != nil {
			c.Text, c.Bare = c.Text[:len(rows)], c.Bare[:min(len(rows), len(c.Bare))]
		}
	}
	b.Rows = len(rows)
}

// AppendBare appends a copy of a text that is a number or a truth value in its file.
func (b *Block) AppendBare(j int, text []byte) {
	b.AppendText(j, text)
	b.Cols[j].setBare()
}

// setBare marks the last text as bare. It pads with false, because Bare may be shorter than Text.
func (c *Column) setBare() {
	for len(c.Bare) < len(c.Text)-1 {
		c.Bare = append(c.Bare, false)
	}
	c.Bare = append(c.Bare, true)
}

// AppendCells appends copies of n texts of another column, starting with text number first.
func (b *Block) AppendCells(j int, c *Column, first, n int) {
	for i := first; i < first+n; i++ {
		b.AppendText(j, c.Text[i])
		if c.IsBare(i) {
			b.Cols[j].setBare()
		}
	}
}

// Full reports whether the text of the block has reached its bound. Readers then stop before the requested
// number of rows.
func (b *Block) Full() bool { return b.text >= maxBlockText }

// maxBlockText bounds the text of one block, however many rows were requested, so that memory stays bounded with
// long texts. Text formats stop after the row that reaches it, Parquet after the batch of rows that does.
const maxBlockText = 32 << 20

// Reader reads the rows of a table in order. It belongs to one goroutine, except for Where.
type Reader interface {
	// Columns returns the names, the same for every reader of a source.
	Columns() []string
	// Read replaces the contents of b by the next rows: at least one, at most max, fewer when their text exceeds 32
	// MiB. It returns io.EOF after the last row. After any other error the reader can only be closed.
	Read(b *Block, max int) error
	// Where names the place of row i of the last block for messages: file.csv:12. Several goroutines may call
	// it at once.
	Where(i int) string
	Close() error
}

// Source is a table that can be read again and again, by several readers at once. A stream is the exception:
// its second Open is an error.
//
// Sources may wrap others; [As] and [UnitsOf] look through a method Unwrap() Source.
type Source interface {
	// Name returns the name in messages: the path that the user gave.
	Name() string
	// Columns returns the names, without reading any rows.
	Columns() []string
	// Open starts at the first row. want has a kind for every column; nil means Infer for all.
	Open(want []Kind) (Reader, error)
}

// As returns src, or the first source below it that a method Unwrap() Source leads to, as an I. Sources answer
// questions that not every format can by optional methods:
//
//	Integer(j int) bool     // column j has an integer type: read as Text it keeps all digits, as Number it may round
//	Encoding() string       // encoding that the text was read with, "" for UTF-8; final once all rows have been read
//	TextEncoding() string   // the same including UTF-8; "" if all is ASCII so far
//	Files() []string        // the names of the files of a table, in order
//	Notes() []string        // sentences for the user about how the source is read
func As[I any](src Source) (as I, ok bool) {
	for {
		if as, ok = src.(I); ok {
			return as, true
		}
		w, ok := src.(interface{ Unwrap() Source })
		if !ok {
			return as, false
		}
		src = w.Unwrap()
	}
}

// ErrInput marks every error about the contents of a table. Use errors.As with *[InputError] to get the place.
var ErrInput = errors.New("unusable data")

// Errors that an option avoids. A program can name its own option in the message. The comments name the option
// here.
var (
	ErrMissingTarget = fmt.Errorf("no target: %w", dense.ErrNotFinite) // [DropMissing]
	ErrNested        = errors.New("nested values")                     // [LearnOptions].Skip
	ErrEncoding      = errors.New("unknown encoding")                  // [Options].Encoding
	ErrUnreadable    = errors.New("not a number or a date")            // [LearnOptions].Strict, [Encoder.Readable]
)

const missingTarget = "target %s is missing: remove the row, or have such rows left out"

// InputError describes an error of a table and its place.
type InputError struct {
	Place  string // file, file:line or file:line:byte, from 1; "file: row" in formats without lines
	Column string // the column or target that the error is about; empty: none
	Detail string
	Err    error // a more specific sentinel, or nil
}

// Error returns the place and the detail.
func (e *InputError) Error() string { return e.Place + ": " + e.Detail }

// Is makes errors.Is(err, ErrInput) true.
func (e *InputError) Is(target error) bool { return target == ErrInput }

// Unwrap returns the more specific sentinel.
func (e *InputError) Unwrap() error { return e.Err }

func inputError(place, format string, args ...any) error {
	return &InputError{Place: place, Detail: fmt.Sprintf(format, args...)}
}

// columnError is an error about a cell of a column.
func columnError(place, column string, err error, format string, args ...any) error {
	return &InputError{Place: place, Column: column, Detail: fmt.Sprintf(format, args...), Err: err}
}

// CheckKinds resolves the kinds that a reader of n columns was opened with: nil means Infer for all, and Infer
// becomes natural(j). Integer is for writers and an error here.
func CheckKinds(want []Kind, n int, natural func(j int) Kind) ([]Kind, error) {
	if want != nil && len(want) != n {
		return nil, fmt.Errorf("%d kinds for %d columns", len(want), n)
	}
	out := make([]Kind, n)
	for j := range out {
		if want != nil {
			out[j] = want[j]
		}
		switch {
		case out[j] == Infer:
			out[j] = natural(j)
		case out[j] < Infer || out[j] > Text:
			return nil, fmt.Errorf("column %d: unknown kind %d", j+1, int(out[j]))
		}
	}
	return out, nil
}

// Check reports an error unless b has a complete column for each kind, Number, Integer or Text.
func (b *Block) Check(kinds []Kind) error {
	if len(b.Cols) != len(kinds) {
		return fmt.Errorf("a block of %d columns for a table of %d: %w", len(b.Cols), len(kinds), dense.ErrShape)
	}
	for j, k := range kinds {
		n := len(b.Cols[j].Num)
		if k != Number {
			n = len(b.Cols[j].Text)
		}
		if n != b.Rows {
			return fmt.Errorf("column %d of the block has %d cells of kind %v, want %d: %w", j+1, n, k, b.Rows,
				dense.ErrShape)
		}
	}
	return nil
}

package machine

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/randfeat/randfeat/data"
)

// sketchRows bounds the number of hashes of a sketch: 8 KiB.
const sketchRows = 1024

// RowSketch records which rows a model was fitted to, in bounded memory: the smallest hashes of distinct rows. It knows
// all rows of a table with at most 1024 distinct rows. For a larger table it knows the rows with the smallest hashes, a
// random subset. Sketches merge and depend only on the set of rows, not on their order. The zero value is ready.
type RowSketch struct {
	rows   int64
	hashes []uint64 // ascending, at most sketchRows
}

// Len is the number of rows added.
func (s *RowSketch) Len() int64 { return s.rows }

// Add adds a row by its hash.
func (s *RowSketch) Add(hash uint64) {
	s.rows++
	s.keep(hash)
}

// keep inserts a hash, dropping the largest if the sketch is full.
func (s *RowSketch) keep(hash uint64) {
	if s.full() && hash >= s.hashes[sketchRows-1] {
		return
	}
	at, found := slices.BinarySearch(s.hashes, hash)
	if found {
		return
	}
	if s.full() {
		s.hashes = s.hashes[:sketchRows-1]
	}
	s.hashes = slices.Insert(s.hashes, at, hash)
}

func (s *RowSketch) full() bool { return len(s.hashes) == sketchRows }

// Merge adds the rows of o.
func (s *RowSketch) Merge(o *RowSketch) {
	s.rows += o.rows
	for _, h := range o.hashes {
		s.keep(h)
	}
}

// Seen reports whether a row with this hash was added, and whether the sketch can tell: a full sketch knows only the
// hashes up to its largest.
func (s *RowSketch) Seen(hash uint64) (seen, known bool) {
	_, seen = slices.BinarySearch(s.hashes, hash)
	return seen, !s.full() || hash <= s.hashes[sketchRows-1]
}

// MarshalText returns base64 of the number of rows and the hashes, 8 bytes each, little endian.
func (s *RowSketch) MarshalText() ([]byte, error) {
	b := binary.LittleEndian.AppendUint64(nil, uint64(s.rows))
	for _, h := range s.hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText reads the output of MarshalText; anything else is ErrCorrupt.
func (s *RowSketch) UnmarshalText(text []byte) error {
	most := 8 * (sketchRows + 1)
	if base64.StdEncoding.DecodedLen(len(text)) > most+3 {
		return fmt.Errorf("sketch of rows of %d characters: %w", len(text), ErrCorrupt)
	}
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(b)%8 != 0 || len(b) < 8 || len(b) > most {
		return fmt.Errorf("sketch of rows of %d bytes: %w", len(b), ErrCorrupt)
	}
	read := RowSketch{rows: int64(binary.LittleEndian.Uint64(b))}
	for b = b[8:]; len(b) > 0; b = b[8:] {
		h := binary.LittleEndian.Uint64(b)
		if n := len(read.hashes); n > 0 && h <= read.hashes[n-1] {
			return fmt.Errorf("sketch of rows: hashes that do not ascend: %w", ErrCorrupt)
		}
		read.hashes = append(read.hashes, h)
	}
	if read.rows < int64(len(read.hashes)) {
		return fmt.Errorf("sketch of %d rows with %d hashes: %w", read.rows, len(read.hashes), ErrCorrupt)
	}
	*s = read
	return nil
}

// rowHasher hashes the cells of the columns that a schema reads, targets included. It hashes parsed values together
// with the name of their column, so the order of columns and the spelling of numbers do not matter.
type rowHasher struct {
	at    []int    // columns of the table
	names []uint64 // hashes of their names
	sums  []uint64 // one per row of the block
}

func newRowHasher(s *data.Schema, columns []string) *rowHasher {
	h := new(rowHasher)
	add := func(name string) {
		if j := slices.Index(columns, name); j >= 0 {
			h.at, h.names = append(h.at, j), append(h.names, hashText([]byte(name)))
		}
	}
	for i := range s.Fields {
		add(s.Fields[i].Name)
	}
	for i := range s.Targets {
		add(s.Targets[i].Name)
	}
	return h
}

// hash returns the hash of every row of a block; it is valid until the next call.
func (h *rowHasher) hash(b *data.Block) []uint64 {
	h.sums = slices.Grow(h.sums[:0], b.Rows)[:b.Rows]
	clear(h.sums)
	for k, j := range h.at {
		c, name := &b.Cols[j], h.names[k]
		for i := range h.sums {
			cell := uint64(0) // missing
			switch {
			case c.Num != nil && !math.IsNaN(c.Num[i]):
				cell = mixed(math.Float64bits(c.Num[i]+0) + 1) // −0 + 0 is 0
			case c.Text != nil && c.Text[i] != nil:
				cell = mixed(hashText(c.Text[i]) + 2)
			}
			h.sums[i] += mixed(name ^ cell) // a sum does not depend on the order of columns
		}
	}
	for i, v := range h.sums {
		h.sums[i] = mixed(v)
	}
	return h.sums
}

// hashText is the 64-bit FNV-1a hash.
func hashText(b []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}

// mixed is the finaliser of SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators").
func mixed(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// SketchTable returns the sketch of the rows of a table, as a schema reads them. It reads the table once. seen is
// called with the number of rows so far; its error ends the reading.
func SketchTable(src data.Source, s *data.Schema, seen func(rows int64) error) (_ *RowSketch, err error) {
	made, err := tableRowsOf(src, s, len(s.Targets) > 0, false, nil)
	if err != nil {
		return nil, err
	}
	r := made.(*tableRows)
	rd, err := src.Open(r.kinds)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := rd.Close(); err == nil {
			err = closing
		}
	}()
	hasher, out := newRowHasher(s, src.Columns()), new(RowSketch)
	var cells data.Block
	for {
		err := rd.Read(&cells, max(1, readCells/len(r.kinds)))
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for _, h := range hasher.hash(&cells) {
			out.Add(h)
		}
		if err := seen(out.rows); err != nil {
			return nil, err
		}
	}
}

// SeenRows counts rows that a model was fitted to.
type SeenRows struct {
	Compared int64 `json:"compared"` // rows that the sketch of the model knows about
	Seen     int64 `json:"seen"`     // rows of the fit among them
}

// Share is the estimated share of rows that the model was fitted to; 0 if nothing is known.
func (s SeenRows) Share() float64 {
	if s.Compared == 0 {
		return 0
	}
	return float64(s.Seen) / float64(s.Compared)
}

// CountSeen counts in s, while rows are read, how many of them the model was fitted to. rows must come from [TableRows]
// or [ModelRows] with the schema of m. For other rows, and for a model without a sketch, it counts nothing.
func (m *Model) CountSeen(rows Rows, s *SeenRows) {
	r, ok := rows.(*tableRows)
	if !ok || m.Sketch == nil || m.Schema == nil {
		return
	}
	hasher := newRowHasher(m.Schema, r.src.Columns())
	r.cells = func(b *data.Block) {
		for _, h := range hasher.hash(b) {
			if seen, known := m.Sketch.Seen(h); known {
				s.Compared++
				if seen {
					s.Seen++
				}
			}
		}
	}
}

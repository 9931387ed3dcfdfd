package parts

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/machine"
)

// rowKey is a random order of the rows of a table: a hash of the seed, the unit and the row's number in its unit, with
// ties broken by position. It depends on nothing else, so the rows with the smallest keys are the same however the
// table is divided among workers.
type rowKey struct {
	Hash  uint64 `json:"hash"`
	Shard int    `json:"shard"`
	Block int    `json:"block"`
	Row   int64  `json:"row"`
}

func (k rowKey) compare(o rowKey) int {
	return cmp.Or(cmp.Compare(k.Hash, o.Hash), cmp.Compare(k.Shard, o.Shard), cmp.Compare(k.Block, o.Block),
		cmp.Compare(k.Row, o.Row))
}

// sampleLabel separates the hashes of samples from other uses of the seed: the ASCII of "parts".
const sampleLabel = 0x7061727473

// keys computes the keys of the rows of one unit.
type keys struct {
	unit data.Unit
	hash uint64
}

func keysOf(seed uint64, u data.Unit) keys {
	h := rng.Mix64(seed ^ sampleLabel ^ rng.Mix64(uint64(u.Shard)))
	return keys{u, rng.Mix64(h ^ rng.Mix64(uint64(u.Block)))}
}

func (k keys) of(row int64) rowKey {
	return rowKey{rng.Mix64(k.hash ^ rng.Mix64(uint64(row))), k.unit.Shard, k.unit.Block, row}
}

// rowSample holds the rows with the smallest keys among those added, as unparsed cells, because the schema is not known
// yet. It is a simple random sample. The union of the samples of parts contains the sample of the table. Merge is
// therefore exact in any order, and equal samples have equal bytes.
type rowSample struct {
	columns []string
	seed    uint64
	most    int
	rows    byKey // a heap with the largest key on top, which is replaced first
	bytes   int   // size of all cells, to bound memory
}

// sampled is a row of a sample.
type sampled struct {
	key   rowKey
	cells []byte // column by column: a tag, then a number or the length of a text and the text
}

// byKey implements heap.Interface with the largest key on top.
type byKey []sampled

func (h byKey) Len() int           { return len(h) }
func (h byKey) Less(i, j int) bool { return h[i].key.compare(h[j].key) > 0 }
func (h byKey) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byKey) Push(v any)        { *h = append(*h, v.(sampled)) }
func (h *byKey) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}

const (
	cellMissing = iota // missing, or the column was not read
	cellNumber
	cellText
	cellBare // text that was a bare number or truth value in its file, not a quoted string
)

// maxSampleBytes bounds the cells of a sample.
const maxSampleBytes = 512 << 20

// newRowSample returns an empty sample of a table with these columns, for at most most rows.
func newRowSample(columns []string, seed uint64, most int) *rowSample {
	return &rowSample{columns: columns, seed: seed, most: most}
}

// Len is the number of rows in the sample.
func (s *rowSample) Len() int { return len(s.rows) }

// Add offers the rows of a block of a unit. first is the number of the block's first row in the unit.
func (s *rowSample) Add(u data.Unit, first int64, b *data.Block) error {
	k := keysOf(s.seed, u)
	for i := range b.Rows {
		key := k.of(first + int64(i))
		if len(s.rows) == s.most && key.compare(s.rows[0].key) >= 0 {
			continue
		}
		if err := s.keep(sampled{key, cellsOf(b, i)}); err != nil {
			return err
		}
	}
	return nil
}

// keep inserts a row if its key is among the smallest, and bounds the memory of the sample.
func (s *rowSample) keep(r sampled) error {
	s.bytes += len(r.cells)
	if len(s.rows) < s.most {
		heap.Push(&s.rows, r)
	} else if len(s.rows) > 0 && r.key.compare(s.rows[0].key) < 0 {
		s.bytes -= len(s.rows[0].cells)
		s.rows[0] = r
		heap.Fix(&s.rows, 0)
	} else {
		s.bytes -= len(r.cells)
	}
	if s.bytes > maxSampleBytes {
		return fmt.Errorf("a sample of %d rows has more than %d MiB of text: skip columns of long texts, or ask for a "+
			"smaller sample: %w", s.most, maxSampleBytes>>20, machine.ErrSetup)
	}
	return nil
}

// cellsOf encodes the cells of row i.
func cellsOf(b *data.Block, i int) []byte {
	var out []byte
	for j := range b.Cols {
		c := &b.Cols[j]
		switch {
		case i < len(c.Num) && !math.IsNaN(c.Num[i]):
			out = binary.LittleEndian.AppendUint64(append(out, cellNumber), math.Float64bits(c.Num[i]))
		case i < len(c.Text) && c.Text[i] != nil:
			tag := byte(cellText)
			if c.IsBare(i) {
				tag = cellBare
			}
			out = append(binary.AppendUvarint(append(out, tag), uint64(len(c.Text[i]))), c.Text[i]...)
		default:
			out = append(out, cellMissing)
		}
	}
	return out
}

// Merge makes s the sample of its rows and those of o. The two must have no row in common.
func (s *rowSample) Merge(o *rowSample) error {
	if s.seed != o.seed || s.most != o.most || !slices.Equal(s.columns, o.columns) {
		return fmt.Errorf("samples of other columns, seeds or sizes: %w", machine.ErrMismatch)
	}
	for _, r := range o.rows {
		if err := s.keep(r); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns the rows in ascending order of keys.
func (s *rowSample) sorted() []sampled {
	out := slices.Clone(s.rows)
	slices.SortStableFunc(out, func(a, b sampled) int { return a.key.compare(b.key) })
	return out
}

// AppendBinary appends the number of rows, then shard, block, row and length of the cells of each row as varints, and
// the cells. Columns, seed and size are not included.
func (s *rowSample) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(s.rows)))
	for _, r := range s.sorted() {
		for _, v := range []uint64{uint64(r.key.Shard), uint64(r.key.Block), uint64(r.key.Row), uint64(len(r.cells))} {
			b = binary.AppendUvarint(b, v)
		}
		b = append(b, r.cells...)
	}
	return b, nil
}

// UnmarshalBinary reads the output of AppendBinary into an empty sample. Its memory is bounded by the bytes of b.
func (s *rowSample) UnmarshalBinary(b []byte) error {
	bad := fmt.Errorf("rows of a sample that are not as they are written: %w", machine.ErrCorrupt)
	next := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > math.MaxInt64/2 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	n, ok := next()
	if !ok || n > uint64(s.most) || n > uint64(len(b)) {
		return bad
	}
	rows, size := make(byKey, 0, n), 0
	for range n {
		var v [4]uint64
		for i := range v {
			if v[i], ok = next(); !ok {
				return bad
			}
		}
		if v[3] > uint64(len(b)) || v[0] > math.MaxInt32 || v[1] > math.MaxInt32 {
			return bad
		}
		cells := slices.Clone(b[:v[3]])
		b = b[v[3]:]
		key := keysOf(s.seed, data.Unit{Shard: int(v[0]), Block: int(v[1])}).of(int64(v[2]))
		if k := len(rows); k > 0 && rows[k-1].key.compare(key) >= 0 || !s.valid(cells) {
			return bad
		}
		rows, size = append(rows, sampled{key, cells}), size+len(cells)
	}
	if len(b) > 0 || size > maxSampleBytes {
		return bad
	}
	slices.Reverse(rows) // largest first satisfies the heap invariant
	s.rows, s.bytes = rows, size
	return nil
}

// valid reports whether cells has exactly one well-formed cell per column.
func (s *rowSample) valid(cells []byte) bool {
	for range s.columns {
		if _, _, rest, ok := cell(cells); ok {
			cells = rest
		} else {
			return false
		}
	}
	return len(cells) == 0
}

// cell splits off the first cell of b.
func cell(b []byte) (tag byte, value, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, nil, false
	}
	tag, b = b[0], b[1:]
	switch tag {
	case cellMissing:
		return tag, nil, b, true
	case cellNumber:
		if len(b) < 8 {
			return 0, nil, nil, false
		}
		return tag, b[:8], b[8:], true
	case cellText, cellBare:
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return 0, nil, nil, false
		}
		b = b[used:]
		return tag, b[:n], b[n:], true
	}
	return 0, nil, nil, false
}

// part returns the sample of rows lo to hi−1 in the order of keys.
func (s *rowSample) part(lo, hi int) *rowSample {
	out := newRowSample(s.columns, s.seed, hi-lo)
	out.rows = slices.Clone(s.sorted()[lo:hi])
	slices.Reverse(out.rows)
	for _, r := range out.rows {
		out.bytes += len(r.cells)
	}
	return out
}

// Source returns the rows as a table, in the order of their keys; name is for messages.
func (s *rowSample) Source(name string) data.Source { return sampleSource{name, s.columns, s.sorted()} }

// sampleSource is a sample as a data.Source.
type sampleSource struct {
	name    string
	columns []string
	rows    []sampled
}

func (s sampleSource) Name() string      { return s.name }
func (s sampleSource) Columns() []string { return s.columns }

func (s sampleSource) Open(want []data.Kind) (data.Reader, error) {
	kinds, err := data.CheckKinds(want, len(s.columns), func(int) data.Kind { return data.Text })
	return &sampleReader{s: s, kinds: kinds}, err
}

type sampleReader struct {
	s     sampleSource
	kinds []data.Kind
	at    int // rows read
	first int // first row of the last block
}

func (r *sampleReader) Columns() []string { return r.s.columns }
func (r *sampleReader) Close() error      { return nil }
func (r *sampleReader) Where(i int) string {
	k := r.s.rows[r.first+i].key
	return fmt.Sprintf("%s: row %d of block %d of file %d", r.s.name, k.Row+1, k.Block+1, k.Shard+1)
}

func (r *sampleReader) Read(b *data.Block, most int) error {
	if r.at == len(r.s.rows) {
		return io.EOF
	}
	r.first = r.at
	b.Reset(int64(r.at), r.kinds)
	for r.at < len(r.s.rows) && b.Rows < most && !b.Full() {
		cells := r.s.rows[r.at].cells
		for j, kind := range r.kinds {
			tag, value, rest, ok := cell(cells)
			if !ok {
				return fmt.Errorf("%s: %w", r.s.name, machine.ErrCorrupt)
			}
			cells = rest
			if err := r.append(b, j, kind, tag, value); err != nil {
				return err
			}
		}
		b.Rows++
		r.at++
	}
	return nil
}

// append adds a cell as the kind that is wanted now, which may differ from the kind it was read as: Learn reads before
// the kinds are known.
func (r *sampleReader) append(b *data.Block, j int, kind data.Kind, tag byte, value []byte) error {
	number := math.NaN()
	if tag == cellNumber {
		number = math.Float64frombits(binary.LittleEndian.Uint64(value))
	}
	switch {
	case kind == data.Skip:
	case kind == data.Number:
		if tag == cellText || tag == cellBare {
			b.Cols[j].AppendNumber(value)
			break
		}
		b.Cols[j].Num = append(b.Cols[j].Num, number)
	case tag == cellNumber:
		b.AppendBare(j, strconv.AppendFloat(nil, number, 'f', -1, 64))
	case tag == cellBare:
		b.AppendBare(j, value)
	case tag == cellText:
		if value == nil {
			value = []byte{}
		}
		b.AppendText(j, value)
	default:
		b.AppendText(j, nil)
	}
	return nil
}

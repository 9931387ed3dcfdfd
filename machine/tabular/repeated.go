package tabular

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/rng"
)

// A row of weight 2 must give the same fit as the row twice, and a row of weight 0 the same as a table without it. Sums
// obey this by themselves. Choices do not: folds are dealt by row numbers, and standard errors depend on the number of
// rows. So a table is brought into one form, however it expresses repetitions:
//
//   - Rows of weight 0 are left out. If all others have weight 1, the weights are dropped.
//   - In a table of at most repeatedRows rows, identical rows become one row with the sum of their weights, if rows
//     have weights or at least one row in repeatedPart is a repetition, and if some column distinguishes most distinct
//     rows, so that rows hardly ever agree by chance. Then no row is on both sides of a fold. Rows are ordered by a
//     hash of their contents.
//   - Fewer than minDistinct distinct rows are too few for folds: they are repeated as often as their weights say, in
//     the same order.
const (
	repeatedRows = 2048
	repeatedPart = 5
	minDistinct  = 10
)

// settleRows brings the table of a job into this form. m may be nil.
func settleRows(j *job, m *data.Marks, log *journal) (*data.Marks, error) {
	m, err := dropWeightless(j, m)
	if err != nil {
		return nil, err
	}
	if m != nil && len(m.Weight) > repeatedRows {
		return m, nil
	}
	t, err := readTally(j, m)
	if err != nil || t == nil {
		return m, err
	}
	rows, weights := t.settled()
	if rows == nil {
		return m, nil
	}
	j.src = pickedSource{j.src, rows}
	if m == nil {
		m = new(data.Marks)
	}
	m = m.Keep(rows)
	m.Weight = weights
	if len(rows) < t.rows {
		log.note("%d of %d rows are repetitions of others: each is taken once, with a weight", t.rows-len(rows), t.rows)
	}
	if m.Weight == nil && m.Group == nil && m.Time == nil {
		m = nil
	}
	return m, nil
}

// dropWeightless leaves out rows of weight 0.
func dropWeightless(j *job, m *data.Marks) (*data.Marks, error) {
	if m == nil || m.Weight == nil {
		return m, nil
	}
	if slices.Contains(m.Weight, 0) {
		var rows []int64
		for i, w := range m.Weight {
			if w > 0 {
				rows = append(rows, int64(i))
			}
		}
		j.src = keptSource{j.src, rows}
		m = m.Keep(rows)
	}
	if slices.ContainsFunc(m.Weight, func(w float64) bool { return w != 1 }) {
		return m, nil
	}
	m.Weight = nil
	if m.Group == nil && m.Time == nil {
		return nil, nil
	}
	return m, nil
}

// tally holds the distinct rows of a small table.
type tally struct {
	distinct []*tallied
	rows     int
	columns  []map[string]bool // distinct cells of every column that counts
	total    float64           // Σ weights
	weighted bool
	whole    bool // all weights are whole numbers
}

// tallied is a distinct row and how often it occurs.
type tallied struct {
	key    []byte
	order  uint64
	row    int64 // number of its first occurrence
	weight float64
}

// readTally reads the rows of a table. It returns nil if there are too many.
func readTally(j *job, m *data.Marks) (*tally, error) {
	skip := skipped(&j.o)
	want := make([]data.Kind, len(j.src.Columns()))
	for k, name := range j.src.Columns() {
		if slices.Contains(skip, name) {
			want[k] = data.Skip
		}
	}
	r, err := watchedSource{Source: j.src, ctx: j.ctx, report: func(int64) {}}.Open(want)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	t := &tally{columns: make([]map[string]bool, len(want)), whole: true, weighted: m != nil && m.Weight != nil}
	for j := range t.columns {
		t.columns[j] = map[string]bool{}
	}
	known := map[string]*tallied{}
	var b data.Block
	var cell, key []byte
	for {
		if err := r.Read(&b, 1024); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if t.rows+b.Rows > repeatedRows {
			return nil, nil
		}
		for i := range b.Rows {
			key = key[:0]
			for j := range b.Cols {
				if want[j] == data.Skip {
					continue
				}
				cell = appendCell(cell[:0], &b.Cols[j], i)
				key = append(binary.AppendUvarint(key, uint64(len(cell))), cell...)
				if !t.columns[j][string(cell)] {
					t.columns[j][string(cell)] = true
				}
			}
			w := 1.0
			if t.weighted {
				w = m.Weight[t.rows]
			}
			t.total += w
			t.whole = t.whole && w == math.Trunc(w)
			d := known[string(key)]
			if d == nil {
				d = &tallied{key: bytes.Clone(key), row: int64(t.rows)}
				d.order = contentHash(j.o.Seed, key)
				known[string(key)] = d
				t.distinct = append(t.distinct, d)
			}
			d.weight += w
			t.rows++
		}
	}
	return t, nil
}

// skipped returns the columns in which repetitions of a row may differ.
func skipped(o *Options) []string {
	l := o.LearnOptions()
	skip := slices.Concat(l.IDs, l.Skip)
	return slices.DeleteFunc(skip, func(name string) bool { return name == o.Marks.Group || name == o.Marks.Time })
}

// appendCell appends a cell of a block, preceded by its kind.
func appendCell(b []byte, c *data.Column, i int) []byte {
	switch {
	case i < len(c.Num):
		return binary.LittleEndian.AppendUint64(append(b, 'n'), math.Float64bits(c.Num[i]))
	case c.Text[i] == nil:
		return append(b, '0')
	}
	return append(append(b, 't'), c.Text[i]...)
}

// contentHash returns the hash by which rows are ordered.
func contentHash(seed uint64, key []byte) uint64 {
	h := rng.Mix64(seed ^ foldLabel)
	for len(key) > 0 {
		var word [8]byte
		n := copy(word[:], key)
		h = rng.Mix64(h ^ binary.LittleEndian.Uint64(word[:]) + rng.Golden64)
		key = key[n:]
	}
	return h
}

// settled returns the rows to use, in order, and their weights. If rows is nil, the table is used as it is.
func (t *tally) settled() (rows []int64, weights []float64) {
	most := 0
	for _, c := range t.columns {
		most = max(most, len(c))
	}
	n := len(t.distinct)
	few := n < minDistinct && t.whole && t.total <= repeatedRows
	repeated := t.weighted || t.rows*(repeatedPart-1) >= n*repeatedPart
	if t.rows == n && !t.weighted || !few && (n < minDistinct || !repeated || 2*most < n) {
		return nil, nil
	}
	slices.SortFunc(t.distinct, func(a, b *tallied) int {
		return cmp.Or(cmp.Compare(a.order, b.order), bytes.Compare(a.key, b.key))
	})
	for _, d := range t.distinct {
		if !few {
			rows, weights = append(rows, d.row), append(weights, d.weight)
			continue
		}
		for range int(d.weight) {
			rows = append(rows, d.row)
		}
	}
	return rows, weights
}

// keptSource is some rows of a table, in their order.
type keptSource struct {
	data.Source
	rows []int64
}

// Unwrap returns the table.
func (s keptSource) Unwrap() data.Source { return s.Source }

func (s keptSource) Open(want []data.Kind) (data.Reader, error) {
	r, err := s.Source.Open(want)
	if err != nil {
		return nil, err
	}
	return &someReader{Reader: r, has: func(row int64) bool {
		_, ok := slices.BinarySearch(s.rows, row)
		return ok
	}}, nil
}

// pickedSource is rows of a small table in any order, some possibly repeated.
type pickedSource struct {
	data.Source
	rows []int64
}

// Unwrap returns the table.
func (s pickedSource) Unwrap() data.Source { return s.Source }

// Units returns a single unit, since rows of all units are mixed.
func (s pickedSource) Units() []data.Unit { return make([]data.Unit, 1) }

func (s pickedSource) Open(want []data.Kind) (data.Reader, error) {
	r, err := s.Source.Open(want)
	if err != nil {
		return nil, err
	}
	return &pickedReader{Reader: r, rows: s.rows}, nil
}

// pickedReader holds the whole table in memory and reads from it.
type pickedReader struct {
	data.Reader
	rows   []int64
	blocks []*data.Block // nil: not read yet
	ends   []int64       // number of the row after each block
	places []string
	at     int // index in rows of the next row
	last   int // index in rows of the first row of the last block
}

func (r *pickedReader) Where(i int) string { return r.places[r.rows[r.last+i]] }

func (r *pickedReader) Read(b *data.Block, most int) error {
	if r.blocks == nil {
		if err := r.hold(); err != nil {
			return err
		}
	}
	if r.at == len(r.rows) {
		return io.EOF
	}
	kinds := make([]data.Kind, len(r.Columns()))
	for j := range kinds {
		kinds[j] = data.Skip
		for _, held := range r.blocks {
			if c := &held.Cols[j]; c.Num != nil {
				kinds[j] = data.Number
			} else if c.Text != nil {
				kinds[j] = data.Text
			}
		}
	}
	b.Reset(int64(r.at), kinds)
	for r.last = r.at; r.at < len(r.rows) && b.Rows < most && !b.Full(); r.at++ {
		k := slices.IndexFunc(r.ends, func(end int64) bool { return r.rows[r.at] < end })
		from := r.blocks[k]
		i := int(r.rows[r.at] - from.First)
		for j := range b.Cols {
			switch kinds[j] {
			case data.Number:
				b.Cols[j].AppendFrom(&from.Cols[j], i)
			case data.Text:
				b.AppendCells(j, &from.Cols[j], i, 1)
			}
		}
		b.Rows++
	}
	return nil
}

// hold reads the table into memory.
func (r *pickedReader) hold() error {
	rows := int64(0)
	for {
		b := new(data.Block)
		if err := r.Reader.Read(b, repeatedRows); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for i := range b.Rows {
			r.places = append(r.places, r.Reader.Where(i))
		}
		b.First = rows
		rows += int64(b.Rows)
		r.blocks, r.ends = append(r.blocks, b), append(r.ends, rows)
	}
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

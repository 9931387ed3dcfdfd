package parquet

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/par"
)

// source is a Parquet file, or a block of it: consecutive row groups.
type source struct {
	path    string
	open    opener
	columns []column
	names   []string
	all     int64   // rows of the file
	rows    int64   // rows of the blocks
	before  int64   // rows of the file before the blocks
	group   int     // index of the first row group
	blocks  []block // the blocks to read
	missing *data.MissingTexts
}

// block is a run of consecutive row groups.
type block struct {
	groups int
	rows   int64
}

// Open prepares a Parquet file for reading: it reads the footer only. Of the options, only MaxColumns, UnitBytes
// and Missing matter; nulls are missing, too. Errors about the contents are data.ErrInput.
func Open(path string, o data.Options) (data.Source, error) {
	return newSource(path, openPath(path), o)
}

// OpenFile is Open for a file that is not in the file system. It is opened once to read its footer, and again for every
// reader; name is used in messages.
func OpenFile(name string, size int64, file func() (data.File, error), o data.Options) (data.Source, error) {
	return newSource(name, func() (io.ReaderAt, int64, io.Closer, error) {
		f, err := file()
		return f, size, f, err
	}, o)
}

func newSource(path string, open opener, o data.Options) (src data.Source, err error) {
	defer guard(path, &err)
	f, err := openFile(path, open)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit := cmp.Or(o.MaxColumns, 1<<16)
	s := &source{path: path, open: open, all: f.rows, rows: f.rows, columns: f.columns, blocks: f.blocks(o.UnitBytes),
		missing: data.NewMissingTexts(o.Missing)}
	seen := map[string]bool{}
	for _, c := range f.columns {
		if seen[c.name] {
			return nil, bad(path, "two columns are named %q", c.name)
		}
		seen[c.name] = true
		s.names = append(s.names, c.name)
	}
	if n := len(s.columns); n == 0 || n > limit {
		return nil, bad(path, "%d columns, want 1 to %d", n, limit)
	}
	return s, nil
}

func (s *source) Name() string      { return s.path }
func (s *source) Columns() []string { return s.names }

// Blocks is the number of blocks.
func (s *source) Blocks() int { return len(s.blocks) }

// Block returns a source of block i.
func (s *source) Block(i int) (data.Source, error) {
	if i < 0 || i >= len(s.blocks) {
		return nil, fmt.Errorf("%s has %d blocks, there is no number %d", s.path, len(s.blocks), i)
	}
	out := *s
	for _, b := range s.blocks[:i] {
		out.before += b.rows
		out.group += b.groups
	}
	out.blocks, out.rows = s.blocks[i:i+1], s.blocks[i].rows
	return &out, nil
}

// blocks combines row groups until they have the given number of bytes in the file. It depends only on the
// footer, so every machine finds the same blocks.
func (f *file) blocks(size int64) []block {
	if size <= 0 {
		size = data.DefaultUnitBytes
	}
	var out []block
	var now block
	bytes := int64(0)
	for i := range f.meta.RowGroups {
		g := &f.meta.RowGroups[i]
		for j := range g.Columns {
			// Clipped, because a damaged file may claim anything.
			bytes += min(max(0, g.Columns[j].MetaData.TotalCompressedSize), f.size)
		}
		now.groups++
		if now.rows += g.NumRows; bytes >= size {
			out, now, bytes = append(out, now), block{}, 0
		}
	}
	if now.groups > 0 || len(out) == 0 {
		out = append(out, now)
	}
	return out
}

// NoRows reports that there are columns only.
func (s *source) NoRows() bool { return s.rows == 0 }

// Natural is the kind of column j in the file.
func (s *source) Natural(j int) data.Kind { return s.columns[j].natural() }

// Integer reports whether column j holds integers that fit into int64.
func (s *source) Integer(j int) bool {
	c := &s.columns[j]
	return !c.decimal && c.unit == 0 && (c.kind == format.Int32 || c.kind == format.Int64 && !c.uint)
}

// unreadable reports the wanted columns that cannot be read: all that share the reason of the first one.
func (s *source) unreadable(kinds []data.Kind) error {
	var names []string
	why := ""
	for j, k := range kinds {
		c := &s.columns[j]
		if k == data.Skip || c.why == "" || why != "" && c.why != why {
			continue
		}
		if why = c.why; len(names) == 8 {
			names[7] += ", …"
			break
		}
		names = append(names, fmt.Sprintf("%q", s.names[j]))
	}
	if why == "" {
		return nil
	}
	e := &data.InputError{Place: s.path, Err: data.ErrNested,
		Detail: fmt.Sprintf("column %s is %s: leave it out", names[0], why)}
	if len(names) > 1 {
		e.Detail = fmt.Sprintf("columns %s are %s: leave them out", strings.Join(names, ", "), why)
	}
	return e
}

func (s *source) Open(want []data.Kind) (rd data.Reader, err error) {
	defer guard(s.path, &err)
	kinds, err := data.CheckKinds(want, len(s.columns), func(j int) data.Kind { return s.columns[j].natural() })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	if err := s.unreadable(kinds); err != nil {
		return nil, err
	}
	f, err := openFile(s.path, s.open)
	if err != nil {
		return nil, err
	}
	groups := s.group
	for _, b := range s.blocks {
		groups += b.groups
	}
	// The source may be opened much later, on another machine.
	if f.rows != s.all || groups > len(f.meta.RowGroups) || !slices.Equal(f.columns, s.columns) {
		f.Close()
		return nil, bad(s.path, "the file changed since it was opened")
	}
	f.meta.RowGroups = f.meta.RowGroups[s.group:groups]
	r := &reader{s: s, f: f, want: kinds, cursors: make([]cursor, len(kinds)), errs: make([]error, len(kinds)),
		text: []byte{}}
	r.budget.Store(maxHeldBytes + maxHeldRatio*f.size)
	for j, k := range kinds {
		r.cursors[j].budget.shared = &r.budget
		if k == data.Number {
			r.numbers = append(r.numbers, j)
		}
	}
	return r, nil
}

// reader reads columns independently: each has a cursor with at most one page and one dictionary in memory.
// Text columns are read in turn, number columns by several goroutines.
type reader struct {
	s       *source
	f       *file
	want    []data.Kind
	cursors []cursor
	row     int64 // first row of the next block
	first   int64 // first row of the last block
	unit    int   // unit of the next block
	inUnit  int64 // rows of that unit already read
	numbers []int // columns read as numbers
	errs    []error
	budget  atomic.Int64 // bytes that all columns may still take
	text    []byte
	scratch scratch   // for text columns
	pool    sync.Pool // of *scratch, for number columns
}

// scratch is the memory for reading a batch of one column.
type scratch struct {
	levels [batch]uint32
	dict   [batch]uint32
}

// cursor is the position in a column. One page is held at a time.
type cursor struct {
	budget budget
	group  int // next row group
	chunk  *chunk
	page   *page // nil: read the next one
	i      int   // position in the page
	v      int   // position among its values that are not null
}

func (r *reader) Columns() []string { return r.s.names }
func (r *reader) Where(i int) string {
	return fmt.Sprintf("%s: row %d", r.s.path, r.s.before+r.first+int64(i)+1)
}

func (r *reader) Close() error { return r.f.Close() }

// batch is the number of rows handled at a time.
const batch = 256

func (r *reader) Read(b *data.Block, max int) (err error) {
	defer guard(r.s.path, &err)
	b.Reset(r.row, r.want)
	for r.unit < len(r.s.blocks)-1 && r.inUnit == r.s.blocks[r.unit].rows {
		r.unit++
		r.inUnit = 0
	}
	b.Unit.Block, b.Row = r.unit, r.inUnit
	n := int(min(int64(max), r.s.blocks[r.unit].rows-r.inUnit))
	if n <= 0 {
		if r.row < r.s.rows {
			return fmt.Errorf("%d rows asked for, want at least one", max)
		}
		return io.EOF
	}
	// Texts are read in batches of rows, so that a block can end early if they are long.
	for slices.Contains(r.want, data.Text) && b.Rows < n {
		m := min(batch, n-b.Rows)
		for j := range r.cursors {
			if r.want[j] != data.Text {
				continue
			}
			if err := r.readColumn(b, j, m, &r.scratch); err != nil {
				return err
			}
		}
		if b.Rows += m; b.Full() {
			n = b.Rows
		}
	}
	b.Rows = n
	// Number columns are independent. Of several errors the first column's is reported.
	par.For(len(r.numbers), numberCells/n+1, func(lo, hi int) {
		s, _ := r.pool.Get().(*scratch)
		if s == nil {
			s = new(scratch)
		}
		defer r.pool.Put(s)
		for ; lo < hi; lo++ {
			r.errs[lo] = r.readNumbers(b, r.numbers[lo], n, s)
		}
	})
	for _, err := range r.errs[:len(r.numbers)] {
		if err != nil {
			return err
		}
	}
	r.first = r.row
	r.row += int64(b.Rows)
	r.inUnit += int64(b.Rows)
	return nil
}

// numberCells is the number of cells that make up for starting a goroutine.
const numberCells = 4096

// readNumbers is readColumn for any goroutine: a panic must be recovered on the goroutine where it happens.
func (r *reader) readNumbers(b *data.Block, j, n int, s *scratch) (err error) {
	defer guard(r.s.path, &err)
	return r.readColumn(b, j, n, s)
}

// readColumn appends n values of column j to the block, across pages and row groups.
func (r *reader) readColumn(b *data.Block, j, n int, s *scratch) error {
	c, at := &r.s.columns[j], &r.cursors[j]
	for n > 0 {
		if at.page == nil {
			if err := r.nextPage(at, c); err == io.EOF {
				return bad(r.s.path, "column %q ends before row %d of %d", c.name, r.next(&b.Cols[j]),
					r.s.before+r.s.rows)
			} else if err == errBudget {
				return bad(r.s.path, "%v", err)
			} else if err != nil {
				return bad(r.s.path, "column %q: %v", c.name, err)
			}
		}
		p := at.page
		m := min(n, p.n-at.i, batch)
		there := m
		if p.nulls {
			if err := p.levels.read(s.levels[:m]); err != nil {
				return bad(r.s.path, "column %q: %v", c.name, err)
			}
			there = 0
			for _, l := range s.levels[:m] {
				there += int(l)
			}
		}
		if p.chosen {
			if err := p.dict.read(s.dict[:there]); err != nil {
				return bad(r.s.path, "column %q: %v", c.name, err)
			}
			for _, v := range s.dict[:there] {
				if int64(v) >= int64(p.values.n) {
					return bad(r.s.path, "column %q: value %d of a dictionary of %d", c.name, v, p.values.n)
				}
			}
		}
		for i, k := 0, 0; i < m; i++ {
			v := -1 // null
			if !p.nulls || s.levels[i] == 1 {
				if v = at.v; p.chosen {
					v = int(s.dict[k])
				}
				at.v++
				k++
			}
			if err := r.store(b, j, c, p.values, v); err != nil {
				return err
			}
		}
		at.i += m
		n -= m
		if at.i == p.n {
			at.page = nil
		}
	}
	return nil
}

// nextPage advances to the next page of a column, across row groups.
func (r *reader) nextPage(at *cursor, c *column) (err error) {
	for {
		if at.chunk == nil {
			groups := r.f.meta.RowGroups
			if at.group == len(groups) {
				return io.EOF
			}
			if at.chunk, err = r.f.openChunk(c, &groups[at.group], &at.budget); err != nil {
				return err
			}
			at.group++
		}
		at.page, err = at.chunk.next()
		if at.i, at.v = 0, 0; err != io.EOF {
			return err
		}
		at.chunk = nil
	}
}

// store appends value v of a page to column j; -1 is null.
func (r *reader) store(b *data.Block, j int, c *column, p *values, v int) error {
	col := &b.Cols[j]
	switch {
	case v < 0 && r.want[j] == data.Text:
		b.AppendText(j, nil)
	case v < 0:
		col.Num = append(col.Num, math.NaN())
	case r.want[j] == data.Text:
		text, ok := c.appendText(r.text[:0], p, v)
		if r.text = text; !ok && c.decimal {
			return r.badCell(col, c.name, fmt.Sprintf("column %q is a decimal of %d bytes", c.name, len(p.text(v))))
		} else if !ok {
			text = nil // NaN
		}
		if c.text && !utf8.Valid(text) {
			return r.badCell(col, c.name, fmt.Sprintf("column %q is %.40q, not UTF-8 as texts are: write it as bytes, or "+
				"leave the column out", c.name, text))
		}
		if text = text[:len(text):len(text)]; c.natural() == data.Text && c.kind != format.Boolean || c.unit > 0 {
			if text != nil && r.s.missing.Has(text) {
				text = nil
			}
			b.AppendText(j, text)
		} else {
			b.AppendBare(j, text)
		}
	default:
		x, ok := c.number(p, v)
		if !ok && c.decimal {
			return r.badCell(col, c.name, fmt.Sprintf("column %q is %.40q, want a number", c.name, p.text(v)))
		}
		if !ok && !r.s.missing.Has(p.text(v)) {
			col.AppendNumber(p.text(v))
			break
		}
		if !ok {
			x = math.NaN()
		}
		col.Num = append(col.Num, x)
	}
	return nil
}

// badCell is an error about the next cell of a column.
func (r *reader) badCell(col *data.Column, name, detail string) error {
	return &data.InputError{Place: fmt.Sprintf("%s: row %d", r.s.path, r.next(col)), Column: name, Detail: detail}
}

// next is the number, from 1, of the row whose cell comes next in a column of the block.
func (r *reader) next(col *data.Column) int64 {
	return r.s.before + r.row + int64(max(len(col.Num), len(col.Text))) + 1
}

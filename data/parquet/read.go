package parquet

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/randfeat/randfeat/data"
)

// guard turns a panic of the Parquet library into an error: it panics on some damaged files, which are input like any
// other.
func guard(path string, err *error) {
	if r := recover(); r != nil {
		*err = bad(path, "damaged: %v", r)
	}
}

func bad(path, format string, args ...any) error {
	return &data.InputError{Place: path, Detail: fmt.Sprintf(format, args...)}
}

// file is an opened Parquet file.
type file struct {
	*pq.File
	f *os.File
}

func openFile(path string) (f file, err error) {
	defer guard(path, &err)
	if f.f, err = os.Open(path); err != nil {
		return file{}, err
	}
	defer func() {
		if err != nil {
			f.f.Close()
		}
	}()
	info, err := f.f.Stat()
	if err != nil {
		return file{}, err
	}
	switch {
	case info.IsDir():
		return file{}, bad(path, "a directory, want a data file")
	case !info.Mode().IsRegular():
		return file{}, bad(path, "a Parquet file cannot be read from a stream: write it to a file first")
	case info.Size() == 0:
		return file{}, bad(path, "the file is empty")
	}
	f.File, err = pq.OpenFile(f.f, info.Size(), pq.SkipPageIndex(true), pq.SkipBloomFilters(true))
	if err != nil {
		return file{}, bad(path, "not a readable Parquet file: %v", err)
	}
	return f, nil
}

// column is how a column is stored.
type column struct {
	name    string
	leaf    int
	kind    pq.Kind
	uint    bool
	divisor float64 // of decimals, else 1
	why     string  // not empty: the reason why it cannot be read
}

// natural is the kind without conversion.
func (c *column) natural() data.Kind {
	if c.kind == pq.ByteArray {
		return data.Text
	}
	return data.Number
}

func newColumn(c *pq.Column) column {
	out := column{name: c.Name(), divisor: 1}
	if !c.Leaf() || c.Repeated() {
		out.why = "nested or repeated"
		return out
	}
	out.leaf, out.kind = c.Index(), c.Type().Kind()
	switch out.kind {
	case pq.Int96:
		out.why = "of type INT96, a deprecated time: write it as INT64"
	case pq.FixedLenByteArray:
		out.why = "of fixed-length bytes: write it as a number or a string"
	}
	if t := c.Type().LogicalType(); t != nil {
		switch t := t.Value.(type) {
		case *format.IntType:
			out.uint = !t.IsSigned
		case *format.DecimalType:
			out.divisor = math.Pow10(int(t.Scale))
			if out.kind == pq.ByteArray {
				out.why = "a decimal of many digits: write it as a double"
			}
		}
	}
	return out
}

type source struct {
	path    string
	columns []column
	names   []string
	rows    int64
}

// Open prepares a Parquet file for reading. Of the options, only MaxColumns matters: missing values are nulls.
func Open(path string, o data.Options) (src data.Source, err error) {
	defer guard(path, &err)
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.f.Close()
	limit := o.MaxColumns
	if limit == 0 {
		limit = data.DefaultMaxColumns
	}
	s := &source{path: path, rows: f.NumRows()}
	seen := map[string]bool{}
	for _, c := range f.Root().Columns() {
		if seen[c.Name()] {
			return nil, bad(path, "two columns are named %q", c.Name())
		}
		seen[c.Name()] = true
		s.columns = append(s.columns, newColumn(c))
		s.names = append(s.names, c.Name())
	}
	if n := len(s.columns); n == 0 || n > limit {
		return nil, bad(path, "%d columns, want 1 to %d", n, limit)
	}
	return s, nil
}

func (s *source) Name() string      { return s.path }
func (s *source) Columns() []string { return s.names }

func (s *source) Open(want []data.Kind) (rd data.Reader, err error) {
	defer guard(s.path, &err)
	kinds, err := data.CheckKinds(want, len(s.columns), func(j int) data.Kind { return s.columns[j].natural() })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	for j, k := range kinds {
		if k != data.Skip && s.columns[j].why != "" {
			return nil, bad(s.path, "column %q is %s", s.names[j], s.columns[j].why)
		}
	}
	f, err := openFile(s.path)
	if err != nil {
		return nil, err
	}
	r := &reader{s: s, f: f, want: kinds, chunks: make([]chunkReader, len(kinds))}
	if f.NumRows() != s.rows || len(f.Root().Columns()) != len(s.columns) {
		f.f.Close()
		return nil, bad(s.path, "the file changed since it was opened")
	}
	for _, g := range f.RowGroups() {
		for j := range r.chunks {
			if kinds[j] != data.Skip {
				r.chunks[j].rest = append(r.chunks[j].rest, g.ColumnChunks()[s.columns[j].leaf])
			}
		}
	}
	return r, nil
}

type reader struct {
	s      *source
	f      file
	want   []data.Kind
	chunks []chunkReader
	row    int64 // of the next block
	first  int64 // of the last block
	text   []byte
}

func (r *reader) Columns() []string  { return r.s.names }
func (r *reader) Where(i int) string { return fmt.Sprintf("%s: row %d", r.s.path, r.first+int64(i)+1) }

func (r *reader) Close() (err error) {
	defer guard(r.s.path, &err)
	for j := range r.chunks {
		r.chunks[j].close()
	}
	return r.f.f.Close()
}

// batch is how many rows are read or written at a time.
const batch = 256

func (r *reader) Read(b *data.Block, max int) (err error) {
	defer guard(r.s.path, &err)
	b.Reset(r.row, r.want)
	n := int(min(int64(max), r.s.rows-r.row))
	if n <= 0 {
		if r.row < r.s.rows {
			return fmt.Errorf("%d rows asked for, want at least one", max)
		}
		return io.EOF
	}
	// Columns are read in batches of rows, so that a block can end early when its text is long.
	for b.Rows < n && !b.Full() {
		m := min(batch, n-b.Rows)
		for j := range r.chunks {
			if r.want[j] == data.Skip {
				continue
			}
			if err := r.readColumn(b, j, m); err != nil {
				return err
			}
		}
		b.Rows += m
	}
	r.first = r.row
	r.row += int64(b.Rows)
	return nil
}

func (r *reader) readColumn(b *data.Block, j, n int) error {
	c, ch := &r.s.columns[j], &r.chunks[j]
	for n > 0 {
		values, err := ch.next(n)
		if err != nil {
			if err == io.EOF {
				return bad(r.s.path, "column %q ends before row %d of %d", c.name, r.row+int64(b.Rows)+1, r.s.rows)
			}
			return bad(r.s.path, "column %q: %v", c.name, err)
		}
		n -= len(values)
		for _, v := range values {
			if err := r.store(b, j, c, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) store(b *data.Block, j int, c *column, v pq.Value) error {
	col := &b.Cols[j]
	if c.kind == pq.ByteArray {
		switch {
		case r.want[j] == data.Text:
			if v.IsNull() {
				b.AppendText(j, nil)
			} else {
				b.AppendText(j, v.ByteArray())
			}
		case v.IsNull():
			col.Num = append(col.Num, math.NaN())
		default:
			x, ok := data.ParseNumber(v.ByteArray())
			if !ok {
				return bad(fmt.Sprintf("%s: row %d", r.s.path, r.row+int64(len(col.Num))+1), "column %q is %.40q, want a number", c.name, v.ByteArray())
			}
			col.Num = append(col.Num, x)
		}
		return nil
	}
	x := math.NaN()
	if !v.IsNull() {
		var ok bool
		if x, ok = c.number(v); !ok {
			return bad(fmt.Sprintf("%s: row %d", r.s.path, r.row+int64(max(len(col.Num), len(col.Text)))+1), "column %q is an integer beyond float64", c.name)
		}
	}
	switch {
	case r.want[j] == data.Number:
		col.Num = append(col.Num, x)
	case math.IsNaN(x):
		b.AppendText(j, nil)
	default:
		r.text = strconv.AppendFloat(r.text[:0], x, 'f', -1, 64)
		b.AppendText(j, r.text)
	}
	return nil
}

// number converts a value of a numeric column; integers that float64 does not hold are refused.
func (c *column) number(v pq.Value) (float64, bool) {
	var x float64
	switch c.kind {
	case pq.Boolean:
		if v.Boolean() {
			x = 1
		}
	case pq.Int32:
		x = float64(v.Int32())
		if c.uint {
			x = float64(v.Uint32())
		}
	case pq.Int64:
		if i := v.Int64(); c.uint {
			x = float64(uint64(i))
			if uint64(i) > 1<<53 && (x >= 1<<64 || uint64(x) != uint64(i)) {
				return 0, false
			}
		} else if x = float64(i); x >= 1<<63 || int64(x) != i {
			return 0, false
		}
	case pq.Float:
		x = float64(v.Float())
	case pq.Double:
		x = v.Double()
	}
	return x / c.divisor, true
}

// chunkReader reads the values of one column, through its row groups and pages. One page is held at a time.
type chunkReader struct {
	rest   []pq.ColumnChunk
	pages  pq.Pages
	page   pq.Page
	values pq.ValueReader
	buf    []pq.Value
}

// next gives 1 to n values, which are valid until the following call.
func (c *chunkReader) next(n int) ([]pq.Value, error) {
	if c.buf == nil {
		c.buf = make([]pq.Value, batch)
	}
	for {
		if c.values != nil {
			got, err := c.values.ReadValues(c.buf[:min(n, len(c.buf))])
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			if got > 0 {
				return c.buf[:got], nil
			}
			if err == nil {
				return nil, io.ErrNoProgress
			}
			pq.Release(c.page)
			c.page, c.values = nil, nil
		}
		if c.pages == nil {
			if len(c.rest) == 0 {
				return nil, io.EOF
			}
			c.pages, c.rest = c.rest[0].Pages(), c.rest[1:]
		}
		page, err := c.pages.ReadPage()
		switch {
		case err == io.EOF:
			if err := c.pages.Close(); err != nil {
				return nil, err
			}
			c.pages = nil
		case err != nil:
			return nil, err
		default:
			c.page, c.values = page, page.Values()
		}
	}
}

func (c *chunkReader) close() {
	if c.page != nil {
		pq.Release(c.page)
		c.page, c.values = nil, nil
	}
	if c.pages != nil {
		c.pages.Close()
		c.pages = nil
	}
}

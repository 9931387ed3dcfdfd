package data

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/quote"
)

// Writer writes a table block by block. It belongs to one goroutine.
type Writer interface {
	// WriteBlock appends the rows of b, whose columns must have the kinds that the writer was made with. After
	// an error, all further calls return it.
	WriteBlock(b *Block) error
	// Close completes the table. A file appears at its path only now, in one step (a rename), so a crash leaves
	// no partial file.
	Close() error
	// Abort gives up and leaves no file. After Close it does nothing, so it can be deferred.
	Abort()
}

// Create starts a table in a file of format CSV, NDJSON, NPY or NPZ. If f is empty, the file name decides. Names
// that end in .tsv get tabs, and names that end in .gz are compressed. kinds are Number, Text or Integer; npy and npz
// files hold only numbers.
func Create(path string, f Format, columns []string, kinds []Kind) (Writer, error) {
	if f == "" {
		if f = FormatOf(path); f == "" {
			return nil, fmt.Errorf("%s: no format known by this name: want .csv, .tsv, .ndjson or .npy", path)
		}
	}
	if f == NPZ {
		return createNPZ(path, columns, kinds)
	}
	file, err := localfile.Create(path)
	if err != nil {
		return nil, err
	}
	fw := &fileWriter{path: path, file: file}
	var w io.Writer = file
	if strings.HasSuffix(path, ".gz") {
		fw.zip = gzip.NewWriter(file)
		w = fw.zip
	}
	fw.rows, err = newRowWriter(w, f, delimiterOf(path), columns, kinds)
	if err != nil {
		fw.Abort()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// A seekable file gets its npy header corrected at the end. A compressed or direct output cannot, so it is
	// held in memory.
	if n, ok := fw.rows.(*npyTable); ok && fw.zip == nil && !file.Direct {
		n.patch = file.F
	}
	return fw, nil
}

func delimiterOf(path string) byte {
	switch strings.ToLower(filepath.Ext(strings.TrimSuffix(path, ".gz"))) {
	case ".tsv", ".tab":
		return '\t'
	}
	return ','
}

// NewWriter writes a table to w: CSV, NDJSON, NPY or "tsv", which is CSV with tabs. An npy array is held in memory
// until Close, since its header has the number of rows. Abort keeps the blocks written so far.
func NewWriter(w io.Writer, f Format, columns []string, kinds []Kind) (Writer, error) {
	delim := byte(',')
	if f == "tsv" {
		f, delim = CSV, '\t'
	}
	rows, err := newRowWriter(w, f, delim, columns, kinds)
	if err != nil {
		return nil, err
	}
	return &streamWriter{rows}, nil
}

// rowWriter formats blocks; finish writes the rest of its buffer.
type rowWriter interface {
	write(b *Block) error
	finish() error
}

type streamWriter struct{ rowWriter }

func (s *streamWriter) WriteBlock(b *Block) error { return s.write(b) }
func (s *streamWriter) Close() error              { return s.finish() }
func (s *streamWriter) Abort()                    {}

type fileWriter struct {
	path string
	file *localfile.File
	zip  *gzip.Writer
	rows rowWriter
	err  error
}

func (f *fileWriter) WriteBlock(b *Block) error {
	if f.err == nil {
		if err := f.rows.write(b); err != nil {
			f.err = fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return f.err
}

func (f *fileWriter) Close() error {
	// After a successful Commit, Abort has nothing left to undo.
	defer f.Abort()
	if f.err != nil {
		return f.err
	}
	if err := f.rows.finish(); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if f.zip != nil {
		if err := f.zip.Close(); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return f.file.Commit()
}

func (f *fileWriter) Abort() {
	f.err = errors.Join(f.err, errClosed)
	f.file.Abort()
}

var errClosed = errors.New("the writer is closed")

func newRowWriter(w io.Writer, f Format, delim byte, columns []string, kinds []Kind) (rowWriter, error) {
	if len(columns) == 0 || len(columns) != len(kinds) {
		return nil, fmt.Errorf("%d columns of %d kinds to write: %w", len(columns), len(kinds), dense.ErrShape)
	}
	for j, k := range kinds {
		if k != Number && k != Text && k != Integer {
			return nil, fmt.Errorf("column %s is to be written as %v, want number, integer or text", quote.Short(columns[j]), k)
		}
		if f == NPY && k != Number {
			return nil, fmt.Errorf("column %s is text, which an npy array cannot hold: write CSV, NDJSON or Parquet",
				quote.Short(columns[j]))
		}
	}
	if err := checkNames("the table to write", columns); err != nil {
		return nil, err
	}
	t := tableOut{w: w, kinds: kinds}
	switch f {
	case CSV:
		c := &csvTable{tableOut: t, delim: delim}
		for j, name := range columns {
			if j > 0 {
				c.buf = append(c.buf, delim)
			}
			c.buf = cell.AppendCSV(c.buf, []byte(name), delim, len(columns) == 1)
		}
		c.buf = append(c.buf, '\n')
		return c, nil
	case NDJSON:
		n := &jsonTable{tableOut: t}
		for _, name := range columns {
			n.keys = append(n.keys, append(cell.AppendJSON(nil, []byte(name)), ':'))
		}
		return n, nil
	case NPY:
		return &npyTable{tableOut: t}, nil
	}
	return nil, fmt.Errorf("cannot write format %q: want csv, ndjson or npy", f)
}

// tableOut collects bytes for w.
type tableOut struct {
	w     io.Writer
	kinds []Kind
	buf   []byte
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

// spill writes the collected rows if there are many, or in any case if all is set.
func (t *tableOut) spill(all bool) error {
	if len(t.buf) < npy.WriteBytes && !all {
		return nil
	}
	_, err := t.w.Write(t.buf)
	t.buf = t.buf[:0]
	return err
}

func (t *tableOut) finish() error { return t.spill(true) }

type csvTable struct {
	tableOut
	delim byte
}

func (c *csvTable) write(b *Block) error {
	if err := b.Check(c.kinds); err != nil {
		return err
	}
	for i := range b.Rows {
		for j, k := range c.kinds {
			if j > 0 {
				c.buf = append(c.buf, c.delim)
			}
			switch {
			case k != Number:
				c.buf = cell.AppendCSV(c.buf, b.Cols[j].Text[i], c.delim, len(c.kinds) == 1)
			case !math.IsNaN(b.Cols[j].Num[i]):
				c.buf = cell.AppendNumber(c.buf, b.Cols[j].Num[i])
			// A line without any byte would be an empty line, which readers skip.
			case len(c.kinds) == 1:
				c.buf = append(c.buf, `""`...)
			}
		}
		c.buf = append(c.buf, '\n')
		if err := c.spill(false); err != nil {
			return err
		}
	}
	return nil
}

type jsonTable struct {
	tableOut
	keys [][]byte // with their colons
}

func (n *jsonTable) write(b *Block) error {
	if err := b.Check(n.kinds); err != nil {
		return err
	}
	for i := range b.Rows {
		sep := byte('{')
		for j, k := range n.kinds {
			n.buf = append(append(n.buf, sep), n.keys[j]...)
			sep = ','
			if k != Number {
				n.buf = cell.AppendJSONCell(n.buf, b.Cols[j].Text[i], k == Integer || b.Cols[j].IsBare(i))
				continue
			}
			v := b.Cols[j].Num[i]
			switch {
			case math.IsNaN(v):
				n.buf = append(n.buf, "null"...)
			case math.IsInf(v, 0):
				return fmt.Errorf("row %d, column %d is infinite, which JSON cannot say: %w", b.First+int64(i)+1, j+1,
					dense.ErrNotFinite)
			default:
				n.buf = cell.AppendNumber(n.buf, v)
			}
		}
		n.buf = append(n.buf, '}', '\n')
		if err := n.spill(false); err != nil {
			return err
		}
	}
	return nil
}

// npyTable is a float64 matrix. The npy header has the same length for any number of rows, so a preliminary one
// is written first and overwritten at the end.
type npyTable struct {
	tableOut
	patch io.WriterAt // nil: everything is kept in memory until the end
	rows  int
}

func (n *npyTable) write(b *Block) error {
	if err := b.Check(n.kinds); err != nil {
		return err
	}
	if n.rows == 0 && n.patch != nil && len(n.buf) == 0 {
		n.buf = append(n.buf, npy.HeaderBytes(npy.Float64, []int{0, len(n.kinds)})...)
	}
	for i := range b.Rows {
		for j := range n.kinds {
			v := math.Float64bits(b.Cols[j].Num[i])
			n.buf = append(n.buf, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48),
				byte(v>>56))
		}
		if n.patch != nil {
			if err := n.spill(false); err != nil {
				return err
			}
		}
		n.rows++
	}
	return nil
}

func (n *npyTable) finish() error {
	head := npy.HeaderBytes(npy.Float64, []int{n.rows, len(n.kinds)})
	if n.patch == nil || n.rows == 0 {
		n.buf = append(head, n.buf...)
		if n.rows == 0 {
			n.buf = head
		}
		return n.spill(true)
	}
	if err := n.spill(true); err != nil {
		return err
	}
	_, err := n.patch.WriteAt(head, 0)
	return err
}

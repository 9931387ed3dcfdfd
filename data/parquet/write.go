package parquet

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/localfile"
)

// A row group ends after this many rows or bytes, a page after this many bytes of values. Readers hold one page
// of every column, so pages are small.
const (
	groupRows  = 1 << 16
	groupBytes = 64 << 20
	pageBytes  = 1 << 20
)

// writer writes one row group at a time: columns collect compressed pages in memory until the group is
// complete.
type writer struct {
	path  string
	file  *localfile.File
	kinds []data.Kind
	cols  []columnWriter
	meta  format.FileMetaData
	at    int64 // bytes written
	rows  int64 // of the group
	err   error
}

// columnWriter collects the pages of a column of a row group.
type columnWriter struct {
	name   string
	levels []byte // one bit per row of the page: 1 is a value
	rows   int    // rows of the page
	values []byte // values of the page, in plain encoding
	pages  []byte // complete pages with their headers
	raw    int64  // bytes of pages before compression
	count  int64  // values, including nulls
	nulls  int64
}

// Create starts a table in a Parquet file: optional doubles, int64 and strings, snappy-compressed. The file
// appears at path only when Close succeeds, in one step.
func Create(path string, columns []string, kinds []data.Kind) (data.Writer, error) {
	if len(columns) == 0 || len(columns) != len(kinds) {
		return nil, fmt.Errorf("%s: %d columns of %d kinds to write: %w", path, len(columns), len(kinds),
			dense.ErrShape)
	}
	w := &writer{path: path, kinds: kinds, cols: make([]columnWriter, len(columns))}
	w.meta = format.FileMetaData{Version: 1, CreatedBy: "randfeat",
		Schema: []format.SchemaElement{{Name: "table", NumChildren: some(int32(len(columns)))}}}
	seen := map[string]bool{}
	for j, name := range columns {
		if seen[name] || name == "" {
			return nil, fmt.Errorf("%s: column name %q is empty or comes twice", path, name)
		}
		seen[name] = true
		e := format.SchemaElement{Name: name, Type: some(format.Double), RepetitionType: some(format.Optional)}
		switch kinds[j] {
		case data.Number:
		case data.Integer:
			e.Type = some(format.Int64)
		case data.Text:
			e.Type, e.ConvertedType = some(format.ByteArray), some(deprecated.UTF8)
			e.LogicalType.Value = new(format.StringType)
		default:
			return nil, fmt.Errorf("%s: column %q is to be written as %v, want number, integer or text", path, name, kinds[j])
		}
		w.cols[j].name = name
		w.meta.Schema = append(w.meta.Schema, e)
	}
	var err error
	if w.file, err = localfile.Create(path); err != nil {
		return nil, err
	}
	if err := w.put([]byte(magic)); err != nil {
		w.file.Abort()
		return nil, err
	}
	return w, nil
}

// some is a field that is set.
func some[T any](v T) thrift.Null[T] { return thrift.Null[T]{V: v, Valid: true} }

func (w *writer) put(b []byte) error {
	n, err := w.file.Write(b)
	w.at += int64(n)
	if err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	return nil
}

func (w *writer) WriteBlock(b *data.Block) error {
	if w.err == nil {
		w.err = w.write(b)
	}
	return w.err
}

func (w *writer) write(b *data.Block) error {
	if err := b.Check(w.kinds); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	for i := range b.Rows {
		size := 0
		for j, k := range w.kinds {
			c := &w.cols[j]
			if k == data.Number {
				x := b.Cols[j].Num[i]
				if c.level(!math.IsNaN(x)) {
					c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(x))
				}
			} else if t := b.Cols[j].Text[i]; k == data.Integer {
				if c.level(t != nil) {
					v, err := strconv.ParseInt(string(t), 10, 64)
					if err != nil {
						return fmt.Errorf("%s: column %q is %.40q, want an integer of 64 bits", w.path, c.name, t)
					}
					c.values = binary.LittleEndian.AppendUint64(c.values, uint64(v))
				}
			} else if c.level(t != nil) {
				if len(t) > math.MaxInt32-pageBytes-groupRows {
					return fmt.Errorf("%s: a text of %d bytes in column %q", w.path, len(t), c.name)
				}
				c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(len(t))), t...)
			}
			if len(c.values) >= pageBytes {
				if err := c.endPage(); err != nil {
					return fmt.Errorf("%s: %w", w.path, err)
				}
			}
			size += len(c.values) + len(c.pages)
		}
		if w.rows++; w.rows == groupRows || size >= groupBytes {
			if err := w.endGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// level records whether the next row has a value.
func (c *columnWriter) level(there bool) bool {
	if c.rows%8 == 0 {
		c.levels = append(c.levels, 0)
	}
	c.count++
	if there {
		c.levels[c.rows/8] |= 1 << (c.rows % 8)
	} else {
		c.nulls++
	}
	c.rows++
	return there
}

// endPage writes the page: the length of the levels, the levels as one run of packed bits, the values.
func (c *columnWriter) endPage() error {
	if c.rows == 0 {
		return nil
	}
	head := binary.AppendUvarint(nil, uint64(len(c.levels))<<1|1)
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(head)+len(c.levels)))
	body = append(append(append(body, head...), c.levels...), c.values...)
	packed := snappy.Encode(nil, body)
	header, err := thrift.Marshal(&compact, &format.PageHeader{Type: format.DataPage,
		UncompressedPageSize: int32(len(body)), CompressedPageSize: int32(len(packed)),
		DataPageHeader: some(format.DataPageHeader{NumValues: int32(c.rows), Encoding: format.Plain,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})})
	if err != nil {
		return err
	}
	c.pages = append(append(c.pages, header...), packed...)
	c.raw += int64(len(header) + len(body))
	c.levels, c.values, c.rows = c.levels[:0], c.values[:0], 0
	return nil
}

// endGroup writes the pages of all columns and records their offsets for the footer.
func (w *writer) endGroup() error {
	if w.rows == 0 {
		return nil
	}
	g := format.RowGroup{NumRows: w.rows, FileOffset: w.at, Ordinal: int16(min(len(w.meta.RowGroups), math.MaxInt16))}
	for j := range w.cols {
		c := &w.cols[j]
		if err := c.endPage(); err != nil {
			return fmt.Errorf("%s: %w", w.path, err)
		}
		m := format.ColumnMetaData{Type: w.meta.Schema[j+1].Type.V, Codec: format.Snappy,
			Encoding: []format.Encoding{format.Plain, format.RLE}, PathInSchema: []string{c.name}, NumValues: c.count,
			TotalUncompressedSize: c.raw, TotalCompressedSize: int64(len(c.pages)), DataPageOffset: w.at,
			Statistics: format.Statistics{NullCount: c.nulls}}
		g.TotalByteSize += m.TotalUncompressedSize
		g.TotalCompressedSize += m.TotalCompressedSize
		if err := w.put(c.pages); err != nil {
			return err
		}
		g.Columns = append(g.Columns, format.ColumnChunk{MetaData: m})
		c.pages, c.raw, c.count, c.nulls = c.pages[:0], 0, 0, 0
	}
	w.meta.RowGroups = append(w.meta.RowGroups, g)
	w.meta.NumRows += w.rows
	w.rows = 0
	return nil
}

func (w *writer) Close() error {
	defer w.Abort()
	if w.err != nil {
		return w.err
	}
	if err := w.endGroup(); err != nil {
		return err
	}
	if w.meta.RowGroups == nil {
		w.meta.RowGroups = []format.RowGroup{} // required by the format, even if empty
	}
	footer, err := thrift.Marshal(&compact, &w.meta)
	if err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if err := w.put(append(binary.LittleEndian.AppendUint32(footer, uint32(len(footer))), magic...)); err != nil {
		return err
	}
	return w.file.Commit()
}

func (w *writer) Abort() {
	if w.err == nil {
		w.err = fmt.Errorf("%s: the writer is closed", w.path)
	}
	w.file.Abort()
}

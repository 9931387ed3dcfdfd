package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/randfeat/randfeat/data"
)

// Decimals have at most 76 digits, which fit into 32 bytes.
const (
	maxScale        = 76
	maxDecimalBytes = 32
)

// magic begins and ends a file; a file with an encrypted footer ends with encryptedMagic.
const magic, encryptedMagic = "PAR1", "PARE"

// compact is the Thrift protocol of the metadata.
var compact thrift.CompactProtocol

// guard turns a panic of the Parquet library into an error: it panics on some damaged files, which are input
// like any other.
func guard(path string, err *error) {
	if r := recover(); r != nil {
		*err = bad(path, "damaged: %v", r)
	}
}

func bad(path, format string, args ...any) error {
	return &data.InputError{Place: path, Detail: fmt.Sprintf(format, args...)}
}

// opener opens the bytes of a Parquet file. It is called for the footer and again for every reader.
type opener func() (at io.ReaderAt, size int64, c io.Closer, err error)

// file is an opened Parquet file.
type file struct {
	io.ReaderAt
	io.Closer
	size    int64
	rows    int64 // sum over groups; some writers give no total
	meta    format.FileMetaData
	columns []column
}

// openPath opens a file by its name.
func openPath(path string) opener {
	return func() (io.ReaderAt, int64, io.Closer, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, 0, nil, err
		}
		info, err := f.Stat()
		switch {
		case err != nil:
		case info.IsDir():
			err = bad(path, "a directory, want a data file")
		case !info.Mode().IsRegular():
			err = bad(path, "a Parquet file cannot be read from a stream: write it to a file first")
		default:
			return f, info.Size(), f, nil
		}
		f.Close()
		return nil, 0, nil, err
	}
}

func openFile(path string, open opener) (_ *file, err error) {
	defer guard(path, &err)
	f := new(file)
	if f.ReaderAt, f.size, f.Closer, err = open(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if f.size == 0 {
		return nil, bad(path, "the file is empty")
	}
	if err := f.readFooter(); err != nil {
		return nil, bad(path, "not a readable Parquet file: %v", err)
	}
	if f.columns, err = columnsOf(f.meta.Schema); err != nil {
		return nil, bad(path, "not a readable Parquet file: %v", err)
	}
	return f, nil
}

// readFooter reads the metadata at the end of the file: metadata, its length in four bytes, magic. The length
// is checked against the size of the file before memory is allocated.
func (f *file) readFooter() error {
	var tail [8]byte
	if f.size < int64(len(magic)+len(tail)) {
		return io.ErrUnexpectedEOF
	}
	if _, err := f.ReadAt(tail[:], f.size-int64(len(tail))); err != nil {
		return err
	}
	switch string(tail[4:]) {
	case magic:
	case encryptedMagic:
		return fmt.Errorf("it is encrypted")
	default:
		return fmt.Errorf("it does not end in %s", magic)
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > f.size-int64(len(magic)+len(tail)) {
		return fmt.Errorf("metadata of %d bytes in a file of %d", n, f.size)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, f.size-int64(len(tail))-n); err != nil {
		return err
	}
	if err := thrift.Unmarshal(&compact, b, &f.meta); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	for i := range f.meta.RowGroups {
		g := &f.meta.RowGroups[i]
		if g.NumRows < 0 || g.NumRows > math.MaxInt64-f.rows {
			return fmt.Errorf("metadata: a group of %d rows", g.NumRows)
		}
		f.rows += g.NumRows
	}
	return nil
}

// column describes how a column is stored.
type column struct {
	name     string
	leaf     int // its index among all leaves of the schema
	kind     format.Type
	optional bool
	uint     bool
	length   int   // of fixed-length bytes
	text     bool  // bytes declared to be text
	unit     int64 // unit of times in nanoseconds; 0: not a time
	half     bool  // float16
	decimal  bool  // a decimal with scale digits after the point
	scale    int
	why      string // why it cannot be read; empty if it can
}

// day is the number of nanoseconds of a day.
const day = 86400e9

// natural is the kind without conversion.
func (c *column) natural() data.Kind {
	if c.kind == format.ByteArray && !c.decimal || c.kind == format.Boolean || c.unit > 0 {
		return data.Text
	}
	return data.Number
}

// columnsOf returns the children of the root, the first element of the schema. The schema is a tree, written
// depth first.
func columnsOf(schema []format.SchemaElement) ([]column, error) {
	if len(schema) == 0 {
		return nil, fmt.Errorf("metadata: no schema")
	}
	var out []column
	leaves, rest := 0, schema[1:]
	for range schema[0].NumChildren.V {
		if len(rest) == 0 {
			return nil, fmt.Errorf("metadata: the schema ends early")
		}
		e := &rest[0]
		c := newColumn(e)
		c.leaf = leaves
		out = append(out, c)
		for open := 1; open > 0; open-- { // elements of its subtree still to come
			if len(rest) == 0 {
				return nil, fmt.Errorf("metadata: the schema ends early")
			}
			switch n := rest[0].NumChildren.V; {
			case rest[0].Type.Valid:
				leaves++
			case n < 0 || int(n) > len(rest):
				return nil, fmt.Errorf("metadata: %d children in the schema", n)
			default:
				open += int(n)
			}
			rest = rest[1:]
		}
	}
	return out, nil
}

func newColumn(e *format.SchemaElement) column {
	c := column{name: e.Name, kind: e.Type.V, optional: e.RepetitionType.V == format.Optional}
	if !e.Type.Valid || e.RepetitionType.V == format.Repeated {
		c.why = "nested or repeated"
		return c
	}
	switch t := e.LogicalType.Value.(type) { // newer files have both a logical and a converted type
	case *format.IntType:
		c.uint = !t.IsSigned
	case *format.DecimalType:
		c.decimal, c.scale = true, int(t.Scale)
	case *format.StringType, *format.EnumType, *format.JsonType:
		c.text = true
	case *format.DateType:
		c.unit = day
	case *format.TimestampType:
		switch t.Unit.Value.(type) {
		case *format.MilliSeconds:
			c.unit = 1e6
		case *format.MicroSeconds:
			c.unit = 1e3
		case *format.NanoSeconds:
			c.unit = 1
		}
	case *format.Float16Type:
		c.half = true
	case nil:
		switch t := e.ConvertedType; {
		case !t.Valid:
		case t.V == deprecated.UTF8 || t.V == deprecated.Enum || t.V == deprecated.Json:
			c.text = true
		case t.V == deprecated.Date:
			c.unit = day
		case t.V == deprecated.TimestampMillis:
			c.unit = 1e6
		case t.V == deprecated.TimestampMicros:
			c.unit = 1e3
		case t.V == deprecated.Decimal:
			c.decimal, c.scale = true, int(e.Scale.V)
		case t.V >= deprecated.Uint8 && t.V <= deprecated.Uint64:
			c.uint = true
		}
	}
	if c.kind == format.FixedLenByteArray {
		c.length = int(e.TypeLength.V)
	}
	switch {
	case c.decimal && (c.scale < 0 || c.scale > maxScale):
		c.why = fmt.Sprintf("a decimal with %d digits behind the point", c.scale)
	case c.kind == format.Int96: // deprecated timestamp: nanoseconds of the day, Julian day
		c.unit = 1
	case c.kind == format.FixedLenByteArray && (c.length <= 0 || c.half && c.length != 2 ||
		c.decimal && c.length > maxDecimalBytes):
		c.why = fmt.Sprintf("of values of %d bytes", c.length)
	case c.kind == format.FixedLenByteArray && !c.half && !c.decimal:
		c.why = "of fixed-length bytes"
	case c.kind < format.Boolean || c.kind > format.FixedLenByteArray:
		c.why = "of an unknown type"
	}
	return c
}

package data

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// File is an open file of a store, such as an object store. ReadAt must be safe for concurrent calls, as
// io.ReaderAt demands: goroutines that parse one file share it.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// Format is a kind of file.
type Format string

// The formats. A program that needs only text or Parquet imports data/text or data/parquet, others data/files.
const (
	CSV     Format = "csv" // delimited text with any delimiter
	NDJSON  Format = "ndjson"
	NPY     Format = "npy"
	NPZ     Format = "npz"
	Parquet Format = "parquet"
	XLSX    Format = "xlsx" // the first sheet of a workbook, converted to CSV while it is read
)

// Options say how to read a file. The zero value detects everything. Negative limits and delimiters that cannot
// work are errors of Open.
type Options struct {
	Format Format // empty: detected from the contents, then from the name
	// CSV: 0 means detected among comma, tab, semicolon, bar and runs of blanks; ' ' means runs of blanks
	Delimiter byte
	Header    *bool    // CSV: whether the first line names the columns; nil: detected. Without names: c1, c2, …
	Literal   bool     // CSV: quotes are ordinary characters
	Encoding  string   // text formats: a name that text.Encodings lists; empty is detected
	Assume    string   // encoding to assume for text that is not UTF-8; empty is windows-1252
	Missing   []string // texts that mean a missing value; nil is [DefaultMissing], empty means none
	// Strict makes a text in a column read as Number an error of kind [ErrUnreadable] with its place (text
	// formats only). Otherwise such a cell becomes a NaN that [Column.Unreadable] recognises.
	Strict     bool
	MaxColumns int      // 0 is 65536
	MaxLine    int      // bytes of one row of a text format, bounds memory; 0 is 16 MiB
	Workers    int      // goroutines that parse a text format; 0 is GOMAXPROCS
	Columns    []string // NDJSON: the keys, some of which a row may lack; nil: the keys of the first rows
	UnitBytes  int64    // approximate bytes of a [Unit]; 0 is [DefaultUnitBytes]
}

// The default bounds on the size of a table; see [Options].
const (
	defaultMaxColumns = 1 << 16
	defaultMaxLine    = 16 << 20
)

// WithDefaults fills in the defaults and checks the options, for packages that open files.
func (o Options) WithDefaults() (Options, error) {
	if o.Missing == nil {
		o.Missing = DefaultMissing
	}
	o.MaxColumns = cmp.Or(o.MaxColumns, defaultMaxColumns)
	o.MaxLine = cmp.Or(o.MaxLine, defaultMaxLine)
	o.UnitBytes = cmp.Or(o.UnitBytes, DefaultUnitBytes)
	if o.UnitBytes < 0 {
		return o, fmt.Errorf("units of %d bytes: want at least one", o.UnitBytes)
	}
	if o.Workers < 0 {
		return o, fmt.Errorf("%d goroutines to parse with: want at least one, or 0 for GOMAXPROCS", o.Workers)
	}
	if o.MaxColumns < 0 || o.MaxLine < 0 {
		return o, fmt.Errorf("the limits of %d columns and %d bytes per line must be positive", o.MaxColumns, o.MaxLine)
	}
	if strings.ContainsRune("\"\r\n", rune(o.Delimiter)) && o.Delimiter != 0 {
		return o, fmt.Errorf("the delimiter %q cannot be a quote or a line end", o.Delimiter)
	}
	return o, nil
}

// FormatOf returns the format that the extension of a file name stands for, or "". It ignores a final .gz,
// .zst, .bz2 or .zip.
func FormatOf(name string) Format {
	switch strings.ToLower(filepath.Ext(Uncompressed(name))) {
	case ".csv", ".tsv", ".tab":
		return CSV
	case ".ndjson", ".jsonl":
		return NDJSON
	case ".npy":
		return NPY
	case ".npz":
		return NPZ
	case ".parquet", ".pq":
		return Parquet
	case ".xlsx":
		return XLSX
	}
	return ""
}

// Uncompressed removes the extension of a compressed file, .gz, .zst, .bz2 or .zip, from a name.
func Uncompressed(name string) string {
	for _, end := range []string{".gz", ".zst", ".bz2", ".zip"} {
		if len(name) > len(end) && strings.EqualFold(name[len(name)-len(end):], end) {
			return name[:len(name)-len(end)]
		}
	}
	return name
}

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

package files

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/array"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/localfile"
)

// Create starts a table in a file of format CSV, NDJSON, NPY or NPZ. If f is empty, the file name decides. Names
// that end in .tsv get tabs, and names that end in .gz are compressed. kinds are Number, Text or Integer; npy and npz
// files hold only numbers.
func Create(path string, f data.Format, columns []string, kinds []data.Kind) (data.Writer, error) {
	if f == "" {
		if f = data.FormatOf(path); f == "" {
			return nil, fmt.Errorf("%s: no format known by this name: want .csv, .tsv, .ndjson or .npy", path)
		}
	}
	if f == data.NPZ {
		return array.Create(path, columns, kinds)
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
	// A seekable file gets its npy header corrected at the end. A compressed or direct output cannot, so it is
	// held in memory.
	var patch io.WriterAt
	if fw.zip == nil && !file.Direct {
		patch = file.F
	}
	fw.rows, err = newWriter(w, patch, f, delimiterOf(path), columns, kinds)
	if err != nil {
		fw.Abort()
		return nil, fmt.Errorf("%s: %w", path, err)
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
func NewWriter(w io.Writer, f data.Format, columns []string, kinds []data.Kind) (data.Writer, error) {
	delim := byte(',')
	if f == "tsv" {
		f, delim = data.CSV, '\t'
	}
	return newWriter(w, nil, f, delim, columns, kinds)
}

type fileWriter struct {
	path string
	file *localfile.File
	zip  *gzip.Writer
	rows data.Writer
	err  error
}

func (f *fileWriter) WriteBlock(b *data.Block) error {
	if f.err == nil {
		if err := f.rows.WriteBlock(b); err != nil {
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
	if err := f.rows.Close(); err != nil {
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

// newWriter checks the columns. patch is the file behind w, if its beginning can be written again.
func newWriter(w io.Writer, patch io.WriterAt, f data.Format, delim byte, columns []string,
	kinds []data.Kind) (data.Writer, error) {
	if len(columns) == 0 || len(columns) != len(kinds) {
		return nil, fmt.Errorf("%d columns of %d kinds to write: %w", len(columns), len(kinds), dense.ErrShape)
	}
	for j, k := range kinds {
		if k != data.Number && k != data.Text && k != data.Integer {
			return nil, fmt.Errorf("column %s is to be written as %v, want number, integer or text", cell.Quote(columns[j]), k)
		}
		if f == data.NPY && k != data.Number {
			return nil, fmt.Errorf("column %s is text, which an npy array cannot hold: write CSV, NDJSON or Parquet",
				cell.Quote(columns[j]))
		}
	}
	if err := raw.CheckNames("the table to write", columns); err != nil {
		return nil, err
	}
	switch f {
	case data.CSV:
		return text.NewCSVWriter(w, delim, columns, kinds), nil
	case data.NDJSON:
		return text.NewNDJSONWriter(w, columns, kinds), nil
	case data.NPY:
		return array.NewWriter(w, patch, kinds), nil
	}
	return nil, fmt.Errorf("cannot write format %q: want csv, ndjson or npy", f)
}

var errClosed = errors.New("the writer is closed")

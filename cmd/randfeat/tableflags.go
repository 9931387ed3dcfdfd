package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/machine"
)

// tableFlags say how to read a table.
type tableFlags struct {
	delimiter        string
	header, noHeader bool
	noQuotes         bool
	missing          []string
	format           string
	encoding         string
	assume           string // the encoding that a model was fitted with
	unit             int64
}

// maxStdin bounds a table from stdin that is read several times, and so held in memory.
const maxStdin = 1 << 30

// tableFormats are the names of --format.
var tableFormats = []string{"csv", "tsv", "ndjson", "npy", "npz", "parquet"}

func (f *tableFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.delimiter, "delimiter", "", `CSV: what separates fields: one character, "tab" or "space"; detected by default`)
	flags.BoolVar(&f.header, "header", false, "CSV: the first line names the columns; detected by default")
	flags.BoolVar(&f.noHeader, "no-header", false, "CSV: the first line is a row; columns are named c1, c2, …")
	flags.BoolVar(&f.noQuotes, "no-quotes", false, "CSV: a quote is an ordinary character, as in some tab-separated files")
	usual := strings.Join(data.DefaultMissing[1:], ", ")
	flags.StringSliceVar(&f.missing, "missing", nil,
		"texts that mean a missing value, instead of "+usual+"; empty cells always do")
	flags.StringVar(&f.format, "format", "", "format of the table: "+strings.Join(tableFormats,
		", ")+"; detected by default")
	flags.StringVar(&f.encoding, "encoding", "", "encoding of the text, such as utf-8, utf-16, windows-1252 or latin1; "+
		"detected by default")
	flags.Int64Var(&f.unit, "unit-bytes", 0, fmt.Sprintf("size of the parts that files are cut into, about (%d if left "+
		"out); quoted fields of very many lines need more", data.DefaultUnitBytes))
	completeNames(cmd, "encoding", data.Encodings)
	completeNames(cmd, "delimiter", func() []string { return []string{",", ";", "|", "tab", "space"} })
	completeNames(cmd, "format", func() []string { return tableFormats })
}

// options are the flags as the library has them.
func (f *tableFlags) options() (data.Options, error) {
	var o data.Options
	switch f.delimiter {
	case "":
	case "tab", `\t`:
		o.Delimiter = '\t'
	case "space":
		o.Delimiter = ' '
	default:
		if len(f.delimiter) != 1 || strings.Contains("\"\r\n", f.delimiter) {
			return o, misused("--delimiter is %q, want one character that is no quote or line end, tab or space",
				f.delimiter)
		}
		o.Delimiter = f.delimiter[0]
	}
	if f.header && f.noHeader {
		return o, misused("--header and --no-header exclude each other")
	}
	if f.header || f.noHeader {
		o.Header = &f.header
	}
	o.Literal = f.noQuotes
	if o.UnitBytes = f.unit; f.unit < 0 {
		return o, misused("--unit-bytes is %d, want at least 1", f.unit)
	}
	o.Encoding, o.Assume = f.encoding, f.assume
	if o.Encoding != "" && !data.KnownEncoding(o.Encoding) {
		return o, misused("--encoding is %q, want one of %s", f.encoding, strings.Join(data.Encodings(), ", "))
	}
	if f.missing != nil {
		o.Missing = append([]string{""}, f.missing...)
	}
	switch f.format {
	case "", "csv", "ndjson", "npy", "npz", "parquet":
		o.Format = data.Format(f.format)
	case "tsv":
		o.Format = data.CSV
		if o.Delimiter == 0 {
			o.Delimiter = '\t'
		}
	default:
		return o, misused("--format is %q, want one of %s", f.format, strings.Join(tableFormats, ", "))
	}
	return o, nil
}

// open prepares a table that can be read several times: files, or for - stdin, which is then held in memory.
func (f *tableFlags) open(a *app, paths ...string) (data.Source, error) {
	src, _, err := f.source(a, paths, false)
	return src, err
}

// readLike takes over from a model how its table was read, where a table itself does not tell.
func (f *tableFlags) readLike(m *machine.Model) {
	if m.Schema != nil {
		f.assume = m.Schema.Encoding
	}
}

// openOnce is open for a table that is read once: stdin and pipes of any size are streamed where their format allows
// it. It also tells the format, one of tableFormats.
func (f *tableFlags) openOnce(a *app, paths []string) (src data.Source, format string, err error) {
	return f.source(a, paths, true)
}

// source opens the files that paths, patterns and directories name as one table.
func (f *tableFlags) source(a *app, paths []string, once bool) (data.Source, string, error) {
	o, err := f.options()
	if err != nil {
		return nil, "", err
	}
	if paths, err = files.Expand(paths...); err != nil {
		return nil, "", err
	}
	for _, path := range paths {
		if path == "-" && len(paths) == 1 {
			return stream("stdin", a.stdin, o, once)
		}
		info, err := os.Stat(path)
		if path == "-" || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			if len(paths) > 1 {
				return nil, "", misused("%s is a stream, which cannot be one of several files: write it to a file first", path)
			}
			p, err := os.Open(path) // even a look at a pipe would take something away
			if err != nil {
				return nil, "", err
			}
			if !once {
				defer p.Close()
			}
			return stream(path, p, o, once)
		}
	}
	t, err := files.Open(paths, o)
	if err != nil {
		return nil, "", err
	}
	o.Format = t.Manifest().Format
	return t, formatName(paths[0], o), nil
}

// formatName tells TSV from CSV.
func formatName(path string, o data.Options) string {
	ext := strings.ToLower(filepath.Ext(strings.TrimSuffix(path, ".gz")))
	if o.Format == data.CSV && (o.Delimiter == '\t' || o.Delimiter == 0 && (ext == ".tsv" || ext == ".tab")) {
		return "tsv"
	}
	return string(o.Format)
}

// stream opens what can be read only once. Archives need all of it, and so do several passes.
func stream(name string, r io.Reader, o data.Options, once bool) (data.Source, string, error) {
	b := bufio.NewReader(r)
	if head, err := b.Peek(2); err == nil && string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, "", &data.InputError{Place: name, Detail: fmt.Sprintf("damaged or cut stream: %v", err),
				Err: err}
		}
		b = bufio.NewReader(z)
	}
	head, err := b.Peek(512)
	if err != nil && err != io.EOF {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	switch text := bytes.TrimLeft(head, "\xef\xbb\xbf \t\r\n"); {
	case o.Format != "":
	case bytes.HasPrefix(head, []byte("PAR1")):
		o.Format = data.Parquet
	case bytes.HasPrefix(head, []byte("PK")):
		o.Format = data.NPZ
	case bytes.HasPrefix(head, []byte("\x93NUMPY")):
		o.Format = data.NPY
	case bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")): // UTF-16
		if o.Format = data.CSV; len(head) > 4 && head[2]|head[3] == '{' && head[2]&head[3] == 0 {
			o.Format = data.NDJSON
		}
	case bytes.HasPrefix(text, []byte(`{"`)) || bytes.HasPrefix(text, []byte("{}")):
		o.Format = data.NDJSON
	case bytes.IndexByte(head, 0) < 0: // otherwise the library says what it cannot be
		o.Format = data.CSV
	}
	if o.Format == data.Parquet {
		return nil, "", &data.InputError{Place: name, Detail: "a Parquet file cannot be read from a stream: give the name of a file"}
	}
	var src data.Source
	if once && o.Format != data.NPZ {
		src, err = data.OpenReader(name, struct {
			io.Reader
			io.Closer
		}{b, closerOf(r)}, o)
		return src, formatName(name, o), err
	}
	all, err := io.ReadAll(io.LimitReader(b, maxStdin+1))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	if len(all) > maxStdin {
		return nil, "", &data.InputError{Place: name, Detail: fmt.Sprintf("more than %d MiB, which would be held in memory: write the table to a file first", maxStdin>>20)}
	}
	src, err = data.OpenBytes(name, all, o)
	return src, formatName(name, o), err
}

// closerOf closes pipes; stdin stays open.
func closerOf(r io.Reader) io.Closer {
	if f, ok := r.(*os.File); ok && f != os.Stdin {
		return f
	}
	return io.NopCloser(r)
}

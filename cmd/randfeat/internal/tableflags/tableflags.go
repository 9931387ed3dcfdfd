// Package tableflags has the flags that say how to read a table, and opens tables from files, pipes and stdin.
package tableflags

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/machine"
)

// Flags are the values of the flags that say how to read a table.
type Flags struct {
	delimiter        string
	header, noHeader bool
	noQuotes         bool
	missing          []string
	format           string
	encoding         string
	assume           string // encoding to assume, from the model
	unit             int64
}

// maxStdin bounds a table from stdin that must be read several times and is therefore held in memory.
const maxStdin = 1 << 30

var (
	// TableFormats lists the formats that can be read and written; workbooks can only be read.
	TableFormats = []string{"csv", "tsv", "ndjson", "npy", "npz", "parquet"}
	readFormats  = append(TableFormats[:len(TableFormats):len(TableFormats)], "xlsx")
)

// Group is the section of a command's help that shows these flags.
var Group = cli.FlagGroup{Title: "How the table is read",
	Names: strings.Fields("delimiter header no-header no-quotes missing format encoding unit-bytes")}

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.delimiter, "delimiter", "",
		"CSV: the `character` between fields, \"tab\" or \"space\" (default: detected)")
	flags.BoolVar(&f.header, "header", false, "CSV: the first line names the columns (default: detected)")
	flags.BoolVar(&f.noHeader, "no-header", false, "CSV: the first line is a row; columns are named c1, c2, …")
	flags.BoolVar(&f.noQuotes, "no-quotes", false, "CSV: a quote is an ordinary character, as in some tab-separated files")
	usual := strings.Join(data.DefaultMissing[1:], ", ")
	flags.StringSliceVar(&f.missing, "missing", nil,
		"`texts` that mean a missing value; empty cells always do (default "+usual+")")
	flags.StringVar(&f.format, "format", "", "`format` of the table: "+strings.Join(readFormats,
		", ")+" (default: detected)")
	flags.StringVar(&f.encoding, "encoding", "", "text encoding, such as utf-8, utf-16, windows-1252 or latin1 "+
		"(default: detected)")
	flags.Int64Var(&f.unit, "unit-bytes", 0, fmt.Sprintf("approximate size in bytes of the units that files are cut into; raise it for quoted "+
		"fields of very many lines (default %d)", data.DefaultUnitBytes))
	cli.CompleteNames(cmd, "encoding", text.Encodings)
	cli.CompleteNames(cmd, "delimiter", func() []string { return []string{",", ";", "|", "tab", "space"} })
	cli.CompleteNames(cmd, "format", func() []string { return readFormats })
}

// Options converts the flags to the options of the library.
func (f *Flags) Options() (data.Options, error) {
	var o data.Options
	switch f.delimiter {
	case "":
	case "tab", `\t`:
		o.Delimiter = '\t'
	case "space":
		o.Delimiter = ' '
	default:
		if len(f.delimiter) != 1 || strings.Contains("\"\r\n", f.delimiter) {
			return o, cli.Misused("--delimiter is %q, want tab, space or one character other than a quote or line end",
				f.delimiter)
		}
		o.Delimiter = f.delimiter[0]
	}
	if f.header && f.noHeader {
		return o, cli.Misused("--header and --no-header exclude each other")
	}
	if f.header || f.noHeader {
		o.Header = &f.header
	}
	o.Literal = f.noQuotes
	if o.UnitBytes = f.unit; f.unit < 0 {
		return o, cli.Misused("--unit-bytes is %d, want at least 1", f.unit)
	}
	o.Encoding, o.Assume = f.encoding, f.assume
	if o.Encoding != "" && !text.KnownEncoding(o.Encoding) {
		return o, cli.Misused("--encoding is %q, want one of %s", f.encoding, strings.Join(text.Encodings(), ", "))
	}
	if f.missing != nil {
		o.Missing = append([]string{""}, f.missing...)
	}
	switch f.format {
	case "", "csv", "ndjson", "npy", "npz", "parquet", "xlsx":
		o.Format = data.Format(f.format)
	case "tsv":
		o.Format = data.CSV
		if o.Delimiter == 0 {
			o.Delimiter = '\t'
		}
	default:
		return o, cli.Misused("--format is %q, want one of %s", f.format, strings.Join(readFormats, ", "))
	}
	return o, nil
}

// Open opens a table that is read several times: files, or stdin for -, which is then held in memory.
func (f *Flags) Open(env *cli.Env, paths ...string) (data.Source, error) {
	src, _, err := f.Source(env, paths, false)
	return src, err
}

// ReadLike takes the encoding of a model's training table as the one to assume, if a table itself does not
// tell.
func (f *Flags) ReadLike(m *machine.Model) {
	if m.Schema != nil {
		f.assume = m.Schema.Encoding
	}
}

// OpenOnce is Open for a table that is read once: stdin and pipes of any size are streamed if their format
// allows it. It also returns the format, one of TableFormats.
func (f *Flags) OpenOnce(env *cli.Env, paths []string) (src data.Source, format string, err error) {
	return f.Source(env, paths, true)
}

// Source opens the files that paths, patterns and directories name as one table. once says that one reading
// suffices.
func (f *Flags) Source(env *cli.Env, paths []string, once bool) (data.Source, string, error) {
	o, err := f.Options()
	if err != nil {
		return nil, "", err
	}
	if paths, err = files.Expand(paths...); err != nil {
		return nil, "", err
	}
	for _, path := range paths {
		if path == "-" && len(paths) == 1 {
			return stream("stdin", io.NopCloser(env.Stdin), o, once)
		}
		info, err := os.Stat(path)
		if path == "-" || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			if len(paths) > 1 {
				return nil, "", cli.Misused("%s is a stream, which cannot be one of several files: write it to a file first", path)
			}
			p, err := env.OpenPipe(path) // a pipe must not be opened to look at it: the bytes would be gone
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
	return t, FormatName(paths[0], o), nil
}

// FormatName distinguishes TSV from CSV. A workbook is written as CSV.
func FormatName(path string, o data.Options) string {
	if o.Format == data.XLSX {
		return string(data.CSV)
	}
	ext := strings.ToLower(filepath.Ext(data.Uncompressed(path)))
	if o.Format == data.CSV && (o.Delimiter == '\t' || o.Delimiter == 0 && (ext == ".tsv" || ext == ".tab")) {
		return "tsv"
	}
	return string(o.Format)
}

// stream opens a table that can be read only once. Archives need all of it, and so do several readings: then it
// is held in memory. The first bytes are looked at before: a device that never ends costs no memory.
func stream(name string, r io.ReadCloser, o data.Options, once bool) (data.Source, string, error) {
	b := bufio.NewReader(r)
	z, err := files.Decompress(name, b)
	if err != nil {
		return nil, "", err
	}
	b = bufio.NewReader(z)
	head, err := b.Peek(4096)
	if err != nil && err != io.EOF {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	archive := bytes.HasPrefix(head, []byte("PK")) // the library looks inside
	if o.Format == "" && !archive {
		if o.Format, err = files.Detect(name, head); err != nil {
			return nil, "", err
		}
	}
	if o.Format == data.Parquet {
		return nil, "", &data.InputError{Place: name, Detail: "a Parquet file cannot be read from a stream: give the name of a file"}
	}
	var src data.Source
	if once && !archive {
		src, err = files.OpenReader(name, struct {
			io.Reader
			io.Closer
		}{b, r}, o)
		return src, FormatName(name, o), err
	}
	all, err := io.ReadAll(io.LimitReader(b, maxStdin+1))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	if len(all) > maxStdin {
		return nil, "", &data.InputError{Place: name, Detail: fmt.Sprintf("more than %d MiB, which would be held in memory: write the table to a file first", maxStdin>>20)}
	}
	src, err = files.OpenBytes(name, all, o)
	return src, FormatName(name, o), err
}

package data

import (
	"bytes"
	"fmt"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/number"
	"github.com/randfeat/randfeat/internal/quote"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Format is a kind of file.
type Format string

// The formats. Parquet lives in the package data/parquet.
const (
	CSV     Format = "csv" // any delimiter
	NDJSON  Format = "ndjson"
	NPY     Format = "npy"
	NPZ     Format = "npz"
	Parquet Format = "parquet"
	XLSX    Format = "xlsx" // the first sheet of a workbook, read as CSV
)

// Options say how to read a file. The zero value detects everything.
type Options struct {
	Format Format // empty: by the contents, then the name
	// CSV: 0 is detected among comma, tab, semicolon, bar and runs of blanks; ' ' means runs of blanks
	Delimiter byte
	Header    *bool    // CSV: whether the first line names the columns; nil is detected. Without, they are c1, c2, …
	Literal   bool     // CSV: a quote is an ordinary character
	Encoding  string   // text formats: one of [Encodings]; empty is detected
	Assume    string   // the encoding of text that is not UTF-8; empty is [DefaultAssume]
	Missing   []string // texts that mean a missing value; nil is [DefaultMissing], empty is none
	// Strict makes a text that is no number, in a column that is read as Number, an error of kind [ErrUnreadable] with
	// its place in text formats. Otherwise it is [Unreadable].
	Strict     bool
	MaxColumns int      // 0 is [DefaultMaxColumns]
	MaxLine    int      // bytes of one row of a text format; 0 is 16 MiB
	Workers    int      // goroutines that parse a text format; 0 is GOMAXPROCS
	Columns    []string // NDJSON: the keys, of which rows may lack some; nil is those of the first rows
	UnitBytes  int64    // bytes of a [Unit], about; 0 is [DefaultUnitBytes]

	piece int // bytes of text that a goroutine takes, for tests
}

// DefaultMissing are the texts that mean a missing value.
var DefaultMissing = []string{"", "?", "NA", "N/A", "n/a", "NaN", "nan", "NaT", "null", "NULL", "None", "#N/A", "<NA>"}

// The default bounds on the size of a table; see [Options].
const (
	DefaultMaxColumns = 1 << 16
	defaultMaxLine    = 16 << 20
)

func (o Options) withDefaults() (Options, error) {
	if o.Missing == nil {
		o.Missing = DefaultMissing
	}
	if o.MaxColumns == 0 {
		o.MaxColumns = DefaultMaxColumns
	}
	if o.MaxLine == 0 {
		o.MaxLine = defaultMaxLine
	}
	if o.UnitBytes == 0 {
		o.UnitBytes = DefaultUnitBytes
	}
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

// missingSet answers quickly for most cells: by length and first byte.
type missingSet struct {
	texts   map[string]bool
	first   [256]bool
	empty   bool
	numbers bool // some texts are numbers, such as -999
}

func newMissingSet(texts []string) *missingSet {
	m := &missingSet{texts: map[string]bool{}}
	for _, t := range texts {
		if t == "" {
			m.empty = true
			continue
		}
		m.texts[t] = true
		_, n, _ := number.ScanNumber([]byte(t))
		m.numbers = m.numbers || n == len(t)
		m.first[t[0]] = true
	}
	return m
}

func (m *missingSet) has(cell []byte) bool {
	if len(cell) == 0 {
		return m.empty
	}
	return m.first[cell[0]] && m.texts[string(cell)]
}

// Open prepares a file for reading: it looks at its beginning to find the format, the delimiter and the columns. Files
// compressed by gzip, zstd or bzip2 are recognised, and so is a zip archive of one. A pipe can be read only once.
func Open(path string, o Options) (Source, error) {
	if why := localfile.Remote(path); why != "" {
		return nil, inputError(path, "%s", why)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err // names the path
	}
	if info.IsDir() {
		return nil, inputError(path, "a directory, want a data file")
	}
	if !info.Mode().IsRegular() {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return OpenReader(path, f, o)
	}
	return open(input{name: path, size: info.Size(), open: func() (stream, error) { return os.Open(path) }}, o)
}

// OpenBytes is Open for a table in memory; name is used in messages and for its extension.
func OpenBytes(name string, b []byte, o Options) (Source, error) {
	return open(input{name: name, size: int64(len(b)), open: func() (stream, error) {
		return memory{bytes.NewReader(b)},
			nil
	}}, o)
}

// OpenReader is Open for a stream: the source can be opened once. The reader closes r if it is an io.Closer.
func OpenReader(name string, r io.Reader, o Options) (Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	in := input{name: name, size: -1}
	once, err := in.unzip(r)
	if err != nil {
		return nil, err
	}
	sample, whole, err := readSample(once)
	if err != nil {
		return nil, in.wrap(err)
	}
	used := false
	in.open = func() (stream, error) {
		if used {
			return nil, fmt.Errorf("%s can be read only once: write it to a file first", name)
		}
		used = true
		return once2{io.MultiReader(bytes.NewReader(sample), once), r}, nil
	}
	return openSample(in, sample, whole, o)
}

// stream is an opened input. Files and memory are also io.ReaderAt.
type stream interface {
	io.Reader
	io.Closer
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

type once2 struct {
	io.Reader
	under io.Reader
}

func (o once2) Close() error {
	if c, ok := o.under.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// input is something that can be opened, perhaps many times.
type input struct {
	name string
	size int64 // -1: unknown
	open func() (stream, error)

	encoding *encodingState // of text; nil: UTF-8 that has been checked
	before   *lineCount     // of a block of a file: the lines before it; nil: none
	inside   bool           // a block that does not end its file
	array    bool           // a JSON array, read as NDJSON
}

// plain opens what can be read at any place and is not compressed; otherwise it is nil.
func (in input) plain() (io.ReaderAt, io.Closer, error) {
	if in.size < 0 {
		return nil, nil, nil
	}
	s, err := in.open()
	if err != nil {
		return nil, nil, err
	}
	at, ok := s.(io.ReaderAt)
	var head [compressedHead]byte
	if ok = ok && !in.array; ok {
		n, err := at.ReadAt(head[:], 0)
		ok = (err == nil || err == io.EOF) && compression(head[:n]) == ""
	}
	if !ok {
		s.Close()
		return nil, nil, nil
	}
	return at, s, nil
}

// text opens the decompressed contents.
func (in input) text() (io.Reader, io.Closer, error) {
	s, err := in.open()
	if err != nil {
		return nil, nil, err
	}
	r, err := in.unzip(s)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	if in.array {
		r = newArrayLines(in, r)
	}
	return r, s, nil
}

// sampleBytes is how much of a file is looked at to find its format.
const sampleBytes = 256 << 10

// readSample reads the beginning; whole says that there is no more.
func readSample(r io.Reader) (sample []byte, whole bool, err error) {
	sample = make([]byte, sampleBytes)
	n, err := io.ReadFull(r, sample)
	if err == io.EOF || err == io.ErrUnexpectedEOF && n > 0 {
		// A cut gzip stream also ends so; then reading the table reports it.
		return sample[:n], true, nil
	}
	return sample[:n], false, err
}

func open(in input, o Options) (Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r, c, err := in.text()
	if err != nil {
		return nil, err
	}
	sample, whole, err := readSample(r)
	c.Close()
	if err != nil {
		return nil, in.wrap(err)
	}
	if isZip(sample) && o.Format != NPZ {
		return openArchive(in, o)
	}
	return openSample(in, sample, whole, o)
}

// openArchive opens the table in a zip archive.
func openArchive(in input, o Options) (Source, error) {
	format, name, err := in.lookInside()
	switch {
	case err != nil:
		return nil, err
	case format == NPZ:
		return newNPZSource(in, o)
	case format == XLSX:
		s, err := in.openSheet()
		if err != nil {
			return nil, err
		}
		in.open, in.size = s.lines, 0
		o.Format, o.Delimiter, o.Literal, o.Encoding = CSV, ',', false, "utf-8"
	case o.Format == "":
		in = in.member(name)
		o.Format = FormatOf(name)
	default:
		in = in.member(name)
	}
	r, c, err := in.text()
	if err != nil {
		return nil, err
	}
	sample, whole, err := readSample(r)
	c.Close()
	if err != nil {
		return nil, in.wrap(err)
	}
	if isZip(sample) {
		return nil, inputError(in.name, "an archive in an archive: unpack it")
	}
	return openSample(in, sample, whole, o)
}

func openSample(in input, sample []byte, whole bool, o Options) (Source, error) {
	if len(sample) == 0 {
		return nil, inputError(in.name, "the file is empty")
	}
	format := o.Format
	if format == "" || format == CSV || format == NDJSON {
		state, err := newEncodingState(sample, o)
		if err != nil {
			return nil, err
		}
		in.encoding = state
	}
	if format == "" {
		var err error
		if format, err = detect(in.name, sample); err != nil {
			return nil, err
		}
	}
	if format == NDJSON && isJSONArray(sample) {
		in.array = true
		lines := newArrayLines(in, bytes.NewReader(sample))
		sample = make([]byte, 0, len(sample))
		for {
			n := len(sample)
			sample = append(sample, make([]byte, 4096)...)
			k, err := lines.Read(sample[n:])
			if sample = sample[:n+k]; err != nil {
				if whole && err != io.EOF {
					return nil, err
				}
				break
			}
		}
		if in.size < 0 { // the beginning of a stream has been read: it is turned into lines from there on
			open := in.open
			in.open, in.array = func() (stream, error) {
				s, err := open()
				if err != nil {
					return nil, err
				}
				return once2{newArrayLines(in, s), s}, nil
			}, false
		}
	}
	if format == CSV || format == NDJSON {
		var err error
		if sample, err = in.encoding.decodeSample(in.name, sample, whole); err != nil {
			return nil, err
		}
	}
	switch format {
	case CSV:
		return newCSVSource(in, sample, whole, o)
	case NDJSON:
		return newJSONSource(in, sample, whole, o)
	case NPY:
		return newNPYSource(in, o)
	case NPZ:
		return newNPZSource(in, o)
	case Parquet:
		return nil, inputError(in.name, "a Parquet file: open it with the package data/parquet")
	}
	if format == XLSX {
		return nil, inputError(in.name, "not a workbook of the format .xlsx")
	}
	return nil, fmt.Errorf("unknown format %q: want csv, ndjson, npy, npz or xlsx", format)
}

// Resolved are options with which the file of src is read without looking for delimiter, names of columns and keys
// again. Other files that are read with them must be of the same kind.
func Resolved(src Source, o Options) Options {
	if s, ok := src.(interface{ options() Options }); ok {
		found := s.options()
		o.Delimiter, o.Header = found.Delimiter, found.Header
		if _, ok := src.(*jsonSource); ok {
			o.Columns = src.Columns()
		}
	}
	return o
}

// Detect tells the format of a file by its first bytes, then its name.
func Detect(path string) (Format, error) {
	if why := localfile.Remote(path); why != "" {
		return "", inputError(path, "%s", why)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return "", inputError(path, "a directory, want a data file")
	}
	in := input{name: path, size: -1, open: func() (stream, error) { return os.Open(path) }}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		in.size = info.Size()
	}
	return in.detect(f)
}

// DetectReader is Detect for the content that a reader gives; name is used in messages and for its extension. It cannot
// look into zip archives, whose directory is at the end.
func DetectReader(name string, r io.Reader) (Format, error) {
	return input{name: name, size: -1}.detect(r)
}

func (in input) detect(r io.Reader) (Format, error) {
	r, err := in.unzip(r)
	if err != nil {
		return "", err
	}
	head := make([]byte, 4096)
	n, err := io.ReadFull(r, head)
	if isZip(head[:n]) && in.size >= 0 {
		format, member, err := in.lookInside()
		if err != nil || format != "" {
			return format, err
		}
		if format = FormatOf(member); format != "" && format != NPY && format != Parquet {
			return format, nil
		}
		s, err := in.member(member).open()
		if err != nil {
			return "", err
		}
		defer s.Close()
		if r, err = in.unzip(s); err != nil {
			return "", err
		}
		n, err = io.ReadFull(r, head)
		if n == 0 && err == io.EOF {
			return "", inputError(in.name, "the file in the archive is empty")
		}
	}
	if n == 0 {
		if err == io.EOF {
			return "", inputError(in.name, "the file is empty")
		}
		return "", in.wrap(err)
	}
	return detect(in.name, head[:n])
}

// foreign are beginnings of files that cannot be read here, and what to do about them.
var foreign = []struct{ magic, what string }{
	{"\xfd7zXZ\x00", "compressed by xz: decompress it, or compress it with gzip"},
	{"\x28\xb5\x2f\xfd", "compressed twice: decompress it"},
	{"ARROW1", "an Arrow or Feather file: write it as Parquet, for example by pandas.read_feather(…).to_parquet(…)"},
	{"FEA1", "a Feather file: write it as Parquet, for example by pandas.read_feather(…).to_parquet(…)"},
	{"\xff\xff\xff\xff", "an Arrow stream? Write it as Parquet"},
	{"\xd0\xcf\x11\xe0", "an old Excel file: save it as .xlsx or CSV"},
	{"SQLite format 3", "an SQLite database: export the table as CSV"},
	{"\x89HDF", "an HDF5 file: export it as CSV, npy or Parquet"},
}

func detect(name string, head []byte) (Format, error) {
	starts := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case starts(npy.Magic):
		return NPY, nil
	case starts("PK\x03\x04"), starts("PK\x05\x06"):
		return NPZ, nil
	case starts("PAR1"):
		return Parquet, nil
	}
	for _, f := range foreign {
		if starts(f.magic) {
			return "", inputError(name, "%s", f.what)
		}
	}
	if e := sniffUTF16(head); e != nil {
		s := new(encodingState)
		s.is.Store(e)
		head, _ = s.decodeSample(name, head, false)
	}
	if i := bytes.IndexByte(head, 0); i >= 0 {
		return "", inputError(name, "byte %d is zero: neither text nor a format known here (CSV, NDJSON, npy, npz, Parquet)", i+1)
	}
	if n := controls(head); n > 1+len(head)/100 {
		return "", inputError(name, "%d of the first %d bytes are control characters: neither text nor a format known here (CSV, NDJSON, npy, npz, Parquet)", n, len(head))
	}
	switch FormatOf(name) {
	case NDJSON:
		return NDJSON, nil
	case CSV:
		return CSV, nil
	}
	t := bytes.TrimLeft(bytes.TrimPrefix(head, []byte(bom)), " \t\r\n")
	if len(t) == 0 {
		return CSV, nil
	}
	switch rest := bytes.TrimLeft(t[1:], " \t\r\n"); {
	case t[0] == '{' && (bytes.HasPrefix(rest, []byte(`"`)) || bytes.HasPrefix(rest, []byte("}"))):
		return NDJSON, nil
	case t[0] == '[' && bytes.HasPrefix(rest, []byte("{")):
		return NDJSON, nil
	case t[0] == '[' && bytes.HasPrefix(rest, []byte("[")):
		return "", inputError(name, "a JSON array of arrays: write an object for every row, with the names of the columns as keys")
	}
	return CSV, nil
}

// controls counts bytes that text does not hold, in any encoding.
func controls(b []byte) int {
	n := 0
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' || c == 0x7f {
			n++
		}
	}
	return n
}

// bom is the byte order mark that some programs put before UTF-8 text.
const bom = "\xef\xbb\xbf"

// FormatOf is the format that a file name asks for, or empty. A final .gz, .zst, .bz2 or .zip is ignored.
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

// columnNames are the names of columns without any: c1, c2, …
func columnNames(prefix string, n int) []string {
	names := make([]string, n)
	for j := range names {
		names[j] = fmt.Sprintf("%s%d", prefix, j+1)
	}
	return names
}

// checkNames refuses two columns of one name, since columns are found by name.
func checkNames(place string, names []string) error {
	seen := make(map[string]int, len(names))
	for j, name := range names {
		if i, ok := seen[name]; ok {
			return inputError(place, "columns %d and %d are both named %s: rename one", i+1, j+1, quote.Short(name))
		}
		seen[name] = j
	}
	return nil
}

func checkWidth(place string, n, limit int) error {
	if n > limit {
		return inputError(place, "%d columns, the limit is %d: is the table transposed? Otherwise keep the columns that matter", n, limit)
	}
	return nil
}

package data

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/quote"
)

// Format is a kind of file.
type Format string

// The formats. [Open] refuses Parquet: package data/parquet reads it, so that programs without it need not link
// the decoder.
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
	Encoding  string   // text formats: one of [Encodings]; empty is detected
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

	piece int // bytes of a piece (see textReader); set by tests only
}

// The default bounds on the size of a table; see [Options].
const (
	defaultMaxColumns = 1 << 16
	defaultMaxLine    = 16 << 20
)

func (o Options) withDefaults() (Options, error) {
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

// Open prepares a file for reading: it inspects the beginning to find the format, the delimiter and the
// columns. It recognises files compressed by gzip, zstd or bzip2, and a zip archive with one table. A pipe can
// be read only once. The error is an [ErrInput] for contents that cannot be read, and an error of package os
// for a file that cannot be opened.
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

// OpenReader is Open for a stream: the source can be opened once, and formats whose directory is at the end
// (zip, npz, xlsx) are errors. The source's reader closes r if it is an io.Closer.
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
		// The sample has left the stream, so the only reader gets it back in front of the rest.
		return once2{io.MultiReader(bytes.NewReader(sample), once), r}, nil
	}
	return openSample(in, sample, whole, o)
}

// stream is an opened input. Plain files and memory also implement io.ReaderAt, which decides whether an input
// can be cut into blocks and read by several goroutines.
type stream interface {
	io.Reader
	io.Closer
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// once2 reads from one reader and closes another, the one below it.
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

// input is a file, a member of an archive, a block of a file, or a stream, before it is opened. It is a value:
// openers change their copy. Sources keep it and call open for every reader.
type input struct {
	name string
	size int64 // -1: a stream that can be opened once. 0 also marks re-readable inputs that are never cut into blocks
	open func() (stream, error)

	encoding *encodingState // of text, shared by all readers of the source; nil: UTF-8 that has been checked
	before   *lineCount     // of a block of a file: counts the lines before it, for messages; nil: none
	inside   bool           // a block that does not end its file
	array    bool           // a JSON array, translated to NDJSON while it is read
	returns  bool           // lines end with a carriage return alone, which is translated while the text is read
}

// plain opens the input for reading at any offset. It returns nil, without an error, if that is impossible: a
// stream, a compressed file, or lines that exist only after translation. The caller then uses text.
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
	if ok = ok && !in.array && !in.returns; ok {
		n, err := at.ReadAt(head[:], 0)
		ok = (err == nil || err == io.EOF) && compression(head[:n]) == ""
	}
	if !ok {
		s.Close()
		return nil, nil, nil
	}
	return at, s, nil
}

// text opens the contents, decompressed and translated to lines, for reading from the start.
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
	switch {
	case in.array:
		r = newArrayLines(in, r)
	case in.returns:
		r = returns{r}
	}
	return r, s, nil
}

// sampleBytes is how much of a file is inspected to find format, encoding, delimiter, header and the keys of
// NDJSON. It is enough for sniffRows rows of more than 1 kB.
const sampleBytes = 256 << 10

// readSample reads the beginning of r; whole reports that there is no more.
func readSample(r io.Reader) (sample []byte, whole bool, err error) {
	sample = make([]byte, sampleBytes)
	n, err := io.ReadFull(r, sample)
	if err == io.EOF || err == io.ErrUnexpectedEOF && n > 0 {
		// A cut gzip stream also ends so; then reading the table reports it.
		return sample[:n], true, nil
	}
	return sample[:n], false, err
}

// open inspects an input that can be opened again. Format detection runs on decompressed bytes, so text goes
// through unzip first; archives need random access and branch off.
func open(in input, o Options) (Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	sample, whole, err := in.sample()
	if err != nil {
		return nil, err
	}
	if isZip(sample) && o.Format != NPZ {
		return openArchive(in, o)
	}
	return openSample(in, sample, whole, o)
}

// sample returns the beginning of the text, and whether it is all of it.
func (in input) sample() (b []byte, whole bool, err error) {
	r, c, err := in.text()
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	if b, whole, err = readSample(r); err != nil {
		err = in.wrap(err)
	}
	return b, whole, err
}

// openArchive opens the table inside a zip archive: an npz file, a workbook, or one compressed table.
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
		// Size 0: the CSV lines exist only while they are read, so there is nothing to cut into blocks.
		in.open, in.size = s.lines, 0
		o.Format, o.Delimiter, o.Literal, o.Encoding = CSV, ',', false, "utf-8"
	case o.Format == "":
		in = in.member(name)
		o.Format = FormatOf(name)
	default:
		in = in.member(name)
	}
	sample, whole, err := in.sample()
	if err != nil {
		return nil, err
	}
	// A second level would need its own directory, hence another random access.
	if isZip(sample) {
		return nil, inputError(in.name, "an archive in an archive: unpack it")
	}
	return openSample(in, sample, whole, o)
}

// openSample picks the reader for a format. The order matters: the encoding must be known before text is
// sniffed, and a JSON array becomes lines before its keys are read. whole says that the sample is the entire
// input.
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
		// Translate the sample as well, because newJSONSource looks for complete lines in it. An incomplete
		// last object ends in an error, which is expected unless the sample is the whole file.
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
		if in.size < 0 { // a stream: the sample is in front of it again, so translate from its beginning
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
		if !in.array && bytes.IndexByte(sample, '\r') >= 0 && bytes.IndexByte(sample, '\n') < 0 { // from old Macintoshes
			if in.encoding.wide() {
				return nil, inputError(in.name, "lines end with carriage returns alone, in UTF-16: save the file as UTF-8")
			}
			in.returns = true
			sample = bytes.ReplaceAll(sample, []byte{'\r'}, []byte{'\n'})
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

// Detect returns the format of a file, from its first bytes, then from its name. If r is not nil, it holds the
// contents; then Detect cannot look into zip archives, because their directory is at the end, and reports NPZ for them.
func Detect(path string, r io.Reader) (Format, error) {
	if r != nil {
		return input{name: path, size: -1}.detect(r)
	}
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

// foreign lists the first bytes of formats that are not supported, each with the way out for the message.
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

// detect decides by magic numbers first, then rejects binary data, then trusts the file name, and only then
// inspects the text. The name comes before the text, because a CSV file may well begin with a brace.
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
	// One percent: text exported by old programs has stray form feeds or escapes, binary data has about 11 %.
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

// controls counts the bytes that text does not contain in any supported single-byte encoding or in UTF-8.
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

// columnNames returns prefix1, prefix2, … for columns that have no names.
func columnNames(prefix string, n int) []string {
	names := make([]string, n)
	for j := range names {
		names[j] = fmt.Sprintf("%s%d", prefix, j+1)
	}
	return names
}

// checkNames refuses two columns of one name: schemas find columns by name, so one of them would silently win.
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

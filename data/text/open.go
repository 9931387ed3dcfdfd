package text

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/charset"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/internal/localfile"
)

// stream is an opened input. Plain files and memory also implement io.ReaderAt, which decides whether an input
// can be cut into blocks and read by several goroutines.
type stream = io.ReadCloser

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
	var head [raw.HeadBytes]byte
	if ok = ok && !in.array && !in.returns; ok {
		n, err := at.ReadAt(head[:], 0)
		ok = (err == nil || err == io.EOF) && raw.Compression(head[:n]) == ""
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
	r, err := raw.Decompress(in.name, s)
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

// Open prepares a text file for reading: it inspects the beginning to find the format, the delimiter and the columns.
// A
// pipe can be read only once. The error is a [data.ErrInput] for contents that cannot be read, and an error of package
// os for a file that cannot be opened.
func Open(path string, o data.Options) (data.Source, error) {
	if why := localfile.Remote(path); why != "" {
		return nil, raw.Errorf(path, "%s", why)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err // names the path
	}
	if info.IsDir() {
		return nil, raw.Errorf(path, "a directory, want a data file")
	}
	if !info.Mode().IsRegular() {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return OpenReader(path, f, o)
	}
	return OpenStream(path, info.Size(), func() (io.ReadCloser, error) { return os.Open(path) }, o)
}

// OpenBytes is Open for a table in memory; name is used in messages and for its extension.
func OpenBytes(name string, b []byte, o data.Options) (data.Source, error) {
	f := raw.Bytes(name, b)
	return OpenStream(name, f.Size, f.Open, o)
}

// OpenStream is Open for a file that open opens, once to inspect it and again for every reader. size is its length in
// bytes, 0 if it can be read from the beginning only. If what open returns implements io.ReaderAt and is not
// compressed, several goroutines read it.
func OpenStream(name string, size int64, open func() (io.ReadCloser, error), o data.Options) (data.Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	in := input{name: name, size: size, open: open}
	sample, whole, err := in.sample()
	if err != nil {
		return nil, err
	}
	return openSample(in, sample, whole, o)
}

// OpenReader is Open for a stream: the source can be opened once. The source's reader closes r if it is an io.Closer.
func OpenReader(name string, r io.Reader, o data.Options) (data.Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	in := input{name: name, size: -1}
	once, err := raw.Decompress(name, r)
	if err != nil {
		return nil, err
	}
	sample, whole, err := raw.Sample(once)
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
		return raw.Joined{Reader: io.MultiReader(bytes.NewReader(sample), once), Under: r}, nil
	}
	return openSample(in, sample, whole, o)
}

// wrap names the input in an error of reading.
func (in input) wrap(err error) error { return raw.Wrap(in.name, err) }

// sample returns the beginning of the text, and whether it is all of it.
func (in input) sample() (b []byte, whole bool, err error) {
	r, c, err := in.text()
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	if b, whole, err = raw.Sample(r); err != nil {
		err = in.wrap(err)
	}
	return b, whole, err
}

// openSample picks the reader for a format. The order matters: the encoding must be known before text is
// sniffed, and a JSON array becomes lines before its keys are read. whole says that the sample is the entire
// input.
func openSample(in input, sample []byte, whole bool, o data.Options) (data.Source, error) {
	if len(sample) == 0 {
		return nil, raw.Errorf(in.name, "the file is empty")
	}
	state, err := newEncodingState(sample, o)
	if err != nil {
		return nil, err
	}
	in.encoding = state
	format := o.Format
	if format == "" {
		if format, err = Detect(in.name, sample); err != nil {
			return nil, err
		}
	}
	if format == data.NDJSON && isJSONArray(sample) {
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
				return raw.Joined{Reader: newArrayLines(in, s), Under: s}, nil
			}, false
		}
	}
	if sample, err = in.encoding.decodeSample(in.name, sample, whole); err != nil {
		return nil, err
	}
	if !in.array && bytes.IndexByte(sample, '\r') >= 0 && bytes.IndexByte(sample, '\n') < 0 { // from old Macintoshes
		if in.encoding.wide() {
			return nil, raw.Errorf(in.name, "lines end with carriage returns alone, in UTF-16: save the file as UTF-8")
		}
		in.returns = true
		sample = bytes.ReplaceAll(sample, []byte{'\r'}, []byte{'\n'})
	}
	switch format {
	case data.CSV:
		return newCSVSource(in, sample, whole, o)
	case data.NDJSON:
		return newJSONSource(in, sample, whole, o)
	}
	return nil, fmt.Errorf("format %q of %s is no text: want csv or ndjson", format, in.name)
}

// foreign lists the first bytes of formats that are not supported, each with the way out for the message.
var foreign = []struct{ magic, what string }{
	{"PAR1", "a Parquet file: open it with the package data/parquet"},
	{"PK\x03\x04", "a zip archive: open it with the package data/files"},
	{"\xfd7zXZ\x00", "compressed by xz: decompress it, or compress it with gzip"},
	{"\x28\xb5\x2f\xfd", "compressed twice: decompress it"},
	{"ARROW1", "an Arrow or Feather file: write it as Parquet, for example by pandas.read_feather(…).to_parquet(…)"},
	{"FEA1", "a Feather file: write it as Parquet, for example by pandas.read_feather(…).to_parquet(…)"},
	{"\xff\xff\xff\xff", "an Arrow stream? Write it as Parquet"},
	{"\xd0\xcf\x11\xe0", "an old Excel file: save it as .xlsx or CSV"},
	{"SQLite format 3", "an SQLite database: export the table as CSV"},
	{"\x89HDF", "an HDF5 file: export it as CSV, npy or Parquet"},
}

// Detect returns the format of a text from its beginning. It rejects binary data first, then trusts the file name, and
// only then inspects the text: a CSV file may well begin with a brace.
func Detect(name string, head []byte) (data.Format, error) {
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return "", raw.Errorf(name, "%s", f.what)
		}
	}
	if e := charset.Sniff(head); e != nil {
		s := new(encodingState)
		s.is.Store(e)
		head, _ = s.decodeSample(name, head, false)
	}
	if i := bytes.IndexByte(head, 0); i >= 0 {
		return "", raw.Errorf(name, "byte %d is zero: neither text nor a format known here (CSV, NDJSON, npy, npz, Parquet)", i+1)
	}
	// One percent: text exported by old programs has stray form feeds or escapes, binary data has about 11 %.
	if n := controls(head); n > 1+len(head)/100 {
		return "", raw.Errorf(name, "%d of the first %d bytes are control characters: neither text nor a format known here (CSV, NDJSON, npy, npz, Parquet)", n, len(head))
	}
	switch data.FormatOf(name) {
	case data.NDJSON:
		return data.NDJSON, nil
	case data.CSV:
		return data.CSV, nil
	}
	t := bytes.TrimLeft(bytes.TrimPrefix(head, []byte(bom)), " \t\r\n")
	if len(t) == 0 {
		return data.CSV, nil
	}
	switch rest := bytes.TrimLeft(t[1:], " \t\r\n"); {
	case t[0] == '{' && (bytes.HasPrefix(rest, []byte(`"`)) || bytes.HasPrefix(rest, []byte("}"))):
		return data.NDJSON, nil
	case t[0] == '[' && bytes.HasPrefix(rest, []byte("{")):
		return data.NDJSON, nil
	case t[0] == '[' && bytes.HasPrefix(rest, []byte("[")):
		return "", raw.Errorf(name, "a JSON array of arrays: write an object for every row, with the names of the columns as keys")
	}
	return data.CSV, nil
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

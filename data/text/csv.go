package text

import (
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/internal/cell"
)

// csvSource is delimited text: fields may be quoted, with "" for a quote and line ends inside, as in RFC 4180.
// It accepts more than the RFC: any delimiter, blanks around fields (dropped), empty lines (skipped), and
// quotes inside an unquoted field (ordinary characters).
type csvSource struct {
	in      input
	o       data.Options // with Delimiter and Header resolved
	columns []string
	skip    int  // bytes of text before the first row: the header, a line that names the delimiter
	width   int  // bytes of the first record, to estimate rows per piece
	empty   bool // a header and no row
	blocks  *textBlocks
}

func newCSVSource(in input, sample []byte, whole bool, o data.Options) (data.Source, error) {
	line, delimiter := delimiterLine(sample)
	if line > 0 && o.Delimiter == 0 {
		o.Delimiter = delimiter
	}
	sniffCSV(in.name, sample[line:], whole, &o)
	s := &csvSource{in: in, o: o}
	// The first record may be longer than the sample, so it is read from the file itself. A stream cannot be
	// read twice; there the sample must contain it.
	first := in
	if in.size < 0 {
		if !whole && bytes.IndexByte(sample, '\n') < 0 {
			return nil, raw.Errorf(in.name, "the first line is longer than %d bytes, too long for a stream: write it to a file first", len(sample))
		}
		first = input{name: in.name, open: raw.Bytes("", sample).Open}
	}
	r, err := newCSVReader(first, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	err = nil
	if line > 0 {
		err = r.nextRecord()
		s.skip = int(r.consumed())
	}
	if err == nil {
		err = r.nextRecord()
	}
	switch {
	case err == io.EOF:
		return nil, raw.Errorf(in.name, "the file has no rows")
	case err != nil:
		return nil, err
	}
	place := r.place(0)
	cells, n, err := r.cells(o.MaxColumns)
	if err != nil {
		return nil, err
	}
	if err := raw.CheckWidth(place, n, o.MaxColumns); err != nil {
		return nil, err
	}
	// Unnamed columns get their number as a name, also inside a header.
	s.columns, s.width = raw.ColumnNames("c", n), r.n
	if *o.Header {
		s.skip = int(r.consumed())
		for j, c := range cells {
			if c != "" {
				s.columns[j] = c
			}
		}
		s.empty = r.nextRecord() == io.EOF
	}
	if err := raw.CheckNames(place, s.columns); err != nil {
		return nil, err
	}
	// Block boundaries count raw bytes, skip counts text without a byte order mark: add its length so that no
	// block starts inside the header.
	s.blocks, err = newTextBlocks(in, o, int64(s.skip+len(bom)), s.probe)
	return s, err
}

func (s *csvSource) Name() string      { return s.in.name }
func (s *csvSource) Columns() []string { return s.columns }
func (s *csvSource) Encoding() string  { return s.in.encoding.name() }

// NoRows reports that the file has a header and no rows.
func (s *csvSource) NoRows() bool { return s.empty }

// Resolved returns o with the delimiter and header that were found, so that opening the file again skips detection.
// Other files that are opened with the result must have the same layout. Tables of several files use it, so that all
// files are read alike.
func (s *csvSource) Resolved(o data.Options) data.Options {
	o.Delimiter, o.Header = s.o.Delimiter, s.o.Header
	return o
}

// TextEncoding serves [data.As].
func (s *csvSource) TextEncoding() string { return s.in.encoding.decided() }

// Blocks is the number of blocks that the file is cut into.
func (s *csvSource) Blocks() int { return s.blocks.n }

// Block returns a source of block i.
func (s *csvSource) Block(i int) (data.Source, error) { return s.block(i) }

func (s *csvSource) block(i int) (*csvSource, error) {
	if s.blocks.n == 1 && i == 0 {
		out := *s
		out.in.encoding = s.blocks.fresh()
		return &out, nil
	}
	in, lo, err := s.blocks.block(i)
	if err != nil {
		return nil, err
	}
	out := *s
	// A block is never cut again, and only the first block has a header to skip. An empty block (size 0) has
	// neither.
	out.in, out.blocks = in, &textBlocks{in: in, n: 1, text: s.blocks.text}
	if lo > 0 || in.size == 0 {
		out.skip = 0
	}
	return &out, nil
}

func (s *csvSource) Open(want []data.Kind) (data.Reader, error) {
	return openText(s, s.blocks, s.columns, want)
}

func (s *csvSource) open(kinds []data.Kind) (*textReader, error) {
	missing := data.NewMissingTexts(s.o.Missing)
	var q *quotes
	if !s.o.Literal {
		q = &quotes{s.o.Delimiter}
	}
	return newTextReader(s.in, s.o, s.columns, kinds, q, s.skip, s.width, func(l *lines) rows {
		return &csvReader{lines: l, columns: s.columns, want: kinds, missing: missing, delim: s.o.Delimiter,
			blank: s.o.Delimiter == ' ', literal: s.o.Literal, strict: s.o.Strict}
	})
}

// probe finds the first record in the text after some offset; see [textBlocks]. It parses the text twice, once
// as if the offset were outside quotes and once inside. The answer counts only if exactly one way gives records
// of the right width, or if both agree on where the next record begins.
func (s *csvSource) probe(text []byte, whole bool) (begin int, enough bool) {
	if s.o.Literal {
		if begin = bytes.IndexByte(text, '\n') + 1; begin == 0 {
			return -1, false
		}
		return begin, true
	}
	// Next to a quote, the offset may split a doubled quote, and both ways would misread it. Move past it.
	from := 1
	for from < len(text) && (text[from-1] == '"' || text[from] == '"') {
		from++
	}
	if from >= len(text) {
		return -1, false
	}
	out, good, bad := s.records(text[from:], whole)
	// An opening quote in front makes the parser start inside quotes.
	in, goodIn, badIn := s.records(append([]byte{'"'}, text[from:]...), whole)
	in--
	isOut, isIn := good > 0 && bad == 0, goodIn > 0 && badIn == 0
	switch {
	case isOut && (!isIn || in == out):
		return from + out, true
	case isIn && !isOut:
		return from + in, true
	}
	return -1, good+bad > 0 && goodIn+badIn > 0
}

// probeRecords is how many records probe parses each way. 32 records of the right number of fields by chance
// are practically impossible; the probe costs microseconds.
const probeRecords = 32

// records parses a text that starts in the middle of a record. It returns where that first record ends, how
// many of the following have a field for every column, and how many have not or cannot be read. Unless whole is
// set, the last record is not counted, because it may continue after the text.
func (s *csvSource) records(text []byte, whole bool) (end, good, bad int) {
	r, err := newCSVReader(input{name: s.in.name, size: int64(len(text)),
		open: raw.Bytes("", text).Open}, s.o)
	if err != nil {
		return 0, 0, 1
	}
	defer r.Close()
	for i := range probeRecords {
		if i == 0 {
			err = r.next() // the rest of the record may be empty, so do not skip empty lines
		} else {
			err = r.nextRecord()
		}
		if err != nil {
			break
		}
		_, n, err := r.cells(0)
		if !whole && r.eof && r.pos+r.n >= r.end {
			break
		}
		switch {
		case err != nil:
			return end, good, bad + 1
		case i == 0:
			end = int(r.consumed())
		case n == len(s.columns):
			good++
		default:
			bad++
		}
	}
	return end, good, bad
}

// csvReader parses the records that lines finds. It may extend the current record by more lines when a quote
// stays open.
type csvReader struct {
	*lines
	columns []string
	want    []data.Kind
	missing *data.MissingTexts
	delim   byte
	blank   bool // runs of blanks delimit
	literal bool
	strict  bool

	scratch []byte // a field with doubled quotes or line ends, rewritten; valid until the next field
}

func newCSVReader(in input, o data.Options) (*csvReader, error) {
	l, err := newLines(in, o.MaxLine)
	if err != nil {
		return nil, err
	}
	return &csvReader{lines: l, missing: data.NewMissingTexts(o.Missing), delim: o.Delimiter, blank: o.Delimiter == ' ',
		literal: o.Literal}, nil
}

// parseRow appends the next record to the block. After an error the block may hold a part of the row; the
// caller truncates it.
func (r *csvReader) parseRow(b *data.Block) error {
	if err := r.nextRecord(); err != nil {
		return err
	}
	return r.parse(b)
}

// nextRecord moves to the next line that is not empty. In a table of one column, a line of blanks is a row with
// an empty field, not an empty line.
func (r *csvReader) nextRecord() error {
	for {
		if err := r.next(); err != nil {
			return err
		}
		rec := r.record()
		if len(rec) == 0 || isBlank(rec[0]) && (r.blank || len(r.want) != 1) && r.onlyBlanks(rec) {
			continue
		}
		return nil
	}
}

// onlyBlanks reports whether a line is empty apart from blanks. Tabs in a tab-separated table are delimiters:
// such a line is a row of missing values.
func (r *csvReader) onlyBlanks(rec []byte) bool {
	return skipBlanks(rec, 0) == len(rec) && (r.blank || bytes.IndexByte(rec, r.delim) < 0)
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	return i
}

// ends reports whether byte i of rec ends a field: the end of the record, or a delimiter.
func (r *csvReader) ends(rec []byte, i int) bool {
	return i == len(rec) || rec[i] == r.delim || r.blank && rec[i] == '\t'
}

// parse appends the fields of the current record to the block. A plain number, the common case, is read
// directly from the record; everything else goes through cell, which handles quotes and blanks.
func (r *csvReader) parse(b *data.Block) error {
	rec, i := r.record(), 0
	if r.blank {
		i = skipBlanks(rec, 0)
	}
	last := len(r.want) - 1
	for j, kind := range r.want {
		col := &b.Cols[j]
		if kind == data.Number {
			if v, n, ok := cell.ScanNumber(rec[i:]); n > 0 && r.ends(rec, i+n) &&
				!(r.missing.Numbers() && r.missing.Has(rec[i:i+n])) {
				if !ok {
					v, ok = cell.ParseNumberSlowly(rec[i : i+n])
				}
				if ok {
					col.Num = append(col.Num, v)
					i += n
					goto next
				}
			}
		}
		{
			start := i
			text, end, err := r.cell(i)
			if err != nil {
				return err
			}
			rec, i = r.record(), end // r.cell may have extended the record, and the buffer may have moved
			switch kind {
			case data.Text:
				if r.missing.Has(text) {
					text = nil
				}
				b.AppendText(j, text)
			case data.Number:
				if text = cell.TrimBlanks(text); r.missing.Has(text) {
					col.Num = append(col.Num, math.NaN())
				} else if col.AppendNumber(text); r.strict && col.Unreadable(len(col.Num)-1) {
					return raw.ColumnErrorf(r.place(start), r.columns[j], data.ErrUnreadable,
						"column %s is %s, want a number",
						cell.Quote(r.columns[j]), cell.Quote(text))
				}
			}
		}
	next:
		if r.blank {
			i = skipBlanks(rec, i)
		}
		if j == last {
			break
		}
		if i == len(rec) {
			return r.ragged(i)
		}
		if !r.blank {
			i++
		}
	}
	if i != len(rec) {
		return r.ragged(i)
	}
	return nil
}

// ragged reports a record with the wrong number of fields; off is the byte at which the fields ran out or were
// too many.
func (r *csvReader) ragged(off int) error {
	place := r.place(off)
	_, n, err := r.cells(0)
	if err != nil {
		return err
	}
	return raw.Errorf(place, "the row has %d fields, want %d as in the first row", n, len(r.columns))
}

// cell reads the field at offset i of the record, resolves quotes, and returns the offset of the delimiter
// after it. The record may have grown by the lines inside the quotes: callers must call record again.
func (r *csvReader) cell(i int) (text []byte, end int, err error) {
	rec := r.record()
	if !r.literal {
		s := i
		for s < len(rec) && isBlank(rec[s]) && rec[s] != r.delim {
			s++
		}
		if s < len(rec) && rec[s] == '"' {
			return r.quoted(s)
		}
	}
	end = len(rec)
	if r.blank {
		for k, c := range rec[i:] {
			if isBlank(c) {
				end = i + k
				break
			}
		}
		return rec[i:end], end, nil
	}
	if k := bytes.IndexByte(rec[i:], r.delim); k >= 0 {
		end = i + k
	}
	return cell.TrimBlanks(rec[i:end]), end, nil
}

// quoted reads the field whose opening quote is at offset i. The field stays in the record unless it has
// doubled quotes or line ends; then it is copied to scratch.
func (r *csvReader) quoted(i int) (text []byte, end int, err error) {
	rec := r.record()
	r.scratch = r.scratch[:0]
	span := r.span
	for q, from := i+1, i+1; ; { // bytes from q on are not yet in scratch; there is no quote between q and from
		k := bytes.IndexByte(rec[from:], '"')
		if k < 0 {
			from = len(rec)
			switch err := r.extend(); {
			case err == io.EOF:
				return nil, 0, quoteError(r.place(i), "the quote is not closed")
			case err != nil:
				return nil, 0, err
			}
			rec = r.record()
			continue
		}
		end = from + k + 1
		if end < len(rec) && rec[end] == '"' { // an escaped quote
			r.scratch = append(r.scratch, rec[q:end]...)
			q, from = end+1, end+1
			continue
		}
		text = rec[q : end-1]
		// extend may have moved the buffer, so after it the field must be copied, too.
		if len(r.scratch) > 0 || r.span != span {
			r.scratch = append(r.scratch, text...)
			text = r.scratch
		}
		break
	}
	if r.span != span { // line ends become \n, as in encoding/csv
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	for end < len(rec) && isBlank(rec[end]) && rec[end] != r.delim {
		end++
	}
	if !r.ends(rec, end) && !(r.blank && isBlank(rec[max(end-1, 0)])) {
		return nil, 0, quoteError(r.place(end), "text follows the closing quote")
	}
	return text, end, nil
}

// ErrQuotes marks errors about quotes in CSV. [data.Options].Literal may avoid them.
var ErrQuotes = errors.New("wrong quotes")

func quoteError(place, detail string) error {
	return &data.InputError{Place: place, Err: ErrQuotes,
		Detail: detail + ": double quotes inside a quoted field, or read quotes as ordinary characters"}
}

// cells returns copies of the fields of the current record, at most limit of them, and the number of all
// fields.
func (r *csvReader) cells(limit int) (cells []string, n int, err error) {
	i := 0
	if r.blank {
		i = skipBlanks(r.record(), 0)
	}
	for {
		text, end, err := r.cell(i)
		if err != nil {
			return nil, 0, err
		}
		if n++; n <= limit {
			cells = append(cells, string(text))
		}
		i = end
		if r.blank {
			i = skipBlanks(r.record(), i)
		}
		if i >= len(r.record()) {
			return cells, n, nil
		}
		if !r.blank {
			i++
		}
	}
}

package sheet

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/internal/cell"
)

// Part exists in every workbook, and in no other archive.
const Part = "xl/workbook.xml"

// Bounds on workbooks besides those on their XML. A small archive can expand to any amount of text, so sizes are
// checked while reading, not from the directory, which may lie.
const (
	maxShared      = 192 << 20 // bytes of the texts that cells share, which are held in memory
	maxStyles      = 1 << 16   // styles of cells; the format has no more
	maxRuns        = 1 << 15   // runs of different formatting in a text: the characters that a cell may hold
	maxSheetColumn = 1 << 14   // columns; the format has no more
	maxSheetRow    = 1 << 20   // rows; the format has no more
	maxRowBytes    = 16 << 20  // text of a row, which is held in memory
)

// sheet describes the first sheet of a workbook. Cells refer to shared texts by index. Dates are numbers whose
// style has a date format, counted in days from an epoch.
type sheet struct {
	in     file
	part   string // its name in the archive
	shared sharedTexts
	dates  []bool // whether a style has a date format
	epoch  time.Time
}

// file adds the names of files to errors.
type file struct{ raw.File }

func (f file) wrap(err error) error { return raw.Wrap(f.Name, err) }

// Open reads the first sheet, converted to CSV while it is read. open must return files that implement io.ReaderAt.
func Open(name string, size int64, open func() (io.ReadCloser, error), o data.Options) (data.Source, error) {
	s, err := (file{raw.File{Name: name, Size: size, Open: open}}).openSheet()
	if err != nil {
		return nil, err
	}
	o.Format, o.Delimiter, o.Literal, o.Encoding = data.CSV, ',', false, "utf-8"
	return text.OpenStream(name, 0, s.lines, o)
}

// openSheet reads the parts of a workbook that the first sheet depends on: the relations that locate it, the
// styles and the shared texts.
func (in file) openSheet() (*sheet, error) {
	z, c, err := in.Zip()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	// Day 1 of the format is 1900-01-01, but it counts a 29 February 1900 that never was; 1899-12-30 is right
	// from March 1900 on.
	s := &sheet{in: in, epoch: time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)}
	bound, id := newExpansion(in.Size), ""
	err = in.elements(z, Part, bound, func(x *xmlReader) error {
		switch {
		case x.depth() == 2 && string(x.name) == "workbookPr":
			if v := string(x.attr("date1904")); v == "1" || v == "true" {
				s.epoch = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
			}
		case id == "" && x.is(1, "sheets") && x.depth() == 3 && string(x.name) == "sheet":
			id = string(x.prefixedAttr("id"))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = in.elements(z, "xl/_rels/workbook.xml.rels", bound, func(x *xmlReader) error {
		if string(x.name) != "Relationship" || string(x.attr("Id")) != id {
			return nil
		}
		target := string(x.attr("Target"))
		if s.part = path.Join("xl", target); strings.HasPrefix(target, "/") {
			s.part = target[1:]
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case id == "":
		return nil, raw.Errorf(in.Name, "a workbook without sheets")
	case find(z, s.part) == nil:
		return nil, raw.Errorf(in.Name, "the workbook has no part for its first sheet")
	}
	if err := s.readStyles(z, bound); err != nil {
		return nil, err
	}
	return s, s.readShared(z, bound)
}

func find(z *zip.Reader, name string) *zip.File {
	for _, f := range z.File {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// elements calls f at every start tag of a part of the workbook.
func (in file) elements(z *zip.Reader, name string, bound *expansion, f func(*xmlReader) error) error {
	part := find(z, name)
	if part == nil {
		return raw.Errorf(in.Name, "not a whole workbook: %s is missing", name)
	}
	r, err := part.Open()
	if err != nil {
		return in.wrap(raw.Damaged{Err: err})
	}
	defer r.Close()
	for x := newXMLReader(r, bound); err == nil; {
		var token xmlToken
		if token, err = x.next(); err == nil && token == startTag {
			err = f(x)
		}
	}
	if err == io.EOF {
		return nil
	}
	return in.wrapXML(err)
}

// wrapXML makes an error of reading a part an InputError.
func (in file) wrapXML(err error) error {
	var limit limitError
	if errors.As(err, &limit) {
		return raw.Errorf(in.Name, "%s", limit.detail)
	}
	return in.wrap(raw.Damaged{Err: err})
}

// readStyles finds the styles with date formats: the built-in formats 14 to 22 and 45 to 47 (ECMA-376 part 1,
// 18.8.30), and formats of the workbook that show days or hours.
func (s *sheet) readStyles(z *zip.Reader, bound *expansion) error {
	const part = "xl/styles.xml"
	if find(z, part) == nil {
		return nil
	}
	dates := map[int]bool{}
	return s.in.elements(z, part, bound, func(x *xmlReader) error {
		format, cell := x.is(1, "numFmts") && string(x.name) == "numFmt", x.is(1, "cellXfs") && string(x.name) == "xf"
		if x.depth() != 3 || !format && !cell {
			return nil
		}
		if len(dates) == maxStyles || len(s.dates) == maxStyles {
			return limitError{fmt.Sprintf("more than %d styles or formats in the workbook", maxStyles)}
		}
		id, err := x.number("numFmtId")
		if err != nil {
			return err
		}
		if format {
			dates[id] = isDateFormat(string(x.attr("formatCode")))
			return nil
		}
		own, named := dates[id]
		builtIn := 14 <= id && id <= 22 || 45 <= id && id <= 47
		s.dates = append(s.dates, own || !named && builtIn)
		return nil
	})
}

// isDateFormat reports whether a number format shows days, months, years, hours or seconds. Letters in quotes
// or brackets, or after a backslash, are literal text.
func isDateFormat(code string) bool {
	quoted, bracket := false, false
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case !bracket && strings.IndexByte("dDmMyYhHsS", c) >= 0:
			return true
		}
	}
	return false
}

// readShared reads the texts that cells share.
func (s *sheet) readShared(z *zip.Reader, bound *expansion) error {
	const part = "xl/sharedStrings.xml"
	if find(z, part) == nil {
		return nil
	}
	var text []byte
	total := 0
	return s.in.elements(z, part, bound, func(x *xmlReader) (err error) {
		if string(x.name) != "si" {
			return nil
		}
		if text, err = x.richText(text[:0]); err != nil {
			return err
		}
		if total += len(text) + sharedOverhead; total > maxShared {
			return limitError{fmt.Sprintf("more than %d MiB of texts in the workbook: save the sheet as CSV", maxShared>>20)}
		}
		s.shared.add(string(text))
		return nil
	})
}

// sharedTexts is a list of texts in parts of equal size, so that growing it copies nothing.
type sharedTexts struct {
	parts [][]string
	n     int
}

const (
	sharedPart     = 1 << 12
	sharedOverhead = 32 // bytes of memory of a text besides its own: its place in the list, and rounding
)

func (s *sharedTexts) add(text string) {
	if s.n%sharedPart == 0 {
		s.parts = append(s.parts, make([]string, 0, sharedPart))
	}
	last := len(s.parts) - 1
	s.parts[last] = append(s.parts[last], text)
	s.n++
}

func (s *sharedTexts) at(i int) string { return s.parts[i/sharedPart][i%sharedPart] }

// richText appends the text of the element whose start tag was read last: its t, or those of its runs. The sounds
// of the text, which East Asian workbooks have besides it (rPh), are left out.
func (x *xmlReader) richText(to []byte) ([]byte, error) {
	base, runs := x.depth(), 0
	for {
		token, err := x.next()
		switch {
		case err != nil:
			return to, err
		case token == endTag && x.depth() < base:
			return to, nil
		case token == startTag && string(x.name) == "rPh":
			err = x.skip()
		case token == startTag && string(x.name) == "r":
			if runs++; runs > maxRuns {
				err = limitError{fmt.Sprintf("a text of more than %d runs in the workbook", maxRuns)}
			}
		case token == characters && x.is(x.depth()-1, "t"):
			to, err = appendText(to, x.text)
		}
		if err != nil {
			return to, err
		}
	}
}

// content appends the characters of the element whose start tag was read last.
func (x *xmlReader) content(to []byte) ([]byte, error) {
	for base := x.depth(); ; {
		token, err := x.next()
		if err == nil && token == characters {
			to, err = appendText(to, x.text)
		}
		if err != nil || token == endTag && x.depth() < base {
			return to, err
		}
	}
}

func appendText(to, text []byte) ([]byte, error) {
	if len(to)+len(text) > maxXMLPiece {
		return to, limitError{fmt.Sprintf("a text of more than %d bytes in the workbook", maxXMLPiece)}
	}
	return append(to, text...), nil
}

// sheetCell is a <c> element (ECMA-376 part 1, 18.3.1.4).
type sheetCell struct {
	place, kind   []byte
	style         int
	value, inline []byte
}

// read reads the element whose start tag was read last.
func (c *sheetCell) read(x *xmlReader) (err error) {
	c.place, c.kind = append(c.place[:0], x.attr("r")...), append(c.kind[:0], x.attr("t")...)
	if c.style, err = x.number("s"); err != nil {
		return err
	}
	c.value, c.inline = c.value[:0], c.inline[:0]
	for base := x.depth(); ; {
		token, err := x.next()
		switch {
		case err == nil && token == endTag && x.depth() < base:
			return nil
		case err != nil || token != startTag:
		case string(x.name) == "v":
			c.value, err = x.content(c.value[:0])
		case string(x.name) == "is":
			c.inline, err = x.richText(c.inline[:0])
		default:
			err = x.skip()
		}
		if err != nil {
			return err
		}
	}
}

// text returns a cell as CSV would have it.
func (s *sheet) text(c *sheetCell) (string, error) {
	switch string(c.kind) {
	case "s":
		i, err := strconv.Atoi(string(c.value))
		if err != nil || i < 0 || i >= s.shared.n {
			return "", raw.Errorf(s.in.Name, "cell %s refers to text %s of %d", cell.Quote(c.place),
				cell.Quote(c.value), s.shared.n)
		}
		return s.shared.at(i), nil
	case "inlineStr":
		return string(c.inline), nil
	case "b":
		return strconv.FormatBool(string(c.value) == "1"), nil
	case "", "n":
		if v, err := strconv.ParseFloat(string(c.value), 64); err == nil && 0 <= c.style && c.style < len(s.dates) &&
			// Up to 3e6 days, about the year 10113; larger numbers are no dates.
			s.dates[c.style] && 0 <= v && v < 3e6 {
			seconds := math.Round(v * 86400)
			t := s.epoch.Add(time.Duration(seconds) * time.Second)
			// A fraction of a day is a time of day without a date.
			if v < 1 {
				return t.Format("15:04:05"), nil
			}
			if math.Mod(seconds, 86400) == 0 {
				return t.Format("2006-01-02"), nil
			}
			return t.Format("2006-01-02T15:04:05"), nil
		}
	}
	return string(c.value), nil // numbers, errors such as #N/A, results of formulas
}

// columnOf returns the column, from 0, of a cell reference such as AB12; -1 if it has none. Four letters are
// more than the format allows, so n cannot overflow.
func columnOf(place []byte) int {
	n := 0
	for i := 0; i < len(place) && i < 4; i++ {
		c := place[i] | 0x20
		if c < 'a' || c > 'z' {
			break
		}
		n = 26*n + int(c-'a') + 1
	}
	return n - 1
}

// sheetLines converts a sheet to CSV while it is read. Row n of the sheet becomes line n, so that messages name
// the row.
type sheetLines struct {
	s      *sheet
	x      *xmlReader
	bound  *expansion // of the CSV: cells may share one long text
	c      io.Closer
	cell   sheetCell
	cells  []string
	width  int // cells of the longest row so far
	row    int // number of the last line
	out    []byte
	all    []byte
	err    error
	closer io.Closer
}

// lines opens the sheet as a stream of CSV.
func (s *sheet) lines() (io.ReadCloser, error) {
	z, c, err := s.in.Zip()
	if err != nil {
		return nil, err
	}
	f := find(z, s.part)
	if f == nil {
		c.Close()
		return nil, raw.Errorf(s.in.Name, "the file has changed since it was opened")
	}
	r, err := f.Open()
	if err != nil {
		c.Close()
		return nil, s.in.wrap(raw.Damaged{Err: err})
	}
	return &sheetLines{s: s, c: r, closer: c, x: newXMLReader(r, newExpansion(s.in.Size)),
		bound: newExpansion(s.in.Size)}, nil
}

func (l *sheetLines) Close() error { return errors.Join(l.c.Close(), l.closer.Close()) }

func (l *sheetLines) Read(p []byte) (int, error) {
	for len(l.out) == 0 && l.err == nil {
		l.err = l.next()
		l.out = l.all
	}
	if len(l.out) == 0 {
		return 0, l.err
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

// next writes the next row to all.
func (l *sheetLines) next() error {
	l.all = l.all[:0]
	for {
		token, err := l.x.next()
		if err == io.EOF {
			return io.EOF
		}
		if err != nil {
			return l.s.in.wrapXML(err)
		}
		if token != startTag || string(l.x.name) != "row" {
			continue
		}
		row := l.row + 1
		place, err := l.x.number("r")
		if err != nil {
			return l.s.in.wrapXML(err)
		}
		if place != 0 {
			row = place
		}
		if row <= l.row || row > maxSheetRow {
			return raw.Errorf(l.s.in.Name, "row %d of the sheet follows row %d", row, l.row)
		}
		if err := l.readRow(row); err != nil {
			return err
		}
		// Rows that the sheet leaves out become empty lines, which keeps the numbering. maxSheetRow bounds how
		// many.
		for ; l.row < row-1; l.row++ {
			l.all = append(l.all, '\n')
		}
		l.write()
		l.row = row
		if err := l.bound.take(len(l.all) + elementCost*len(l.cells)); err != nil {
			return l.s.in.wrapXML(err)
		}
		return nil
	}
}

// readRow reads the cells up to the end of the row.
func (l *sheetLines) readRow(row int) error {
	l.cells = l.cells[:0]
	size := 0
	for base := l.x.depth(); ; {
		token, err := l.x.next()
		switch {
		case err == nil && token == endTag && l.x.depth() < base:
			return nil
		case err == nil && token == startTag && string(l.x.name) == "c":
			err = l.cell.read(l.x)
		case err == nil:
			continue
		}
		if err != nil {
			return l.s.in.wrapXML(err)
		}
		at := columnOf(l.cell.place)
		if at < 0 {
			at = len(l.cells)
		}
		if at < len(l.cells) || at >= maxSheetColumn {
			return raw.Errorf(l.s.in.Name, "cell %s of the sheet is out of order", cell.Quote(l.cell.place))
		}
		for len(l.cells) < at {
			l.cells = append(l.cells, "")
		}
		text, err := l.s.text(&l.cell)
		if err != nil {
			return err
		}
		if size += len(text); size > maxRowBytes {
			return raw.Errorf(l.s.in.Name, "row %d of the sheet has more than %d bytes of text", row, maxRowBytes)
		}
		l.cells = append(l.cells, text)
	}
}

// write appends the cells as a line of CSV. A row of a sheet ends at its last cell, so short rows are padded to
// the longest row so far, and empty cells beyond it are cut. All texts are quoted; line ends in them become
// blanks.
func (l *sheetLines) write() {
	for len(l.cells) > 0 && l.cells[len(l.cells)-1] == "" && len(l.cells) > l.width {
		l.cells = l.cells[:len(l.cells)-1]
	}
	empty := true
	for _, c := range l.cells {
		empty = empty && c == ""
	}
	if empty {
		l.all = append(l.all, '\n')
		return
	}
	for l.width = max(l.width, len(l.cells)); len(l.cells) < l.width; {
		l.cells = append(l.cells, "")
	}
	for j, c := range l.cells {
		if j > 0 {
			l.all = append(l.all, ',')
		}
		if c == "" {
			continue
		}
		l.all = append(l.all, '"')
		for i := 0; i < len(c); i++ {
			switch c[i] {
			case '"':
				l.all = append(l.all, '"', '"')
			case '\n', '\r', 0:
				l.all = append(l.all, ' ') // one line for every row
			default:
				l.all = append(l.all, c[i])
			}
		}
		l.all = append(l.all, '"')
	}
	l.all = append(l.all, '\n')
}

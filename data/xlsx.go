package data

import (
	"archive/zip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat/internal/quote"
)

// workbookPart exists in every workbook of the format .xlsx (ECMA-376, Office Open XML).
const workbookPart = "xl/workbook.xml"

// Bounds on workbooks. A small archive can expand to any amount of text, so sizes are checked while reading,
// not from the directory, which may lie.
const (
	maxSheetBytes  = 4 << 30   // XML of a sheet, which is streamed
	maxSharedBytes = 256 << 20 // texts that cells share, which are held in memory
	maxSheetColumn = 1 << 14   // columns; the format has no more
	maxSheetRow    = 1 << 20   // rows; the format has no more
	maxPartBytes   = 16 << 20  // the other parts, which are decoded as a whole
)

// sheet describes the first sheet of a workbook. Cells refer to shared texts by index. Dates are numbers whose
// style has a date format, counted in days from an epoch.
type sheet struct {
	in     input
	part   string // its name in the archive
	shared []string
	dates  []bool // whether a style has a date format
	epoch  time.Time
}

// openSheet reads the parts of a workbook that the first sheet depends on: the relations that locate it, the
// styles and the shared texts.
func (in input) openSheet() (*sheet, error) {
	z, c, err := in.openZip()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	// Day 1 of the format is 1900-01-01, but it counts a 29 February 1900 that never was; 1899-12-30 is right
	// from March 1900 on.
	s := &sheet{in: in, epoch: time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)}
	var book struct {
		Properties struct {
			Date1904 string `xml:"date1904,attr"`
		} `xml:"workbookPr"`
		Sheets []struct {
			ID string `xml:"http://schemas.openxmlformats.org/officeDocument/2006/relationships id,attr"`
		} `xml:"sheets>sheet"`
	}
	var relations struct {
		List []struct {
			ID     string `xml:"Id,attr"`
			Target string `xml:"Target,attr"`
		} `xml:"Relationship"`
	}
	if err := in.part(z, workbookPart, &book); err != nil {
		return nil, err
	}
	if err := in.part(z, "xl/_rels/workbook.xml.rels", &relations); err != nil {
		return nil, err
	}
	if len(book.Sheets) == 0 {
		return nil, inputError(in.name, "a workbook without sheets")
	}
	if v := book.Properties.Date1904; v == "1" || v == "true" {
		s.epoch = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	for _, r := range relations.List {
		if r.ID == book.Sheets[0].ID {
			if s.part = path.Join("xl", r.Target); strings.HasPrefix(r.Target, "/") {
				s.part = r.Target[1:]
			}
		}
	}
	if find(z, s.part) == nil {
		return nil, inputError(in.name, "the workbook has no part for its first sheet")
	}
	if err := s.readStyles(z); err != nil {
		return nil, err
	}
	return s, s.readShared(z)
}

func find(z *zip.Reader, name string) *zip.File {
	for _, f := range z.File {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// part decodes a small part of the workbook as XML.
func (in input) part(z *zip.Reader, name string, to any) error {
	f := find(z, name)
	if f == nil {
		return inputError(in.name, "not a whole workbook: %s is missing", name)
	}
	r, err := f.Open()
	if err != nil {
		return in.wrap(damaged{err})
	}
	defer r.Close()
	limited := &io.LimitedReader{R: r, N: maxPartBytes}
	if err := xml.NewDecoder(limited).Decode(to); err != nil {
		if limited.N == 0 {
			return inputError(in.name, "%s has more than %d bytes", name, maxPartBytes)
		}
		return in.wrap(damaged{fmt.Errorf("%s: %w", name, err)})
	}
	return nil
}

// readStyles finds the styles with date formats: the built-in formats 14 to 22 and 45 to 47 (ECMA-376 part 1,
// 18.8.30), and formats of the workbook that show days or hours.
func (s *sheet) readStyles(z *zip.Reader) error {
	const part = "xl/styles.xml"
	if find(z, part) == nil {
		return nil
	}
	var styles struct {
		Formats []struct {
			ID   int    `xml:"numFmtId,attr"`
			Code string `xml:"formatCode,attr"`
		} `xml:"numFmts>numFmt"`
		Cells []struct {
			Format int `xml:"numFmtId,attr"`
		} `xml:"cellXfs>xf"`
	}
	if err := s.in.part(z, part, &styles); err != nil {
		return err
	}
	dates := map[int]bool{}
	for _, f := range styles.Formats {
		dates[f.ID] = isDateFormat(f.Code)
	}
	for _, c := range styles.Cells {
		own, named := dates[c.Format]
		builtIn := 14 <= c.Format && c.Format <= 22 || 45 <= c.Format && c.Format <= 47
		s.dates = append(s.dates, own || !named && builtIn)
	}
	return nil
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
func (s *sheet) readShared(z *zip.Reader) error {
	f := find(z, "xl/sharedStrings.xml")
	if f == nil {
		return nil
	}
	r, err := f.Open()
	if err != nil {
		return s.in.wrap(damaged{err})
	}
	defer r.Close()
	// Markup takes space besides the texts, hence four times the bound on texts.
	d := xml.NewDecoder(&io.LimitedReader{R: r, N: 4 * maxSharedBytes})
	total := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return s.in.wrap(damaged{err})
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "si" {
			var text richText
			if err := d.DecodeElement(&text, &e); err != nil {
				return s.in.wrap(damaged{err})
			}
			all := text.String()
			if total += len(all) + 16; total > maxSharedBytes {
				return inputError(s.in.name, "more than %d MiB of texts in the workbook: save the sheet as CSV",
					maxSharedBytes>>20)
			}
			s.shared = append(s.shared, all)
		}
	}
}

// richText is a text, either whole or in parts of different formatting.
type richText struct {
	Text  string `xml:"t"`
	Parts []struct {
		Text string `xml:"t"`
	} `xml:"r"`
}

func (t richText) String() string {
	all := t.Text
	for _, p := range t.Parts {
		all += p.Text
	}
	return all
}

// sheetCell is a <c> element (ECMA-376 part 1, 18.3.1.4).
type sheetCell struct {
	Place  string   `xml:"r,attr"`
	Type   string   `xml:"t,attr"`
	Style  int      `xml:"s,attr"`
	Value  string   `xml:"v"`
	Inline richText `xml:"is"`
}

// text returns a cell as CSV would have it.
func (s *sheet) text(c *sheetCell) (string, error) {
	switch c.Type {
	case "s":
		i, err := strconv.Atoi(c.Value)
		if err != nil || i < 0 || i >= len(s.shared) {
			return "", inputError(s.in.name, "cell %s refers to text %s of %d", quote.Short(c.Place),
				quote.Short(c.Value), len(s.shared))
		}
		return s.shared[i], nil
	case "inlineStr":
		return c.Inline.String(), nil
	case "b":
		return strconv.FormatBool(c.Value == "1"), nil
	case "", "n":
		if v, err := strconv.ParseFloat(c.Value, 64); err == nil && 0 <= c.Style && c.Style < len(s.dates) &&
			// Up to 3e6 days, about the year 10113; larger numbers are no dates.
			s.dates[c.Style] && 0 <= v && v < 3e6 {
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
	return c.Value, nil // numbers, errors such as #N/A, results of formulas
}

// columnOf returns the column, from 0, of a cell reference such as AB12; -1 if it has none. Four letters are
// more than the format allows, so n cannot overflow.
func columnOf(place string) int {
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
	d      *xml.Decoder
	limit  *io.LimitedReader
	c      io.Closer
	cells  []string
	width  int // cells of the longest row so far
	row    int // number of the last line
	out    []byte
	all    []byte
	err    error
	closer io.Closer
}

// lines opens the sheet as a stream of CSV.
func (s *sheet) lines() (stream, error) {
	z, c, err := s.in.openZip()
	if err != nil {
		return nil, err
	}
	f := find(z, s.part)
	if f == nil {
		c.Close()
		return nil, inputError(s.in.name, "the file has changed since it was opened")
	}
	r, err := f.Open()
	if err != nil {
		c.Close()
		return nil, s.in.wrap(damaged{err})
	}
	l := &sheetLines{s: s, c: r, closer: c, limit: &io.LimitedReader{R: r, N: maxSheetBytes}}
	l.d = xml.NewDecoder(l.limit)
	return l, nil
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
		token, err := l.d.Token()
		if err == io.EOF && l.limit.N > 0 {
			return io.EOF
		}
		if err != nil {
			if l.limit.N == 0 {
				return inputError(l.s.in.name, "more than %d GiB in the sheet: save it as CSV", maxSheetBytes>>30)
			}
			return l.s.in.wrap(damaged{err})
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "row" {
			continue
		}
		row := l.row + 1
		for _, a := range e.Attr {
			if n, err := strconv.Atoi(a.Value); a.Name.Local == "r" && err == nil {
				row = n
			}
		}
		if row <= l.row || row > maxSheetRow {
			return inputError(l.s.in.name, "row %d of the sheet follows row %d", row, l.row)
		}
		if err := l.readRow(); err != nil {
			return err
		}
		// Rows that the sheet leaves out become empty lines, which keeps the numbering. maxSheetRow bounds how
		// many.
		for ; l.row < row-1; l.row++ {
			l.all = append(l.all, '\n')
		}
		l.write()
		l.row = row
		return nil
	}
}

// readRow reads the cells up to the end of the row.
func (l *sheetLines) readRow() error {
	l.cells = l.cells[:0]
	for {
		token, err := l.d.Token()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return l.s.in.wrap(damaged{err})
		}
		switch e := token.(type) {
		case xml.EndElement:
			if e.Name.Local == "row" {
				return nil
			}
		case xml.StartElement:
			if e.Name.Local != "c" {
				continue
			}
			var c sheetCell
			if err := l.d.DecodeElement(&c, &e); err != nil {
				return l.s.in.wrap(damaged{err})
			}
			at := columnOf(c.Place)
			if at < 0 {
				at = len(l.cells)
			}
			if at < len(l.cells) || at >= maxSheetColumn {
				return inputError(l.s.in.name, "cell %s of the sheet is out of order", quote.Short(c.Place))
			}
			for len(l.cells) < at {
				l.cells = append(l.cells, "")
			}
			text, err := l.s.text(&c)
			if err != nil {
				return err
			}
			l.cells = append(l.cells, text)
		}
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

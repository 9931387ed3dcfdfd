package data

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/par"
)

// Encoder turns blocks of one table into numbers, as a schema says. Create it with [Schema.Encoder], set
// options, pass Kinds to the source, then call Encode for each block.
type Encoder struct {
	schema  *Schema
	columns []string
	kinds   []Kind
	fields  []int // column of each field
	targets []int // column of each target; nil if not needed
	ids     []int
	levels  []map[string]int
	classes []map[string]int

	watch     *Watch
	constants []int // columns that were constant in training, if they are watched
	limit     bool
	readable  bool
	seen      []bool // fields that had a readable value so far, if they are watched
}

// Readable makes a value that cannot be parsed, such as a word among numbers, an error of kind [ErrUnreadable].
// Without it, the value counts as missing.
func (e *Encoder) Readable() { e.readable = true }

// Limit makes numbers outside the range of the training rows count as the nearest end of that range, in rows encoded
// from now on. A kernel machine knows nothing outside its data, and a wide kernel can grow there without bound. Times
// are exempt, so that a trend continues, and so are fields without a known range.
func (e *Encoder) Limit() { e.limit = true }

// Encoder matches the columns of a table with the schema, by name. Every field must be present, and every
// target if needTarget is set. Identifiers, ignored columns and other targets may be present. Any other column
// is an error of kind [ErrSchema], because it may be a renamed field.
func (s *Schema) Encoder(columns []string, needTarget bool) (*Encoder, error) {
	const known, id = -1, -2                    // known: allowed and not read
	role := make(map[string]int, len(s.Fields)) // or the number of a field
	for i := range s.Fields {
		role[s.Fields[i].Name] = i
	}
	for i := range s.Targets {
		role[s.Targets[i].Name] = known
	}
	for _, n := range s.IDs {
		role[n] = id
	}
	for _, n := range s.Ignored {
		role[n] = known
	}
	e := &Encoder{schema: s, columns: columns, kinds: make([]Kind, len(columns)), fields: make([]int, len(s.Fields)),
		levels: make([]map[string]int, len(s.Fields))}
	at := make(map[string]int, len(columns))
	var unknown, twice, missing []string
	for j, c := range columns {
		if _, ok := at[c]; ok {
			twice = append(twice, c)
			continue
		}
		at[c] = j
		e.kinds[j] = Skip
		r, ok := role[c]
		switch {
		case !ok:
			unknown = append(unknown, c)
		case r == id:
			e.kinds[j] = Text
			e.ids = append(e.ids, j)
		case r >= 0:
			e.kinds[j] = Number
			// Typed and styled values need the text of the cell.
			if s.Fields[r].Kind != Numeric || s.Fields[r].Format != "" {
				e.kinds[j] = Text
			}
			e.fields[r] = j
		}
	}
	for i := range s.Fields {
		if _, ok := at[s.Fields[i].Name]; !ok {
			missing = append(missing, s.Fields[i].Name)
		}
	}
	if needTarget {
		for i := range s.Targets {
			j, ok := at[s.Targets[i].Name]
			if !ok {
				missing = append(missing, s.Targets[i].Name)
				continue
			}
			e.kinds[j] = Number
			if len(s.Targets[i].Classes) > 0 || s.Targets[i].Format != "" {
				e.kinds[j] = Text
			}
			e.targets = append(e.targets, j)
			e.classes = append(e.classes, index(s.Targets[i].Classes))
		}
	}
	switch {
	case len(twice) > 0:
		return nil, schemaError("columns that come twice: %s", cell.QuoteList(twice))
	case len(missing) > 0 && len(unknown) > 0:
		return nil, schemaError("columns missing: %s; unknown: %s", cell.QuoteList(missing), cell.QuoteList(unknown))
	case len(missing) > 0:
		return nil, schemaError("columns missing: %s", cell.QuoteList(missing))
	case len(unknown) > 0:
		return nil, &SchemaError{Detail: "columns unknown when the schema was learned: " + cell.QuoteList(unknown),
			Remedy: "remove them"}
	}
	for i := range s.Fields {
		if s.Fields[i].Kind == Categorical {
			e.levels[i] = index(s.Fields[i].Levels)
		}
	}
	return e, nil
}

// index maps texts to their position. It also finds codes such as 01 by the number that they spell, because
// other formats store it as 1, unless two codes spell the same number. Truth values are found in any spelling,
// and as 0 and 1.
func index(texts []string) map[string]int {
	m := make(map[string]int, len(texts))
	times := map[string]int{}
	for i, t := range texts {
		m[t] = i
		times[canonicalText(t)]++
	}
	for i, t := range texts {
		number := canonicalText(t)
		if _, ok := m[number]; !ok && times[number] == 1 {
			m[number] = i
		}
	}
	for _, alias := range [][2]string{{"true", "1"}, {"false", "0"}} {
		for k, name := range alias {
			if i, ok := m[name]; ok && times[name] < 2 {
				if _, ok := m[alias[1-k]]; !ok {
					m[alias[1-k]] = i
				}
			}
		}
	}
	return m
}

// lookup finds a text by itself, or by the canonical spelling of a number or truth value.
func lookup(m map[string]int, text []byte) (int, bool) {
	if i, ok := m[string(text)]; ok {
		return i, true
	}
	if b, ok := parseBool(text); ok {
		i, ok := m[strconv.FormatBool(b)]
		return i, ok
	}
	if v, ok := cell.ParseNumber(text); ok && !long(text, v) {
		i, ok := m[cell.Canonical(v)]
		return i, ok
	}
	return 0, false
}

// Kinds returns the kinds that the reader must be opened with. Call Watch before.
func (e *Encoder) Kinds() []Kind { return e.kinds }

// IDs returns the columns to carry to the predictions; they are read as text.
func (e *Encoder) IDs() []int { return e.ids }

// Encode writes the rows of b to x, which must be b.Rows × Width, and the targets to y, which must be b.Rows ×
// their number, or empty if the encoder was made without targets. Regression targets keep their values, classes
// become their index. where names rows in errors; pass the reader's Where. After an error x and y are
// unspecified.
func (e *Encoder) Encode(x, y dense.Matrix[float64], b *Block, where func(int) string) error {
	if width := e.schema.Width(); x.Rows != b.Rows || x.Cols != width {
		return fmt.Errorf("x is %d×%d for %d rows of %d columns: %w", x.Rows, x.Cols, b.Rows, width, dense.ErrShape)
	}
	if len(e.targets) > 0 && (y.Rows != b.Rows || y.Cols != len(e.targets)) {
		return fmt.Errorf("y is %d×%d for %d rows of %d targets: %w", y.Rows, y.Cols, b.Rows, len(e.targets),
			dense.ErrShape)
	}
	if len(b.Cols) != len(e.columns) {
		return fmt.Errorf("a block of %d columns, the encoder was made for %d: %w", len(b.Cols), len(e.columns),
			dense.ErrShape)
	}
	workers := par.Workers(b.Rows*len(e.columns), encodeCells)
	if workers == 1 || e.watch != nil { // a watch counts in row order and is not safe for concurrent use
		return e.encode(x, y, b, where)
	}
	var failed atomic.Bool
	par.For(b.Rows, encodeCells/len(e.columns)+1, func(lo, hi int) {
		part := b.rows(lo, hi)
		var yPart dense.Matrix[float64]
		if len(e.targets) > 0 {
			yPart = y.RowRange(lo, hi)
		}
		if e.encode(x.RowRange(lo, hi), yPart, &part, func(i int) string { return where(lo + i) }) != nil {
			failed.Store(true)
		}
	})
	if failed.Load() { // encode again on one goroutine, to report the same error in every run
		return e.encode(x, y, b, where)
	}
	return nil
}

// encodeCells is the number of cells that make up for starting a goroutine.
const encodeCells = 4096

// encode is Encode after the shapes were checked. first is the first encoded column of the current field.
func (e *Encoder) encode(x, y dense.Matrix[float64], b *Block, where func(int) string) error {
	first := 0
	for i := range e.schema.Fields {
		f, c := &e.schema.Fields[i], &b.Cols[e.fields[i]]
		if len(c.Num)+len(c.Text) != b.Rows {
			return fmt.Errorf("column %s of the block was not read: %w", cell.Quote(f.Name), dense.ErrShape)
		}
		var err error
		switch f.Kind {
		case Categorical:
			if f.Code != "" {
				encodeCodes(x, first, f, e.levels[i], c)
			} else {
				encodeLevels(x, first, f, e.levels[i], c)
			}
		case Time, Words:
			err = e.encodeTexts(x, first, f, c, where)
		default:
			err = e.encodeNumbers(x, first, f, c, where)
		}
		if err == nil && e.watch != nil && b.Rows > 0 {
			err = e.wrongColumn(i, c, where)
		}
		if err != nil {
			return err
		}
		// Surprises are counted before the weight is applied, because they look at encoded levels.
		if e.watch != nil {
			if err := e.surprised(x, first, i, c, where); err != nil {
				return err
			}
		}
		if f.Weight != 0 {
			for i := range x.Rows {
				for j := range f.width() {
					x.Row(i)[first+j] *= f.Weight
				}
			}
		}
		first += f.width()
	}
	for _, j := range e.constants {
		if err := e.changed(j, &b.Cols[j], where); err != nil {
			return err
		}
	}
	for k, j := range e.targets {
		if err := e.encodeTarget(y, k, &b.Cols[j], b.Rows, where); err != nil {
			return err
		}
	}
	return nil
}

// numberAt returns cell i as a number, NaN if missing; ok is false if it cannot be read.
func numberAt(c *Column, i int) (v float64, ok bool) {
	if c.Num != nil {
		return c.Num[i], !c.Unreadable(i)
	}
	if c.Text[i] == nil {
		return math.NaN(), true
	}
	v, ok = cell.ParseNumber(cell.TrimBlanks(c.Text[i]))
	return v, ok || isMissingWord(c.Text[i])
}

// missing reports whether cell i has no value: it is empty, or a word that means missing in this kind of field.
func (f *Field) missing(c *Column, i int) bool {
	if c.Num != nil {
		return math.IsNaN(c.Num[i]) && !c.Unreadable(i)
	}
	return c.Text[i] == nil || (f.Kind == Numeric || f.Kind == Time) && isMissingWord(c.Text[i])
}

// pointed reports whether cell i is a number with a decimal point, in a column of decimal commas.
func (f *Field) pointed(c *Column, i int) bool {
	return strings.HasPrefix(f.Format, bareStyle) && c.Text != nil && !c.IsBare(i) &&
		bytes.IndexByte(c.Text[i], '.') >= 0 && bytes.IndexByte(c.Text[i], ',') < 0
}

// valueAt returns cell i of a numeric, boolean or time field, NaN if missing; ok is false if it cannot be read.
// Learning uses it, too (see reading.reads), so both agree on every text.
func (f *Field) valueAt(c *Column, i int) (v float64, ok bool) {
	if f.Kind == Numeric && f.Format == "" {
		return numberAt(c, i)
	}
	if c.Num != nil {
		v = c.Num[i]
		return v, (f.Kind != Boolean || v == 0 || v == 1 || math.IsNaN(v)) && !isUnreadable(v)
	}
	text := c.Text[i]
	switch {
	case text == nil:
		return math.NaN(), true
	case f.Kind == Boolean:
		return boolAt(text)
	case isMissingWord(text):
		return math.NaN(), true
	case f.Kind == Time:
		t, _, ok := parseTime(text, f.Format)
		return t.days(), ok
	}
	// A plain number means the same in all styles, unless its points may group digits.
	if v, ok = cell.ParseNumber(cell.TrimBlanks(text)); ok && (!strings.HasPrefix(f.Format, commaStyle) ||
		bytes.IndexByte(text, '.') < 0 || c.IsBare(i)) {
		return v, true
	}
	return parseStyled(text, f.Format)
}

// wanted describes a valid value, for messages.
func (f *Field) wanted() string {
	switch {
	case f.Kind == Numeric && f.Format == "":
		return "a number"
	case f.Kind == Numeric:
		return "a number such as " + f.Format
	case f.Kind == Time:
		return "a date, " + f.Format
	}
	return "true or false"
}

// badValue is the error for cell i, which valueAt could not read.
func (f *Field) badValue(c *Column, i int, where func(int) string) error {
	var text string
	switch {
	case c.Num == nil:
		text = "is " + cell.Quote(c.Text[i])
	case !c.Unreadable(i):
		text = "is " + cell.Quote(cell.Canonical(c.Num[i]))
	default:
		odd, ok := c.oddAt(i)
		if text = "is " + cell.Quote(odd); !ok {
			text = "cannot be read"
		}
	}
	return columnError(where(i), f.Name, ErrUnreadable, "column %s %s, want %s", cell.Quote(f.Name), text, f.wanted())
}

// wrongColumn is an error if field k has values in the first rows and none can be read. The column then means
// something else in this table; a few words among its numbers would be tolerated.
func (e *Encoder) wrongColumn(k int, c *Column, where func(int) string) error {
	f := &e.schema.Fields[k]
	if e.seen == nil {
		e.seen = make([]bool, len(e.schema.Fields))
	}
	if f.Kind == Categorical || f.Kind == Words || e.seen[k] {
		return nil
	}
	bad := -1
	for i := range max(len(c.Num), len(c.Text)) {
		if f.missing(c, i) {
			continue
		}
		if _, ok := f.valueAt(c, i); ok {
			e.seen[k] = true
			return nil
		}
		if bad < 0 {
			bad = i
		}
	}
	if bad < 0 {
		return nil
	}
	return f.badValue(c, bad, where)
}

// infinite is the error for an infinite value.
func infinite(name string, i int, where func(int) string) error {
	return columnError(where(i), name, dense.ErrNotFinite, "column %s is infinite", cell.Quote(name))
}

// encodeNumbers writes the standardised values of a numeric or boolean field. A missing value is the mean, 0,
// with its indicator set; values outside of Range or Clip are replaced by the nearest end.
func (e *Encoder) encodeNumbers(x dense.Matrix[float64], first int, f *Field, c *Column,
	where func(int) string) error {
	limit := e.limit && f.Kind == Numeric && f.Range != nil
	for i := range x.Rows {
		v, ok := f.valueAt(c, i)
		if !ok && e.readable {
			return f.badValue(c, i, where)
		}
		missing := !ok || math.IsNaN(v)
		z := 0.0
		if !missing {
			if math.IsInf(v, 0) {
				return infinite(f.Name, i, where)
			}
			if limit {
				v = min(max(v, f.Range[0]), f.Range[1])
			}
			if f.Clip != nil {
				v = min(max(v, f.Clip[0]), f.Clip[1])
			}
			if z = (v - f.Mean) / f.Scale; math.IsInf(z, 0) {
				return columnError(where(i), f.Name, dense.ErrNotFinite,
					"column %s is %g, too far from the mean %.4g and scale %.4g of the fit", cell.Quote(f.Name), v, f.Mean,
					f.Scale)
			}
		}
		x.Set(i, first, z)
		if f.Missing {
			x.Set(i, first+1, 0)
			if missing {
				x.Set(i, first+1, 1)
			}
		}
	}
	return nil
}

// encodeTexts writes times and texts. A missing value is all zeros with its indicator set.
func (e *Encoder) encodeTexts(x dense.Matrix[float64], first int, f *Field, c *Column, where func(int) string) error {
	if c.Text == nil && x.Rows > 0 {
		return columnError(where(0), f.Name, nil, "column %s is a number, want text", cell.Quote(f.Name))
	}
	width := f.width()
	for i := range x.Rows {
		row := x.Row(i)[first : first+width]
		clear(row)
		switch text := c.Text[i]; {
		case text == nil || f.Kind == Time && isMissingWord(text):
			if f.Missing {
				row[width-1] = 1
			}
		case f.Kind == Words:
			encodeText(row, text)
		default:
			t, _, ok := parseTime(text, f.Format)
			switch {
			case ok:
				t.encode(row, f)
			case e.readable:
				return f.badValue(c, i, where)
			case f.Missing:
				row[width-1] = 1
			}
		}
	}
	return nil
}

// encodeLevels writes one column per level, one for other levels and one for missing values, if training had
// any; otherwise a missing value counts as other.
func encodeLevels(x dense.Matrix[float64], first int, f *Field, levels map[string]int, c *Column) {
	other, width := len(f.Levels), f.width()
	var buf []byte
	for i := range x.Rows {
		var text []byte
		text, buf = levelText(c, i, buf)
		at := other
		if text != nil {
			if l, ok := lookup(levels, text); ok {
				at = l
			}
		} else if f.Missing {
			at = other + 1
		}
		row := x.Row(i)[first : first+width]
		clear(row)
		row[at] = 1
	}
}

// encodeTarget writes target k. Targets have no missing values and no unknown classes: both are errors.
func (e *Encoder) encodeTarget(y dense.Matrix[float64], k int, c *Column, rows int, where func(int) string) error {
	t := &e.schema.Targets[k]
	if len(c.Num)+len(c.Text) != rows {
		return fmt.Errorf("target %s of the block was not read: %w", cell.Quote(t.Name), dense.ErrShape)
	}
	for i := range rows {
		if c.Text != nil && c.Text[i] == nil || c.Num != nil && math.IsNaN(c.Num[i]) {
			return columnError(where(i), t.Name, ErrMissingTarget, missingTarget, cell.Quote(t.Name))
		}
		if len(t.Classes) == 0 {
			f := Field{Name: t.Name, Kind: Numeric, Format: t.Format}
			v, ok := f.valueAt(c, i)
			switch {
			case !ok:
				return f.badValue(c, i, where)
			case math.IsNaN(v):
				return columnError(where(i), t.Name, ErrMissingTarget, missingTarget, cell.Quote(t.Name))
			case math.IsInf(v, 0):
				return infinite(t.Name, i, where)
			}
			y.Set(i, k, v)
			continue
		}
		var text []byte
		if c.Text != nil {
			text = c.Text[i]
		} else {
			text = []byte(cell.Canonical(c.Num[i]))
		}
		class, ok := lookup(e.classes[k], text)
		if !ok {
			return columnError(where(i), t.Name, nil, "target %s is %s, a class unseen when the schema was learned; known are %s; leave the row out, or learn from rows of the class",
				cell.Quote(t.Name), cell.Quote(text), cell.QuoteList(t.Classes))
		}
		y.Set(i, k, float64(class))
	}
	return nil
}

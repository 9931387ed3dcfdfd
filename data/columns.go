package data

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/cell"
)

// Columns is a table in memory. It is a [Source] over typed columns in the caller's own slices, which are read
// in place. Texts of [DefaultMissing] are missing, as in files. Fits and predictions are bit-identical to those of
// the same table in a file. Add all columns before the first Open. Several goroutines may then read it, as long as
// nobody changes the slices.
type Columns struct {
	name  string
	rows  int // -1: no column yet
	names []string
	cols  []memoryColumn
}

// NewColumns returns a table without columns; name is used in messages.
func NewColumns(name string) *Columns { return &Columns{name: name, rows: -1} }

// Cells are the cells of a column, or of a run of its rows. The field layout follows Arrow and NumPy, so that
// their buffers can be used without copying.
type Cells struct {
	// Values is a slice of float64, float32, integers of 8 to 64 bits, bool, string (UTF-8) or [time.Time], or a
	// [Bits] of truth values. NaN is missing.
	Values any
	// Stride is the distance between consecutive values, counted in values; 0 means 1. A column of a row-major
	// matrix has the number of matrix columns as its stride.
	Stride int
	// Levels, if set, say that integers are codes: i means Levels[i], and a code outside is missing.
	Levels []string
	// Unit, if not 0, says that integers are times, counted in this unit since the beginning of 1970:
	// time.Second, time.Millisecond and so on, or 24 hours for dates. The smallest int64 is missing, as in
	// NumPy. Time zones are up to the caller.
	Unit time.Duration
	// Valid, if it has bytes, marks missing cells by 0; Missing marks them by true. At most one may be set.
	Valid   Bits
	Missing []bool
}

// Bits are truth values, eight to a byte starting at the lowest bit, as in Arrow. The first is bit Offset.
type Bits struct {
	Bytes       []byte
	Offset, Len int
}

// At returns bit i, from 0.
func (b Bits) At(i int) bool { return b.Bytes[(b.Offset+i)>>3]>>((b.Offset+i)&7)&1 != 0 }

// check bounds Offset and Len, so that At cannot read outside of Bytes. The comparison is written so that it
// cannot overflow.
func (b Bits) check(what string, n int) error {
	if b.Offset < 0 || n < 0 || b.Len != n || b.Offset > 8*len(b.Bytes)-n {
		return fmt.Errorf("%s: %d bits from bit %d on of %d bytes, for %d values", what, b.Len, b.Offset,
			len(b.Bytes), n)
	}
	return nil
}

// Add appends a column. A column in several pieces, as in record batches, is given piece by piece; all pieces
// must have one type. Nothing is copied. Errors are a name or type that cannot be used and a length that
// differs from the other columns.
func (t *Columns) Add(name string, cells ...Cells) error {
	if slices.Contains(t.names, name) {
		return inputError(t.name, "two columns are named %s: rename one", cell.Quote(name))
	}
	if len(t.names) == defaultMaxColumns {
		return inputError(t.name, "%d columns, the limit is %d: is the table transposed? Otherwise keep the columns that matter",
			len(t.names)+1, defaultMaxColumns)
	}
	var c memoryColumn
	for _, k := range cells {
		p, err := k.part()
		if err == nil && len(c.parts) > 0 && p.sort() != c.sort {
			err = fmt.Errorf("%s after %s: want one type", p.sort(), c.sort)
		}
		if err != nil {
			return columnError(t.name, name, nil, "column %s: %v", cell.Quote(name), err)
		}
		c.sort, c.parts, c.rows = p.sort(), append(c.parts, p), c.rows+p.len()
	}
	if len(c.parts) == 0 {
		return columnError(t.name, name, nil, "column %s has no cells", cell.Quote(name))
	}
	if t.rows >= 0 && c.rows != t.rows {
		return columnError(t.name, name, nil, "column %s has %d rows, %s has %d", cell.Quote(name), c.rows,
			cell.Quote(t.names[0]), t.rows)
	}
	t.rows, t.names, t.cols = c.rows, append(t.names, name), append(t.cols, c)
	return nil
}

// sortOf is the type of a column, as named in messages. Widths do not matter: int8 and int64 are both integers.
type sortOf string

const (
	ofNumbers  sortOf = "floats"
	ofIntegers sortOf = "integers"
	ofLarge    sortOf = "unsigned integers of 64 bits"
	ofBools    sortOf = "truth values"
	ofTexts    sortOf = "texts"
	ofTimes    sortOf = "times"
)

type memoryColumn struct {
	sort  sortOf
	parts []memoryPart
	rows  int
}

// memoryPart is a run of cells of one type.
type memoryPart interface {
	len() int
	sort() sortOf
	// numbers appends n cells, starting with cell lo, as numbers.
	numbers(c *Column, lo, n int)
	// text appends cell i to b, which must not be nil; the result nil means missing.
	text(b []byte, i int) []byte
	// size is an upper bound on the length of the text of cell i.
	size(i int) int
}

func (k Cells) part() (memoryPart, error) {
	if k.Stride < 0 {
		return nil, fmt.Errorf("a stride of %d values, want at least 1", k.Stride)
	}
	k.Stride = max(1, k.Stride)
	var p memoryPart
	switch v := k.Values.(type) {
	case []float64:
		p = &floats[float64]{with(k, v)}
	case []float32:
		p = &floats[float32]{with(k, v)}
	case []int8:
		p = ints(k, v, ofIntegers)
	case []int16:
		p = ints(k, v, ofIntegers)
	case []int32:
		p = ints(k, v, ofIntegers)
	case []int64:
		p = ints(k, v, ofIntegers)
	case []int:
		p = ints(k, v, ofIntegers)
	case []uint8:
		p = ints(k, v, ofIntegers)
	case []uint16:
		p = ints(k, v, ofIntegers)
	case []uint32:
		p = ints(k, v, ofIntegers)
	case []uint64:
		p = ints(k, v, ofLarge)
	case []uint:
		p = ints(k, v, ofLarge)
	case []bool:
		p = &bools{strided: with(k, v)}
	case Bits:
		if err := v.check("Values", v.Len); err != nil {
			return nil, err
		}
		k.Stride = 1
		p = &bools{strided: strided[bool]{k: k, n: v.Len}, bits: v}
	case []string:
		p = &texts{with(k, v)}
	case []time.Time:
		p = &instants{with(k, v)}
	default:
		return nil, fmt.Errorf("values of type %T: want a slice of numbers, bools, strings or times, or Bits", k.Values)
	}
	// Only integers have levels and units.
	_, whole := p.(interface{ level(i int) int })
	n := p.len()
	switch {
	case (k.Levels != nil || k.Unit != 0) && !whole:
		return nil, fmt.Errorf("values of type %T with Levels or a Unit: want integers", k.Values)
	case k.Levels != nil && k.Unit != 0:
		return nil, fmt.Errorf("both Levels and a Unit: want one")
	case k.Unit < 0 || k.Unit > 0 && k.Unit != day && time.Second%k.Unit != 0:
		return nil, fmt.Errorf("times in units of %v: want 24h, or a second divided by a whole number", k.Unit)
	case k.Missing != nil && len(k.Missing) != n:
		return nil, fmt.Errorf("%d values of Missing for %d cells", len(k.Missing), n)
	case k.Missing != nil && k.Valid.Bytes != nil:
		return nil, fmt.Errorf("both Valid and Missing: want one")
	case k.Valid.Bytes != nil:
		return p, k.Valid.check("Valid", n)
	}
	return p, nil
}

const day = 24 * time.Hour

// strided is a slice of one type read with a stride, and the marks of its missing cells.
type strided[T any] struct {
	k Cells
	v []T
	n int
}

func with[T any](k Cells, v []T) strided[T] {
	// A stride may leave a partial step at the end, which still has one value.
	return strided[T]{k, v, (len(v) + k.Stride - 1) / k.Stride}
}

func (s *strided[T]) len() int   { return s.n }
func (s *strided[T]) at(i int) T { return s.v[i*s.k.Stride] }

func (s *strided[T]) missing(i int) bool {
	return s.k.Missing != nil && s.k.Missing[i] || s.k.Valid.Bytes != nil && !s.k.Valid.At(i)
}

// mask sets missing cells to NaN. dst holds the cells starting with cell lo.
func (s *strided[T]) mask(dst []float64, lo int) {
	if s.k.Missing == nil && s.k.Valid.Bytes == nil {
		return
	}
	for i := range dst {
		if s.missing(lo + i) {
			dst[i] = math.NaN()
		}
	}
}

// real lists the types of numbers.
type real interface {
	~float32 | ~float64 | ~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint
}

// widen appends n values, starting with value lo, as float64.
func widen[T real](dst []float64, s *strided[T], lo, n int) []float64 {
	if n == 0 {
		return dst
	}
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	out, step := dst[at:], s.k.Stride
	from := s.v[lo*step : (lo+n-1)*step+1]
	if step == 1 {
		for i, v := range from {
			out[i] = float64(v)
		}
	} else {
		for i := range out {
			out[i] = float64(from[i*step])
		}
	}
	s.mask(out, lo)
	return dst
}

type floats[T float32 | float64] struct{ strided[T] }

func (f *floats[T]) sort() sortOf { return ofNumbers }
func (f *floats[T]) size(int) int { return 32 }
func (f *floats[T]) numbers(c *Column, lo, n int) {
	c.Num = widen(c.Num, &f.strided, lo, n)
}

func (f *floats[T]) text(b []byte, i int) []byte {
	v := float64(f.at(i))
	if f.missing(i) || math.IsNaN(v) {
		return nil
	}
	if v == 0 {
		v = 0 // -0 is written as 0, so that both are one level
	}
	return cell.AppendNumber(b, v)
}

// integers are numbers, codes of levels, or times, as of says.
type integers[T real] struct {
	strided[T]
	of sortOf
}

func ints[T real](k Cells, v []T, of sortOf) memoryPart {
	switch {
	case k.Levels != nil:
		of = ofTexts
	case k.Unit != 0:
		of = ofTimes
	}
	return &integers[T]{with(k, v), of}
}

func (s *integers[T]) sort() sortOf { return s.of }

func (s *integers[T]) size(i int) int {
	if l := s.level(i); l >= 0 {
		return len(s.k.Levels[l])
	}
	return 32
}

// level returns the code of cell i, -1 if it has none.
func (s *integers[T]) level(i int) int {
	if v := s.at(i); s.k.Levels != nil && v >= 0 && uint64(v) < uint64(len(s.k.Levels)) {
		return int(v)
	}
	return -1
}

func (s *integers[T]) numbers(c *Column, lo, n int) {
	if s.of != ofTexts && s.of != ofTimes {
		c.Num = widen(c.Num, &s.strided, lo, n)
		return
	}
	appendNumbers(c, s, lo, n)
}

func (s *integers[T]) text(b []byte, i int) []byte {
	v := s.at(i)
	switch {
	case s.missing(i):
		return nil
	case s.of == ofTexts:
		if l := s.level(i); l >= 0 {
			return append(b, s.k.Levels[l]...)
		}
		return nil
	case s.of == ofTimes && int64(v) == math.MinInt64:
		return nil
	case s.of == ofTimes && s.k.Unit == day:
		return time.Unix(int64(v)*86400, 0).UTC().AppendFormat(b, time.DateOnly)
	case s.of == ofTimes:
		per := int64(time.Second / s.k.Unit)
		return time.Unix(int64(v)/per, int64(v)%per*int64(s.k.Unit)).UTC().AppendFormat(b, timestamp)
	case s.of == ofLarge:
		return strconv.AppendUint(b, uint64(v), 10)
	}
	return strconv.AppendInt(b, int64(v), 10)
}

// timestamp prints as many digits of the second as needed. Without an offset, it is read back as wall-clock
// time.
const timestamp = "2006-01-02T15:04:05.999999999"

// defaultMissing serves tables without options.
var defaultMissing = NewMissingTexts(nil)

// appendNumbers parses texts as numbers, for columns of texts and times that are read as Number.
func appendNumbers(c *Column, p memoryPart, lo, n int) {
	b := []byte{}
	for i := lo; i < lo+n; i++ {
		if t := p.text(b[:0], i); t == nil || defaultMissing.Has(t) {
			c.Num = append(c.Num, math.NaN())
		} else {
			c.AppendNumber(t)
			b = t
		}
	}
}

type bools struct {
	strided[bool]
	bits Bits // used instead of values if it has bytes
}

func (s *bools) sort() sortOf { return ofBools }
func (s *bools) size(int) int { return 5 }

func (s *bools) is(i int) bool {
	if s.bits.Bytes != nil {
		return s.bits.At(i)
	}
	return s.at(i)
}

func (s *bools) numbers(c *Column, lo, n int) {
	at := len(c.Num)
	for i := lo; i < lo+n; i++ {
		v := 0.0
		if s.is(i) {
			v = 1
		}
		c.Num = append(c.Num, v)
	}
	s.mask(c.Num[at:], lo)
}

func (s *bools) text(b []byte, i int) []byte {
	if s.missing(i) {
		return nil
	}
	return strconv.AppendBool(b, s.is(i))
}

type texts struct{ strided[string] }

func (s *texts) sort() sortOf                 { return ofTexts }
func (s *texts) size(i int) int               { return len(s.at(i)) }
func (s *texts) numbers(c *Column, lo, n int) { appendNumbers(c, s, lo, n) }
func (s *texts) text(b []byte, i int) []byte {
	if s.missing(i) {
		return nil
	}
	return append(b, s.at(i)...)
}

type instants struct{ strided[time.Time] }

func (s *instants) sort() sortOf                 { return ofTimes }
func (s *instants) size(int) int                 { return 64 }
func (s *instants) numbers(c *Column, lo, n int) { appendNumbers(c, s, lo, n) }
func (s *instants) text(b []byte, i int) []byte {
	if s.missing(i) || s.at(i).IsZero() {
		return nil
	}
	return s.at(i).AppendFormat(b, timestamp)
}

// Name returns the name given to NewColumns.
func (t *Columns) Name() string { return t.name }

// Columns returns the names.
func (t *Columns) Columns() []string { return t.names }

// Rows is the number of rows.
func (t *Columns) Rows() int { return max(0, t.rows) }

// NoRows reports that there are no rows.
func (t *Columns) NoRows() bool { return t.rows <= 0 }

// Natural is the kind that Infer means for column j.
func (t *Columns) Natural(j int) Kind {
	switch t.cols[j].sort {
	case ofNumbers, ofIntegers, ofLarge:
		return Number
	}
	return Text
}

// Integer reports whether column j holds integers that fit into int64; see [As].
func (t *Columns) Integer(j int) bool { return t.cols[j].sort == ofIntegers }

// Open starts at the first row. want has a kind for every column; nil means Natural for all.
func (t *Columns) Open(want []Kind) (Reader, error) {
	kinds, err := CheckKinds(want, len(t.cols), t.Natural)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	if len(t.cols) == 0 {
		return nil, inputError(t.name, "no columns")
	}
	r := &columnsReader{t: t, want: kinds, at: make([]memoryPlace, len(kinds)), texts: slices.Contains(kinds, Text),
		buf: []byte{}}
	for j := range r.at {
		r.at[j] = r.after(j, memoryPlace{}, 0)
	}
	return r, nil
}

// memoryPlace is a cell of a part.
type memoryPlace struct{ part, i int }

type columnsReader struct {
	t          *Columns
	want       []Kind
	texts      bool // some columns are read as Text
	at         []memoryPlace
	row, first int    // first row of the next block, of the last block
	buf        []byte // never nil, because nil means missing and an empty text does not
	sizes      []int  // bytes of text of each row
}

func (r *columnsReader) Columns() []string  { return r.t.names }
func (r *columnsReader) Where(i int) string { return fmt.Sprintf("%s: row %d", r.t.name, r.first+i+1) }
func (r *columnsReader) Close() error       { return nil }

func (r *columnsReader) Read(b *Block, most int) error {
	b.Reset(int64(r.row), r.want)
	n := min(most, r.t.rows-r.row)
	if n <= 0 {
		if r.row < r.t.rows {
			return fmt.Errorf("%d rows asked for, want at least one", most)
		}
		return io.EOF
	}
	if r.texts {
		n = r.fits(n)
	}
	r.first = r.row
	for j := range r.want {
		if r.want[j] == Skip {
			continue
		}
		for left := n; left > 0; {
			p, lo, m := r.run(j, r.at[j], left)
			if r.want[j] == Number {
				p.numbers(&b.Cols[j], lo, m)
			} else if err := r.text(b, j, p, lo, m); err != nil {
				return err
			}
			r.at[j] = r.after(j, r.at[j], m)
			left -= m
		}
	}
	b.Rows = n
	r.row += n
	return nil
}

// run returns the part at a place of column j, and how many of up to most cells lie there, starting with cell
// lo.
func (r *columnsReader) run(j int, at memoryPlace, most int) (p memoryPart, lo, n int) {
	p = r.t.cols[j].parts[at.part]
	return p, at.i, min(most, p.len()-at.i)
}

// after returns the place n cells further on in the same part, or the beginning of the next part that has
// cells.
func (r *columnsReader) after(j int, at memoryPlace, n int) memoryPlace {
	at.i += n
	for parts := r.t.cols[j].parts; at.part < len(parts)-1 && at.i == parts[at.part].len(); {
		at = memoryPlace{at.part + 1, 0}
	}
	return at
}

// fits returns how many of the next n rows a block has room for: up to the row whose text reaches the bound, at
// least one. Rows must be complete in all columns, so this is decided before any cell is copied.
func (r *columnsReader) fits(n int) int {
	const short = 64 // bytes: an upper bound for numbers, truth values and times
	long := false
	r.sizes = buf.Zeroed(r.sizes, n)
	for j := range r.want {
		if r.want[j] != Text {
			continue
		}
		if c := &r.t.cols[j]; c.sort != ofTexts {
			continue // counted as short
		}
		long = true
		at := r.at[j]
		for i := 0; i < n; {
			p, lo, m := r.run(j, at, n-i)
			for k := range m {
				r.sizes[i+k] += p.size(lo + k)
			}
			at = r.after(j, at, m)
			i += m
		}
	}
	if !long {
		return min(n, 1+maxBlockText/(short*len(r.want)))
	}
	total := 0
	for i, size := range r.sizes {
		if total += size + short*len(r.want); total >= maxBlockText {
			return i + 1
		}
	}
	return n
}

// text appends cells lo to lo+n−1 of a part to column j. Strings from the caller are checked for UTF-8, as text
// from files is.
func (r *columnsReader) text(b *Block, j int, p memoryPart, lo, n int) error {
	bare := p.sort() != ofTexts && p.sort() != ofTimes
	for i := lo; i < lo+n; i++ {
		text := p.text(r.buf[:0], i)
		if text == nil || !bare && defaultMissing.Has(text) {
			b.AppendText(j, nil)
			continue
		}
		r.buf = text
		switch {
		case bare:
			b.AppendBare(j, text)
		case !utf8.Valid(text):
			return columnError(r.Where(len(b.Cols[j].Text)), r.t.names[j], ErrEncoding,
				"column %s is %s, which is not UTF-8", cell.Quote(r.t.names[j]), cell.Quote(text))
		default:
			b.AppendText(j, text)
		}
	}
	return nil
}

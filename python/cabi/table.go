package main

// #include "randfeat.h"
import "C"

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/randfeat/randfeat/data"
)

// sort is what a column holds.
type sort int

const (
	number sort = iota
	boolean
	text
	moment
)

// Element types beyond those of randfeat.h, of Arrow's columns.
const (
	half       = 'e'
	bits       = 'm' // truth values, one bit each
	utf8       = 's' // with offsets of 32 bits
	utf8Large  = 'S' // with offsets of 64 bits
	utf8View   = 'v'
	decimal32  = '4'
	decimal64  = '8'
	decimal128 = 'D'
	nothing    = 'n' // all are missing
)

// sizeOf is the number of bytes of an element; 0: unknown, or not of fixed size.
func sizeOf(dtype byte) int {
	switch dtype {
	case C.RF_I8, C.RF_U8, C.RF_BOOL:
		return 1
	case C.RF_I16, C.RF_U16, half:
		return 2
	case C.RF_I32, C.RF_U32, C.RF_F32, decimal32, utf8:
		return 4
	case C.RF_I64, C.RF_U64, C.RF_F64, decimal64, utf8Large:
		return 8
	case decimal128, utf8View:
		return 16
	}
	return 0
}

// chunk is a part of a column in the memory of the caller: element i is at base + i·stride.
type chunk struct {
	n      int
	base   unsafe.Pointer
	stride int
	dtype  byte
	offset int            // of bits: in valid, and in base if these are bits
	valid  unsafe.Pointer // bits; nil: all are
	chars  unsafe.Pointer // of texts with offsets
	bufs   []unsafe.Pointer
	levels [][]byte // texts of codes; nil: no codes
	unit   int64    // nanoseconds of times; 0: days
	scale  float64  // what decimals are divided by
}

type column struct {
	sort    sort
	integer bool
	chunks  []chunk
}

// table is a data.Source of columns in the memory of the caller.
type table struct {
	names []string
	cols  []column
	rows  int64
	keep  []*C.struct_ArrowArray // released with the table
}

const tableName = "table"

func (t *table) Name() string       { return tableName }
func (t *table) Columns() []string  { return t.names }
func (t *table) Integer(j int) bool { return t.cols[j].integer }

func (t *table) natural(j int) data.Kind {
	if t.cols[j].sort == number {
		return data.Number
	}
	return data.Text
}

func (t *table) Open(want []data.Kind) (data.Reader, error) {
	kinds, err := data.CheckKinds(want, len(t.cols), t.natural)
	if err != nil {
		return nil, err
	}
	return &reader{t: t, want: kinds, at: make([]place, len(t.cols))}, nil
}

// place is the next element of a column.
type place struct{ chunk, i int }

type reader struct {
	t          *table
	want       []data.Kind
	at         []place
	row, first int64
	buf        []byte
}

func (r *reader) Columns() []string  { return r.t.names }
func (r *reader) Close() error       { return nil }
func (r *reader) Where(i int) string { return fmt.Sprintf("%s: row %d", tableName, r.first+int64(i)) }

func (r *reader) Read(b *data.Block, most int) error {
	b.Reset(r.row, r.want)
	n := int(min(int64(most), r.t.rows-r.row))
	if n <= 0 {
		return io.EOF
	}
	for j := range r.t.cols {
		if r.want[j] == data.Skip {
			continue
		}
		c, at := &r.t.cols[j], &r.at[j]
		for left := n; left > 0; {
			k := &c.chunks[at.chunk]
			m := min(left, k.n-at.i)
			if m == 0 {
				at.chunk, at.i = at.chunk+1, 0
				continue
			}
			if r.want[j] == data.Number {
				if err := r.numbers(b, j, k, at.i, m); err != nil {
					return err
				}
			} else {
				r.texts(b, j, c.sort, k, at.i, m)
			}
			at.i += m
			left -= m
		}
	}
	b.Rows, r.first = n, r.row
	r.row += int64(n)
	return nil
}

// numbers appends elements to a column of numbers. Texts are read as numbers where they are such.
func (r *reader) numbers(b *data.Block, j int, k *chunk, i, n int) error {
	c := &b.Cols[j]
	switch r.t.cols[j].sort {
	case text:
		for a := i; a < i+n; a++ {
			c.AppendNumber(k.text(a))
		}
	case moment:
		return &data.InputError{Place: tableName, Column: r.t.names[j],
			Detail: fmt.Sprintf("column %q holds times, where numbers are wanted", r.t.names[j])}
	default:
		c.Num = k.numbers(c.Num, i, n)
	}
	return nil
}

func (k *chunk) at(i int) unsafe.Pointer { return unsafe.Add(k.base, i*k.stride) }

func (k *chunk) bit(p unsafe.Pointer, i int) byte {
	i += k.offset
	return *(*byte)(unsafe.Add(p, i>>3)) >> (i & 7) & 1
}

func (k *chunk) isValid(i int) bool { return k.valid == nil || k.bit(k.valid, i) != 0 }

func fill[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64](dst []float64,
	k *chunk, i, n int) []float64 {
	for a := i; a < i+n; a++ {
		dst = append(dst, float64(*(*T)(k.at(a))))
	}
	return dst
}

// numbers appends elements of numbers or truth values.
func (k *chunk) numbers(dst []float64, i, n int) []float64 {
	from := len(dst)
	switch k.dtype {
	case C.RF_F64:
		dst = fill[float64](dst, k, i, n)
	case C.RF_F32:
		dst = fill[float32](dst, k, i, n)
	case C.RF_I64:
		dst = fill[int64](dst, k, i, n)
	case C.RF_U64:
		dst = fill[uint64](dst, k, i, n)
	case C.RF_I32:
		dst = fill[int32](dst, k, i, n)
	case C.RF_U32:
		dst = fill[uint32](dst, k, i, n)
	default:
		for a := i; a < i+n; a++ {
			dst = append(dst, k.float(a))
		}
	}
	if k.valid != nil {
		for a := range n {
			if !k.isValid(i + a) {
				dst[from+a] = math.NaN()
			}
		}
	}
	return dst
}

// float is an element as a number.
func (k *chunk) float(i int) float64 {
	switch k.dtype {
	case C.RF_F64:
		return *(*float64)(k.at(i))
	case C.RF_F32:
		return float64(*(*float32)(k.at(i)))
	case half:
		return halfFloat(*(*uint16)(k.at(i)))
	case C.RF_U64:
		return float64(*(*uint64)(k.at(i)))
	case decimal32:
		return float64(*(*int32)(k.at(i))) / k.scale
	case decimal64:
		return float64(*(*int64)(k.at(i))) / k.scale
	case decimal128:
		p := (*[2]uint64)(k.at(i))
		if p[1] == uint64(int64(p[0])>>63) { // it fits into 64 bits
			return float64(int64(p[0])) / k.scale
		}
		return (float64(int64(p[1]))*(1<<64) + float64(p[0])) / k.scale
	case nothing:
		return math.NaN()
	}
	return float64(k.integer(i))
}

// halfFloat is a float16: 1 bit of sign, 5 of exponent, 10 of mantissa.
func halfFloat(h uint16) float64 {
	sign, exponent, mantissa := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	switch exponent {
	case 0:
		return sign * mantissa * 0x1p-24
	case 31:
		if mantissa != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+mantissa, exponent-25)
}

// integer is an element of whole numbers, truth values or codes.
func (k *chunk) integer(i int) int64 {
	switch k.dtype {
	case C.RF_I8:
		return int64(*(*int8)(k.at(i)))
	case C.RF_U8, C.RF_BOOL:
		return int64(*(*uint8)(k.at(i)))
	case C.RF_I16:
		return int64(*(*int16)(k.at(i)))
	case C.RF_U16:
		return int64(*(*uint16)(k.at(i)))
	case C.RF_I32:
		return int64(*(*int32)(k.at(i)))
	case C.RF_U32:
		return int64(*(*uint32)(k.at(i)))
	case bits:
		return int64(k.bit(k.base, i))
	}
	return *(*int64)(k.at(i))
}

// text is an element of a column of texts; nil is missing.
func (k *chunk) text(i int) []byte {
	if !k.isValid(i) {
		return nil
	}
	if k.levels != nil {
		if v := k.integer(i); v >= 0 && v < int64(len(k.levels)) {
			return k.levels[v]
		}
		return nil
	}
	return k.chars8(i)
}

var empty = []byte{}

// chars8 is the UTF-8 of an element.
func (k *chunk) chars8(i int) []byte {
	var p unsafe.Pointer
	var n int
	switch k.dtype {
	case utf8:
		o := (*[2]int32)(k.at(i))
		p, n = unsafe.Add(k.chars, int(o[0])), int(o[1]-o[0])
	case utf8Large:
		o := (*[2]int64)(k.at(i))
		p, n = unsafe.Add(k.chars, int(o[0])), int(o[1]-o[0])
	case utf8View:
		v := k.at(i)
		if n = int(*(*int32)(v)); n <= 12 {
			p = unsafe.Add(v, 4)
		} else {
			p = unsafe.Add(k.bufs[*(*int32)(unsafe.Add(v, 8))], int(*(*int32)(unsafe.Add(v, 12))))
		}
	}
	if n <= 0 {
		return empty
	}
	return unsafe.Slice((*byte)(p), n)
}

const clock = "2006-01-02T15:04:05.999999999"

// texts appends elements as text.
func (r *reader) texts(b *data.Block, j int, s sort, k *chunk, i, n int) {
	for a := i; a < i+n; a++ {
		switch {
		case s == text:
			b.AppendText(j, k.text(a))
		case !k.isValid(a) || k.dtype == nothing:
			b.AppendText(j, nil)
		case s == boolean:
			if k.integer(a) != 0 {
				b.AppendBare(j, []byte("true"))
			} else {
				b.AppendBare(j, []byte("false"))
			}
		case s == moment:
			b.AppendText(j, r.time(k, k.integer(a)))
		default:
			b.AppendBare(j, r.digits(k, a))
		}
	}
}

// time is a time as text; nil is missing.
func (r *reader) time(k *chunk, v int64) []byte {
	switch {
	case v == math.MinInt64: // NumPy's NaT
		return nil
	case k.unit == 0:
		r.buf = time.Unix(v*86400, 0).UTC().AppendFormat(r.buf[:0], time.DateOnly)
	default:
		per := int64(time.Second) / k.unit
		r.buf = time.Unix(v/per, v%per*k.unit).UTC().AppendFormat(r.buf[:0], clock)
	}
	return r.buf
}

// digits is a number as text; nil is missing.
func (r *reader) digits(k *chunk, i int) []byte {
	switch k.dtype {
	case C.RF_F64, C.RF_F32, half, decimal32, decimal64, decimal128:
		v := k.float(i)
		if math.IsNaN(v) {
			return nil
		}
		r.buf = strconv.AppendFloat(r.buf[:0], v, 'g', -1, 64)
	case C.RF_U64:
		r.buf = strconv.AppendUint(r.buf[:0], *(*uint64)(k.at(i)), 10)
	default:
		r.buf = strconv.AppendInt(r.buf[:0], k.integer(i), 10)
	}
	return r.buf
}

// columnInfo describes an array of rf_table_columns.
type columnInfo struct {
	Name   string   `json:"name"`
	Sort   string   `json:"sort"`
	Levels []string `json:"levels"`
	Unit   int64    `json:"unit"`
}

//export rf_table_columns
func rf_table_columns(arrays *C.rf_array, columns C.rf_string, handle *C.uint64_t, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		var infos []columnInfo
		if err := parse(columns, &infos); err != nil {
			return err
		}
		t := &table{}
		for j := range infos {
			a := &unsafe.Slice(arrays, len(infos))[j]
			if j == 0 {
				t.rows = int64(a.rows)
			}
			c, err := infos[j].column(a)
			if err == nil && int64(a.rows) != t.rows {
				err = fmt.Errorf("%d rows, the first column has %d", int64(a.rows), t.rows)
			}
			if err != nil {
				return &data.InputError{Place: tableName, Column: infos[j].Name,
					Detail: fmt.Sprintf("column %q: %v", infos[j].Name, err)}
			}
			t.names, t.cols = append(t.names, infos[j].Name), append(t.cols, c)
		}
		*handle = put(t)
		return nil
	})
}

// column is an array as a column of one chunk.
func (c *columnInfo) column(a *C.rf_array) (column, error) {
	if err := check(a, "the array"); err != nil {
		return column{}, err
	}
	float := a.dtype == C.RF_F64 || a.dtype == C.RF_F32
	if sizeOf(byte(a.dtype)) == 0 || a.dtype > 127 || a.cols != 1 {
		return column{}, fmt.Errorf("the array is no column of a known type")
	}
	k := chunk{n: int(a.rows), base: a.data, stride: int(a.row_stride), dtype: byte(a.dtype), unit: c.Unit}
	col := column{integer: !float}
	switch c.Sort {
	case "number":
	case "boolean":
		col.sort = boolean
	case "time":
		col.sort = moment
		if c.Unit < 0 || c.Unit > int64(time.Second) {
			return col, fmt.Errorf("a unit of %d nanoseconds, want at most a second", c.Unit)
		}
	case "text":
		col.sort = text
		k.levels = make([][]byte, len(c.Levels))
		for i, l := range c.Levels {
			k.levels[i] = []byte(l)
		}
	default:
		return col, fmt.Errorf("the sort is %q, want number, boolean, text or time", c.Sort)
	}
	if float && col.sort != number {
		return col, fmt.Errorf("a column of %s of floats", c.Sort)
	}
	col.chunks = []chunk{k}
	return col, nil
}

//export rf_table_join
func rf_table_join(left, right C.uint64_t, handle *C.uint64_t, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		a, err := get[*table](left)
		if err != nil {
			return err
		}
		b, err := get[*table](right)
		if err != nil {
			return err
		}
		if a.rows != b.rows {
			return fmt.Errorf("tables of %d and of %d rows cannot be joined: %w", a.rows, b.rows, data.ErrSchema)
		}
		*handle = put(&table{names: slices.Concat(a.names, b.names), cols: slices.Concat(a.cols, b.cols), rows: a.rows})
		return nil
	})
}

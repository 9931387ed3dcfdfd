package main

/*
#include <stdlib.h>
#include "randfeat.h"
static int rf_stream_schema(struct ArrowArrayStream *s, struct ArrowSchema *o) { return s->get_schema(s, o); }
static int rf_stream_next(struct ArrowArrayStream *s, struct ArrowArray *o) { return s->get_next(s, o); }
static const char *rf_stream_error(struct ArrowArrayStream *s) {
	const char *e = s->get_last_error(s);
	return e ? e : "unknown error";
}
static void rf_stream_release(struct ArrowArrayStream *s) { if (s->release) s->release(s); }
static void rf_schema_release(struct ArrowSchema *s) { if (s->release) s->release(s); }
static void rf_array_release(struct ArrowArray *a) { if (a->release) a->release(a); }
static struct ArrowSchema *rf_schema_child(struct ArrowSchema *s, int64_t i) { return s->children[i]; }
static struct ArrowArray *rf_array_child(struct ArrowArray *a, int64_t i) { return a->children[i]; }
static void *rf_array_buffer(struct ArrowArray *a, int64_t i) { return (void *)a->buffers[i]; }
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/randfeat/randfeat/data"
)

//export rf_table_arrow
func rf_table_arrow(s *C.struct_ArrowArrayStream, handle *C.uint64_t, info, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		if s == nil || s.release == nil {
			return errors.New("the Arrow stream is missing or was released")
		}
		defer C.rf_stream_release(s)
		t, err := readStream(s)
		if err != nil {
			if t != nil {
				t.release()
			}
			return err
		}
		if err := giveJSON(info, map[string]any{"rows": t.src.Rows(), "columns": t.src.Columns()}); err != nil {
			t.release()
			return err
		}
		*handle = put(t)
		return nil
	})
}

// readStream reads a stream to its end and keeps its arrays, whose memory the columns share. After an error the
// caller must release the table too, if there is one.
func readStream(s *C.struct_ArrowArrayStream) (*table, error) {
	schema := (*C.struct_ArrowSchema)(C.calloc(1, C.sizeof_struct_ArrowSchema))
	defer C.free(unsafe.Pointer(schema))
	if C.rf_stream_schema(s, schema) != 0 {
		return nil, fmt.Errorf("Arrow stream: %s", C.GoString(C.rf_stream_error(s)))
	}
	defer C.rf_schema_release(schema)
	if f := C.GoString(schema.format); f != "+s" {
		return nil, fmt.Errorf("the Arrow stream holds arrays of format %q, want tables", f)
	}
	n := int(schema.n_children)
	names, cells, forms := make([]string, n), make([][]data.Cells, n), make([]form, n)
	for j := range n {
		c := C.rf_schema_child(schema, C.int64_t(j))
		names[j] = C.GoString(c.name)
		var err error
		if forms[j], err = formOf(c); err != nil {
			return nil, columnError(names[j], err)
		}
	}
	var keep []*C.struct_ArrowArray
	fail := func(err error) (*table, error) { return &table{keep: keep}, err }
	for {
		a := (*C.struct_ArrowArray)(C.calloc(1, C.sizeof_struct_ArrowArray))
		if C.rf_stream_next(s, a) != 0 {
			C.free(unsafe.Pointer(a))
			return fail(fmt.Errorf("Arrow stream: %s", C.GoString(C.rf_stream_error(s))))
		}
		if a.release == nil {
			C.free(unsafe.Pointer(a))
			break
		}
		keep = append(keep, a)
		for j := range n {
			part, err := forms[j].cells(C.rf_array_child(a, C.int64_t(j)), int(a.offset), int(a.length))
			if err != nil {
				return fail(columnError(names[j], err))
			}
			cells[j] = append(cells[j], part)
		}
	}
	for j := range n {
		if len(cells[j]) == 0 { // no batches: the column still has a type
			part, err := forms[j].cells(&C.struct_ArrowArray{}, 0, 0)
			if err != nil {
				return fail(columnError(names[j], err))
			}
			cells[j] = []data.Cells{part}
		}
	}
	t, err := newTable(names, cells)
	if err != nil {
		return fail(err)
	}
	t.keep = keep
	return t, nil
}

// release gives the arrays of a stream back to their producer.
func (t *table) release() {
	for _, a := range t.keep {
		C.rf_array_release(a)
		C.free(unsafe.Pointer(a))
	}
	t.keep = nil
}

// form is the type of a column.
type form struct {
	dtype byte
	unit  time.Duration // unit of times
	scale float64       // divisor of decimals
	texts *form         // type of the levels of a dictionary
}

// Types of Arrow that randfeat.h does not have.
const (
	half       = 'e'
	bits       = 'm' // booleans, one bit each
	utf8       = 's' // with offsets of 32 bits
	utf8Large  = 'S' // with offsets of 64 bits
	utf8View   = 'v'
	decimal32  = '4'
	decimal64  = '8'
	decimal128 = 'D'
	nothing    = 'n' // all values are missing
)

var simpleForms = map[string]form{
	"n": {dtype: nothing},
	"g": {dtype: C.RF_F64}, "f": {dtype: C.RF_F32}, "e": {dtype: half},
	"c": {dtype: C.RF_I8}, "C": {dtype: C.RF_U8},
	"s": {dtype: C.RF_I16}, "S": {dtype: C.RF_U16},
	"i": {dtype: C.RF_I32}, "I": {dtype: C.RF_U32},
	"l": {dtype: C.RF_I64}, "L": {dtype: C.RF_U64},
	"b": {dtype: bits},
	"u": {dtype: utf8}, "U": {dtype: utf8Large}, "vu": {dtype: utf8View},
	"tdD": {dtype: C.RF_I32, unit: 24 * time.Hour},
	"tdm": {dtype: C.RF_I64, unit: time.Millisecond},
}

var units = map[string]time.Duration{"tss": time.Second, "tsm": time.Millisecond, "tsu": time.Microsecond, "tsn": 1}

func (f *form) isText() bool { return f.dtype == utf8 || f.dtype == utf8Large || f.dtype == utf8View }

// formOf returns the form of a column, from the format string of its schema.
func formOf(s *C.struct_ArrowSchema) (form, error) {
	f := C.GoString(s.format)
	o, ok := simpleForms[f]
	head, _, _ := strings.Cut(f, ":")
	switch unit, timestamp := units[head]; {
	case ok:
	case timestamp:
		o = form{dtype: C.RF_I64, unit: unit}
	case head == "d":
		var err error
		if o, err = decimal(f); err != nil {
			return o, err
		}
	default:
		return o, fmt.Errorf("its Arrow type %q is none of numbers, truth values, texts, dates and times: convert it or "+
			"leave it out", f)
	}
	if s.dictionary != nil {
		d, err := formOf(s.dictionary)
		switch {
		case err != nil:
			return o, err
		case !d.isText() || d.texts != nil:
			return o, fmt.Errorf("it is a dictionary of Arrow type %q, want texts", C.GoString(s.dictionary.format))
		}
		o.texts = &d
	}
	return o, nil
}

// decimal parses the format d:precision,scale[,bits].
func decimal(f string) (form, error) {
	parts := strings.Split(strings.TrimPrefix(f, "d:"), ",")
	o := form{dtype: decimal128}
	err := fmt.Errorf("its Arrow type %q is not a decimal of at most 128 bits", f)
	if len(parts) < 2 || len(parts) > 3 {
		return o, err
	}
	scale, bad := strconv.Atoi(parts[1])
	if bad != nil {
		return o, err
	}
	if len(parts) == 3 {
		var known bool
		if o.dtype, known = map[string]byte{"32": decimal32, "64": decimal64, "128": decimal128}[parts[2]]; !known {
			return o, err
		}
	}
	o.scale = math.Pow10(scale)
	return o, nil
}

// cells converts n rows of a child of a table's array, from row extra on. Numbers, booleans and the characters of
// texts are not copied; other types are converted.
func (f *form) cells(a *C.struct_ArrowArray, extra, n int) (data.Cells, error) {
	at := int(a.offset) + extra
	var valid data.Bits
	if p := buffer(a, 0); n > 0 && a.null_count != 0 && p != nil && f.dtype != nothing {
		valid = bitsOf(p, at, n)
	}
	c := data.Cells{Valid: valid, Unit: f.unit}
	p := buffer(a, 1)
	switch f.dtype {
	case nothing:
		c.Values = repeat(math.NaN(), n)
	case bits:
		c.Values = bitsOf(p, at, n)
	case utf8:
		c.Values = offsetTexts[int32](p, buffer(a, 2), at, n, valid)
	case utf8Large:
		c.Values = offsetTexts[int64](p, buffer(a, 2), at, n, valid)
	case utf8View:
		c.Values = viewTexts(a, at, n, valid)
	case half:
		c.Values = convert(p, at, n, halfFloat)
	case decimal32:
		c.Values = convert(p, at, n, func(v int32) float64 { return float64(v) / f.scale })
	case decimal64:
		c.Values = convert(p, at, n, func(v int64) float64 { return float64(v) / f.scale })
	case decimal128:
		c.Values = convert(p, at, n, func(v [2]uint64) float64 { return decimalFloat(v) / f.scale })
	default:
		array := C.rf_array{rows: C.int64_t(n), cols: 1, dtype: C.int32_t(f.dtype)}
		array.row_stride = C.int64_t(f.size())
		if n > 0 {
			array.data = unsafe.Add(p, at*f.size())
		}
		v, err := numbers(&array, 0)
		if err != nil {
			return c, err
		}
		c.Values, c.Stride = v.Values, v.Stride
	}
	if f.texts == nil {
		return c, nil
	}
	return c, f.dictionary(&c, a, n)
}

// dictionary turns the integers of a column into codes of its levels.
func (f *form) dictionary(c *data.Cells, a *C.struct_ArrowArray, n int) error {
	c.Levels = []string{}
	if a.dictionary == nil {
		return nil
	}
	d, err := f.texts.cells(a.dictionary, 0, int(a.dictionary.length))
	if err != nil {
		return err
	}
	c.Levels = d.Values.([]string)
	if d.Valid.Bytes == nil {
		return nil
	}
	// A level itself may be missing; then all cells with its code are.
	missing := make([]bool, n)
	for i := range missing {
		l := code(c.Values, i)
		missing[i] = c.Valid.Bytes != nil && !c.Valid.At(i) || l >= 0 && l < int64(len(c.Levels)) && !d.Valid.At(int(l))
	}
	c.Valid, c.Missing = data.Bits{}, missing
	return nil
}

// code returns element i of a slice of integers.
func code(v any, i int) int64 {
	switch v := v.(type) {
	case []int8:
		return int64(v[i])
	case []uint8:
		return int64(v[i])
	case []int16:
		return int64(v[i])
	case []uint16:
		return int64(v[i])
	case []int32:
		return int64(v[i])
	case []uint32:
		return int64(v[i])
	case []int64:
		return v[i]
	}
	return -1
}

// size returns the bytes of an element, for the types of randfeat.h.
func (f *form) size() int {
	switch f.dtype {
	case C.RF_I8, C.RF_U8, C.RF_BOOL:
		return 1
	case C.RF_I16, C.RF_U16:
		return 2
	case C.RF_I32, C.RF_U32, C.RF_F32:
		return 4
	}
	return 8
}

// buffer returns buffer i of an array, or nil.
func buffer(a *C.struct_ArrowArray, i int) unsafe.Pointer {
	if i >= int(a.n_buffers) {
		return nil
	}
	return C.rf_array_buffer(a, C.int64_t(i))
}

func bitsOf(p unsafe.Pointer, at, n int) data.Bits {
	if n == 0 {
		return data.Bits{Bytes: []byte{}}
	}
	return data.Bits{Bytes: unsafe.Slice((*byte)(p), (at+n+7)/8), Offset: at, Len: n}
}

func repeat(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// convert converts n elements to float64, from element at on. Elements need not be aligned.
func convert[T any](p unsafe.Pointer, at, n int, f func(T) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		var v T
		size := int(unsafe.Sizeof(v))
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), size), unsafe.Slice((*byte)(unsafe.Add(p, (at+i)*size)), size))
		out[i] = f(v)
	}
	return out
}

// halfFloat converts a float16: 1 bit of sign, 5 of exponent, 10 of mantissa.
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

// decimalFloat converts a signed integer of 128 bits, low word first.
func decimalFloat(v [2]uint64) float64 {
	if v[1] == uint64(int64(v[0])>>63) { // fits into 64 bits
		return float64(int64(v[0]))
	}
	return float64(int64(v[1]))*(1<<64) + float64(v[0])
}

// offsetTexts returns texts given by offsets. Offsets of missing cells are not used.
func offsetTexts[T int32 | int64](p, chars unsafe.Pointer, at, n int, valid data.Bits) []string {
	out := make([]string, n)
	if n == 0 {
		return out
	}
	offsets := unsafe.Slice((*T)(p), at+n+1)[at:]
	for i := range out {
		if valid.Bytes == nil || valid.At(i) {
			out[i] = textAt(unsafe.Add(chars, int(offsets[i])), int(offsets[i+1]-offsets[i]))
		}
	}
	return out
}

// viewTexts returns texts given by views of 16 bytes. A view has a length, then either up to 12 characters, or 4 of
// them, the index of a buffer and an offset into it.
func viewTexts(a *C.struct_ArrowArray, at, n int, valid data.Bits) []string {
	out := make([]string, n)
	for i := range out {
		if valid.Bytes != nil && !valid.At(i) {
			continue
		}
		v := (*[4]int32)(unsafe.Add(buffer(a, 1), (at+i)*16))
		p := unsafe.Pointer(&v[1])
		if v[0] > 12 {
			p = unsafe.Add(buffer(a, 2+int(v[2])), int(v[3]))
		}
		out[i] = textAt(p, int(v[0]))
	}
	return out
}

func textAt(p unsafe.Pointer, n int) string {
	if n <= 0 {
		return ""
	}
	return unsafe.String((*byte)(p), n)
}

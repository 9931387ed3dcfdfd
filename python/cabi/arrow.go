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
		if err := giveJSON(info, map[string]any{"rows": t.rows, "columns": t.names}); err != nil {
			t.release()
			return err
		}
		*handle = put(t)
		return nil
	})
}

// readStream keeps the arrays of a stream; after an error the table is to be released too.
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
	t := &table{cols: make([]column, n)}
	forms := make([]form, n)
	for j := range n {
		c := C.rf_schema_child(schema, C.int64_t(j))
		t.names = append(t.names, C.GoString(c.name))
		var err error
		if forms[j], err = formOf(c); err != nil {
			return t, &data.InputError{Place: tableName, Column: t.names[j],
				Detail: fmt.Sprintf("column %q: %v", t.names[j], err)}
		}
		t.cols[j].sort, t.cols[j].integer = forms[j].sort, forms[j].integer
	}
	for {
		a := (*C.struct_ArrowArray)(C.calloc(1, C.sizeof_struct_ArrowArray))
		if C.rf_stream_next(s, a) != 0 {
			C.free(unsafe.Pointer(a))
			return t, fmt.Errorf("Arrow stream: %s", C.GoString(C.rf_stream_error(s)))
		}
		if a.release == nil {
			C.free(unsafe.Pointer(a))
			return t, nil
		}
		t.keep = append(t.keep, a)
		t.rows += int64(a.length)
		for j := range n {
			child := C.rf_array_child(a, C.int64_t(j))
			t.cols[j].chunks = append(t.cols[j].chunks, chunkOf(&forms[j], child, int(a.offset), int(a.length)))
		}
	}
}

// release gives the arrays of a stream back.
func (t *table) release() {
	for _, a := range t.keep {
		C.rf_array_release(a)
		C.free(unsafe.Pointer(a))
	}
	t.keep = nil
}

// form is the type of a column.
type form struct {
	sort    sort
	dtype   byte
	integer bool
	unit    int64
	scale   float64
	levels  *form // of a dictionary
}

var simpleForms = map[string]form{
	"n": {dtype: nothing},
	"g": {dtype: C.RF_F64}, "f": {dtype: C.RF_F32}, "e": {dtype: half},
	"c": {dtype: C.RF_I8, integer: true}, "C": {dtype: C.RF_U8, integer: true},
	"s": {dtype: C.RF_I16, integer: true}, "S": {dtype: C.RF_U16, integer: true},
	"i": {dtype: C.RF_I32, integer: true}, "I": {dtype: C.RF_U32, integer: true},
	"l": {dtype: C.RF_I64, integer: true}, "L": {dtype: C.RF_U64, integer: true},
	"b": {sort: boolean, dtype: bits},
	"u": {sort: text, dtype: utf8}, "U": {sort: text, dtype: utf8Large}, "vu": {sort: text, dtype: utf8View},
	"tdD": {sort: moment, dtype: C.RF_I32},
	"tdm": {sort: moment, dtype: C.RF_I64, unit: int64(time.Millisecond)},
}

var units = map[string]int64{"tss": int64(time.Second), "tsm": int64(time.Millisecond), "tsu": int64(time.Microsecond),
	"tsn": 1}

func formOf(s *C.struct_ArrowSchema) (form, error) {
	f := C.GoString(s.format)
	o, ok := simpleForms[f]
	head, _, _ := strings.Cut(f, ":")
	switch unit, timestamp := units[head]; {
	case ok:
	case timestamp:
		o = form{sort: moment, dtype: C.RF_I64, unit: unit}
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
		case d.sort != text || d.levels != nil:
			return o, fmt.Errorf("it is a dictionary of Arrow type %q, want texts", C.GoString(s.dictionary.format))
		}
		o.sort, o.integer, o.levels = text, false, &d
	}
	return o, nil
}

// decimal reads d:precision,scale[,bits].
func decimal(f string) (form, error) {
	parts := strings.Split(strings.TrimPrefix(f, "d:"), ",")
	o := form{dtype: decimal128}
	err := fmt.Errorf("its Arrow type %q is no decimal of at most 128 bits", f)
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

// chunkOf is a child of a table's array. Rows of the table begin at row extra of the child.
func chunkOf(f *form, a *C.struct_ArrowArray, extra, n int) chunk {
	offset := int(a.offset) + extra
	k := chunk{n: n, dtype: f.dtype, stride: sizeOf(f.dtype), unit: f.unit, scale: f.scale, offset: offset}
	if f.dtype == nothing || n == 0 {
		return k
	}
	if a.null_count != 0 {
		k.valid = C.rf_array_buffer(a, 0)
	}
	k.base = C.rf_array_buffer(a, 1)
	if f.dtype != bits {
		k.base = unsafe.Add(k.base, offset*k.stride)
	}
	switch {
	case f.levels != nil:
	case f.dtype == utf8 || f.dtype == utf8Large:
		k.chars = C.rf_array_buffer(a, 2)
	case f.dtype == utf8View: // the last buffer holds their lengths
		for i := 2; i < int(a.n_buffers)-1; i++ {
			k.bufs = append(k.bufs, C.rf_array_buffer(a, C.int64_t(i)))
		}
	}
	if f.levels != nil {
		d := chunkOf(f.levels, a.dictionary, 0, int(a.dictionary.length))
		k.levels = make([][]byte, d.n)
		for i := range d.n {
			k.levels[i] = d.text(i)
		}
	}
	return k
}

package main

// #include "randfeat.h"
import "C"

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/randfeat/randfeat/data"
)

// table is a [data.Columns] that reads the caller's memory.
type table struct {
	src   *data.Columns
	cells [][]data.Cells         // by column, for rf_table_join
	keep  []*C.struct_ArrowArray // Arrow arrays to release with the table
}

const tableName = "table"

// newTable makes a table of columns, each given in one or more parts.
func newTable(names []string, cells [][]data.Cells) (*table, error) {
	t := &table{src: data.NewColumns(tableName), cells: cells}
	for j, name := range names {
		if err := t.src.Add(name, cells[j]...); err != nil {
			return t, err
		}
	}
	return t, nil
}

// columnError returns the error for a column that cannot be used.
func columnError(name string, err error) error {
	return &data.InputError{Place: tableName, Column: name, Detail: fmt.Sprintf("column %q: %v", name, err)}
}

// whole is the constraint of integer types.
type whole interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// values returns column j of an array: a slice of the array's memory and the distance of its elements. It returns a
// copy if Go cannot read the elements in place because they are unaligned, repeated or in reverse order.
func values[T whole | float32 | float64](a *C.rf_array, j int) (v []T, stride int) {
	var t T
	size, step, n := int(unsafe.Sizeof(t)), int(a.row_stride), int(a.rows)
	if n == 0 {
		return []T{}, 1
	}
	p := unsafe.Add(a.data, j*int(a.col_stride))
	if n == 1 {
		step = size
	}
	if step > 0 && step%size == 0 && uintptr(p)%uintptr(size) == 0 {
		return unsafe.Slice((*T)(p), (n-1)*(step/size)+1), step / size
	}
	v = make([]T, n)
	for i := range v {
		to := unsafe.Slice((*byte)(unsafe.Pointer(&v[i])), size)
		copy(to, unsafe.Slice((*byte)(unsafe.Add(p, i*step)), size))
	}
	return v, 1
}

// numbers returns column j of an array as cells.
func numbers(a *C.rf_array, j int) (c data.Cells, err error) {
	switch a.dtype {
	case C.RF_F64:
		c.Values, c.Stride = values[float64](a, j)
	case C.RF_F32:
		c.Values, c.Stride = values[float32](a, j)
	case C.RF_I64:
		c.Values, c.Stride = values[int64](a, j)
	case C.RF_U64:
		c.Values, c.Stride = values[uint64](a, j)
	case C.RF_I32:
		c.Values, c.Stride = values[int32](a, j)
	case C.RF_U32:
		c.Values, c.Stride = values[uint32](a, j)
	case C.RF_I16:
		c.Values, c.Stride = values[int16](a, j)
	case C.RF_U16:
		c.Values, c.Stride = values[uint16](a, j)
	case C.RF_I8:
		c.Values, c.Stride = values[int8](a, j)
	case C.RF_U8, C.RF_BOOL:
		c.Values, c.Stride = values[uint8](a, j)
	default:
		err = fmt.Errorf("the array is of no known type")
	}
	return c, err
}

// booleans converts cells of bytes to booleans.
func booleans(c data.Cells) (data.Cells, error) {
	switch v := c.Values.(type) {
	case []uint8: // NumPy's booleans
		b := make([]bool, 0, len(v)/c.Stride+1)
		for i := 0; i < len(v); i += c.Stride {
			b = append(b, v[i] != 0)
		}
		return data.Cells{Values: b}, nil
	}
	return c, fmt.Errorf("truth values of type %T, want RF_BOOL or RF_U8", c.Values)
}

// columnInfo describes an array passed to rf_table_columns.
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
		names, cells := make([]string, len(infos)), make([][]data.Cells, len(infos))
		for j := range infos {
			c, err := infos[j].cells(&unsafe.Slice(arrays, len(infos))[j])
			if err != nil {
				return columnError(infos[j].Name, err)
			}
			names[j], cells[j] = infos[j].Name, []data.Cells{c}
		}
		t, err := newTable(names, cells)
		if err != nil {
			return err
		}
		*handle = put(t)
		return nil
	})
}

// cells returns an array as the cells of a column.
func (c *columnInfo) cells(a *C.rf_array) (data.Cells, error) {
	if err := check(a, "the array"); err != nil {
		return data.Cells{}, err
	}
	if a.cols != 1 {
		return data.Cells{}, fmt.Errorf("the array has %d columns, want one", int64(a.cols))
	}
	out, err := numbers(a, 0)
	if err != nil {
		return out, err
	}
	if float := a.dtype == C.RF_F64 || a.dtype == C.RF_F32; float && c.Sort != "number" {
		return out, fmt.Errorf("a column of %s of floats", c.Sort)
	}
	switch c.Sort {
	case "number":
	case "boolean":
		return booleans(out)
	case "time":
		if out.Unit = time.Duration(c.Unit); c.Unit == 0 {
			out.Unit = 24 * time.Hour
		}
	case "text":
		if out.Levels = c.Levels; out.Levels == nil {
			out.Levels = []string{}
		}
	default:
		return out, fmt.Errorf("the sort is %q, want number, boolean, text or time", c.Sort)
	}
	return out, nil
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
		if a.src.Rows() != b.src.Rows() {
			return fmt.Errorf("tables of %d and of %d rows cannot be joined: %w", a.src.Rows(), b.src.Rows(),
				data.ErrSchema)
		}
		names := slices.Concat(a.src.Columns(), b.src.Columns())
		t, err := newTable(names, slices.Concat(a.cells, b.cells))
		if err != nil {
			return err
		}
		*handle = put(t)
		return nil
	})
}

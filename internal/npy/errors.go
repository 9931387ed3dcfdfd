// Package npy reads and writes arrays: npy files, and tensors of safetensors files. A damaged file gives an
// [Error] that names the fault. A reader never allocates more than the file can fill.
//
// [Read] and [ReadFile] read a matrix, [ReadTensor] an array of any shape, [ReadAny] and [ReadAnyTensor] also
// file.safetensors:name. [WriteFile] writes a matrix in one step, [Writer] row by row. header.go parses
// headers, decode.go elements, safetensors.go the other format. The format is that of numpy.lib.format.
package npy

import (
	"errors"
	"fmt"
)

// ErrFormat marks every error about the contents of an npy file. Use errors.As with *[Error] to get the fault.
var ErrFormat = errors.New("not a usable npy file")

// Fault is the kind of an error in an npy file.
type Fault string

// The faults.
const (
	FaultFormat    Fault = "format"    // no npy magic, unknown version, header that cannot be parsed
	FaultHeader    Fault = "header"    // header longer than any legitimate one
	FaultDType     Fault = "dtype"     // elements of a type that the caller cannot use
	FaultShape     Fault = "shape"     // a number of dimensions that the caller cannot use
	FaultOverflow  Fault = "overflow"  // the product of the shape does not fit in memory, or an element not in int64
	FaultTruncated Fault = "truncated" // less data than the shape promises
	FaultTrailing  Fault = "trailing"  // more data than the shape promises
)

// Error describes an error in an npy file and the bytes found there.
type Error struct {
	Fault  Fault
	Detail string
}

// Error returns the fault and the detail.
func (e *Error) Error() string { return fmt.Sprintf("%v (%s): %s", ErrFormat, e.Fault, e.Detail) }

// Is makes errors.Is(err, ErrFormat) true.
func (e *Error) Is(target error) bool { return target == ErrFormat }

// Errorf returns an [Error].
func Errorf(f Fault, format string, args ...any) error {
	return &Error{Fault: f, Detail: fmt.Sprintf(format, args...)}
}

// CheckSize compares the number of bytes after the header with the shape.
func CheckSize(h Header, have int64) error {
	want := int64(h.Elements()) * int64(h.Width)
	switch {
	case have < want:
		return Errorf(FaultTruncated, "%s elements %s need %d bytes, the file holds %d", h.Dims(), h.descr, want, have)
	case have > want:
		return Errorf(FaultTrailing, "%d bytes follow the %s array", have-want, h.Dims())
	}
	return nil
}

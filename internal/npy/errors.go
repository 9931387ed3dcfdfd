// Package npy reads and writes arrays: npy files, and the float tensors of safetensors files. A damaged file gives an
// [Error] that names the fault. A reader never allocates more than the file can fill.
package npy

import (
	"errors"
	"fmt"
)

// ErrFormat marks every error about the contents of an npy file. Use errors.As with *Error to get the fault.
var ErrFormat = errors.New("not a usable npy file")

// Fault says what is wrong with an npy file.
type Fault string

// The faults.
const (
	FaultFormat    Fault = "format"    // no npy magic, unknown version, header that cannot be parsed
	FaultHeader    Fault = "header"    // header longer than any honest one
	FaultDType     Fault = "dtype"     // elements of a type that the caller cannot use
	FaultShape     Fault = "shape"     // a number of dimensions that the caller cannot use
	FaultOverflow  Fault = "overflow"  // the product of the shape does not fit in memory, or an element not in int64
	FaultTruncated Fault = "truncated" // less data than the shape promises
	FaultTrailing  Fault = "trailing"  // more data than the shape promises
)

// Error says what is wrong with an npy file and what was found.
type Error struct {
	Fault  Fault
	Detail string
}

// Error names the fault and what was found.
func (e *Error) Error() string { return fmt.Sprintf("%v (%s): %s", ErrFormat, e.Fault, e.Detail) }

// Is makes errors.Is(err, ErrFormat) true.
func (e *Error) Is(target error) bool { return target == ErrFormat }

// Errorf returns an [Error].
func Errorf(f Fault, format string, args ...any) error {
	return &Error{Fault: f, Detail: fmt.Sprintf(format, args...)}
}

// CheckSize compares the bytes that follow the header with those the shape promises.
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
